import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import { parseConfig } from '#dist/config/config.js';
import { createContext } from '#dist/context.js';
import { type ChangeCursor, changeCursor } from '#dist/domain/changes.js';
import { userFilter } from '#dist/domain/filters.js';
import { parse } from '#dist/domain/parse.js';
import { ethereumAddress } from '../support/addresses.js';
import { type GraphQLAnswer, startTestApp, type TestApp, type TestProject } from '../support/app.js';
import { type Cluster, createCluster, hasPostgres } from '../support/cluster.js';
import { userdir } from '../support/command.js';
import { PATIENCE } from '../support/waiting.js';

/** What is read on a standby and what never is, and that answers of a standby that is behind are right for their time. */

/** Long, so that a standby whose replay is paused stays in use. */
const MAX_LAG_MS = 240_000;
const EVERYONE = userFilter({});

describe.runIf(inject('engine') === 'postgres' && hasPostgres)('with DATABASE_REPLICA_URL', () => {
  let primary: Cluster;
  let standby: Cluster;
  let onPrimary: pg.Client;
  let onStandby: pg.Client;
  let env: Record<string, string>;
  let app: TestApp;
  let project: TestProject;
  let userId: string;

  beforeAll(async () => {
    primary = await createCluster();
    standby = await primary.createStandby({ isSynchronous: false });
    onPrimary = await connect(primary);
    onStandby = await connect(standby);
    env = {
      DATABASE_URL: primary.url,
      DATABASE_REPLICA_URL: standby.url,
      DATABASE_REPLICA_MAX_LAG_MS: String(MAX_LAG_MS),
      REQUEST_TIMEOUT_MS: String(2 * MAX_LAG_MS),
    };
    app = await startTestApp({ ownDatabase: true, env });
    project = await app.createProject();
    userId = await logIn('first@example.com');
    await untilUsed();
  });
  afterAll(async () => {
    await app?.close();
    await onPrimary?.end();
    await onStandby?.end();
    await standby?.drop();
    await primary?.drop();
  });

  async function connect({ url }: Cluster): Promise<pg.Client> {
    const client = new pg.Client(url);
    // A server that is restarted ends it.
    client.on('error', () => undefined);
    await client.connect();
    return client;
  }

  async function logIn(authValue: string): Promise<string> {
    const { data } = await project.graphql(
      'mutation ($value: String!) { recordLogin(input: { authMethod: "email", authValue: $value }) { user { id } } }',
      { value: authValue },
    );
    return data.recordLogin.user.id;
  }

  async function untilUsed(): Promise<void> {
    await vi.waitUntil(async () => {
      await project.rest('/server/users/count');
      return app.context.db.replica?.usage().isUsed;
    }, PATIENCE);
  }

  /** Waits until the standby has all that is on the primary now. */
  async function untilReplayed(): Promise<void> {
    const { rows } = await onPrimary.query('SELECT pg_current_wal_flush_lsn() AS position');
    const text = `SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS is_there`;
    await vi.waitUntil(async () => (await onStandby.query(text, [rows[0].position])).rows[0].is_there, PATIENCE);
  }

  const scope = () => app.context.services.projects.getScope(project.appId);
  const exportUsers = async () => {
    const lines: string[] = [];
    const { cursor } = await app.context.services.transfers.exportUsers(await scope(), {
      write: async (chunk) => void lines.push(...chunk.trim().split('\n')),
      signal: new AbortController().signal,
    });
    return { cursor, users: lines.map((line) => JSON.parse(line).auth_value as string) };
  };
  const operator = { name: 'ada', role: 'admin', projects: null } as const;

  const WHERE: [what: string, server: 'replica' | 'primary', read: () => Promise<unknown>][] = [
    ['a page', 'replica', () => project.rest('/server/users?limit=5')],
    ['a filtered page', 'replica', () => project.rest('/server/users?login_method=email&start_date=2020-01-01')],
    ['a count', 'replica', () => project.rest('/server/users/count')],
    [
      'a page of GraphQL',
      'replica',
      () => project.graphql('{ userPage { users { id accounts { network } } totalUser } }'),
    ],
    ['a connection', 'replica', () => project.graphql('{ users(first: 2) { nodes { id } totalCount } }')],
    ['a count of GraphQL', 'replica', () => project.graphql('{ userCount }')],
    ['a page of changes', 'replica', () => project.graphql(CHANGES, { after: null })],
    ['an audit trail', 'replica', async () => app.context.services.audit.listPage(await scope(), {}, FIRST)],
    [
      'the projects of the dashboard',
      'replica',
      () => app.context.services.projects.openProjects(operator, { search: null, after: null, limit: 5 }),
    ],
    ['totals by method', 'replica', async () => app.context.services.statistics.totalsByMethod(await scope())],
    ['a user', 'primary', () => project.rest(`/server/users/${userId}`)],
    ['users by id', 'primary', () => project.graphql('query ($ids: [ID!]!) { usersByIds(ids: $ids) { id } }', ids())],
    ['a search', 'primary', () => project.rest('/server/users/search?email=first@example.com')],
    ['a verification', 'primary', () => project.rest('/server/wallets/verify', VERIFY)],
    ['a login', 'primary', () => logIn('first@example.com')],
    ['a removal', 'primary', async () => project.rest(`/server/users/${await logIn('x@y.z')}`, { method: 'DELETE' })],
    ['the secrets', 'primary', async () => app.context.services.secrets.listSecrets(await scope())],
  ];
  const FIRST = { after: null, limit: 5 };
  const ids = () => ({ ids: [userId] });
  const VERIFY = {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ address: ethereumAddress(1) }),
  };

  test.each(WHERE)('%s is read on the %s', async (_, server, read) => {
    await untilUsed();
    app.statements.length = 0;
    app.replicaStatements.length = 0;
    const answer = await read();
    expect((answer as Partial<GraphQLAnswer> | undefined)?.errors).toBeUndefined();
    // Not what may happen at any time: looking up projects and credentials, folding totals, publishing, deleting and sending changes.
    const own = app.statements.filter(
      (sql) =>
        !/JOIN app_secrets|fold_tallies|publish_changes|publish_settled|DELETE FROM changes|webhooks|FROM projects (WHERE app_id|p, LATERAL)|idempotency_keys/.test(
          sql,
        ),
    );
    const counted = { primary: own.length > 0, replica: app.replicaStatements.length > 0 };
    expect(counted).toEqual({ primary: server === 'primary', replica: server === 'replica' });
  });

  test('an export is recorded on the primary and read on the standby', async () => {
    await untilUsed();
    app.statements.length = 0;
    app.replicaStatements.length = 0;
    await exportUsers();
    const isOf = (pattern: RegExp) => (sql: string) => pattern.test(sql);
    expect(app.statements.some(isOf(/INSERT INTO audit/))).toBe(true);
    expect(app.statements.some(isOf(/BEGIN|changes_feed/))).toBe(false);
    expect(app.replicaStatements.some(isOf(/changes_feed/))).toBe(true);
  });

  test('nothing that carries a secret is sent to the standby', () => {
    expect(app.replicaStatements.filter((sql) => /app_secrets|operator/.test(sql))).toEqual([]);
  });

  describe('that is behind', () => {
    beforeEach(async () => {
      await untilUsed();
      await untilReplayed();
      await onStandby.query('SELECT pg_wal_replay_pause()');
    });
    afterEach(async () => {
      await onStandby.query('SELECT pg_wal_replay_resume()');
      await untilReplayed();
    });

    test('a list, its total and its count are of one moment, and a user is current', async () => {
      const before = await project.rest('/server/users/count');
      const id = await logIn(`${performance.now()}@example.com`);
      const page = await project.rest('/server/users?limit=100');
      const count = await project.rest('/server/users/count');
      expect(count.body).toEqual(before.body);
      expect(page.body.result.users.map((user: { id: number }) => String(user.id))).not.toContain(id);
      expect(page.body.result.total_user).toBe(page.body.result.users.length);
      expect((await project.rest(`/server/users/${id}`)).status).toBe(200);
    });

    test('an export has the cursor of its own moment: what is missing follows', async () => {
      const missing = await logIn(`${performance.now()}@example.com`);
      const { cursor, users } = await exportUsers();
      await onStandby.query('SELECT pg_wal_replay_resume()');
      await untilReplayed();
      // Changes from just before may come twice, because they are published a little later.
      await vi.waitUntil(async () => {
        const { data } = await project.graphql(CHANGES, { after: cursor });
        return data.changes.nodes.at(-1)?.userId === missing;
      }, PATIENCE);
      const { total_user: total } = (await project.rest('/server/users?limit=1')).body.result;
      expect(users).toHaveLength(total - 1);
    });

    test('a command exports what was committed before it began, though the standby lacks it', async () => {
      const value = `${performance.now()}@example.com`;
      await logIn(value);
      const { stdout } = await userdir(env, ['user', 'export', '--project', project.appId]);
      expect(stdout).toContain(value);
    });

    test('a page of changes stays behind without an error, and a cursor that the standby does not know is not expired', async () => {
      // In another process, which reads on the primary.
      const context = createContext(parseConfig({ DATABASE_URL: primary.url }), { command: 'test' });
      await context.open();
      const { changes } = context.services;
      const end = await changes.listChanges(await scope(), { after: 'now', types: null, first: 10 });
      const id = await logIn(`${performance.now()}@example.com`);
      const next = await vi.waitUntil(async () => {
        const page = await changes.listChanges(await scope(), { after: cursorOf(end.end), types: null, first: 10 });
        return page.changes.length > 0 && page;
      }, PATIENCE);
      expect(next.changes.map(({ userId }) => String(userId))).toEqual([id]);
      const { data } = await project.graphql(CHANGES, { after: end.end });
      expect(data.changes).toMatchObject({ nodes: [], pageInfo: { endCursor: end.end, hasNextPage: false } });
      // With a new start of the primary a new timeline begins, which the standby has not replayed.
      await primary.kill();
      await primary.start();
      const last = await vi.waitUntil(async () => {
        await logIn(`${performance.now()}@example.com`).catch(() => undefined);
        const page = await changes
          .listChanges(await scope(), { after: 'now', types: null, first: 10 })
          .catch(() => null);
        return page !== null && cursorOf(page.end).timeline !== cursorOf(end.end).timeline && page.end;
      }, PATIENCE);
      await untilUsed();
      const answer = await project.graphql(CHANGES, { after: last });
      expect(answer.errors).toBeUndefined();
      await context.close();
      onPrimary = await connect(primary);
    });
  });

  const cursorOf = (text: string) => parse(changeCursor('after'), text) as ChangeCursor;
  const CHANGES = `query ($after: String) {
    changes(first: 10, after: $after, types: [USER_CREATED]) { nodes { type userId } pageInfo { endCursor hasNextPage } }
  }`;

  test('a cursor of now is given when every list has what is before it', async () => {
    const own = await startTestApp({ ownDatabase: true, env: { ...env, DATABASE_REPLICA_MAX_LAG_MS: '1500' } });
    const other = await own.createProject();
    const asked = performance.now();
    await other.graphql(CHANGES, { after: 'now' });
    expect(performance.now() - asked).toBeGreaterThan(1_500);
    await own.close();
  });

  test('doctor finds the standby, and what is no standby or another database', async () => {
    const finding = async (url: string) => {
      const { stdout } = await userdir({ ...env, DATABASE_REPLICA_URL: url }, ['doctor', '--json', '--no-totals']);
      return JSON.parse(stdout).findings.find(({ id }: { id: string }) => id === 'replica');
    };
    expect(await finding(standby.url)).toMatchObject({
      status: 'warning',
      found: expect.stringMatching(/^the standby has replayed everything after \d+ ms; hot_standby_feedback is off/),
    });
    expect(await finding(primary.url)).toMatchObject({
      status: 'failed',
      found: expect.stringContaining('not a standby'),
    });
    const elsewhere = new URL(standby.url);
    elsewhere.pathname = '/template1';
    expect(await finding(elsewhere.href)).toMatchObject({
      status: 'failed',
      found: expect.stringContaining('another database'),
    });
  });

  test.each([
    ['the primary', () => primary.url, 'a server that is not a standby'],
    ['another database of the standby', () => standby.url.replace(/postgres$/, 'template1'), 'another database'],
    ['nothing', () => 'postgres://postgres@127.0.0.1:1/postgres', 'ECONNREFUSED'],
  ])('%s is never read as a standby, and nothing fails', async (_, url, reason) => {
    const reasons: unknown[] = [];
    const config = parseConfig({ ...env, DATABASE_REPLICA_URL: url() });
    const context = createContext(config, { command: 'test', serving: true, onReplica: (why) => reasons.push(why) });
    await context.open();
    await vi.waitUntil(async () => {
      await context.services.users.countUsers(await scope(), EVERYONE);
      return reasons.length > 0;
    }, PATIENCE);
    expect(String(reasons[0])).toContain(reason);
    await context.services.users.countUsers(await scope(), EVERYONE);
    expect(context.db.replica?.usage()).toMatchObject({ isUsed: false, reads: { replica: 0 } });
    await context.close();
  });
});
