import { expect, test, vi } from 'vitest';
import { KEPT_TEXTS, type KeptText } from '#dist/domain/kept-texts.js';
import { USER_COLUMNS } from '#dist/domain/user-columns.js';
import type { Json } from '../support/app.js';
import { type Credentials, recordLogin, TIMESTAMP, useServer } from '../support/command.js';
import { PATIENCE } from '../support/waiting.js';

/** Stories of users and bans; commands.test.ts has each command. */

const { url, run, runJson, runWith, createProject } = useServer();
const inProject = ({ app_id }: Credentials) => ['--project', app_id];
const search = (project: Credentials, ...args: string[]): Promise<Json[]> =>
  runJson('user', 'search', ...inProject(project), ...args);
const bansOf = (project: Credentials): Promise<Json> => runJson('user', 'bans', ...inProject(project));
const importLines = (project: Credentials, lines: string, ...args: string[]) =>
  runWith(lines, 'user', 'import', ...inProject(project), ...args);
const addLines = (project: Credentials, ...lines: Json[]) =>
  importLines(project, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
const login = async (project: Credentials, authValue: string) =>
  (await recordLogin(url(), project, { authMethod: 'email', authValue })).body.errors?.[0].extensions.code ?? 'done';
const imports = async (project: Credentials) =>
  (await runJson('audit', '--project', project.app_id)).filter(({ action }: Json) => action === 'import');

test.each(Object.entries(KEPT_TEXTS))('user get shows %s, and user update changes it', async (field, { examples }) => {
  const project = await createProject();
  const [value, other] = examples;
  const line = USER_COLUMNS[field as KeptText].line;
  await addLines(project, { auth_method: 'github', auth_value: 'kept', [line]: value });
  const [found] = await search(project, '--method', 'github', '--value', 'kept');
  expect(found).toMatchObject({ [line]: value });
  expect((await run('user', 'get', ...inProject(project), String(found.id))).stdout).toContain(` ${value}\n`);
  const option = `--${line.replaceAll('_', '-')}`;
  const change = (text: string): Promise<Json> =>
    runJson('user', 'update', ...inProject(project), String(found.id), option, text);
  expect(await change(other)).toMatchObject({ [line]: other });
  expect(await change('')).toMatchObject({ [line]: null });
});

test('user list names the option of a date that is wrong, and has the users of all its conditions', async () => {
  const project = await createProject();
  await addLines(
    project,
    { auth_method: 'email', auth_value: 'old@example.com', created_at: '2025-12-31T23:59:59Z' },
    { auth_method: 'email', auth_value: 'ada@example.com', created_at: '2026-01-01T00:00:00Z' },
    { auth_method: 'google', auth_value: 'ada', created_at: '2026-01-01T00:00:00Z' },
  );
  const list = (...args: string[]) => run('user', 'list', ...inProject(project), ...args);
  for (const option of ['--start-date', '--end-date', '--last-login-before'])
    expect((await list(option, '2026-13-01')).stderr).toMatch(
      new RegExp(`^userdir: ${option}: got "2026-13-01", expected `),
    );
  const { stdout } = await list(
    '--start-date',
    '2026-01-01',
    '--login-methods',
    'email',
    '--contains',
    'ADA',
    '--json',
  );
  expect(JSON.parse(stdout).map(({ auth_value }: Json) => auth_value)).toEqual(['ada@example.com']);
});

test('user search --prefix prints the first 50 users in alphabetical order, and says that there are more', async () => {
  const project = await createProject();
  const names = Array.from({ length: 60 }, (_, n) => `user${n}`).sort();
  await addLines(project, ...names.map((name) => ({ auth_method: 'email', auth_value: `${name}@example.com` })));
  const values = (stdout: string) => JSON.parse(stdout).map(({ auth_value }: Json) => auth_value.replace(/@.*/, ''));
  const find = (prefix: string, ...args: string[]) =>
    run('user', 'search', ...inProject(project), '--prefix', prefix, ...args);
  const first = await find('USER', '--json');
  expect([first.code, values(first.stdout)]).toEqual([
    0,
    names
      .map((name) => `${name}@`)
      .sort()
      .slice(0, 50)
      .map((name) => name.slice(0, -1)),
  ]);
  expect(first.stderr).toBe('userdir: There may be more than 50 users. A longer beginning finds fewer.\n');
  const few = await find('user4');
  expect([few.code, few.stderr, few.stdout.trim().split('\n').length]).toEqual([0, '', 12]);
  const methods = Array.from({ length: 10 }, (_, n) => ({ auth_method: `x${n}`, auth_value: 'id' }));
  await addLines(project, ...methods);
  expect((await find('user4')).stderr).toBe(
    'userdir: Only IDs of the first 10 login methods were searched. Others are found by --method and --value.\n',
  );
});

test('a removed user is found, told to be banned, restored once, and no more after a purge', async () => {
  const project = await createProject();
  const eve = { auth_method: 'email', auth_value: 'eve@example.com' };
  await addLines(project, eve);
  const [user] = await search(project, 'eve@example.com');
  await runJson('user', 'ban', ...inProject(project), '--method', 'email', '--value', 'EVE@example.com');
  await runJson('user', 'remove', ...inProject(project), String(user.id));
  const [removed] = await search(project, '--removed', 'eve@example.com');
  expect(removed).toEqual({
    ...user,
    banned: true,
    banned_at: expect.stringMatching(TIMESTAMP),
    removed_at: expect.stringMatching(TIMESTAMP),
  });
  expect((await run('user', 'search', ...inProject(project), String(user.id))).stdout).toMatch(
    / removed \S+, banned \S+\n$/,
  );
  const restore = () => run('user', 'restore', ...inProject(project), String(user.id));
  expect(await restore()).toMatchObject({ code: 0, stdout: `Restored user ${user.id}.\n` });
  expect(await search(project, 'eve@example.com')).toEqual([{ ...removed, removed_at: null }]);
  expect(await restore()).toMatchObject({ code: 1, stderr: `userdir: User ${user.id} is not removed.\n` });

  await runJson('user', 'remove', ...inProject(project), String(user.id));
  await addLines(project, eve);
  expect(await restore()).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^userdir: User \d+ cannot be restored: an identity by email is that of user \d+ now\. .*\n$/,
    ),
  });
  expect(await runJson('user', 'purge', '--older-than', '0s', ...inProject(project))).toEqual({ purged: 1 });
  expect(await restore()).toMatchObject({ code: 1, stderr: `userdir: There is no user ${user.id} in this project.\n` });
  expect(await run('totals', 'check', ...inProject(project))).toMatchObject({ code: 0 });
});

test('bans have an end that is to come, and let in from then on', async () => {
  const one = await createProject();
  const set = (value: string, ...terms: string[]) =>
    run('user', 'ban', '--project', one.app_id, '--method', 'email', '--value', value, ...terms);
  for (const bad of [
    ['--until', '2026-01-01'],
    ['--until', 'x'],
    ['--reason', 'x'.repeat(501)],
  ] as const)
    expect(await set('eve@example.com', ...bad)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(bad[0].slice(2)),
    });
  // A command begins within that time on a busy machine, too.
  const soon = new Date(Date.now() + 3_000).toISOString();
  expect(await set('eve@example.com', '--until', soon)).toMatchObject({ code: 0 });
  await vi.waitFor(async () => expect(await login(one, 'eve@example.com')).toBe('done'), PATIENCE);
});

test('bans are imported all or none, together with the users of the file', async () => {
  const project = await createProject();
  const lines = [
    '{"ban":{"auth_method":"email","auth_value":"eve@example.com"}}',
    '{"ban":{"auth_method":"email","auth_value":"EVE@example.com","created_at":"2026-01-01"}}',
    '{"ban":{"auth_method":"email","auth_value":"no email"}}',
    '{"ban":{"auth_method":"email","auth_value":"a@example.com","why":"x"}}',
    '{"ban":{"auth_method":"email","auth_value":"a@example.com"},"email":"a@example.com"}',
    '{"ban":null}',
  ].join('\n');
  const refused = await importLines(project, lines, '--json');
  expect(refused.code).toBe(1);
  expect(JSON.parse(refused.stdout)).toMatchObject({ imported: 0, failed: 4, bans: 0 });
  expect(JSON.parse(refused.stdout).errors).toEqual([
    { line: 3, error: expect.stringContaining('auth_value: got') },
    {
      line: 4,
      error: 'Unknown field "why"; known are auth_method, auth_value, created_at, reason, expires_at, of_user.',
    },
    { line: 5, error: 'Unknown field "email"; known are ban, alone on its line.' },
    { line: 6, error: 'ban: got null, expected a JSON object.' },
  ]);
  expect(await bansOf(project)).toEqual([]);
  const taken = await importLines(project, lines, '--skip-invalid');
  expect(taken).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('failed 4. Added 1 ban, 1 there already.\n'),
  });
  expect(await bansOf(project)).toMatchObject([{ auth_value: 'eve@example.com' }]);
  expect((await imports(project)).map(({ details }: Json) => details)).toEqual([
    { imported: 0, skipped: 0, failed: 4 },
    { imported: 0, skipped: 0, failed: 4, bans: 1, bans_kept: 1 },
  ]);
});

test('a person with two users links, merges and is banned as one', async () => {
  const project = await createProject();
  const wallet = '0x52908400098527886e0f7030069857d2e4169ee7';
  const ada = { auth_method: 'email', auth_value: 'ada@example.com', external_id: 'c-1', login_count: 2 };
  await addLines(project, ada, { auth_method: 'wallet', auth_value: wallet, login_count: 1 });
  const [{ id: into }] = await search(project, 'c-1');
  const [{ id: from }] = await search(project, wallet);
  const inUsers = (command: string, ...args: unknown[]) =>
    run('user', command, ...inProject(project), ...args.map(String));
  expect(await inUsers('merge', from, into)).toMatchObject({ code: 1, stderr: expect.stringContaining('--yes') });
  expect(await search(project, wallet)).toMatchObject([{ id: from }]);
  const merged = await inUsers('merge', from, into, '--yes', '--json');
  expect(JSON.parse(merged.stdout)).toMatchObject({
    from,
    into,
    merged: true,
    effects: expect.arrayContaining([{ name: 'Logins', text: '1 + 2 = 3' }]),
  });
  expect(await search(project, wallet)).toMatchObject([
    { id: into, login_count: 3, identities: [{ primary: true }, { auth_method: 'wallet' }] },
  ]);
  expect((await inUsers('get', from)).stdout).toMatch(new RegExp(`State +merged into user ${into} `));
  expect(await inUsers('ban', into)).toMatchObject({ code: 0 });
  expect(await bansOf(project)).toMatchObject([{ auth_method: 'email' }, { auth_method: 'wallet' }]);
  expect(await inUsers('unban', into)).toMatchObject({ code: 0 });
  expect(await bansOf(project)).toEqual([]);
  expect(await inUsers('ban', 999_999)).toMatchObject({
    code: 1,
    stderr: 'userdir: There is no user 999999 in this project.\n',
  });
  expect((await inUsers('unlink', into, '--address', wallet)).stdout).toBe(
    `User ${into} logs in by email ada@example.com (primary).\n`,
  );
  expect(await inUsers('search', wallet)).toMatchObject({ code: 1 });
});
