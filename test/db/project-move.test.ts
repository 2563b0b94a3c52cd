import { describe, expect, inject, test, vi } from 'vitest';
import { readProjectIds, setProjectIds } from '#dist/cells/cells.js';
import { listMovedTables, STAYING_TABLES } from '#dist/cells/project-move.sql.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** What the database does with a project that is on its way to another one. test/process/project-move.test.ts moves projects. */

const app = useTestApp({ ownDatabase: true });
const sql = async (text: string): Promise<Json[]> => (await app.context.db.pool.query(text)).rows;
const idOf = async ({ appId }: TestProject): Promise<number> =>
  (await sql(`SELECT id FROM projects WHERE app_id = '${appId}'`))[0].id;

/** Tables without rows of projects: each cell has its own. */
const OF_THE_CELL = [
  ...['_prisma_migrations', 'changes_feed', 'changes_timelines'],
  ...['operators', 'operator_sessions', 'login_links', 'operator_log', 'operator_passkeys', 'passkey_challenges'],
];

test('every table is moved with its project or known to stay, and what is moved can be told by project', async () => {
  const tables = await sql(
    `SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY 1`,
  );
  const moved = await listMovedTables(app.context.db);
  expect(moved.map(({ name }) => name)).toEqual(
    tables.map(({ name }) => name).filter((name) => ![...OF_THE_CELL, ...STAYING_TABLES, 'projects'].includes(name)),
  );
  expect(moved.filter(({ isFiltered }) => !isFiltered)).toEqual([]);
  expect(moved.find(({ name }) => name === 'bans')).toMatchObject({ key: 'auth_method, auth_value_key' });
});

const LOGIN = 'mutation ($v: String!) { recordLogin(input: { authMethod: "passkey", authValue: $v }) { user { id } } }';
const login = (project: TestProject, v = 'a') => project.graphql(LOGIN, { v });
const move = async (project: TestProject, step: string) =>
  sql(`INSERT INTO project_moves (project_id, step, other) VALUES (${await idOf(project)}, '${step}', 'x')
       ON CONFLICT (project_id) DO UPDATE SET step = excluded.step`);

test.each(['switching', 'mapping', 'leaving', 'arriving'])(
  'a project that is %s refuses everything with 503',
  async (step) => {
    const [project, other] = [await app.createProject(), await app.createProject()];
    const { data } = await login(project);
    await move(project, step);
    await vi.waitUntil(async () => (await project.rest('/server/users')).status === 503, { timeout: 60_000 });
    const { status, headers, body } = await project.rest('/server/users');
    expect([status, headers.get('retry-after'), headers.get('userdir-error-code')]).toEqual([503, '1', 'UNAVAILABLE']);
    expect(body.error).toBe('The project is being moved to another database. Send the request again.');
    const refused = await login(project);
    expect([refused.status, refused.headers.get('retry-after'), refused.errors?.[0]?.extensions.code]).toEqual([
      503,
      '1',
      'UNAVAILABLE',
    ]);
    expect((await project.rest(`/server/users/${data.recordLogin.user.id}`, { method: 'DELETE' })).status).toBe(503);
    // Only who has a right secret is told.
    const wrong = { ...project.credentials, 'service-app-secret': 'wrong' };
    expect((await fetch(`${app.url}/server/users`, { headers: wrong })).status).toBe(401);
    expect((await login(other)).status).toBe(200);
    await sql('DELETE FROM project_moves');
    await vi.waitUntil(async () => (await login(project)).status === 200, { timeout: 60_000 });
  },
);

describe('the database refuses writes by itself', () => {
  const REFUSED = 'The project is being moved to another database.';
  const writesOf = (id: number): Record<string, string> => ({
    'a registration': `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key) VALUES (${id}, 'passkey', 'n', 'n')`,
    'a login': `UPDATE users SET login_count = login_count + 1 WHERE project_id = ${id}`,
    'a purge': `DELETE FROM users WHERE project_id = ${id}`,
    'an account': `DELETE FROM accounts WHERE project_id = ${id}`,
    'a ban': `INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key) VALUES (${id}, 'passkey', 'n', 'n')`,
    'a secret': `UPDATE app_secrets SET expires_at = now() WHERE project_id = ${id}`,
    'a webhook': `INSERT INTO webhooks (project_id, url, description, types, place, timeline)
      VALUES (${id}, 'https://example.com', '', '{}', 1, 'x')`,
    'an act': `INSERT INTO audit_log (project_id, actor, action, details) VALUES (${id}, 'x', 'remove', '{}')`,
    'a setting': `UPDATE projects SET requests_per_minute = 5 WHERE id = ${id}`,
    'the project': `DELETE FROM projects WHERE id = ${id}`,
    'a repair of totals': `INSERT INTO tallies SELECT ${id}, 'all', '1970-01-01', 'wallet', 1`,
  });
  /** What becomes of a write, which is undone. */
  async function attempt(text: string): Promise<string> {
    const client = await app.context.db.pool.connect();
    try {
      await client.query('BEGIN');
      return await client.query(text).then(
        () => 'done',
        (error) => error.message,
      );
    } finally {
      await client.query('ROLLBACK');
      client.release();
    }
  }
  const attemptAll = async (id: number) => {
    const outcomes: Record<string, string> = {};
    for (const [what, text] of Object.entries(writesOf(id))) outcomes[what] = await attempt(text);
    return outcomes;
  };
  const all = (outcome: string) => Object.fromEntries(Object.keys(writesOf(0)).map((what) => [what, outcome]));

  test('of a closed project and of one that arrives, and of no other', async () => {
    const [project, other] = [await app.createProject(), await app.createProject()];
    const [id, otherId] = [await idOf(project), await idOf(other)];
    for (const each of [project, other])
      await each.addUsers({
        auth_method: 'passkey',
        auth_value: 'a',
        accounts: [{ network: 'ethereum', public_key: `0x${'ab'.repeat(20)}` }],
      });
    expect(await attemptAll(id)).toEqual(all('done'));
    for (const step of ['switching', 'mapping', 'arriving']) {
      await move(project, step);
      expect(await attemptAll(id)).toEqual(all(REFUSED));
    }
    await move(project, 'copying');
    expect(await attemptAll(id)).toEqual(all('done'));
    await move(project, 'leaving');
    expect(await attemptAll(id)).toEqual({
      ...all(REFUSED),
      ...{ 'a purge': 'done', 'an account': 'done', 'the project': 'done' },
    });
    expect(await attemptAll(otherId)).toEqual(all('done'));
    await sql('DELETE FROM project_moves');
  });

  test.runIf(inject('engine') === 'postgres')(
    'of transactions that come while the project is being closed',
    async () => {
      const project = await app.createProject();
      const id = await idOf(project);
      await move(project, 'copying');
      const [writer, closer] = [await app.context.db.pool.connect(), await app.context.db.pool.connect()];
      try {
        await writer.query(`BEGIN; ${writesOf(id)['a registration']}`);
        const closing = closer.query(`BEGIN; SELECT pg_advisory_xact_lock(1968399459, ${id})`);
        await vi.waitUntil(
          async () => (await sql(`SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`)).length === 1,
          { timeout: 60_000 },
        );
        expect((await login(project)).status).toBe(503);
        await writer.query('COMMIT');
        await closing;
        expect((await login(project)).status).toBe(503);
        await closer.query('ROLLBACK');
        expect((await login(project)).status).toBe(200);
        expect(await sql(`SELECT count(*)::int AS users FROM users WHERE project_id = ${id}`)).toEqual([{ users: 2 }]);
      } finally {
        writer.release(true);
        closer.release(true);
      }
    },
  );
});

test('a project that is copied cannot be deleted', async () => {
  const project = await app.createProject();
  await move(project, 'copying');
  const scope = await app.context.services.projects.getScope(project.appId);
  const options = { progress: () => undefined, signal: new AbortController().signal };
  await expect(app.context.services.lifecycle.deleteProject(scope, options)).rejects.toMatchObject({
    code: 'CONFLICT',
  });
  await sql('DELETE FROM project_moves');
});

test('changes and totals of a project that arrives are left to the database that it comes from', async () => {
  const project = await app.createProject();
  await project.addUsers({ auth_method: 'passkey', auth_value: 'a' });
  const id = await idOf(project);
  const { services } = app.context;
  await sql(`UPDATE changes SET at = now() - interval '10 years'`);
  await move(project, 'arriving');
  await services.totals.fold(await services.projects.getScope(project.appId));
  await services.changes.prune();
  expect((await sql(`SELECT FROM tally_deltas WHERE project_id = ${id}`)).length).toBe(1);
  expect((await sql(`SELECT FROM changes WHERE project_id = ${id}`)).length).toBe(1);
  await sql('DELETE FROM project_moves');
});

test('a cell draws ids of projects from its own range, after those that are taken', async () => {
  const { db } = app.context;
  const before = await readProjectIds(db);
  expect(before).toMatchObject({ first: 1, last: 2_147_483_647 });
  expect(await setProjectIds(db, 1, 1_000)).toEqual({ first: 1, last: 1_000, next: before.next });
  expect(await setProjectIds(db, 5_001, 6_000)).toEqual({ first: 5_001, last: 6_000, next: 5_001 });
  expect(await idOf(await app.createProject())).toBe(5_001);
  expect(await setProjectIds(db, 5_001, 7_000)).toMatchObject({ next: 5_002 });
  expect(await setProjectIds(db, 1, 1_000)).toMatchObject({ next: before.next });
  for (const [first, last] of [
    [0, 5],
    [5, 5],
    [7, 3],
    [1, 2_147_483_648],
  ] as const)
    expect(() => setProjectIds(db, first, last)).toThrow('such as 1-1000000');
});
