import { beforeAll, describe, expect, test } from 'vitest';
import { Prisma } from '#dist/db/statements.js';
import { type MeasuredUser, measureByEmail } from '#dist/users/find-users.sql.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** Searches with many matches: the answer contains all of them, or is an error that says there are too many. */

// A search of ten thousand users may take longer than usual on a busy machine. In a database of its own: another test may have had the shared
// one analyzed while it was small, and plans that were made then read every account here.
const app = useTestApp({ ownDatabase: true, env: { REQUEST_TIMEOUT_MS: '60000' } });
let project: TestProject;
let projectId: number;
beforeAll(async () => {
  project = await app.createProject();
  projectId = await idOf(project);
});

const scopeOf = ({ appId }: TestProject) => app.context.services.projects.getScope(appId);
const idOf = async (of: TestProject) => (await scopeOf(of)).projectIdFor('operate');

/** Adds users with one login email by plain SQL. Every third user has the same instant as the next one. */
async function addUsers(email: string, count: number, options: { accounts?: number; valueBytes?: number } = {}) {
  const { accounts = 0, valueBytes = 0 } = options;
  const { db } = app.context;
  await db.query(Prisma.sql`
    INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, identity_email, created_at)
    SELECT ${projectId}::int, 'google', v || repeat('x', ${valueBytes}::int), v, ${email}, '2026-01-01T00:00:00Z'::timestamptz + n / 2 * interval '1 second'
    FROM generate_series(1, ${count}::int) AS n, LATERAL (SELECT ${email} || n AS v) AS each`);
  await db.query(Prisma.sql`
    INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
    SELECT u.project_id, u.id, 'ethereum', key, key, 'custodial'
    FROM users u, generate_series(1, ${accounts}::int) AS n, LATERAL (SELECT '0x' || lpad(n::text, 40, '0') AS key) AS each
    WHERE u.project_id = ${projectId} AND u.login_email = ${email}`);
}

async function newestFirst(email: string): Promise<string[]> {
  const found = await app.context.db.query<{ id: number }>(Prisma.sql`
    SELECT id FROM users WHERE project_id = ${projectId} AND login_email = ${email} AND deleted_at IS NULL
    ORDER BY created_at DESC, id DESC`);
  return found.map(({ id }) => String(id));
}

const askRest = (parameter: string) => project.rest(`/server/users/search?${parameter}`);
const askGraphQL = (by: string, selected = 'id') => project.graphql(`{ searchUsers(by: { ${by} }) { ${selected} } }`);

describe('every match is returned, newest first', () => {
  test.each([8, 9, 700])('%i users with one email', async (count) => {
    const email = `of-${count}@example.com`;
    await addUsers(email, count, { accounts: 2 });
    const expected = await newestFirst(email);
    expect(expected).toHaveLength(count);

    const { body } = await askRest(`email=${email}`);
    expect(body.result.total_user).toBe(count);
    expect(body.result.users.map((user: Json) => String(user.id))).toEqual(expected);
    expect(body.result.users.every((user: Json) => user.accounts.length === 2)).toBe(true);
    const { data } = await askGraphQL(`email: "${email}"`, 'id accounts { id }');
    expect(data.searchUsers.map((user: Json) => user.id)).toEqual(expected);
    expect(data.searchUsers.every((user: Json) => user.accounts.length === 2)).toBe(true);
  });

  test('users with one address, after many of them are removed', async () => {
    const address = stellarAddress(1);
    await project.addUsers(
      ...Array.from({ length: 30 }, (_, n) => ({
        auth_method: 'passkey',
        auth_value: `shared${n}`,
        accounts: [{ network: 'stellar', public_key: address }],
      })),
    );
    const idsByRest = async () =>
      (await askRest(`address=${address}`)).body.result.users.map((user: Json) => String(user.id));
    const ids = await idsByRest();
    expect(ids).toHaveLength(30);
    // A search reads the links of the first users first.
    for (const left of [12, 8, 1, 0]) {
      await app.context.db.query(Prisma.sql`
        UPDATE users SET deleted_at = now()
        WHERE project_id = ${projectId} AND id = ANY (${ids.slice(left).map(BigInt)}::bigint[])`);
      expect(await idsByRest()).toEqual(ids.slice(0, left));
      const { data } = await askGraphQL(`address: "${address}"`);
      expect(data.searchUsers.map((user: Json) => user.id)).toEqual(ids.slice(0, left));
    }
  });
});

test('a search by address finds the few users left of thousands with that address', async () => {
  const address = stellarAddress(3);
  const { db } = app.context;
  await db.query(Prisma.sql`
    WITH made AS (
      INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, created_at, deleted_at)
      SELECT ${projectId}::int, 'passkey', 'had' || n, 'had' || n, '2026-01-01T00:00:00Z'::timestamptz + hashint4(n) % 100 * interval '1 second',
             CASE WHEN n % 1000 <> 0 THEN now() END
      FROM generate_series(1, 6500) AS n
      RETURNING project_id, id
    )
    INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
    SELECT project_id, id, 'stellar', ${address}, ${address}, 'custodial' FROM made`);
  const left = await db.query<{ id: number }>(Prisma.sql`
    SELECT id FROM users WHERE project_id = ${projectId} AND auth_value LIKE 'had%' AND deleted_at IS NULL
    ORDER BY created_at DESC, id DESC`);
  expect(left).toHaveLength(6);
  app.statements.length = 0;
  const { body } = await askRest(`address=${address}`);
  expect(body.result.users.map((user: Json) => user.id)).toEqual(left.map(({ id }) => id));
  // One statement for the first few links, four for up to 2,000 links each, and one for the users.
  expect(app.statements.filter((sql) => !/app_secrets/.test(sql))).toHaveLength(6);
});

describe('a result that is too large for one answer is refused, not truncated', () => {
  test('10,000 users are returned, 10,001 are refused', async () => {
    const email = 'crowd@example.com';
    // With an id each and what is known before, 9,900 are about all that an operation may cost.
    await addUsers(email, 9_900);
    const { data } = await askGraphQL(`email: "${email}"`);
    expect(data.searchUsers.map((user: Json) => user.id)).toEqual(await newestFirst(email));

    await project.addUsers(
      ...Array.from({ length: 100 }, (_, n) => ({ auth_method: 'google', auth_value: `further ${n}`, email })),
    );
    const { body } = await askRest(`email=${email}`);
    expect(body.result.users.map((user: Json) => String(user.id))).toEqual(await newestFirst(email));

    await project.addUsers({ auth_method: 'github', auth_value: 'one more', email });
    const sentence =
      'email: more than 10,000 users match, which one answer cannot hold; list them with GET /server/users or users(...).';
    const refused = await askRest(`email=${email}`);
    expect([refused.status, refused.body]).toEqual([400, { error: sentence }]);
    const { errors } = await askGraphQL(`email: "${email}"`);
    expect(errors).toMatchObject([{ message: sentence, extensions: { code: 'BAD_USER_INPUT' } }]);
  });

  test.each([
    ['accounts', 'rich@example.com', 700, { accounts: 100 }, '700'],
    ['their texts', 'long@example.com', 6_000, { valueBytes: 1_400 }, '6,000'],
  ])(
    'users who take more than 8 MiB by %s are refused before they are read',
    async (_by, email, count, options, shown) => {
      await addUsers(email, count, options);
      app.statements.length = 0;
      const { status, body } = await askRest(`email=${email}`);
      expect([status, body.error]).toEqual([
        400,
        `email: the ${shown} users who match take more than 8 MiB, which one answer cannot hold; list them with GET /server/users or users(...).`,
      ]);
      // The shared statement reads at most nine users. The statement that measures the size reads no accounts.
      const reads = app.statements.filter((sql) => /u\.auth_value AS/.test(sql));
      expect(reads).toHaveLength(1);
      expect(reads[0]).toContain('LIMIT');
    },
  );

  test('accounts that are not requested do not count towards the size limit', async () => {
    const { users } = app.context.services;
    const found = await users.searchByEmail(await scopeOf(project), 'rich@example.com', { withAccounts: false });
    expect(found).toHaveLength(700);
    expect(found.every(({ accounts }) => accounts === undefined)).toBe(true);
  });

  test('the measured size of a user is never smaller than its size in the answer', async () => {
    await project.addUsers({
      auth_method: 'a-social-provider-with-a-long-name',
      auth_value: `"quoted" \\ and \u{1f600} and é ${'"'.repeat(500)}`,
      email: 'large@example.com',
      wallet: stellarAddress(2),
      last_login: '2026-02-01T00:00:00.123Z',
      login_count: 2_147_483_647,
      accounts: Array.from({ length: 49 }, (_, n) => [
        { network: 'stellar', public_key: stellarAddress(10 + n) },
        { network: 'ethereum', public_key: ethereumAddress(10 + n) },
      ]).flat(),
    });
    // Ids with the maximum number of digits.
    const { db } = app.context;
    const largest = 9_007_199_254_740_000n;
    await db.query(Prisma.sql`
      UPDATE users SET id = ${largest} WHERE project_id = ${projectId} AND login_email = 'large@example.com'`);
    await db.query(Prisma.sql`
      UPDATE accounts SET id = ${largest} + id WHERE project_id = ${projectId} AND user_id = ${largest}`);
    const key = { projectId, value: 'large@example.com', withAccounts: true };
    const [measured] = await measureByEmail(db, key, 10);
    const { body } = await askRest('email=large@example.com');
    const bytes = Buffer.byteLength(JSON.stringify(body.result.users[0]));
    expect(bytes).toBeGreaterThan(10_000);
    expect((measured as MeasuredUser).bytes).toBeGreaterThan(bytes);
  });
});
