import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { userFilter } from '#dist/domain/filters.js';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** How many SQL statements an operation takes. More statements are slower, so the numbers are exact where possible. */

const USERS = 100;

const app = useTestApp({ admission: { maxInFlight: 256, maxInFlightPerProject: 256, maxQueued: 256 } });
let project: TestProject;
let ids: string[];
let other: TestProject;
let otherIds: string[];

async function projectWithAccounts(seed: number): Promise<[TestProject, string[]]> {
  const made = await app.createProject();
  await made.addUsers(
    ...Array.from({ length: USERS }, (_, index) => ({
      auth_method: 'passkey',
      auth_value: `user${index}`,
      accounts: [0, 1].map((place) => ({
        network: 'stellar',
        public_key: stellarAddress(seed + index * 2 + place),
      })),
    })),
  );
  // Without this, the first request for a total would schedule a fold of the pending changes during a test.
  const { totals, projects } = app.context.services;
  await totals.fold(await projects.getScope(made.appId));
  const { data } = await made.graphql(`{ users(first: ${USERS}) { nodes { id } } }`);
  return [made, data.users.nodes.map((user: Json) => user.id)];
}

beforeAll(async () => {
  // Two projects, to check that neither waits for the other.
  [project, ids] = await projectWithAccounts(0);
  [other, otherIds] = await projectWithAccounts(1_000);
});
beforeEach(() => {
  app.statements.length = 0;
});

/** Whether a statement looks up credentials. This happens only now and then, because credentials are cached. */
const readsSecrets = (sql: string) => /JOIN app_secrets/.test(sql);

/** The number of statements since the test began, by what they read. Credential lookups are left out. */
function statements() {
  const kinds = app.statements
    .filter((sql) => !readsSecrets(sql))
    .map((sql) => {
      if (/k\.project_id, k\.id FROM/.test(sql)) return 'accounts';
      if (/u\.id = k\.id OFFSET 0/.test(sql)) return 'users by key';
      if (/FROM users u/.test(sql)) return 'list';
      return sql;
    });
  return Object.fromEntries([...new Set(kinds)].map((kind) => [kind, kinds.filter((each) => each === kind).length]));
}

test('users under two aliases take one list statement each, and none for their accounts', async () => {
  const { data } = await project.graphql(
    '{ a: users(first: 100) { nodes { accounts { id } } } b: users(last: 100) { nodes { accounts { id } } } }',
  );
  expect(data.a).toEqual(data.b);
  expect(statements()).toEqual({ list: 2 });
});

test('30 users selected one by one under aliases take one statement', async () => {
  const few = ids.slice(0, 30);
  const fields = few.map((id, index) => `u${index}: user(id: ${id}) { id accounts { id } }`);
  const { data } = await project.graphql(`{ ${fields.join(' ')} }`);
  expect(Object.values<Json>(data).map((user) => user.id)).toEqual(few);
  expect(statements()).toEqual({ 'users by key': 1 });
});

test('the searches of one operation share a statement, and so do its verifications', async () => {
  const fields = Array.from(
    { length: 15 },
    (_, index) =>
      `s${index}: searchUsers(by: { address: "${stellarAddress(index * 2)}" }) { id }
       v${index}: verifyWallet(address: "${stellarAddress(index * 2)}") { userId }`,
  );
  const { data } = await project.graphql(`{ ${fields.join(' ')} }`);
  expect(data.s7).toEqual([{ id: data.v7.userId }]);
  expect(app.statements.filter((sql) => !readsSecrets(sql))).toHaveLength(2);
});

test('20 simultaneous requests for one user each, on 20 connections, take at most two statements', async () => {
  const asked = ids.slice(0, 20);
  const connections = await Promise.all(asked.map(() => connect()));
  let seen: Record<string, number> = {};
  const taken = () => seen['users by key'] ?? 20;
  // On a busy machine, the requests of a round may arrive in several ticks. In the first round the connections are new.
  for (let round = 1; round <= 20 && taken() > 2; round += 1) {
    app.statements.length = 0;
    const answers = connections.map((connection) => nextAnswer(connection));
    for (const [index, connection] of connections.entries()) connection.write(requestFor(asked[index] as string));
    const users = (await Promise.all(answers)).map((body) => body.result);
    expect(users.map((user) => [String(user.id), user.accounts.length])).toEqual(asked.map((id) => [id, 2]));
    seen = statements();
  }
  expect(taken()).toBeLessThanOrEqual(2);
  expect(Object.keys(seen)).toEqual(['users by key']);
  for (const connection of connections) connection.destroy();
});

test('a client that disconnects early does not affect the other requests in its batch', async () => {
  const asked = ids.slice(0, 20);
  const connections = await Promise.all(asked.map(() => connect()));
  const stay = connections.filter((_, index) => index % 2 === 0);
  const answers = Promise.all(stay.map((connection) => nextAnswer(connection)));
  for (const [index, connection] of connections.entries()) {
    connection.write(requestFor(asked[index] as string), () => {
      if (index % 2 === 1) connection.resetAndDestroy();
    });
  }
  const users = (await answers).map((body) => body.result);
  expect(users.map((user) => String(user.id))).toEqual(asked.filter((_, index) => index % 2 === 0));
  for (const connection of stay) connection.destroy();
  expect((await project.rest(`/server/users/${asked[1]}`)).status).toBe(200);
});

/** Sockets instead of fetch: everything that is written to them in one tick arrives before the next tick. */
async function connect(): Promise<Socket> {
  const { hostname, port } = new URL(app.url);
  const socket = createConnection({ host: hostname, port: Number(port), noDelay: true });
  await once(socket, 'connect');
  return socket;
}

function requestFor(id: string): string {
  const credentials = Object.entries(project.credentials).map(([name, value]) => `${name}: ${value}\r\n`);
  return `GET /server/users/${id} HTTP/1.1\r\nHost: localhost\r\n${credentials.join('')}\r\n`;
}

async function nextAnswer(socket: Socket): Promise<Json> {
  let received = '';
  for (;;) {
    received += String((await once(socket, 'data'))[0]);
    const [head = '', body] = received.split('\r\n\r\n');
    const length = /content-length: (\d+)/i.exec(head)?.[1];
    if (body !== undefined && Buffer.byteLength(body) === Number(length)) return JSON.parse(body);
  }
}

test('reads of two projects in one tick of the event loop share one statement, and each project sees only its own users', async () => {
  const { projects, users } = app.context.services;
  const [mine, theirs] = [await projects.getScope(project.appId), await projects.getScope(other.appId)];
  app.statements.length = 0;
  const wanted = [BigInt(ids[0] as string), BigInt(otherIds[0] as string)];
  const found = await Promise.all([mine, theirs].flatMap((scope) => wanted.map((id) => users.findUser(scope, id))));
  expect(found.map((user) => user?.id ?? null)).toEqual([Number(ids[0]), null, null, Number(otherIds[0])]);
  expect(statements()).toEqual({ 'users by key': 1 });
});

test('reads of users with and without accounts share one statement, and only requested accounts are returned', async () => {
  const { projects, users } = app.context.services;
  const scope = await projects.getScope(project.appId);
  app.statements.length = 0;
  const [one, two] = ids.map(BigInt) as [bigint, bigint];
  const copies = Array.from({ length: 100 }, () => users.findUser(scope, one, { withAccounts: true }));
  const [bare, alsoBare, full] = await Promise.all([
    users.findUser(scope, one, { withAccounts: false }),
    users.findUser(scope, two, { withAccounts: false }),
    ...copies,
  ]);
  expect([bare?.accounts, alsoBare?.accounts, full?.accounts?.length]).toEqual([undefined, undefined, 2]);
  expect({ ...full, accounts: undefined }).toEqual({ ...bare, accounts: undefined });
  // All hundred reads return the same object.
  expect(new Set(await Promise.all(copies)).size).toBe(1);
  expect(statements()).toEqual({ 'users by key': 1 });
});

test('large lists with accounts take several statements, and a small list does not wait for all of them', async () => {
  const { projects, users } = app.context.services;
  const [mine, theirs] = [await projects.getScope(project.appId), await projects.getScope(other.appId)];
  app.statements.length = 0;
  const filter = userFilter({});
  const page = (scope: typeof mine, number: number, limit: number) =>
    users.listPage(scope, filter, { page: number, limit, withAccounts: true });
  let answered = 0;
  const heavy = [1, 2, 3, 4, 5].map(async (number) => {
    const { users: listed } = await page(mine, number, 100);
    answered += 1;
    return listed.length;
  });
  const light = await page(theirs, 1, 10);
  expect(light.users.map(({ id }) => String(id))).toEqual(otherIds.slice(0, 10));
  expect(answered).toBeLessThan(5);
  expect(await Promise.all(heavy)).toEqual([100, 0, 0, 0, 0]);
  expect(statements()).toEqual({ list: 3 });
});

test('an unknown or impossible key does not affect the other keys of its batch', async () => {
  const { data } = await project.graphql(
    `query ($known: ID!, $stranger: ID!) {
      a: user(id: $known) { id accounts { id } } b: user(id: 9007199254740991) { id } c: user(id: "99999999999999999999") { id }
      d: user(id: $stranger) { id } e: user(id: $known) { id } f: user(id: "not an id") { id }
    }`,
    { known: ids[5], stranger: otherIds[5] },
  );
  expect(data).toEqual({
    a: { id: ids[5], accounts: [{ id: expect.any(String) }, { id: expect.any(String) }] },
    b: null,
    c: null,
    d: null,
    e: { id: ids[5] },
    f: null,
  });
  expect(statements()).toEqual({ 'users by key': 1 });
});
