import { once } from 'node:events';
import http from 'node:http';
import { describe, expect, test, vi } from 'vitest';
import { parseIdentity } from '#dist/domain/identities.js';
import { snakeCase } from '#dist/domain/spelling.js';
import { checksumAddress } from '#dist/domain/wallets.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { codesOf } from '../support/graphql.js';
import { PATIENCE } from '../support/waiting.js';

const app = useTestApp();

const login = async (project: TestProject, authValue: string, more: Json = {}) =>
  (
    await project.graphql('mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { id } } }', {
      input: { authMethod: 'email', authValue, ...more },
    })
  ).data.recordLogin.user.id as string;

const PAGE = `query ($after: String, $first: Int! = 100, $types: [ChangeType!]) {
  changes(after: $after, first: $first, types: $types) {
    nodes { id type at userId fields user { id authValue } }
    edges { cursor node { id } }
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
  }
}`;

async function readPage(project: TestProject, variables: Json = {}): Promise<Json> {
  const { data, errors } = await project.graphql(PAGE, variables);
  expect(errors).toBeUndefined();
  return data.changes;
}
const summary = ({ nodes }: Json) => nodes.map(({ type, userId }: Json) => [type, userId]);
const run = (sql: string, values: unknown[] = []) => app.context.db.pool.query(sql, values);

/** Runs an operator's action on an identity. */
async function setBan(project: TestProject, action: 'ban' | 'unban', auth_value: string): Promise<void> {
  const scope = await app.context.services.projects.getScope(project.appId);
  const { bans } = app.context.services;
  const identity = parseIdentity({ authMethod: 'email', authValue: auth_value }, snakeCase);
  await (action === 'ban' ? bans.ban(scope, identity) : bans.unbanIdentity(scope, identity));
}

test('every way to change a user is in the feed, in order and with the names of the fields; a login is not', async () => {
  const project = await app.createProject();
  const ada = await login(project, 'ada@example.com');
  await login(project, 'ada@example.com');
  await login(project, 'ada@example.com', { accounts: [{ network: 'STELLAR', publicKey: stellarAddress(1) }] });
  await setBan(project, 'ban', 'ada@example.com');
  await setBan(project, 'ban', 'ada@example.com');
  await setBan(project, 'unban', 'ada@example.com');
  await setBan(project, 'ban', 'nobody@example.com');
  await run(`UPDATE users SET wallet = $2, auth_value = 'Ada@example.com', login_count = 9 WHERE id = $1`, [
    ada,
    ethereumAddress(2),
  ]);
  await run(`UPDATE accounts SET wallet_type = 'external' WHERE user_id = $1`, [ada]);
  await run('DELETE FROM accounts WHERE user_id = $1', [ada]);
  await project.rest(`/server/users/${ada}`, { method: 'DELETE' });
  await run('UPDATE users SET deleted_at = NULL WHERE id = $1', [ada]);
  await run('DELETE FROM users WHERE id = $1', [ada]);
  const page = await readPage(project);
  expect(page.nodes.map(({ type, userId, fields }: Json) => [type, userId, ...fields])).toEqual([
    ['USER_CREATED', ada],
    ['ACCOUNT_ADDED', ada],
    ['IDENTITY_BANNED', ada],
    ['IDENTITY_UNBANNED', ada],
    ['IDENTITY_BANNED', null],
    ['USER_UPDATED', ada, 'authValue', 'wallet'],
    ['USER_UPDATED', ada, 'accounts'],
    ['USER_UPDATED', ada, 'accounts'],
    ['USER_REMOVED', ada],
    ['USER_RESTORED', ada],
    ['USER_REMOVED', ada],
  ]);
  expect(page.nodes.every(({ user }: Json) => user === null)).toBe(true);
  expect(page.nodes[0].at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  expect(page.edges.map(({ cursor }: Json) => cursor)).toEqual(page.nodes.map(({ id }: Json) => id));
});

test('an UPDATE of bans is in the feed as far as other identities are banned after it', async () => {
  const project = await app.createProject();
  const [ada, eve] = [await login(project, 'ada@example.com'), await login(project, 'eve@example.com')];
  await setBan(project, 'ban', 'ada@example.com');
  const { pageInfo } = await readPage(project);
  const update = (set: string) =>
    run(`UPDATE bans b SET ${set} FROM projects p WHERE p.id = b.project_id AND p.app_id = $1`, [project.appId]);
  await update('auth_value = upper(auth_value), created_at = b.created_at');
  expect(summary(await readPage(project, { after: pageInfo.endCursor }))).toEqual([]);
  await update(`auth_value = 'eve@example.com', auth_value_key = 'eve@example.com'`);
  expect(summary(await readPage(project, { after: pageInfo.endCursor }))).toEqual([
    ['IDENTITY_UNBANNED', ada],
    ['IDENTITY_BANNED', eve],
  ]);
});

test('an import is in the feed once it is committed, with the changes of the users who existed', async () => {
  const project = await app.createProject();
  const user = (auth_value: string, more = {}) => ({ auth_method: 'email', auth_value, ...more });
  await project.addUsers(user('a@example.com'), user('b@example.com'));
  const before = await readPage(project);
  expect(summary(before).map(([type]: [string]) => type)).toEqual(['USER_CREATED', 'USER_CREATED']);
  const lines = [user('a@example.com', { wallet: ethereumAddress(3) }), user('b@example.com', { login_count: 4 })];
  await project.importLines(lines, { onConflict: 'update' });
  const [a] = before.nodes;
  const after = await readPage(project, { after: before.pageInfo.endCursor });
  expect(after.nodes).toMatchObject([
    { type: 'USER_UPDATED', userId: a.userId, fields: ['wallet'], user: { authValue: 'a@example.com' } },
    { type: 'ACCOUNT_ADDED', userId: a.userId },
  ]);
});

test('another spelling of what a user has is no change: not in a login, in an import, or in a ban', async () => {
  const project = await app.createProject();
  const scope = await app.context.services.projects.getScope(project.appId);
  const spellings = [ethereumAddress(7), checksumAddress(ethereumAddress(7))];
  const users = (spelling: string): Json[] => [
    { authMethod: 'wallet', authValue: spelling },
    { authMethod: 'passkey', authValue: 'key', wallet: spelling },
    { authMethod: 'email', authValue: spelling === spellings[0] ? 'ada@example.com' : 'ADA@Example.com' },
  ];
  const LOGIN = `mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { authValue wallet loginCount } } }`;
  const answers: Json[] = [];
  for (let n = 0; n < 6; n += 1)
    for (const input of users(spellings[n % 2] as string)) {
      const { data } = await project.graphql(LOGIN, { input });
      answers.push(data.recordLogin.user);
    }
  const shown = [
    { authValue: spellings[0], wallet: spellings[0] },
    { authValue: 'key', wallet: spellings[0] },
    { authValue: 'ada@example.com', wallet: null },
  ];
  expect(answers.slice(-3)).toEqual(shown.map((user) => ({ ...user, loginCount: 6 })));

  const lines = users(spellings[1] as string).map(({ authMethod, authValue, wallet }) => {
    return { auth_method: authMethod, auth_value: authValue, wallet };
  });
  const { unchanged } = await project.importLines(lines, { onConflict: 'update' });
  expect(unchanged).toBe(3);
  for (const [reason, authValue] of Object.entries({ one: 'ada@example.com', two: 'ADA@Example.com' })) {
    const identity = parseIdentity({ authMethod: 'email', authValue }, snakeCase);
    expect((await app.context.services.bans.ban(scope, identity, { reason })).ban).toMatchObject({
      reason,
      authValue: 'ada@example.com',
    });
  }

  const { nodes } = await readPage(project);
  expect(nodes.map(({ type }: Json) => type).sort()).toEqual([
    ...['ACCOUNT_ADDED', 'ACCOUNT_ADDED', 'IDENTITY_BANNED', 'USER_CREATED', 'USER_CREATED', 'USER_CREATED'],
    // Of the other reason.
    'USER_UPDATED',
  ]);
});

test('REST answers the same changes as NDJSON where it is asked for, with the next cursor in a header', async () => {
  const project = await app.createProject();
  const id = await login(project, 'ada@example.com');
  await run('UPDATE users SET wallet = $2 WHERE id = $1', [id, ethereumAddress(5)]);
  const read = (path: string) => fetch(app.url + path, { headers: { ...project.credentials, accept: LINES } });
  const response = await read('/changes?limit=1');
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toBe(`${LINES}; charset=utf-8`);
  expect(response.headers.get('userdir-has-more')).toBe('true');
  const [change] = (await readPage(project)).nodes;
  expect(await response.text()).toBe(
    `${JSON.stringify({ id: change.id, type: 'user.created', at: change.at, user_id: Number(id) })}\n`,
  );
  const rest = await read(`/changes?after=${response.headers.get('userdir-next-cursor')}&types=user.updated`);
  expect(rest.headers.get('userdir-has-more')).toBe('false');
  expect(JSON.parse(await rest.text())).toMatchObject({ type: 'user.updated', fields: ['wallet'] });
});

const LINES = 'application/x-ndjson';
const JSON_TYPE = 'application/json';
const STREAM = 'text/event-stream';

test.each([
  [undefined, JSON_TYPE],
  ['*/*', JSON_TYPE],
  [LINES, LINES],
  ['text/plain', JSON_TYPE],
  [`*/*, ${JSON_TYPE}`, JSON_TYPE],
  [`${LINES}, */*`, LINES],
  [`${LINES}, ${JSON_TYPE}`, LINES],
  [JSON_TYPE, JSON_TYPE],
  // Axios, and a client that prefers the second.
  [`${JSON_TYPE}, text/plain, */*`, JSON_TYPE],
  [`${LINES};q=0.5, ${JSON_TYPE};q=0.6`, JSON_TYPE],
  // A client that also takes a stream, but waits for the end of a page.
  [`${JSON_TYPE}, ${STREAM}`, JSON_TYPE],
  [`${STREAM};q=0.1, ${JSON_TYPE}`, JSON_TYPE],
  [`${STREAM};q=0, ${JSON_TYPE}`, JSON_TYPE],
  [`${STREAM};q=0`, JSON_TYPE],
  [`${LINES};q=0`, JSON_TYPE],
  [`*/*, ${STREAM}`, JSON_TYPE],
])('a page with Accept: %s is %s', async (accept, type) => {
  const project = await app.createProject();
  const [ada] = [await login(project, 'ada@example.com'), await login(project, 'eve@example.com')];
  const ask = async (query: string) => {
    const { status, headers, text } = await getChanges(project, query, accept);
    expect([status, headers['content-type']]).toEqual([200, `${type}; charset=utf-8`]);
    const position = { next_cursor: headers['userdir-next-cursor'], has_more: headers['userdir-has-more'] === 'true' };
    if (type === LINES)
      return {
        changes: text
          .split('\n')
          .filter(Boolean)
          .map((line) => JSON.parse(line)),
        ...position,
      };
    const { message, result } = JSON.parse(text);
    expect(message).toBe('Changes listed.');
    expect({ next_cursor: result.next_cursor, has_more: result.has_more }).toEqual(position);
    return result;
  };
  const first = await ask('limit=1');
  expect(first).toEqual({
    changes: [{ id: first.next_cursor, type: 'user.created', at: expect.any(String), user_id: Number(ada) }],
    next_cursor: expect.any(String),
    has_more: true,
  });
  const second = await ask(`limit=1&after=${first.next_cursor}`);
  expect([second.changes.length, second.has_more]).toEqual([1, false]);
  expect(await ask(`after=${second.next_cursor}`)).toEqual({ ...second, changes: [] });
});

/** Not by fetch, which always sends an Accept header. */
async function getChanges({ credentials }: TestProject, query: string, accept: string | undefined) {
  const headers = { ...credentials, ...(accept !== undefined && { accept }) };
  const request = http.get(`${app.url}/changes?${query}`, { headers });
  const [response] = await once(request, 'response');
  let text = '';
  for await (const chunk of response) text += chunk;
  return { status: response.statusCode, headers: response.headers, text };
}

test('bad arguments are refused with what is accepted', async () => {
  const project = await app.createProject();
  for (const variables of [{ first: 0 }, { first: 1_001 }, { types: [] }, { after: 'x' }, { after: 'x'.repeat(65) }]) {
    expect(codesOf(await project.graphql(PAGE, variables)), JSON.stringify(variables)).toEqual(['BAD_USER_INPUT']);
  }
  const status = async (path: string, headers: Record<string, string> = project.credentials) =>
    (await fetch(app.url + path, { headers })).status;
  expect(await status('/changes?limit=0')).toBe(400);
  expect(await status('/changes?types=user.born')).toBe(400);
  expect(await status('/changes?after=x')).toBe(400);
  expect(await status('/changes', {})).toBe(401);
  expect((await fetch(`${app.url}/changes`, { method: 'POST' })).status).toBe(405);
});

test('a secret needs the scope for changes, and the scope to read for their users', async () => {
  const project = await app.createProject();
  await login(project, 'ada@example.com');
  const scope = await app.context.services.projects.getScope(project.appId);
  const add = async (label: string, ...scopes: ('read' | 'changes')[]) => {
    const { appSecret } = await app.context.services.secrets.addSecret(scope, { label, scopes, expiresInMs: null });
    return { 'service-app-id': project.appId, 'service-app-secret': appSecret };
  };
  const [reader, follower] = [await add('reader', 'read'), await add('follower', 'changes')];
  const ask = async (headers: Record<string, string>) => {
    const response = await fetch(`${app.url}/graphql`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ query: PAGE }),
    });
    return (await response.json()) as Json;
  };
  expect(codesOf(await ask(reader))).toEqual(['FORBIDDEN']);
  const answer = await ask(follower);
  expect(codesOf(answer)).toEqual(['FORBIDDEN']);
  expect(answer.data.changes.nodes).toMatchObject([{ type: 'USER_CREATED', user: null }]);
  expect((await fetch(`${app.url}/changes`, { headers: reader })).status).toBe(403);
  expect((await fetch(`${app.url}/changes`, { headers: follower })).status).toBe(200);
});

test('a purge leaves nothing in the feed that identifies a person', async () => {
  const project = await app.createProject();
  const id = await login(project, 'grace@example.com', {
    accounts: [{ network: 'STELLAR', publicKey: stellarAddress(7) }],
  });
  await project.rest(`/server/users/${id}`, { method: 'DELETE' });
  const scope = await app.context.services.projects.getScope(project.appId);
  await app.context.services.users.purgeRemoved(scope, 0);
  const { rows } = await run(
    'SELECT c.* FROM changes c JOIN projects p ON p.id = c.project_id WHERE p.app_id = $1 ORDER BY c.id',
    [project.appId],
  );
  expect(rows.map(({ type }) => type)).toEqual(['user.created', 'account.added', 'user.removed']);
  expect(JSON.stringify(rows)).not.toMatch(/grace|example/i);
  expect(JSON.stringify(rows)).not.toContain(stellarAddress(7));
});

test('changes older than the retention are deleted, and cursors before them have expired', async () => {
  const project = await app.createProject();
  for (const name of ['a', 'b', 'c']) await login(project, `${name}@example.com`);
  const start = (await readPage(project, { first: 1 })).nodes[0].id;
  const second = (await readPage(project, { after: start, first: 1 })).nodes[0];
  await run(
    `UPDATE changes c SET at = now() - interval '31 days' FROM projects p
     WHERE p.id = c.project_id AND p.app_id = $1 AND c.user_id <= $2`,
    [project.appId, second.userId],
  );
  app.statements.length = 0;
  await app.context.services.changes.prune();
  // It visits the projects that have something to delete.
  expect(app.statements.filter((sql) => sql.includes('DELETE FROM changes'))).toHaveLength(1);
  expect((await readPage(project)).nodes).toHaveLength(1);
  expect((await readPage(project, { after: second.id })).nodes).toHaveLength(1);
  const expired = await project.graphql(PAGE, { after: start });
  expect(codesOf(expired)).toEqual(['CURSOR_EXPIRED']);
  expect(expired.errors?.[0]?.message).toContain('changes are kept for 30 days,');
  expect(expired.errors?.[0]?.message).toContain('user export');
  const response = await fetch(`${app.url}/changes?after=${start}`, { headers: project.credentials });
  expect(response.status).toBe(410);
  // Another project has lost nothing.
  const other = await app.createProject();
  const { pageInfo } = await readPage(other);
  expect((await readPage(other, { after: pageInfo.endCursor })).nodes).toEqual([]);
});

describe('a retention of minutes', () => {
  const short = useTestApp({ ownDatabase: true, env: { CHANGES_RETENTION: '90m' } });

  test('is named as it is by an expired cursor', async () => {
    const project = await short.createProject();
    const ids = [await login(project, 'a@example.com'), await login(project, 'b@example.com')];
    const [first, second] = (await readPage(project)).nodes;
    expect([first.userId, second.userId]).toEqual(ids);
    await short.context.db.pool.query(`UPDATE changes SET at = now() - interval '2 hours' WHERE user_id = $1`, [
      ids[1],
    ]);
    await short.context.db.pool.query(`UPDATE changes SET at = now() - interval '2 hours' WHERE user_id = $1`, [
      ids[0],
    ]);
    await short.context.services.changes.prune();
    const { errors } = await project.graphql(PAGE, { after: first.id });
    expect(errors?.[0]?.message).toContain('changes are kept for 90 minutes, and some after it are gone');
  });
});

test('a page with its users takes one statement for the changes and one for the users', async () => {
  const project = await app.createProject();
  for (const name of ['a', 'b', 'c', 'd']) await login(project, `${name}@example.com`);
  await vi.waitUntil(async () => (await readPage(project)).nodes.length === 4, PATIENCE);
  app.statements.length = 0;
  await readPage(project);
  // Not the look-up of credentials, which are known for a moment only.
  const own = app.statements.filter((sql) => /FROM unnest/.test(sql) && !sql.includes('app_secrets'));
  expect(own).toHaveLength(2);
});

test('a page for few types has as many changes as asked, wherever they are among others', async () => {
  const project = await app.createProject();
  const projectId = (await app.context.services.projects.getScope(project.appId)).projectIdFor('inspect');
  // Around what a read for a page looks at: 200 changes at first, then 1,000.
  const places = [1, 2, 150, 200, 201, 202, 700, 1_200, 1_201, 1_202, 2_300, 3_400];
  await run(
    `INSERT INTO changes (project_id, type, user_id)
     SELECT $1, CASE WHEN n = ANY ($2::int[]) THEN 'user.removed' ELSE 'user.updated' END::change_type, n
     FROM generate_series(1, 3400) n ORDER BY n`,
    [projectId, places],
  );
  for (const first of [1, 2, 3, 5, places.length, 100]) {
    const found: number[] = [];
    for (let after: string | null = null; ; ) {
      const { nodes, pageInfo } = await readPage(project, { after, first, types: ['USER_REMOVED'] });
      expect(nodes).toHaveLength(Math.min(first, places.length - found.length));
      found.push(...nodes.map(({ userId }: Json) => Number(userId)));
      after = pageInfo.endCursor;
      if (!pageInfo.hasNextPage) break;
    }
    expect(found).toEqual(places);
  }
});
