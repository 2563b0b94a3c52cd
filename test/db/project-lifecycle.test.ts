import { beforeEach, expect, test } from 'vitest';
import type { ProjectScope } from '#dist/domain/projects.js';
import { type TestProject, useTestApp } from '../support/app.js';

/** Acts on a project as a whole. What a deletion takes with it is seen by project-lifecycle.slow. */

const app = useTestApp();
let project: TestProject;
let scope: ProjectScope;
beforeEach(async () => {
  project = await app.createProject('Before');
  scope = await app.context.services.projects.getScope(project.appId);
});

const acts = async () => {
  const { rows } = await app.context.db.pool.query(
    `SELECT action::text, details FROM audit_log
     WHERE project_id = (SELECT id FROM projects WHERE app_id = $1) AND action NOT IN ('create', 'import') ORDER BY id`,
    [project.appId],
  );
  return rows.map(({ action, details }) => [action, details]);
};
/** Why the project's credentials are refused. */
async function refusal(): Promise<string> {
  const { status, body } = await project.rest('/server/users/count');
  expect(status).toBe(401);
  return body.error;
}
const addUsers = (count: number) =>
  project.addUsers(...Array.from({ length: count }, (_, n) => ({ auth_method: 'google', auth_value: `user ${n}` })));

test('each act tells whether it has changed something, and only then is it in the trail', async () => {
  const { lifecycle } = app.context.services;
  const twice = async (act: () => Promise<boolean>) => [await act(), await act()];
  expect(await twice(() => lifecycle.enableProject(scope))).toEqual([false, false]);
  expect(await twice(() => lifecycle.disableProject(scope))).toEqual([true, false]);
  expect(await twice(() => lifecycle.enableProject(scope))).toEqual([true, false]);
  expect(await twice(() => lifecycle.renameProject(scope, ' After '))).toEqual([true, false]);
  expect(await twice(() => lifecycle.limitProject(scope, 100))).toEqual([true, false]);
  expect(await twice(() => lifecycle.limitProject(scope, null))).toEqual([true, false]);
  expect(await acts()).toEqual([
    ['disable', {}],
    ['enable', {}],
    ['rename', { from: 'Before', to: 'After' }],
    ['limit', { requests_per_minute: 100 }],
    ['limit', { requests_per_minute: null }],
  ]);
});

test.each([0, 1, 100_000_000, 100_000_001, 1.5, -1])('a limit of %d requests a minute', async (rate) => {
  const limited = app.context.services.lifecycle.limitProject(scope, rate);
  if (rate === 1 || rate === 100_000_000) expect(await limited).toBe(true);
  else await expect(limited).rejects.toThrow(`rate: got ${rate}, expected a whole number from 1 to 100000000`);
});

test('a deletion in parts takes what its time allows, and is recorded once', async () => {
  const { lifecycle } = app.context.services;
  await addUsers(4_100);
  const first = await lifecycle.deletePart(scope, { ms: 0, goesOn: false });
  // The project is disabled, and has the rest of its users.
  expect(await refusal()).toMatch(/disabled/);
  expect(first).toEqual({ users: 2_000, isDone: false, isBusy: false });
  expect(await acts()).toEqual([['delete', {}]]);
  const second = await lifecycle.deletePart(scope, { ms: 0, goesOn: true });
  expect(second).toEqual({ users: 2_000, isDone: false, isBusy: false });
  expect(await acts()).toEqual([['delete', {}]]);
  const last = await lifecycle.deletePart(scope, { ms: 60_000, goesOn: true });
  expect(last).toEqual({ users: 100, isDone: true, isBusy: false });
  expect(await refusal()).not.toMatch(/disabled/);
});

test('a part that goes on with the deletion of a project that was enabled meanwhile disables it again', async () => {
  const { lifecycle } = app.context.services;
  await addUsers(2_001);
  await lifecycle.deletePart(scope, { ms: 0, goesOn: false });
  await lifecycle.enableProject(scope);
  await lifecycle.deletePart(scope, { ms: 0, goesOn: true });
  expect((await acts()).map(([action]) => action)).toEqual(['delete', 'enable', 'delete']);
  expect(await refusal()).toMatch(/disabled/);
});

test('a deletion tells its progress, and of a small project is done at once', async () => {
  const { lifecycle } = app.context.services;
  await addUsers(3);
  const told: number[] = [];
  const options = { progress: (users: number) => told.push(users), signal: new AbortController().signal };
  expect(await lifecycle.deleteProject(scope, options)).toBe(3);
  expect(told).toEqual([3]);
  await expect(app.context.services.projects.getScope(project.appId)).rejects.toMatchObject({ code: 'NOT_FOUND' });
});
