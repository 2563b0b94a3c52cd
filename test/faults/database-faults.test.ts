import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import { Pool } from '#dist/db/failures.js';
import type { Json } from '../support/app.js';
import { type Cluster, createCluster, hasPostgres, unprivilegedUser } from '../support/cluster.js';
import {
  type Credentials,
  call,
  type RunningServer,
  recordLogin,
  spawnUserdir,
  startServer,
  userdir,
  userdirJson,
} from '../support/command.js';
import { copyTemplate, PATIENT, queryPostgres, type TestDatabase } from '../support/engines.js';
import { isNightly } from '../support/nightly.js';
import { startProxy, type Target, type TcpProxy } from '../support/proxy.js';
import { PATIENCE, untilLocked } from '../support/waiting.js';

/**
 * How a server handles a database that is cut off, frozen, full or slow. Every request ends in time with a correct
 * answer or an error. The service recovers soon after the end of the fault: in less than two seconds on an idle machine.
 * The embedded database cannot be cut off.
 */

const POOL_TIMEOUT_MS = 500;
const STATEMENT_TIMEOUT_MS = 1_000;
const REQUEST_TIMEOUT_MS = 3_000;
/** On a machine that is busy with other work, all may take some seconds longer. What has no bound takes minutes. */
const BUSY_MS = 8_000;
const BOUND_MS = REQUEST_TIMEOUT_MS + BUSY_MS;
const RECOVERY_MS = 2_000 + BUSY_MS;

const LIMITS = {
  DATABASE_POOL_TIMEOUT_MS: String(POOL_TIMEOUT_MS),
  DATABASE_STATEMENT_TIMEOUT_MS: String(STATEMENT_TIMEOUT_MS),
  REQUEST_TIMEOUT_MS: String(REQUEST_TIMEOUT_MS),
  LOG_LEVEL: 'warn',
  DEMO: 'off',
};

describe.runIf(inject('engine') === 'postgres')('a database that', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let settings: Record<string, string>;
  let project: Credentials;
  let userId: string;
  let server: RunningServer;

  beforeAll(async () => {
    database = await copyTemplate();
    project = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
    await userdirJson(database.env, ['seed', '--project', project.app_id, '--users', '20']);
    const url = new URL(database.env['DATABASE_URL'] ?? '');
    proxy = await startProxy({ host: url.hostname, port: Number(url.port) });
    url.port = String(proxy.port);
    settings = { ...database.env, ...LIMITS, DATABASE_URL: url.href };
    server = await startServer(settings);
    const { body } = await call(server.url, project, '/server/users?limit=1');
    userId = String(body.result.users[0].id);
  });
  afterAll(async () => {
    await server?.stop();
    await proxy?.close();
    await database?.drop();
  });

  type Answer = Awaited<ReturnType<typeof call>> & { ms: number };

  /** One request of each kind, with its answer and its time. */
  async function askEverything(): Promise<Answer[]> {
    const post = (path: string, body: object) => ({ path, init: { method: 'POST', body: JSON.stringify(body) } });
    const questions = [
      { path: `/server/users/${userId}`, init: {} },
      { path: '/server/users?limit=2', init: {} },
      { path: '/server/users/count', init: {} },
      { path: '/server/users/search?email=nobody@example.com', init: {} },
      post('/server/wallets/verify', { address: '0x0000000000000000000000000000000000000001' }),
      post('/graphql', { query: `{ user(id: ${userId}) { id accounts { id } } users { totalCount } }` }),
      post('/graphql', { query: 'mutation { deleteUser(id: 9007199254740991) { id } }' }),
    ];
    return Promise.all(
      questions.map(async ({ path, init }) => {
        const startedAt = performance.now();
        const answer = await call(server.url, project, path, init);
        return { ...answer, ms: performance.now() - startedAt };
      }),
    );
  }

  /** A normal answer; for the mutation that is NOT_FOUND. */
  const isRight = ({ status, body }: { status: number; body: Json }) =>
    status === 200 && (body.errors === undefined || body.errors[0].extensions.code === 'NOT_FOUND');

  const BROKEN = /^The connection to the database broke\. What was to be written may or may not have been written: /;
  const LOCKED = /^What this request needs is locked, /;
  const AWAY = /^The database cannot be reached now\. Send the request again\.$/;

  /** Expects 503 of each interface, in time, with one of the messages; returns the longest time as text. */
  function expectUnavailable(answers: Answer[], messages = [AWAY, BROKEN]): string {
    for (const { status, headers, body } of answers) {
      const message = body.error ?? body.errors[0].message;
      if (!messages.some((expected) => expected.test(message))) expect(message).toBe(messages.join(' or '));
      if (body.errors) expect(body.errors[0].extensions.code).toBe('UNAVAILABLE');
      // A part of the answer may have come before the database went away.
      const isPart = Object.values(body.data ?? {}).some((value) => value !== null);
      expect({ status, retryAfter: headers.get('retry-after') }).toEqual(
        isPart ? { status: 200, retryAfter: null } : { status: 503, retryAfter: '1' },
      );
    }
    return longestOf(answers);
  }

  function longestOf(answers: Answer[]): string {
    const longestMs = Math.max(0, ...answers.map(({ ms }) => ms));
    expect(longestMs).toBeLessThan(BOUND_MS);
    return `longest answer ${Math.round(longestMs)} ms`;
  }

  /** Expects correct answers within RECOVERY_MS; returns the recovery time as text. */
  async function expectRecovery(): Promise<string> {
    const startedAt = performance.now();
    const lastedMs = () => Math.round(performance.now() - startedAt);
    while ((await call(server.url, project, `/server/users/${userId}`)).status !== 200) {
      expect(lastedMs()).toBeLessThan(RECOVERY_MS);
    }
    const recovery = `back after ${lastedMs()} ms`;
    const answers = await askEverything();
    expect(answers.filter((answer) => !isRight(answer))).toEqual([]);
    expect(answers[1]?.body.result.total_user).toBe(20);
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
    return recovery;
  }

  test('is cut off makes requests fail with 503 in bounded time, and they succeed when it is back', async ({
    annotate,
  }) => {
    await askEverything();
    await proxy.cut();
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    await annotate(expectUnavailable(await askEverything(), [AWAY]));
    expect((await fetch(`${server.url}/readyz`)).status).toBe(503);
    await proxy.restore();
    await annotate(await expectRecovery());
  });

  test('is cut off with requests in flight leaves none of them without an answer', async ({ annotate }) => {
    const asked = Array.from({ length: 20 }, () => askEverything());
    await proxy.cut();
    const answers = (await Promise.all(asked)).flat();
    await annotate(expectUnavailable(answers.filter((answer) => !isRight(answer))));
    await proxy.restore();
    await annotate(await expectRecovery());
  });

  test('is frozen makes requests fail with 503 in bounded time', async ({ annotate }) => {
    await askEverything();
    proxy.freeze();
    for (let round = 0; round < 2; round += 1) await annotate(expectUnavailable(await askEverything()));
    expect((await fetch(`${server.url}/readyz`)).status).toBe(503);
    await proxy.restore();
    await annotate(await expectRecovery());
  });

  test('is frozen costs the pool no more than its connections, however many statements are given up', async () => {
    const url = new URL(settings['DATABASE_URL'] ?? '');
    const pool = new Pool({ connectionString: url.href, max: 4, idleTimeoutMillis: 0, connectionTimeoutMillis: 500 });
    let opened = 0;
    pool.on('connect', () => {
      opened += 1;
    });
    const select = () => pool.query('SELECT pg_sleep(0.1)');
    await Promise.all([select(), select(), select()]);
    expect([opened, pool.idleCount]).toEqual([3, 3]);
    proxy.freeze();
    for (let givenUp = 0; givenUp < 5; givenUp += 1) pool.closeIdle();
    await vi.waitUntil(() => pool.idleCount === 0, PATIENCE);
    // None is being opened in their place.
    expect([pool.totalCount, pool.waitingCount]).toEqual([0, 0]);
    // Longer than the pool would wait for one.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(opened).toBe(3);
    await proxy.restore();
    await select();
    await pool.end();
  });

  test('is locked makes requests fail with 503 before the statement timeout', async ({ annotate }) => {
    await askEverything();
    const holder = new pg.Client({ connectionString: database.env['DATABASE_URL'] });
    await holder.connect();
    await holder.query('BEGIN; LOCK TABLE users, accounts, tallies IN ACCESS EXCLUSIVE MODE');
    await annotate(expectUnavailable(await askEverything(), [LOCKED]));
    const { rows } = await holder.query(
      `SELECT count(*)::int AS waiting FROM pg_stat_activity
       WHERE datname = current_database() AND wait_event_type = 'Lock' AND query_start < now() - interval '${BOUND_MS} ms'`,
    );
    expect(rows).toEqual([{ waiting: 0 }]);
    await holder.query('ROLLBACK');
    await holder.end();
    await annotate(await expectRecovery());
  });

  test('accepts no more connections makes requests fail with 503 at once', async ({ annotate }) => {
    const admin = new pg.Client({ connectionString: database.env['DATABASE_URL'] });
    await admin.connect();
    const role = `userdir_test_${process.pid}`;
    await admin.query(`CREATE ROLE ${role} LOGIN IN ROLE pg_read_all_data, pg_write_all_data`);
    await admin.query(`GRANT ALL ON ALL TABLES IN SCHEMA public TO ${role}`);
    await admin.query(`GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO ${role}`);
    const url = new URL(settings['DATABASE_URL'] ?? '');
    url.username = role;
    const usual = server;
    server = await startServer({ ...settings, DATABASE_URL: url.href });
    try {
      await expectRecovery();
      await admin.query(`ALTER ROLE ${role} CONNECTION LIMIT 0`);
      await admin.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1', [role]);
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      await annotate(expectUnavailable(await askEverything()));
      await admin.query(`ALTER ROLE ${role} CONNECTION LIMIT -1`);
      await annotate(await expectRecovery());
    } finally {
      await server.stop();
      server = usual;
      await admin.query(`DROP OWNED BY ${role}`);
      await admin.query(`DROP ROLE ${role}`);
      await admin.end();
    }
  });

  test('is down at the start makes the server wait for it', async () => {
    await proxy.cut();
    const child = spawnUserdir({ ...settings, PORT: '0', LOG_LEVEL: 'info' }, ['serve', '--json']);
    let log = '';
    let announced = '';
    child.stderr.on('data', (text) => {
      log += text;
    });
    child.stdout.on('data', (text) => {
      announced += text;
    });
    const url = await vi.waitUntil(() => /http:\/\/127\.0\.0\.1:\d+/.exec(log)?.[0], PATIENCE);
    await vi.waitUntil(() => log.includes('The database cannot be reached'), PATIENCE);
    const [ready, live, asked] = await Promise.all(
      ['/readyz', '/livez', '/server/users'].map((path) => fetch(url + path)),
    );
    expect([ready?.status, live?.status, asked?.status]).toEqual([503, 200, 503]);
    expect(asked?.headers.get('retry-after')).toBe('1');
    expect(announced).toBe('');
    await proxy.restore();
    await vi.waitUntil(async () => (await fetch(`${url}/readyz`)).status === 200, { timeout: RECOVERY_MS });
    expect((await call(url, project, `/server/users/${userId}`)).status).toBe(200);
    child.kill('SIGTERM');
    await vi.waitUntil(() => child.exitCode !== null, PATIENCE);
    expect(child.exitCode).toBe(0);
  });

  test('stays down does not stop the server from exiting', async () => {
    await proxy.cut();
    const child = spawnUserdir({ ...settings, PORT: '0' }, ['serve', '--json']);
    let log = '';
    child.stderr.on('data', (text) => {
      log += text;
    });
    await vi.waitUntil(() => log.includes('The database cannot be reached'), PATIENCE);
    child.kill('SIGTERM');
    await vi.waitUntil(() => child.exitCode !== null, PATIENCE);
    expect(child.exitCode).toBe(0);
    await proxy.restore();
  });
});

describe.runIf(inject('engine') === 'postgres')('where PostgreSQL', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let settings: Record<string, string>;
  let project: Credentials;
  let server: RunningServer;
  beforeAll(async () => {
    database = await copyTemplate();
    const { app_id } = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
    const scope = ['--label', 'All', '--scope', 'read,write,webhooks'];
    project = await userdirJson(database.env, ['project', 'add-secret', app_id, ...scope]);
    const url = new URL(database.env['DATABASE_URL'] ?? '');
    proxy = await startProxy({ host: url.hostname, port: Number(url.port) });
    url.port = String(proxy.port);
    // How long a request may wait is not the question here.
    settings = { ...database.env, ...PATIENT, DATABASE_URL: url.href, LOG_LEVEL: 'warn', DEMO: 'off' };
    server = await startServer(settings);
  });
  afterAll(async () => {
    await server?.stop();
    await proxy?.close();
    await database?.drop();
  });

  afterEach(() => proxy.restore());

  const graphql = (query: string) =>
    call(server.url, project, '/graphql', { method: 'POST', body: JSON.stringify({ query }) });

  /** The messages of the answers to a read, to a login, and to a change by the models of Prisma: all are 503. */
  async function messages(): Promise<string[]> {
    const answers = await Promise.all([
      call(server.url, project, '/server/users?limit=2'),
      recordLogin(server.url, project, { authMethod: 'passkey', authValue: randomUUID() }),
      graphql('mutation { resumeWebhook(id: 9007199) { webhook { id } } }'),
    ]);
    return answers.map(({ status, headers, body }) => {
      expect([status, headers.get('retry-after')]).toEqual([503, '1']);
      return body.error ?? body.errors[0].message;
    });
  }

  const isBack = () =>
    vi.waitUntil(async () => (await call(server.url, project, '/server/users?limit=2')).status === 200, PATIENCE);

  // `unit/database-failures` has all of them, without a server.
  test.each(isNightly ? ['28P01', '28000', '55000', '3D000', '53300', '57P03', '57P05'] : ['28P01', '53300'])(
    'refuses connections with %s, requests fail with 503, and nothing was done',
    async (sqlState) => {
      await isBack();
      await proxy.cut();
      await proxy.restore();
      proxy.refuse(sqlState);
      const away = 'The database cannot be reached now. Send the request again.';
      // A connection that is found broken may have been sent a statement.
      await vi.waitUntil(async () => (await messages()).every((message) => message === away), PATIENCE);
      expect((await fetch(`${server.url}/readyz`)).status).toBe(503);
    },
  );

  test.each(
    isNightly ? [null, '57P01', '57P02', '57P05', '08006', '25P03', '53200', 'XX000'] : [null, '57P01', '53200'],
  )(
    'ends sessions during statements with %s, requests fail with 503, and their outcome is unknown',
    async (sqlState) => {
      const broke = /^The connection to the database broke\. What was to be written may or may not /;
      // A session that ended before is opened anew, and then the database cannot be reached.
      const isBroken = async () => {
        await proxy.restore();
        await isBack();
        proxy.interrupt(sqlState);
        return (await messages()).some((message) => broke.test(message));
      };
      await vi.waitUntil(isBroken, PATIENCE);
    },
  );

  test('refuses the password, a command fails and says what to correct', async () => {
    proxy.refuse('28P01');
    const { code, stderr } = await userdir(settings, ['project', 'list']);
    expect([code, stderr]).toEqual([1, 'userdir: hat abgelehnt. Correct the user or the password in DATABASE_URL.\n']);
  });
});

describe.runIf(inject('engine') === 'postgres' && hasPostgres)('a database whose disk is full', () => {
  test('refuses writes with 503 and the reason, changes nothing, and takes them when there is space', async ({
    skip,
  }) => {
    const cluster = await createCluster();
    const disk = await mkdtemp(join(tmpdir(), 'userdir-full-'));
    const { uid = process.getuid?.(), gid = process.getgid?.() } = unprivilegedUser();
    const isMounted =
      spawnSync('mount', ['-t', 'tmpfs', '-o', `size=6m,uid=${uid},gid=${gid}`, 'tmpfs', disk]).status === 0;
    const admin = new pg.Client(cluster.url);
    try {
      skip(!isMounted, 'This user cannot make a small disk.');
      const project: Credentials = await userdirJson({ DATABASE_URL: cluster.url }, [
        'project',
        'create',
        '--name',
        'Test',
      ]);
      await admin.connect();
      await admin.query(`CREATE TABLESPACE small LOCATION '${disk}'`);
      await admin.query('ALTER TABLE users SET TABLESPACE small');
      await admin.query(
        'CREATE TABLE filler (text text) TABLESPACE small; ALTER TABLE filler ALTER text SET STORAGE PLAIN',
      );
      const server = await startServer({ ...LIMITS, DATABASE_URL: cluster.url });
      const register = (authValue: string) => recordLogin(server.url, project, { authMethod: 'passkey', authValue });
      const first = (await register('first')).body.data.recordLogin.user;
      const fill = "INSERT INTO filler SELECT repeat('x', 7000) FROM generate_series(1, 50)";
      await vi.waitUntil(
        () =>
          admin.query(fill).then(
            () => false,
            ({ code }) => code === '53100',
          ),
        PATIENCE,
      );
      const one = "INSERT INTO filler VALUES (repeat('x', 7000))";
      await vi.waitUntil(
        () =>
          admin.query(one).then(
            () => false,
            ({ code }) => code === '53100',
          ),
        PATIENCE,
      );
      // Until the page of the first user is full.
      const refused = await vi.waitUntil(async () => {
        const answers = await Promise.all(Array.from({ length: 64 }, () => register(randomUUID())));
        return answers.find(({ status }) => status !== 200);
      }, PATIENCE);
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
      expect(refused.body.errors).toMatchObject([
        {
          message: expect.stringMatching(
            /^There is no space left on the disk of the database\. .* nothing of it was changed/,
          ),
          extensions: { code: 'UNAVAILABLE' },
        },
      ]);
      const line = JSON.stringify({ auth_method: 'email', auth_value: 'a@example.com' });
      const lines = Array.from({ length: 400 }, (_, n) => line.replace('a@', `${n}@`)).join('\n');
      const args = ['user', 'import', '--project', project.app_id];
      const imported = await userdir({ DATABASE_URL: cluster.url }, args, lines);
      expect([imported.code, imported.stderr]).toEqual([1, expect.stringContaining('No space left on device')]);
      const total = async () => (await call(server.url, project, '/server/users')).body.result.total_user;
      const before = await total();
      expect(spawnSync('mount', ['-o', 'remount,size=60m', disk]).status).toBe(0);
      expect(await userdirJson({ DATABASE_URL: cluster.url }, args, lines)).toMatchObject({ imported: 400 });
      expect(await total()).toBe(before + 400);
      expect((await register('first')).body.data.recordLogin.user).toMatchObject({ id: first.id, loginCount: 2 });
      await server.stop();
    } finally {
      await admin.end();
      await cluster.drop();
      spawnSync('umount', [disk]);
      await rm(disk, { recursive: true, force: true });
    }
  });
});

describe.runIf(inject('engine') === 'postgres' && hasPostgres)('a database that has a standby', () => {
  let primary: Cluster;
  let standby: Cluster;
  let proxy: TcpProxy;
  let project: Credentials;
  let server: RunningServer;
  beforeEach(async () => {
    primary = await createCluster();
    project = await userdirJson({ DATABASE_URL: primary.url }, ['project', 'create', '--name', 'Test']);
    const add = ['webhook', 'add', '--project', project.app_id, '--url', 'https://example.com/x'];
    await userdirJson({ DATABASE_URL: primary.url }, add);
    standby = await primary.createStandby();
    proxy = await startProxy(targetOf(primary));
    const url = new URL(primary.url);
    url.port = String(proxy.port);
    // How long a request may wait is not the question here.
    server = await startServer({ ...LIMITS, ...PATIENT, DATABASE_URL: url.href });
  });
  afterEach(async () => {
    await server?.stop();
    await proxy?.close();
    await standby?.drop();
    await primary?.drop();
  });

  const targetOf = ({ url }: Cluster): Target => ({ host: '127.0.0.1', port: Number(new URL(url).port) });

  /** Registers users until the service fails, with 503; returns the acknowledged ones. */
  async function register(prefix: string): Promise<string[]> {
    const acknowledged: string[] = [];
    for (;;) {
      const authValue = `${prefix}-${acknowledged.length}`;
      const { status, body } = await recordLogin(server.url, project, { authMethod: 'passkey', authValue });
      if (body.errors) {
        expect([status, body.errors[0].extensions.code]).toEqual([503, 'UNAVAILABLE']);
        return acknowledged;
      }
      acknowledged.push(authValue);
    }
  }

  /** Expects a new registration within RECOVERY_MS, and every acknowledged user to be there. */
  async function expectSuccession(acknowledged: string[]): Promise<void> {
    const another = () => recordLogin(server.url, project, { authMethod: 'passkey', authValue: 'another' });
    await vi.waitUntil(async () => (await another()).body.data?.recordLogin, { timeout: RECOVERY_MS, interval: 20 });
    const values = await registered();
    expect([...acknowledged, 'another'].filter((value) => !values.includes(value))).toEqual([]);
  }

  async function registered(): Promise<string[]> {
    const values: string[] = [];
    for (let page = 1; ; page += 1) {
      const { body } = await call(server.url, project, `/server/users?limit=100&page=${page}`);
      values.push(...body.result.users.map((user: Json) => user.auth_value));
      if (body.result.users.length > 0) continue;
      expect(body.result.total_user).toBe(values.length);
      return values;
    }
  }

  test('and dies is replaced by the standby with every acknowledged user', async () => {
    const count = async ({ url }: Cluster) =>
      (await queryPostgres(url, 'SELECT count(*)::int AS users FROM users'))[0].users;
    const registering = register('a');
    await vi.waitUntil(async () => (await count(primary)) > 1, PATIENCE);
    await primary.kill();
    const acknowledged = await registering;
    expect(acknowledged.length).toBeGreaterThan(0);
    await standby.promote();
    proxy.redirect(targetOf(standby));
    await expectSuccession(acknowledged);
    // Without a synchronous standby, IDs of lost users would be given again. Webhooks go on.
    const idOfNext = async () => {
      const input = { authMethod: 'passkey', authValue: randomUUID() };
      return Number((await recordLogin(server.url, project, input)).body.data?.recordLogin.user.id);
    };
    await vi.waitUntil(async () => (await idOfNext()) > 1_000_000, PATIENCE);
    const webhooks = ['webhook', 'list', '--project', project.app_id];
    expect(await userdirJson({ DATABASE_URL: standby.url }, webhooks)).toMatchObject([{ status: 'enabled' }]);
  });

  test('and becomes read-only loses all its pooled connections as soon as one query fails', async () => {
    const register = async (authValue: string) =>
      (await recordLogin(server.url, project, { authMethod: 'passkey', authValue })).body.data?.recordLogin !==
      undefined;
    const acknowledged = Array.from({ length: 10 }, (_, n) => `b-${n}`);
    expect(await Promise.all(acknowledged.map(register))).not.toContain(false);
    const admin = new pg.Client({ connectionString: primary.url });
    await admin.connect();
    // Logins share connections, and lists may.
    await vi.waitUntil(async () => {
      const pages = acknowledged.map((_, n) => call(server.url, project, `/server/users?limit=1&page=${n + 1}`));
      await Promise.all(pages);
      const { rows } = await admin.query(
        "SELECT FROM pg_stat_activity WHERE application_name = 'userdir' AND query <> 'LISTEN userdir_secrets'",
      );
      return rows.length > 2;
    }, PATIENCE);
    // This read is on a connection that is not idle when the first query fails.
    await admin.query('BEGIN; LOCK TABLE tallies');
    const held = call(server.url, project, '/server/users/count');
    await untilLocked(admin);
    const other = new pg.Client({ connectionString: primary.url });
    await other.connect();
    await other.query('ALTER SYSTEM SET default_transaction_read_only = on');
    await other.query('SELECT pg_reload_conf()');
    await other.end();
    await standby.promote();
    proxy.redirect(targetOf(standby));
    // The query that fails is this one, or one of the background, such as the publisher's.
    const { status, body } = await recordLogin(server.url, project, { authMethod: 'passkey', authValue: 'first' });
    expect([200, 503]).toContain(status);
    if (status === 503)
      expect(body.errors[0]).toMatchObject({
        message: 'The database cannot be reached now. Send the request again.',
        extensions: { code: 'UNAVAILABLE' },
      });
    await admin.end();
    expect((await held).status).toBe(200);
    expect(await register('second')).toBe(true);
    await expectSuccession(acknowledged);
  });
});
