import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { ethereumAddress } from '../support/addresses.js';
import { type Json, startTestApp, type TestProject, useTestApp } from '../support/app.js';
import { jsonPost, SIX_ROUTES } from '../support/rest.js';

/** The cost of a request: how many statements it may take, and how a client can ask for this number. */

const app = useTestApp({ ownDatabase: true, admission: { maxInFlight: 1, maxInFlightPerProject: 1, maxQueued: 100 } });
let project: TestProject;
beforeAll(async () => {
  // With these limits, only one request is in flight at a time.
  project = await app.createProject();
  await project.addUsers(
    ...['ada', 'grace', 'mary'].map((name, index) => ({
      auth_method: 'email',
      auth_value: `${name}@example.com`,
      accounts: [{ network: 'ethereum', public_key: ethereumAddress(index) }],
    })),
  );
});

const asking = { 'userdir-cost': '1' };

interface Bill {
  status: number;
  /** The number of statements in the header, in the GraphQL body, and as the database received them. */
  inHeader: number;
  inBody: number;
  issued: number;
  body: Json;
}

/** Sends a request that asks for its cost. Credential lookups, about one a second, are not part of the cost. */
async function cost(path: string, init: RequestInit): Promise<Bill> {
  app.statements.length = 0;
  const asked = { ...init, headers: { ...(init.headers as Record<string, string>), ...asking } };
  const { status, headers, body } = await project.rest(path, asked);
  const inHeader = Number(/desc="(\d+) statements?"/.exec(headers.get('server-timing') ?? '')?.[1]);
  return {
    status,
    inHeader,
    inBody: body.extensions?.cost.statements,
    issued: app.statements.filter((sql) => !/app_secrets/.test(sql)).length,
    body,
  };
}

function timingOf(headers: Headers): Record<string, number> {
  const said = headers.get('server-timing') ?? '';
  return Object.fromEntries(
    [...said.matchAll(/(\w+);dur=([\d.]+)/g)].map(([, name = '', duration]) => [name, Number(duration)]),
  );
}

const graphql = (query: string) => cost('/graphql', jsonPost({ query }));

describe('the exact number of statements per operation', () => {
  test.each(SIX_ROUTES)('$route: 1', async ({ path, init }) => {
    const { inHeader, issued } = await cost(path, init);
    expect([inHeader, issued]).toEqual([1, 1]);
  });

  test('DELETE with an idempotency key: 1', async () => {
    const { inHeader, issued, status } = await cost('/server/users/2', {
      method: 'DELETE',
      headers: { 'idempotency-key': 'k' },
    });
    expect([status, inHeader, issued]).toEqual([200, 1, 1]);
  });

  const user = 'id authValue accounts { publicKey }';
  const BUDGETS: Record<string, [statements: number, operation: string]> = {
    user: [1, `{ user(id: 1) { ${user} } }`],
    users: [1, `{ users(first: 2) { totalCount pageInfo { hasNextPage } nodes { ${user} } } }`],
    userPage: [1, `{ userPage { totalUser users { ${user} } } }`],
    userByIdentity: [1, `{ userByIdentity(authMethod: "email", authValue: "ada@example.com") { ${user} } }`],
    userByExternalId: [1, `{ userByExternalId(externalId: "A-1") { ${user} } }`],
    // Here no user is banned; with one it is 2 (bans.test.ts).
    bans: [1, `{ bans { nodes { authValue user { ${user} } } } }`],
    findUser: [2, `{ findUser(any: "ada@example.com") { ${user} } }`],
    usersByPrefix: [1, `{ usersByPrefix(prefix: "ada") { hasMore users { ${user} } } }`],
    userCount: [1, '{ userCount }'],
    searchUsers: [1, `{ searchUsers(by: { email: "ada@example.com" }) { ${user} } }`],
    usersByIds: [1, `{ usersByIds(ids: [1, 2, 3, 99]) { ${user} } }`],
    usersByEmails: [1, `{ usersByEmails(emails: ["ada@example.com", "x@example.com"]) { ${user} } }`],
    usersByExternalIds: [1, `{ usersByExternalIds(externalIds: ["A-1", "A-2"]) { ${user} } }`],
    usersByIdentities: [
      1,
      `{ usersByIdentities(identities: [{ authMethod: "email", authValue: "ada@example.com" }, { authMethod: "github", authValue: "1" }]) { ${user} } }`,
    ],
    _entities: [1, `{ _entities(representations: [{ __typename: "User", id: 1 }]) { ... on User { ${user} } } }`],
    _service: [0, '{ _service { sdl } }'],
    verifyWallet: [1, `{ verifyWallet(address: "${ethereumAddress(0)}") { exists } }`],
    verifyWallets: [
      1,
      `{ verifyWallets(inputs: [{ address: "${ethereumAddress(0)}" }, { address: "x" }, { address: "${ethereumAddress(1)}", userId: 2 }]) { asOf verdict } }`,
    ],
    parseAddress: [0, `{ parseAddress(address: "${ethereumAddress(0)}") { network } }`],
    updateUser: [1, 'mutation { updateUser(id: 3, input: { externalId: "x-4" }) { user { id } } }'],
    deleteUser: [1, 'mutation { deleteUser(id: 3) { id } }'],
    recordLogin: [
      1,
      'mutation { recordLogin(input: { authMethod: "email", authValue: "new@example.com" }) { created } }',
    ],
  };

  test.each(Object.entries(BUDGETS))('%s: %j', async (_field, [budget, operation]) => {
    const { inHeader, inBody, issued, body } = await graphql(operation);
    expect(body.errors).toBeUndefined();
    expect([inHeader, inBody, issued]).toEqual([budget, budget, budget]);
  });

  test('every root field of the schema has a case above', async () => {
    const { data } = await project.graphql(
      '{ __schema { queryType { ...F } mutationType { ...F } } } fragment F on __Type { fields { name } }',
    );
    const fields = [data.__schema.queryType, data.__schema.mutationType].flatMap(({ fields }) => fields);
    // Introspection does not show what only gateways ask.
    const hidden = ['_entities', '_service'];
    // The statements of changes are counted in changes.test.ts: it may read again, once more has been published.
    expect([...Object.keys(BUDGETS), 'changes'].toSorted()).toEqual(
      [...fields.map(({ name }: Json) => name), ...hidden].toSorted(),
    );
  });

  test('fields of the same kind share one statement; other fields take one each', async () => {
    const { inBody } = await graphql('{ a: user(id: 1) { id } b: user(id: 7) { id } userCount c: userCount }');
    expect(inBody).toBe(2);
  });
});

describe('extensions.cost', () => {
  test('contains the cost of the operation, the limit, and the number of statements', async () => {
    const { body, inBody } = await graphql('{ users(first: 5) { totalCount nodes { id } } }');
    expect(Object.keys(body)).toEqual(['data', 'extensions']);
    expect(body.extensions).toEqual({ cost: { requested: 218, limit: 10_000, statements: expect.any(Number) } });
    expect(inBody).toBe(1);
  });

  test('is present when the operation fails, and when it costs too much', async () => {
    const failed = await graphql('{ users(first: 0) { totalCount } }');
    expect(failed.body).toMatchObject({ errors: [{}], extensions: { cost: {} } });
    const { status, body, inBody } = await graphql(
      `{ ${Array.from({ length: 100 }, (_, n) => `c${n}: userCount`).join(' ')} }`,
    );
    expect([status, body.data, failed.inBody, inBody]).toEqual([200, undefined, 0, 0]);
    expect(body.extensions.cost).toMatchObject({ requested: 20_100, limit: 10_000 });
  });

  test('is absent when there is no operation, or when the client did not ask for it', async () => {
    expect((await graphql('{ users {')).body.extensions).toBeUndefined();
    const { body, headers } = await project.rest('/graphql', jsonPost({ query: '{ userCount }' }));
    expect(Object.keys(body)).toEqual(['data']);
    expect(headers.get('server-timing')).toBeNull();
    const other = await project.rest('/server/users', { headers: { 'userdir-cost': 'perhaps' } });
    expect(other.headers.get('server-timing')).toBeNull();
  });

  test('is the same on the fast path, compiled or not, as through the HTTP layer of Yoga', async () => {
    const query = 'query Q { users(first: 2) { totalCount nodes { id accounts { publicKey } } } }';
    const answers = new Set<string>();
    const ask = async (body: object) => {
      const { body: answered, inBody } = await cost('/graphql', jsonPost(body));
      answered.extensions.cost.statements = inBody;
      answers.add(JSON.stringify(answered));
    };
    for (let time = 0; time < 6; time += 1) await ask({ query });
    // An empty `extensions` has no meaning, but it sends the request through Yoga's HTTP layer.
    await ask({ query, extensions: {} });
    expect([...answers]).toHaveLength(1);
  });
});

describe('Server-Timing', () => {
  test('states the total time of a request, its time in the queue, and its time in the database', async () => {
    const other = await app.createProject();
    /** The times of a request that waits for a lock, and of one behind it. */
    async function holdUp() {
      await Promise.all([project, other].map((each) => each.rest('/server/users/count')));
      let release = () => {};
      const released = new Promise<void>((resolve) => {
        release = resolve;
      });
      let held: Promise<void> | undefined;
      await new Promise<void>((isHeld) => {
        held = app.context.db.transaction('READ COMMITTED', async (tx) => {
          await tx.query({ text: 'LOCK TABLE users', values: [] } as never);
          isHeld();
          await released;
        });
      });
      app.statements.length = 0;
      const before = other.rest('/server/users', { headers: asking });
      while (!app.statements.some((sql) => sql.includes('FROM users'))) await sleep(5);
      // The first request is the only one in flight until its statement ends, so this one is queued.
      const behind = project.rest('/server/users', { headers: asking });
      await sleep(500);
      release();
      const [first, second] = await Promise.all([before, behind, held]);
      return [timingOf(first.headers), timingOf(second.headers)] as const;
    }
    let [first, second] = await holdUp();
    // On a busy machine the cached credentials of the second may end before it comes. It then waits for the lock, not in the queue.
    for (let tries = 1; second['wait'] === 0 && tries < 20; tries += 1) [first, second] = await holdUp();
    expect(first['db']).toBeGreaterThan(400);
    expect(second['wait']).toBeGreaterThan(first['wait'] ?? 0);
    for (const { total = 0, wait = 0, db = 0 } of [first, second]) {
      expect(wait + db).toBeLessThanOrEqual(total + 0.02);
      expect(db).toBeGreaterThan(0);
    }
  });

  test('a shared batch is counted for every request that asks for its cost, and for no other', async () => {
    await project.rest('/server/users/count');
    const ids = Array.from({ length: 8 }, (_, index) => index + 1);
    const answers = await Promise.all(
      ids.map((id) => project.rest(`/server/users/${id}`, id % 2 === 0 ? { headers: asking } : {})),
    );
    const timings = answers.map(({ headers }) => headers.get('server-timing'));
    expect(timings.filter((timing) => timing !== null)).toHaveLength(4);
    for (const timing of timings) if (timing !== null) expect(timing).toMatch(/desc="1 statement"$/);
  });
});

describe('cost reports are limited, to protect other requests', () => {
  const isTold = async (asked: TestProject, path = '/server/users?page=0') =>
    (await asked.rest(path, { headers: asking })).headers.get('server-timing') !== null;

  test('a project gets at most ten cost reports at once; its other requests succeed without a report', async () => {
    const wide = await startTestApp();
    const [one, other] = [await wide.createProject(), await wide.createProject()];
    const { replicaReads } = wide.context.db;
    const { query } = replicaReads;
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    // Look-ups of credentials are not held back.
    replicaReads.query = async (statement) => {
      await held;
      return query(statement);
    };
    const ten = Promise.all(Array.from({ length: 10 }, () => isTold(one, '/server/users')));
    while (await isTold(one));
    expect(await isTold(other)).toBe(true);
    release();
    expect(await ten).toEqual(Array(10).fill(true));
    expect(await isTold(one)).toBe(true);
    await wide.close();
  });

  test('an incomplete body or wrong credentials do not count towards the limit of ten', async () => {
    const { hostname, port } = new URL(app.url);
    const slow = Array.from({ length: 12 }, () => {
      const socket = connect(Number(port), hostname);
      const headers = { ...project.credentials, ...asking, 'content-type': 'application/json', 'content-length': '10' };
      const lines = Object.entries({ host: 'userdir', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
      socket.write(`POST /server/wallets/verify HTTP/1.1\r\n${lines.join('')}\r\n{`);
      return socket;
    });
    const wrong = await fetch(`${app.url}/server/users`, {
      headers: { ...project.credentials, ...asking, 'service-app-secret': 'wrong' },
    });
    expect([wrong.status, wrong.headers.get('server-timing')]).toEqual([401, null]);
    const asked = await project.rest('/server/users/count', { headers: asking });
    for (const socket of slow) socket.destroy();
    expect(asked.headers.get('server-timing')).not.toBeNull();
  });
});
