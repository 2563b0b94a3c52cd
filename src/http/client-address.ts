import type { IncomingHttpHeaders } from 'node:http';
import { BlockList, isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/* The address of a client: that of its connection, or what the proxies name that TRUST_PROXY trusts. */

/** The addresses of a request, as Fastify reads them by `trustedProxies`. */
export interface Addresses {
  /** The address of the connection; undefined once that has ended. */
  readonly ip: string | undefined;
  /** With TRUST_PROXY: from the connection on, up to the first one that is not a trusted proxy. */
  readonly ips?: readonly (string | undefined)[] | undefined;
}

/** An IPv6 address with a zone, brackets and a port is shorter. */
const MAX_LENGTH = 100;
/** A few proxies add the port of the client. */
const WITH_PORT = /^(?:\[([^\]]*)\]|([\d.]+))(?::\d{1,5})?$/;

/** Reads an address: without brackets, port and zone, in one spelling, and as IPv4 where IPv6 only wraps it. Null for other text. */
export function readAddress(text = ''): string | null {
  if (text.length > MAX_LENGTH) return null;
  const [, ipv6, ipv4] = WITH_PORT.exec(text) ?? [];
  const [address = ''] = (ipv6 ?? ipv4 ?? text).split('%', 1);
  if (!isIPv6(address)) return isIPv4(address) ? address : null;
  // In the canonical form, with all groups in hexadecimal: ipaddr takes ::8.8.8.8 for an address that maps IPv4.
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const parsed = ipaddr.IPv6.parse(canonical);
  return parsed.isIPv4MappedAddress() ? parsed.toIPv4Address().toString() : canonical;
}

const familyOf = (address: string) => (isIPv4(address) ? 'ipv4' : 'ipv6');

/** Tells Fastify which addresses are those of proxies, by their number from the connection on. Text that is no address never is one. */
export function trustedProxies(
  trust: boolean | number | readonly string[],
): false | ((text: string, hop: number) => boolean) {
  if (trust === false) return false;
  const networks = new BlockList();
  for (const network of typeof trust === 'object' ? trust : []) {
    const [address = '', bits = isIPv4(address) ? '32' : '128'] = network.split('/');
    networks.addSubnet(address, Number(bits), familyOf(address));
  }
  return (text, hop) => {
    const address = readAddress(text);
    if (address === null) return false;
    return typeof trust === 'object' ? networks.check(address, familyOf(address)) : trust === true || hop < trust;
  };
}

/** The address of a client. A proxy that names no address of its client is taken for the client. */
export function clientAddress({ ip, ips = [ip] }: Addresses): string {
  return readAddress(ips.at(-1)) ?? readAddress(ips.at(-2)) ?? '';
}

/** The groups of an IPv6 address that name its /64. */
const NETWORK_GROUPS = 4;

/** The network whose failures are counted together: an IPv4 address or the /64 of an IPv6 address, which one machine can use as a whole. */
export function clientNetwork(addresses: Addresses): string {
  const address = clientAddress(addresses);
  if (!isIPv6(address)) return address;
  const groups = ipaddr.IPv6.parse(address).parts.slice(0, NETWORK_GROUPS);
  return groups.map((group) => group.toString(16)).join(':');
}

/** Headers that proxies add. */
const PROXY_HEADER = /^(forwarded|via|x-real-ip|x-forwarded.*)$/;

/** Tells whether a proxy has passed a request on. */
export function isThroughProxy(headers: IncomingHttpHeaders): boolean {
  return Object.keys(headers).some((name) => PROXY_HEADER.test(name));
}

/** Tells whether a client is on the machine of the service. */
export function isOnThisMachine(addresses: Addresses): boolean {
  return isLoopback(clientAddress(addresses));
}

/** Tells whether an address, in the spelling of `readAddress`, is one that only this machine has. */
export function isLoopback(address: string): boolean {
  return /^127\.|^::1$/.test(address);
}

/** The name of the machine in a Host header, without its port. */
export function hostnameOf(host = ''): string {
  return host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
}
