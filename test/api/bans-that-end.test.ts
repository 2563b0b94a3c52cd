import { expect, inject, test } from 'vitest';
import { parseBanTerms } from '#dist/domain/bans.js';
import { parseIdentity } from '#dist/domain/identities.js';
import { camelCase } from '#dist/domain/spelling.js';
import { deleteEndedBans, listProjectsWithEndedBans } from '#dist/users/bans.sql.js';
import { createEndedBans } from '#dist/users/ended-bans.js';
import { type Json, startTestApp, type TestProject, useTestApp } from '../support/app.js';
import { logIn } from '../support/dashboard.js';
import { codesOf } from '../support/graphql.js';

/** The reason and the end of a ban. Nothing runs in the background here: what has ended has ended without it. */
const app = useTestApp();
const { anHour, aDay } = { anHour: inMs(3_600_000), aDay: inMs(86_400_000) };
function inMs(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}

const ban = async (
  project: TestProject,
  authValue: string,
  reason?: string | null,
  end?: string | null,
  untilLifted = false,
) => {
  const { projects, bans } = app.context.services;
  const terms = parseBanTerms({ reason, end, untilLifted }, 'until');
  const { ban, changed } = await bans.ban(await projects.getScope(project.appId), identity(authValue), terms);
  return ban && { ...ban, changed };
};
const identity = (authValue: string) => parseIdentity({ authMethod: 'email', authValue }, camelCase);
const unban = async (project: TestProject, authValue: string) =>
  app.context.services.bans.unbanIdentity(
    await app.context.services.projects.getScope(project.appId),
    identity(authValue),
  );
/** Turns the clock to the end of a ban, for this ban: the column has milliseconds, to which an instant is rounded. */
const end = (authValue: string) =>
  app.context.db.pool.query(`UPDATE bans SET expires_at = now() - interval '1 ms' WHERE auth_value_key = $1`, [
    authValue,
  ]);
const idOf = async ({ appId }: TestProject) =>
  (await app.context.services.projects.getScope(appId)).projectIdFor('inspect');
const deleteEnded = async (project: TestProject) => deleteEndedBans(app.context.db, await idOf(project), 1_000);
const rowsOf = async (authValue: string) =>
  (await app.context.db.pool.query('SELECT reason FROM bans WHERE auth_value_key = $1', [authValue])).rows;
const logInAs = async (project: TestProject, authValue: string, more: Json = {}) => {
  const answer = await project.graphql(
    'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { id } } }',
    { input: { authMethod: 'email', authValue, ...more } },
  );
  return codesOf(answer)[0] ?? 'done';
};
const read = async (project: TestProject): Promise<Json> =>
  (
    await project.graphql(`{
      bans { nodes { authValue reason expiresAt } }
      banned: users(filter: { banned: true }) { nodes { authValue } }
      changes(first: 100, types: [IDENTITY_BANNED, IDENTITY_UNBANNED]) { nodes { type userId } }
    }`)
  ).data;
const typesOf = ({ changes }: Json) => changes.nodes.map(({ type }: Json) => type);

test('a ban has the reason and the end of the last time that each was given; the same again, or nothing, changes nothing', async () => {
  const project = await app.createProject();
  const first = await ban(project, 'eve@example.com', '  spam ', anHour);
  expect(first).toMatchObject({ reason: 'spam', expiresAt: anHour });
  expect(await ban(project, 'EVE@example.com', 'spam', anHour)).toEqual({ ...first, changed: false });
  expect(await ban(project, 'eve@example.com', 'fraud', aDay)).toMatchObject({
    createdAt: first?.createdAt,
    reason: 'fraud',
    expiresAt: aDay,
  });
  expect((await read(project)).bans.nodes).toEqual([
    { authValue: 'eve@example.com', reason: 'fraud', expiresAt: aDay },
  ]);
  expect(await ban(project, 'eve@example.com')).toMatchObject({ reason: 'fraud', expiresAt: aDay });
  expect(await ban(project, 'eve@example.com', 'abuse')).toMatchObject({ reason: 'abuse', expiresAt: aDay });
  expect(await ban(project, 'eve@example.com', undefined, anHour)).toMatchObject({
    reason: 'abuse',
    expiresAt: anHour,
  });
  // Null is as absent.
  expect(await ban(project, 'eve@example.com', null, null)).toMatchObject({ changed: false });
  await ban(project, 'eve@example.com', '', null, true);
  expect((await read(project)).bans.nodes).toMatchObject([{ reason: null, expiresAt: null }]);
  // The identity was banned all the time.
  expect(typesOf(await read(project))).toEqual(['IDENTITY_BANNED']);
  const trail = await app.context.db.pool.query(
    `SELECT details FROM audit_log WHERE action = 'ban' AND project_id = (SELECT id FROM projects WHERE app_id = $1) ORDER BY id`,
    [project.appId],
  );
  const until = (instant: string) => expect.stringContaining(instant.slice(0, 19));
  expect(trail.rows.map(({ details }) => details)).toEqual([
    { auth_method: 'email', until: until(anHour) },
    { auth_method: 'email', until: until(aDay) },
    { auth_method: 'email', until: until(aDay) },
    { auth_method: 'email', until: until(anHour) },
    { auth_method: 'email' },
  ]);
});

test('from its end on a ban lets in, and no list, lookup or export has it, whatever a login brings', async () => {
  const project = await app.createProject();
  const { services } = app.context;
  const scope = await services.projects.getScope(project.appId);
  const variants: Json[] = [{}, { externalId: 'x-1' }, { accounts: [] }];
  for (const [index, more] of variants.entries()) {
    const eve = `eve-${index}@example.com`;
    await project.addUsers({ auth_method: 'email', auth_value: eve });
    await ban(project, eve, 'spam', anHour);
    expect(await logInAs(project, eve, more)).toBe('BANNED');
    expect((await read(project)).banned.nodes).toEqual([{ authValue: eve }]);
    const [user] = await services.users.searchAny(scope, eve, false);
    expect(user?.ban).toMatchObject({ reason: 'spam', expiresAt: anHour });
    await end(eve);
    // Who is banned anew gets nothing of the ban that has ended.
    expect(await ban(project, eve, undefined, anHour)).toMatchObject({ reason: null, expiresAt: anHour });
    await end(eve);
    expect(await ban(project, eve, 'again')).toMatchObject({ reason: 'again', expiresAt: null });
    await end(eve);
    const now = await read(project);
    expect([now.bans.nodes, now.banned.nodes]).toEqual([[], []]);
    expect((await services.users.searchAny(scope, eve, false))[0]?.ban).toBeNull();
    expect((await services.bans.listBans(scope, { limit: 10 })).bans).toEqual([]);
    expect(await logInAs(project, eve, more)).toBe('done');
    expect(await rowsOf(eve)).toHaveLength(1);
  }
  const lines: string[] = [];
  const { bans } = await services.transfers.exportUsers(scope, {
    write: async (chunk) => void lines.push(chunk),
    signal: new AbortController().signal,
  });
  expect([bans, lines.join('').includes('"ban"')]).toEqual([0, false]);
});

test('many logins of one statement are refused or let in each by its own ban', async () => {
  const project = await app.createProject();
  const names = Array.from({ length: 12 }, (_, n) => `many-${n}@example.com`);
  for (const [index, name] of names.entries()) if (index % 3 > 0) await ban(project, name, undefined, anHour);
  for (const [index, name] of names.entries()) if (index % 3 === 2) await end(name);
  const answers = await Promise.all(names.map((name) => logInAs(project, name)));
  expect(answers).toEqual(names.map((_, index) => (index % 3 === 1 ? 'BANNED' : 'done')));
});

test('the end of a ban is in the feed once, also when several processes look for ended bans', async () => {
  const project = await app.createProject();
  await project.addUsers({ auth_method: 'email', auth_value: 'ended-1@example.com' });
  for (const n of [1, 2, 3]) await ban(project, `ended-${n}@example.com`, 'spam', anHour);
  await ban(project, 'stays@example.com', 'spam', aDay);
  await end('ended-1@example.com');
  await end('ended-2@example.com');
  const deleted = await Promise.all([1, 2, 3].map(() => deleteEnded(project)));
  expect(deleted.reduce((sum, count) => sum + count, 0)).toBe(2);
  const { changes, bans } = await read(project);
  const unbanned = changes.nodes.filter(({ type }: Json) => type === 'IDENTITY_UNBANNED');
  expect(unbanned.map(({ userId }: Json) => userId === null)).toEqual([false, true]);
  expect(bans.nodes).toHaveLength(2);
  expect(await deleteEnded(project)).toBe(0);
});

test.runIf(inject('engine') === 'postgres')('a user who is locked delays the ends of no other project', async () => {
  const [held, other] = [await app.createProject(), await app.createProject()];
  for (const project of [held, other]) {
    const name = `held-${project.appId}@example.com`;
    await project.addUsers({ auth_method: 'email', auth_value: name });
    await ban(project, name, 'spam', anHour);
    await end(name);
  }
  const { db } = app.context;
  expect(await listProjectsWithEndedBans(db)).toEqual(expect.arrayContaining([await idOf(held), await idOf(other)]));
  const client = await db.pool.connect();
  try {
    await client.query('BEGIN');
    await client.query('SELECT FROM users WHERE project_id = $1 FOR UPDATE', [await idOf(held)]);
    await expect(deleteEnded(held)).rejects.toThrow();
    expect(await deleteEnded(other)).toBe(1);
  } finally {
    await client.query('ROLLBACK');
    client.release();
  }
  expect(await deleteEnded(held)).toBe(1);
  expect(await listProjectsWithEndedBans(db)).not.toContain(await idOf(held));
});

test('who is banned again after the end was unbanned in between; an unban after the end changes nothing', async () => {
  const project = await app.createProject();
  await ban(project, 'again@example.com', 'spam', anHour);
  await end('again@example.com');
  await unban(project, 'again@example.com');
  expect(typesOf(await read(project))).toEqual(['IDENTITY_BANNED']);
  const again = await ban(project, 'again@example.com', 'spam', aDay);
  expect(again).toMatchObject({ reason: 'spam', expiresAt: aDay });
  expect(typesOf(await read(project))).toEqual(['IDENTITY_BANNED', 'IDENTITY_UNBANNED', 'IDENTITY_BANNED']);
  expect(await logInAs(project, 'again@example.com')).toBe('BANNED');
  await deleteEnded(project);
  await unban(project, 'again@example.com');
  expect(typesOf(await read(project)).slice(3)).toEqual(['IDENTITY_UNBANNED']);
});

test('an import brings reasons and ends, leaves out what has ended, and takes the place of a ban that has ended', async () => {
  const project = await app.createProject();
  await ban(project, 'kept@example.com', 'kept', aDay);
  await ban(project, 'gone@example.com', 'gone', anHour);
  await end('gone@example.com');
  const line = (auth_value: string, more: Json) => ({ ban: { auth_method: 'email', auth_value, ...more } });
  const lines = [
    line('kept@example.com', { reason: 'other' }),
    line('gone@example.com', { reason: 'back', expires_at: aDay }),
    line('GONE@example.com', { reason: 'second' }),
    line('new@example.com', { reason: 'new', expires_at: null }),
    line('old@example.com', { expires_at: '2026-01-01T00:00:00Z' }),
    line('long@example.com', { reason: 'x'.repeat(501) }),
  ];
  const report = await project.importLines(lines, { skipInvalid: true });
  expect(report).toMatchObject({
    bans: 2,
    bans_kept: 2,
    bans_ended: 1,
    failed: 1,
    errors: [{ line: 6, error: expect.stringContaining('reason: got') }],
  });
  const now = await read(project);
  expect(now.bans.nodes).toHaveLength(3);
  expect(now.bans.nodes).toEqual(
    expect.arrayContaining([
      { authValue: 'kept@example.com', reason: 'kept', expiresAt: aDay },
      { authValue: 'gone@example.com', reason: 'back', expiresAt: aDay },
      { authValue: 'new@example.com', reason: 'new', expiresAt: null },
    ]),
  );
  expect(typesOf(now).toSorted()).toEqual([...Array(4).fill('IDENTITY_BANNED'), 'IDENTITY_UNBANNED']);
});

test('the dashboard bans with reason and end, one identity or many, and refuses others', async () => {
  const project = await app.createProject();
  await project.addUsers({ auth_method: 'email', auth_value: 'ada@example.com' });
  const support = await logIn(app, 'support');
  const { appId } = project;
  const { ask, graphql } = support.inProject(appId);
  // The public schema refuses an argument whose variable has no value.
  const terms = (given: Json = {}) => ({ reason: null, expiresAt: null, untilLifted: null, ...given });
  const { data } = await project.graphql('{ users { nodes { id } } }');
  const ids = data.users.nodes.map(({ id }: Json) => id);
  const BAN_USERS = `mutation ($ids: [ID!]!, $reason: String, $expiresAt: String) {
    banUsers(ids: $ids, reason: $reason, expiresAt: $expiresAt) { outcomes { ok } }
  }`;
  expect(await ask(BAN_USERS, { ids, reason: 'spam', expiresAt: aDay })).toEqual({
    banUsers: { outcomes: [{ ok: true }] },
  });
  const USER = `query ($appId: ID!, $id: ID!) { project(appId: $appId) {
    user(id: $id) { ban { reason expiresAt } }
    bans { nodes { reason expiresAt } }
  } }`;
  expect((await support.ask(USER, { appId, id: ids[0] })).project).toEqual({
    user: { ban: { reason: 'spam', expiresAt: aDay } },
    bans: { nodes: [{ reason: 'spam', expiresAt: aDay }] },
  });
  expect(await ask('{ users { nodes { ban { reason } } } }')).toEqual({
    users: { nodes: [{ ban: { reason: 'spam' } }] },
  });
  const AUDIT =
    'query ($appId: ID!) { project(appId: $appId) { audit(action: "ban", first: 1) { nodes { details } } } }';
  const [entry] = (await support.ask(AUDIT, { appId })).project.audit.nodes;
  // The reason is with the ban: it may name a person, and the trail outlives them.
  expect(JSON.parse(entry.details)).toEqual({ user: true, until: expect.any(String) });
  const BAN = `mutation ($reason: String, $expiresAt: String, $untilLifted: Boolean) {
    banIdentity(
      identity: { authMethod: "email", authValue: "ada@example.com" }, reason: $reason, expiresAt: $expiresAt, untilLifted: $untilLifted
    ) { ban { reason expiresAt } }
  }`;
  const shown = (reason: string | null, expiresAt: string | null) => ({ banIdentity: { ban: { reason, expiresAt } } });
  // The ban of the user has nothing to do with that of the identity.
  expect(await ask(BAN, terms({ reason: 'theft', expiresAt: anHour }))).toEqual(shown('theft', anHour));
  // Many at once keep what each has, too.
  await ask(BAN_USERS, { ids, reason: 'fraud', expiresAt: null });
  expect((await support.ask(USER, { appId, id: ids[0] })).project.user.ban).toEqual({
    reason: 'fraud',
    expiresAt: aDay,
  });
  expect(await ask(BAN, terms())).toEqual(shown('theft', anHour));
  expect(await ask(BAN, terms({ untilLifted: false }))).toEqual(shown('theft', anHour));
  expect(await ask(BAN, terms({ reason: '' }))).toEqual(shown(null, anHour));
  expect(await ask(BAN, terms({ untilLifted: true }))).toEqual(shown(null, null));
  for (const [bad, says] of [
    [{ reason: 'x'.repeat(501) }, 'reason: got'],
    [{ reason: 'two\nlines' }, 'reason: got'],
    [{ expiresAt: '2026-01-01' }, 'expiresAt: got'],
    [{ expiresAt: '9999-12-31T23:59:59-12:00' }, 'expiresAt: got'],
    [{ expiresAt: 'soon' }, 'expiresAt: got'],
    [{ expiresAt: aDay, untilLifted: true }, 'expiresAt: a ban that stays until it is lifted has no end.'],
  ] as const) {
    const refused = await graphql(BAN, terms(bad));
    expect(refused.errors?.[0]).toMatchObject({ message: expect.stringContaining(says) });
    expect(codesOf(refused)).toEqual(['BAD_USER_INPUT']);
  }
});

test('in the background all that have ended are deleted, each with its change, of every project', async () => {
  await using own = await startTestApp({ ownDatabase: true });
  const [many, few] = [await own.createProject(), await own.createProject()];
  const { pool } = own.context.db;
  const ids: number[] = [];
  for (const { appId } of [many, few]) {
    const scope = await own.context.services.projects.getScope(appId);
    ids.push(scope.projectIdFor('inspect'));
  }
  // More than end in one transaction, and one that has not ended.
  const insert = `INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key, expires_at)
    SELECT $1, 'google', n::text, n::text, now() + $3 * interval '1 hour' FROM generate_series(1, $2::int) n`;
  await pool.query(insert, [ids[0], 205, -1]);
  await pool.query(insert, [ids[1], 3, -1]);
  await pool.query(insert.replaceAll('n::text', "'lasting'"), [ids[1], 1, 1]);

  const failures: unknown[] = [];
  const endedBans = createEndedBans(own.context.db, (error) => failures.push(error));
  endedBans.start();
  const left = async () => (await pool.query('SELECT auth_value FROM bans')).rows.map(({ auth_value }) => auth_value);
  await expect.poll(left).toEqual(['lasting']);
  await endedBans.close();
  const { rows } = await pool.query(
    `SELECT project_id, type::text, count(*)::int FROM changes WHERE type = 'identity.unbanned' GROUP BY 1, 2 ORDER BY 1`,
  );
  expect(rows.map(({ project_id, count }) => [project_id, count])).toEqual([
    [ids[0], 205],
    [ids[1], 3],
  ]);
  expect(failures).toEqual([]);
});
