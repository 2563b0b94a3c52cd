import { beforeEach, expect, test } from 'vitest';
import { camelCase } from '#dist/domain/identities.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** Rows with a method that no interface writes: by hand, or by a restore. */
const app = useTestApp();
let project: TestProject;
let projectId: number;
beforeEach(async () => {
  project = await app.createProject();
  projectId = (await app.context.services.projects.getScope(project.appId)).projectIdFor('operate');
});
const run = (sql: string, values: unknown[] = []) => app.context.db.pool.query(sql, values);

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
