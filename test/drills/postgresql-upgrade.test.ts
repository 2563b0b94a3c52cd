import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import { type Balancer, HAPROXY, SHUTDOWN_DELAY_MS, startBalancer } from '../support/balancer.js';
import { ROOT } from '../support/checkout.js';
import { BIN, type Cluster, createCluster, freePort, hasPostgres } from '../support/cluster.js';
import { type Credentials, type RunningServer, type Settings, startServer, userdirJson } from '../support/command.js';
import { type Question, startFollower, startReaders } from '../support/readers.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { PATIENCE } from '../support/waiting.js';
import { RETRYABLE, startLoad } from '../support/writers.js';

/** A PostgreSQL is replaced by one of another major version while it is used, and comes back, with the files of docs/upgrade. */

const SCRIPT = join(ROOT, 'docs/upgrade/postgresql.sh');
/** The folder of the programs of PostgreSQL 18, as `test/support/postgres.sh 18 FOLDER` makes it. */
const { POSTGRES_18, UPGRADE_USERS = '20000' } = process.env;
const canRun = POSTGRES_18 !== undefined && hasPostgres && existsSync(HAPROXY) && existsSync('/usr/bin/socat');

/** Load before a step, and after it. */
const STEADY_MS = 2_000;
const OTHERS: Settings = { LOG_LEVEL: 'fatal', DEMO: 'off', WEBHOOKS_ALLOW_PRIVATE: 'on' };
const SETTINGS = ['wal_level=logical', 'wal_retrieve_retry_interval=100ms'];

type Name = 'old' | 'new';

describe.skipIf(!canRun)('a service whose PostgreSQL is replaced by a newer one', () => {
  const folder = join(tmpdir(), `userdir-upgrade-${process.pid}`);
  const socket = join(folder, 'haproxy.sock');
  const urlFile = join(folder, 'database-url');
  let clusters: Record<Name, Cluster>;
  /** In front of PostgreSQL. */
  let proxy: ChildProcess;
  let balancer: Balancer;
  let places: { readonly port: number; server: RunningServer }[];
  let receiver: Receiver;
  let project: Credentials;
  let questions: Question[];

  beforeAll(async () => {
    mkdirSync(folder);
    clusters = { old: await createCluster(SETTINGS), new: await createCluster(SETTINGS, POSTGRES_18) };
    writeFileSync(urlFile, await startProxy());
    receiver = await startReceiver();
    const ports = [await freePort(), await freePort()] as const;
    places = [];
    for (const port of ports) places.push({ port, server: await start(port) });
    balancer = await startBalancer(folder, ports);
    project = await userdirJson(settingsOf('old'), ['project', 'create', '--name', 'Drill']);
    await userdirJson(settingsOf('old'), ['seed', '--project', project.app_id, '--users', UPGRADE_USERS]);
    const [wallet] = await query(clusters.old, 'SELECT user_id, public_key FROM accounts ORDER BY id LIMIT 1');
    questions = [
      {
        path: '/server/wallets/verify',
        body: { user_id: Number(wallet.user_id), address: wallet.public_key },
        contains: '"exists":true',
      },
      { path: '/server/users?limit=20&page=50', contains: '"auth_value"' },
    ];
  });
  afterAll(async () => {
    await Promise.all((places ?? []).map(({ server }) => server.stop()));
    await receiver?.close();
    balancer?.process.kill();
    proxy?.kill();
    await clusters?.old.drop();
    await clusters?.new.drop();
    await rm(folder, { recursive: true });
  });

  const start = (port: number) =>
    startServer({
      ...OTHERS,
      DATABASE_URL_FILE: urlFile,
      DATA_DIR: folder,
      PORT: String(port),
      SHUTDOWN_DELAY_MS: String(SHUTDOWN_DELAY_MS),
    });

  /** Restarts one process after the other, as the unit of docs/failover is restarted. */
  async function restartAll(): Promise<void> {
    for (const place of places) {
      await place.server.stop();
      place.server = await start(place.port);
      await balancer.bothUp();
    }
  }

  /** Returns the URL of the database behind it. */
  async function startProxy(): Promise<string> {
    const port = await freePort();
    const config = join(folder, 'haproxy.cfg');
    const text = readFileSync(join(ROOT, 'docs/upgrade/haproxy.cfg'), 'utf8')
      .replace('/run/haproxy/admin.sock', socket)
      .replace('127.0.0.1:5000', `127.0.0.1:${port}`)
      .replace('pg15.example.com:5432', new URL(clusters.old.url).host)
      .replace('pg18.example.com:5432', new URL(clusters.new.url).host);
    writeFileSync(config, text);
    proxy = spawn(HAPROXY, ['-db', '-f', config], { stdio: 'ignore' });
    const url = new URL(clusters.old.url);
    url.port = String(port);
    return url.href;
  }

  const settingsOf = (name: Name): Settings => ({ ...OTHERS, DATABASE_URL: clusters[name].url });

  async function query({ url }: Cluster, text: string): Promise<Json[]> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    return (await client.query(text).finally(() => client.end())).rows;
  }

  const runScript = (from: Name, to: Name, ...args: string[]) => runWith({}, from, to, ...args);
  const runWith = (more: Settings, from: Name, to: Name, ...args: string[]) =>
    promisify(execFile)(SCRIPT, args, {
      env: {
        ...more,
        PATH: `${BIN}:${process.env['PATH']}`,
        FROM: clusters[from].url,
        TO: clusters[to].url,
        PATIENCE_SECONDS: '5',
      },
    });

  /** The two ways of docs/operating.md to lead the service to another server. */
  const WAYS = {
    haproxy: (from: Name, to: Name) =>
      `echo "disable server database/${from}; enable server database/${to}; shutdown sessions server database/${from}" | socat - UNIX-CONNECT:${socket}`,
    file: (_: Name, to: Name) => `echo '${clusters[to].url}' >${urlFile}`,
  };

  /** Expects that nothing is lost or skipped while the service goes from one server to the other. Returns what happened. */
  async function replace(
    from: Name,
    to: Name,
    way: keyof typeof WAYS,
    before?: () => Promise<unknown>,
  ): Promise<string> {
    const path = `/${to}`;
    const webhook: Json = await userdirJson(settingsOf(from), [
      'webhook',
      'add',
      '--project',
      project.app_id,
      '--url',
      receiver.url(path),
      '--types',
      'user.created',
    ]);
    receiver.expectSecret(path, webhook.secret);
    const [{ newest }] = await query(clusters[from], 'SELECT max(id)::int AS newest FROM users');
    const follower = await startFollower(balancer.url, project);
    const load = startLoad(balancer.url, project, 4);
    const readers = startReaders(balancer.url, project, questions);
    await sleep(STEADY_MS);
    const started = performance.now();
    await before?.();
    const copied = performance.now();
    const switching = runScript(from, to, 'switch', 'sh', '-c', WAYS[way](from, to));
    if (way === 'file') {
      await vi.waitUntil(() => readFileSync(urlFile, 'utf8').trim() === clusters[to].url, PATIENCE);
      await restartAll();
    }
    await switching;
    const switched = performance.now();
    await vi.waitUntil(() => load.successes.some((at) => at > switched + STEADY_MS), PATIENCE);
    const written = await load.stop();
    const read = await readers.stop();
    // Every user whom the database has, also one whose registration was not acknowledged, is named once.
    const created = (await query(clusters[to], `SELECT id::int FROM users WHERE id > ${newest} ORDER BY id`)).map(
      ({ id }) => id,
    );
    const inOrder = (ids: readonly (number | null)[]) => ids.toSorted((a, b) => Number(a) - Number(b));
    await receiver.until(() => Math.min(receiver.usersAt(path).length, follower.created.length) >= created.length);
    await follower.stop();
    expect(inOrder(follower.created)).toEqual(created);
    expect(inOrder(receiver.usersAt(path))).toEqual(created);
    expect(receiver.faults).toEqual([]);
    expect({ lost: written.lost, missing: written.missing }).toEqual({ lost: 0, missing: 0 });
    const failures = [written, read, follower].map((each) => [...each.failures]);
    expect(failures.flat().filter(([what]) => !RETRYABLE.test(what))).toEqual([]);
    await userdirJson(settingsOf(to), ['webhook', 'remove', '--project', project.app_id, String(webhook.id)]);
    expect(await userdirJson(settingsOf(to), ['totals', 'check'])).toMatchObject({ projects: 1, differences: [] });
    const [{ server_version: version }] = await query(clusters[to], 'SHOW server_version');
    const numberOf = (each: Map<string, number>) => [...each.values()].reduce((sum, count) => sum + count, 0);
    return (
      `${version}: copied in ${Math.round(copied - started)} ms, switch ${Math.round(switched - copied)} ms, longest time without a login ${written.gapMs} ms, ` +
      `slowest login or get ${load.longest()} ms, slowest read ${readers.longest()} ms; ${written.acknowledged} logins, ${numberOf(written.failures)} answered with 503, 0 lost; ` +
      `${read.answers} reads, ${numberOf(read.failures)} answered with 503; ${created.length} changes, ${numberOf(follower.failures)} pages answered with 503`
    );
  }

  test('loses and skips nothing', async ({ annotate }) => {
    await expect(runWith({ FROM_FOR_TO: 'host=127.0.0.1 port=1' }, 'old', 'new', 'copy')).rejects.toThrow(
      'could not connect',
    );
    const before = async () => {
      await runScript('old', 'new', 'copy');
      // Whoever is not led away would read what the old one learns later.
      const words = ['switch', 'true'];
      await expect(runWith({ LEAVING_SECONDS: '1' }, 'old', 'new', ...words)).rejects.toThrow('still uses FROM');
    };
    await annotate(await replace('old', 'new', 'haproxy', before));
  });

  test('goes back, and loses and skips nothing', async ({ annotate }) => {
    await annotate(await replace('new', 'old', 'file'));
  });

  test('gives up a switch whose target does not keep up, and goes on', async () => {
    await query(clusters.new, 'SET TRANSACTION READ WRITE; ALTER SUBSCRIPTION userdir_upgrade DISABLE');
    const load = startLoad(balancer.url, project, 2);
    await sleep(STEADY_MS);
    await expect(runScript('old', 'new', 'switch', 'false')).rejects.toThrow('FROM takes writes again.');
    const before = performance.now();
    await vi.waitUntil(() => load.successes.some((at) => at > before + STEADY_MS), PATIENCE);
    const { lost, failures } = await load.stop();
    expect(lost).toBe(0);
    expect([...failures.keys()].filter((what) => !RETRYABLE.test(what))).toEqual([]);
    await query(clusters.new, 'SET TRANSACTION READ WRITE; ALTER SUBSCRIPTION userdir_upgrade ENABLE');
  });

  test('leaves nothing of the replication behind', async () => {
    await runScript('old', 'new', 'end');
    for (const cluster of Object.values(clusters))
      expect(
        await query(
          cluster,
          `SELECT (SELECT count(*)::int FROM pg_publication) AS publications, (SELECT count(*)::int FROM pg_subscription) AS subscriptions,
                  (SELECT count(*)::int FROM pg_replication_slots) AS slots`,
        ),
      ).toEqual([{ publications: 0, subscriptions: 0, slots: 0 }]);
  });
});
