import { expect, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, useTestApp } from '../support/app.js';
import { addNamedUsers, codesOf, explained, idsOf, namesOf } from '../support/graphql.js';

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

test('users gives the newest 10 by default, with edges, nodes and the total', async () => {
  const project = await addNamedUsers(app, ...Array.from({ length: 12 }, (_, index) => `user${index}`));
  const { data } = await project.graphql(`{ users {
    totalCount nodes { authValue } edges { cursor node { authValue } }
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
  } }`);
  const newest = Array.from({ length: 10 }, (_, index) => `user${11 - index}`);
  expect(namesOf(data.users.nodes)).toEqual(newest);
  expect(namesOf(data.users.edges.map((edge: Json) => edge.node))).toEqual(newest);
  expect(data.users.totalCount).toBe(12);
  expect(data.users.pageInfo).toEqual({
    hasNextPage: true,
    hasPreviousPage: false,
    startCursor: data.users.edges[0].cursor,
    endCursor: data.users.edges[9].cursor,
  });
});

test('an empty list has no cursors, and no previous or next page', async () => {
  const project = await app.createProject();
  const { data } = await project.graphql(
    '{ users { totalCount nodes { id } edges { cursor } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }',
  );
  expect(data.users).toEqual({
    totalCount: 0,
    nodes: [],
    edges: [],
    pageInfo: { hasNextPage: false, hasPreviousPage: false, startCursor: null, endCursor: null },
  });
});

test.each(
  'first:0 first:-1 first:101 last:0 last:101 first:2147483647 first:1,last:1 first:1.5 first:"10" first:2147483648'.split(
    ' ',
  ),
)('users(%s) is BAD_USER_INPUT', async (page) => {
  const project = await app.createProject();
  expect(codesOf(await project.graphql(`{ users(${page}) { totalCount } }`))).toEqual(['BAD_USER_INPUT']);
});

test('a null argument of users is treated as absent', async () => {
  const project = await addNamedUsers(app, 'ada');
  const { data } = await project.graphql(
    `{ users(filter: null, first: null, after: null, last: null, before: null) { totalCount }
       userCount(filter: { startDate: null, endDate: null, loginMethods: null }) }`,
  );
  expect(data).toEqual({ users: { totalCount: 1 }, userCount: 1 });
});

test.each([
  ['0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed', 'ETHEREUM', false],
  ['0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed', 'ETHEREUM', true],
  ['GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ', 'STELLAR', true],
  ['hello', null, null],
  [`S${'B'.repeat(55)}`, null, null],
])(
  'parseAddress tells the network, the form and the checksum of %s, or why it is none',
  async (address, network, checksumValid) => {
    const project = await app.createProject();
    const { data } = await project.graphql(
      'query ($address: String!) { parseAddress(address: $address) { network canonical checksumValid reason } }',
      { address },
    );
    expect(data.parseAddress).toEqual({
      network,
      canonical: network && (network === 'STELLAR' ? address : address.toLowerCase()),
      checksumValid,
      reason: network ? null : expect.not.stringContaining(address),
    });
  },
);
