import { createRequire } from 'node:module';
import type * as GraphQL from 'graphql';
import { beforeAll, describe, expect, test } from 'vitest';
import { declaredCost as costOf } from '#dist/engine/cost.js';
import { prepareRequest } from '#dist/engine/execution.js';
import { LIMITS } from '#dist/engine/limits.js';
import { engine } from '#dist/graphql/engine.js';
import { schema } from '#dist/graphql/schema.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { explained } from '../support/graphql.js';

// The same copy of the module that the schema uses. An import would load a second copy.
const { getNullableType, isListType, isObjectType }: typeof GraphQL = createRequire(import.meta.url)('graphql');

const ALL_FIELDS =
  'id authMethod loginMethod authValue wallet createdAt lastLogin loginCount accounts { id network publicKey walletType }';

const VERIFY_MANY = 'query ($wallets: [WalletInput!]!) { verifyWallets(inputs: $wallets)';
const LOGIN = 'recordLogin(input: ';
const ACCOUNT = '{ network: STELLAR, publicKey: "G" }';

describe('the cost of an operation', () => {
  const cost = (query: string, variables?: Record<string, unknown>, operationName?: string) => {
    const document = engine.readDocument(query);
    expect(document.errors).toEqual([]);
    return prepareRequest(document, { query, variables, operationName }).cost;
  };

  test.each<[number, string, Record<string, unknown>?]>([
    [1, '{ __typename }'],
    [2, '{ parseAddress(address: "x") { reason } }'],
    [12, '{ user(id: 1) { id } }'],
    [15, '{ user(id: 1) { accounts { id } } }'],
    [201, '{ userCount }'],
    [402, '{ userCount again: userCount }'],
    // The arguments of a list, or their defaults, give its number of rows, up to the maximum of the field.
    [22, '{ users { nodes { id } } }'],
    [62, '{ users(first: 50) { nodes { id } } }'],
    [62, '{ users(last: 50) { nodes { id } } }'],
    [112, '{ users(first: 2000000000) { nodes { id } } }'],
    // A filter by state looks at users one by one, whether it stands in the document or in variables.
    [522, '{ users(filter: { banned: false }) { nodes { id } } }'],
    [
      522,
      'query ($b: Boolean) { users(filter: { banned: $b, startDate: "2026-01-01" }) { nodes { id } } }',
      { b: true },
    ],
    [522, 'query ($f: UserFilter) { users(filter: $f) { nodes { id } } }', { f: { lastLoginBefore: '2026-01-01' } }],
    [
      22,
      'query ($f: UserFilter) { users(filter: $f) { nodes { id } } }',
      { f: { lastLoginBefore: null, endDate: '2026-01-01' } },
    ],
    [22, 'query ($b: Boolean) { users(filter: { banned: $b, lastLoginAfter: null }) { nodes { id } } }', {}],
    [22, 'query ($f: UserFilter) { users(filter: $f) { nodes { id } } }', {}],
    [22, '{ bans { nodes { authValue } } }'],
    [1_012, '{ bans(first: 100) { nodes { user { id } } } }'],
    [24, '{ findUser(any: "x") { id } }'],
    [162, '{ usersByPrefix(prefix: "x") { users { id } } }'],
    [252, '{ usersByPrefix(prefix: "x", first: 50) { users { id authValue } } }'],
    // An empty list costs as much as a list of one row.
    [13, '{ users(first: -5) { nodes { id } } }'],
    [12, '{ usersByIds(ids: []) { id } }'],
    [12, 'query ($ids: [ID!]!) { usersByIds(ids: $ids) { id } }', { ids: [] }],
    [221, '{ userPage(limit: 9) { users { id } } }'],
    [222, '{ userPage { users { id } } }'],
    [38, '{ usersByIds(ids: [1, 2, 3]) { id } }'],
    [20, '{ usersByIds(ids: 99) { id } }'],
    [38, '{ usersByEmails(emails: ["a", "b", "c"]) { id } }'],
    [37, 'query ($e: [String!]!) { usersByEmails(emails: $e) { id accounts { id } } }', { e: ['a', 'b'] }],
    [12, '{ usersByExternalIds(externalIds: []) { id } }'],
    [29, 'query ($e: [String!]!) { usersByExternalIds(externalIds: $e) { id } }', { e: ['a', 'b'] }],
    [
      29,
      'query ($i: [IdentityInput!]!) { usersByIdentities(identities: $i) { id } }',
      { i: Array(2).fill({ authMethod: 'email', authValue: 'a' }) },
    ],
    [38, '{ _entities(representations: [{ id: 1 }, { id: 2 }, { id: 3 }]) { ... on User { id } } }'],
    [102, '{ _service { sdl } }'],
    [14, '{ searchUsers(by: { email: "ada@example.com" }) { id } }'],
    // Fields beside the rows appear once in the answer and count once.
    [223, '{ users { totalCount nodes { id } } }'],
    [214, '{ users { totalCount pageInfo { hasNextPage } } }'],
    [42, '{ users { edges { cursor node { id } } } }'],
    [102, 'mutation { deleteUser(id: 1) { id } }'],
    // Each account of a login costs 1, whether it is written in the document or in variables.
    [102, `mutation { ${LOGIN}{ authMethod: "google", authValue: "1" }) { created } }`],
    [
      104,
      `mutation { ${LOGIN}{ authMethod: "google", authValue: "1", accounts: [${ACCOUNT}, ${ACCOUNT}] }) { created } }`,
    ],
    [
      105,
      `mutation ($a: [AccountInput!]) { ${LOGIN}{ authMethod: "google", authValue: "1", accounts: $a }) { created } }`,
      { a: new Array(3).fill({ network: 'STELLAR', publicKey: 'G' }) },
    ],
    [
      103,
      `mutation ($i: RecordLoginInput!) { ${LOGIN}$i) { created } }`,
      { i: { authMethod: 'google', authValue: '1', accounts: [{ network: 'STELLAR', publicKey: 'G' }] } },
    ],
    [
      105,
      `mutation { createUser(input: { authMethod: "google", authValue: "1", accounts: [${ACCOUNT}, ${ACCOUNT}] }) { user { id } } }`,
    ],
    [146, 'mutation ($ids: [ID!]!) { removeUsers(ids: $ids) { outcomes { id ok } } }', { ids: ['1', '2'] }],
    // Variables: present, absent with and without a default value, null, several at once.
    [62, 'query ($n: Int) { users(first: $n) { nodes { id } } }', { n: 50 }],
    [22, 'query ($n: Int) { users(first: $n) { nodes { id } } }'],
    [22, 'query ($n: Int) { users(first: $n) { nodes { id } } }', { n: null }],
    [42, 'query ($n: Int = 30) { users(first: $n) { nodes { id } } }'],
    [19, 'query ($n: Int, $m: Int) { users(first: $n, last: $m) { nodes { id } } }', { m: 7 }],
    [29, 'query ($ids: [ID!]!) { usersByIds(ids: $ids) { id } }', { ids: [4, '5'] }],
    [
      39,
      'query ($r: [_Any!]!) { _entities(representations: $r) { __typename ... on User { id accounts { id } } } }',
      { r: [{ id: 4 }, { id: 5 }] },
    ],
    [20, 'query ($ids: [ID!]!) { usersByIds(ids: $ids) { id } }', { ids: '5' }],
    [20, 'query ($id: ID!) { usersByIds(ids: [$id]) { id } }', { id: 5 }],
    // Of many wallets, each costs 2, and 1 for each field of its verdict.
    [26, `${VERIFY_MANY} { asOf verdict userId } }`, { wallets: Array(3).fill({ address: 'x' }) }],
    [13, `${VERIFY_MANY} { verdict reason } }`, { wallets: [] }],
    [0, 'query ($n: Int!) { users(first: $n) { nodes { id } } }', { n: 'many' }],
    // Fragments count at each spread. Fields that a directive skips count too.
    [
      72,
      '{ users { ...F } } fragment F on UserConnection { nodes { ...U ... on User { accounts { id } } } } fragment U on User { id wallet }',
    ],
    [62, 'query ($n: Int) { ...Q } fragment Q on Query { users(first: $n) { nodes { id } } }', { n: 50 }],
    [202, 'query ($yes: Boolean!) { __typename userCount @skip(if: $yes) }', { yes: true }],
  ])('%d: %s %j', (expected, query, variables) => {
    expect(cost(query, variables)).toBe(expected);
  });

  test('with several operations, only the one that is executed counts', () => {
    const query = 'query A { __typename } query B { userCount }';
    expect([cost(query, {}, 'A'), cost(query, {}, 'B'), cost(query, {}, 'C')]).toEqual([1, 201, 0]);
  });

  test('every list field has a maximum length, of its own or from its parent field', () => {
    const lists = Object.values(schema.getTypeMap()).flatMap((type) => {
      if (!isObjectType(type) || type.name.startsWith('__')) return [];
      return Object.values(type.getFields()).flatMap((field) =>
        isListType(getNullableType(field.type))
          ? [{ name: `${type.name}.${field.name}`, rows: costOf(field).rows }]
          : [],
      );
    });
    const namesOf = (some: typeof lists) => some.map(({ name }) => name).toSorted();
    const bounded = lists.filter(({ rows }) => rows !== undefined);
    expect(namesOf(bounded)).toEqual(
      `Query._entities Query.findUser Query.searchUsers Query.usersByEmails Query.usersByExternalIds
      Query.usersByIdentities Query.usersByIds Query.verifyWallets Query.webhooks User.accounts User.identities
      Webhook.attempts`.split(/\s+/),
    );
    // The lists below Query.users, Query.userPage, Query.usersByPrefix, Query.bans, Query.changes, Mutation.removeUsers and Mutation.banUsers, and the names of the fields of a user, of scopes and of types.
    const byTheField = lists.filter(({ rows }) => rows === undefined);
    expect(namesOf(byTheField)).toEqual(
      `BanConnection.edges BanConnection.nodes Caller.scopes Change.fields ChangeConnection.edges ChangeConnection.nodes
      UserConnection.edges UserConnection.nodes UserOutcomesPayload.outcomes UserPage.users UsersByPrefix.users Webhook.types`.split(
        /\s+/,
      ),
    );
  });

  test('four pages of 100 users with all fields are within the limit', () => {
    const page = `totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor } nodes { ${ALL_FIELDS} }`;
    expect(4 * cost(`{ users(first: 100) { ${page} } }`)).toBeLessThanOrEqual(LIMITS.cost);
  });
});

describe('an operation that costs too much', () => {
  const app = useTestApp();
  let project: TestProject;
  beforeAll(async () => {
    project = await app.createProject();
  });

  const pages = Array.from({ length: 100 }, (_, index) => `p${index}: users(first: $n) { nodes { id authValue } }`);
  const query = `query ($n: Int) { ${pages.join(' ')} }`;
  const refusal = (cost: number) => [
    { message: `cost: got ${cost}, expected at most 10000.`, extensions: explained('BAD_USER_INPUT') },
  ];

  test('is refused because of its variables, even if it passed before and is already compiled', async () => {
    for (let time = 0; time < 6; time += 1) {
      const fine = await project.graphql(query, { n: 25 });
      expect([Object.keys(fine.data).length, fine.errors]).toEqual([100, undefined]);
      const dear = await project.graphql(query, { n: 50 });
      expect([dear.data, dear.errors]).toEqual([undefined, refusal(11_200)]);
    }
  });

  test('is not executed', async () => {
    app.statements.length = 0;
    const counts = Array.from(
      { length: 51 },
      (_, day) => `c${day}: userCount(filter: { startDate: "${2000 + day}-01-01" })`,
    );
    expect((await project.graphql(`{ ${counts.join(' ')} }`)).errors).toEqual(refusal(10_251));
    const writes = Array.from({ length: 100 }, (_, id) => `d${id}: deleteUser(id: ${id + 1}) { id }`);
    expect((await project.graphql(`mutation { ${writes.join(' ')} }`)).errors).toEqual(refusal(10_200));
    expect(app.statements.filter((sql) => !/app_secrets/.test(sql))).toEqual([]);
  });
});
