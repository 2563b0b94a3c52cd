import type { FastifyReply, FastifyRequest } from 'fastify';
import { isLoopback } from '../config/config.js';
import { AppError } from '../errors.js';

/** Which requests of a browser the dashboard accepts: those of its own pages, under its own name. */

/** Headers of every answer below /dashboard. No other page may show it, hold a window of it, or learn its address. */
export function setPageHeaders(reply: FastifyReply): void {
  reply.headers({
    'x-frame-options': 'DENY',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
  });
}

/** The name of the machine in a Host header, without its port. */
export function hostnameOf(host = ''): string {
  return host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
}

export interface Place {
  /** The address on which the service listens. */
  readonly host: string;
  readonly publicUrl: string | null;
}

/**
 * Refuses a request under another name than the service has. On a loopback address a page of another site could else give its own
 * name that address (DNS rebinding), and count as the same origin.
 */
export function requireOwnName({ headers }: FastifyRequest, { host, publicUrl }: Place): void {
  const name = hostnameOf(headers.host);
  if (!isLoopback(host) || isLoopback(name)) return;
  if (publicUrl !== null && new URL(publicUrl).host === headers.host) return;
  throw new AppError(
    'FORBIDDEN',
    'The dashboard of a service on a loopback address is reached as 127.0.0.1 or localhost, or as PUBLIC_URL says.',
  );
}

/**
 * Whether a page of another origin may have sent the request. Browsers say where it comes from (Sec-Fetch-Site); older ones
 * name the origin of a POST. `none` is an address that a person has typed in.
 */
export function isForeign({ method, headers }: FastifyRequest): boolean {
  const site = headers['sec-fetch-site'];
  const isRead = method === 'GET' || method === 'HEAD';
  if (site !== undefined) return !(site === 'same-origin' || (isRead && site === 'none'));
  if (headers.origin !== undefined) return !isOwnOrigin(headers.origin, headers.host);
  return !isRead;
}

function isOwnOrigin(origin: string, host: string | undefined): boolean {
  return URL.canParse(origin) && new URL(origin).host === host;
}
