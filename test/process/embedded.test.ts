import { spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, readFile, rename, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, inject, type TestContext, test, vi } from 'vitest';
import {
  CLI,
  type Credentials,
  call,
  makeFolder,
  outcomeOf,
  recordLogin,
  spawnUserdir,
  startServer,
  useDatabase,
  userdir,
  userdirJson,
} from '../support/command.js';
import { copyTemplate, createEmptyDatabase } from '../support/engines.js';
import { isNightly } from '../support/nightly.js';
import { PATIENCE } from '../support/waiting.js';

/** Only the embedded engine has a data directory, which one process may use at a time. */
describe.runIf(inject('engine') === 'embedded')('the data directory', () => {
  const database = useDatabase('for each');
  let dataDir: string;
  beforeEach(() => {
    dataDir = database.env['DATA_DIR'] ?? '';
  });

  const lockFiles = () => readdirSync(dataDir).filter((name) => name.startsWith('lock'));

  test('refuses a second server with an error that names the holder, which ends the commands that follow it', async () => {
    const server = await startServer(database.env);
    const second = await userdir({ ...database.env, PORT: '0' }, ['serve']);
    expect(second).toMatchObject({ code: 1, stdout: '' });
    expect(second.stderr).toMatch(/^[^\n]+\n$/);
    expect(second.stderr).toContain(`The data directory ${dataDir} is in use by "userdir serve"`);
    expect(second.stderr).toContain(`(pid ${server.process.pid} on ${hostname()}, since `);
    expect(second.stderr).toContain('Stop that process first, or set DATA_DIR to another directory.');
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
    const { app_id } = server.demo as Credentials;
    const follower = spawnUserdir(database.env, ['changes', '--project', app_id, '--follow']);
    const outcome = outcomeOf(follower);
    await Promise.all([once(follower.stdout, 'data'), once(follower.stderr, 'data')]);
    expect(await server.stop()).toMatchObject({ code: 0, signal: null });
    expect(await outcome).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^userdir: Following after \S+\.\nuserdir: The running server closes\.\n$/),
    });
    expect(lockFiles()).toEqual([]);
  });

  /** A disk of so many megabytes, until the end of the test. */
  function mountDisk(megabytes: number, skip: TestContext['skip']) {
    const path = makeFolder();
    const mount = (...options: string[]) => spawnSync('mount', ['-o', ...options, path]).status === 0;
    skip(!mount(`size=${megabytes}m`, '-t', 'tmpfs', 'tmpfs'), 'This user cannot make a small disk.');
    return { path, mount, [Symbol.dispose]: () => spawnSync('umount', [path]) };
  }

  test.runIf(isNightly)(
    'that does not fit on its disk gets no database, and gets it once there is room',
    async ({ skip }) => {
      using disk = mountDisk(20, skip);
      const env = { ...database.env, DATA_DIR: join(disk.path, 'data') };
      const refused = await userdir(env, ['project', 'list']);
      expect(refused).toMatchObject({ code: 1, stdout: '' });
      expect(refused.stderr).toMatch(/^userdir: The embedded database in \S+ cannot be opened: ENOSPC[^\n]+\n$/);
      expect(existsSync(join(disk.path, 'data/pgdata'))).toBe(false);
      expect(disk.mount('remount,size=400m')).toBe(true);
      expect(await userdir(env, ['project', 'list'])).toMatchObject({ code: 0 });
    },
  );

  test.runIf(isNightly)(
    'whose disk is full refuses writes with 503 and the reason, changes nothing, and takes them when there is space',
    async ({ skip }) => {
      using disk = mountDisk(90, skip);
      const env = { ...database.env, DATA_DIR: join(disk.path, 'data'), DEMO: 'off', LOG_LEVEL: 'error' };
      const project: Credentials = await userdirJson(env, ['project', 'create', '--name', 'Test']);
      const server = await startServer(env);
      const register = (authValue: string) => recordLogin(server.url, project, { authMethod: 'passkey', authValue });
      expect((await register('first')).status).toBe(200);
      expect(spawnSync('dd', ['if=/dev/zero', `of=${disk.path}/filler`, 'bs=1k']).status).toBe(1);
      let registered = 1;
      const refused = await vi.waitUntil(async () => {
        const answers = await Promise.all(Array.from({ length: 64 }, () => register(randomUUID())));
        registered += answers.filter(({ status }) => status === 200).length;
        return answers.find(({ status }) => status !== 200);
      }, PATIENCE);
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
      expect(refused.body.errors[0]).toMatchObject({
        message: expect.stringMatching(/^There is no space left on the disk .* nothing of it was changed/),
        extensions: { code: 'UNAVAILABLE' },
      });
      const line = `${' '.repeat(100_000)}{"auth_method":"email","auth_value":"a@example.com"}\n`;
      const spooled = await userdir(env, ['user', 'import', '--project', project.app_id], line.repeat(20));
      expect([spooled.code, spooled.stderr]).toEqual([1, expect.stringMatching(/no space left on the disk/)]);
      await rm(join(disk.path, 'filler'));
      expect((await register('first')).body.data.recordLogin.user.loginCount).toBe(2);
      expect((await call(server.url, project, '/server/users')).body.result.total_user).toBe(registered);
      expect((await server.stop()).code).toBe(0);
    },
  );

  test.runIf(isNightly)(
    'that is copied back from a backup gives no ID of a lost user again, and pauses webhooks; a restart does neither',
    async () => {
      const env = { ...database.env, DEMO: 'off', LOG_LEVEL: 'warn' };
      let project: Credentials | undefined;
      /** What a start finds: the ID of the next user, the webhook before it, and the log. */
      const start = async () => {
        const server = await startServer(env);
        project ??= (await userdirJson(env, ['project', 'create', '--name', 'Test'])) as Credentials;
        const webhooks = (...args: string[]) =>
          userdirJson(env, ['webhook', ...args, '--project', `${project?.app_id}`]);
        const [webhook] = await webhooks('list');
        if (webhook === undefined) await webhooks('add', '--url', 'https://example.com/x');
        const input = { authMethod: 'passkey', authValue: randomUUID() };
        const { id } = (await recordLogin(server.url, project, input)).body.data.recordLogin.user;
        return { id, webhook, stderr: (await server.stop()).stderr };
      };
      expect(await start()).toEqual({ id: '1', stderr: '' });
      const backup = `${dataDir}-backup`;
      expect(spawnSync('cp', ['-a', dataDir, backup]).status).toBe(0);
      expect(await start()).toMatchObject({ id: '2', stderr: '', webhook: { status: 'enabled' } });
      await rm(dataDir, { recursive: true });
      await rename(backup, dataDir);
      expect(await start()).toMatchObject({
        id: '10000000001',
        stderr: expect.stringContaining('The database was restored from a backup, or copied.'),
        webhook: { status: 'paused', reason: expect.stringContaining('restored from a backup') },
      });
      expect((await start()).id).toBe('10000000002');
    },
  );

  test.runIf(isNightly)('makes a second command wait, and names the holder after a while', async () => {
    const { app_id: appId } = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
    const holder = spawnUserdir(database.env, ['user', 'import', '--project', appId]);
    const held = outcomeOf(holder);
    await vi.waitUntil(() => lockFiles().length > 0, PATIENCE);
    const refused = await userdir(database.env, ['project', 'list']);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toContain(`is in use by "userdir user import" (pid ${holder.pid} on `);
    holder.stdin.end();
    expect((await held).code).toBe(0);
    expect((await userdir(database.env, ['project', 'list'])).code).toBe(0);
  });

  test('is never held by two of many competing processes', async () => {
    const folder = makeFolder();
    const log = join(folder, 'log');
    const contender = fileURLToPath(new URL('../support/lock-contender.mjs', import.meta.url));
    const module = new URL('../../dist/db/lock.js', import.meta.url).href;
    const [names, rounds] = [['a', 'b', 'c', 'd', 'e', 'f'], 40];
    const contenders = names.map((name) =>
      spawn(process.execPath, [contender, folder, log, name, String(rounds), module], { stdio: 'inherit' }),
    );
    const codes = await Promise.all(contenders.map(async (each) => (await once(each, 'exit'))[0]));
    expect(codes).toEqual(names.map(() => 0));

    const steps = (await readFile(log, 'utf8')).trimEnd().split('\n');
    expect(steps).toHaveLength(2 * names.length * rounds);
    // Each takes and releases it before another takes it.
    const broken = steps.filter((step, index) => index % 2 === 1 && `+${step.slice(1)}` !== steps[index - 1]);
    expect(broken).toEqual([]);
  });
});

/** PGlite makes most of its files writable for all, and an existing directory may be open to others. */
describe.runIf(inject('engine') === 'embedded')('in a data directory that other system users can enter', () => {
  for (const [what, make] of [
    ['a new database', () => createEmptyDatabase('embedded')],
    ...(isNightly ? ([['a database from before', () => copyTemplate()]] as const) : []),
  ] as const) {
    test(`no file of ${what} is readable or writable for others`, async () => {
      await using database = await make();
      const dataDir = database.env['DATA_DIR'] ?? '';
      const open = [dataDir, join(dataDir, 'pgdata')].filter((path) => existsSync(path));
      await Promise.all(open.map((path) => chmod(path, 0o777)));
      const shell = 'umask 0 && exec "$0" "$@"';
      const server = await startServer(database.env, ['sh', '-c', shell, process.execPath, CLI]);
      await userdirJson(database.env, ['project', 'list']);
      const names = readdirSync(dataDir);
      expect(names).toEqual(expect.arrayContaining(['demo.json', 'lock.1', 'pgdata', 'command.json']));
      for (const name of names) {
        expect([name, (await stat(join(dataDir, name))).mode & 0o077]).toEqual([name, 0]);
      }
      await server.stop();
      expect(readdirSync(dataDir)).not.toContain('command.json');
    });
  }
});

/** The embedded engine also creates its database files; both engines create the demo project. */
test.runIf(isNightly)(
  'a process killed during its first start leaves a state that the next start can use',
  async () => {
    const engine = inject('engine');
    await using database = await createEmptyDatabase(engine);
    const dataDir = database.env['DATA_DIR'] ?? '';
    const until = async (reached: () => boolean, child: ReturnType<typeof spawnUserdir>) => {
      while (!reached() && child.exitCode === null) await sleep(1);
    };
    const has = (path: string) => existsSync(join(dataDir, path));
    // Killed while the files are created, when they are complete, and while the demo project is created.
    const moments = engine === 'embedded' ? ['pgdata.draft', 'pgdata', 'demo.json.draft'] : ['demo.json.draft'];
    for (const moment of moments) {
      const child = spawnUserdir({ ...database.env, PORT: '0' }, ['serve']);
      const outcome = outcomeOf(child);
      await until(() => has(moment), child);
      child.kill('SIGKILL');
      expect([moment, (await outcome).signal]).toEqual([moment, 'SIGKILL']);
    }
    const server = await startServer(database.env);
    expect(server.demo).not.toBeNull();
    expect(await userdirJson(database.env, ['project', 'list'])).toMatchObject([{ name: 'Demo', total_user: 200 }]);
    await server.stop();
  },
);
