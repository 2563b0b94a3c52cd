import { expect, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { useTestApp } from '../support/app.js';
import { addNamedUsers, codesOf, explained, idsOf } from '../support/graphql.js';

const app = useTestApp();

const UNKNOWN_ID = String(Number.MAX_SAFE_INTEGER);
/** Larger than PostgreSQL's bigint, and larger than JSON numbers can represent exactly. */
const IMPOSSIBLE_ID = '99999999999999999999999';

test('every field of a user and its accounts is returned, including nulls', async () => {
  const project = await app.createProject();
  await project.addUsers(
    {
      auth_method: 'wallet',
      auth_value: ethereumAddress(1),
      created_at: '2026-02-03T04:05:06.789Z',
      last_login: '2026-02-04T00:00:00.000Z',
      login_count: 7,
      accounts: [{ network: 'stellar', public_key: stellarAddress(1) }],
    },
    { auth_method: 'passkey', auth_value: 'credential', created_at: '2026-01-01T00:00:00.000Z' },
  );
  const { data, errors } = await project.graphql(`{ userPage { users {
    id authMethod loginMethod authValue wallet createdAt lastLogin loginCount accounts { id network publicKey walletType }
  } } }`);
  expect(errors).toBeUndefined();
  expect(data.userPage.users).toEqual([
    {
      id: expect.stringMatching(/^[1-9][0-9]*$/),
      authMethod: 'wallet',
      loginMethod: 'WALLET',
      authValue: ethereumAddress(1),
      wallet: ethereumAddress(1),
      createdAt: '2026-02-03T04:05:06.789Z',
      lastLogin: '2026-02-04T00:00:00.000Z',
      loginCount: 7,
      accounts: [
        {
          id: expect.stringMatching(/^[1-9][0-9]*$/),
          network: 'STELLAR',
          publicKey: stellarAddress(1),
          walletType: 'CUSTODIAL',
        },
        {
          id: expect.stringMatching(/^[1-9][0-9]*$/),
          network: 'ETHEREUM',
          publicKey: ethereumAddress(1),
          walletType: 'EXTERNAL',
        },
      ],
    },
    {
      id: expect.stringMatching(/^[1-9][0-9]*$/),
      authMethod: 'passkey',
      loginMethod: 'PASSKEY',
      authValue: 'credential',
      wallet: null,
      createdAt: '2026-01-01T00:00:00.000Z',
      lastLogin: null,
      loginCount: 0,
      accounts: [],
    },
  ]);
});

test('the error for an invalid id states the argument, the received value, the accepted values, and the location', async () => {
  const project = await app.createProject();
  const { errors } = await project.graphql('{ mistyped: user(id: "4x") { id } }');
  expect(errors).toEqual([
    {
      message: 'id: got "4x", expected decimal digits, 1 and up.',
      path: ['mistyped'],
      locations: [{ line: 1, column: 3 }],
      extensions: { ...explained('BAD_USER_INPUT'), argument: 'id' },
    },
  ]);
});

test('a field that fails does not affect other nullable fields', async () => {
  const project = await addNamedUsers(app, 'ada');
  const { ada } = await idsOf(project);
  const { status, data } = await project.graphql(`{ good: user(id: ${ada}) { id } bad: user(id: "x") { id } }`);
  expect({ status, data }).toEqual({ status: 200, data: { good: { id: ada }, bad: null } });
});

test('usersByIds keeps the order and repetitions of the ids, with null for each user it does not find', async () => {
  const project = await addNamedUsers(app, 'ada', 'bob', 'eve');
  const stranger = (await idsOf(await addNamedUsers(app, 'mallory')))['mallory'];
  const { ada, bob, eve } = await idsOf(project);
  await project.graphql(`mutation { deleteUser(id: ${eve}) { id } }`);
  const ids = [bob, UNKNOWN_ID, ada, stranger, Number(bob), eve, IMPOSSIBLE_ID];
  const { data } = await project.graphql('query ($ids: [ID!]!) { usersByIds(ids: $ids) { authValue } }', { ids });
  const bobAndAda = { bob: { authValue: 'bob@example.com' }, ada: { authValue: 'ada@example.com' } };
  expect(data.usersByIds).toEqual([bobAndAda.bob, null, bobAndAda.ada, null, bobAndAda.bob, null, null]);
});

test('usersByIds accepts from 0 to 100 ids and refuses 101', async () => {
  const project = await app.createProject();
  const ask = (count: number) =>
    project.graphql('query ($ids: [ID!]!) { usersByIds(ids: $ids) { id } }', {
      ids: Array.from({ length: count }, (_, index) => index + 1),
    });
  expect((await ask(0)).data.usersByIds).toEqual([]);
  expect((await ask(100)).data.usersByIds).toEqual(new Array(100).fill(null));
  const refused = await ask(101);
  expect(codesOf(refused)).toEqual(['BAD_USER_INPUT']);
  expect(refused.errors?.[0]?.message).toBe('ids: got 101, expected at most 100.');
});

test.each([
  {},
  { email: null },
  { email: 'a@example.com', address: stellarAddress(1) },
  { email: 'a@example.com', address: null },
  { email: '' },
  { email: 'nobody' },
  { email: 'a\u0000@example.com' },
  { email: 'a\ud800@example.com' },
  { address: '' },
  { address: stellarAddress(1).toLowerCase() },
])('searchUsers(by: %j) is BAD_USER_INPUT', async (by) => {
  const project = await app.createProject();
  const answer = await project.graphql('query ($by: UserSearch!) { searchUsers(by: $by) { id } }', { by });
  // An input that breaks two rules has two errors.
  expect(new Set(codesOf(answer))).toEqual(new Set(['BAD_USER_INPUT']));
});
