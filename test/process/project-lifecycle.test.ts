import { expect, test } from 'vitest';
import type { Json } from '../support/app.js';
import { type Credentials, call, TIMESTAMP, useServer } from '../support/command.js';

/** The commands that change a project as a whole, while a server runs on the same database. */

const { url, run, runJson, runWith, createProject } = useServer();

const answer = async (project: Credentials) => {
  const { status, headers, body } = await call(url(), project, '/server/users');
  return { status, code: headers.get('userdir-error-code'), error: body.error };
};
const status = async (project: Credentials) => (await answer(project)).status;
/** What is recorded of a project after it was created and filled. */
const actions = async ({ app_id }: Credentials): Promise<Json[]> =>
  (await runJson('audit', '--project', app_id))
    .filter(({ action }: Json) => action !== 'create' && action !== 'import')
    .map(({ action, details }: Json) => [action, details]);
const addUsers = ({ app_id }: Credentials, ...names: string[]) =>
  runWith(
    names.map((name) => `{"auth_method":"google","auth_value":"${name}"}\n`).join(''),
    ...['user', 'import', '--project', app_id],
  );

test('an App ID may stand with --project or without it, and is no value of another option', async () => {
  const { app_id } = await createProject();
  const shown = await runJson('project', 'show', `--project=${app_id}`);
  expect(await runJson('project', 'limit', '--rate', 'default', app_id)).toEqual({ ...shown, changed: false });
  const renamed = { ...shown, name: app_id, changed: true };
  expect(await runJson('project', 'rename', '--name', app_id, app_id)).toEqual(renamed);
  expect((await run('user', 'get', app_id, '1')).stderr).toBe('userdir: There is no user 1 in this project.\n');
});

test('a disabled project refuses its credentials and keeps its data, until it is enabled', async () => {
  const [project, other] = [await createProject(), await createProject()];
  await addUsers(project, 'a');
  expect(await status(project)).toBe(200);
  const disabled = await runJson('project', 'disable', project.app_id);
  expect(disabled).toMatchObject({ disabled_at: expect.stringMatching(TIMESTAMP), total_user: 1 });
  await expect
    .poll(() => answer(project))
    .toEqual({
      status: 401,
      code: 'PROJECT_DISABLED',
      error: 'The project is disabled. Its data is kept, and its operator can enable it.',
    });
  // Only who has a right secret is told.
  expect(await answer({ ...project, app_secret: 'wrong' })).toMatchObject({ status: 401, code: 'UNAUTHENTICATED' });
  const graphql = await call(url(), project, '/graphql', { method: 'POST', body: '{"query":"{ userCount }"}' });
  expect([graphql.status, graphql.body.errors[0].extensions]).toEqual([
    403,
    { code: 'PROJECT_DISABLED', docs: '/docs/errors#PROJECT_DISABLED' },
  ]);
  expect(await status(other)).toBe(200);

  // The operator goes on, and a second time changes nothing.
  expect((await run('user', 'export', '--project', project.app_id)).stdout).toContain('"a"');
  expect((await runJson('project', 'disable', project.app_id)).disabled_at).toBe(disabled.disabled_at);
  expect((await run('project', 'list')).stdout).toMatch(new RegExp(`${project.app_id}.* 1 +disabled\n`));
  expect(await runJson('project', 'enable', project.app_id)).toMatchObject({ disabled_at: null });
  await expect.poll(() => status(project)).toBe(200);
  expect(await actions(project)).toEqual([
    ['disable', {}],
    ['export', { format: 'ndjson' }],
    ['enable', {}],
  ]);
});

test('project limit changes the rate limit of one project', async () => {
  const [project, other] = [await createProject(), await createProject()];
  const statuses = async (of: Credentials) => [await status(of), await status(of)];
  expect(await runJson('project', 'limit', project.app_id, '--rate', '1')).toMatchObject({ requests_per_minute: 1 });
  await expect.poll(() => statuses(project)).toEqual([429, 429]);
  expect(await statuses(other)).toEqual([200, 200]);
  await run('project', 'limit', project.app_id, '--rate', 'default');
  await expect.poll(() => statuses(project)).toEqual([200, 200]);
});

test('project delete takes the project with everything, and no other', async () => {
  const [project, other] = [await createProject(), await createProject()];
  await addUsers(project, 'a', 'b');
  await addUsers(other, 'a');
  await runJson('user', 'ban', '--project', project.app_id, '--method', 'google', '--value', 'c');
  expect(await status(project)).toBe(200);
  expect(await runJson('project', 'delete', project.app_id, '--yes')).toMatchObject({ users: 2 });
  await expect.poll(() => answer(project)).toMatchObject({ code: 'UNAUTHENTICATED' });
  expect(await run('project', 'delete', project.app_id, '--yes')).toMatchObject({ code: 1 });
  expect(await runJson('project', 'show', other.app_id)).toMatchObject({ total_user: 1 });
  expect(await run('totals', 'check')).toMatchObject({ code: 0 });
});
