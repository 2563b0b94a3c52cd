import { beforeAll, describe, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

const app = useTestApp();

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
