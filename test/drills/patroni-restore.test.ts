import { join } from 'node:path';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import { type Credentials, call, recordLogin, type Settings, startServer, userdirJson } from '../support/command.js';
import { queryPostgres } from '../support/engines.js';
import { hasProgram } from '../support/programs.js';
import { missingPrograms, type NodeName, startPatroni } from './patroni.js';
import { archiveSettings, PGBACKREST, runPgbackrest, writeConfig } from './pgbackrest.js';

/** The drill of docs/patroni-restore.md: three nodes under Patroni go back to a point in time. */

const PATIENCE = { timeout: 120_000, interval: 100 };

describe.skipIf(missingPrograms.length > 0 || !hasProgram(PGBACKREST))('a cluster of Patroni that is restored', () => {
  let patroni: Awaited<ReturnType<typeof startPatroni>>;
  let settings: Settings;
  let project: Credentials;

  const configOf = (folder: string, name: NodeName) => join(folder, `${name}.pgbackrest.conf`);

  /** All nodes share the repository. Returns the settings of the archive. */
  function prepare({ name, port, dataDir }: { name: NodeName; port: number; dataDir: string }, folder: string) {
    const config = configOf(folder, name);
    writeConfig({
      config,
      folder,
      scratch: join(folder, `${name}.scratch`),
      dataDir,
      port,
      sockets: folder,
    });
    return archiveSettings(config);
  }

  const pgbackrest = (name: NodeName, ...args: string[]) =>
    runPgbackrest({ config: configOf(patroni.folder, name), folder: patroni.folder }, args);

  const query = <Row extends pg.QueryResultRow>(text: string, url = patroni.url) => queryPostgres<Row>(url, text);

  /** The answer of a statement that has one row with one value. */
  async function resultOf(text: string, url?: string): Promise<string> {
    const [row] = await query<{ value: string }>(`SELECT (${text})::text AS value`, url);
    return String(row?.value);
  }

  /** Returns the ID of the user. */
  async function login(url: string, name: string): Promise<number> {
    const { body } = await recordLogin(url, project, { authMethod: 'email', authValue: `${name}@example.com` });
    return Number(body.data.recordLogin.user.id);
  }

  beforeAll(async () => {
    patroni = await startPatroni({ prepare });
    await patroni.healthy();
    settings = {
      DATABASE_URL: patroni.url,
      DATA_DIR: join(patroni.folder, 'userdir'),
      DEMO: 'off',
      LOG_LEVEL: 'warn',
    };
    project = await userdirJson(settings, ['project', 'create', '--name', 'Drill']);
  });
  afterAll(async () => {
    await patroni?.stop();
  });

  test('has on every node what was there at the point, and goes on', { timeout: 600_000 }, async () => {
    const { leader, standby, other } = await patroni.healthy();
    pgbackrest(leader, 'stanza-create');
    pgbackrest(leader, '--type=full', 'backup');
    pgbackrest(leader, 'check');
    const server = await startServer(settings);
    onTestFinished(async () => void (await server.stop()));
    const kept = await login(server.url, 'kept');
    const target = await resultOf('now()');
    const lost = await login(server.url, 'lost');
    const file = await resultOf('pg_walfile_name(pg_switch_wal())');
    const isArchived = async () => (await resultOf('SELECT last_archived_wal FROM pg_stat_archiver')) >= file;
    await vi.waitUntil(isArchived, PATIENCE);
    await server.stop();

    for (const name of [other, standby, leader]) await patroni.stopNode(name);
    await patroni.empty(leader);
    pgbackrest(leader, '--type=time', `--target=${target}`, '--target-action=promote', 'restore');
    patroni.control(leader, '-w', 'start');
    const alone = patroni.urlOf(leader);
    await vi.waitUntil(async () => (await resultOf('pg_is_in_recovery()', alone)) === 'false', PATIENCE);
    for (const name of ['recovery_target_time', 'recovery_target_action'])
      await query(`ALTER SYSTEM RESET ${name}`, alone);
    patroni.control(leader, '-w', '-m', 'fast', 'stop');
    patroni.forget();
    patroni.restart(leader);
    await vi.waitUntil(async () => (await patroni.leader()) === leader, PATIENCE);
    for (const name of [standby, other]) {
      await patroni.empty(name);
      patroni.restart(name);
    }
    await patroni.healthy();
    // To the service, it looks like a failover.
    await userdirJson(settings, ['restored']);

    const restored = await startServer(settings);
    onTestFinished(async () => void (await restored.stop()));
    const next = await login(restored.url, 'new');
    expect(next).toBeGreaterThan(9_000_000_000);
    expect((await call(restored.url, project, `/server/users/${kept}`)).status).toBe(200);
    expect((await call(restored.url, project, `/server/users/${lost}`)).status).toBe(404);
    const { findings } = await userdirJson(settings, ['doctor']);
    expect(findings.find(({ id }: Json) => id === 'restores')).toMatchObject({ status: 'warning' });

    // Each of the others has all, and can lead.
    for (const name of [standby, other]) {
      const ofNode = () => resultOf('SELECT string_agg(id::text, $$,$$ ORDER BY id) FROM users', patroni.urlOf(name));
      await vi.waitUntil(async () => (await ofNode()) === `${kept},${next}`, PATIENCE);
    }
    const now = await patroni.healthy();
    await patroni.switchOver(now.leader, now.standby);
    await vi.waitUntil(async () => (await patroni.leader()) === now.standby, PATIENCE);
    const isKnown = async () => (await call(restored.url, project, `/server/users/${next}`)).status === 200;
    await vi.waitUntil(isKnown, PATIENCE);
    await restored.stop();
  });
});
