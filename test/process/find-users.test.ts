import { expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import type { Json } from '../support/app.js';
import { type Credentials, TIMESTAMP, useServer } from '../support/command.js';

/** The commands that find users and bans, and that undo a removal. */

const { run, runJson, runWith, createProject } = useServer();
const inProject = ({ app_id }: Credentials) => ['--project', app_id];
const addLines = (project: Credentials, ...lines: Json[]) =>
  runWith(lines.map((line) => `${JSON.stringify(line)}\n`).join(''), 'user', 'import', ...inProject(project));
const search = (project: Credentials, ...args: string[]): Promise<Json[]> =>
  runJson('user', 'search', ...inProject(project), ...args);

test('user inactive writes the users without a login since a time as NDJSON, and reports their number on stderr', async () => {
  const project = await createProject();
  await addLines(
    project,
    {
      auth_method: 'google',
      auth_value: 'old',
      created_at: '2025-01-01T00:00:00Z',
      last_login: '2025-02-01T00:00:00Z',
    },
    { auth_method: 'google', auth_value: 'never', created_at: '2025-01-02T00:00:00Z', external_id: 'n' },
    {
      auth_method: 'google',
      auth_value: 'active',
      created_at: '2025-01-03T00:00:00Z',
      last_login: new Date().toISOString(),
    },
    { auth_method: 'google', auth_value: 'new' },
  );
  const inactive = (...args: string[]) => run('user', 'inactive', ...inProject(project), ...args);
  const { stdout, stderr, code } = await inactive('--since', '90d');
  const [never, old, ...more] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect([code, more]).toEqual([0, []]);
  expect(never).toEqual({
    id: expect.any(Number),
    ...{ auth_method: 'google', auth_value: 'never', email: null, external_id: 'n' },
    ...{ created_at: '2025-01-02T00:00:00.000Z', last_login: null, login_count: 0 },
  });
  expect(old).toMatchObject({ auth_value: 'old', last_login: '2025-02-01T00:00:00.000Z' });
  expect(stderr).toMatch(/^2 users without a login since 20.*Z\.\n$/);
  const since = '2025-01-01T12:00:00.000Z';
  expect(await inactive('--since', since, '--json')).toMatchObject({
    code: 0,
    stdout: '',
    stderr: `${JSON.stringify({ inactive: 0, since })}\n`,
  });
  expect(await inactive()).toMatchObject({ code: 2, stdout: '' });
  expect(await inactive('--since', 'yesterday')).toMatchObject({ code: 2, stdout: '' });
  const late = await inactive('--since', '2999-01-31');
  expect(late).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('Expected a time that is past.') });
});

test('user search finds a user by ID, external ID, email, address or identity, and user get prints the user', async () => {
  const project = await createProject();
  await addLines(
    project,
    {
      auth_method: 'google',
      auth_value: 'g-1',
      email: 'Ada@example.com',
      external_id: 'customer-1',
      created_at: '2026-01-02T00:00:00Z',
      login_count: 3,
      accounts: [{ network: 'stellar', public_key: stellarAddress(1) }],
    },
    { auth_method: 'passkey', auth_value: 'cGFzc2tleQ', created_at: '2026-01-01T00:00:00Z' },
  );
  const [ada] = await search(project, 'ada@example.com');
  expect(ada).toEqual({
    id: expect.any(Number),
    auth_method: 'google',
    auth_value: 'g-1',
    email: 'ada@example.com',
    wallet: null,
    external_id: 'customer-1',
    created_at: '2026-01-02T00:00:00.000Z',
    last_login: null,
    login_count: 3,
    banned: false,
    banned_at: null,
    banned_until: null,
    ban_reason: null,
    removed_at: null,
    accounts: [{ id: expect.any(Number), network: 'stellar', public_key: stellarAddress(1), wallet_type: 'custodial' }],
  });
  for (const any of [String(ada.id), stellarAddress(1), 'g-1', 'customer-1'])
    expect(await search(project, any)).toEqual([ada]);
  expect(await runJson('user', 'get', ...inProject(project), String(ada.id))).toEqual(ada);
  const [passkey] = await search(project, '--method', 'passkey', '--value', 'cGFzc2tleQ');
  expect(passkey).toMatchObject({ auth_method: 'passkey', email: null });
  const shown = await run('user', 'get', ...inProject(project), String(ada.id));
  expect(shown.stdout).toMatch(
    new RegExp(`^ID +${ada.id}\nMethod +google\n[\\s\\S]*\nState +current\nAccount +stellar G.* \\(custodial\\)\n$`),
  );
  const nobody = (...args: string[]) => run('user', 'search', ...inProject(project), ...args);
  expect(await nobody('nobody')).toMatchObject({
    ...{ code: 1, stderr: '', stdout: 'No user matches. For the beginning of an email or an ID, use --prefix.\n' },
  });
  expect(await nobody('--prefix', 'nobody', '--json')).toMatchObject({ code: 1, stdout: '[]\n', stderr: '' });
  expect(await run('user', 'get', ...inProject(project), '999999999')).toMatchObject({
    code: 1,
    stderr: 'userdir: There is no user 999999999 in this project.\n',
  });
  const both = ['--method', 'email', '--value', 'x'];
  for (const args of [
    [],
    ['x', ...both],
    ['--method', 'email'],
    ['x', '--value', 'x'],
    ['x', '--prefix', 'x'],
    [...both, '--prefix', 'x'],
    ['--prefix', 'x', '--removed'],
  ])
    expect(await run('user', 'search', ...inProject(project), ...args)).toMatchObject({ code: 2, stdout: '' });
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
      /^userdir: User \d+ cannot be restored: the identity has registered again, as user \d+\. .*\n$/,
    ),
  });
  const purge = (...args: string[]) => run('user', 'purge', '--older-than', '0s', ...inProject(project), ...args);
  expect(await purge('--dry-run')).toMatchObject({
    code: 0,
    stdout: 'Would erase 1 removed user. Nothing was erased.\n',
  });
  expect(JSON.parse((await purge('--dry-run', '--json')).stdout)).toEqual({ purged: 0, would_purge: 1 });
  expect((await purge()).stdout).toBe('Erased 1 removed user.\n');
  expect(await restore()).toMatchObject({ code: 1, stderr: `userdir: There is no user ${user.id} in this project.\n` });
  expect(await run('totals', 'check', ...inProject(project))).toMatchObject({ code: 0 });
});

test('user removed lists the removed users, the last removed first, as a page or all', async () => {
  const project = await createProject();
  const removed = (...args: string[]) => run('user', 'removed', ...inProject(project), ...args);
  expect(await removed()).toMatchObject({ code: 0, stdout: 'No user is removed.\n' });
  const names = ['ada', 'bob', 'eve'];
  await addLines(project, ...names.map((name) => ({ auth_method: 'email', auth_value: `${name}@example.com` })));
  const [ada, bob, eve] = await Promise.all(
    names.map(async (name) => (await search(project, `${name}@example.com`))[0]),
  );
  for (const { id } of [bob, ada]) await runJson('user', 'remove', ...inProject(project), String(id));
  const all = JSON.parse((await removed('--json')).stdout);
  expect(all).toEqual([ada, bob].map((user) => ({ ...user, removed_at: expect.stringMatching(TIMESTAMP) })));
  const first = await removed('--limit', '1', '--json');
  const next = /The next page: --after (\S+)\n/.exec(first.stderr)?.[1] as string;
  const second = await removed('--limit', '1', '--after', next, '--json');
  expect([...JSON.parse(first.stdout), ...JSON.parse(second.stdout), second.stderr]).toEqual([...all, '']);
  expect((await removed()).stdout).toMatch(
    /^ID +Method +Value +Email +Removed\n\d+ +email +ada@.*Z\n\d+ +email +bob@.*Z\n$/,
  );
  await runJson('user', 'restore', ...inProject(project), String(ada.id));
  expect(JSON.parse((await removed('--json')).stdout).map(({ id }: Json) => id)).toEqual([bob.id]);
  expect(eve.removed_at).toBe(null);
  expect(await removed('--after', 'x')).toMatchObject({ code: 2, stderr: expect.stringContaining('after: got "x"') });
});

test('user update changes the email and the external ID of a user, and takes them away', async () => {
  const project = await createProject();
  await addLines(
    project,
    { auth_method: 'google', auth_value: 'g-1', external_id: 'taken' },
    { auth_method: 'google', auth_value: 'g-2' },
  );
  const [user] = await search(project, 'g-2');
  const update = (...args: string[]) => run('user', 'update', ...inProject(project), String(user.id), ...args);
  expect(await update('--email', 'Ada@Example.com', '--external-id', 'a-1')).toMatchObject({
    ...{ code: 0, stdout: `User ${user.id} has the email ada@example.com and the external ID a-1.\n` },
  });
  expect(JSON.parse((await update('--email', '', '--json')).stdout)).toEqual({
    ...{ id: user.id, email: null, external_id: 'a-1' },
  });
  expect(await update('--external-id', 'taken')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('has this external ID'),
  });
  expect(await update()).toMatchObject({ code: 2, stderr: expect.stringContaining('nothing is to be changed') });
  expect((await search(project, 'a-1'))[0]).toMatchObject({ id: user.id, email: null });
});
