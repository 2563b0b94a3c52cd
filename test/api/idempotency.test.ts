import { beforeAll, expect, test } from 'vitest';
import { Prisma } from '#dist/db/statements.js';
import { KEY_KEPT_HOURS } from '#dist/domain/parse.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** Removals and logins that can be retried with an idempotency key. */

const app = useTestApp();
let project: TestProject;
let serial = 0;

beforeAll(async () => {
  project = await app.createProject();
});

const LOGIN = `mutation ($input: RecordLoginInput!, $key: String = null) {
  recordLogin(input: $input, idempotencyKey: $key) { created user { id loginCount accounts { publicKey } } }
}`;
const DELETE = 'mutation ($id: ID!, $key: String = null) { deleteUser(id: $id, idempotencyKey: $key) { id } }';

const newcomer = () => {
  serial += 1;
  return { authMethod: 'passkey', authValue: `newcomer ${serial}` };
};
const register = async (): Promise<string> =>
  (await project.graphql(LOGIN, { input: newcomer() })).data.recordLogin.user.id;
const remove = (id: string, key?: string, requester = project) =>
  requester.rest(`/server/users/${id}`, {
    method: 'DELETE',
    ...(key !== undefined && { headers: { 'idempotency-key': key } }),
  });

test('a retried deletion with a key gets the same answer, over REST and GraphQL', async () => {
  const [one, other] = [await register(), await register()];
  const first = await remove(one, 'key-1');
  const retry = await remove(one, 'key-1');
  expect([retry.status, retry.body]).toEqual([200, first.body]);
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const { data, errors } = await project.graphql(DELETE, { id: other, key: 'key-2' });
    expect({ data, errors }).toEqual({ data: { deleteUser: { id: other } }, errors: undefined });
  }
});

test('a second deletion without the key, or with another key, is 404', async () => {
  const id = await register();
  expect((await remove(id, 'key-3')).status).toBe(200);
  expect((await remove(id)).status).toBe(404);
  expect((await remove(id, 'key-4')).status).toBe(404);
  expect((await remove(id, 'key-3')).status).toBe(200);
});

test('of concurrent requests with one key, one takes effect and all get its answer', async () => {
  const id = await register();
  const answers = await Promise.all(Array.from({ length: 12 }, () => remove(id, 'key-5')));
  expect(answers.map(({ status }) => status)).toEqual(new Array(12).fill(200));
  const entries = await app.context.db.query<{ count: number }>(
    Prisma.sql`SELECT count(*)::int AS count FROM audit_log WHERE action = 'remove' AND user_id = ${id}::bigint`,
  );
  expect(entries).toEqual([{ count: 1 }]);
});

test('the answer of a failed request is not stored, so a retry is executed', async () => {
  const id = await register();
  const foreign = String(Number(id) + 1);
  expect((await remove(foreign, 'key-6')).status).toBe(404);
  expect(await register()).toBe(foreign);
  expect((await remove(foreign, 'key-6')).status).toBe(200);
});

test('a key that was used for another request is refused, and nothing changes', async () => {
  const [one, other] = [await register(), await register()];
  await remove(one, 'key-7');
  const { status, body } = await remove(other, 'key-7');
  expect([status, body]).toEqual([409, { error: 'The idempotency key was used for another request.' }]);
  const { errors } = await project.graphql(LOGIN, { input: newcomer(), key: 'key-7' });
  expect(errors?.[0]).toMatchObject({
    message: 'The idempotency key was used for another request.',
    extensions: { code: 'IDEMPOTENCY_KEY_REUSED' },
  });
  expect((await project.rest(`/server/users/${other}`)).status).toBe(200);
});

test('the same key in two projects is two different keys', async () => {
  const other = await app.createProject();
  const input = newcomer();
  const [mine, theirs] = [
    await project.graphql(LOGIN, { input, key: 'key-8' }),
    await other.graphql(LOGIN, { input, key: 'key-8' }),
  ];
  expect([mine.data.recordLogin.created, theirs.data.recordLogin.created]).toEqual([true, true]);
  expect((await remove(mine.data.recordLogin.user.id, 'key-9', other)).status).toBe(404);
});

test('a login with a key is counted once, even with repeated and concurrent retries', async () => {
  const input = newcomer();
  const asked = () => project.graphql(LOGIN, { input, key: 'key-10' });
  const answers = [...(await Promise.all(Array.from({ length: 8 }, asked))), await asked()];
  const logins = answers.map(({ data }: Json) => data.recordLogin);
  expect(logins).toEqual(
    new Array(9).fill({ created: true, user: { id: expect.any(String), loginCount: 1, accounts: [] } }),
  );
  expect(new Set(logins.map(({ user }) => user.id)).size).toBe(1);
  const { data } = await project.graphql(LOGIN, { input, key: 'key-11' });
  expect(data.recordLogin).toMatchObject({ created: false, user: { loginCount: 2 } });
});

test('a retried login gets the same answer even after its user is removed', async () => {
  const input = newcomer();
  const { data } = await project.graphql(LOGIN, { input, key: 'key-12' });
  const { id } = data.recordLogin.user;
  await remove(id);
  const retry = await project.graphql(LOGIN, { input, key: 'key-12' });
  expect(retry.data.recordLogin).toMatchObject({ created: true, user: { id } });
  expect((await project.rest(`/server/users/${id}`)).status).toBe(404);
});

test('a retry is answered until the end of the time for which keys are kept, and then the key can be used again', async () => {
  const id = await register();
  await remove(id, 'key-13');
  const age = (minutes: number) =>
    app.context.db.pool.query(
      `UPDATE idempotency_keys SET created_at = created_at - $1 * interval '1 minute' WHERE key = 'key-13'`,
      [minutes],
    );
  await age(KEY_KEPT_HOURS * 60 - 1);
  expect((await remove(id, 'key-13')).status).toBe(200);
  await age(2);
  expect((await remove(id, 'key-13')).status).toBe(404);
});

/** Keys of a project that expired so many hours ago. */
const addExpired = (of: TestProject, count: number, hours: number) =>
  app.context.db.pool.query(
    `INSERT INTO idempotency_keys (project_id, key, request_hash, created_at)
     SELECT p.id, 'old-' || n, '\\x00', now() - ($3 + ${KEY_KEPT_HOURS}) * interval '1 hour' FROM projects p, generate_series(1, $2) AS n WHERE p.app_id = $1`,
    [of.appId, count, hours],
  );
const countKeys = async (of: TestProject) => {
  const { rows } = await app.context.db.pool.query(
    'SELECT count(*)::int AS count FROM idempotency_keys k JOIN projects p ON p.id = k.project_id WHERE p.app_id = $1',
    [of.appId],
  );
  return rows[0].count;
};

test('an expired key is not answered, however many older ones there are', async () => {
  const id = await register();
  await remove(id, 'key-14');
  const { pool } = app.context.db;
  await pool.query('UPDATE users SET deleted_at = NULL WHERE id = $1', [id]);
  expect((await remove(id, 'key-14')).status).toBe(200);
  expect((await project.rest(`/server/users/${id}`)).status).toBe(200);
  await pool.query(`UPDATE idempotency_keys SET created_at = created_at - interval '25 hours' WHERE key = 'key-14'`);
  await addExpired(project, 150, 2);
  expect((await remove(id, 'key-14')).status).toBe(200);
  expect((await project.rest(`/server/users/${id}`)).status).toBe(404);
  // Now it is the key of this removal.
  expect((await remove(id, 'key-14')).status).toBe(200);
});

test('of concurrent requests with one expired key, one takes effect and all get its answer', async () => {
  const input = newcomer();
  const asked = () => project.graphql(LOGIN, { input, key: 'key-15' });
  const first = await asked();
  await app.context.db.query(
    Prisma.sql`UPDATE idempotency_keys SET created_at = created_at - interval '25 hours' WHERE key = 'key-15'`,
  );
  const answers = await Promise.all(Array.from({ length: 8 }, asked));
  const { id } = first.data.recordLogin.user;
  expect(answers.map(({ data }) => data.recordLogin)).toEqual(
    new Array(8).fill({ created: false, user: { id, loginCount: 2, accounts: [] } }),
  );
});

test('expired keys of all projects are deleted in the background, and by a purge', async () => {
  const [one, other] = [await app.createProject(), await app.createProject()];
  await addExpired(one, 2_500, 1);
  await addExpired(other, 1, 1);
  const input = newcomer();
  await other.graphql(LOGIN, { input, key: 'young' });
  await app.context.services.changes.prune();
  expect([await countKeys(one), await countKeys(other)]).toEqual([0, 1]);
  await addExpired(other, 3, 1);
  await app.context.services.users.purgeRemoved(await app.context.services.projects.getScope(other.appId), 0);
  expect(await countKeys(other)).toBe(1);
});

test.each(['', ' ', 'two words', 'é', 'k'.repeat(256)])('the key %j is refused', async (key) => {
  const id = await register();
  const { errors } = await project.graphql(DELETE, { id, key });
  expect(errors?.[0]?.message).toMatch(
    /^idempotencyKey: got .*, expected 1 to 255 printable ASCII characters without spaces\.$/,
  );
  if (!/^[\x21-\x7e]*( [\x21-\x7e]+)*$/.test(key)) return;
  const { status, body } = await remove(id, key);
  expect([status, body.error]).toEqual([400, expect.stringMatching(/^Idempotency-Key: got /)]);
});
