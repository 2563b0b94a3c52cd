import { expect, test } from 'vitest';
import { camelCase, parseIdentity } from '#dist/domain/identities.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { codesOf } from '../support/graphql.js';

const app = useTestApp();

interface LoginInput {
  [field: string]: unknown;
}

const recordLogin = (project: TestProject, input: LoginInput) =>
  project.graphql(
    `mutation ($input: RecordLoginInput!) { recordLogin(input: $input) {
      created user { id authMethod loginMethod authValue wallet createdAt lastLogin loginCount accounts { network publicKey walletType } }
    } }`,
    { input },
  );
const deleteUser = (project: TestProject, id: string) =>
  project.graphql('mutation ($id: ID!) { deleteUser(id: $id) { id } }', { id });

test('the first login registers the user, and the second increases the login count', async () => {
  const project = await app.createProject();
  const input = { authMethod: 'email', authValue: 'Ada@Example.com' };
  const first = (await recordLogin(project, input)).data.recordLogin;
  expect(first).toEqual({
    created: true,
    user: {
      id: expect.stringMatching(/^[1-9][0-9]*$/),
      authMethod: 'email',
      loginMethod: 'EMAIL',
      authValue: 'Ada@Example.com',
      wallet: null,
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      lastLogin: first.user.createdAt,
      loginCount: 1,
      accounts: [],
    },
  });
  const second = (await recordLogin(project, { ...input, authValue: 'ada@example.COM' })).data.recordLogin;
  expect(second).toMatchObject({ created: false, user: { id: first.user.id, loginCount: 2 } });
  expect(second.user.lastLogin >= first.user.lastLogin).toBe(true);
});

test('a login links the given accounts and unlinks none', async () => {
  const project = await app.createProject();
  const login = { authMethod: 'google', authValue: '1' };
  await recordLogin(project, { ...login, accounts: [{ network: 'STELLAR', publicKey: stellarAddress(1) }] });
  const { data } = await recordLogin(project, {
    ...login,
    accounts: [
      { network: 'ETHEREUM', publicKey: ethereumAddress(1) },
      { network: 'STELLAR', publicKey: stellarAddress(1) },
    ],
  });
  const both = [
    { network: 'STELLAR', publicKey: stellarAddress(1), walletType: 'CUSTODIAL' },
    { network: 'ETHEREUM', publicKey: ethereumAddress(1), walletType: 'CUSTODIAL' },
  ];
  expect(data.recordLogin.user.accounts).toEqual(both);
  expect((await recordLogin(project, login)).data.recordLogin.user.accounts).toEqual(both);
});

test('a wallet login has its wallet and an external account with the same address', async () => {
  const project = await app.createProject();
  const { data } = await recordLogin(project, { authMethod: 'wallet', authValue: stellarAddress(2) });
  expect(data.recordLogin.user).toMatchObject({
    loginMethod: 'WALLET',
    wallet: stellarAddress(2),
    accounts: [{ network: 'STELLAR', publicKey: stellarAddress(2), walletType: 'EXTERNAL' }],
  });
});

test('the email of a social login can be found as a login email', async () => {
  const project = await app.createProject();
  const { data } = await recordLogin(project, { authMethod: 'github', authValue: '1', email: 'Eve@Example.com' });
  const found = await project.graphql('{ searchUsers(by: { email: "eve@example.com" }) { id } }');
  expect(found.data.searchUsers).toEqual([{ id: data.recordLogin.user.id }]);
});

test('a null optional field is treated as absent', async () => {
  const project = await app.createProject();
  const input = { authMethod: 'google', authValue: '1', email: null, wallet: null, accounts: null };
  expect((await recordLogin(project, input)).data.recordLogin.created).toBe(true);
});

test('concurrent first logins create one user and count every login', async () => {
  const project = await app.createProject();
  const input = { authMethod: 'passkey', authValue: 'racer' };
  const answers = await Promise.all(Array.from({ length: 10 }, () => recordLogin(project, input)));
  const logins = answers.map(({ data }) => data.recordLogin);
  expect(logins.filter((login) => login.created)).toHaveLength(1);
  expect(new Set(logins.map((login) => login.user.id)).size).toBe(1);
  const { data } = await project.graphql('{ userPage { totalUser users { loginCount } } }');
  expect(data.userPage).toEqual({ totalUser: 1, users: [{ loginCount: 10 }] });
});

const email = { authMethod: 'email', authValue: 'ada@example.com' };
const social = { authMethod: 'google', authValue: '1' };
test.each<[string, LoginInput]>([
  ['authMethod', { ...email, authMethod: '' }],
  ['authMethod', { ...email, authMethod: 'Email' }],
  ['authMethod', { ...email, authMethod: 'e mail' }],
  ['authMethod', { ...email, authMethod: 'e\u0000' }],
  ['authMethod', { ...email, authMethod: 'a'.repeat(65) }],
  ['authValue', { ...email, authValue: 'no email' }],
  ['authValue', { ...social, authValue: '' }],
  ['authValue', { ...social, authValue: ' \n ' }],
  ['authValue', { ...social, authValue: 'a\u0000' }],
  ['authValue', { ...social, authValue: '\ud800' }],
  ['authValue', { ...social, authValue: 'a'.repeat(1501) }],
  ['authValue', { authMethod: 'wallet', authValue: 'no address' }],
  ['email', { ...email, email: 'bob@example.com' }],
  ['email', { ...social, email: 'no email' }],
  ['email', { ...social, email: '' }],
  ['wallet', { ...social, wallet: '0x12' }],
  ['wallet', { authMethod: 'wallet', authValue: stellarAddress(1), wallet: stellarAddress(2) }],
  ['accounts[0].publicKey', { ...social, accounts: [{ network: 'STELLAR', publicKey: 'x' }] }],
  ['accounts[0].publicKey', { ...social, accounts: [{ network: 'ETHEREUM', publicKey: stellarAddress(1) }] }],
  [
    'accounts[1].publicKey',
    { ...social, accounts: [0, 1].map(() => ({ network: 'STELLAR', publicKey: stellarAddress(1) })) },
  ],
  [
    'accounts',
    {
      ...social,
      accounts: Array.from({ length: 101 }, (_, index) => ({ network: 'STELLAR', publicKey: stellarAddress(index) })),
    },
  ],
])('an invalid %s is BAD_USER_INPUT, the error names it, and no user is registered: %j', async (field, input) => {
  const project = await app.createProject();
  const answer = await recordLogin(project, input);
  expect(codesOf(answer)).toEqual(['BAD_USER_INPUT']);
  expect(answer.errors?.[0]?.message.startsWith(`${field}: got `)).toBe(true);
  expect((await project.graphql('{ userCount }')).data).toEqual({ userCount: 0 });
});

test.each<[string, LoginInput]>([
  ['no authMethod', { authValue: 'x' }],
  ['no authValue', { authMethod: 'email' }],
  ['an unknown field', { ...email, loginCount: 7 }],
  ['an unknown network', { ...social, accounts: [{ network: 'BITCOIN', publicKey: 'x' }] }],
  ['a null account', { ...social, accounts: [null] }],
  ['a number for text', { ...social, authValue: 1 }],
])('an input with %s is BAD_USER_INPUT', async (_, input) => {
  const project = await app.createProject();
  expect(codesOf(await recordLogin(project, input))).toEqual(['BAD_USER_INPUT']);
});

test('a banned identity cannot register or log in, even after its user is removed, until it is unbanned', async () => {
  const project = await app.createProject();
  const { projects, bans } = app.context.services;
  const scope = await projects.getScope(project.appId);
  const identity = parseIdentity(email, camelCase);

  await bans.ban(scope, identity);
  const refused = await recordLogin(project, { ...email, authValue: 'ADA@example.com' });
  expect(codesOf(refused)).toEqual(['BANNED']);
  expect({ status: refused.status, data: refused.data }).toEqual({ status: 200, data: null });

  await bans.unban(scope, identity);
  const { user } = (await recordLogin(project, email)).data.recordLogin;
  await bans.ban(scope, identity);
  expect(codesOf(await recordLogin(project, email))).toEqual(['BANNED']);
  await deleteUser(project, user.id);
  expect(codesOf(await recordLogin(project, email))).toEqual(['BANNED']);

  await bans.unban(scope, identity);
  expect((await recordLogin(project, email)).data.recordLogin.created).toBe(true);
});

test('a ban applies to one identity in one project only', async () => {
  const [project, other] = [await app.createProject(), await app.createProject()];
  const { projects, bans } = app.context.services;
  await bans.ban(await projects.getScope(project.appId), parseIdentity(email, camelCase));
  expect((await recordLogin(project, { ...social, email: email.authValue })).data.recordLogin.created).toBe(true);
  expect((await recordLogin(other, email)).data.recordLogin.created).toBe(true);
});

test('deleteUser removes a user once: it returns the id, and then NOT_FOUND', async () => {
  const project = await app.createProject();
  const { user } = (await recordLogin(project, email)).data.recordLogin;
  expect((await deleteUser(project, user.id)).data).toEqual({ deleteUser: { id: user.id } });
  const again = await deleteUser(project, user.id);
  expect(codesOf(again)).toEqual(['NOT_FOUND']);
  expect({ status: again.status, data: again.data }).toEqual({ status: 200, data: null });
  expect((await project.graphql(`{ user(id: ${user.id}) { id } userCount }`)).data).toEqual({
    user: null,
    userCount: 0,
  });
});

test('exactly one of several concurrent removals of a user succeeds', async () => {
  const project = await app.createProject();
  const { user } = (await recordLogin(project, email)).data.recordLogin;
  const answers = await Promise.all(Array.from({ length: 8 }, () => deleteUser(project, user.id)));
  expect(answers.map((answer) => codesOf(answer).join() || 'removed').sort()).toEqual([
    ...new Array(7).fill('NOT_FOUND'),
    'removed',
  ]);
});

test('a removed identity registers again with a new id and without its old data', async () => {
  const project = await app.createProject();
  const input = { ...social, accounts: [{ network: 'STELLAR', publicKey: stellarAddress(1) }] };
  await recordLogin(project, input);
  const before = (await recordLogin(project, input)).data.recordLogin.user;
  await deleteUser(project, before.id);
  const after = (await recordLogin(project, social)).data.recordLogin;
  expect(after).toMatchObject({ created: true, user: { loginCount: 1, accounts: [] } });
  expect(Number(after.user.id)).toBeGreaterThan(Number(before.id));
});

test('deleteUser of a user in another project is NOT_FOUND and does not remove the user', async () => {
  const [project, other] = [await app.createProject(), await app.createProject()];
  const { user } = (await recordLogin(other, email)).data.recordLogin;
  expect(codesOf(await deleteUser(project, user.id))).toEqual(['NOT_FOUND']);
  expect((await other.graphql('{ userCount }')).data).toEqual({ userCount: 1 });
});

test.each([String(Number.MAX_SAFE_INTEGER), '99999999999999999999999'])(
  'deleteUser of %s, an id no user can have, is NOT_FOUND',
  async (id) => {
    expect(codesOf(await deleteUser(await app.createProject(), id))).toEqual(['NOT_FOUND']);
  },
);

test('the mutations of one operation run in order', async () => {
  const project = await app.createProject();
  const input = '{ authMethod: "google", authValue: "1" }';
  const { data } = await project.graphql(`mutation {
    first: recordLogin(input: ${input}) { user { loginCount } }
    second: recordLogin(input: ${input}) { user { loginCount } }
    third: recordLogin(input: ${input}) { user { loginCount } }
  }`);
  expect(Object.values(data)).toEqual([1, 2, 3].map((loginCount) => ({ user: { loginCount } })));
});
