import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { UserFormat } from '#dist/domain/import-format.js';
import { EXPORT_TARGETS } from '#dist/domain/systems.js';
import { SYSTEMS } from '#dist/users/moving/systems.js';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** Users on the way out to other systems, and back. */

const app = useTestApp();
const options = { progress: () => undefined, signal: new AbortController().signal };
const scopeOf = ({ appId }: TestProject) => app.context.services.projects.getScope(appId);

async function exportOf(project: TestProject, format: UserFormat) {
  let text = '';
  const write = async (chunk: string) => {
    text += chunk;
  };
  const report = await app.context.services.transfers.exportUsers(await scopeOf(project), {
    ...options,
    format,
    write,
  });
  return { text, ...report };
}

async function importFrom(project: TestProject, from: string, text: string): Promise<Json> {
  const { transfers } = app.context.services;
  const how = { onConflict: 'fail', skipInvalid: false, move: await transfers.moveOf({ from }) } as const;
  return transfers.importUsers(await scopeOf(project), Readable.from([Buffer.from(text)]), { ...options, ...how });
}

const at = { created_at: '2024-01-02T03:04:05.678Z', last_login: '2025-01-02T03:04:05.678Z', login_count: 3 };
const email = (name: string, more: Json = {}) => ({
  auth_method: 'email',
  auth_value: `${name}@example.com`,
  external_id: `x-${name}`,
  ...at,
  ...more,
});
const ban = (auth_method: string, auth_value: string, more: Json = {}) => ({
  ban: { auth_method, auth_value, ...more },
});

const ADA = email('ada', {
  email_verified: true,
  accounts: [{ network: 'stellar', public_key: stellarAddress(1) }],
  metadata: { plan: 'gold', tags: ['a', 'b'], seats: 3, user_metadata: { locale: 'en' } },
  identities: [
    { auth_method: 'google', auth_value: 'g-1', email: 'ada@example.com', email_verified: true },
    { auth_method: 'google', auth_value: 'g-2' },
    { auth_method: 'phone', auth_value: '+15005550101' },
    { auth_method: 'passkey', auth_value: 'cGFzc2tleQ' },
    { auth_method: 'wallet', auth_value: stellarAddress(2) },
  ],
});
const LINES = [
  ADA,
  email('bo', { email_verified: true }),
  // An import keeps as metadata what nobody has verified.
  {
    auth_method: 'username',
    auth_value: 'cy',
    external_id: 'x-cy',
    ...at,
    metadata: { unverified_email: 'cy@example.com' },
  },
  { auth_method: 'github', auth_value: '5', email: 'di@example.com', external_id: 'x-di', ...at },
  { auth_method: 'wallet', auth_value: stellarAddress(3), ...at },
  ban('email', 'bo@example.com', { reason: 'spam', expires_at: '2999-01-31' }),
  ban('phone', '+15005550101'),
];

const recordsOf = (text: string): Json[] => {
  const file = JSON.parse(text);
  return Array.isArray(file) ? file : (file.users ?? file.Resources);
};

async function leave(target: UserFormat) {
  const project = await app.createProject();
  expect(await project.importLines(LINES)).toMatchObject({ created: 5, failed: 0, bans: 2 });
  const exported = await exportOf(project, target);
  return { ...exported, records: recordsOf(exported.text) };
}

test('auth0 gets those who have what its import takes, and reads them by its ID', async () => {
  const { records, users, bans, not_kept } = await leave('auth0');
  expect(records).toEqual([
    {
      user_id: 'x-ada',
      email: 'ada@example.com',
      email_verified: true,
      phone_number: '+15005550101',
      phone_verified: true,
      app_metadata: { plan: 'gold', tags: ['a', 'b'], seats: 3 },
      user_metadata: { locale: 'en' },
    },
    { user_id: 'x-bo', email: 'bo@example.com', email_verified: true, blocked: true },
    { user_id: 'x-cy', email: 'cy@example.com', email_verified: false, username: 'cy' },
    { user_id: 'x-di', email: 'di@example.com', email_verified: false },
  ]);
  expect({ users, bans, not_kept }).toEqual({
    users: 4,
    bans: 1,
    not_kept: {
      'google identities': 2,
      'passkey identities': 1,
      'wallet identities': 2,
      'github identities': 1,
      'creation dates': 5,
      'last logins': 5,
      'login counts': 5,
      accounts: 3,
      'bans of other identities': 1,
      'reasons of bans': 1,
      'ends of bans': 1,
      'emails not known to be verified': 1,
      'people without email, phone number and username': 1,
    },
  });
});

test('what has no room beside the ID of the system, or beside the email of a login, is counted', async () => {
  const project = await app.createProject();
  await project.addUsers({ auth_method: 'firebase', auth_value: 'f-1', external_id: 'x-1' });
  const linked = { auth_method: 'email', auth_value: 'own@example.com' };
  await project.importLines([{ auth_method: 'passkey', auth_value: 'p-1', identities: [linked] }]);
  const { data } = await project.graphql('{ userByIdentity(authMethod: "passkey", authValue: "p-1") { id } }');
  await project.graphql(
    'mutation ($id: ID!) { updateUser(id: $id, input: { email: "said@example.com" }) { user { email } } }',
    { id: data.userByIdentity.id },
  );
  const { text, not_kept } = await exportOf(project, 'firebase');
  expect(recordsOf(text)).toMatchObject([{ localId: 'f-1' }, { email: 'own@example.com' }]);
  expect(not_kept).toMatchObject({ 'external IDs': 1, 'further emails': 1 });
});

test('firebase gets the first identity of each provider that it has, dates, and no metadata', async () => {
  const { records, not_kept } = await leave('firebase');
  const dates = { createdAt: '1704164645678', lastSignedInAt: '1735787045678' };
  expect(records).toMatchObject([
    {
      localId: 'x-ada',
      email: 'ada@example.com',
      emailVerified: true,
      phoneNumber: '+15005550101',
      ...dates,
      providerUserInfo: [{ providerId: 'google.com', rawId: 'g-1', email: 'ada@example.com' }],
      disabled: false,
    },
    { localId: 'x-bo', disabled: true, providerUserInfo: [] },
    { localId: 'x-cy', email: 'cy@example.com', emailVerified: false },
    { localId: 'x-di', email: 'di@example.com', providerUserInfo: [{ providerId: 'github.com', rawId: '5' }] },
    { localId: expect.stringMatching(/^userdir-\d+$/), ...dates },
  ]);
  // Custom claims would show it to browsers.
  expect(JSON.stringify(records)).not.toContain('customAttributes');
  expect(not_kept).toMatchObject({ metadata: 2, 'google identities': 1, 'wallet identities': 2, 'login counts': 5 });

  const project = await app.createProject();
  await project.addUsers(email('a', { external_id: 'x'.repeat(129) }));
  const long = await exportOf(project, 'firebase');
  expect(recordsOf(long.text)[0].localId).toMatch(/^userdir-/);
  expect(long.not_kept).toMatchObject({ 'external IDs of more than 128 characters': 1 });
});

test('keycloak gets attributes that are lists of texts, and a federated identity of each provider', async () => {
  const { records, not_kept } = await leave('keycloak');
  expect(records).toMatchObject([
    {
      id: 'x-ada',
      username: 'ada@example.com',
      email: 'ada@example.com',
      emailVerified: true,
      enabled: true,
      createdTimestamp: 1_704_164_645_678,
      attributes: {
        plan: ['gold'],
        tags: ['a', 'b'],
        seats: ['3'],
        user_metadata: ['{"locale":"en"}'],
        phoneNumber: ['+15005550101'],
        phoneNumberVerified: ['true'],
      },
      federatedIdentities: [{ identityProvider: 'google', userId: 'g-1', userName: 'g-1' }],
    },
    { id: 'x-bo', enabled: false },
    { id: 'x-cy', username: 'cy', email: 'cy@example.com', emailVerified: false },
    { id: 'x-di', federatedIdentities: [{ identityProvider: 'github', userId: '5' }] },
    { username: stellarAddress(3) },
  ]);
  expect(not_kept).toMatchObject({ 'types of metadata, as JSON': 2, 'last logins': 5, 'google identities': 1 });
});

test('scim gets a ListResponse, in which no unverified email is', async () => {
  const { text, records, not_kept } = await leave('scim');
  expect(JSON.parse(text)).toMatchObject({
    schemas: ['urn:ietf:params:scim:api:messages:2.0:ListResponse'],
    totalResults: 5,
    startIndex: 1,
    itemsPerPage: 5,
  });
  expect(records).toMatchObject([
    {
      id: 'x-ada',
      userName: 'ada@example.com',
      active: true,
      meta: { created: at.created_at },
      emails: [{ value: 'ada@example.com' }],
      phoneNumbers: [{ value: 'tel:+15005550101' }],
    },
    { id: 'x-bo', active: false },
    { id: 'x-cy', userName: 'cy' },
    { id: 'x-di', userName: 'di@example.com' },
    { userName: stellarAddress(3) },
  ]);
  expect(text).not.toContain('cy@example.com');
  expect(not_kept).toMatchObject({ metadata: 2, 'google identities': 2 });
});

describe.each(EXPORT_TARGETS.filter((target) => SYSTEMS.some(({ name }) => name === target)))('%s', (target) => {
  test('gives back the people, as far as it holds them', async () => {
    const { text, users } = await leave(target);
    const other = await app.createProject();
    const report = await importFrom(other, target, text);
    expect(report).toMatchObject({ created: users, failed: 0, blocked: 1, not_kept: {} });
    // The adapter of SCIM leaves phone numbers out.
    const held = (file: string) => recordsOf(file).map(({ phoneNumbers: _, ...record }) => record);
    expect(held((await exportOf(other, target)).text)).toEqual(held(text));
    const lines = (await exportOf(other, 'ndjson')).text.trim().split('\n');
    const [ada, bo] = lines.map((line) => JSON.parse(line));
    expect([ada, bo]).toMatchObject([{ external_id: 'x-ada' }, { ...email('bo'), ...NOT_HELD[target] }]);
    expect(lines.at(-1)).toContain('{"ban":{"auth_method":"email","auth_value":"bo@example.com"');
  });
});

/** What of Bo is lost on the way, as an import gives it. */
const [login_count, last_login, any] = [0, null, expect.anything()];
const NOT_HELD: Readonly<Record<(typeof EXPORT_TARGETS)[number], Json>> = {
  auth0: { created_at: any, last_login, login_count },
  firebase: { login_count },
  keycloak: { last_login, login_count },
  scim: { last_login, login_count },
};

test('a file of no user, and one of several batches, are whole', async () => {
  const project = await app.createProject();
  for (const target of EXPORT_TARGETS) {
    const { text, users, not_kept } = await exportOf(project, target);
    expect({ records: recordsOf(text), users, not_kept }).toEqual({ records: [], users: 0, not_kept: {} });
  }
  await project.addUsers(...Array.from({ length: 1_001 }, (_, n) => email(`user-${n}`)));
  const { text, users } = await exportOf(project, 'auth0');
  expect(recordsOf(text).map(({ user_id }) => user_id)).toEqual(Array.from({ length: 1_001 }, (_, n) => `x-user-${n}`));
  expect(users).toBe(1_001);
});
