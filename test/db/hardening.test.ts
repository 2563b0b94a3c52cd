import { beforeEach, expect, inject, test } from 'vitest';
import { changeCursor } from '#dist/domain/changes.js';
import { parse } from '#dist/domain/parse.js';
import { type TestProject, useTestApp } from '../support/app.js';

/** Guarantees for totals that hold even when plain SQL changes the tables. */
const app = useTestApp();
let project: TestProject;
beforeEach(async () => {
  project = await app.createProject();
  await project.addUsers(...emails(0, 3));
});

const emails = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => ({ auth_method: 'email', auth_value: `${from + index}@example.com` }));
const scope = () => app.context.services.projects.getScope(project.appId);
const differences = async () => app.context.services.totals.check(await scope());
const total = async () => (await project.rest('/server/users')).body.result.total_user;

test('the id of a project cannot change, and its name can', async () => {
  const { pool } = app.context.db;
  const change = pool.query('UPDATE projects SET id = id + 1000 WHERE app_id = $1', [project.appId]);
  await expect(change).rejects.toMatchObject({ code: '23001', message: 'the id of a project does not change' });
  await pool.query("UPDATE projects SET name = 'Another', id = id WHERE app_id = $1", [project.appId]);
  expect([await total(), await differences()]).toEqual([3, []]);
});

for (const [what, folded] of [
  ['deltas', false],
  ['tallies', true],
] as const) {
  for (const statement of [
    'TRUNCATE users CASCADE',
    'TRUNCATE users, accounts, identities, bans, user_bans, tally_deltas',
    'TRUNCATE projects CASCADE',
  ]) {
    test(`${statement} leaves no ${what}`, async () => {
      if (folded) await app.context.services.totals.fold(await scope());
      const { pool } = app.context.db;
      await pool.query(statement);
      const left =
        'SELECT (SELECT count(*) FROM tallies) + (SELECT count(*) FROM tally_slices) + (SELECT count(*) FROM tally_deltas) AS left';
      expect((await pool.query(left)).rows).toEqual([{ left: '0' }]);
    });
  }
}

test.each(['users CASCADE', 'accounts', 'identities', 'bans'])(
  'after TRUNCATE %s every cursor has expired',
  async (tables) => {
    const { changes } = app.context.services;
    const query = { types: null, first: 1_000 };
    const { end } = await changes.listChanges(await scope(), { ...query, after: 'now' });
    const cursor = parse(changeCursor('after'), end);
    await changes.listChanges(await scope(), { ...query, after: cursor });
    await app.context.db.pool.query(`TRUNCATE ${tables}`);
    const read = changes.listChanges(await scope(), { ...query, after: cursor });
    await expect(read).rejects.toMatchObject({ code: 'CURSOR_EXPIRED' });
    const next = await changes.listChanges(await scope(), { ...query, after: 'now' });
    await project.addUsers(...emails(9, 1));
    const page = await changes.listChanges(await scope(), { ...query, after: parse(changeCursor('after'), next.end) });
    expect(page.changes.map(({ type }) => type)).toEqual(['user.created']);
  },
);

test.runIf(inject('engine') === 'postgres')(
  'TRUNCATE users under an older snapshot leaves no tallies (needs two sessions)',
  async () => {
    const { pool } = app.context.db;
    const older = await pool.connect();
    await older.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await older.query('SELECT count(*) FROM users');
    await project.addUsers(...emails(3, 4));
    expect(await total()).toBe(7);
    await older.query('TRUNCATE users CASCADE');
    await older.query('COMMIT');
    older.release();
    expect([await total(), await differences()]).toEqual([0, []]);
    await project.addUsers(...emails(0, 2));
    expect([await total(), await differences()]).toEqual([2, []]);
  },
);

test('triggers and functions work with an empty search_path', async () => {
  const { pool } = app.context.db;
  const client = await pool.connect();
  const { rows } = await client.query(
    `SELECT oid::regprocedure::text AS name FROM pg_proc
     WHERE pronamespace = current_schema()::regnamespace AND prosqlbody IS NULL
       AND NOT EXISTS (SELECT FROM unnest(proconfig) AS setting WHERE setting LIKE 'search_path=public,%')`,
  );
  expect(rows).toEqual([]);
  await client.query("SET search_path = ''");
  await client.query(
    `INSERT INTO public.users (project_id, auth_method, auth_value, auth_value_key)
     SELECT id, 'email', 'x@example.com', 'x@example.com' FROM public.projects WHERE app_id = $1`,
    [project.appId],
  );
  await client.query("UPDATE public.users SET deleted_at = now() WHERE auth_value = '0@example.com'");
  await client.query("DELETE FROM public.users WHERE auth_value = '1@example.com'");
  await client.query('SELECT public.fold_tallies(id, 1000), public.cut_crowded_days(id, NULL) FROM public.projects');
  await client.query('UPDATE public.projects SET requests_per_minute = 5');
  await client.query('RESET search_path');
  client.release();
  expect([await total(), await differences()]).toEqual([2, []]);
});
