import { beforeEach, expect, test } from 'vitest';
import { ethereumAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** What a deletion takes with it, and what it leaves. */

// The tests look at every table.
const app = useTestApp({ ownDatabase: true });
const sql = async (text: string): Promise<Json[]> => (await app.context.db.pool.query(text)).rows;
const scopeOf = ({ appId }: TestProject) => app.context.services.projects.getScope(appId);
const idOf = async ({ appId }: TestProject): Promise<number> =>
  (await sql(`SELECT id FROM projects WHERE app_id = '${appId}'`))[0].id;

/** How many rows each table has of a project, in the tables that have any. */
async function rowsOf(projectId: number): Promise<Record<string, number>> {
  const tables = await sql(`
    SELECT c.relname AS name FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE a.attname = 'project_id' AND c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace`);
  expect(tables.length).toBeGreaterThan(7);
  const counts: Record<string, number> = {};
  for (const { name } of tables) {
    const [{ count }] = await sql(`SELECT count(*)::int AS count FROM "${name}" WHERE project_id = ${projectId}`);
    if (count > 0) counts[name] = count;
  }
  return counts;
}

/** A project with something in every table. */
async function createFullProject(users: number): Promise<TestProject> {
  const { services } = app.context;
  const project = await app.createProject('Full');
  const scope = await scopeOf(project);
  await project.addUsers(
    ...Array.from({ length: users }, (_, n) => ({
      auth_method: 'google',
      auth_value: `user ${n}`,
      accounts: [{ network: 'ethereum', public_key: ethereumAddress(n) }],
    })),
  );
  await services.bans.ban(scope, { authMethod: 'passkey', authValue: 'x', authValueKey: 'x' });
  const { data } = await project.graphql('{ users(first: 2) { nodes { id } } }');
  for (const { id } of data.users.nodes) await services.users.removeUser(scope, BigInt(id), null, `key-${id}`);
  return project;
}

const deleted = (
  project: TestProject,
  signal = new AbortController().signal,
  progress = (_: number): void => undefined,
) => scopeOf(project).then((scope) => app.context.services.lifecycle.deleteProject(scope, { progress, signal }));

const differences = async (project: TestProject) => app.context.services.totals.check(await scopeOf(project));

let other: TestProject;
beforeEach(async () => {
  other = await createFullProject(10);
});

test('a deletion takes every row of the project and none of another', async () => {
  const project = await createFullProject(4_100);
  const [id, otherId] = [await idOf(project), await idOf(other)];
  const before = await rowsOf(otherId);
  expect(Object.keys(await rowsOf(id))).toEqual(expect.arrayContaining(Object.keys(before)));
  expect(await deleted(project)).toBe(4_100);
  expect(await rowsOf(id)).toEqual({});
  expect(await sql(`SELECT FROM projects WHERE id = ${id}`)).toEqual([]);
  expect(await rowsOf(otherId)).toEqual(before);
  expect(await differences(other)).toEqual([]);
  expect((await project.rest('/server/users')).status).toBe(401);
  expect((await other.rest('/server/users/count')).body.result.total_user).toBe(8);
  await expect(scopeOf(project)).rejects.toMatchObject({ code: 'NOT_FOUND' });
});

test('a deletion in the database itself leaves no row, pending deltas included', async () => {
  const id = await idOf(other);
  expect(await rowsOf(id)).toHaveProperty('tally_deltas');
  await sql(`DELETE FROM projects WHERE id = ${id}`);
  expect(await rowsOf(id)).toEqual({});
});

test('an interrupted deletion leaves the project disabled, its totals exact and its trail, and a second one ends it', async () => {
  const project = await createFullProject(4_100);
  const id = await idOf(project);
  const interruption = new AbortController();
  await expect(
    deleted(project, interruption.signal, () => interruption.abort(new Error('Interrupted.'))),
  ).rejects.toThrow('Interrupted.');
  expect((await project.rest('/server/users')).headers.get('userdir-error-code')).toBe('PROJECT_DISABLED');
  const { users } = await rowsOf(id);
  expect(users).toBeGreaterThan(0);
  expect(users).toBeLessThan(4_100);
  expect(await differences(project)).toEqual([]);
  const [entry] = await sql(`SELECT actor FROM audit_log WHERE project_id = ${id} AND action = 'delete'`);
  expect(entry).toEqual({ actor: 'operator' });
  expect(await deleted(project)).toBe(users);
  expect(await rowsOf(id)).toEqual({});
});

test('users who register while their project is deleted go with it', async () => {
  const project = await createFullProject(2_500);
  const id = await idOf(project);
  const login = (n: number) =>
    project.graphql(`mutation { recordLogin(input: { authMethod: "google", authValue: "late ${n}" }) { created } }`);
  const registered = Promise.all(Array.from({ length: 50 }, (_, n) => login(n)));
  await deleted(project);
  await registered;
  expect(await rowsOf(id)).toEqual({});
});
