import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import { ROOT } from '../support/checkout.js';
import { type Cluster, createCluster, createStandbyOf, freePort, hasPostgres } from '../support/cluster.js';
import { type Credentials, call, recordLogin, type Settings, startServer, userdirJson } from '../support/command.js';
import { queryPostgres } from '../support/engines.js';
import { hasProgram } from '../support/programs.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { archiveSettings, PGBACKREST, runPgbackrest, writeConfig } from './pgbackrest.js';

/** The drill of docs/disaster.md: the machine of the database is lost, and an hour is undone, with the files of docs/disaster. */

/** More of them show what a restore of many takes: RECOVERY_USERS=1000000 npx vitest run --project drills test/drills/disaster.test.ts */
const { RECOVERY_USERS = '2000' } = process.env;
const PATIENCE = { timeout: 120_000, interval: 50 };

describe.skipIf(!hasPostgres || !hasProgram(PGBACKREST))('a database that is restored to a point in time', () => {
  const folder = mkdtempSync(join(tmpdir(), 'userdir-disaster-'));
  const config = join(folder, 'pgbackrest.conf');
  const times: Record<string, number> = {};
  let cluster: Cluster;
  let directory: string;
  let receiver: Receiver;
  let settings: Settings;
  let project: Credentials;

  /** Runs it, and notes the seconds. */
  function pgbackrest(name: string, ...args: string[]): void {
    const started = performance.now();
    runPgbackrest({ config, folder }, args);
    times[name] = Math.round((performance.now() - started) / 100) / 10;
  }

  const query = <Row extends pg.QueryResultRow>(text: string) => queryPostgres<Row>(cluster.url, text);
  const run = (...args: string[]) => userdirJson(settings, args);
  const ofProject = (...args: string[]) => run(...args, '--project', project.app_id);
  /** Returns the ID of the user. */
  async function login(url: string, name: string): Promise<number> {
    const { body } = await recordLogin(url, project, { authMethod: 'email', authValue: `${name}@example.com` });
    return Number(body.data.recordLogin.user.id);
  }

  beforeAll(async () => {
    const { archive_command: command, ...others } = archiveSettings(config);
    expect(Object.keys(others)).toEqual(['archive_mode', 'archive_timeout']);
    cluster = await createCluster(Object.entries(others).map((pair) => pair.join('=')));
    [{ directory }] = (await query<{ directory: string }>("SELECT current_setting('data_directory') AS directory")) as [
      { directory: string },
    ];
    const { port } = new URL(cluster.url);
    chmodSync(folder, 0o777);
    writeConfig({
      config,
      folder,
      scratch: join(folder, 'scratch'),
      dataDir: directory,
      port,
      sockets: directory,
    });
    await query(`ALTER SYSTEM SET archive_command = '${command}'`);
    await query('SELECT pg_reload_conf()');
    receiver = await startReceiver();
    settings = {
      DATABASE_URL: cluster.url,
      DEMO: 'off',
      LOG_LEVEL: 'warn',
      WEBHOOKS_ALLOW_PRIVATE: 'on',
      PORT: String(await freePort()),
    };
    project = await run('project', 'create', '--name', 'Drill');
  });
  afterAll(async () => {
    await receiver?.close();
    await cluster?.drop();
    await rm(folder, { recursive: true });
  });

  const timeout = 600_000 + Number(RECOVERY_USERS);
  test('has what was there, gives no ID again, sends nothing, and says what to look through', { timeout }, async () => {
    pgbackrest('create the repository', 'stanza-create');
    await ofProject('seed', '--users', String(Math.min(Number(RECOVERY_USERS), 1_000_000)));
    await query(
      `SET bench.users = ${RECOVERY_USERS}; ${readFileSync(join(ROOT, 'test/bench/more-users.sql'), 'utf8')}`,
    );
    pgbackrest('full backup', '--type=full', 'backup');
    pgbackrest('check', 'check');

    const server = await startServer(settings);
    onTestFinished(async () => void (await server.stop()));
    await ofProject('webhook', 'add', '--url', receiver.url('/hook'));
    const { id: leaked } = await ofProject('project', 'add-secret', '--label', 'leaked');
    await run('operator', 'add', 'mallory', '--role', 'support');
    await login(server.url, 'kept');
    await vi.waitUntil(() => receiver.received.length > 0, PATIENCE);
    const [{ now: target }] = (await query<{ now: string }>('SELECT now()::text')) as [{ now: string }];
    const [{ id: known }] = (await query<{ id: string }>('SELECT max(id)::text AS id FROM users')) as [{ id: string }];

    // The hour that is undone.
    const lost = await login(server.url, 'lost');
    await ofProject('project', 'revoke', String(leaked));
    await run('operator', 'remove', 'mallory');
    await ofProject('user', 'ban', '--method', 'email', '--value', 'kept@example.com', '--reason', 'fraud');
    const cursor = await newestCursor(server.url);
    const [{ file }] = (await query<{ file: string }>('SELECT pg_walfile_name(pg_switch_wal()) AS file')) as [
      { file: string },
    ];
    await vi.waitUntil(() => isArchived(file), PATIENCE);
    await server.stop();
    const started = performance.now();
    await cluster.kill();
    // The disk is gone.
    for (const name of readdirSync(directory)) rmSync(join(directory, name), { recursive: true });

    pgbackrest('restore', '--type=time', `--target=${target}`, '--target-action=promote', 'restore');
    await cluster.start();
    const isOver = async () => !(await query<{ it: boolean }>('SELECT pg_is_in_recovery() AS it'))[0]?.it;
    await vi.waitUntil(isOver, PATIENCE);
    const sent = receiver.received.length;
    const restored = await startServer(settings);
    onTestFinished(async () => void (await restored.stop()));
    times['until it answers'] = Math.round((performance.now() - started) / 100) / 10;
    process.stdout.write(`${JSON.stringify({ users: Number(RECOVERY_USERS), seconds: times })}\n`);

    const next = await login(restored.url, 'new');
    expect(lost).toBe(Number(known) + 1);
    expect(next).toBeGreaterThan(9_000_000_000);
    expect((await call(restored.url, project, `/server/users/${lost}`)).status).toBe(404);
    expect((await call(restored.url, project, `/changes?after=${cursor}`)).status).toBe(410);
    expect((await ofProject('webhook', 'list'))[0]).toMatchObject({ status: 'paused' });
    expect(receiver.received.length).toBe(sent);
    expect(await ofProject('totals', 'check')).toMatchObject({ differences: [] });
    // The secret and the operator are valid again, the ban is gone.
    const { findings } = await run('doctor');
    const finding = findings.find(({ id }: Json) => id === 'restores');
    expect(finding).toMatchObject({ status: 'warning', advice: expect.stringContaining('docs/disaster.md') });
    expect(finding.found).toMatch(/the last act that it knows is add_operator by \S+ at \d{4}-/);
    const secrets = `2 secrets: ${leaked} (leaked) of ${project.app_id}, 1 (main) of ${project.app_id}`;
    expect(finding.found).toContain(`look through ${secrets}; 1 operator: mallory; and 0 bans`);

    // What is still there says where recovery ends: a standby that gets a copy of it would be a second primary.
    for (const name of ['recovery_target_time', 'recovery_target_action']) await query(`ALTER SYSTEM RESET ${name}`);
    const standby = await createStandbyOf(cluster.url);
    onTestFinished(() => standby.drop());
    const last = await login(restored.url, 'last');
    const onStandby = (text: string) => queryPostgres<Json>(standby.url, text);
    await vi.waitUntil(async () => (await onStandby(`SELECT FROM users WHERE id = ${last}`)).length > 0, PATIENCE);
    expect(await onStandby('SELECT pg_is_in_recovery() AS it')).toEqual([{ it: true }]);
    await restored.stop();
  });

  /** Of a follower that has seen everything. */
  async function newestCursor(url: string): Promise<string> {
    const { headers } = await call(url, project, '/changes?after=now');
    return String(headers.get('userdir-next-cursor'));
  }

  async function isArchived(file: string): Promise<boolean> {
    const [row] = await query<{ done: boolean }>(`SELECT last_archived_wal >= '${file}' AS done FROM pg_stat_archiver`);
    return row?.done ?? false;
  }
});
