import { readdir } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Json } from '../support/app.js';
import { CLI, call, outcomeOf, spawnUserdir, TIMESTAMP, userdir, userdirJson, useServer } from '../support/command.js';
import { copyTemplate, createEmptyDatabase, type TestDatabase } from '../support/engines.js';

/** The embedded engine allows one process, so there every command goes through the running server. */
describe('while a server runs on the same database,', () => {
  const { url, run, runJson, runWith, createProject } = useServer();

  const importUsers = async (appId: string, ...users: Json[]) => {
    const lines = users.map((user) => `${JSON.stringify(user)}\n`).join('');
    return JSON.parse((await runWith(lines, 'user', 'import', '--project', appId, '--json')).stdout);
  };

  const ask = <Answer>(questions: (url: string) => Promise<Answer>) => questions(url());

  test('migrate finds nothing left to do', async () => {
    expect(await runJson('migrate')).toEqual({ applied: [] });
    expect(await run('migrate')).toEqual({
      code: 0,
      signal: null,
      stdout: expect.stringMatching(/^The database is up to date for userdir \d+\.\d+\.\d+\.\n$/),
      stderr: '',
    });
  });

  test('project create prints the credentials, and project list prints the projects', async () => {
    const created = await runJson('project', 'create', '--name', ' Müller & "Co" ');
    expect(created).toEqual({
      id: expect.any(Number),
      name: 'Müller & "Co"',
      app_id: expect.stringMatching(/^app_[0-9a-f]{24}$/),
      app_secret: expect.stringMatching(/^uds_[\w-]{49}$/),
    });
    const shown = await run('project', 'create', '--name', 'For people');
    expect(shown).toMatchObject({ code: 0, stderr: '' });
    const [, appId, appSecret] = /App ID +(app_\w+)\nApp Secret +(uds_[\w-]+)\n/.exec(shown.stdout) ?? [];
    await importUsers(created.app_id, { auth_method: 'email', auth_value: 'ada@example.com' });

    const listed = await runJson('project', 'list');
    expect(listed).toEqual(
      expect.arrayContaining([
        {
          id: created.id,
          name: created.name,
          app_id: created.app_id,
          created_at: expect.stringMatching(TIMESTAMP),
          disabled_at: null,
          requests_per_minute: null,
          total_user: 1,
        },
        expect.objectContaining({ app_id: appId, name: 'For people', total_user: 0 }),
      ]),
    );
    expect(JSON.stringify(listed)).not.toContain('uds_');
    const table = await run('project', 'list');
    expect(table).toMatchObject({ code: 0, stderr: '' });
    expect(table.stdout).toMatch(
      new RegExp(
        `^ID +Name +App ID +Created +Users\n(.*\n)* *${created.id} +Müller & "Co" +${created.app_id} +\\S+ +1\n`,
      ),
    );
    expect(
      await ask((url) => call(url, { app_id: `${appId}`, app_secret: `${appSecret}` }, '/server/users')),
    ).toMatchObject({ status: 200 });
  });

  test('user remove and user restore take several users, and say what became of each', async () => {
    const { app_id: appId } = await createProject();
    await importUsers(appId, ...['a', 'b'].map((name) => ({ auth_method: 'passkey', auth_value: `several-${name}` })));
    const found = await Promise.all(
      ['a', 'b'].map((name) => runJson('user', 'search', '--project', appId, `several-${name}`)),
    );
    const [a, b] = found.map(([user]) => user.id);
    const unknown = 2_000_000_000;
    expect(await run('user', 'remove', '--project', appId, ...[a, unknown, b].map(String))).toEqual({
      code: 1,
      signal: null,
      stdout: `Removed user ${a}.\nThere is no user ${unknown} in this project.\nRemoved user ${b}.\n`,
      stderr: '',
    });
    expect(await run('user', 'restore', '--project', appId, '--json', String(b), String(b))).toMatchObject({
      code: 1,
      stdout: `${JSON.stringify([{ id: b }, { id: b, code: 'CONFLICT', message: `User ${b} is not removed.` }])}\n`,
    });
    expect(await runJson('user', 'restore', appId, String(a))).toEqual({ id: a });
    expect(await run('user', 'restore', '--project', appId, '1', 'x')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Expected decimal digits, 1 and up.'),
    });
  });

  test('seed creates the same users for the same seed, and adds none the second time', async () => {
    const [one, other] = [await createProject(), await createProject()];
    const seed = (appId: string, ...more: string[]) => ['seed', '--project', appId, '--users', '40', ...more];
    const added = await runJson(...seed(one.app_id, '--seed', '7'));
    expect(added).toEqual({ users: 40, accounts: expect.any(Number) });
    expect(await run(...seed(other.app_id, '--seed', '7'))).toEqual({
      code: 0,
      signal: null,
      stdout: `Added 40 users with ${added.accounts} accounts.\n`,
      stderr: '',
    });
    expect(await runJson(...seed(one.app_id, '--seed', '7'))).toEqual({ users: 0, accounts: 0 });
    const [ofOne, ofOther] = await ask((url) =>
      Promise.all([one, other].map((project) => call(url, project, '/server/users?limit=100'))),
    );
    expect(withoutIds(ofOne)).toEqual(withoutIds(ofOther));
    expect(await runJson(...seed(one.app_id))).toMatchObject({ users: 40 });
  });

  test.each([
    [['project', 'rotate']],
    [['user', 'export', '--project']],
    [['user', 'purge', '--older-than', '1d', '--project']],
    [['user', 'ban', '--method', 'email', '--value', 'a@example.com', '--project']],
    [['user', 'remove', '1', '--project']],
    [['seed', '--users', '1', '--project']],
    [['user', 'import', '--project']],
  ])('userdir %j of an unknown project is refused in one line', async (args) => {
    expect(await run(...args, 'app_nobody')).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: 'userdir: There is no project with the App ID "app_nobody".\n',
    });
  });

  test('an invalid project name is refused', async () => {
    const { code, stdout, stderr } = await run('project', 'create', '--name', '  ');
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toBe("userdir: A project's name is text of 1 to 200 characters on one line.\n");
  });
});

describe('while no server runs,', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await copyTemplate();
  });
  afterAll(() => database.drop());

  test('every command gives the same result, and the next command sees its changes', async () => {
    const run = (...args: string[]) => userdirJson(database.env, args);
    expect(await run('migrate')).toEqual({ applied: [] });
    const { app_id: appId, ...created } = await run('project', 'create', '--name', 'Test');
    expect(created).toEqual({ id: 1, name: 'Test', app_secret: expect.stringMatching(/^uds_/) });
    const project = ['--project', appId];
    expect(await run('seed', ...project, '--users', '3')).toEqual({ users: 3, accounts: expect.any(Number) });
    const exported = await userdir(database.env, ['user', 'export', ...project]);
    expect(exported).toMatchObject({ code: 0, stderr: expect.stringMatching(/^Exported 3 users\.\n/) });
    expect(
      await userdirJson(database.env, ['user', 'import', ...project, '--on-conflict', 'skip'], exported.stdout),
    ).toMatchObject({ imported: 0, skipped: 3, failed: 0, errors: [] });
    expect(await run('user', 'remove', ...project, '1')).toEqual({ id: 1 });
    expect(await run('user', 'purge', '--older-than', '0s')).toEqual({ purged: 1 });
    const identity = ['--method', 'email', '--value', 'eve@example.com'];
    const banned = { auth_method: 'email', auth_value: 'eve@example.com', banned: true, changed: true };
    expect(await run('user', 'ban', ...project, ...identity)).toEqual({ ...banned, reason: null, expires_at: null });
    expect(await run('user', 'unban', ...project, ...identity)).toEqual({ ...banned, banned: false });
    expect(await run('project', 'rotate', appId)).toMatchObject({ app_id: appId });
    expect(await run('project', 'list')).toMatchObject([{ app_id: appId, total_user: 2 }]);
    expect(await userdir(database.env, ['user', 'remove', ...project, '1'])).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: 'userdir: There is no user 1 in this project.\n',
    });
  });

  const migrationNames = async () =>
    (await readdir('prisma/migrations')).filter((name) => /^\d{14}_/.test(name)).sort();

  test('the first command creates the database', async () => {
    const empty = await createEmptyDatabase();
    expect(await userdirJson(empty.env, ['migrate'])).toEqual({ applied: await migrationNames() });
    expect(await userdir(empty.env, ['project', 'list'])).toMatchObject({
      code: 0,
      stdout: 'There is no project yet. Create one: npm run -s userdir -- project create --name NAME\n',
    });
    await empty.drop();
  });
});

function withoutIds({ body }: Json): Json[] {
  return body.result.users.map(({ id: _, accounts, ...user }: Json) => ({
    ...user,
    accounts: accounts.map(({ id: _id, ...account }: Json) => account),
  }));
}

// These tests open no database, so one engine is enough.
describe.runIf(inject('engine') === 'embedded')('usage', () => {
  const usage = (...args: string[]) => userdir({ DATA_DIR: '/nonexistent' }, args);

  test.each([
    [[], ['serve', 'migrate', 'project', 'user', 'seed', 'doctor', 'DATABASE_URL', 'DATA_DIR']],
    [['project'], ['create', 'list', 'show', 'rename', 'disable', 'enable', 'limit', 'delete', 'rotate']],
    [
      ['user', 'import'],
      ['[FILE]', '--project <APP_ID>', '--on-conflict', 'skip', '--skip-invalid', '--json', 'auth_method'],
    ],
  ])('userdir %j --help names its options and ends with 0', async (args, words) => {
    const { code, stdout, stderr } = await usage(...args, '--help');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain(`Usage: ${['userdir', ...args].join(' ')}`);
    for (const word of words) expect(stdout).toContain(word);
  });

  test.each([
    [[], 'Usage: userdir'],
    [['project'], 'Usage: userdir project'],
    [['frobnicate'], "unknown command 'frobnicate'"],
    [['user', 'imprt'], 'Did you mean import?'],
    [['project', 'list', '--jsn'], "unknown option '--jsn'"],
    [['project', 'list', 'all'], 'too many arguments'],
    [['project', 'create'], "required option '--name <NAME>' not specified"],
    [['project', 'rotate'], "required option '--project <APP_ID>' not specified"],
    [['project', 'rotate', 'My app'], "required option '--project <APP_ID>' not specified"],
    [['project', 'rotate', 'app_1', 'app_2'], 'too many arguments'],
    [['project', 'rotate', 'app_1', '--project', 'app_2'], 'too many arguments'],
    [['project', 'rotate', 'app_1', '--overlap', '1'], 'Expected a whole number with a unit'],
    [['project', 'rotate', 'app_1', '--overlap', '999999w'], '100 years at most'],
    [['user', 'purge'], "required option '--older-than <TIME>' not specified"],
    [['user', 'purge', '--older-than', '-1d'], 'Expected a whole number with a unit'],
    [['user', 'import'], "required option '--project <APP_ID>' not specified"],
    [['user', 'import', '--project', 'app_1', '--on-conflict', 'ask'], 'Allowed choices are skip, update, fail'],
    [['user', 'import', '--project', 'app_1', '--replace'], '--replace needs --on-conflict update'],
    [['user', 'remove', '--project', 'app_1'], "missing required argument 'USER_ID'"],
    ...['get', 'remove', 'restore'].flatMap((name) =>
      ['0', 'x', '-1', '1.5'].map((id): [string[], string] => [
        ['user', name, '--project', 'app_1', '--', id],
        'Expected decimal digits, 1 and up.',
      ]),
    ),
    [['seed', '--project', 'app_1', '--users', 'many'], 'Expected a whole number'],
  ])(
    'userdir %j is a usage error: exit code 2, nothing on stdout, and the reason on stderr',
    async (args, sentence) => {
      const { code, stdout, stderr } = await usage(...args);
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain(sentence);
    },
  );

  test('userdir --version prints one line', async () => {
    expect(await usage('--version')).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
  });

  test('an older Node.js is refused with the version that is needed, before it reads what it cannot', async () => {
    const older = "data:text/javascript,Object.defineProperty(process.versions, 'node', { value: '18.20.8' })";
    const [node, cli] = [process.execPath, CLI];
    for (const args of [['doctor'], ['--version'], ['project', 'list']])
      expect(await outcomeOf(spawnUserdir({}, args, [node, '--import', older, cli]))).toEqual({
        code: 1,
        signal: null,
        stdout: '',
        stderr: 'userdir: Node.js 18.20.8 is too old, 20.19 or newer is needed.\n',
      });
  });

  test('a malformed setting makes every command exit with code 1', async () => {
    expect(await userdir({ PORT: 'x' }, ['project', 'list', '--json'])).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: 'PORT must be a whole number from 0 to 65535.\n',
    });
  });
});
