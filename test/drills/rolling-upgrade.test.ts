import { existsSync, mkdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import { type Balancer, HAPROXY, SHUTDOWN_DELAY_MS, startBalancer } from '../support/balancer.js';
import { type Cluster, createCluster, freePort, hasPostgres } from '../support/cluster.js';
import {
  type Command,
  type Credentials,
  lookingOn,
  outcomeOf,
  type RunningServer,
  type Settings,
  spawnUserdir,
  startServer,
  userdir,
  userdirJson,
} from '../support/command.js';
import { queryPostgres } from '../support/engines.js';
import { startFollower, startReaders, startStream } from '../support/readers.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { makeRelease, type Release } from '../support/release.js';
import { startLoad } from '../support/writers.js';

/** Two processes behind HAProxy go to another release one after the other, under load, while its migration runs; and back, where the schema allows it. */

const canRun = hasPostgres && existsSync(HAPROXY) && existsSync('/usr/bin/socat');
/** By hand, UPGRADE_USERS=10000000. */
const { UPGRADE_USERS = '30000' } = process.env;
/** Load before a step, and after it. */
const STEADY_MS = 2_000;
/** A thousand users take a second at most. */
const TIMEOUT_MS = 240_000 + Number(UPGRADE_USERS);
vi.setConfig({ testTimeout: TIMEOUT_MS, hookTimeout: TIMEOUT_MS });
const PATIENCE = { timeout: TIMEOUT_MS, interval: 50 };

/** Each kind of step, on the largest tables. */
const MIGRATION = `
-- step: adds a column
-- locks: users (ACCESS EXCLUSIVE)
ALTER TABLE users ADD COLUMN shoe_size int;

-- step without a transaction: makes an index of those without a size
-- locks: users (SHARE UPDATE EXCLUSIVE)
CREATE INDEX CONCURRENTLY IF NOT EXISTS users_shoeless_idx ON users (project_id, id) WHERE shoe_size IS NULL;

-- step in batches: gives everybody a size
-- locks: users (ROW EXCLUSIVE)
UPDATE users SET shoe_size = 40 WHERE (project_id, id) IN (SELECT project_id, id FROM users WHERE shoe_size IS NULL ORDER BY project_id, id LIMIT 1000);
`;

const LEAVES_OLDER = `
-- step: leaves older releases behind
CREATE OR REPLACE FUNCTION oldest_release() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN '99.1.0';
`;

/** What begins when. */
interface Step {
  readonly what: string;
  readonly since: number;
}

describe.skipIf(!canRun)('two processes behind HAProxy', () => {
  const folder = join(tmpdir(), `userdir-rolling-${process.pid}`);
  let newer: Release;
  let newest: Release;
  let cluster: Cluster;
  let balancer: Balancer;
  let settings: Settings;
  let places: { readonly port: number; server: RunningServer }[];
  let receiver: Receiver;
  let project: Credentials;
  /** Of the release that runs commands. */
  let command: Command | undefined;

  beforeAll(async () => {
    mkdirSync(folder);
    newer = makeRelease('99.0.0', { '20990101000000_shoe_sizes': MIGRATION });
    newest = makeRelease('99.1.0', {
      '20990101000000_shoe_sizes': MIGRATION,
      '20990102000000_leaves_older': LEAVES_OLDER,
    });
    cluster = await createCluster();
    settings = {
      DATABASE_URL: cluster.url,
      DATA_DIR: folder,
      LOG_LEVEL: 'fatal',
      DEMO: 'off',
      WEBHOOKS_ALLOW_PRIVATE: 'on',
      SHUTDOWN_DELAY_MS: String(SHUTDOWN_DELAY_MS),
    };
    project = await userdirJson(settings, ['project', 'create', '--name', 'Drill']);
    await userdirJson(settings, ['seed', '--project', project.app_id, '--users', UPGRADE_USERS]);
    receiver = await startReceiver();
    places = [];
    const ports = [await freePort(), await freePort()] as const;
    for (const port of ports) places.push({ port, server: await start(port) });
    balancer = await startBalancer(folder, ports);
  });
  afterAll(async () => {
    await Promise.all((places ?? []).map(({ server }) => server.stop()));
    balancer?.process.kill();
    await receiver?.close();
    await cluster?.drop();
    newer?.remove();
    newest?.remove();
    await rm(folder, { recursive: true });
  });

  const start = (port: number, command?: Command) => startServer({ ...settings, PORT: String(port) }, command);

  async function runJson(...args: string[]): Promise<Json> {
    const { code, stdout, stderr } = await outcomeOf(spawnUserdir(settings, [...args, '--json'], command));
    expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
    return JSON.parse(stdout);
  }

  const query = (text: string) => queryPostgres(cluster.url, text);

  async function migrate(command: Command): Promise<Step[]> {
    const child = spawnUserdir(settings, ['migrate'], lookingOn(command));
    const steps: Step[] = [];
    child.stderr.on('data', (text) => {
      for (const [, what = ''] of String(text).matchAll(/step \d+ of \d+: (.*)/g))
        steps.push({ what, since: performance.now() });
    });
    const { code, stderr } = await outcomeOf(child);
    expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
    return steps;
  }

  /** Replaces one process after the other. */
  async function replaceAll(command?: Command): Promise<Step> {
    const since = performance.now();
    for (const place of places) {
      expect((await place.server.stop()).code).toBe(0);
      place.server = await start(place.port, command);
      await balancer.bothUp();
    }
    return { what: 'replaces processes', since };
  }

  /**
   * Does `work` under load, of which nothing fails, nothing is lost, and nothing is skipped. Returns what happened. A request that waits for
   * longer than the statement timeout fails; how long the slowest took depends on the machine, and is only told.
   */
  async function underLoad(name: string, work: () => Promise<Step[]>): Promise<string> {
    const at = balancer.url;
    const path = `/${name}`;
    const [{ newest }] = await query('SELECT max(id)::int AS newest FROM users');
    const words = ['--project', project.app_id, '--types', 'user.created', '--url', receiver.url(path)];
    const webhook: Json = await runJson('webhook', 'add', ...words);
    receiver.expectSecret(path, webhook.secret);
    const [wallet] = await query('SELECT user_id::int, public_key FROM accounts ORDER BY id LIMIT 1');
    const questions = [
      {
        path: '/server/wallets/verify',
        body: { user_id: wallet.user_id, address: wallet.public_key },
        contains: '"exists":true',
      },
      { path: '/server/users?limit=20&page=50', contains: '"auth_value"' },
      { path: '/server/users/count', contains: 'total_user' },
    ];
    const followers = [await startFollower(at, project), await startStream(at, project)] as const;
    const load = startLoad(at, project, 3);
    const readers = startReaders(at, project, questions, 2);
    await sleep(STEADY_MS);
    const steps = await work();
    const ended = performance.now();
    await sleep(STEADY_MS);
    const [written, read] = [await load.stop(), await readers.stop()];
    const created = (await query(`SELECT id::int FROM users WHERE id > ${newest} ORDER BY id`)).map(({ id }) => id);
    const told = () => [receiver.usersAt(path), ...followers.map((each) => each.created)];
    await vi.waitUntil(() => told().every((users) => users.length >= created.length), PATIENCE);
    const streams = await followers[1].stop();
    await followers[0].stop();
    for (const users of told()) expect(users.toSorted((a, b) => Number(a) - Number(b))).toEqual(created);
    expect(receiver.faults).toEqual([]);
    expect([written, read, ...followers].map(({ failures }) => [...failures])).toEqual([[], [], [], []]);
    expect({ lost: written.lost, missing: written.missing }).toEqual({ lost: 0, missing: 0 });
    expect(written.acknowledged).toBe(created.length);
    expect(await runJson('totals', 'check')).toMatchObject({ projects: 1, differences: [] });
    await runJson('webhook', 'remove', '--project', project.app_id, String(webhook.id));
    const longest = (since: number, until: number) =>
      Math.max(load.longest(since, until), readers.longest(since, until));
    const waits = steps.map(({ what, since }, index) => ({
      what,
      ms: longest(since, steps[index + 1]?.since ?? ended),
    }));
    const before = longest(0, steps[0]?.since ?? ended);
    const slowest = [`before ${before} ms`, ...waits.map(({ what, ms }) => `${what} ${ms} ms`)].join(', ');
    return `slowest request: ${slowest}; ${written.acknowledged} logins, ${read.answers} reads, ${created.length} changes over ${streams} streams, 0 failed`;
  }

  test('go to a newer release, and no request fails', async ({ annotate }) => {
    const happened = await underLoad('newer', async () => {
      const steps = await migrate(newer.command);
      return [...steps, await replaceAll(newer.command)];
    });
    expect(await query('SELECT count(*)::int FROM users WHERE shoe_size IS NULL AND id <= 1000')).toEqual([
      { count: 0 },
    ]);
    await annotate(happened);
  });

  test('go back to the older release, which may serve the newer schema', async ({ annotate }) => {
    await annotate(await underLoad('older', async () => [await replaceAll()]));
  });

  test('go to a release that leaves older ones behind, which end by themselves', async ({ annotate }) => {
    const [first, second] = places as [(typeof places)[0], (typeof places)[0]];
    const happened = await underLoad('newest', async () => {
      const since = performance.now();
      expect((await first.server.stop()).code).toBe(0);
      first.server = await start(first.port, newest.command);
      expect((await second.server.outcome).code).toBe(3);
      command = newest.command;
      second.server = await start(second.port, newest.command);
      await balancer.bothUp();
      return [{ what: 'replaces processes', since }];
    });
    await annotate(happened);
    // Nobody goes back.
    const { code, stderr } = await userdir(settings, ['serve']);
    expect([code, stderr]).toEqual([3, expect.stringContaining('may only be used by userdir 99.1.0 or newer')]);
  });
});
