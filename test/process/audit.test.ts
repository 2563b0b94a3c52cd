import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync } from 'node:fs';
import { expect, inject, test } from 'vitest';
import { ethereumAddress } from '../support/addresses.js';
import type { Json } from '../support/app.js';
import {
  CLI,
  type Credentials,
  call,
  logIn,
  makeFolder,
  TIMESTAMP,
  userdirJson,
  useServer,
} from '../support/command.js';
import { copyTemplate } from '../support/engines.js';

/** Every change is recorded in its own transaction. The audit trail contains no personal data. */

const { url, run, runJson, runWith, createProject } = useServer();

/** The entries after that of the creation. */
const trail = async ({ app_id }: Credentials, ...args: string[]): Promise<Json[]> =>
  (await runJson('audit', '--project', app_id, ...args)).filter(({ action }: Json) => action !== 'create');
const emailUser = (name: string) => `${JSON.stringify({ auth_method: 'email', auth_value: `${name}@example.com` })}\n`;
const importUsers = ({ app_id }: Credentials, lines: string, ...args: string[]) =>
  runWith(lines, 'user', 'import', '--project', app_id, ...args);

async function userIds(project: Credentials): Promise<number[]> {
  const { body } = await call(url(), project, '/server/users?limit=100');
  return body.result.users.map(({ id }: { id: number }) => id);
}

/** An expected audit entry; `at` and `id` differ each time. */
const entry = (action: string, fields: Json = {}) => ({
  id: expect.any(Number),
  at: expect.stringMatching(TIMESTAMP),
  actor: 'operator:tester',
  request_id: null,
  action,
  user_id: null,
  details: {},
  ...fields,
});

test('a removal is recorded for REST, GraphQL and the command, with the secret label and the request id', async () => {
  const project = await createProject();
  const args = ['--label', 'Deleter', '--scope', 'write'];
  const { app_secret, id: secretId } = await runJson('project', 'add-secret', project.app_id, ...args);
  await importUsers(project, ['a', 'b', 'c'].map(emailUser).join(''));
  const [c, b, a] = (await userIds(project)) as [number, number, number];
  const asDeleter = { app_id: project.app_id, app_secret };
  const remove = (id: number, headers = {}) =>
    call(url(), asDeleter, `/server/users/${id}`, { method: 'DELETE', headers });
  expect((await remove(a, { 'x-request-id': 'request-1' })).status).toBe(200);
  // If the caller sends no request id, the entry has the one from the response.
  const body = JSON.stringify({ query: `mutation { deleteUser(id: ${b}) { id } }` });
  const mutation = await call(url(), asDeleter, '/graphql', { method: 'POST', body });
  expect(mutation.body).toEqual({ data: { deleteUser: { id: `${b}` } } });
  await runJson('user', 'remove', '--project', project.app_id, `${c}`);
  // A failed operation is not recorded.
  expect((await remove(a)).status).toBe(404);
  expect((await run('user', 'remove', '--project', project.app_id, `${c}`)).code).toBe(1);

  expect(await trail(project)).toEqual([
    entry('add_secret', { details: { secret: secretId, label: 'Deleter', scopes: ['write'] } }),
    entry('import', { details: { imported: 3, skipped: 0 } }),
    entry('remove', { actor: 'Deleter', request_id: 'request-1', user_id: a }),
    entry('remove', { actor: 'Deleter', request_id: mutation.headers.get('x-request-id'), user_id: b }),
    entry('remove', { user_id: c }),
  ]);
});

test('a ban and an unban are recorded once each, with the user they affect', async () => {
  const project = await createProject();
  const userId = await logIn(url(), project, { authMethod: 'email', authValue: 'eve@example.com' });
  const eve = ['--project', project.app_id, '--method', 'email', '--value', 'Eve@Example.com'];
  const nobody = ['--project', project.app_id, '--method', 'google', '--value', '1234567'];
  for (const command of ['ban', 'ban', 'unban', 'unban']) await runJson('user', command, ...eve);
  await runJson('user', 'ban', ...nobody);
  expect(await trail(project)).toEqual([
    entry('ban', { user_id: userId, details: { auth_method: 'email' } }),
    entry('unban', { user_id: userId, details: { auth_method: 'email' } }),
    entry('ban', { details: { auth_method: 'google' } }),
  ]);
});

test('an import has one entry with its counts, also if it wrote nothing or was rolled back', async () => {
  const project = await createProject();
  expect((await importUsers(project, `${emailUser('a')}{}\n`)).code).toBe(1);
  expect((await importUsers(project, `${emailUser('a')}{}\n`, '--skip-invalid')).code).toBe(0);
  expect((await importUsers(project, ['a', 'b'].map(emailUser).join(''), '--on-conflict', 'skip')).code).toBe(0);
  expect((await importUsers(project, emailUser('b'), '--on-conflict', 'skip')).code).toBe(0);
  expect((await importUsers(project, emailUser('b'), '--on-conflict', 'skip', '--skip-invalid')).code).toBe(0);
  // Undone by the database, which knows the second one.
  expect((await importUsers(project, ['c', 'b'].map(emailUser).join(''))).code).toBe(1);
  expect((await importUsers(project, '{}\n', '--skip-invalid')).code).toBe(0);
  expect((await importUsers(project, '')).code).toBe(0);
  // One entry, however many transactions it takes.
  const many = Array.from({ length: 2_100 }, (_, index) => emailUser(`many${index}`)).join('');
  expect((await importUsers(project, `{}\n${many}`, '--skip-invalid')).code).toBe(0);
  const more = `${emailUser('more')}${many}{}\n`;
  expect((await importUsers(project, more, '--skip-invalid', '--on-conflict', 'skip')).code).toBe(0);
  expect(await trail(project)).toEqual([
    entry('import', { details: { imported: 0, skipped: 0, failed: 1 } }),
    entry('import', { details: { imported: 1, skipped: 0, failed: 1 } }),
    entry('import', { details: { imported: 1, skipped: 1 } }),
    entry('import', { details: { imported: 0, skipped: 1 } }),
    entry('import', { details: { imported: 0, skipped: 1 } }),
    entry('import', { details: { imported: 0, skipped: 0, failed: 1 } }),
    entry('import', { details: { imported: 0, skipped: 0, failed: 1 } }),
    entry('import', { details: { imported: 0, skipped: 0 } }),
    entry('import', { details: { imported: 2_100, skipped: 0, failed: 1 } }),
    // What comes after the last user who was written counts, too.
    entry('import', { details: { imported: 1, skipped: 2_100, failed: 1 } }),
  ]);
});

test('a purge is recorded with its count, and keeps the audit entries of the erased users', async () => {
  const project = await createProject();
  await importUsers(project, ['a', 'b'].map(emailUser).join(''));
  const [id] = await userIds(project);
  await runJson('user', 'remove', '--project', project.app_id, `${id}`);
  expect(await runJson('user', 'purge', '--older-than', '0s', '--project', project.app_id)).toEqual({ purged: 1 });
  expect(await runJson('user', 'purge', '--older-than', '0s', '--project', project.app_id)).toEqual({ purged: 0 });
  expect((await trail(project)).slice(1)).toEqual([
    entry('remove', { user_id: id }),
    entry('purge', { details: { purged: 1 } }),
  ]);
});

test('rotating and revoking secrets is recorded with their labels and ids', async () => {
  const project = await createProject();
  const [{ id: first }] = (await runJson('project', 'secrets', project.app_id)) as [Json];
  const rotated = await runJson('project', 'rotate', project.app_id, '--overlap', '1h');
  for (let time = 0; time < 2; time += 1) await runJson('project', 'revoke', project.app_id, `${first}`);
  expect(await trail(project)).toEqual([
    entry('rotate', { details: { secret: rotated.id, label: 'main', ended: [first], ended_at: expect.any(String) } }),
    entry('revoke', { details: { secret: first, label: 'main' } }),
  ]);
});

test('no audit entry contains personal data of a user', async () => {
  const project = await createProject();
  const wallet = ethereumAddress(7);
  await importUsers(project, `${JSON.stringify({ auth_method: 'wallet', auth_value: wallet })}\n${emailUser('zoe')}`);
  for (const id of await userIds(project)) await runJson('user', 'remove', '--project', project.app_id, `${id}`);
  for (const [method, value] of [['wallet', wallet] as const, ['email', 'zoe@example.com'] as const]) {
    await runJson('user', 'ban', '--project', project.app_id, '--method', method, '--value', value);
  }
  const entries = await trail(project);
  expect(entries).toHaveLength(5);
  expect(JSON.stringify(entries)).not.toMatch(/zoe|0x[0-9a-f]/i);
});

// The embedded database is a folder, which one system user has.
test.runIf(process.getuid?.() === 0 && inject('engine') === 'postgres')(
  'a system user without a name runs commands, and is in the audit trail by number',
  async () => {
    await using database = await copyTemplate();
    const folder = makeFolder();
    chmodSync(folder, 0o777);
    chownSync(folder, 12_345, 12_345);
    const env = { PATH: process.env['PATH'], DATABASE_URL: database.env['DATABASE_URL'], DATA_DIR: folder };
    const args = [CLI, 'project', 'create', '--name', 'Test', '--json'];
    const { stderr, status } = spawnSync(process.execPath, args, { env, uid: 12_345, gid: 12_345, encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, '']);
    const audit = await userdirJson(database.env, ['audit', '--limit', '1']);
    expect(JSON.stringify(audit)).toContain('operator:uid-12345');
  },
);
