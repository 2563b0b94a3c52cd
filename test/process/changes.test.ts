import { expect, test, vi } from 'vitest';
import { type Credentials, call, linesOf, logIn, outcomeOf, spawnUserdir, useServer } from '../support/command.js';
import { PATIENCE } from '../support/waiting.js';

const { url, settings, run, createProject } = useServer();
const login = (project: Credentials, name: string) =>
  logIn(url(), project, { authMethod: 'email', authValue: `${name}@example.com` });

test('the command writes the changes after a cursor, such as that of an export', async () => {
  const project = await createProject();
  const a = await login(project, 'a');
  const command = ['changes', '--project', project.app_id];
  // Until a page has all of it, also where the transactions of other tests hold up the feed.
  await vi.waitUntil(async () => linesOf((await run(...command)).stdout).length === 1, PATIENCE);
  const exported = await run('user', 'export', '--project', project.app_id, '--json');
  expect(linesOf(exported.stdout)).toMatchObject([{ id: a, auth_value: 'a@example.com' }]);
  const report = JSON.parse(exported.stderr);
  expect(report).toEqual({ exported: 1, bans: 0, cursor: expect.any(String) });
  const b = await login(project, 'b');
  await run('user', 'update', '--project', project.app_id, String(b), '--external-id', 'b-1');
  await call(url(), project, `/server/users/${a}`, { method: 'DELETE' });
  const after = [...command, '--after', report.cursor];
  await vi.waitUntil(async () => linesOf((await run(...after)).stdout).length === 3, PATIENCE);
  const all = await run(...after);
  expect(linesOf(all.stdout)).toMatchObject([
    { type: 'user.created', user_id: b },
    { type: 'user.updated', user_id: b, fields: ['external_id'] },
    { type: 'user.removed', user_id: a },
  ]);
  expect(all.stderr).toMatch(/^3 changes\. The next ones come after \S+\n$/);
  const removals = await run(...after, '--types', 'user.removed');
  expect(linesOf(removals.stdout)).toMatchObject([{ type: 'user.removed' }]);
});

test('--follow goes on with each change that comes, until Ctrl+C', async () => {
  const project = await createProject();
  const child = spawnUserdir(settings(), ['changes', '--project', project.app_id, '--follow']);
  const outcome = outcomeOf(child);
  let output = '';
  child.stdout.on('data', (text: string) => {
    output += text;
  });
  const first = await login(project, 'a');
  await vi.waitUntil(() => linesOf(output).length === 1, PATIENCE);
  const second = await login(project, 'b');
  await vi.waitUntil(() => linesOf(output).length === 2, PATIENCE);
  expect(linesOf(output).map(({ user_id }) => user_id)).toEqual([first, second]);
  child.kill('SIGINT');
  const { code, stderr } = await outcome;
  expect(code).toBe(1);
  expect(stderr).toContain('Interrupted. Go on with --after');
});
