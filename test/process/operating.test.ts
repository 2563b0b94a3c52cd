import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, inject, test, vi } from 'vitest';
import { SETTINGS } from '#dist/config/settings.js';
import { ROOT } from '../support/checkout.js';
import {
  CLI,
  call,
  makeFolder,
  recordLogin,
  spawnUserdir,
  startServer,
  userdir,
  userdirJson,
} from '../support/command.js';
import { queryPostgres } from '../support/engines.js';
import { PATIENCE } from '../support/waiting.js';
import { headersOf } from '../support/writers.js';

/** docs/deploy/roles.sql, and the unit of systemd. */

describe.runIf(inject('engine') === 'postgres')('the roles', () => {
  test('migrate and serve: the role of the service has every right that it needs, and no other', async () => {
    // One name for the database and for the role of the service, as on the page.
    const name = `userdir_roles_${randomUUID().slice(0, 8)}`;
    const file = await readFile(join(ROOT, 'docs/deploy/roles.sql'), 'utf8');
    const [asSuperuser = '', inDatabase = ''] = file
      .replaceAll(/^--.*\n/gm, '')
      .replaceAll('userdir', name)
      .split(`\\connect ${name}\n`);
    const [, asOwner = ''] = inDatabase.split(`SET ROLE ${name}_owner;\n`);
    const server = new URL(process.env['TEST_DATABASE_URL'] as string);
    const urlOf = (role: string, database: string) =>
      Object.assign(new URL(server), { username: role, password: '', pathname: `/${database}` }).href;
    async function runSql(url: string, sql: string) {
      // A database cannot be created in the transaction that several statements would share.
      for (const statement of sql.split(';\n').filter((each) => each.trim() !== ''))
        await queryPostgres(url, statement);
    }
    const owner = { DATA_DIR: makeFolder(), DATABASE_URL: urlOf(`${name}_owner`, name) };
    const service = { ...owner, DATABASE_URL: urlOf(name, name) };
    /** Whatever needs the missing migrations says who may not apply which. */
    async function requireRefusal(migrations: RegExp) {
      for (const args of [['migrate'], ['migrate', '--dry-run'], ['project', 'list']]) {
        const { code, stdout, stderr } = await userdir({ ...service, PORT: '0' }, args);
        expect({ args, code, stdout }).toEqual({ args, code: 1, stdout: '' });
        const [, role, missing] =
          /^userdir: The role (\S+) may not apply the migration (.*?): (?:permission denied|must be owner).*\. Run npm run -s userdir -- migrate as the owner of the tables\.$/m.exec(
            stderr,
          ) ?? [];
        expect(role).toBe(name);
        expect(missing).toMatch(migrations);
      }
      const { stdout } = await userdir(service, ['doctor', '--json']);
      const found = JSON.parse(stdout).findings.find(({ id }: { id: string }) => id === 'migrations');
      expect(found).toMatchObject({ status: 'failed', advice: expect.stringContaining('as the owner of the tables') });
    }
    /** The service waits until somebody else has applied the missing migrations, says so, and serves then. */
    async function requireWaiting(missing: RegExp, apply: () => Promise<void>) {
      const child = spawnUserdir({ ...service, PORT: '0', DEMO: 'off' }, ['serve', '--json']);
      let log = '';
      child.stderr.on('data', (text) => {
        log += text;
      });
      const url = await vi.waitUntil(() => /http:\/\/127\.0\.0\.1:\d+/.exec(log)?.[0], PATIENCE);
      await vi.waitUntil(() => log.includes('The database lacks migrations.'), PATIENCE);
      expect(log).toContain(`The role ${name} may not apply the migration`);
      const ready = await fetch(`${url}/readyz`);
      expect({ status: ready.status, body: await ready.json() }).toEqual({
        status: 503,
        body: { error: expect.stringMatching(missing) },
      });
      await apply();
      await vi.waitUntil(async () => (await fetch(`${url}/readyz`)).ok, PATIENCE);
      child.kill('SIGTERM');
      await vi.waitUntil(() => child.exitCode !== null, PATIENCE);
      expect(child.exitCode).toBe(0);
    }
    try {
      await runSql(server.href, asSuperuser);
      await runSql(owner.DATABASE_URL, asOwner);
      await requireRefusal(/^\d+_first_schema( and \d+ more)?$/);
      let applied: string[] = [];
      await requireWaiting(/^The database lacks the migration \d+_first_schema( and \d+ more)?\.$/, async () => {
        ({ applied } = await userdirJson(owner, ['migrate']));
      });
      // The tables are there, and what comes next is missing.
      const last = applied.at(-1);
      await runSql(
        owner.DATABASE_URL,
        `UPDATE _prisma_migrations SET finished_at = NULL WHERE migration_name = '${last}'`,
      );
      await requireRefusal(new RegExp(`^${last}$`));
      await requireWaiting(new RegExp(`^The database lacks the migration ${last}\\.$`), () =>
        runSql(owner.DATABASE_URL, 'UPDATE _prisma_migrations SET finished_at = now()'),
      );
      const { findings } = await userdirJson(service, ['doctor']);
      expect(findings.filter(({ status }: { status: string }) => status === 'failed')).toEqual([]);
      const project = await userdirJson(service, ['project', 'create', '--name', 'Test']);
      await userdirJson(service, ['seed', '--project', project.app_id, '--users', '2500']);
      const running = await startServer({ ...service, DEMO: 'off' });
      await recordLogin(running.url, project, { authMethod: 'google', authValue: '1' });
      expect((await call(running.url, project, '/server/users/count')).body.result.total_user).toBe(2_501);
      // Also what is done in the background, such as to publish changes.
      const changes = () => fetch(`${running.url}/changes?limit=1`, { headers: headersOf(project) });
      await vi.waitUntil(async () => (await (await changes()).text()).includes('"user.created"'), PATIENCE);
      expect(await running.stop()).toMatchObject({
        code: 0,
        stderr: expect.stringContaining('Server listening at http://'),
      });
      await expect(runSql(service.DATABASE_URL, 'DROP TABLE users')).rejects.toThrow('must be owner');
      expect((await userdir(service, ['project', 'delete', project.app_id, '--yes'])).code).toBe(0);
    } finally {
      await runSql(
        server.href,
        `DROP DATABASE IF EXISTS ${name} WITH (FORCE);\nDROP ROLE IF EXISTS ${name};\nDROP ROLE IF EXISTS ${name}_owner`,
      );
    }
  });
});

const SYSTEMD = '/usr/bin/systemd-analyze';

describe.runIf(inject('engine') === 'embedded' && existsSync(SYSTEMD))('the timers', () => {
  const FOLDER = join(ROOT, 'docs/deploy');
  const timers = readdirSync(FOLDER).filter((name) => name.endsWith('.timer'));
  const analyze = (...args: string[]) => promisify(execFile)(SYSTEMD, args);

  test('are accepted by systemd, with the units that they start', async () => {
    expect(timers).toEqual(['userdir-backup-diff.timer', 'userdir-backup-full.timer', 'userdir-purge.timer']);
    const folder = await makeFolder();
    const read = (name: string) => readFileSync(join(FOLDER, name), 'utf8');
    const put = async (name: string, text: string) => {
      await writeFile(join(folder, name), text);
      return join(folder, name);
    };
    const purge = read('userdir-purge.service').replace(
      '/usr/bin/node /opt/userdir/dist/cli.js',
      `${process.execPath} ${CLI}`,
    );
    // What it runs is of another package; that it runs it is what is verified here.
    const backup = read('userdir-backup@.service').replace('/usr/bin/pgbackrest', '/bin/true');
    const units = [
      await put('userdir-purge.service', purge),
      await put('userdir-backup@full.service', backup),
      await put('userdir-backup@diff.service', backup),
      ...(await Promise.all(timers.map((name) => put(name, read(name))))),
    ];
    const { stdout, stderr } = await analyze('verify', '--man=no', ...units);
    expect((stdout + stderr).split('\n').filter((line) => line.includes('userdir-'))).toEqual([]);
  });

  test('name a time that comes again', async () => {
    for (const name of timers) {
      const [, when = ''] = /^OnCalendar=(.*)$/m.exec(readFileSync(join(FOLDER, name), 'utf8')) ?? [];
      expect((await analyze('calendar', when)).stdout, name).toContain('Next elapse');
    }
  });

  test('a purge is a command that exists', () => {
    const unit = readFileSync(join(FOLDER, 'userdir-purge.service'), 'utf8');
    const [, words = ''] = /cli\.js (.*)$/m.exec(unit) ?? [];
    expect(words).toBe('user purge --older-than 30d');
    const set = [...unit.matchAll(/^Environment=(.*)$/gm)].flatMap(([, line = '']) => line.split(' '));
    expect(set.map((each) => each.split('=')[0])).toEqual(['DATABASE_URL_FILE', 'OPERATOR']);
  });
});

describe.runIf(inject('engine') === 'embedded')('the systemd unit', () => {
  const unit = readFileSync(join(ROOT, 'docs/deploy/userdir@.service'), 'utf8');

  test('sets only settings that exist', () => {
    const set = [...unit.matchAll(/^Environment=(.*)$/gm)].flatMap(([, line = '']) => line.split(' '));
    const names = set.map((each) => each.split('=')[0]?.replace(/_FILE$/, '') ?? '');
    expect(names.length).toBeGreaterThan(4);
    expect(names.filter((name) => !SETTINGS.includes(name))).toEqual([]);
  });

  // What goes to stderr follows stdout where nothing is said of it.
  test('keeps the log, and not what is printed for people', () => {
    expect(unit).toMatch(/^StandardOutput=null\nStandardError=journal$/m);
  });

  test.runIf(existsSync(SYSTEMD))('is accepted by systemd, which finds it confined', async () => {
    const file = join(await makeFolder(), 'userdir@4000.service');
    await writeFile(
      file,
      unit.replace(/\/usr\/bin\/node (.*) \/opt\/userdir\/dist\/cli.js/, `${process.execPath} $1 ${CLI}`),
    );
    const { stdout, stderr } = await promisify(execFile)(SYSTEMD, ['verify', '--man=no', file]);
    expect((stdout + stderr).split('\n').filter((line) => line.includes('userdir@'))).toEqual([]);
    const security = ['security', '--offline=yes', '--threshold=15', '--no-pager', file];
    expect((await promisify(execFile)(SYSTEMD, security)).stdout).toMatch(
      /exposure level for userdir@4000.service: 1\.\d OK/,
    );
  });
});
