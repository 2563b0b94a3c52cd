import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import { type Cluster, createCluster, hasPostgres } from '../support/cluster.js';
import {
  type Credentials,
  call,
  outcomeOf,
  type RunningServer,
  recordLogin,
  spawnUserdir,
  startServer,
  userdir,
  userdirJson,
} from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';
import { PATIENCE } from '../support/waiting.js';

/**
 * After a crash, every acknowledged write is there, and no write is partial. CRASHES sets the number of crashes of each
 * kind; each happens at a random moment.
 */

const CRASHES = Number(process.env['CRASHES'] ?? 1);
vi.setConfig({ testTimeout: 60_000 + CRASHES * 30_000, hookTimeout: 120_000 });

/** The acknowledged writes. A request without an answer may or may not have been committed. */
interface Ledger {
  /** How often each has logged in. */
  readonly registered: Map<string, number>;
  readonly removed: Set<string>;
  readonly unknown: Set<string>;
  /** Second logins that were sent with a key, which is the value itself, and not answered. */
  readonly unanswered: Set<string>;
}

const newLedger = (): Ledger => ({
  registered: new Map(),
  removed: new Set(),
  unknown: new Set(),
  unanswered: new Set(),
});
/** So many at once share statements. */
const WRITERS = 16;
let serial = 0;

/** Registers users, of which every third is removed and the others log in again with a key, until the service no longer answers. */
async function write(url: string, project: Credentials, ledger: Ledger): Promise<void> {
  for (;;) {
    serial += 1;
    const value = `person.${serial}@example.com`;
    ledger.unknown.add(value);
    const isRemoved = serial % 3 === 0;
    const logIn = async (key: string | null = null) => {
      const { status, body } = await recordLogin(url, project, { authMethod: 'email', authValue: value }, key);
      if (status !== 200 || body.errors) return null;
      ledger.registered.set(value, body.data.recordLogin.user.loginCount);
      ledger.unknown.delete(value);
      return body.data.recordLogin.user.id;
    };
    const id = await logIn();
    if (id === null) return;
    if (!isRemoved) {
      ledger.unanswered.add(value);
      if ((await logIn(value)) === null) return;
      ledger.unanswered.delete(value);
      continue;
    }
    ledger.unknown.add(value);
    const removal = await call(url, project, `/server/users/${id}`, { method: 'DELETE' });
    if (removal.status !== 200) return;
    ledger.removed.add(value);
    ledger.unknown.delete(value);
  }
}

const told = ({ registered, removed }: Ledger) =>
  `${CRASHES} crashes, ${registered.size} registrations and ${removed.size} removals acknowledged`;

async function expectLedger(url: string, project: Credentials, ledger: Ledger): Promise<void> {
  for (const value of ledger.unanswered) {
    const { body } = await recordLogin(url, project, { authMethod: 'email', authValue: value }, value);
    // Once, whether it was committed before the crash or now.
    expect(body.data.recordLogin.user.loginCount).toBe(2);
    ledger.registered.set(value, 2);
    ledger.unknown.delete(value);
  }
  ledger.unanswered.clear();
  const present = new Map<string, number>();
  let total = 0;
  for (let page = 1; ; page += 1) {
    const { body } = await call(url, project, `/server/users?limit=100&page=${page}`);
    for (const user of body.result.users) present.set(user.auth_value, user.login_count);
    total = body.result.total_user;
    if (body.result.users.length < 100) break;
  }
  const certain = (value: string) => !ledger.unknown.has(value);
  const lost = [...ledger.registered].filter(
    ([value, count]) => certain(value) && !ledger.removed.has(value) && present.get(value) !== count,
  );
  const risen = [...ledger.removed].filter((value) => certain(value) && present.has(value));
  const strangers = [...present.keys()].filter((value) => certain(value) && !ledger.registered.has(value));
  expect({ lost, risen, strangers }).toEqual({ lost: [], risen: [], strangers: [] });
  expect(total).toBe(present.size);
}

/** An import of 3,000 users, running or finished when `crash` happens; all of it is there or nothing. */
const IMPORTED = 3_000;
const lines = (round: number) =>
  Array.from(
    { length: IMPORTED },
    (_, n) => `${JSON.stringify({ auth_method: 'passkey', auth_value: `${round}-${n}` })}\n`,
  ).join('');

const anyMoment = (longestMs: number) => sleep(Math.random() * longestMs);

/** Waits for one more acknowledged write, then for a random time. */
async function anyMomentOf({ registered }: Ledger): Promise<void> {
  const before = registered.size;
  await vi.waitUntil(() => registered.size > before, PATIENCE);
  await anyMoment(1_500);
}

describe('the server is killed', () => {
  let database: TestDatabase;
  let server: RunningServer;
  let project: Credentials;
  beforeAll(async () => {
    database = await copyTemplate();
    project = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
  });
  afterAll(() => database.drop());

  test('during registrations and removals: acknowledged writes are there, and the totals are exact', async ({
    annotate,
  }) => {
    const ledger = newLedger();
    for (let crash = 0; crash < CRASHES; crash += 1) {
      server = await startServer({ ...database.env, DEMO: 'off', LOG_LEVEL: 'silent' });
      const writers = Array.from({ length: WRITERS }, () => write(server.url, project, ledger).catch(() => undefined));
      await anyMomentOf(ledger);
      await server.stop('SIGKILL');
      await Promise.all(writers);
      server = await startServer({ ...database.env, DEMO: 'off', LOG_LEVEL: 'silent' });
      await expectLedger(server.url, project, ledger);
      await server.stop();
    }
    expect(ledger.registered.size).toBeGreaterThan(0);
    await annotate(told(ledger));
    expect(await userdirJson(database.env, ['totals', 'check'])).toMatchObject({ differences: [] });
  });

  test('or the import command, during an import: all of it is there or nothing', async () => {
    for (let crash = 0; crash < CRASHES; crash += 1) {
      const { app_id }: Json = await userdirJson(database.env, ['project', 'create', '--name', 'Import']);
      const child = spawnUserdir(database.env, ['user', 'import', '--project', app_id]);
      const outcome = outcomeOf(child);
      child.stdin.end(lines(crash));
      await anyMoment(2_500);
      child.kill('SIGKILL');
      await outcome;
      const imported = await userdirJson(database.env, ['project', 'list']);
      expect([0, IMPORTED]).toContain(imported.find((each: Json) => each.app_id === app_id).total_user);
    }
    expect((await userdir(database.env, ['totals', 'check'])).code).toBe(0);
  });
});

describe.runIf(inject('engine') === 'postgres' && hasPostgres)('PostgreSQL is killed', () => {
  let cluster: Cluster;
  let settings: Record<string, string>;
  let project: Credentials;
  beforeAll(async () => {
    cluster = await createCluster();
    settings = { DATABASE_URL: cluster.url, DEMO: 'off', LOG_LEVEL: 'silent', DATA_DIR: '/nonexistent' };
    project = await userdirJson(settings, ['project', 'create', '--name', 'Test']);
  });
  afterAll(() => cluster?.drop());

  test('while the server keeps running: acknowledged writes are there, and the service recovers by itself', async ({
    annotate,
  }) => {
    const server = await startServer(settings);
    const ledger = newLedger();
    for (let crash = 0; crash < CRASHES; crash += 1) {
      const writers = Array.from({ length: WRITERS }, () => write(server.url, project, ledger));
      await anyMomentOf(ledger);
      await cluster.kill();
      await Promise.all(writers);
      await cluster.start();
      await vi.waitUntil(async () => (await fetch(`${server.url}/readyz`)).ok, PATIENCE);
      await expectLedger(server.url, project, ledger);
    }
    expect(ledger.registered.size).toBeGreaterThan(0);
    await annotate(told(ledger));
    expect((await server.stop()).code).toBe(0);
    expect((await userdir(settings, ['totals', 'check'])).code).toBe(0);
  });

  test('during an import: all of it is there or nothing', async () => {
    for (let crash = 0; crash < CRASHES; crash += 1) {
      const { app_id }: Json = await userdirJson(settings, ['project', 'create', '--name', 'Import']);
      const child = spawnUserdir(settings, ['user', 'import', '--project', app_id]);
      const outcome = outcomeOf(child);
      child.stdin.end(lines(crash));
      await anyMoment(2_500);
      await cluster.kill();
      const { code } = await outcome;
      await cluster.start();
      const projects = await userdirJson(settings, ['project', 'list']);
      const { total_user: imported } = projects.find((each: Json) => each.app_id === app_id);
      expect([0, IMPORTED]).toContain(imported);
      if (code === 0) expect(imported).toBe(IMPORTED);
    }
    expect((await userdir(settings, ['totals', 'check'])).code).toBe(0);
  });
});
