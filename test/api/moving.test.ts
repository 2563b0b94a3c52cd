import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** Files of other systems: what a second import changes, and what a dry run tells of it. */

const app = useTestApp();

interface How {
  readonly from?: string;
  readonly map?: object;
  readonly onConflict?: 'skip' | 'update' | 'fail';
  readonly isDryRun?: boolean;
}

async function move({ appId }: TestProject, file: string, how: How = {}): Promise<Json> {
  const { from = 'auth0', map, onConflict = 'fail', isDryRun = false } = how;
  const { projects, transfers } = app.context.services;
  const options = {
    onConflict,
    skipInvalid: true,
    progress: () => undefined,
    signal: new AbortController().signal,
    move: await transfers.moveOf({ from, map: map === undefined ? null : JSON.stringify(map) }),
  };
  const bytes = Readable.from([Buffer.from(file)]);
  const scope = await projects.getScope(appId);
  return isDryRun ? transfers.checkImport(scope, bytes, options) : transfers.importUsers(scope, bytes, options);
}

async function usersOf(project: TestProject): Promise<Json[]> {
  const { data } = await project.graphql(
    '{ users(first: 50) { nodes { externalId metadata loginCount accounts { network } identities { authMethod authValue emailVerified } } } }',
  );
  return data.users.nodes.reverse();
}
const loginsOf = (user: Json) => user.identities.map(({ authMethod, authValue }: Json) => `${authMethod} ${authValue}`);

const person = (id: string, email: string, more: Json = {}) => ({
  user_id: `auth0|${id}`,
  email,
  email_verified: true,
  created_at: '2024-01-01T00:00:00Z',
  logins_count: 1,
  ...more,
});
const fileOf = (...people: Json[]) => JSON.stringify(people);

describe('the second export of the day of a move', () => {
  const first = fileOf(
    person('1', 'u1@example.com', { email_verified: false }),
    person('2', 'u2@example.com'),
    person('3', 'u3@example.com'),
  );
  const second = fileOf(
    person('1', 'u1@example.com', { logins_count: 3 }),
    person('2', 'new2@example.com'),
    person('3', 'u3@example.com'),
    person('4', 'u4@example.com'),
  );

  test('finds people by their IDs there, and links what is new of them', async () => {
    const project = await app.createProject();
    await move(project, first);
    const update = { onConflict: 'update' } as const;
    const expected = { created: 1, updated: 2, unchanged: 1, failed: 0 };
    expect(await move(project, second, { ...update, isDryRun: true })).toMatchObject(expected);
    expect(await move(project, second, update)).toMatchObject(expected);
    const users = await usersOf(project);
    expect(users.map(loginsOf)).toEqual([
      ['auth0 auth0|1', 'email u1@example.com'],
      ['email u2@example.com', 'email new2@example.com'],
      ['email u3@example.com'],
      ['email u4@example.com'],
    ]);
    expect(users[0]).toMatchObject({ externalId: 'auth0|1', loginCount: 3 });
    expect(await move(project, second, update)).toMatchObject({ created: 0, updated: 0, unchanged: 4, failed: 0 });
  });

  test('adds only who is new, if those who exist are skipped', async () => {
    const project = await app.createProject();
    await move(project, first);
    expect(await move(project, second, { onConflict: 'skip' })).toMatchObject({ created: 1, skipped: 3, failed: 0 });
    expect((await usersOf(project)).map(loginsOf)).toHaveLength(4);
  });

  test('gives nobody the identity of another, nor two lines to one user', async () => {
    const project = await app.createProject();
    await move(project, first);
    const mixed = fileOf(
      person('1', 'u2@example.com'),
      person('3', 'u3new@example.com'),
      person('9', 'u3@example.com'),
    );
    const report = await move(project, mixed, { onConflict: 'update' });
    // The last one has registered anew there.
    expect(report).toMatchObject({ created: 0, updated: 1, failed: 2 });
    expect(report.errors.map(({ line, error }: Json) => [line, error])).toEqual([
      [1, 'identities: another user of this project has the one by "email".'],
      [2, 'Another user of this project has this external ID.'],
    ]);
    expect((await usersOf(project)).map(loginsOf)).toEqual([
      ['auth0 auth0|1'],
      ['email u2@example.com'],
      ['email u3@example.com'],
    ]);
  });
});

test.for(['fail', 'skip', 'update'] as const)('a dry run tells what the import does: %s', async (onConflict) => {
  const project = await app.createProject();
  const csv = (rows: string) => `external_id,email,login_count\n${rows}`;
  const how = { from: 'csv', onConflict };
  await move(project, csv('1,a@example.com,1\n2,b@example.com,1\n'), how);
  const file = csv(
    '1,a@example.com,2\n77,x1@example.com,1\n77,x2@example.com,1\n5,b@example.com,1\n6,a@example.com,1\n',
  );
  const [told, done] = [await move(project, file, { ...how, isDryRun: true }), await move(project, file, how)];
  const { import_id: _, ...told_ } = told;
  const { import_id: __, ...done_ } = done;
  expect(told_).toEqual(done_);
  expect(done.errors).toContainEqual({ line: 4, error: 'Line 3 has the same external_id.' });
  expect(done.errors).toContainEqual({ line: 6, error: 'Line 2 has the same auth_method and auth_value.' });
});

describe('a table', () => {
  test('has verified emails by a date; an empty cell of a mapped column is none, another word is refused', async () => {
    const project = await app.createProject();
    const file =
      'uid,mail,ok\n1,a1@example.com,2020-01-02 03:04:05\n2,a2@example.com,\n3,a3@example.com,pending\n4,a4@example.com,t\n';
    const map = { external_id: 'uid', email: 'mail', email_verified: 'ok' };
    const report = await move(project, file, { from: 'csv', map });
    expect(report).toMatchObject({
      created: 3,
      failed: 1,
      kept_otherwise: { 'unverified emails, kept as metadata': 1 },
    });
    expect(report.errors).toEqual([
      { line: 4, error: 'email_verified: got "pending", expected true, false, or the date of the verification.' },
    ]);
    const users = await usersOf(project);
    expect(users.map(loginsOf)).toEqual([['email a1@example.com'], ['csv 2'], ['email a4@example.com']]);
    expect(users[0].identities[0].emailVerified).toBe(true);
  });

  test('keeps an ID that is called so, all accounts of a cell, and lists in an object', async () => {
    const project = await app.createProject();
    await move(project, 'id,email\n77,x1@example.com\n', { from: 'csv' });
    const accounts = `${ethereumAddress(1)}|${stellarAddress(1)}`;
    const map = { external_id: 'id', email: 'email', accounts: { column: 'accounts', split: '|' } };
    await move(project, `id,email,accounts\n78,x2@example.com,${accounts}\n`, { from: 'csv', map });
    await move(project, '{"results":[{"id":79,"email":"x3@example.com"}]}', { from: 'csv' });
    const users = await usersOf(project);
    expect(users.map(({ externalId }: Json) => externalId)).toEqual(['77', '78', '79']);
    expect(users[1].accounts).toHaveLength(2);
  });
});

test('an issuer is the provider, a file of another form is refused; a page of several and a ban that has ended are counted', async () => {
  const project = await app.createProject();
  const issuer = 'https://login.microsoftonline.com/22222222-0000-4000-8000-000000000000/v2.0';
  const identities = [{ signInType: 'federated', issuer, issuerAssignedId: 'oid-9' }];
  await move(project, JSON.stringify({ value: [{ id: 'e4', identities, accountEnabled: true }] }), { from: 'entra' });
  expect((await usersOf(project)).map(loginsOf)).toEqual([['microsoft oid-9']]);
  await expect(
    move(project, 'id,status,login,email\n1,ACTIVE,ada,ada@example.com\n', { from: 'okta' }),
  ).rejects.toThrow('The first record has no profile, as that of an export of Okta');
  const page = { users: [person('8', 'u8@example.com')], list_metadata: { before: null, after: 'user_8' } };
  expect((await move(project, JSON.stringify(page), { isDryRun: true })).not_kept).toEqual({
    'further pages, which the last file names': 1,
  });
  const past = 'email,blocked\nz@example.com,2024-05-06 00:00:00\n';
  expect((await move(project, past, { from: 'csv', isDryRun: true })).not_kept).toEqual({ 'bans that have ended': 1 });
});
