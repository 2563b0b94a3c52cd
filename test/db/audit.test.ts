import { beforeAll, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** An operation and its audit entry are written in one transaction: neither exists without the other. */

// The tests count whole tables.
const app = useTestApp({ ownDatabase: true });
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
});

const sql = async (text: string): Promise<Json[]> => (await app.context.db.pool.query(text)).rows;
const operator = () => app.context.services.projects.getScope(project.appId);

/** Runs `act` while no audit entry can be written. */
async function withoutTrail(act: () => Promise<unknown>): Promise<unknown> {
  await sql('ALTER TABLE audit_log ADD CONSTRAINT audit_log_is_closed CHECK (false) NOT VALID');
  try {
    return await act().then(
      () => 'done',
      () => 'failed',
    );
  } finally {
    await sql('ALTER TABLE audit_log DROP CONSTRAINT audit_log_is_closed');
  }
}

const STATE = `
  SELECT (SELECT count(*)::int FROM users WHERE deleted_at IS NULL) AS users,
         (SELECT count(*)::int FROM users) AS rows,
         (SELECT count(*)::int FROM bans) AS bans,
         (SELECT count(*)::int FROM app_secrets) AS secrets,
         (SELECT count(*)::int FROM app_secrets WHERE expires_at IS NULL OR expires_at > now()) AS live,
         (SELECT count(*)::int FROM audit_log) AS entries`;

test('an operation fails and changes nothing if its audit entry cannot be written', async () => {
  const { users, bans, secrets } = app.context.services;
  await project.addUsers(
    { auth_method: 'passkey', auth_value: 'removed' },
    { auth_method: 'passkey', auth_value: 'current' },
  );
  const scope = await operator();
  const ids = (await sql('SELECT id FROM users ORDER BY id')).map(({ id }) => BigInt(id));
  const banned = { authMethod: 'passkey', authValue: 'banned', authValueKey: 'banned' };
  await users.removeUser(scope, ids[0] as bigint, null);
  await bans.ban(scope, banned);
  const [{ id: secretId }] = await sql('SELECT id FROM app_secrets');
  const before = await sql(STATE);

  const acts: Record<string, () => Promise<unknown>> = {
    remove: () => users.removeUser(scope, ids[1] as bigint, null),
    purge: () => users.purgeRemoved(scope, 0),
    ban: () => bans.ban(scope, { authMethod: 'passkey', authValue: 'x', authValueKey: 'x' }),
    unban: () => bans.unbanIdentity(scope, banned),
    import: () => project.addUsers({ auth_method: 'passkey', auth_value: 'new' }),
    addSecret: () => secrets.addSecret(scope, { label: 'new', scopes: ['read'], expiresInMs: null }),
    revoke: () => secrets.revokeSecret(scope, secretId),
    rotate: () => secrets.rotateSecret(scope, { overlapMs: 0 }),
  };
  for (const [name, act] of Object.entries(acts)) {
    expect([name, await withoutTrail(act)]).toEqual([name, 'failed']);
    expect([name, await sql(STATE)]).toEqual([name, before]);
  }
  // When entries can be written, each operation succeeds and writes one entry.
  let [{ entries }] = before as [Json];
  for (const [name, act] of Object.entries(acts)) {
    await act();
    entries += 1;
    expect([name, (await sql(STATE))[0].entries]).toEqual([name, entries]);
  }
});

test('audit entries remain after users are deleted, and are deleted with their project', async () => {
  const other = await app.createProject();
  await other.addUsers({ auth_method: 'passkey', auth_value: 'a' });
  const inTrail = async () => (await sql('SELECT DISTINCT project_id FROM audit_log')).length;
  expect(await inTrail()).toBe(2);
  await sql('DELETE FROM users');
  expect(await inTrail()).toBe(2);
  await sql(`DELETE FROM projects WHERE app_id = '${other.appId}'`);
  expect(await inTrail()).toBe(1);
});
