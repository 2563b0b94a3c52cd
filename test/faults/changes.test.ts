import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { parseConfig } from '#dist/config/config.js';
import { createContext } from '#dist/context.js';
import { BIN, type Cluster, createCluster, hasPostgres } from '../support/cluster.js';
import {
  type Credentials,
  type RunningServer,
  recordLogin,
  startServer,
  userdir,
  userdirJson,
} from '../support/command.js';
import { copyTemplate, queryPostgres, type TestDatabase } from '../support/engines.js';
import { isNightly } from '../support/nightly.js';
import { PATIENCE } from '../support/waiting.js';

/**
 * A reader polls the feed while the server that publishes, PostgreSQL or both are killed. It gets every committed change once. CRASHES
 * sets the number of crashes of each kind.
 */
const CRASHES = Number(process.env['CRASHES'] ?? 1);
vi.setConfig({ testTimeout: 120_000 + CRASHES * 60_000, hookTimeout: 120_000 });

/** Reads the feed of a project from servers that may be killed at any time. */
function createReader(project: Credentials) {
  const headers = { 'service-app-id': project.app_id, 'service-app-secret': project.app_secret };
  const seen: string[] = [];
  const refused: number[] = [];
  let after = '';
  return {
    seen,
    refused,
    async poll(url: string): Promise<void> {
      const response = await fetch(`${url}/changes?limit=50${after && `&after=${after}`}`, { headers }).catch(
        () => null,
      );
      if (response === null) return;
      // 5xx while something is away.
      if (response.status >= 400 && response.status < 500) refused.push(response.status);
      if (!response.ok) return;
      const text = await response.text().catch(() => null);
      if (text === null) return;
      for (const { id } of JSON.parse(text).result.changes) seen.push(id);
      after = String(response.headers.get('userdir-next-cursor'));
    },
  };
}
const idOf = (cursor: string) => Number(Buffer.from(cursor, 'base64url').toString().split('.')[1]);

const committed = async (url: string, appId: string) =>
  (
    await queryPostgres<{ id: string }>(
      url,
      'SELECT c.id FROM changes c JOIN projects p ON p.id = c.project_id WHERE p.app_id = $1 ORDER BY c.id',
      [appId],
    )
  ).map(({ id }) => Number(id));

let serial = 0;

/** Slow transactions of plain SQL, of which some are undone, beside the service. */
async function writeDirectly(url: string, appId: string, isDone: () => boolean): Promise<void> {
  while (!isDone()) {
    const client = new pg.Client(url);
    client.on('error', () => undefined);
    try {
      await client.connect();
      while (!isDone()) {
        serial += 1;
        await client.query('BEGIN');
        await client.query(
          `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key) SELECT id, 'x', $2, $2 FROM projects WHERE app_id = $1`,
          [appId, `direct-${serial}`],
        );
        await sleep(Math.random() * 60);
        await client.query(serial % 3 === 0 ? 'ROLLBACK' : 'COMMIT');
      }
    } catch {
      await sleep(100);
    } finally {
      await client.end().catch(() => undefined);
    }
  }
}

async function writeThroughService(urls: () => string[], project: Credentials, isDone: () => boolean): Promise<void> {
  while (!isDone()) {
    serial += 1;
    const url = urls()[serial % 2] as string;
    await recordLogin(url, project, { authMethod: 'email', authValue: `person.${serial}@example.com` }).catch(() =>
      sleep(50),
    );
  }
}

describe('on the embedded database', () => {
  let database: TestDatabase;
  afterAll(() => database?.drop());

  test.runIf(isNightly && inject('engine') === 'embedded')(
    'the server is killed: nothing is skipped and nothing comes twice',
    async () => {
      database = await copyTemplate();
      const settings = { ...database.env, DEMO: 'off', LOG_LEVEL: 'silent' };
      const project: Credentials = await userdirJson(settings, ['project', 'create', '--name', 'Test']);
      const reader = createReader(project);
      for (let crash = 0; crash <= CRASHES; crash += 1) {
        const server = await startServer(settings);
        let isDone = false;
        const writing = writeThroughService(
          () => [server.url, server.url],
          project,
          () => isDone,
        );
        const before = reader.seen.length;
        await vi.waitUntil(() => reader.poll(server.url).then(() => reader.seen.length > before + 20), PATIENCE);
        if (crash < CRASHES) await server.stop('SIGKILL');
        isDone = true;
        await writing;
        if (crash < CRASHES) continue;
        let last = -1;
        await vi.waitUntil(async () => {
          const unchanged = last === reader.seen.length;
          last = reader.seen.length;
          await reader.poll(server.url);
          return unchanged && last === reader.seen.length;
        }, PATIENCE);
        await server.stop();
      }
      const { exported } = { exported: await userdirJson(settings, ['project', 'list']) };
      expect(reader.refused).toEqual([]);
      const ids = reader.seen.map(idOf);
      expect(ids).toEqual([...new Set(ids)].toSorted((a, b) => a - b));
      // Each change is the registration of one user.
      expect(reader.seen.length).toBe(exported[0].total_user);
    },
  );
});

describe.runIf(inject('engine') === 'postgres' && hasPostgres)('on PostgreSQL', () => {
  let cluster: Cluster;
  let settings: Record<string, string>;
  let project: Credentials;
  beforeAll(async () => {
    cluster = await createCluster(['max_prepared_transactions=2']);
    settings = { DATABASE_URL: cluster.url, DEMO: 'off', LOG_LEVEL: 'silent', DATA_DIR: '/nonexistent' };
    project = await userdirJson(settings, ['project', 'create', '--name', 'Test']);
  });
  afterAll(() => cluster?.drop());

  test('a server and PostgreSQL are killed: nothing is skipped and nothing comes twice', async ({ annotate }) => {
    // The first one publishes.
    const servers: RunningServer[] = [await startServer(settings), await startServer(settings)];
    const urls = () => servers.map(({ url }) => url);
    const reader = createReader(project);
    let isDone = false;
    const done = () => isDone;
    const writing = [
      writeThroughService(urls, project, done),
      writeThroughService(urls, project, done),
      writeDirectly(cluster.url, project.app_id, done),
      writeDirectly(cluster.url, project.app_id, done),
    ];
    const polling = (async () => {
      for (let turn = 0; !isDone; turn += 1) {
        await reader.poll(urls()[turn % 2] as string);
        await sleep(10);
      }
    })();
    const moreArrive = async () => {
      const before = reader.seen.length;
      await vi.waitUntil(() => reader.seen.length > before + 20, PATIENCE);
      await sleep(Math.random() * 300);
    };
    for (let crash = 0; crash < CRASHES; crash += 1) {
      await moreArrive();
      await servers[crash % 2]?.stop('SIGKILL');
      await moreArrive();
      servers[crash % 2] = await startServer(settings);
      await moreArrive();
      await cluster.kill();
      await sleep(Math.random() * 300);
      await cluster.start();
      await moreArrive();
    }
    isDone = true;
    await Promise.all([...writing, polling]);
    const expected = await committed(cluster.url, project.app_id);
    await vi.waitUntil(async () => {
      await reader.poll(urls()[0] as string);
      return reader.seen.length >= expected.length;
    }, PATIENCE);
    expect(reader.seen.map(idOf)).toEqual(expected);
    expect(reader.refused).toEqual([]);
    await annotate(`${CRASHES} crashes of each kind, ${expected.length} changes`);
    for (const server of servers) await server.stop();
  });

  test.runIf(isNightly)(
    'a restored database goes on where its followers are, and refuses those who have seen what it lost',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'userdir-changes-'));
      const run = (program: string, ...args: string[]) => execFileSync(join(BIN, program), args, { stdio: 'pipe' });
      const server = await startServer(settings);
      const own: Credentials = await userdirJson(settings, ['project', 'create', '--name', 'Restored']);
      const add = (url: string, name: string) =>
        recordLogin(url, own, { authMethod: 'email', authValue: `${name}@example.com` });
      const webhook = await userdirJson(settings, [
        'webhook',
        'add',
        '--project',
        own.app_id,
        '--url',
        'https://example.com/x',
      ]);
      const early = createReader(own);
      await add(server.url, 'a');
      await vi.waitUntil(() => early.poll(server.url).then(() => early.seen.length === 1), PATIENCE);
      const late = createReader(own);
      await vi.waitUntil(() => late.poll(server.url).then(() => late.seen.length === 1), PATIENCE);
      run('pg_dump', '--format=custom', `--file=${join(folder, 'dump')}`, cluster.url);
      // Lost by the restore; one follower has seen it.
      await add(server.url, 'lost');
      await vi.waitUntil(() => late.poll(server.url).then(() => late.seen.length === 2), PATIENCE);
      await server.stop();
      await queryPostgres(cluster.url, 'CREATE DATABASE restored');
      const url = Object.assign(new URL(cluster.url), { pathname: '/restored' }).href;
      run('pg_restore', `--dbname=${url}`, join(folder, 'dump'));
      rmSync(folder, { recursive: true });

      const restored = await startServer({ ...settings, DATABASE_URL: url });
      await add(restored.url, 'b');
      await add(restored.url, 'c');
      await vi.waitUntil(() => early.poll(restored.url).then(() => early.seen.length === 3), PATIENCE);
      expect(early.refused).toEqual([]);
      expect(early.seen.map(idOf)).toEqual(await committed(url, own.app_id));
      await late.poll(restored.url);
      expect(late.refused).toEqual([410]);
      // No ID of a lost user is given to another one, and no change has the place of a lost one.
      const { rows: users } = {
        rows: await queryPostgres<{ id: string }>(url, 'SELECT id FROM users ORDER BY id DESC LIMIT 2'),
      };
      expect(users.map(({ id }) => id)).toEqual(['10000000002', '10000000001']);
      expect(Math.min(...early.seen.slice(1).map(idOf))).toBeGreaterThan(10_000_000_000);
      expect(
        await userdirJson({ ...settings, DATABASE_URL: url }, ['webhook', 'list', '--project', own.app_id]),
      ).toMatchObject([{ id: webhook.id, status: 'paused', reason: expect.stringContaining('then replay from now') }]);
      // People read a table, which has the first sentence alone.
      const table = await userdir({ ...settings, DATABASE_URL: url }, ['webhook', 'list', '--project', own.app_id]);
      expect(table.stdout).toMatch(/paused: The database was restored from a backup\. {2}/);
      const doctor = await userdirJson({ ...settings, DATABASE_URL: url }, ['doctor', '--no-totals']);
      expect(doctor.findings).toContainEqual(
        expect.objectContaining({
          id: 'restores',
          status: 'warning',
          // With the ID, which `project revoke` takes.
          found: expect.stringMatching(`[1-9]\\d* \\(main\\) of ${own.app_id}`),
          advice: expect.stringContaining('After a restore'),
        }),
      );
      expect((await restored.stop()).stderr).toBe('');
      // Once it was noticed, it is the same database.
      const next = await startServer({ ...settings, DATABASE_URL: url });
      await add(next.url, 'd');
      expect(await queryPostgres(url, 'SELECT max(id) AS id FROM users')).toEqual([{ id: '10000000003' }]);
      await next.stop();
      // An operator says so of what cannot be told from a restart.
      await userdirJson({ ...settings, DATABASE_URL: url }, ['restored']);
      const third = await startServer({ ...settings, DATABASE_URL: url });
      await add(third.url, 'e');
      expect(await queryPostgres(url, 'SELECT max(id) AS id FROM users')).toEqual([{ id: '20000000001' }]);
      await third.stop();
    },
  );

  test('a prepared transaction that holds up the feed is named, before and after a restart', async () => {
    const server = await startServer({ ...settings, METRICS_PORT: '0' });
    const url = new URL('/metrics', server.metricsUrl);
    const age = async () => {
      const text = await (await fetch(url)).text();
      return Number(/^userdir_changes_oldest_transaction_seconds (.*)$/m.exec(text)?.[1]);
    };
    expect(await age()).toBe(0);
    const client = new pg.Client(cluster.url);
    await client.connect();
    await client.query('BEGIN');
    await client.query(
      `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key) SELECT id, 'x', 'prepared', 'prepared' FROM projects WHERE app_id = $1`,
      [project.app_id],
    );
    await client.query(`PREPARE TRANSACTION 'forgotten'`);
    await client.end();
    const context = createContext(parseConfig(settings), { command: 'test' });
    const oldest = () => context.services.changes.findOldestWriter();
    const forgotten = { pid: null, name: 'forgotten', role: 'postgres', state: 'prepared' };
    await vi.waitUntil(async () => (await age()) > 0, PATIENCE);
    expect(await oldest()).toMatchObject(forgotten);
    expect((await oldest())?.seconds).toBeGreaterThan(0);
    await cluster.kill();
    await cluster.start();
    await vi.waitUntil(() => oldest().then(Boolean, () => false), PATIENCE);
    expect(await oldest()).toMatchObject(forgotten);
    await queryPostgres(cluster.url, `ROLLBACK PREPARED 'forgotten'`);
    expect(await oldest()).toBe(null);
    await context.close();
    await server.stop();
  });
});
