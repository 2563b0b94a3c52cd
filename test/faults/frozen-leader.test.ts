import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import { type Credentials, type RunningServer, recordLogin, startServer, userdirJson } from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';
import { isNightly } from '../support/nightly.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { PATIENCE } from '../support/waiting.js';
import { graphql } from '../support/writers.js';

/** The process that publishes changes is frozen (SIGSTOP), or is not what it seems. */

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });
const LOCK = 1_968_399_458;
const role = `userdir_test_weak_${process.pid}`;

describe.runIf(inject('engine') === 'postgres')('on PostgreSQL', () => {
  let database: TestDatabase;
  let settings: Record<string, string>;
  let project: Credentials;
  let admin: pg.Client;
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await startReceiver();
    database = await copyTemplate();
    settings = { ...database.env, DEMO: 'off', LOG_LEVEL: 'warn', WEBHOOKS_ALLOW_PRIVATE: 'on' };
    admin = new pg.Client(database.env['DATABASE_URL']);
    await admin.connect();
  });
  beforeEach(async () => {
    project = await userdirJson(settings, ['project', 'create', '--name', 'Test']);
  });
  afterAll(async () => {
    const { rows } = await admin.query(`SELECT FROM pg_roles WHERE rolname = '${role}'`);
    if (rows.length > 0) await admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
    await admin?.end();
    await receiver?.close();
    await database?.drop();
  });

  /** The sessions that hold the lock of the one that publishes. */
  async function leaders(): Promise<number[]> {
    const { rows } = await admin.query(
      `SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
       WHERE l.locktype = 'advisory' AND l.objid = ${LOCK} AND l.granted`,
    );
    return rows.map(({ pid }) => pid);
  }
  const login = async (server: RunningServer, authValue: string) =>
    (await recordLogin(server.url, project, { authMethod: 'passkey', authValue })).body.data.recordLogin.user.id;
  const readUsers = async (server: RunningServer): Promise<string[]> =>
    (await graphql(server.url, project, '{ changes(first: 1000) { nodes { userId } } }')).body.data.changes.nodes.map(
      ({ userId }: Json) => userId,
    );
  const doctor = async () =>
    (await userdirJson(settings, ['doctor', '--no-totals'])).findings.find(({ id }: Json) => id === 'changes');

  test.runIf(isNightly)('a page has what was committed before it, also if the leader ends meanwhile', async () => {
    const first = await startServer(settings);
    const known = await login(first, 'known');
    expect(await readUsers(first)).toContain(known);
    await first.stop();
    // This session has the lock of the leader, and publishes nothing.
    const ending = new pg.Client(database.env['DATABASE_URL']);
    await ending.connect();
    await ending.query(`SELECT pg_advisory_lock(${LOCK})`);
    const server = await startServer(settings);
    const hasJustLooked = async () =>
      (
        await admin.query(
          `SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
           AND query LIKE '%pg_locks%' AND query_start > clock_timestamp() - interval '50 ms'`,
        )
      ).rows.length > 0;
    await vi.waitUntil(hasJustLooked, { ...PATIENCE, interval: 5 });
    const id = await login(server, 'leaving');
    const page = readUsers(server);
    await sleep(50);
    await ending.end();
    expect(await page).toContain(id);
    await server.stop();
  });

  test('another process ends the session of a frozen leader; the feed and webhooks go on, and it wakes up as a follower', async () => {
    const [frozen, other] = [await startServer(settings), await startServer(settings)];
    const url = receiver.url('/frozen');
    const { secret } = await userdirJson(settings, ['webhook', 'add', '--project', project.app_id, '--url', url]);
    receiver.expectSecret('/frozen', secret);
    const ids = [await login(frozen, 'a')];
    await receiver.until(() => receiver.usersAt('/frozen').length === 1);
    const [leader] = await leaders();
    expect((await doctor()).found).toMatch(
      new RegExp(`process ${leader} of role \\S+ at 127\\.0\\.0\\.1 leads it for \\d+ s, silent for 0\\.\\d s`),
    );
    frozen.process.kill('SIGSTOP');
    // Nothing publishes this until another process leads.
    ids.push(await login(other, 'b'));
    await vi.waitUntil(async () => (await doctor()).status === 'warning', PATIENCE);
    expect((await doctor()).found).toContain('its process is frozen');
    await other.logged('so it was ended');
    await vi.waitUntil(async () => (await readUsers(other)).length === 2, PATIENCE);
    await receiver.until(() => receiver.usersAt('/frozen').length === 2);
    const now = await leaders();
    expect(now).toHaveLength(1);
    expect(now).not.toContain(leader);
    frozen.process.kill('SIGCONT');
    ids.push(await login(frozen, 'c'));
    await vi.waitUntil(async () => (await readUsers(frozen)).length === 3, PATIENCE);
    expect(await readUsers(other)).toEqual(ids);
    await receiver.until(() => receiver.usersAt('/frozen').length === 3);
    expect(await leaders()).toEqual(now);
    expect((await doctor()).status).toBe('passed');
    await frozen.stop();
    await other.stop();
  });

  test.runIf(isNightly)(
    'a session that a pooler may have lent to another client is never ended, and neither is one that works',
    async () => {
      const session = new pg.Client(database.env['DATABASE_URL']);
      await session.connect();
      await session.query(`SELECT pg_try_advisory_lock(${LOCK})`);
      // As if the pooler had copied the name of a leader to another session.
      await session.query(`SET application_name = 'userdir leads the feed: 1'`);
      const server = await startServer(settings);
      await server.logged('A pooler may have lent it to another client');
      expect((await session.query('SELECT 1 AS alive')).rows).toEqual([{ alive: 1 }]);
      await session.end();
      await vi.waitUntil(async () => (await leaders()).length === 1, PATIENCE);
      await server.stop();
    },
  );

  test.runIf(isNightly)('a role that may not end the session of the leader says so', async () => {
    await admin.query(`CREATE ROLE ${role} LOGIN`);
    await admin.query(
      `GRANT ALL ON ALL TABLES IN SCHEMA public TO ${role}; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO ${role}`,
    );
    const url = Object.assign(new URL(settings['DATABASE_URL'] as string), { username: role }).href;
    const [leader, weak] = [await startServer(settings), await startServer({ ...settings, DATABASE_URL: url })];
    await weak.logged('this role may not see whether it is alive');
    await weak.stop();
    // It may see, and not end.
    await admin.query(`GRANT pg_monitor TO ${role}`);
    leader.process.kill('SIGSTOP');
    const seeing = await startServer({ ...settings, DATABASE_URL: url });
    await seeing.logged('This role may not end it.');
    expect(await leaders()).toHaveLength(1);
    leader.process.kill('SIGCONT');
    await leader.stop();
    await seeing.stop();
  });
});
