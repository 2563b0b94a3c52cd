import { randomBytes } from 'node:crypto';
import type { ClientBase } from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** Plans depend on statistics of the whole database, so this file has its own. */
const app = useTestApp({ ownDatabase: true });

const query = async (sql: string, values: unknown[] = []): Promise<Json[]> =>
  (await app.context.db.pool.query(sql, values)).rows;

const projectId = async ({ appId }: TestProject): Promise<number> =>
  (await app.context.services.projects.getScope(appId)).projectIdFor('operate');

/** Two projects with one user each; both users have the same email and the same account. */
async function createTwins() {
  const user = {
    auth_method: 'email',
    auth_value: 'ada@example.com',
    accounts: [{ network: 'stellar', public_key: stellarAddress(1) }],
  };
  const make = async () => {
    const project = await app.createProject();
    await project.addUsers(user);
    const { users } = (await project.rest('/server/users')).body.result;
    return { project, projectId: await projectId(project), userId: users[0].id as number };
  };
  return [await make(), await make()] as const;
}

describe('the database refuses', () => {
  const FOREIGN_KEY_VIOLATION = '23503';

  test("an account that references another project's user", async () => {
    const [one, other] = await createTwins();
    const insert = (project: number, user: number) =>
      query(
        `INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
         VALUES ($1, $2, 'stellar', $3, $3, 'custodial')`,
        [project, user, stellarAddress(2)],
      );
    await expect(insert(one.projectId, other.userId)).rejects.toMatchObject({
      code: FOREIGN_KEY_VIOLATION,
      constraint: 'accounts_user_fkey',
    });
    await insert(one.projectId, one.userId);
  });

  test('to move an account to another project or to a user of another project', async () => {
    const [one, other] = await createTwins();
    for (const change of ['project_id = $2', 'user_id = $3']) {
      const moved = query(`UPDATE accounts SET ${change} WHERE project_id = $1 AND $2::int > 0 AND $3::bigint > 0`, [
        one.projectId,
        other.projectId,
        other.userId,
      ]);
      await expect(moved).rejects.toMatchObject({ code: FOREIGN_KEY_VIOLATION, constraint: 'accounts_user_fkey' });
    }
  });

  test.each([
    ['a user', `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key) VALUES (0, 'email', 'a', 'a')`],
    ['a secret', `INSERT INTO app_secrets (project_id, secret_hash) VALUES (0, sha256('a'))`],
    ['a ban', `INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key) VALUES (0, 'email', 'a', 'a')`],
  ])('%s of a project that does not exist', async (_name, sql) => {
    await expect(query(sql)).rejects.toMatchObject({ code: FOREIGN_KEY_VIOLATION });
  });
});

describe('every table that belongs to a project', () => {
  const KNOWN = ['accounts', 'app_secrets', 'bans', 'users'];
  let tables: string[];
  beforeAll(async () => {
    const rows = await query(
      `SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
       AND relname NOT IN ('projects', '_prisma_migrations')
       -- Operators, and how far the feed is published, belong to no project.
       AND relname NOT IN ('operators', 'operator_projects', 'operator_sessions', 'operator_passkeys', 'passkey_challenges', 'challenge_keys', 'login_links', 'operator_log', 'changes_feed', 'changes_timelines', 'database_identity')`,
    );
    tables = rows.map(({ relname }) => relname);
  });

  test('is in the list of tables', () => {
    expect(tables).toEqual(expect.arrayContaining(KNOWN));
  });

  test('has a project_id that is NOT NULL', async () => {
    const rows = await query(
      `SELECT attrelid::regclass::text AS table FROM pg_attribute
       WHERE attrelid = ANY ($1::regclass[]) AND attname = 'project_id' AND attnotnull`,
      [tables],
    );
    expect(rows.map(({ table }) => table).toSorted()).toEqual(tables.toSorted());
  });

  test('has project_id as the first column of its primary key and of each index', async () => {
    const rows = await query(
      `SELECT indrelid::regclass::text AS table, indexrelid::regclass::text AS index, indisprimary AS primary,
              pg_get_indexdef(indexrelid, 1, true) AS first
       FROM pg_index WHERE indrelid = ANY ($1::regclass[])`,
      [tables],
    );
    expect(rows.filter(({ first }) => first !== 'project_id')).toEqual([]);
    expect(rows.flatMap(({ table, primary }) => (primary ? table : [])).toSorted()).toEqual(tables.toSorted());
  });

  test('has project_id as the first column of each foreign key, on both sides', async () => {
    const rows = await query(
      `SELECT k.conrelid::regclass::text AS table, k.confrelid::regclass::text AS target,
              a.attname AS from, b.attname AS to
       FROM pg_constraint k
       JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
       JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = k.confkey[1]
       WHERE k.contype = 'f' AND k.conrelid = ANY ($1::regclass[])`,
      [tables],
    );
    expect(rows.map(({ table }) => table)).toEqual(expect.arrayContaining(KNOWN));
    const crossing = rows.filter(
      ({ target, from, to }) => from !== 'project_id' || to !== (target === 'projects' ? 'id' : 'project_id'),
    );
    expect(crossing).toEqual([]);
  });
});

describe('two projects', () => {
  test('get only their own data when concurrent requests share statements', async () => {
    const [one, other] = await createTwins();
    const ask = async ({ project, userId }: typeof one, otherId: number) => {
      const verify = (body: object) =>
        project.rest('/server/wallets/verify', {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ address: stellarAddress(1), ...body }),
        });
      const [listed, counted, byEmail, byAddress, own, foreign, verified, pinned, pinnedForeign] = await Promise.all([
        project.rest('/server/users'),
        project.rest('/server/users/count'),
        project.rest('/server/users/search?email=ada@example.com'),
        project.rest(`/server/users/search?address=${stellarAddress(1)}`),
        project.rest(`/server/users/${userId}`),
        project.rest(`/server/users/${otherId}`),
        verify({}),
        verify({ user_id: userId }),
        verify({ user_id: otherId }),
      ]);
      const ids = ({ body }: { body: Json }) => body.result.users.map(({ id }: { id: number }) => id);
      expect([ids(listed), ids(byEmail), ids(byAddress)]).toEqual([[userId], [userId], [userId]]);
      expect(listed.body.result.users[0].accounts).toHaveLength(1);
      expect(counted.body.result.total_user).toBe(1);
      expect([own.status, foreign.status]).toEqual([200, 404]);
      expect([verified, pinned].map(({ body }) => body.result.user_id)).toEqual([userId, userId]);
      expect(pinnedForeign.body.result).toEqual({ exists: false });
    };
    await Promise.all([ask(one, other.userId), ask(other, one.userId)]);
  });

  test('cannot remove users of each other', async () => {
    const [one, other] = await createTwins();
    const removed = await one.project.rest(`/server/users/${other.userId}`, { method: 'DELETE' });
    const { errors } = await one.project.graphql(`mutation { deleteUser(id: ${other.userId}) { id } }`);
    expect([removed.status, errors?.[0]?.extensions.code]).toEqual([404, 'NOT_FOUND']);
    expect((await other.project.rest(`/server/users/${other.userId}`)).status).toBe(200);
  });
});

/** A node of a plan in EXPLAIN (FORMAT JSON). */
interface Plan {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Index Cond'?: string;
  /** How often it ran, with ANALYZE. */
  'Actual Loops'?: number;
  Plans?: Plan[];
}

interface Statement {
  text: string;
  values: unknown[];
}

describe('with many users in many projects', () => {
  const PROJECTS = 20;
  const USERS_OF_EACH = 500;
  let project: TestProject;
  let user: Json;

  beforeAll(async () => {
    project = await app.createProject();
    const others = await Promise.all(Array.from({ length: PROJECTS - 1 }, () => app.createProject()));
    const ids = await Promise.all([project, ...others].map(projectId));
    await query(
      `WITH added AS (
         INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, login_email, created_at)
         SELECT p, (ARRAY['email', 'passkey', 'wallet', 'google'])[1 + n % 4], key, key, key, '2026-01-01'::timestamptz + n * interval '1 hour'
         FROM unnest($1::int[]) AS p, generate_series(1, $2::int) AS n, LATERAL (SELECT 'user' || n || '@example.com' AS key) AS k
         RETURNING project_id, id
       )
       INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
       SELECT project_id, id, 'stellar', 'address-' || id, 'address-' || id, 'custodial' FROM added`,
      [ids, USERS_OF_EACH],
    );
    await project.addUsers({
      auth_method: 'google',
      auth_value: 'id',
      email: 'ada@example.com',
      accounts: [{ network: 'stellar', public_key: stellarAddress(9) }],
    });
    await query('VACUUM (ANALYZE)');
    [user] = (await project.rest('/server/users?limit=1')).body.result.users;
  });

  /** The statements that `ask` sends to the database, with their values. */
  async function capture(ask: () => Promise<unknown>): Promise<Statement[]> {
    const statements: Statement[] = [];
    const { pool } = app.context.db;
    const restore: (() => void)[] = [];
    const watch = (client: ClientBase) => {
      if (Object.hasOwn(client, 'query')) return;
      const run = client.query;
      client.query = ((...given: unknown[]) => {
        const [statement, values] = given as [Statement | string, unknown[] | undefined];
        if (typeof statement === 'object')
          statements.push({ text: statement.text, values: values ?? statement.values });
        return Reflect.apply(run, client, given);
      }) as typeof run;
      restore.push(() => Reflect.deleteProperty(client, 'query'));
    };
    pool.on('acquire', watch);
    await ask().finally(() => pool.off('acquire', watch));
    for (const undo of restore) undo();
    return statements;
  }

  /** The custom plan for these values, and the generic plan, which PostgreSQL may use after five executions. */
  async function explain({ text, values }: Statement): Promise<Record<'custom' | 'generic', Plan>> {
    const client = await app.context.db.pool.connect();
    const name = `plan_${randomBytes(8).toString('hex')}`;
    try {
      const custom = await client.query(`EXPLAIN (FORMAT JSON) ${text}`, values);
      await client.query('BEGIN');
      await client.query('SET LOCAL plan_cache_mode = force_generic_plan');
      await client.query(`PREPARE ${name} AS ${text}`);
      const nulls = values.length === 0 ? '' : `(${values.map(() => 'NULL').join(', ')})`;
      const generic = await client.query(`EXPLAIN (FORMAT JSON) EXECUTE ${name}${nulls}`);
      const planOf = ({ rows }: { rows: Json[] }): Plan => rows[0]['QUERY PLAN'][0].Plan;
      return { custom: planOf(custom), generic: planOf(generic) };
    } finally {
      await client.query('ROLLBACK');
      await client.query(`DEALLOCATE ${name}`);
      client.release();
    }
  }

  function nodesOf(plan: Plan): Plan[] {
    return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];
  }

  const list = (parameters: string) => () => project.rest(`/server/users?${parameters}`);
  const graphql = (text: string) => () => project.graphql(text);

  const verify = (body: object) =>
    project.rest('/server/wallets/verify', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });

  const LIST = ['users_newest_idx', 'accounts_user_address_key'];
  const ONE = ['users_pkey', 'accounts_user_address_key'];

  test.each<[string, string[], () => Promise<unknown>]>([
    ['the list', LIST, list('limit=10')],
    ['the list between dates', LIST, list('start_date=2026-01-05&end_date=2026-01-09')],
    // In these, the planner may choose among several indexes, as for the counts. Some of 500 users it may also sort.
    ['a page of the list', ['accounts_user_address_key'], list('page=20')],
    ['the list of a method', ['accounts_user_address_key'], list('login_method=wallet&limit=10')],
    ['the list of several methods', ['accounts_user_address_key'], list('login_method=wallet,email&limit=10')],
    ['the count from an hour on', [], () => project.rest('/server/users/count?start_date=2026-01-05T10:00:00Z')],
    [
      'the count of a method from an hour on',
      [],
      () => project.rest('/server/users/count?login_method=socials&start_date=2026-01-05T10:00:00Z'),
    ],
    ['search by email', ['users_login_email_idx'], () => project.rest('/server/users/search?email=ada@example.com')],
    [
      'search by address',
      ['accounts_address_idx', 'users_pkey'],
      () => project.rest(`/server/users/search?address=${stellarAddress(9)}`),
    ],
    ['one user', ONE, () => project.rest(`/server/users/${user.id}`)],
    ['verification', ['accounts_address_idx', 'users_pkey'], () => verify({ address: stellarAddress(9) })],
    [
      'verification of a user',
      ['accounts_user_address_key', 'users_pkey'],
      () => verify({ address: stellarAddress(9), user_id: user.id }),
    ],
    ['a cursor and a total', ['users_newest_idx'], graphql('{ users(first: 10) { totalCount nodes { id } } }')],
    ['the oldest', LIST, graphql('{ users(last: 10) { nodes { id accounts { id } } } }')],
    [
      'users by last login',
      LIST,
      graphql('{ users(filter: { lastLoginBefore: "2025-01-01" }) { nodes { id accounts { id } } } }'),
    ],
    [
      'the banned among the users',
      ['users_newest_idx'],
      graphql('{ users(filter: { banned: true }, last: 3) { nodes { id } } }'),
    ],
    ['a user by external id', ['users_external_id_key'], graphql('{ userByExternalId(externalId: "x") { id } }')],
    ['users by ids', ONE, () => graphql(`{ usersByIds(ids: [${user.id}, 1, 2]) { id accounts { id } } }`)()],
    [
      'users by external ids',
      ['users_external_id_key'],
      graphql('{ usersByExternalIds(externalIds: ["x", "y"]) { id } }'),
    ],
    [
      'users by prefix',
      ['users_login_email_idx', 'users_external_id_key', 'users_identity_key'],
      graphql('{ usersByPrefix(prefix: "x") { users { id } } }'),
    ],
    ['users by emails', ['users_login_email_idx'], graphql('{ usersByEmails(emails: ["x@example.com"]) { id } }')],
    [
      'users by identities',
      ['users_identity_key'],
      graphql('{ usersByIdentities(identities: [{ authMethod: "email", authValue: "x@example.com" }]) { id } }'),
    ],
    ['a removal', ['users_pkey'], () => project.rest('/server/users/9007199254740991', { method: 'DELETE' })],
  ])('%s uses indexes that start with project_id, and no sequential scan', async (_name, by, ask) => {
    const statements = (await capture(ask)).filter(({ text }) => /\b(users|accounts)\b/.test(text));
    const plans = await Promise.all(statements.map(explain));
    for (const kind of ['custom', 'generic'] as const) {
      const nodes = plans.flatMap((plan) => nodesOf(plan[kind]));
      const scanned = nodes.filter((node) => node['Node Type'].includes('Seq Scan'));
      expect(scanned.filter((node) => /^(users|accounts)$/.test(node['Relation Name'] ?? ''))).toEqual([]);
      const indexed = nodes.filter((node) => /^(users|accounts)_/.test(node['Index Name'] ?? ''));
      expect(indexed.filter((node) => !node['Index Cond']?.includes('project_id = '))).toEqual([]);
      expect(indexed).not.toEqual([]);
      expect(indexed.map((node) => node['Index Name'])).toEqual(expect.arrayContaining(by));
    }
  });

  test.each<[string, string, (size: number, after: string) => string]>([
    ['pages', 'tallies', (size) => `userPage(limit: ${size}) { totalUser users { id } }`],
    ['windows', 'tallies', (size) => `users(first: ${size}) { totalCount nodes { id } }`],
    ['windows', 'users', (size, after) => `users(first: ${size}, after: "${after}") { pageInfo { hasPreviousPage } }`],
  ])('%s of one statement read %s once for each key, and not for each user', async (_name, table, ask) => {
    const { data } = await project.graphql('{ users(first: 3) { pageInfo { endCursor } } }');
    const page = (size: number) => ask(size, data.users.pageInfo.endCursor);
    const statements = await capture(graphql(`{ one: ${page(10)} other: ${page(11)} }`));
    const [{ text, values }] = statements.filter((statement) => statement.text.includes('unnest')) as [Statement];
    const rows = await query(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, values);
    const reads = nodesOf(rows[0]?.['QUERY PLAN'][0].Plan).filter((node) => node['Relation Name'] === table);
    expect(reads).not.toEqual([]);
    for (const read of reads) expect(read['Actual Loops']).toBeLessThanOrEqual(2);
  });
});
