import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  isPublicAddress,
  parseRetryAfter,
  requireWebhookDescription,
  requireWebhookUrl,
  retryDelayMs,
} from '#dist/domain/webhooks.js';
import { createWebhookSender, leadsToPrivateAddress } from '#dist/feed/webhook-sender.js';

const DAY = 86_400_000;
const SECRET = Buffer.alloc(32, 1).toString('base64');
const MESSAGE = { id: 'one', type: 'user.created', body: '{}' };

describe('URLs of endpoints', () => {
  test.each([
    ['https://example.com/hooks?a=1', 'https://example.com/hooks?a=1'],
    ['https://example.com', 'https://example.com/'],
    ['https://8.8.8.8:8443/x', 'https://8.8.8.8:8443/x'],
    ['https://[2606:4700::1111]/', 'https://[2606:4700::1111]/'],
  ])('%s is accepted', (given, kept) => {
    expect(requireWebhookUrl(given, false)).toBe(kept);
  });

  const NOT_PUBLIC = `https://localhost/ https://LOCALHOST./ https://a.localhost/ https://db.internal/
    https://metadata.google.internal/ https://printer.local/ https://127.0.0.1/ https://127.1/
    https://2130706433/ https://0x7f.0.0.1/ https://0177.0.0.1/ https://0.0.0.0/ https://10.1.2.3/
    https://172.16.0.1/ https://192.168.1.1/ https://100.64.0.1/
    https://169.254.169.254/latest/meta-data https://224.0.0.1/ https://255.255.255.255/ https://[::1]/
    https://[::]/ https://[::ffff:127.0.0.1]/ https://[::ffff:a9fe:a9fe]/ https://[64:ff9b::7f00:1]/
    https://[2002:7f00:1::]/ https://[fe80::1]/ https://[fd00:ec2::254]/ https://[ff02::1]/
    https://[2001:db8::1]/ http://localhost:8080/ http://127.0.0.1:8080/hooks`.split(/\s+/);
  test.each(NOT_PUBLIC)('%s is refused, and accepted where private addresses are allowed', (url) => {
    expect(() => requireWebhookUrl(url, false)).toThrow(/expected the URL of a public host/);
    expect(requireWebhookUrl(url, true)).toBe(new URL(url).href);
  });

  test.each([
    ...`http://example.com/ ftp://example.com/ file:///etc/passwd https://ada:secret@example.com/ https://example.com/#part
      example.com`.split(/\s+/),
    '',
    `https://example.com/${'x'.repeat(2_048)}`,
    `https://example.com/${'ü'.repeat(1_000)}`,
  ])('%s is refused', (url) => {
    expect(() => requireWebhookUrl(url, false)).toThrow(/^url: got .*, expected an https:\/\/ URL of at most 2048/);
  });

  test('http is accepted where private addresses are allowed', () => {
    expect(requireWebhookUrl('http://example.com/', true)).toBe('http://example.com/');
  });

  test('no address of a network that is not public counts as public, however it is written', () => {
    const octet = fc.nat(255);
    const prefixes = [[10], [127], [0], [169, 254], [192, 168], [100, 64], [172, 31], [240], [198, 18]];
    const address = fc
      .tuple(fc.constantFrom(...prefixes), fc.tuple(octet, octet, octet, octet))
      .map(([prefix, rest]) => [...prefix, ...rest].slice(0, 4).join('.'));
    fc.assert(
      fc.property(address, (text) => {
        expect(isPublicAddress(text)).toBe(false);
        expect(isPublicAddress(`::ffff:${text}`)).toBe(false);
      }),
    );
    expect(isPublicAddress('not an address')).toBe(false);
  });

  test('an IPv6 address is public only among those that are given out: 2000::/3', () => {
    const rest = fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 7, maxLength: 7 });
    const textOf = (parts: number[]) => parts.map((part) => part.toString(16)).join(':');
    const outside = fc.integer({ min: 0x0100, max: 0xffff }).filter((first) => first >> 13 !== 1);
    fc.assert(
      fc.property(outside, rest, (first, parts) => {
        expect(isPublicAddress(textOf([first, ...parts]))).toBe(false);
      }),
    );
    fc.assert(
      fc.property(fc.integer({ min: 0x2400, max: 0x2dff }), rest, (first, parts) => {
        expect(isPublicAddress(textOf([first, ...parts]))).toBe(true);
      }),
    );
    // Within, but for tunnels, tests and documentation.
    for (const text of ['2001::1', '2001:2::1', '2001:db8::1', '2002:808:808::1', '3fff::1', 'fe80::1%eth0'])
      expect([text, isPublicAddress(text)]).toEqual([text, false]);
    for (const text of ['2001:4860:4860::8888', '2a00:1450::1'])
      expect([text, isPublicAddress(text)]).toEqual([text, true]);
  });
});

test('descriptions are on one line and short', () => {
  expect(requireWebhookDescription(' the CRM ')).toBe('the CRM');
  expect(() => requireWebhookDescription('a\nb')).toThrow(/^description: got/);
  expect(() => requireWebhookDescription('x'.repeat(201))).toThrow(/at most 200 characters/);
});

describe('retries', () => {
  test('the time between them doubles from about 5 s to about 6 h, and three days have about twenty', () => {
    const delays: number[] = [];
    for (let sum = 0; sum < 3 * DAY; sum += delays.at(-1) ?? 0) delays.push(retryDelayMs(delays.length + 1, null, 0.5));
    expect(delays.slice(0, 4)).toEqual([5_000, 10_000, 20_000, 40_000]);
    expect(delays.at(-1)).toBe(6 * 3_600_000);
    expect(delays.length).toBeGreaterThan(15);
    expect(delays.length).toBeLessThan(30);
  });

  test('jitter and Retry-After keep within their bounds', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1_000_000 }),
        fc.option(fc.nat(Number.MAX_SAFE_INTEGER)),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (failures, retryAfter, random) => {
          const plain = retryDelayMs(failures, null, random);
          const delay = retryDelayMs(failures, retryAfter, random);
          expect(delay).toBeGreaterThanOrEqual(plain);
          expect(delay).toBeLessThanOrEqual(1.2 * 6 * 3_600_000 + 1);
          expect(plain).toBeGreaterThanOrEqual(4_000);
          if (retryAfter !== null) expect(delay).toBeGreaterThanOrEqual(Math.min(retryAfter, 6 * 3_600_000));
        },
      ),
    );
  });

  test.each([
    ['7', 7_000],
    ['0', 0],
    ['Sun, 22 Nov 2026 10:00:30 GMT', 30_000],
    ['Sun, 22 Nov 2026 09:00:00 GMT', 0],
    ['soon', null],
    ['-1', null],
    ['9'.repeat(100), null],
    [undefined, null],
  ])('Retry-After %s is read', (header, ms) => {
    expect(parseRetryAfter(header, new Date('2026-11-22T10:00:00Z'))).toBe(ms);
  });
});

describe('where a name leads when it is connected to', () => {
  let port = 0;
  let requests = 0;
  const server = createServer((_request, response) => {
    requests += 1;
    response.writeHead(204, { connection: 'close' }).end();
  });
  beforeAll(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    port = (server.address() as AddressInfo).port;
  });
  afterAll(() => void server.close());

  test.each([
    ['a loopback address', ['127.0.0.1']],
    ['a metadata service', ['169.254.169.254']],
    ['a public and a private address', ['8.8.8.8', '10.0.0.1']],
    ['an IPv4 address within IPv6', ['::ffff:127.0.0.1']],
  ])('%s is refused', async (_what, addresses) => {
    const sender = createWebhookSender({ allowPrivate: false, resolve: async () => addresses });
    const exchange = await sender.send({ url: `https://rebinding.example.com:${port}/`, secrets: [SECRET] }, MESSAGE);
    expect(exchange).toMatchObject({
      ok: false,
      outcome: 'unreachable',
      error: 'its name leads to a private address',
    });
    await sender.close();
    expect(requests).toBe(0);
  });

  test('a name is resolved for each connection, once: the address that was checked is the one that is used', async () => {
    const asked: string[] = [];
    const sender = createWebhookSender({
      allowPrivate: true,
      resolve: async (hostname) => {
        asked.push(hostname);
        return ['127.0.0.1'];
      },
    });
    const target = { url: `http://receiver.example.com:${port}/`, secrets: [SECRET] };
    for (let count = 1; count <= 2; count += 1) {
      expect(await sender.send(target, MESSAGE)).toMatchObject({ ok: true, status: 204 });
      expect(asked).toHaveLength(count);
    }
    await sender.close();
    expect(asked[0]).toBe('receiver.example.com');
    expect(requests).toBe(2);
  });

  test('of several addresses, each is tried until one can be connected to', async () => {
    const before = requests;
    // Nobody listens at the first ones.
    const resolve = async () => ['127.0.0.3', '::1', '127.0.0.1'];
    const sender = createWebhookSender({ allowPrivate: true, resolve });
    const target = { url: `http://receiver.example.com:${port}/`, secrets: [SECRET] };
    expect(await sender.send(target, MESSAGE)).toMatchObject({ ok: true, status: 204 });
    await sender.close();
    expect(requests).toBe(before + 1);
  });

  test('an address in the URL is refused without a connection', async () => {
    const before = requests;
    const sender = createWebhookSender({ allowPrivate: false });
    for (const url of [`http://127.0.0.1:${port}/`, `https://127.0.0.1:${port}/`, `https://localhost:${port}/`]) {
      const { ok, error } = await sender.send({ url, secrets: [SECRET] }, MESSAGE);
      expect({ ok, error }).toEqual({
        ok: false,
        error: 'its URL is not that of a public host over https, and WEBHOOKS_ALLOW_PRIVATE is off',
      });
    }
    await sender.close();
    expect(requests).toBe(before);
  });

  test('a server that does not speak TLS is named as that', async () => {
    const sender = createWebhookSender({ allowPrivate: true });
    const { ok, error } = await sender.send({ url: `https://127.0.0.1:${port}/`, secrets: [SECRET] }, MESSAGE);
    expect({ ok, error }).toEqual({ ok: false, error: expect.stringMatching(/^TLS failed \(\w+\)$/) });
    await sender.close();
  });

  test('a name without an address, and one that cannot be resolved', async () => {
    for (const resolve of [async () => [], () => Promise.reject(Object.assign(new Error(), { code: 'ENOTFOUND' }))]) {
      const sender = createWebhookSender({ allowPrivate: false, resolve });
      const { error } = await sender.send({ url: 'https://nowhere.example.com/', secrets: [SECRET] }, MESSAGE);
      expect(error).toBe('its name cannot be resolved');
      await sender.close();
    }
  });

  test('a name that this machine knows as loopback is found when it is added', async () => {
    const [{ address } = { address: '' }] = await lookup('localhost', { all: true });
    expect(isPublicAddress(address)).toBe(false);
    expect(await leadsToPrivateAddress('localhost')).toBe(true);
    expect(await leadsToPrivateAddress('x', async () => ['8.8.8.8'])).toBe(false);
    expect(await leadsToPrivateAddress('x', () => Promise.reject(new Error()))).toBe(false);
  });
});
