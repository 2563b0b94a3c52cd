import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { gzipSync } from 'node:zlib';
import { buildSchema, parse, validate } from 'graphql';
import { Webhook } from 'standardwebhooks';
import { type Client, type ClientOptions, createClient, UserdirError, verifyWebhook } from 'userdir/client';
import { build } from 'vite';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { OPERATIONS } from '#dist/client/generated/schema.js';
import { documentOf } from '#dist/client/transport.js';
import { listSamples, messageOf, testMessage } from '#dist/domain/webhooks.js';
import { ROOT } from '../support/checkout.js';

/** The client without a service. What it asks of one is in test/api/graphql-client.test.ts. */

const SECRET = 'uds_a-secret-that-nobody-may-see';
const OPTIONS: ClientOptions = { url: 'http://127.0.0.1:9', appId: 'app_1', appSecret: SECRET };

describe('the package', () => {
  test('bundled and minified, has at most 10 KiB with gzip, and needs nothing of Node.js', async () => {
    const { output } = (await build({
      configFile: false,
      logLevel: 'silent',
      publicDir: false,
      build: {
        write: false,
        lib: { entry: join(ROOT, 'dist/client/client.js'), formats: ['es'] },
        minify: true,
        rolldownOptions: { external: () => false },
      },
    }).then((results) => [results].flat()[0])) as unknown as { output: { code: string }[] };
    expect(output).toHaveLength(1);
    const code = output[0]?.code ?? '';
    expect(code).not.toMatch(/\bimport\b|\brequire\(|\bprocess\.|\bBuffer\b/);
    expect(gzipSync(code).length).toBeLessThan(10_240);
  });

  test('asks valid documents, with and without what may be left out', () => {
    const schema = buildSchema(readFileSync(join(ROOT, 'schema.graphql'), 'utf8'));
    const names = Object.keys(OPERATIONS) as (keyof typeof OPERATIONS)[];
    expect(names.length).toBeGreaterThan(15);
    for (const name of names) {
      const { given } = OPERATIONS[name];
      const required = Object.entries(given).filter(([, type]) => type.endsWith('!') && type !== 'Int!');
      for (const some of [given, Object.fromEntries(required)])
        expect(validate(schema, parse(documentOf(name, some as never))), name).toEqual([]);
    }
  });
});

test('an argument of an operation that has none is refused by its name', () => {
  expect(() => documentOf('caller', { id: 1 } as never)).toThrow('id: expected no options.');
});

describe('an option that a function does not know', () => {
  const wrong = { loginMethods: ['EMAIL'] } as object;
  const identity = { authMethod: 'email', authValue: 'ada@example.com' };
  const follow = { after: null, handle: () => undefined, save: () => undefined };
  const copy = {
    after: null,
    begin: () => undefined,
    put: () => undefined,
    remove: () => undefined,
    save: () => undefined,
  };
  const calls: [string, (client: Client) => unknown][] = [
    ['caller', (client) => client.caller(wrong)],
    ['logins.record', (client) => client.logins.record(identity, wrong)],
    ['users.get', (client) => client.users.get(1, wrong)],
    ['users.getByExternalId', (client) => client.users.getByExternalId('a', wrong)],
    ['users.getByIdentity', (client) => client.users.getByIdentity({ ...identity, ...wrong })],
    ['users.getMany', (client) => client.users.getMany([1], wrong)],
    ['users.getManyByExternalId', (client) => client.users.getManyByExternalId(['a'], wrong)],
    ['users.getManyByIdentity', (client) => client.users.getManyByIdentity([identity], wrong)],
    ['users.getManyByEmail', (client) => client.users.getManyByEmail(['ada@example.com'], wrong)],
    ['users.count', (client) => client.users.count({}, wrong)],
    ['users.page', (client) => client.users.page(wrong)],
    ['users.list', (client) => client.users.list(wrong)],
    ['users.search', (client) => client.users.search({ email: 'ada@example.com' }, wrong)],
    ['users.find', (client) => client.users.find('ada', wrong)],
    ['users.findByPrefix', (client) => client.users.findByPrefix('ada', wrong)],
    ['users.create', (client) => client.users.create(identity, wrong)],
    ['users.update', (client) => client.users.update(1, { email: null }, wrong)],
    ['users.remove', (client) => client.users.remove(1, wrong)],
    ['users.restore', (client) => client.users.restore(1, wrong)],
    ['users.ban', (client) => client.users.ban(1, wrong)],
    ['users.removeMany', (client) => client.users.removeMany([1], wrong)],
    ['users.banMany', (client) => client.users.banMany([1], wrong)],
    ['users.unban', (client) => client.users.unban(1, wrong)],
    ['users.merge', (client) => client.users.merge({ from: 1, into: 2, ...wrong })],
    ['identities.link', (client) => client.identities.link(1, identity, wrong)],
    ['identities.unlink', (client) => client.identities.unlink(1, identity, wrong)],
    ['identities.ban', (client) => client.identities.ban(identity, wrong)],
    ['identities.unban', (client) => client.identities.unban(identity, wrong)],
    ['wallets.verify', (client) => client.wallets.verify('0x', { userId: 1, ...wrong })],
    ['wallets.verifyMany', (client) => client.wallets.verifyMany([{ address: '0x', userId: 1, ...wrong }]).next()],
    ['wallets.unlink', (client) => client.wallets.unlink(1, '0x', wrong)],
    ['bans.list', (client) => client.bans.list(wrong).next()],
    ['changes.follow', (client) => client.changes.follow({ ...follow, ...wrong })],
    ['changes.copy', (client) => client.changes.copy({ ...copy, ...wrong })],
    ['webhooks.list', (client) => client.webhooks.list(wrong)],
    ['webhooks.add', (client) => client.webhooks.add({ url: 'https://a.example', ...wrong })],
    ['webhooks.pause', (client) => client.webhooks.pause(1, wrong)],
    ['webhooks.resume', (client) => client.webhooks.resume(1, wrong)],
    ['webhooks.rotateSecret', (client) => client.webhooks.rotateSecret(1, wrong)],
    ['webhooks.remove', (client) => client.webhooks.remove(1, wrong)],
  ];

  test.each(calls)('is refused by %s, by its name, and nothing is sent', async (_name, call) => {
    const { client, requests } = answering(() => json({ data: {} }));
    const error = await refusalOf(() => call(client));
    expect(error).toMatchObject({
      code: 'BAD_USER_INPUT',
      argument: 'loginMethods',
      message: expect.stringMatching(/^loginMethods: expected one of /),
    });
    expect(requests).toEqual([]);
  });

  test('is refused by createClient', () => {
    const error = thrownBy(() => createClient({ ...OPTIONS, timeout: 5 } as ClientOptions));
    expect(error).toMatchObject({ code: 'BAD_USER_INPUT', argument: 'timeout' });
  });

  test.each([
    ['users.ban', 'id', (client: Client) => client.users.ban(1, { id: 2 } as never)],
    ['users.ban', 'idempotencyKey', (client: Client) => client.users.ban(1, { idempotencyKey: 'a' } as never)],
    ['webhooks.rotateSecret', 'id', (client: Client) => client.webhooks.rotateSecret(1, { id: 2 } as never)],
    ['users.get', 'idempotencyKey', (client: Client) => client.users.get(1, { idempotencyKey: 'a' } as never)],
  ])('is also what %s would overwrite or not use: %s', async (_name, argument, call) => {
    const { client, requests } = answering(() => json({ data: {} }));
    const error = await refusalOf(() => call(client));
    expect(error).toMatchObject({ code: 'BAD_USER_INPUT', argument });
    expect(requests).toEqual([]);
  });

  test('has a row here for each function of the client', () => {
    const { client } = answering(() => json({ data: {} }));
    const names = Object.entries(client).flatMap(([name, group]) =>
      typeof group === 'function' ? [name] : Object.keys(group).map((own) => `${name}.${own}`),
    );
    // It has no options.
    expect(names.filter((name) => name !== 'webhooks.verify').sort()).toEqual(calls.map(([name]) => name).sort());
  });
});

test('Next.js is told to keep no answer', async () => {
  const { client, requests } = answering(() => json({ data: { user: null } }));
  await client.users.get(1);
  expect(requests).toMatchObject([{ next: { revalidate: 0 } }]);
});

describe('the secret', () => {
  test('is in no form of the client', () => {
    const client = createClient(OPTIONS);
    const forms = [JSON.stringify(client), inspect(client, { depth: 9, showHidden: true }), String(client)];
    expect(forms.join()).not.toContain(SECRET);
  });

  test.each<[string, object]>([
    ['url', { url: `http://app_1:${SECRET}@127.0.0.1/` }],
    ['url', { url: `ftp://127.0.0.1/` }],
    ['url', { url: 'users.example.com' }],
    ['url', { url: `http://127.0.0.1/?secret=${SECRET}` }],
    ['appSecret', { appSecret: `${SECRET}\n` }],
    ['appSecret', { appSecret: undefined }],
    ['appId', { appId: '' }],
  ])('is not in the error for a wrong %s', (argument, wrong) => {
    const error = thrownBy(() => createClient({ ...OPTIONS, ...wrong } as ClientOptions));
    expect(error).toMatchObject({ name: 'UserdirError', code: 'BAD_USER_INPUT', argument });
    expect(inspect(error)).not.toContain(SECRET);
  });

  test('is in no error of a request, and follows no redirect', async () => {
    const failing = answering(() => Promise.reject(new TypeError('fetch failed')));
    const redirecting = answering(() => new Response(null, { status: 307, headers: { location: 'http://127.0.0.2' } }));
    for (const { client, requests } of [failing, redirecting]) {
      const error = await client.users.get(1).catch((failure) => failure);
      expect(error).toBeInstanceOf(UserdirError);
      expect(`${inspect(error, { depth: 9 })} ${JSON.stringify(error)}`).not.toContain(SECRET);
      expect(requests.map(({ redirect }) => redirect)).toEqual(['manual']);
    }
  });
});

describe('an error', () => {
  test.each([{}, { docs: 'https://other.example/errors' }])(
    'of another GraphQL server is no error of the service: %j',
    async (extensions) => {
      const errors = [{ message: 'Failed.', extensions: { code: 'BAD_USER_INPUT', ...extensions } }];
      const { client } = answering(() => json({ errors }, 400));
      const error = await client.users.get(1).catch((failure) => failure);
      expect(error).toMatchObject({ code: 'BAD_ANSWER', status: 400, message: 'Failed.' });
    },
  );

  test('has the other user of a conflict', async () => {
    const { client } = answering(() => failing('CONFLICT', { argument: 'input.externalId', userId: '7' }));
    const error = await client.users.update(1, { externalId: 'a' }).catch((failure) => failure);
    expect(error).toMatchObject({ code: 'CONFLICT', argument: 'input.externalId', userId: '7' });
  });

  test.each([
    [new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } }), 'the connection failed, ECONNREFUSED'],
    [new TypeError('fetch failed', { cause: new Error('bad certificate') }), 'the connection failed, bad certificate'],
    [new TypeError('Unable to connect'), 'the connection failed, Unable to connect'],
    [{}, 'the connection failed, for an unknown reason'],
  ])('without an answer names the address and the cause: %s', async (cause, why) => {
    const { client } = answering(() => Promise.reject(cause));
    const error = await client.users.get(1).catch((failure) => failure);
    expect(error).toMatchObject({
      code: 'NO_ANSWER',
      cause,
      message: `No answer from http://127.0.0.1:9/graphql: ${why}.`,
    });
  });
});

test.each(['http://127.0.0.1:9', 'http://127.0.0.1:9/', 'http://127.0.0.1:9/graphql', 'http://127.0.0.1:9/graphql/'])(
  'the URL %s leads to /graphql',
  async (url) => {
    const asked: unknown[] = [];
    const fetch = async (to: unknown) => {
      asked.push(to);
      return json({ data: { user: null } });
    };
    expect(await createClient({ ...OPTIONS, url, fetch: fetch as never }).users.get(1)).toBe(null);
    expect(asked).toEqual(['http://127.0.0.1:9/graphql']);
  },
);

/** What a call throws, at once or later. */
async function refusalOf(call: () => unknown): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    return error;
  }
}

function thrownBy(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

interface Sent {
  readonly query: string;
  readonly variables: Record<string, unknown>;
  readonly requestId: string;
  readonly redirect: string | undefined;
  readonly next: { readonly revalidate: number };
}

/** A client of a service that answers as `answer` says. */
function answering(
  answer: (attempt: number, sent: Sent) => Response | Promise<Response>,
  options: Partial<ClientOptions> = {},
) {
  const requests: Sent[] = [];
  const fetch = async (_url: unknown, init: RequestInit = {}) => {
    const requestId = new Headers(init.headers).get('x-request-id') ?? '';
    const { redirect, next } = init as RequestInit & Pick<Sent, 'next'>;
    requests.push({ ...JSON.parse(String(init.body)), requestId, redirect, next });
    return answer(requests.length, requests.at(-1) as Sent);
  };
  const client = createClient({ ...OPTIONS, retries: 0, ...options, fetch: fetch as typeof globalThis.fetch });
  return { client, requests };
}

const json = (body: object, status = 200, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } });
const failing = (code: string, extensions: object = {}) =>
  json({
    data: null,
    errors: [{ message: 'Failed.', path: ['user'], extensions: { code, docs: `/docs/errors#${code}`, ...extensions } }],
  });
const html = (status: number, headers = {}) => new Response('<html>Away.</html>', { status, headers });
const cut = () =>
  new Response(
    new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"data":{"us'));
        controller.error(new TypeError('terminated'));
      },
    }),
  );

describe('retries', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const found = () => json({ data: { user: null, recordLogin: { created: true, user: { id: '1' } } } });
  const LOGIN = { authMethod: 'email', authValue: 'ada@example.com' };
  const run = async <Value>(work: Promise<Value>) => {
    const settled = work.catch((error) => error);
    await vi.runAllTimersAsync();
    return settled;
  };

  test.each<[string, () => Response | Promise<Response>]>([
    ['no connection', () => Promise.reject(new TypeError('fetch failed'))],
    ['an answer that is cut off', cut],
    ['half an answer', () => new Response('{"data":{"us')],
    ['502 of a proxy', () => html(502)],
    ['503', () => failing('UNAVAILABLE', { retryAfter: 1 })],
    ['500', () => failing('INTERNAL_SERVER_ERROR')],
    ['408', () => json({ error: 'Late.' }, 408, { 'userdir-error-code': 'REQUEST_TIMEOUT' })],
    ['429', () => failing('RATE_LIMITED', { retryAfter: 7 })],
  ])('after %s, a read is sent again, and a write with the same key', async (_name, mishap) => {
    const { client, requests } = answering((attempt) => (attempt % 3 === 0 ? found() : mishap()), { retries: 2 });
    expect(await run(client.users.get(1))).toBe(null);
    expect(await run(client.logins.record(LOGIN))).toMatchObject({ created: true });
    expect(requests).toHaveLength(6);
    const keys = requests.slice(3).map(({ variables }) => variables['idempotencyKey']);
    expect(new Set(keys).size).toBe(1);
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
    // One call is one request in the log of the service.
    expect(new Set(requests.map(({ requestId }) => requestId)).size).toBe(2);
  });

  test.each<[string, () => Response]>([
    ['BAD_USER_INPUT', () => failing('BAD_USER_INPUT', { argument: 'id' })],
    ['CURSOR_EXPIRED', () => failing('CURSOR_EXPIRED')],
    ['UNAUTHENTICATED', () => json({ error: 'Wrong.' }, 401, { 'userdir-error-code': 'UNAUTHENTICATED' })],
    ['BAD_ANSWER', () => html(404)],
    ['BAD_ANSWER', () => html(307)],
  ])('%s is not sent again', async (code, answer) => {
    const { client, requests } = answering(answer, { retries: 5 });
    expect(await run(client.users.get(1))).toMatchObject({ code });
    expect(requests).toHaveLength(1);
  });

  test('two calls have two keys, and a key that is given is sent', async () => {
    const { client, requests } = answering(found);
    await client.logins.record(LOGIN);
    await client.logins.record(LOGIN);
    await client.logins.record(LOGIN, { idempotencyKey: 'mine' });
    const keys = requests.map(({ variables }) => variables['idempotencyKey']);
    expect([new Set(keys).size, keys[2]]).toEqual([3, 'mine']);
  });

  test('end after `retries`, with the last error', async () => {
    const { client, requests } = answering((attempt) => html(500 + attempt), { retries: 3 });
    expect(await run(client.users.get(1))).toMatchObject({ code: 'BAD_ANSWER', status: 504 });
    expect(requests).toHaveLength(4);
  });

  test('wait as long as the service says, in seconds or as a date, and twice as long each time otherwise', async () => {
    const later = () => new Date(Date.now() + 20_000).toUTCString();
    const waits = [
      () => html(503, { 'retry-after': '7' }),
      () => html(503, { 'retry-after': later() }),
      () => html(503),
    ];
    const times: number[] = [];
    const { client } = answering(
      (attempt) => {
        times.push(Date.now());
        return waits[attempt - 1]?.() ?? found();
      },
      { retries: 3 },
    );
    await run(client.users.get(1));
    const [first = 0, second = 0, third = 0] = times.slice(1).map((time, index) => time - (times[index] ?? 0));
    expect([first >= 7_000, first < 8_000, second >= 19_000, second < 21_000]).toEqual([true, true, true, true]);
    expect([third >= 400, third <= 800]).toEqual([true, true]);
  });

  test.each<[question: string, field: string]>([
    ['where the feed is', 'changes'],
    ['for a page of users', 'uncountedUsers'],
    ['for what has changed', 'changes'],
    ['for users who have changed', 'usersByIds'],
  ])('never end for a copy that asks %s', async (question, field) => {
    const user = { id: '1', accounts: [] };
    const change = { id: 'c1', type: 'USER_UPDATED', at: '', userId: '1', fields: [], mergedInto: null };
    const answers: Record<string, (after: unknown) => object> = {
      changes: (after) => ({
        nodes: after === 'c0' ? [change] : [],
        pageInfo: { endCursor: after === 'now' ? 'c0' : 'c1', hasNextPage: false },
      }),
      uncountedUsers: () => ({ nodes: [user], pageInfo: { endCursor: 'u1', hasNextPage: false } }),
      usersByIds: () => [user],
    };
    let failures = 20;
    const { client } = answering(
      (_, { query, variables }) => {
        const [, asked = ''] = /\{(\w+)/.exec(query) ?? [];
        const isIt = asked === field && (variables['after'] === 'now') === (question === 'where the feed is');
        if (isIt && failures-- > 0) return failing('UNAVAILABLE');
        return json({ data: { [asked]: answers[asked]?.(variables['after']) } });
      },
      { retries: 2 },
    );
    const done = new AbortController();
    const put: string[][] = [];
    const outcome = await run(
      client.changes.copy({
        after: null,
        begin: () => undefined,
        put: (users) => void put.push(users.map(({ id }) => id)),
        remove: () => undefined,
        save: (cursor) => void (cursor === 'c1' && done.abort()),
        signal: done.signal,
      }),
    );
    expect(outcome).toBeUndefined();
    expect(put).toEqual([['1'], ['1']]);
    expect(failures).toBeLessThan(0);
  });

  test.each([
    ['least', 0, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]],
    ['most', 1, [200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]],
  ])('wait twice as long each time, at the %s', async (_what, chance, expected) => {
    vi.spyOn(Math, 'random').mockReturnValue(chance);
    try {
      const times: number[] = [];
      const { client } = answering(
        () => {
          times.push(Date.now());
          return html(503);
        },
        { retries: expected.length },
      );
      await run(client.users.get(1));
      expect(times.slice(1).map((time, index) => time - (times[index] ?? 0))).toEqual(expected);
    } finally {
      vi.mocked(Math.random).mockRestore();
    }
  });

  test('tell of a wait that is said as a date in whole seconds', async () => {
    vi.setSystemTime(new Date('2026-01-01T00:00:00.400Z'));
    const { client } = answering(() => html(503, { 'retry-after': 'Thu, 01 Jan 2026 01:00:00 GMT' }), { retries: 9 });
    expect(await run(client.users.get(1))).toMatchObject({ status: 503, retryAfter: 3_600 });
  });

  test('do not wait for minutes: the caller decides', async () => {
    const { client, requests } = answering(() => html(503, { 'retry-after': '3600' }), { retries: 9 });
    expect(await run(client.users.get(1))).toMatchObject({ status: 503, retryAfter: 3_600 });
    expect(requests).toHaveLength(1);
  });

  test('a call ends with its signal, also while it waits', async () => {
    const { client, requests } = answering(() => html(503), { retries: 100 });
    const controller = new AbortController();
    const call = client.users.get(1, { signal: controller.signal }).catch((error) => error);
    await vi.advanceTimersByTimeAsync(1_000);
    controller.abort(new Error('Enough.'));
    expect(await call).toMatchObject({ message: 'Enough.' });
    const sent = requests.length;
    await vi.runAllTimersAsync();
    expect(requests.length).toBe(sent);
  });

  test('an attempt without an answer ends in time', async () => {
    const hanging = (_url: unknown, { signal }: RequestInit) =>
      new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
    const client = createClient({ ...OPTIONS, retries: 1, timeoutMs: 500, fetch: hanging as typeof fetch });
    expect(await run(client.users.get(1))).toMatchObject({ code: 'NO_ANSWER', message: /time is over/ });
  });

  test('an answer that is too large is not read to its end', async () => {
    let chunks = 0;
    const endless = new ReadableStream({
      pull(controller) {
        chunks += 1;
        controller.enqueue(new Uint8Array(2 ** 20));
      },
    });
    const { client } = answering(() => new Response(endless));
    expect(await client.users.get(1).catch((error) => error)).toMatchObject({ code: 'BAD_ANSWER' });
    expect(chunks).toBeLessThan(32);
  });
});

describe('changes', () => {
  beforeEach(() => void vi.useFakeTimers({ now: 0 }));
  afterEach(() => void vi.useRealTimers());

  const change = (id: string, type = 'USER_UPDATED', mergedInto: string | null = null) => ({
    id,
    type,
    at: '',
    userId: `of ${id}`,
    fields: [],
    mergedInto,
  });
  type Page = [changes: readonly ReturnType<typeof change>[], endCursor: string, hasNextPage: boolean];

  /** A client of a feed that has these pages, and who it says is there. Its `asked` are times, in ms, and places. */
  function scripted(pages: readonly Page[], present: readonly string[] = []) {
    const asked: [number, unknown][] = [];
    const { client } = answering((_, { query, variables }) => {
      if (query.includes('usersByIds'))
        return json({
          data: { usersByIds: (variables['ids'] as string[]).map((id) => (present.includes(id) ? { id } : null)) },
        });
      const [nodes, endCursor, hasNextPage] = pages[Math.min(asked.length, pages.length - 1)] as Page;
      asked.push([Date.now(), variables['after'] ?? null]);
      // Who asks without a pause would never end.
      if (asked.length > 50) throw new Error('Asked too often.');
      return json({ data: { changes: { nodes, pageInfo: { endCursor, hasNextPage } } } });
    });
    return { client, asked };
  }

  test('are asked for at once where there are more, and each second where there are none', async () => {
    const { client, asked } = scripted([
      [[change('a'), change('b')], 'b', true],
      [[], 'behind b', true],
      [[change('c')], 'c', false],
      [[], 'c', false],
    ]);
    const stop = new AbortController();
    const told: string[] = [];
    const following = client.changes.follow({
      after: null,
      handle: ({ id }) => void told.push(id),
      save: (cursor) => void told.push(`saved ${cursor}`),
      signal: stop.signal,
    });
    await vi.advanceTimersByTimeAsync(2_500);
    stop.abort();
    await following;
    expect(asked).toEqual([
      [0, null],
      [0, 'b'],
      [0, 'behind b'],
      [1_000, 'c'],
      [2_000, 'c'],
    ]);
    expect(told).toEqual(['a', 'saved a', 'b', 'saved b', 'saved behind b', 'c', 'saved c']);
  });

  /** What a copy from a place is told within half a second: the IDs of users whom it puts, removals, and cursors that it saves. */
  async function toldOfCopy(client: Client, after: string | null): Promise<unknown[]> {
    const stop = new AbortController();
    const told: unknown[] = [];
    const copying = client.changes.copy({
      after,
      begin: () => void told.push('begin'),
      put: (users) => void told.push(users.map(({ id }) => id)),
      remove: (removals) => void told.push(removals),
      save: (cursor) => void told.push(cursor),
      signal: stop.signal,
    });
    await vi.advanceTimersByTimeAsync(500);
    stop.abort();
    await copying;
    return told;
  }

  test('of a copy put and remove those whom they name, and nobody where there is nobody', async () => {
    const pages: Page[] = [
      [[change('put'), change('put')], '1', true],
      [[change('gone', 'USER_REMOVED'), change('one', 'USER_MERGED', 'of put')], '2', true],
      // Came back; and left again, which a later change tells.
      [[change('put', 'USER_REMOVED'), change('gone')], '3', false],
    ];
    const { client } = scripted(pages, ['of put']);
    const gone = [
      { id: 'of gone', mergedInto: null },
      { id: 'of one', mergedInto: 'of put' },
    ];
    expect(await toldOfCopy(client, '0')).toEqual([['of put'], '1', ['of put'], gone, '2', ['of put'], '3']);
  });

  test('of a copy of nobody begin it, put nobody, and save where the changes begin', async () => {
    const empty = { nodes: [], pageInfo: { endCursor: null, hasNextPage: false } };
    const asked: unknown[] = [];
    const { client } = answering((_, { query, variables }) => {
      asked.push(variables['after'] ?? null);
      if (query.includes('users')) return json({ data: { uncountedUsers: empty, users: empty } });
      return json({ data: { changes: { nodes: [], pageInfo: { endCursor: 'first', hasNextPage: false } } } });
    });
    expect(await toldOfCopy(client, null)).toEqual(['begin', 'first']);
    expect(asked).toEqual(['now', null, 'first']);
  });

  test.each<[Page, string]>([
    [[[], '1', false], '1'],
    [[[change('gone')], '1', false], '1'],
  ])('of a copy that concern nobody of it are saved alone: %j', async (page, cursor) => {
    expect(await toldOfCopy(scripted([page]).client, '0')).toEqual([cursor]);
  });
});

describe('an error', () => {
  test('has what the service says of it', async () => {
    const { client } = answering(() => failing('BAD_USER_INPUT', { argument: 'id', retryAfter: 3 }));
    const error = await client.users.get(1).catch((failure) => failure);
    const expected = {
      code: 'BAD_USER_INPUT',
      status: 200,
      retryAfter: 3,
      argument: 'id',
      requestId: /^[0-9a-f-]{36}$/,
    };
    expect(error).toMatchObject({
      message: 'Failed.',
      ...expected,
      requestId: expect.stringMatching(expected.requestId),
    });
  });

  test('says null of all that the service has not said', async () => {
    const { client } = answering(() => {
      throw new TypeError('fetch failed');
    });
    const error = await client.users.get(1, { signal: AbortSignal.timeout(50) }).catch((failure) => failure);
    expect(error).toMatchObject({ status: null, retryAfter: null, argument: null, userId: null });
  });
});

describe('a list', () => {
  const tooMuch = () => failing('BAD_USER_INPUT');
  const firsts = (requests: readonly Sent[]) => requests.map(({ variables }) => variables['first']);

  test('that costs too much goes on with ten users at a time', async () => {
    const page = (id: string, hasNextPage: boolean) => ({ nodes: [{ id }], pageInfo: { endCursor: id, hasNextPage } });
    const pages = [null, page('1', true), page('2', false)];
    const { client, requests } = answering((attempt) => {
      const one = pages[attempt - 1];
      return one === null ? tooMuch() : json({ data: { uncountedUsers: one, users: one } });
    });
    const ids: string[] = [];
    for await (const { id } of client.users.list()) ids.push(id);
    expect(ids).toEqual(['1', '2']);
    expect(firsts(requests)).toEqual([100, 10, 10]);
  });

  test('ends where ten users cost too much, and at any other failure', async () => {
    for (const [answer, sent] of [
      [tooMuch, [100, 10]],
      [() => failing('BAD_USER_INPUT', { argument: 'filter' }), [100]],
      [() => failing('FORBIDDEN'), [100]],
    ] as const) {
      // Who asks again and again would never end.
      const { client, requests } = answering((attempt) => (attempt > 5 ? html(404) : answer()));
      await expect(client.users.list()[Symbol.asyncIterator]().next()).rejects.toMatchObject({ message: 'Failed.' });
      expect(firsts(requests)).toEqual(sent);
    }
  });

  test('that is looked up goes on with ten at a time', async () => {
    const ids = Array.from({ length: 25 }, (_, n) => String(n));
    const { client, requests } = answering((attempt, { variables }) =>
      attempt === 1 ? tooMuch() : json({ data: { usersByIds: (variables['ids'] as string[]).map((id) => ({ id })) } }),
    );
    expect((await client.users.getMany(ids)).map((user) => user?.id)).toEqual(ids);
    expect(requests.map(({ variables }) => (variables['ids'] as string[]).length)).toEqual([25, 10, 10, 5]);
  });
});

test.each<[wallets: number, length: number, sizes: readonly number[]]>([
  [0, 10, []],
  [1, 10, [1]],
  [500, 10, [500]],
  [501, 10, [500, 1]],
  [1_000, 10, [500, 500]],
  // At most 64,000 characters of addresses at once.
  [64, 1_000, [64]],
  [65, 1_000, [64, 1]],
  [3, 32_000, [2, 1]],
  [2, 32_001, [1, 1]],
  [7, 9_143, [6, 1]],
])('%i wallets of %i characters are verified by requests for %j', async (count, length, sizes) => {
  const { client, requests } = answering((_, { variables }) =>
    json({ data: { verifyWallets: (variables['inputs'] as object[]).map(() => ({ verdict: 'NOT_OWNED' })) } }),
  );
  const wallets = Array.from({ length: count }, () => ({ address: 'x'.repeat(length), anyUser: true }) as const);
  const verdicts: unknown[] = [];
  for await (const verdict of client.wallets.verifyMany(wallets)) verdicts.push(verdict);
  expect(verdicts).toHaveLength(count);
  expect(requests.map(({ variables }) => (variables['inputs'] as object[]).length)).toEqual(sizes);
});

test('an answer of 16 Mi characters is read, and not a longer one', async () => {
  const bodyOf = (length: number) => {
    const empty = JSON.stringify({ data: { user: { id: '' } } });
    return JSON.stringify({ data: { user: { id: 'x'.repeat(length - empty.length) } } });
  };
  const most = 16 * 2 ** 20;
  for (const [length, isRead] of [
    [most, true],
    [most + 1, false],
  ] as const) {
    const { client } = answering(() => new Response(bodyOf(length)));
    const answer = await client.users.get(1).then(
      (user) => user?.id.length,
      ({ code }) => code,
    );
    expect(answer).toEqual(isRead ? expect.any(Number) : 'BAD_ANSWER');
  }
});

test('an answer is read in whatever parts it comes', async () => {
  const user = { id: '1', email: 'zoë@例え.example' };
  const bytes = new TextEncoder().encode(JSON.stringify({ data: { user } }));
  const inBytes = new ReadableStream({
    start(controller) {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  const { client } = answering(() => new Response(inBytes));
  expect(await client.users.get(1)).toEqual(user);
});

test('a message that is longer than 2,000 characters is cut there', async () => {
  for (const length of [2_000, 2_001]) {
    const errors = [{ message: 'm'.repeat(length), extensions: { code: 'FORBIDDEN', docs: '/docs/errors#FORBIDDEN' } }];
    const { client } = answering(() => json({ errors }));
    const error = await client.users.get(1).catch((failure) => failure);
    expect(error.message).toBe('m'.repeat(2_000));
  }
});

describe('what was lost is refused, and not sent', () => {
  const { client, requests } = answering(() => json({ data: {} }));
  const lost = undefined as never;
  test.each<[string, () => unknown]>([
    ['userId', () => client.wallets.verify('0x', lost)],
    ['userId', () => client.wallets.verify('0x', { userId: lost })],
    ['userId', () => client.wallets.verify('0x', { userId: null as never })],
    ['userId', () => client.wallets.verify('0x', { userId: '1', anyUser: true } as never)],
    ['userId', () => client.wallets.verify('0x', { anyUser: false } as never)],
    ['userId', () => client.wallets.verify('0x', { userId: '1', anyUser: false } as never)],
    ['userId', () => client.wallets.verifyMany([{ address: '0x', userId: lost }]).next()],
    ['after', () => client.changes.follow({ after: lost, handle: () => 0, save: () => 0 })],
    ['after', () => client.changes.copy({ after: '' } as never)],
    ['pag', () => client.users.page({ pag: 3 } as never)],
  ])('%s', async (argument, work) => {
    const error = await Promise.resolve(work()).catch((failure) => failure);
    expect(error).toMatchObject({ code: 'BAD_USER_INPUT', argument });
    expect(requests).toEqual([]);
  });
});

describe('a webhook', () => {
  const [now, before] = [1, 2].map((byte) => `whsec_${Buffer.alloc(32, byte).toString('base64')}`) as [string, string];
  function signed(secrets: readonly string[], body: string, at = new Date(), id = 'one') {
    const signatures = secrets.map((secret) => new Webhook(secret).sign(id, at, body));
    const timestamp = String(Math.floor(at.getTime() / 1_000));
    return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') };
  }

  test.each(listSamples().map(({ type, body }) => [type, body] as const))('%s is read', async (type, body) => {
    const message = await verifyWebhook(body, signed([now], body), now);
    expect(message).toMatchObject({ id: 'one', type: type.replace('.', '_').toUpperCase(), userId: '42' });
    expect(message.fields).toEqual(type === 'user.updated' ? ['email', 'externalId'] : []);
    expect(message.mergedInto).toBe(type === 'user.merged' ? '7' : null);
  });

  test('of a test, and of an identity without a user, names no user', async () => {
    const { body } = testMessage('one', new Date());
    expect(await verifyWebhook(body, signed([now], body), now)).toMatchObject({ type: 'WEBHOOK_TEST', userId: null });
    const change = { id: '', type: 'identity.banned', at: '', userId: null, fields: [], mergedInto: null } as const;
    const banned = messageOf(change).body;
    expect(await verifyWebhook(banned, signed([now], banned), now)).toMatchObject({ userId: null });
  });

  test('is verified by either of two secrets, and by the headers of fetch', async () => {
    const { body } = testMessage('one', new Date());
    for (const [secrets, given] of [
      [[now, before], before],
      [[before], [now, before]],
      [[now], [now, before]],
    ] as const)
      await verifyWebhook(body, new Headers(signed(secrets, body)), given);
  });

  test('the vector of the specification', async () => {
    const body = '{"test": 2432232314}';
    const headers = {
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    };
    vi.useFakeTimers({ now: 1_614_265_330_000 });
    try {
      const message = { type: 'x', timestamp: '', data: {} };
      await expect(
        verifyWebhook(JSON.stringify(message), headers, 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'),
      ).rejects.toThrow();
      await expect(verifyWebhook(body, headers, 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')).resolves.toBeDefined();
    } finally {
      vi.useRealTimers();
    }
  });

  const { body } = testMessage('one', new Date());
  const minutes = (count: number) => new Date(Date.now() + count * 60_000);
  test.each<[string, string, object]>([
    ['another body', `${body} `, signed([now], body)],
    ['another secret', body, signed([`whsec_${Buffer.alloc(32, 3).toString('base64')}`], body)],
    ['another id', body, { ...signed([now], body), 'webhook-id': 'two' }],
    ['an old time', body, signed([now], body, minutes(-6))],
    ['a time to come', body, signed([now], body, minutes(6))],
    ['no time', body, { ...signed([now], body), 'webhook-timestamp': 'soon' }],
    ['no headers', body, {}],
    ['a long body', 'x'.repeat(65_537), signed([now], 'x'.repeat(65_537))],
    [
      'another version',
      body,
      { ...signed([now], body), 'webhook-signature': signed([now], body)['webhook-signature'].replace('v1', 'v2') },
    ],
    ['no signature', body, { ...signed([now], body), 'webhook-signature': 'v1, v1,= v1,%' }],
    [
      'too many signatures',
      body,
      {
        ...signed([now], body),
        'webhook-signature': `${'v1,AA== '.repeat(10)}${signed([now], body)['webhook-signature']}`,
      },
    ],
  ])('with %s is refused', async (_name, text, headers) => {
    const error = await verifyWebhook(text, headers as Record<string, string>, [now, before]).catch(
      (failure) => failure,
    );
    expect(error).toMatchObject({ name: 'UserdirError', code: 'WEBHOOK_NOT_VERIFIED' });
  });

  const withId = (length: number) => signed([now], body, new Date(), 'i'.repeat(length));
  const padded = (length: number) => body.padEnd(length);
  const seconds = (count: number) => signed([now], body, new Date(count * 1_000));
  const behind = (count: number) => `${'v1,AA== '.repeat(count)}${signed([now], body)['webhook-signature']}`;
  test.each<[string, string, object, beyond: [string, object]]>([
    ['the oldest time', body, seconds(700), [body, seconds(699)]],
    ['the latest time', body, seconds(1_300), [body, seconds(1_301)]],
    ['the longest id', body, withId(2_000), [body, withId(2_001)]],
    [
      'the longest body',
      padded(65_536),
      signed([now], padded(65_536)),
      [padded(65_537), signed([now], padded(65_537))],
    ],
    [
      'the most signatures',
      body,
      { ...signed([now], body), 'webhook-signature': behind(9) },
      [body, { ...signed([now], body), 'webhook-signature': behind(10) }],
    ],
  ])('with %s is verified, and not beyond', async (what, text, headers, [textBeyond, headersBeyond]) => {
    if (what.endsWith('time')) vi.useFakeTimers({ now: 1_000_000, toFake: ['Date'] });
    try {
      await expect(verifyWebhook(text, headers as never, now)).resolves.toBeDefined();
      const code = 'WEBHOOK_NOT_VERIFIED';
      await expect(verifyWebhook(textBeyond, headersBeyond as never, now)).rejects.toMatchObject({ code });
    } finally {
      vi.useRealTimers();
    }
  });

  test.each(['1000000000', '1e9', '1000000000.0', ' 1000000000', '+1000000000', '0x3b9aca00', '0001000000000'])(
    'of the time %j is refused unless that is a number of seconds',
    async (timestamp) => {
      vi.useFakeTimers({ now: 1_000_000_000_000, toFake: ['Date'] });
      try {
        const key = Buffer.from(now.slice('whsec_'.length), 'base64');
        const signature = createHmac('sha256', key).update(`one.${timestamp}.${body}`).digest('base64');
        const headers = {
          'webhook-id': 'one',
          'webhook-timestamp': timestamp,
          'webhook-signature': `v1,${signature}`,
        };
        const isVerified = await verifyWebhook(body, headers, now).then(
          () => true,
          () => false,
        );
        expect(isVerified).toBe(timestamp === '1000000000');
      } finally {
        vi.useRealTimers();
      }
    },
  );

  test.each([[undefined], [''], ['whsec_'], [[now, undefined]], ['whsec_short'], ['whsec_%%%%%%%%%%%%%%%%%%%%%%%%']])(
    'is refused where %s is the secret',
    async (secrets) => {
      const error = await verifyWebhook(body, signed([now], body), secrets as string).catch((failure) => failure);
      expect(error).toMatchObject({ code: 'BAD_USER_INPUT', argument: 'secrets' });
    },
  );

  test.each(['null', '7', '{}', '{"data":{}}'])('that is verified and tells nothing names nobody: %s', async (text) => {
    const nothing = { id: 'one', type: '', at: '', userId: null, fields: [], mergedInto: null };
    expect(await verifyWebhook(text, signed([now], text), now)).toEqual(nothing);
  });

  test('is verified by a secret of 16 bytes, and refused with one of 15, or one that is longer than 512 characters', async () => {
    const secretOf = (bytes: number) => `whsec_${Buffer.alloc(bytes, 1).toString('base64')}`;
    for (const bytes of [16, 384])
      await expect(verifyWebhook(body, signed([secretOf(bytes)], body), secretOf(bytes))).resolves.toBeDefined();
    for (const bytes of [15, 385])
      await expect(verifyWebhook(body, signed([secretOf(bytes)], body), secretOf(bytes))).rejects.toMatchObject({
        code: 'BAD_USER_INPUT',
        argument: 'secrets',
      });
  });

  test('is refused without secrets', async () => {
    await expect(verifyWebhook(body, signed([now], body), [])).rejects.toMatchObject({ code: 'WEBHOOK_NOT_VERIFIED' });
  });
});
