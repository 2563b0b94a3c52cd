import { beforeEach, expect, test } from 'vitest';
import { readMigrations } from '#dist/db/migration-files.js';
import { parseBanReason } from '#dist/domain/bans.js';
import { camelCase } from '#dist/domain/identities.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** Migrations that change rows: here they run once more, over rows as an earlier release has left them. */
const app = useTestApp();
let project: TestProject;
let projectId: number;
beforeEach(async () => {
  project = await app.createProject();
  projectId = (await app.context.services.projects.getScope(project.appId)).projectIdFor('operate');
});
const run = (sql: string, values: unknown[] = []) => app.context.db.pool.query(sql, values);

async function migrateAgain(name: string): Promise<void> {
  const { steps } = (await readMigrations()).find((migration) => migration.name.endsWith(name)) ?? {};
  for (const { sql, mode } of steps ?? []) {
    let { rowCount } = await run(sql);
    for (let times = 0; mode === 'in batches' && rowCount !== 0; times += 1) {
      expect(times).toBeLessThan(10);
      ({ rowCount } = await run(sql));
    }
  }
}

test('emails with a final sigma are folded again, unless another user has the new key', async () => {
  // The auth value, its key and the login email as an earlier release has stored them, and the key and the email after it.
  const users: [method: string, value: string, key: string, email: string | null, after: [string, string | null]][] = [
    ['email', 'ΝΙΚΟΣ@x.gr', 'νικος@x.gr', 'νικος@x.gr', ['νικοσ@x.gr', 'νικοσ@x.gr']],
    ['email', 'taken.ς@x.gr', 'taken.ς@x.gr', 'taken.ς@x.gr', ['taken.ς@x.gr', 'taken.ς@x.gr']],
    ['email', 'taken.σ@x.gr', 'taken.σ@x.gr', 'taken.σ@x.gr', ['taken.σ@x.gr', 'taken.σ@x.gr']],
    // Of two that become one, only the first can.
    ['email', 'ςσ@x.gr', 'ςσ@x.gr', 'ςσ@x.gr', ['σσ@x.gr', 'σσ@x.gr']],
    ['email', 'σς@x.gr', 'σς@x.gr', 'σς@x.gr', ['σς@x.gr', 'σς@x.gr']],
    ['email', 'ada@ΝΙΚΟΣ.gr', 'ada@νικος.gr', 'ada@νικος.gr', ['ada@νικοσ.gr', 'ada@νικοσ.gr']],
    ['email', 'eve@νικος.gr', 'eve@νικος.gr', 'eve@νικος.gr', ['eve@νικος.gr', 'eve@νικος.gr']],
    ['saml', 'ΑΣ@x.gr', 'ας@x.gr', 'ας@x.gr', ['ασ@x.gr', 'ασ@x.gr']],
    ['google', 'id', 'id', 'άλλος@x.gr', ['id', 'άλλοσ@x.gr']],
    ['passkey', 'κλειδίς', 'κλειδίς', null, ['κλειδίς', null]],
  ];
  for (const [method, value, key, email] of users)
    await run(
      'INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, identity_email) VALUES ($1, $2, $3, $4, $5)',
      [projectId, method, value, key, email],
    );
  await run(`INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key) VALUES ($1, 'email', $2, $3)`, [
    ...[projectId, 'ΝΙΚΟΣ@x.gr', 'νικος@x.gr'],
  ]);
  await migrateAgain('one_sigma');
  const { rows } = await run(
    'SELECT auth_value AS value, auth_value_key AS key, login_email AS email FROM users WHERE project_id = $1 ORDER BY id',
    [projectId],
  );
  expect(rows).toEqual(users.map(([, value, , , [key, email]]) => ({ value, key, email })));
  const LOGIN =
    'mutation ($value: String!) { recordLogin(input: { authMethod: "email", authValue: $value }) { created } }';
  const logIn = async (value: string): Promise<Json> => project.graphql(LOGIN, { value });
  expect((await logIn('Νικος@X.gr')).errors[0].extensions.code).toBe('BANNED');
  expect((await logIn('ada@ΝΙΚΟΣ.gr')).data.recordLogin).toEqual({ created: false });
});

test('reasons of bans that are too long are cut off, so that what is exported can be imported', async () => {
  await run('ALTER TABLE bans DROP CONSTRAINT bans_reason_is_short');
  const insert = (value: string, reason: string) =>
    run(
      `INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key, reason) VALUES ($1, 'passkey', $2, $2, $3)`,
      [projectId, value, reason],
    );
  const fits = 'क'.repeat(500);
  for (const [value, reason] of [['fits', fits] as const, ['long', 'क'.repeat(805)] as const])
    await insert(value, reason);
  await migrateAgain('short_ban_reasons');
  const { rows } = await run('SELECT reason FROM bans WHERE project_id = $1 ORDER BY auth_value', [projectId]);
  const reasons = [fits, `${'क'.repeat(499)}…`];
  expect(rows).toEqual(reasons.map((reason) => ({ reason })));
  for (const reason of reasons) expect(parseBanReason('reason', reason)).toBe(reason);
  await expect(insert('no more', `${fits}क`)).rejects.toMatchObject({ constraint: 'bans_reason_is_short' });
});

test('users and bans with a misspelt method can be read, banned, unbanned, removed, restored and exported', async () => {
  const { projects, users, bans, identities, transfers } = app.context.services;
  const scope = await projects.getScope(project.appId);
  const columns = 'project_id, auth_method, auth_value, auth_value_key';
  for (const table of ['users', 'bans'])
    await run(
      `INSERT INTO ${table} (${columns}) VALUES ($1, 'google.com', 'Id', 'Id'), ($1, 'emial', 'A@b.example', 'a@b.example')`,
      [projectId],
    );
  const { body } = await project.rest('/server/users');
  expect(body.result.users).toMatchObject([{ auth_method: 'emial' }, { auth_method: 'google.com' }]);
  const [emial, google] = body.result.users.map(({ id }: Json) => BigInt(id));
  const found = await project.graphql(
    '{ usersByPrefix(prefix: "A@b") { users { authMethod } } changes { nodes { type } } }',
  );
  expect(found.data.usersByPrefix.users).toEqual([{ authMethod: 'emial' }]);

  const misspelt = { authMethod: 'google.com', authValue: 'Id' };
  await bans.unbanIdentity(scope, misspelt, camelCase);
  await expect(bans.unbanIdentity(scope, misspelt, camelCase)).rejects.toThrow('did you mean "google"?');
  await identities.unban(scope, emial);
  expect((await run('SELECT count(*)::int FROM bans WHERE project_id = $1', [projectId])).rows).toEqual([{ count: 0 }]);
  await identities.ban(scope, google, {});

  await users.removeUser(scope, emial, null);
  await identities.restore(scope, emial);
  const lines: string[] = [];
  await transfers.exportUsers(scope, {
    write: async (chunk) => void lines.push(...chunk.split('\n').filter((line) => line !== '')),
    signal: new AbortController().signal,
  });
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { auth_method: 'google.com', auth_value: 'Id' },
    { auth_method: 'emial', auth_value: 'A@b.example' },
    { ban: { auth_method: 'google.com' } },
  ]);
});
