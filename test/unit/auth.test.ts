import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RefusedCredentials } from '#dist/domain/projects.js';
import type { AppError } from '#dist/errors.js';
import { UNAUTHENTICATED } from '#dist/http/admission.js';
import { type Caller, createAuthenticate } from '#dist/http/authentication.js';
import { clientAddress, clientNetwork, trustedProxies } from '#dist/http/client-address.js';
import type { Projects } from '#dist/projects/projects.js';

const networkOf = (ip: string | undefined) => clientNetwork({ ip });

describe('authentication failures are counted together', () => {
  test.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::FFFF:c000:207', '192.0.2.7'],
    ['0:0:0:0:0:ffff:192.0.2.7', '192.0.2.7'],
    ['::ffff:0.0.0.1', '0.0.0.1'],
    ['2001:db8::1', '2001:db8:0:0'],
    ['2001:0DB8:0000:0000:ffff:ffff:ffff:ffff', '2001:db8:0:0'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:db8:1:2::', '2001:db8:1:2'],
    ['::1', '0:0:0:0'],
    ['::', '0:0:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
    ['192.0.2.7:51234', '192.0.2.7'],
    ['[192.0.2.7]:51234', '192.0.2.7'],
    ['[::ffff:192.0.2.7]:51234', '192.0.2.7'],
    ['[2001:db8:1:2::7]', '2001:db8:1:2'],
    ['[2001:db8:1:2::7]:443', '2001:db8:1:2'],
    ['[fe80::1%eth0]:443', 'fe80:0:0:0'],
    ['unknown', ''],
    ['_hidden', ''],
    ['', ''],
    ['1::2::3', ''],
    ['192.0.2.7:', ''],
    ['192.0.2.7:123456', ''],
    ['192.0.2.07', ''],
    ['192.0.2', ''],
    ['[192.0.2.7', ''],
    ['http://192.0.2.7', ''],
    [`fe80::1%${'a'.repeat(16_000)}`, ''],
    [undefined, ''],
  ])('for %s as %s', (ip, network) => {
    expect(networkOf(ip)).toBe(network);
  });

  test('for all addresses of an IPv6 /64 network in any spelling, and for no others', () => {
    const group = fc.integer({ min: 0, max: 0xffff });
    const half = fc.tuple(group, group, group, group);
    const write = (groups: readonly number[], padded: boolean) =>
      groups.map((each) => each.toString(16).padStart(padded ? 4 : 1, '0')).join(':');
    fc.assert(
      fc.property(half, half, half, half, (network, host, otherHost, otherNetwork) => {
        // All zeros are the first bits of an IPv4-mapped address.
        fc.pre(network.some((each) => each > 0) && otherNetwork.some((each) => each > 0));
        const counted = networkOf(write([...network, ...host], true));
        expect(counted).toBe(write(network, false));
        expect(networkOf(write([...network, ...otherHost], false).toUpperCase())).toBe(counted);
        const isSame = write(network, false) === write(otherNetwork, false);
        expect(networkOf(write([...otherNetwork, ...host], false)) === counted).toBe(isSame);
      }),
    );
  });
});

describe('the client is', () => {
  const PEER = '10.0.0.1';
  /** As Fastify reads the addresses: it asks for each but the last one whether it is a trusted proxy. */
  function clientBehind(trust: boolean | number | string[], ...forwarded: string[]): string {
    const isTrusted = trustedProxies(trust) || (() => false);
    const addresses = [PEER, ...forwarded.toReversed()];
    const end = addresses.findIndex((address, hop) => !isTrusted(address, hop));
    return clientAddress({ ip: PEER, ips: end === -1 ? addresses : addresses.slice(0, end + 1) });
  }

  test.each([
    ['the connection without trust', false, ['192.0.2.7'], PEER],
    ['what the proxy names', true, ['192.0.2.7:5123'], '192.0.2.7'],
    ['the first of all where all are trusted', true, ['192.0.2.7', '10.0.0.2'], '192.0.2.7'],
    ['the last one that is no proxy', ['10.0.0.0/8'], ['192.0.2.9', '192.0.2.7', '10.0.0.2:443'], '192.0.2.7'],
    ['an address as many hops away', 2, ['192.0.2.9', '192.0.2.7', '10.0.0.2'], '192.0.2.7'],
    ['the proxy that names no address', true, ['unknown'], PEER],
    ['the nearest one beside text', true, ['192.0.2.7', 'text', '10.0.0.2'], '10.0.0.2'],
    ['the nearest one that is a proxy', ['10.0.0.0/8'], ['192.0.2.7', 'text', '10.0.0.2'], '10.0.0.2'],
    ['the nearest one within the hops', 3, ['192.0.2.7', 'text', '10.0.0.2'], '10.0.0.2'],
    ['behind a proxy whose IPv4 is written as IPv6', ['10.0.0.1'], ['192.0.2.7'], '192.0.2.7'],
    ['behind every proxy of a network of no bits', ['0.0.0.0/0', '::/0'], ['2001:db8::7'], '2001:db8::7'],
  ])('%s', (_name, trust, forwarded, client) => {
    expect(clientBehind(trust, ...forwarded)).toBe(client);
  });
});

test('a failure counts for the address of its caller, also when the connection has ended by the time it is known', async () => {
  const refuse = () =>
    Promise.reject(
      new RefusedCredentials(
        'wrong_secret',
        'The App ID and the App Secret do not belong together: check that both are of one project of this service, and that the secret has not ended.',
      ),
    );
  const projects = { cachedCredentials: () => 'miss', authenticate: refuse } as unknown as Projects;
  const authenticate = createAuthenticate({ isOpen: true }, projects, (_project, work) => work());
  const codeOf = async (place: number, ip = '192.0.2.7') => {
    const headers = { 'service-app-id': `app_${place}`, 'service-app-secret': 'wrong' };
    const caller: { ip: string | undefined } & Caller = { headers, ip };
    const answer = Promise.resolve(authenticate(caller)).catch(({ code }: AppError) => code);
    caller.ip = undefined;
    const code = await answer;
    expect(caller.refusal?.reason).toBe('malformed_app_id');
    return code;
  };
  const codes = await Promise.all(Array.from({ length: 601 }, (_, place) => codeOf(place)));
  expect(codes.filter((code) => code === 'UNAUTHENTICATED')).toHaveLength(600);
  expect(codes.at(-1)).toBe('RATE_LIMITED');
  expect(await codeOf(601, '192.0.2.8')).toBe('UNAUTHENTICATED');
});

test.each<[what: string, cached: unknown, headers: Record<string, string>, queues: readonly string[]]>([
  ['that were valid a moment ago wait for nothing', { appId: 'app_1' }, {}, []],
  ['that were valid before wait with their project', 'stale', {}, ['app_1']],
  ['that are not known wait with those of strangers', 'miss', {}, [UNAUTHENTICATED]],
  ['that lack the secret, too', 'stale', { 'service-app-secret': '' }, [UNAUTHENTICATED]],
])('credentials %s', async (_what, cached, more, queues) => {
  const scope = { appId: 'app_1' };
  const projects = { cachedCredentials: () => cached, authenticate: async () => scope } as unknown as Projects;
  const waitedIn: string[] = [];
  const authenticate = createAuthenticate({ isOpen: true }, projects, (queue, work) => {
    waitedIn.push(queue);
    return work();
  });
  const headers = { 'service-app-id': 'app_1', 'service-app-secret': 'secret', ...more };
  const answer = authenticate({ headers, ip: '192.0.2.7' } as Caller);
  if (more['service-app-secret'] === '') await expect(answer).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
  else expect(await answer).toEqual(scope);
  expect(waitedIn).toEqual(queues);
});
