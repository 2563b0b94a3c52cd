import { beforeAll, describe, expect, test } from 'vitest';
import { ethereumAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { jsonPost, SIX_ROUTES } from '../support/rest.js';

/** The cost of a request: how many statements it may take, and how a client can ask for this number. */

const app = useTestApp({ ownDatabase: true, admission: { maxInFlight: 1, maxInFlightPerProject: 1, maxQueued: 100 } });
let project: TestProject;
beforeAll(async () => {
  // With these limits, only one request is in flight at a time.
  project = await app.createProject();
  await project.addUsers(
    ...['ada', 'grace', 'mary', 'rosa', 'ines'].map((name, index) => ({
      auth_method: 'email',
      auth_value: `${name}@example.com`,
      accounts: [{ network: 'ethereum', public_key: ethereumAddress(index) }],
    })),
  );
});

const asking = { 'userdir-cost': '1' };

/** Sends a request that asks for its cost, and counts its statements. Credential lookups, about one a second, are not among them. */
async function cost(path: string, init: RequestInit): Promise<{ status: number; issued: number; body: Json }> {
  app.statements.length = 0;
  const asked = { ...init, headers: { ...(init.headers as Record<string, string>), ...asking } };
  const { status, body } = await project.rest(path, asked);
  return { status, issued: app.statements.filter((sql) => !/app_secrets/.test(sql)).length, body };
}

const graphql = (query: string) => cost('/graphql', jsonPost({ query }));

describe('the exact number of statements per operation', () => {
  test.each(SIX_ROUTES)('$route: 1', async ({ path, init }) => {
    expect((await cost(path, init)).issued).toBe(1);
  });

  test('DELETE with an idempotency key: 1', async () => {
    const { issued, status } = await cost('/server/users/2', {
      method: 'DELETE',
      headers: { 'idempotency-key': 'k' },
    });
    expect([status, issued]).toEqual([200, 1]);
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
    // A transaction: what begins and ends it is counted, too.
    linkIdentity: [
      9,
      'mutation { linkIdentity(userId: 4, input: { authMethod: "google", authValue: "l" }) { user { id identities { email } } } }',
    ],
    unlinkIdentity: [
      7,
      'mutation { unlinkIdentity(userId: 4, identity: { authMethod: "google", authValue: "l" }) { user { id } } }',
    ],
    unlinkAccount: [8, `mutation { unlinkAccount(userId: 4, address: "${ethereumAddress(3)}") { user { id } } }`],
    banUser: [5, 'mutation { banUser(id: 4) { user { id } } }'],
    banUsers: [5, 'mutation { banUsers(ids: [4, 5, 999]) { outcomes { ok } } }'],
    unbanUser: [5, 'mutation { unbanUser(id: 4) { user { id } } }'],
    mergeUsers: [14, 'mutation { mergeUsers(from: 4, into: 5) { user { id } } }'],
    banIdentity: [
      4,
      'mutation { banIdentity(identity: { authMethod: "google", authValue: "b" }) { ban { authValue } } }',
    ],
    unbanIdentity: [
      4,
      'mutation { unbanIdentity(identity: { authMethod: "google", authValue: "b" }) { user { id } } }',
    ],
    deleteUser: [1, 'mutation { deleteUser(id: 3) { id } }'],
    restoreUser: [5, 'mutation { restoreUser(id: 3) { user { id } } }'],
    removeUsers: [4, 'mutation { removeUsers(ids: [3, 999]) { outcomes { ok } } }'],
    // It is read with the credentials.
    caller: [0, '{ caller { projectName secretLabel scopes } }'],
    createUser: [1, 'mutation { createUser(input: { authMethod: "google", authValue: "made" }) { user { id } } }'],
    recordLogin: [
      1,
      'mutation { recordLogin(input: { authMethod: "email", authValue: "new@example.com" }) { created } }',
    ],
  };

  test.each(Object.entries(BUDGETS))('%s: %j', async (_field, [budget, operation]) => {
    const { issued, body } = await graphql(operation);
    expect(body.errors).toBeUndefined();
    expect(issued).toBe(budget);
  });

  test('every root field of the schema has a case above', async () => {
    const { data } = await project.graphql(
      '{ __schema { queryType { ...F } mutationType { ...F } } } fragment F on __Type { fields { name } }',
    );
    const fields = [data.__schema.queryType, data.__schema.mutationType].flatMap(({ fields }) => fields);
    // Introspection does not show what only gateways ask.
    const hidden = ['_entities', '_service'];
    // A project has at most ten webhooks, which are not read in batches.
    const counted = fields.map(({ name }: Json) => name).filter((name: string) => !/webhook/i.test(name));
    // The statements of changes are counted in changes.test.ts: it may read again, once more has been published.
    expect([...Object.keys(BUDGETS), 'changes'].toSorted()).toEqual([...counted, ...hidden].toSorted());
  });

  test('fields of the same kind share one statement; other fields take one each', async () => {
    const { issued } = await graphql('{ a: user(id: 1) { id } b: user(id: 7) { id } userCount c: userCount }');
    expect(issued).toBe(2);
  });
});

describe('extensions.cost', () => {
  test('contains the cost of the operation, and the limit', async () => {
    const { body } = await graphql('{ users(first: 5) { totalCount nodes { id } } }');
    expect(Object.keys(body)).toEqual(['data', 'extensions']);
    expect(body.extensions).toEqual({ cost: { requested: 218, limit: 10_000 } });
  });

  test('is present when the operation fails, and when it costs too much', async () => {
    const failed = await graphql('{ users(first: 0) { totalCount } }');
    expect(failed.body).toMatchObject({ errors: [{}], extensions: { cost: {} } });
    const { status, body } = await graphql(
      `{ ${Array.from({ length: 100 }, (_, n) => `c${n}: userCount`).join(' ')} }`,
    );
    expect([status, body.data]).toEqual([200, undefined]);
    expect(body.extensions.cost).toMatchObject({ requested: 20_100, limit: 10_000 });
  });

  test('is absent when there is no operation, or when the client did not ask for it', async () => {
    expect((await graphql('{ users {')).body.extensions).toBeUndefined();
    const { body } = await project.rest('/graphql', jsonPost({ query: '{ userCount }' }));
    expect(Object.keys(body)).toEqual(['data']);
  });

  test('is the same on the fast path, compiled or not, as through the HTTP layer of Yoga', async () => {
    const query = 'query Q { users(first: 2) { totalCount nodes { id accounts { publicKey } } } }';
    const answers = new Set<string>();
    const ask = async (body: object) => {
      answers.add(JSON.stringify((await cost('/graphql', jsonPost(body))).body));
    };
    for (let time = 0; time < 6; time += 1) await ask({ query });
    // An empty `extensions` has no meaning, but it sends the request through Yoga's HTTP layer.
    await ask({ query, extensions: {} });
    expect([...answers]).toHaveLength(1);
  });
});
