import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { ROOT } from '../support/checkout.js';
import { freePort, unprivilegedUser } from '../support/cluster.js';
import {
  type Credentials,
  call,
  type RunningServer,
  recordLogin,
  startServer,
  userdir,
  userdirJson,
} from '../support/command.js';
import { createEmptyDatabase, queryPostgres, type TestDatabase } from '../support/engines.js';
import { startReceiver } from '../support/receiver.js';
import { PATIENCE } from '../support/waiting.js';
import { RETRYABLE, startLoad } from '../support/writers.js';

/** The service behind PgBouncer in transaction mode, with the files of docs/pooler, where a PgBouncer is found that can do it. */

const OLDEST: readonly [number, number] = [1, 21];

function hasPgBouncer(): boolean {
  try {
    const [, major, minor] =
      /PgBouncer (\d+)\.(\d+)/.exec(execFileSync('pgbouncer', ['--version'], { encoding: 'utf8' })) ?? [];
    return Number(major) === OLDEST[0] && Number(minor) >= OLDEST[1];
  } catch {
    return false;
  }
}

describe.runIf(inject('engine') === 'postgres' && hasPgBouncer())('behind PgBouncer', () => {
  const role = `userdir_test_bouncer_${process.pid}`;
  let database: TestDatabase;
  let admin: pg.Client;
  let folder: string;
  let bouncer: ChildProcess;
  let env: Record<string, string>;
  let project: Credentials;
  let server: RunningServer;

  const read = (file: string) => readFileSync(join(ROOT, 'docs/pooler', file), 'utf8');

  async function startBouncer(): Promise<void> {
    bouncer = spawn('pgbouncer', [join(folder, 'pgbouncer.ini')], { ...unprivilegedUser(), stdio: 'ignore' });
    await vi.waitUntil(
      () =>
        queryPostgres(env['DATABASE_URL'], 'SELECT 1').then(
          () => true,
          () => false,
        ),
      PATIENCE,
    );
  }

  async function stopBouncer(): Promise<void> {
    bouncer.kill('SIGINT');
    await once(bouncer, 'exit');
  }

  beforeAll(async () => {
    database = await createEmptyDatabase();
    const direct = new URL(database.env['DATABASE_URL'] as string);
    const name = direct.pathname.slice(1);
    admin = new pg.Client(direct.href);
    await admin.connect();
    await admin.query(`CREATE ROLE ${role} LOGIN`);
    await admin.query(`GRANT ALL ON DATABASE ${name} TO ${role}; GRANT ALL ON SCHEMA public TO ${role}`);
    await admin.query(
      read('role.sql').replaceAll('ROLE userdir', `ROLE ${role}`).replaceAll('DATABASE userdir', `DATABASE ${name}`),
    );
    direct.username = role;
    folder = mkdtempSync(join(tmpdir(), 'userdir-bouncer-'));
    chmodSync(folder, 0o755);
    const port = await freePort();
    const config = join(folder, 'pgbouncer.ini');
    const ini = read('pgbouncer.ini')
      .replace(
        'userdir = host=127.0.0.1 port=5432 dbname=userdir',
        `${name} = host=${direct.hostname} port=${direct.port || 5432} dbname=${name} user=${role}`,
      )
      .replace('listen_port = 6432', `listen_port = ${port}\nunix_socket_dir =`)
      .replace('auth_type = scram-sha-256', 'auth_type = any')
      .replace(/auth_file = .*\n/, '')
      .replace('default_pool_size = 20', 'default_pool_size = 4');
    writeFileSync(config, ini, { mode: 0o644 });
    const pooled = new URL(direct.href);
    pooled.port = String(port);
    env = { ...database.env, DATABASE_URL: pooled.href, DATABASE_DIRECT_URL: direct.href };
    await startBouncer();
    project = await userdirJson(env, ['project', 'create', '--name', 'Pooled']);
    server = await startServer({ ...env, DEMO: 'off', WEBHOOKS_ALLOW_PRIVATE: 'on' });
  });
  afterAll(async () => {
    await server?.stop();
    if (bouncer !== undefined) await stopBouncer();
    await admin?.end();
    await database?.drop();
    await queryPostgres(process.env['TEST_DATABASE_URL'], `DROP ROLE IF EXISTS ${role}`);
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  test('requests of both interfaces share the sessions of the pooler', async () => {
    const values = Array.from({ length: 60 }, (_, n) => `user-${n}`);
    const logins = await Promise.all(
      values.map((authValue) => recordLogin(server.url, project, { authMethod: 'passkey', authValue })),
    );
    expect(logins.filter(({ body }) => body.data?.recordLogin.created !== true)).toEqual([]);
    const lists = await Promise.all(values.map(() => call(server.url, project, '/server/users?limit=5')));
    expect(lists.filter(({ status, body }) => status !== 200 || body.result.total_user !== 60)).toEqual([]);
    const { rows } = await admin.query(
      `SELECT count(*)::int AS sessions FROM pg_stat_activity WHERE usename = '${role}' AND application_name <> ''`,
    );
    // Four of the pooler, and of each worker one that listens, one that publishes and one that may vacuum.
    expect(rows[0].sessions).toBeLessThanOrEqual(10);
  });

  test('changes are delivered to a webhook', async () => {
    const receiver = await startReceiver();
    const added = ['webhook', 'add', '--project', project.app_id, '--url', receiver.url('/pooled')];
    const { secret } = await userdirJson({ ...env, WEBHOOKS_ALLOW_PRIVATE: 'on' }, added);
    receiver.expectSecret('/pooled', secret);
    const logins = Array.from({ length: 20 }, (_, n) => ({ authMethod: 'passkey', authValue: `hooked-${n}` }));
    await Promise.all(logins.map((login) => recordLogin(server.url, project, login)));
    await receiver.until(() => receiver.usersAt('/pooled').length === 20);
    expect(receiver.mostOpen.get('/pooled')).toBe(1);
    expect(receiver.faults).toEqual([]);
    await receiver.close();
  });

  test('commands import, export and check', async () => {
    await userdirJson(env, ['seed', '--project', project.app_id, '--users', '2000']);
    expect(await userdirJson(env, ['totals', 'check'])).toMatchObject({ differences: [] });
    const { findings } = await userdirJson(env, ['doctor']);
    expect(findings.filter(({ status }: { status: string }) => status === 'failed')).toEqual([]);
    expect(findings).toContainEqual(expect.objectContaining({ id: 'pooler', status: 'passed' }));
  });

  test('without DATABASE_DIRECT_URL the service does not start, and doctor says why', async () => {
    const { DATABASE_DIRECT_URL: _, ...pooledOnly } = env;
    const why = expect.stringContaining('DATABASE_URL leads through a pooler of transactions');
    expect(await userdir({ ...pooledOnly, PORT: '0' }, ['serve'])).toMatchObject({ code: 1, stderr: why });
    const { code, stdout } = await userdir(pooledOnly, ['doctor', '--json']);
    expect(code).toBe(1);
    const { findings } = JSON.parse(stdout);
    expect(findings).toContainEqual(expect.objectContaining({ id: 'direct-connection', status: 'failed', found: why }));
  });

  test('a command may take longer than a statement of a request, and doctor names the settings that the role lacks', async () => {
    const name = new URL(env['DATABASE_URL'] as string).pathname.slice(1);
    const set = (setting: string) => admin.query(`ALTER ROLE ${role} IN DATABASE ${name} ${setting}`);
    // Sessions of the pooler keep the settings with which they began.
    const restart = () => stopBouncer().then(startBouncer);
    await set("SET statement_timeout = '1ms'");
    await restart();
    expect(await userdirJson(env, ['totals', 'check'])).toMatchObject({ differences: [] });
    await userdirJson(env, ['seed', '--project', project.app_id, '--users', '2000', '--seed', '2']);
    for (const [setting, limit] of [
      ['statement_timeout', '5s'],
      ['lock_timeout', '4s'],
    ]) {
      await set(`RESET ${setting}`);
      await restart();
      const { findings } = await userdirJson(env, ['doctor']);
      expect(findings).toContainEqual({
        id: 'pooler',
        status: 'warning',
        found: `the role lacks settings that the pooler does not pass on: ${setting} is 0`,
        advice: `Run as a superuser:\nALTER ROLE ${role} IN DATABASE ${name} SET ${setting} = '${limit}';`,
      });
      await set(`SET ${setting} = '${limit}'`);
    }
    await restart();
  });

  test('a pooler that loses prepared statements is refused at the start, and named by doctor', async () => {
    const config = join(folder, 'pgbouncer.ini');
    const good = readFileSync(config, 'utf8');
    const restart = (ini: string) => {
      writeFileSync(config, ini);
      return stopBouncer().then(startBouncer);
    };
    const found =
      'DATABASE_URL leads through a pooler that loses prepared statements: it must be PgBouncer 1.21 or newer, with max_prepared_statements = 200.';
    const examine = async () => JSON.parse((await userdir(env, ['doctor', '--json'])).stdout).findings;
    const id = 'prepared-statements';
    const bad = good.replace('max_prepared_statements = 200', 'max_prepared_statements = 0');
    try {
      // With one session, and with two that are lent by turns.
      for (const [more, sessions] of [
        ['default_pool_size = 1', 1],
        ['server_round_robin = 1', 2],
      ] as const) {
        await restart(`${bad}\n${more}\n`);
        // Opened at once, they stay open.
        await Promise.all(
          Array.from({ length: sessions }, () => queryPostgres(env['DATABASE_URL'], 'SELECT pg_sleep(1)')),
        );
        expect(await userdir({ ...env, PORT: '0' }, ['serve'])).toMatchObject({
          code: 1,
          stderr: expect.stringContaining(found),
        });
        expect(await examine()).toContainEqual(expect.objectContaining({ id, status: 'failed', found }));
      }
    } finally {
      await restart(good);
    }
    expect(await examine()).toContainEqual(expect.objectContaining({ id, status: 'passed' }));
  });

  test('a user that another transaction holds is told as locked, because the role limits the wait for locks', async () => {
    const { body } = await recordLogin(server.url, project, { authMethod: 'passkey', authValue: 'held' });
    const { id } = body.data.recordLogin.user;
    await admin.query('BEGIN');
    await admin.query('UPDATE users SET login_count = 5 WHERE id = $1', [id]);
    const query = `mutation { linkIdentity(userId: ${id}, input: { authMethod: "passkey", authValue: "more" }) { user { id } } }`;
    const link = await call(server.url, project, '/graphql', { method: 'POST', body: JSON.stringify({ query }) });
    await admin.query('ROLLBACK');
    expect(link).toMatchObject({ status: 503, body: { errors: [{ message: expect.stringContaining('is locked') }] } });
  });

  test('a command waits for a user as long as another transaction holds them, and not as long as the role says', async () => {
    const { body } = await recordLogin(server.url, project, { authMethod: 'passkey', authValue: 'waited for' });
    const { id } = body.data.recordLogin.user;
    const name = new URL(env['DATABASE_URL'] as string).pathname.slice(1);
    await admin.query(`ALTER ROLE ${role} IN DATABASE ${name} SET lock_timeout = '1ms'`);
    await admin.query('BEGIN');
    await admin.query('UPDATE users SET login_count = 5 WHERE id = $1', [id]);
    let isEnded = false;
    const removal = userdir(env, ['user', 'remove', '--project', project.app_id, id]).finally(() => {
      isEnded = true;
    });
    // The first wait is short by intent, and sets its own limit.
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = '${name}' AND wait_event_type = 'Lock' AND query NOT LIKE '%lock_timeout%'`;
    await vi.waitUntil(
      async () => isEnded || (await queryPostgres(database.env['DATABASE_URL'], waiting)).length > 0,
      PATIENCE,
    );
    await admin.query('ROLLBACK');
    await admin.query(`ALTER ROLE ${role} IN DATABASE ${name} SET lock_timeout = '4s'`);
    expect(await removal).toMatchObject({ code: 0 });
  });

  test('a restart of the pooler fails requests with 503 and Retry-After, and loses nothing', async () => {
    const load = startLoad(server.url, project, 4);
    const soon = async () => {
      const before = load.successes.length;
      await vi.waitUntil(() => load.successes.length > before + 20, PATIENCE);
    };
    await soon();
    await stopBouncer();
    await startBouncer();
    await soon();
    const { lost, missing, failures } = await load.stop();
    expect({ lost, missing }).toEqual({ lost: 0, missing: 0 });
    expect([...failures.keys()].filter((what) => !RETRYABLE.test(what))).toEqual([]);
  });

  test('a command behind the pooler alone does not lead: its lock would stay behind in the session of another client', async () => {
    await recordLogin(server.url, project, { authMethod: 'passkey', authValue: 'the last one' });
    await server.stop();
    const { DATABASE_DIRECT_URL: _, ...pooledOnly } = env;
    const { code, stdout } = await userdir(pooledOnly, ['changes', '--project', project.app_id]);
    expect([code, stdout === '']).toEqual([0, false]);
    const { rows } = await admin.query(
      `SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
       WHERE l.locktype = 'advisory' AND l.objid = 1968399458 AND a.usename = '${role}'`,
    );
    expect(rows).toEqual([]);
  });
});
