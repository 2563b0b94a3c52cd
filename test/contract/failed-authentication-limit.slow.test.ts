import { beforeAll, expect, test } from 'vitest';
import { type TestProject, useTestApp } from '../support/app.js';
import { expectError } from '../support/rest.js';

/** Each client address may fail authentication 600 times a minute (docs/limits.md). */

const PER_MINUTE = 600;

const app = useTestApp({ env: { TRUST_PROXY: 'on' } });
let project: TestProject;
beforeAll(async () => {
  // TRUST_PROXY lets each test choose its own client address.
  project = await app.createProject();
});

async function call(client: string, headers: Record<string, string> = {}, path = '/server/users') {
  const answer = await fetch(app.url + path, { headers: { 'x-forwarded-for': client, ...headers } });
  return { status: answer.status, headers: answer.headers, body: JSON.parse(await answer.text()) };
}

/** Sends `times` failing requests; returns how many got each status. */
async function fail(client: string, times: number, headers: Record<string, string> = {}) {
  const counts: Record<number, number> = {};
  for (let sent = 0; sent < times; sent += 50) {
    const batch = Array.from({ length: Math.min(50, times - sent) }, () => call(client, headers));
    for (const { status } of await Promise.all(batch)) counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
}

test('the first 600 failures in a minute are 401; more are 429 with Retry-After', async () => {
  expect(await fail('192.0.2.1', PER_MINUTE)).toEqual({ 401: PER_MINUTE });
  const answer = await call('192.0.2.1');
  expectError(answer, 429);
  expect(Number(answer.headers.get('retry-after'))).toSatisfy((seconds) => seconds >= 1 && seconds <= 60);
});

test('missing and wrong credentials count together, on both interfaces', async () => {
  const wrong = { ...project.credentials, 'service-app-secret': 'wrong' };
  expect(await fail('192.0.2.2', PER_MINUTE - 1, wrong)).toEqual({ 401: PER_MINUTE - 1 });
  expect((await call('192.0.2.2', {}, '/graphql?query={__typename}')).status).toBe(401);
  expectError(await call('192.0.2.2', wrong), 429);
  expect((await call('192.0.2.2', wrong, '/graphql?query={__typename}')).status).toBe(429);
});

test('correct credentials always pass, and another client is not limited', async () => {
  await fail('192.0.2.3', PER_MINUTE + 1);
  expectError(await call('192.0.2.3'), 429);
  expect((await call('192.0.2.3', project.credentials)).status).toBe(200);
  expectError(await call('192.0.2.4'), 401);
});

test('all addresses of an IPv6 /64 network count together, and an IPv4-mapped address counts as IPv4', async () => {
  for (let part = 0; part < 12; part += 1) await fail(`2001:db8:0:1:${part}::${part}`, 50);
  expectError(await call('2001:db8:0:1:ffff::1'), 429);
  expectError(await call('2001:db8:0:2::1'), 401);
  await fail('::ffff:192.0.2.5', PER_MINUTE);
  expectError(await call('192.0.2.5'), 429);
});

test('ports, brackets, zones and the spelling of an address make no other client', async () => {
  const spellings = [
    (n: number) => `203.0.113.8:${5_000 + n}`,
    (n: number) => `[::ffff:203.0.113.8]:${5_000 + n}`,
    (n: number) => `::ffff:203.0.113.8%${n}`,
  ];
  for (let n = 0; n < 12; n += 1) await fail((spellings[n % 3] as (n: number) => string)(n), 50);
  expectError(await call('203.0.113.8'), 429);
  for (let n = 0; n < 12; n += 1) await fail(`[2001:db8:0:3::${n}]:${5_000 + n}`, 50);
  expectError(await call('2001:db8:0:3:ffff::1'), 429);
});

test('for text that is no address, the failures of the proxy that names it are counted', async () => {
  const texts = ['unknown', '_hidden', '203.0.113.9:x', '1::2::3', ',', '<script>', 'x'.repeat(8_000)];
  for (let n = 0; n < 12; n += 1) await fail(`198.18.0.${n}, ${texts[n % texts.length]}${n}`, 50);
  expectError(await call('nothing'), 429);
  // The same behind a proxy with a name of its own.
  for (let n = 0; n < 12; n += 1) await fail(`${texts[n % 4]}${n}, 203.0.113.10`, 50);
  expectError(await call('203.0.113.10'), 429);
  expectError(await call('203.0.113.11'), 401);
});

const PER_APP_ID = 3_000;

test('an App ID is limited to 3,000 failures a minute from all clients; correct credentials still pass', async () => {
  // One of its own, whose minute begins with the first failure below.
  const { credentials } = await app.createProject();
  const wrong = { ...credentials, 'service-app-secret': 'wrong' };
  const counts: Record<number, number> = {};
  for (let client = 0; client < 6; client += 1) {
    for (const [status, count] of Object.entries(await fail(`198.51.100.${client}`, PER_MINUTE - 1, wrong))) {
      counts[Number(status)] = (counts[Number(status)] ?? 0) + count;
    }
  }
  expect(counts).toEqual({ 401: PER_APP_ID, 429: 6 * (PER_MINUTE - 1) - PER_APP_ID });
  const refused = await call('198.51.100.9', wrong);
  expect(expectError(refused, 429)).toContain('with this App ID');
  expect(Number(refused.headers.get('retry-after'))).toSatisfy((seconds) => seconds >= 1 && seconds <= 60);
  expect((await call('198.51.100.9', credentials)).status).toBe(200);
  // Requests with another App ID, or without one, are not limited.
  const other = await app.createProject();
  expectError(await call('198.51.100.9', { ...other.credentials, 'service-app-secret': 'wrong' }), 401);
  expectError(await call('198.51.100.9'), 401);
});
