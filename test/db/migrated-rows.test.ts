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
  await bans.unbanIdentity(scope, { authMethod: 'emial', authValue: 'a@B.example' }, camelCase);
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
