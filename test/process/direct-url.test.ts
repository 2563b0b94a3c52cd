import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { parseConfig } from '#dist/config/config.js';
import { createContext } from '#dist/context.js';
import { syntheticUsers } from '#dist/users/synthetic-users.js';
import { type Credentials, recordLogin, startServer, userdir, userdirJson } from '../support/command.js';
import { createEmptyDatabase, type TestDatabase } from '../support/engines.js';

/**
 * DATABASE_DIRECT_URL beside a pooler of transactions. The two URLs have different roles here, so that the database tells which
 * connection did what: the role of DATABASE_URL may read and write rows, and nothing else.
 */

describe.runIf(inject('engine') === 'postgres')('with DATABASE_DIRECT_URL', () => {
  const role = `userdir_test_pooled_${process.pid}`;
  let database: TestDatabase;
  let admin: pg.Client;
  let env: Record<string, string>;

  beforeAll(async () => {
    database = await createEmptyDatabase();
    const direct = database.env['DATABASE_URL'] as string;
    admin = new pg.Client(direct);
    await admin.connect();
    await admin.query(`CREATE ROLE ${role} LOGIN IN ROLE pg_read_all_data, pg_write_all_data`);
    await admin.query(`ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO ${role}`);
    const pooled = new URL(direct);
    pooled.username = role;
    env = { ...database.env, DATABASE_URL: pooled.href, DATABASE_DIRECT_URL: direct };
  });
  afterAll(async () => {
    await admin?.query(`DROP OWNED BY ${role}`);
    await admin?.query(`DROP ROLE ${role}`);
    await admin?.end();
    await database?.drop();
  });

  test('migrations and notices use it, and requests do not', async () => {
    const { DATABASE_DIRECT_URL: _, ...pooledOnly } = env;
    expect((await userdir(pooledOnly, ['migrate'])).stderr).toContain('permission denied');
    const project: Credentials = await userdirJson(env, ['project', 'create', '--name', 'Test']);
    const server = await startServer({ ...env, DEMO: 'off' });
    const login = await recordLogin(server.url, project, { authMethod: 'passkey', authValue: 'one' });
    expect(login.body.data.recordLogin.created).toBe(true);
    const roles = async () =>
      (
        await admin.query(
          `SELECT usename AS role, bool_or(query = 'LISTEN userdir_secrets') AS listens FROM pg_stat_activity
           WHERE application_name = 'userdir' AND datname = current_database() GROUP BY usename`,
        )
      ).rows;
    const expected = [
      { role, listens: false },
      { role: admin.user, listens: true },
    ];
    // It serves before it listens.
    await expect.poll(roles).toEqual(expect.arrayContaining(expected));
    await server.stop();
  });

  test('no statement of the pool changes its session beyond a transaction', async () => {
    const context = createContext(parseConfig(env), { command: 'test', serving: true });
    const texts: string[] = [];
    context.db.pool.on('connect', (client) => {
      const query = client.query.bind(client) as (...args: unknown[]) => unknown;
      Object.assign(client, {
        query(statement: string | { text: string }, ...rest: unknown[]) {
          texts.push(typeof statement === 'string' ? statement : statement.text);
          return query(statement, ...rest);
        },
      });
    });
    await context.open();
    const { services } = context;
    const project = await services.projects.createProject('Pooled');
    const scope = await services.projects.getScope(project.appId);
    await services.projects.authenticate(project);
    // An import runs for as long as it takes, and vacuums at its end.
    await services.transfers.addUsers(scope, syntheticUsers(2_000, 1));
    await context.db.vacuum();
    await services.transfers.exportUsers(scope, {
      write: async () => undefined,
      signal: new AbortController().signal,
    });
    await services.totals.fold(scope);
    await context.close();
    expect(texts).toContain('SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0');
    expect(
      texts.filter((text) => /^\s*(SET (?!LOCAL)|RESET|LISTEN|VACUUM|PREPARE|DECLARE)|pg_advisory_lock/i.test(text)),
    ).toEqual([]);
  });

  test('doctor compares the two databases', async () => {
    const finding = async (settings: Record<string, string>) => {
      const { stdout } = await userdir(settings, ['doctor', '--json', '--no-totals']);
      return JSON.parse(stdout).findings.find(({ id }: { id: string }) => id === 'direct-connection');
    };
    expect(await finding(env)).toMatchObject({ status: 'passed' });
    const elsewhere = new URL(env['DATABASE_DIRECT_URL'] as string);
    elsewhere.pathname = '/postgres';
    expect(await finding({ ...env, DATABASE_DIRECT_URL: elsewhere.href })).toMatchObject({
      status: 'failed',
      found: expect.stringContaining('postgres instead of userdir_test_'),
    });
  });
});

test.each(['DATABASE_DIRECT_URL', 'DATABASE_REPLICA_URL'])('%s is refused without DATABASE_URL', async (name) => {
  const { code, stderr } = await userdir({ [name]: 'postgres://db.example/users' }, ['migrate']);
  expect({ code, stderr }).toEqual({ code: 1, stderr: `DATABASE_URL must be set, because ${name} is.\n` });
});
