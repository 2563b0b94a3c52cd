import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { THE_OPERATOR } from '#dist/domain/operators.js';
import type { RecentRequest } from '#dist/domain/requests.js';
import { createRecentRequests } from '#dist/http/recent-requests.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { logIn, type TestOperator } from '../support/dashboard.js';
import { codesOf } from '../support/graphql.js';

/** The last requests of a project and its tallies by the hour, as operators see them. */
const app = useTestApp({ ownDatabase: true });
let viewer: TestOperator;
beforeAll(async () => {
  viewer = await logIn(app, 'viewer');
});

const LONG = { timeout: 60_000, interval: 20 };
const FIELDS = 'requestId at ms method route operation cost status code failed secret';

async function recent({ appId }: Pick<TestProject, 'appId'>, args = 'first: 100'): Promise<Json> {
  const query = `query ($appId: ID!) { project(appId: $appId) { recentRequests(${args}) { workers answered since requests { ${FIELDS} } } } }`;
  return (await viewer.ask(query, { appId })).project.recentRequests;
}

/** A request is recorded when its answer has been sent, which its client may see a moment earlier. */
async function recentUntil(project: TestProject, count: number, args?: string): Promise<Json[]> {
  return vi.waitUntil(async () => {
    const { requests } = await recent(project, args);
    return requests.length >= count && requests;
  }, LONG);
}

async function hoursOf({ appId }: Pick<TestProject, 'appId'>): Promise<Json[]> {
  await app.context.services.requestHours.flush();
  const query = 'query ($appId: ID!) { project(appId: $appId) { requestHours { from requests failures logins } } }';
  return (await viewer.ask(query, { appId })).project.requestHours;
}

/** All hours together: a test may run while one ends. */
async function sumOf(project: Pick<TestProject, 'appId'>): Promise<Json> {
  const hours = await hoursOf(project);
  const sum = (name: string) => hours.reduce((total, hour) => total + hour[name], 0);
  return { requests: sum('requests'), failures: sum('failures'), logins: sum('logins') };
}

const post = (project: TestProject, body: string, headers: Record<string, string> = {}) =>
  fetch(`${app.url}/graphql`, {
    method: 'POST',
    headers: { ...project.credentials, 'content-type': 'application/json', ...headers },
    body,
  });

const LOGIN =
  'mutation Login($v: String!) { recordLogin(input: { authMethod: "passkey", authValue: $v }) { created } }';

describe('the last requests', () => {
  test('have their route or operation, status, code, duration, cost, id and secret', async () => {
    const project = await app.createProject();
    const scope = await app.context.services.projects.getScope(project.appId);
    const made = await app.context.services.secrets.addSecret(scope, {
      label: 'reports',
      scopes: ['read'],
      expiresInMs: null,
    });
    const ids = Array.from({ length: 9 }, () => randomUUID());
    const calls: [() => Promise<unknown>, object][] = [
      [
        () => project.rest('/server/users/count', { headers: { 'x-request-id': ids[0] as string } }),
        { method: 'GET', route: '/server/users/count', operation: null, cost: null, status: 200, code: null },
      ],
      [
        () => project.rest('/server/users/12345', { headers: { 'x-request-id': ids[1] as string } }),
        { route: '/server/users/:user_id', status: 404, code: 'NOT_FOUND' },
      ],
      [
        () =>
          post(project, JSON.stringify({ query: 'query Total { userCount }' }), { 'x-request-id': ids[2] as string }),
        { method: 'POST', route: '/graphql', operation: 'Total', cost: expect.any(Number), status: 200, code: null },
      ],
      // A field that fails, a document that is not valid, variables that do not fit, a body that is no JSON, a query that is not kept.
      [
        () =>
          post(project, JSON.stringify({ query: '{ user(id: "x") { id } }' }), { 'x-request-id': ids[3] as string }),
        { operation: null, status: 200, code: 'BAD_USER_INPUT' },
      ],
      [
        () => post(project, JSON.stringify({ query: 'query No { nothing }' }), { 'x-request-id': ids[4] as string }),
        { operation: null, cost: null, status: 200, code: 'BAD_USER_INPUT' },
      ],
      [
        () =>
          post(project, JSON.stringify({ query: LOGIN, variables: { v: 1 } }), { 'x-request-id': ids[5] as string }),
        { operation: 'Login', status: 400, code: 'BAD_USER_INPUT' },
      ],
      [
        () => post(project, '{"query": ', { 'x-request-id': ids[6] as string }),
        { operation: null, status: 400, code: 'BAD_USER_INPUT' },
      ],
      [
        () =>
          post(
            project,
            JSON.stringify({ extensions: { persistedQuery: { version: 1, sha256Hash: 'ab'.repeat(32) } } }),
            { 'x-request-id': ids[7] as string },
          ),
        { operation: null, status: 200, code: 'PERSISTED_QUERY_NOT_FOUND' },
      ],
      [
        () =>
          post(project, JSON.stringify({ query: LOGIN, variables: { v: 'a' } }), {
            'service-app-secret': made.appSecret,
            'x-request-id': ids[8] as string,
          }),
        { operation: 'Login', status: 200, code: 'FORBIDDEN', secret: 'reports' },
      ],
    ];
    for (const [call] of calls) await call();
    const requests = await recentUntil(project, calls.length);
    const byId = new Map(requests.map((request) => [request.requestId, request]));
    for (const [index, [, expected]] of calls.entries())
      expect(byId.get(ids[index])).toEqual({
        ...{ requestId: ids[index], secret: 'main', failed: 'code' in expected && expected.code !== null },
        ...{ at: expect.stringMatching(/Z$/), ms: expect.any(Number), cost: byId.get(ids[index])?.cost },
        ...{ method: expect.any(String), route: expect.any(String), operation: null },
        ...expected,
      });
    const times = requests.map(({ at }) => at);
    expect(times).toEqual(times.toSorted().toReversed());
    const failed = await recent(project, 'failed: true');
    expect(failed.requests.map((each: Json) => each.requestId).toSorted()).toEqual(
      [1, 3, 4, 5, 6, 7, 8].map((index) => ids[index]).toSorted(),
    );
    expect(failed).toMatchObject({ workers: 1, answered: 1, since: expect.stringMatching(/Z$/) });
    expect((await recent(project, 'first: 2')).requests).toEqual(requests.slice(0, 2));
  });

  test('are found by their id, in their project only, and the id leads to the project', async () => {
    const [project, other] = [await app.createProject(), await app.createProject()];
    const { headers } = await project.rest('/server/users/count');
    const id = headers.get('x-request-id') as string;
    await recentUntil(project, 1);
    expect((await recent(project, `requestId: "${id}"`)).requests).toMatchObject([{ requestId: id, status: 200 }]);
    expect((await recent(project, 'requestId: "no such"')).requests).toEqual([]);
    expect((await recent(other)).requests).toEqual([]);
    expect((await recent(other, `requestId: "${id}"`)).requests).toEqual([]);
    const find = async (requestId: string) =>
      (await viewer.ask('query ($id: String!) { projectOfRequest(requestId: $id) }', { id: requestId }))
        .projectOfRequest;
    expect([await find(id), await find('no such')]).toEqual([project.appId, null]);
    const long = await viewer.graphql(`{ projectOfRequest(requestId: "${'x'.repeat(129)}") }`);
    expect(codesOf(long)).toEqual(['BAD_USER_INPUT']);
  });

  test('lead an operator who is limited only to their own projects, also where two have the same id', async () => {
    const [own, foreign] = [await app.createProject(), await app.createProject()];
    const limited = await logIn(app, 'admin');
    await app.context.services.operators.updateOperator(THE_OPERATOR, limited.name, { appIds: [own.appId] });
    const send = async (project: TestProject, id: string) => {
      const headers = { ...project.credentials, 'x-request-id': id };
      expect((await fetch(`${app.url}/server/users/count`, { headers })).headers.get('x-request-id')).toBe(id);
    };
    const find = async (requestId: string) =>
      (await limited.ask('query ($id: String!) { projectOfRequest(requestId: $id) }', { id: requestId }))
        .projectOfRequest;
    await send(foreign, 'foreign-only');
    await send(own, 'of-two-projects');
    await send(foreign, 'of-two-projects');
    await recentUntil(own, 1);
    await recentUntil(foreign, 2);
    expect([await find('foreign-only'), await find('of-two-projects')]).toEqual([null, own.appId]);
  });

  test('are not those without valid credentials, nor those of operators', async () => {
    const project = await app.createProject();
    const wrong = { ...project.credentials, 'service-app-secret': 'wrong' };
    expect((await fetch(`${app.url}/server/users`, { headers: wrong })).status).toBe(401);
    await recent(project);
    expect((await fetch(`${app.url}/server/users`)).status).toBe(401);
    await project.rest('/server/users/count');
    const requests = await recentUntil(project, 1);
    expect(requests.map(({ status }) => status)).toEqual([200]);
    expect(await sumOf(project)).toEqual({ requests: 1, failures: 0, logins: 0 });
  });

  test('have no personal data, wherever it came with a request', async () => {
    const project = await app.createProject();
    const [email, wallet, stellar] = ['ada.lovelace@example.com', ethereumAddress(7), stellarAddress(7)];
    const marks = [email, wallet, stellar, wallet.slice(2), 'ada.lovelace', '4711004711', 'key-of-ada'];
    const calls = marks.flatMap((mark) => [
      () => project.rest(`/server/users/${encodeURIComponent(mark)}`),
      () => project.rest(`/server/users/search?email=${encodeURIComponent(mark)}`),
      () => fetch(`${app.url}/server/${encodeURIComponent(mark)}`, { headers: project.credentials }),
      () => fetch(`${app.url}/graphql?query=${encodeURIComponent(`{ ${mark} }`)}`, { headers: project.credentials }),
      () => post(project, JSON.stringify({ query: LOGIN, operationName: mark, variables: { v: mark } })),
      () => post(project, JSON.stringify({ query: `query U { findUser(any: ${JSON.stringify(mark)}) { id } }` })),
      () => post(project, JSON.stringify({ query: LOGIN, variables: { v: mark } })),
      () => post(project, mark, { 'user-agent': mark, 'idempotency-key': mark }),
    ]);
    // The grammar of names has room for an address, and for a long name.
    for (const name of [`q${stellar}`, stellar, `x_${wallet}`, 'n'.repeat(120)])
      calls.push(() => post(project, JSON.stringify({ query: `query ${name} { userCount }` })));
    // Callers choose their IDs; one that is an email or an address is replaced, as in the log.
    for (const mark of [email, wallet, stellar]) calls.push(() => post(project, '{}', { 'x-request-id': mark }));
    for (const call of calls) await call();
    const requests = await recentUntil(project, calls.length);
    const { requests: failed } = await recent(project, 'failed: true');
    const answered = JSON.stringify([...requests, ...failed]);
    for (const mark of [...marks, 'nnnn']) expect([mark, answered.includes(mark)]).toEqual([mark, false]);
    const routes = new Set(requests.map(({ route }) => route));
    expect([...routes].every((route) => /^(none|\/[a-z_/*:]*)$/i.test(route))).toBe(true);
    expect(new Set(requests.map(({ operation }) => operation))).toEqual(new Set([null, 'Login', 'U']));
  });
});

describe('what a process remembers', () => {
  const request = (appId: string, number: number): RecentRequest => ({
    ...{ appId, id: String(number), at: number, ms: 1, method: 'GET', route: '/', operation: null, cost: null },
    ...{ status: 200, code: null, secret: 'main' },
  });
  const ask = { appId: 'a', requestId: null, isFailed: false };

  test('is bounded, and a storm of successes pushes out no failure', () => {
    const memory = createRecentRequests();
    memory.add(request('a', 0), true);
    for (let number = 1; number <= 10_000; number += 1) memory.add(request('a', number), false);
    expect(memory.read({ ...ask, isFailed: true }).requests.map(({ id }) => id)).toEqual(['0']);
    const { requests } = memory.read(ask);
    expect(requests.map(({ at }) => at)).toEqual(Array.from({ length: 100 }, (_, index) => 10_000 - index));
    const remembers = (id: number) => memory.read({ ...ask, requestId: String(id) }).requests.length === 1;
    expect([0, 9_800, 9_801].map(remembers)).toEqual([true, false, true]);
    for (let number = 1; number <= 1_000; number += 1) memory.add(request('a', number), true);
    expect(
      [900, 901].map((id) => memory.read({ ...ask, isFailed: true, requestId: String(id) }).requests.length),
    ).toEqual([0, 1]);
  });

  test('is of 200 projects: the one that has sent nothing for longest is forgotten, and to ask is not to send', () => {
    const memory = createRecentRequests();
    for (let number = 0; number < 200; number += 1) memory.add(request(`p${number}`, number), false);
    memory.add(request('p0', 200), false);
    memory.read({ ...ask, appId: 'p1' });
    memory.add(request('new', 201), false);
    const known = (appId: string) => memory.read({ ...ask, appId }).requests.length;
    expect(['p0', 'p1', 'p2', 'new'].map(known)).toEqual([2, 0, 1, 1]);
  });
});

describe('the tallies by the hour', () => {
  test('count requests, failures and logins of each project, and a retry is no login', async () => {
    const [project, other] = [await app.createProject(), await app.createProject()];
    for (const v of ['a', 'b', 'a']) await project.graphql(LOGIN, { v });
    const KEYED =
      'mutation { recordLogin(input: { authMethod: "passkey", authValue: "k" }, idempotencyKey: "once") { created } }';
    for (let time = 0; time < 3; time += 1) await project.graphql(KEYED);
    await project.rest('/server/users/99999');
    await project.graphql('{ user(id: "x") { id } }');
    await other.rest('/server/users/count');
    await recentUntil(project, 8);
    await recentUntil(other, 1);
    expect(await sumOf(project)).toEqual({ requests: 8, failures: 2, logins: 4 });
    expect(await sumOf(project)).toEqual({ requests: 8, failures: 2, logins: 4 });
    expect(await sumOf(other)).toEqual({ requests: 1, failures: 0, logins: 0 });
    const hours = await hoursOf(project);
    expect(hours).toHaveLength(720);
    expect(Date.parse(hours[719].from) - Date.parse(hours[0].from)).toBe(719 * 3_600_000);
  });

  test('wait for a database that does not take them, and are written once then', async () => {
    const project = await app.createProject();
    const { db, services } = app.context;
    await db.pool.query('ALTER TABLE request_hours RENAME TO away');
    try {
      await project.graphql(LOGIN, { v: 'a' });
      await recentUntil(project, 1);
      await services.requestHours.flush();
      await project.rest('/server/users/12345');
      await recentUntil(project, 2);
      await services.requestHours.flush();
    } finally {
      await db.pool.query('ALTER TABLE away RENAME TO request_hours');
    }
    expect(await sumOf(project)).toEqual({ requests: 2, failures: 1, logins: 1 });
  });

  test('of a project that is gone are dropped, and hold up no other', async () => {
    const [gone, project] = [await app.createProject(), await app.createProject()];
    const { db, services } = app.context;
    for (const each of [gone, project]) {
      await each.rest('/server/users/count');
      await recentUntil(each, 1);
    }
    await db.pool.query('DELETE FROM projects WHERE app_id = $1', [gone.appId]);
    await services.requestHours.flush();
    expect(await sumOf(project)).toEqual({ requests: 1, failures: 0, logins: 0 });
  });

  test('are deleted after 30 days', async () => {
    const project = await app.createProject();
    const { db, services } = app.context;
    const age = (days: number) =>
      db.pool.query(
        `INSERT INTO request_hours (project_id, hour, requests, failures, logins)
         SELECT id, date_trunc('hour', now(), 'UTC') - $2::int * interval '1 day', 1, 0, 0 FROM projects WHERE app_id = $1`,
        [project.appId, days],
      );
    for (const days of [1, 29, 30, 32, 400]) await age(days);
    await services.changes.prune();
    const { rows } = await db.pool.query(
      'SELECT count(*)::int AS count FROM request_hours JOIN projects p ON p.id = project_id WHERE app_id = $1',
      [project.appId],
    );
    expect(rows).toEqual([{ count: 2 }]);
    expect(await sumOf(project)).toEqual({ requests: 2, failures: 0, logins: 0 });
  });
});
