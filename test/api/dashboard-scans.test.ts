import { once } from 'node:events';
import { createConnection } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { logIn, type TestOperator } from '../support/dashboard.js';

/** Users by their state in the dashboard: what one request may look at, and what that costs. A scan weighs as much as all that may be in flight. */
const app = useTestApp({ admission: { maxInFlight: 50, maxInFlightPerProject: 50, maxQueued: 500 } });
let admin: TestOperator;
let viewer: TestOperator;
/** Three windows of users, of whom only the oldest is banned. */
let project: TestProject;
beforeAll(async () => {
  [admin, viewer] = [await logIn(app, 'admin'), await logIn(app, 'viewer')];
  project = await createProject(1_100);
});
afterEach(() => void vi.restoreAllMocks());

/** A project of so many users, one each second, of whom only the oldest is banned. */
async function createProject(count: number): Promise<TestProject> {
  const created = await app.createProject();
  const user = (n: number) => ({
    auth_method: 'google',
    auth_value: `u${n}`,
    created_at: new Date(Date.UTC(2025, 0, 1) + n * 1000).toISOString(),
  });
  await created.addUsers(...Array.from({ length: count }, (_, n) => user(n)));
  const scope = await app.context.services.projects.getScope(created.appId);
  await app.context.services.bans.ban(scope, { authMethod: 'google', authValue: 'u0', authValueKey: 'u0' });
  return created;
}

const BANNED = 'state: { banned: true }';
const SCAN = `query ($appId: ID!, $after: String) {
  project(appId: $appId) { scanUsers(after: $after, ${BANNED}) { endCursor nodes { authValue } } } }`;
const scan = async (after: string | null = null): Promise<Json> =>
  (await viewer.ask(SCAN, { appId: project.appId, after })).project.scanUsers;
/** All users who match, from a cursor on, in as many requests as that takes. */
async function walk(after: string | null): Promise<string[]> {
  const { nodes, endCursor } = await scan(after);
  return [...nodes.map(({ authValue }: Json) => authValue), ...(endCursor ? await walk(endCursor) : [])];
}

/** The first window is read, but its users come only when `work` has ended. */
function afterFirstWindow(work: () => Promise<unknown>) {
  const { users } = app.context.services;
  const read = users.scanWindow;
  return vi.spyOn(users, 'scanWindow').mockImplementationOnce(async (...window) => {
    const found = await read(...window);
    await work();
    return found;
  });
}

test('a page of users by their state looks at 5,000 users at most, and the next one goes on', async () => {
  const { appId } = await createProject(5_001);
  const ask = async (given: string, variables: Json = {}) =>
    (
      await viewer.ask(
        `query ($appId: ID!, $after: String) { project(appId: $appId) { scanUsers(after: $after, ${given}) { endCursor nodes { authValue ban { isOfUser } } } } }`,
        { appId, ...variables },
      )
    ).project.scanUsers;
  const first = await ask(BANNED);
  expect(first).toEqual({ nodes: [], endCursor: expect.any(String) });
  const found = [{ authValue: 'u0', ban: { isOfUser: false } }];
  // A busy machine may take more than two requests.
  let last = first;
  while (last.endCursor !== null) last = await ask(BANNED, { after: last.endCursor });
  expect(last.nodes).toEqual(found);
  expect((await ask(`${BANNED}, oldestFirst: true, first: 1`)).nodes).toEqual(found);
  const idle = await ask('state: { lastLoginBefore: "2025-01-02", banned: false }, oldestFirst: true, first: 2');
  expect(idle.nodes.map(({ authValue }: Json) => authValue)).toEqual(['u1', 'u2']);
  for (const state of ['{}', '{ banned: null }', '{ lastLoginAfter: "never" }'])
    await expect(ask(`state: ${state}`)).rejects.toThrow(/state|lastLoginAfter/);
});

test('users are found by a part of an email, an external ID or the primary identity, and by provider', async () => {
  const created = await app.createProject();
  const { appId } = created;
  await created.addUsers(
    { auth_method: 'email', auth_value: 'Ada@Mail.Acme.example', created_at: '2025-01-01' },
    { auth_method: 'google', auth_value: 'g_%1', email: 'bo@other.example', created_at: '2025-01-02' },
    { auth_method: 'github', auth_value: 'h1', external_id: 'CRM-7', created_at: '2025-01-03' },
  );
  const find = async (state: string) => {
    const query = `query ($appId: ID!) { project(appId: $appId) { scanUsers(state: { ${state} }) { nodes { authValue } } } }`;
    const { nodes } = (await viewer.ask(query, { appId })).project.scanUsers;
    return nodes.map(({ authValue }: Json) => authValue.toLowerCase());
  };
  expect(await find('contains: "ACME"')).toEqual(['ada@mail.acme.example']);
  expect(await find('contains: "@other."')).toEqual(['g_%1']);
  expect(await find('contains: "crm-"')).toEqual(['h1']);
  expect([await find('contains: "_%"'), await find('contains: "%"')]).toEqual([['g_%1'], ['g_%1']]);
  expect(await find('contains: "example", authMethods: ["email"]')).toEqual(['ada@mail.acme.example']);
  expect(await find('authMethods: ["email"]')).toEqual(['ada@mail.acme.example']);
  expect(await find('authMethods: ["github", "email"]')).toEqual(['h1', 'ada@mail.acme.example']);
  for (const part of ['', 'x'.repeat(1_000_000)])
    await expect(find(`contains: "${part}"`)).rejects.toThrow(/contains|too large/);
});

test('a request that may look at too many users is refused before it looks at any', async () => {
  const ask = (scans: number) => {
    const fields = Array.from({ length: scans }, (_, n) => `s${n}: scanUsers(first: 1, ${BANNED}) { nodes { id } }`);
    return viewer.graphql(`{ project(appId: "${project.appId}") { ${fields.join('\n')} } }`);
  };
  const windows = vi.spyOn(app.context.services.users, 'scanWindow');
  expect((await ask(6)).errors).toMatchObject([{ message: expect.stringMatching(/^cost:/) }]);
  expect(windows).not.toHaveBeenCalled();
  expect((await ask(5)).errors).toBeUndefined();
});

test.each([
  ['tallies are compared', 'tallyDifferences { span }'],
  ['removed users are counted', 'removedUserCount(olderThanSeconds: 1)'],
])('%s once in a request', async (_what, field) => {
  const ask = (fields: string) => admin.graphql(`{ project(appId: "${project.appId}") { ${fields} } }`);
  expect((await ask(`one: ${field}`)).errors).toBeUndefined();
  expect((await ask(`one: ${field} two: ${field}`)).errors).toMatchObject([
    { message: expect.stringMatching(/^cost:/) },
  ]);
});

test('a scan that takes two seconds ends there, and its cursor leads on', async () => {
  const windows = afterFirstWindow(() => sleep(2_050));
  const { nodes, endCursor } = await scan();
  expect({ nodes, endCursor, windows: windows.mock.calls.length }).toEqual({
    nodes: [],
    endCursor: expect.any(String),
    windows: 1,
  });
  expect(await walk(endCursor)).toEqual(['u0']);
});

test('a scan whose client has gone ends', async () => {
  const { hostname, port, host } = new URL(app.url);
  const socket = createConnection({ host: hostname, port: Number(port) });
  let goOn = () => {};
  const gone = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const windows = afterFirstWindow(() => gone);
  const body = JSON.stringify({ query: SCAN, variables: { appId: project.appId } });
  const head = [
    'POST /dashboard/graphql HTTP/1.1',
    `Host: ${host}`,
    `Cookie: ${viewer.cookie}`,
    'Sec-Fetch-Site: same-origin',
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  await vi.waitUntil(() => windows.mock.calls.length === 1, { timeout: 60_000 });
  socket.destroy();
  await once(socket, 'close');
  // What comes after it is answered, so the service knows that the client has gone.
  for (let time = 0; time < 3; time += 1) await (await fetch(`${app.url}/livez`)).text();
  goOn();
  await viewer.ask('{ me { name } }');
  expect(windows).toHaveBeenCalledTimes(1);
});

test('a scan weighs in the queue what it may look at', async () => {
  const answered: string[] = [];
  let goOn = () => {};
  const windows = afterFirstWindow(
    () =>
      new Promise<void>((resolve) => {
        goOn = resolve;
      }),
  );
  const scanned = scan().then(() => answered.push('scan'));
  await vi.waitUntil(() => windows.mock.calls.length === 1, { timeout: 60_000 });
  const asked = viewer.ask('{ me { name } }').then(() => answered.push('me'));
  // It has time to be answered, if nothing kept it waiting.
  await Promise.race([asked, sleep(500)]);
  goOn();
  await Promise.all([asked, scanned]);
  expect(answered).toEqual(['scan', 'me']);
});
