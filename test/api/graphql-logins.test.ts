import { expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
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

test('a null optional field is treated as absent', async () => {
  const project = await app.createProject();
  const input = { authMethod: 'google', authValue: '1', email: null, wallet: null, accounts: null };
  expect((await recordLogin(project, input)).data.recordLogin.created).toBe(true);
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
