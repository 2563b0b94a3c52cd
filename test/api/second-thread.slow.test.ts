import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { createSecondThread } from '#dist/app/second-thread.js';
import { LIMITS } from '#dist/engine/limits.js';
import { type Json, type TestApp, type TestProject, useTestApp } from '../support/app.js';
import { openEvents } from '../support/events.js';
import { requestGraphQL } from '../support/graphql.js';
import { asked, requestOf } from '../support/second-thread.js';

/** Heavy requests, which a second thread answers while other projects are active. Its answers are those of the first one. */

const one = useTestApp();
const two = useTestApp({ env: { SECOND_THREAD: 'auto', METRICS_PORT: '0' } });
let storm: TestProject;
let calm: TestProject;
let firstId: string;

const ALL =
  'id authMethod loginMethod authValue wallet createdAt lastLogin loginCount accounts { id network publicKey walletType }';
const many = (count: number, make: (index: number) => string) =>
  Array.from({ length: count }, (_, n) => make(n)).join(' ');
/** A document that is not light, and new each time. */
const heavy = (field = 'users(first: 100) { nodes { id } }') => {
  made += 1;
  return `{ ${many(4, (n) => `a${made}x${n}: ${field}`)} ${many(60, (n) => `b${made}x${n}: userCount`)} }`;
};
let made = 0;

const PATIENCE = { timeout: 50_000, interval: 20 };

/** How many requests the second thread has had. */
async function executedInSecondThread(): Promise<number> {
  const text = await (await fetch(two.metricsUrl)).text();
  return Number(/^userdir_second_thread_requests_total (\d+)$/m.exec(text)?.[1]);
}

/** Sends heavy requests beside those of another project, until the second thread has had one. */
async function untilStarted(): Promise<void> {
  while ((await executedInSecondThread()) === 0) {
    await calm.graphql('{ userCount }');
    await storm.graphql(heavy());
    await sleep(20);
  }
}

beforeAll(async () => {
  [storm, calm] = [await two.createProject(), await two.createProject()];
  const accounts = [{ network: 'ethereum', public_key: `0x${'ab'.repeat(20)}` }];
  await storm.addUsers(
    ...Array.from({ length: 120 }, (_, n) => ({
      auth_method: 'passkey',
      auth_value: `user-${n}-é"\\`,
      accounts,
    })),
  );
  firstId = (await storm.graphql('{ users(last: 1) { nodes { id } } }')).data.users.nodes[0].id;
  await untilStarted();
});

/** The same request to a service with one thread and to one with two. */
function both(init: RequestInit, parameters = '') {
  const headers = { ...storm.credentials, 'content-type': 'application/json', ...(init.headers as object) };
  const ask = async (app: TestApp) => {
    const { status, headers: got, text } = await requestGraphQL(app, { ...init, headers }, parameters);
    return { status, type: got.get('content-type'), retryAfter: got.get('retry-after'), text };
  };
  return Promise.all([ask(one), ask(two)]);
}

const post = (body: object, headers = {}) => ({ method: 'POST', body: JSON.stringify(body), headers });

describe('the answer of the second thread is that of the first one, byte for byte', () => {
  const invalid = `{ ${many(900, (n) => `nope${n}`)} }`;
  const cases: [string, () => [RequestInit, string?]][] = [
    ['many users with all their fields', () => [post({ query: heavy(`users(first: 100) { nodes { ${ALL} } }`) })]],
    ['directives', () => [post({ query: heavy(`users(first: 100) { nodes @include(if: true) { ${ALL} } }`) })]],
    [
      'users by id',
      () => {
        const query = `query ($ids: [ID!]!) { ${many(21, (n) => `a${n}: usersByIds(ids: $ids) { id authValue }`)} }`;
        return [
          post({ query, variables: { ids: Array.from({ length: 100 }, (_, n) => String(Number(firstId) + n)) } }),
        ];
      },
    ],
    ['a document that is not valid', () => [post({ query: invalid })]],
    [
      'the same with the other media type',
      () => [post({ query: invalid }, { accept: 'application/graphql-response+json' })],
    ],
    ['a document that cannot be parsed', () => [post({ query: `${heavy()} }` })]],
    ['too many characters', () => [post({ query: `{ userCount } #${' '.repeat(LIMITS.characters)}` })]],
    [
      'a cost that is too high',
      () => [post({ query: heavy(`users(first: 100) { nodes { ${many(100, (n) => `a${n}: accounts { id }`)} } }`) })],
    ],
    ['fields that fail', () => [post({ query: heavy('user(id: "x") { id }') })]],
    ['a variable that is too long', () => [post({ query: heavy(), variables: { a: 'x'.repeat(9_000) } })]],
    [
      'a variable of the wrong type',
      () => [
        post({
          query: `query ($first: Int) ${heavy('users(first: $first) { nodes { id } }')}`,
          variables: { first: 'x'.repeat(3_000), more: 'y'.repeat(5_000) },
        }),
      ],
    ],
    [
      'written arguments without a value',
      () => {
        const verify = 'verifyWallet(address: "0x1f0d56F79b837F4fa02C038c17b3C37fc7c6332B", userId: $lost) { exists }';
        return [post({ query: `query ($lost: ID) { ${many(100, (n) => `a${n}: ${verify}`)} }`, variables: {} })];
      },
    ],
    [
      'variables of many bytes',
      () => [
        post({
          query: 'query ($ids: [ID!]!) { usersByIds(ids: $ids) { id } }',
          variables: { ids: Array.from({ length: 100 }, () => '9'.repeat(60)) },
        }),
      ],
    ],
    ['one of two operations', () => [post({ query: `query A ${heavy()} query B ${heavy()}`, operationName: 'B' })]],
    ['no operation of that name', () => [post({ query: `query A ${heavy()} query B ${heavy()}`, operationName: 'C' })]],
    ['an unknown parameter', () => [post({ query: heavy(), batch: true })]],
    [
      'introspection',
      () => [
        post({ query: `{ ${many(20, (n) => `t${n}: __type(name: "User") { name fields { name description } }`)} }` }),
      ],
    ],
    [
      'a query in the URL',
      () => [
        {},
        `?${new URLSearchParams({ query: `query ($n: Int) ${heavy('users(first: $n) { nodes { id } }')}`, variables: '{"n":3}' })}`,
      ],
    ],
    [
      'a mutation in the URL',
      () => [
        {},
        `?${new URLSearchParams({ query: `mutation { ${many(40, (n) => `a${n}: deleteUser(id: 1) { id }`)} }` })}`,
      ],
    ],
    [
      'an operation whose cost is asked for',
      () => [post({ query: `{ userCount } # ${'x'.repeat(5_000)}` }, { 'userdir-cost': '1' })],
    ],
  ];
  test.each(cases)('%s', async (_, make) => {
    const before = await executedInSecondThread();
    const [expected, answered] = await both(...make());
    expect(answered).toEqual(expected);
    expect(await executedInSecondThread()).toBe(before + 1);
  });

  test('a change that it makes: the users are logged in, and the totals are exact', async () => {
    const before = (await storm.graphql('{ userCount }')).data.userCount;
    const secondThread = await executedInSecondThread();
    const logIn = (by: string) => ({
      query: `mutation { ${many(60, (n) => `a${n}: recordLogin(input: { authMethod: "github", authValue: "${by} ${n}" }) { created }`)} }`,
    });
    const light = (n: number) =>
      storm.graphql(`mutation { recordLogin(input: { authMethod: "github", authValue: "light ${n}" }) { created } }`);
    // Both threads write into the same database at once.
    const [[, answer]] = await Promise.all([
      both(post(logIn('both'))),
      ...Array.from({ length: 30 }, (_, n) => light(n)),
      storm.graphql(logIn('two').query),
    ]);
    const { data } = JSON.parse((answer as { text: string }).text) as Json;
    expect(Object.values(data)).toHaveLength(60);
    expect((await storm.graphql('{ userCount }')).data.userCount).toBe(before + 150);
    expect(await executedInSecondThread()).toBe(secondThread + 2);
  });
});

describe('verdicts on many wallets of the second thread are those of the first one', () => {
  const owned = `0x${'ab'.repeat(20)}`;
  const wallets = (count: number) =>
    Array.from({ length: count }, (_, n) => ({ address: n === 3 ? owned : `0x${n.toString(16).padStart(40, '0')}` }));
  /** Without the instant. */
  const stable = (text: string) => text.replace(/"as_of":"[^"]+"/, '"as_of":""');

  async function verify(app: TestApp, body: string, headers = {}) {
    const response = await fetch(`${app.url}/wallets/verify`, {
      method: 'POST',
      body,
      headers: { ...storm.credentials, 'content-type': 'application/json', ...headers },
    });
    const { status } = response;
    const answered = ['content-type', 'userdir-error-code', 'retry-after'].map((name) => response.headers.get(name));
    return { status, answered, text: stable(await response.text()) };
  }

  test.each<[string, string, number, object?]>([
    ['500 wallets', JSON.stringify({ wallets: wallets(500) }), 200],
    ['with their cost', JSON.stringify({ wallets: wallets(100) }), 200, { 'userdir-cost': '1' }],
    [
      'malformed wallets',
      JSON.stringify({ wallets: [...wallets(100), { address: 'x' }, { address: owned, user_id: -1 }] }),
      200,
    ],
    ['too many wallets', JSON.stringify({ wallets: wallets(501) }), 400],
    ['an unknown field', JSON.stringify({ wallets: wallets(100), more: 1 }), 400],
    ['what is no list', JSON.stringify({ wallets: 'x'.repeat(3_000) }), 400],
    ['what is no JSON', '['.repeat(20) + ' '.repeat(3_000), 400],
    ['a forbidden key', `{"__proto__":{}, "x": "${'x'.repeat(3_000)}"}`, 400],
    ['a large body', JSON.stringify({ wallets: wallets(100) }).padEnd(200_000), 200],
  ])('%s', async (_, body, status, headers) => {
    const before = await executedInSecondThread();
    const [expected, answered] = [await verify(one, body, headers), await verify(two, body, headers)];
    expect(answered).toEqual(expected);
    expect(answered.status).toBe(status);
    expect(await executedInSecondThread()).toBe(before + 1);
  });

  test('a few wallets are answered in the first thread', async () => {
    const before = await executedInSecondThread();
    expect((await verify(two, JSON.stringify({ wallets: wallets(5) }))).status).toBe(200);
    expect(await executedInSecondThread()).toBe(before);
  });

  test('a secret without the scope is refused', async () => {
    const { projects, secrets } = two.context.services;
    const scope = await projects.getScope(storm.appId);
    const { appSecret } = await secrets.addSecret(scope, { label: 'reads', scopes: ['read'], expiresInMs: null });
    const { status } = await verify(two, JSON.stringify({ wallets: wallets(100) }), {
      'service-app-secret': appSecret,
    });
    expect(status).toBe(403);
  });

  test('their cost is that of the second thread', async () => {
    const response = await fetch(`${two.url}/wallets/verify`, {
      method: 'POST',
      body: JSON.stringify({ wallets: wallets(500) }),
      headers: { ...storm.credentials, 'content-type': 'application/json', 'userdir-cost': '1' },
    });
    expect(response.headers.get('server-timing')).toMatch(/desc="1 statement"/);
  });
});

describe('in the second thread', () => {
  /** A removal of one user that is heavy, with a secret of this scope. */
  async function remove(id: number, scope: 'read' | 'write'): Promise<Json> {
    const { projects, secrets } = two.context.services;
    const { appSecret } = await secrets.addSecret(await projects.getScope(storm.appId), {
      label: scope,
      scopes: [scope],
      expiresInMs: null,
    });
    const query = `mutation { x: deleteUser(id: ${id}) { id } ${many(60, (n) => `a${n}: recordLogin(input: { authMethod: "github", authValue: "removal ${n}" }) { created }`)} }`;
    const before = await executedInSecondThread();
    const { text } = await requestGraphQL(two, {
      ...post({ query }),
      headers: {
        ...storm.credentials,
        'service-app-secret': appSecret,
        'content-type': 'application/json',
        'x-request-id': `removal-${scope}`,
      },
    });
    expect(await executedInSecondThread()).toBe(before + 1);
    return JSON.parse(text);
  }

  test('a secret has its scopes', async () => {
    const { errors } = await remove(Number(firstId), 'read');
    expect(errors[0].extensions.code).toBe('FORBIDDEN');
  });

  test('the audit trail has the label of the secret and the id of the request', async () => {
    expect((await remove(Number(firstId), 'write')).data.x).toEqual({ id: firstId });
    const { projects, audit } = two.context.services;
    const entries = await audit.listEntries(await projects.getScope(storm.appId), null, 100);
    expect(entries).toContainEqual(
      expect.objectContaining({ actor: 'write', requestId: 'removal-write', userId: Number(firstId) }),
    );
  });

  const SUBSCRIPTION = `subscription { changes { change { ${many(60, (n) => `alias${n}: id`)} type } } }`;

  test('a subscription is handed back to the first one, which answers it', async () => {
    const before = await executedInSecondThread();
    const stream = await openEvents(`${two.url}/graphql`, {
      ...post({ query: SUBSCRIPTION }),
      headers: { ...storm.credentials, 'content-type': 'application/json' },
    });
    expect(await executedInSecondThread()).toBe(before + 1);
    await storm.addUsers({ auth_method: 'google', auth_value: 'seen by the stream' });
    const [event] = await stream.waitFor(1);
    expect(JSON.parse((event as { data: string }).data).data.changes.change.type).toBe('USER_CREATED');
    stream.close();
  });

  test('a subscription without a stream is refused as by the first one', async () => {
    const [expected, answered] = await both(post({ query: SUBSCRIPTION }));
    expect(answered).toEqual(expected);
    expect(answered.status).toBe(400);
  });
});

test('an operation that is known to be light is executed in the first thread', async () => {
  const query = `{ users(first: 1) { nodes { ${many(70, (n) => `light${n}: id`)} } } }`;
  expect(query.length).toBeGreaterThan(500);
  await storm.graphql(query);
  const before = await executedInSecondThread();
  for (let n = 0; n < 5; n += 1) await storm.graphql(query);
  expect(await executedInSecondThread()).toBe(before);
});

describe('the thread', () => {
  const failures: unknown[] = [];
  const startThread = async (times: { idleMs?: number; silentMs?: number } = {}) => {
    const thread = createSecondThread(two.config, {
      openPort: two.context.db.openPort,
      isAlone: () => false,
      onFailure: (error, what) => failures.push(`${what} ${(error as Error).message}`),
      ...times,
    });
    const secondThread = thread.taskOf('graphql');
    const request = requestOf(await two.context.services.projects.getScope(storm.appId));
    await vi.waitFor(() => expect(secondThread.takes(request)).toBe(true), PATIENCE);
    return { thread, secondThread, request };
  };

  test('answers what it has been given before it closes', async () => {
    const { thread, secondThread, request } = await startThread();
    const answered = secondThread.answer(request, asked(heavy()));
    await thread.close();
    expect((await answered).answer?.status).toBe(200);
    expect(thread.usage()).toEqual({ requests: 1, starts: 1, isRunning: false });
    expect(failures).toEqual([]);
  });

  test('ends the work of a request whose client has gone, at its next charge', async () => {
    const { thread, secondThread, request } = await startThread();
    const project = await two.createProject();
    await two.context.db.pool.query(
      `INSERT INTO changes (project_id, type) SELECT p.id, 'user.created' FROM projects p, generate_series(1, 8000) WHERE p.app_id = $1`,
      [project.appId],
    );
    const scope = await two.context.services.projects.getScope(project.appId);
    // All of them are published then.
    await two.context.services.changes.findStart(scope, 'now');
    const read = async (isThere: boolean) => {
      const own = Object.assign(Object.create(request), { scope, addWeight: () => isThere });
      const { body } = await secondThread.answer(own, asked('{ changes(types: [USER_REMOVED]) { nodes { id } } }'));
      return JSON.parse(Buffer.from(body as Uint8Array).toString());
    };
    expect(await read(true)).toEqual({ data: { changes: { nodes: [] } } });
    expect((await read(false)).errors).toMatchObject([{ extensions: { code: 'REQUEST_TIMEOUT' } }]);
    await thread.close();
    expect(failures).toEqual([]);
  });

  test('ends when it was not used for long, and can be started again', async () => {
    const { thread, secondThread, request } = await startThread({ idleMs: 1_000 });
    await vi.waitFor(() => expect(thread.usage().isRunning).toBe(false), PATIENCE);
    secondThread.takes(request);
    expect(thread.usage().starts).toBe(2);
    await thread.close();
    expect(failures).toEqual([]);
  });

  test('is ended if it hangs: its requests are refused, and it can be started again', async () => {
    const { thread, secondThread, request } = await startThread({ silentMs: 50 });
    // No request is as large. It takes some hundred milliseconds to parse.
    const body = Buffer.from(`{"variables":{"a":[${'[],'.repeat(8_000_000)}0]}}`);
    const hanging = secondThread.answer(request, { ...asked('{ userCount }'), body: new Uint8Array(body) });
    await expect(hanging).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(failures.splice(0)).toEqual(['The thread for heavy requests was ended. It gave no sign of life.']);
    await vi.waitFor(() => expect(secondThread.takes(request)).toBe(true), PATIENCE);
    await thread.close();
  });
});
