import type * as GraphQL from 'graphql';
import { beforeAll, describe, expect, test } from 'vitest';
import { parseBanTerms } from '#dist/domain/bans.js';
import { parseIdentity } from '#dist/domain/identities.js';
import { camelCase } from '#dist/domain/spelling.js';
import { compile } from '#dist/engine/compiled.js';
import { answerFast, prepareRequest } from '#dist/engine/execution.js';
import { contextOf } from '#dist/graphql/context.js';
import { engine } from '#dist/graphql/engine.js';
import { schema } from '#dist/graphql/schema.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** What is compiled, and what is left to GraphQL.js. That both answer the same, differential.slow.test.ts checks. */

const app = useTestApp();
/** Compiles a valid operation with a limit on its number of fields. */
function compileOnly(query: string, operationName?: string, most = 1_000) {
  const document = engine.readDocument(query);
  const operation = document.operation(operationName);
  return (
    operation && compile(schema, document.tree as GraphQL.DocumentNode, operation.node, { fields: 0, most, answers: 0 })
  );
}

describe('operations that are left to GraphQL.js', () => {
  test.each([
    'mutation { a: deleteUser(id: 1) { id } b: deleteUser(id: 2) { id } }',
    'subscription { changes(after: "x") { cursor } }',
    '{ userCount @include(if: true) }',
    'query ($yes: Boolean! = true) { users { nodes { id @skip(if: $yes) wallet } } }',
    '{ ...F @include(if: true) } fragment F on Query { userCount }',
    '{ __schema { queryType { name } } }',
    '{ __type(name: "User") { name } userCount }',
  ])('%s cannot be compiled', async (query) => {
    expect(compileOnly(query)).toBeNull();
  });

  test('an operation with many more fields than its document has tokens is not compiled', () => {
    const fragments = Array.from({ length: 9 }, (_, n) => `fragment F${n} on User { accounts { id } ...F${n + 1} }`);
    const query = `{ ${'abcdefghij'.replace(/./g, '$&: users { nodes { ...F0 } } ')} } ${fragments.join(' ')} fragment F9 on User { ${'abcdefghij'.replace(/./g, '$&: id ')} }`;
    expect(engine.readDocument(query).errors).toEqual([]);
    expect(compileOnly(query, undefined, 100)).toBeNull();
    expect(compileOnly(query, undefined, 300)).not.toBeNull();
  });
});

describe('a compiled mutation', () => {
  let own: TestProject;
  beforeAll(async () => {
    own = await app.createProject();
  });
  const login = (fields: string, name: string) =>
    own.graphql(`mutation Login($input: RecordLoginInput!) { recordLogin(input: $input) { ${fields} } }`, {
      input: { authMethod: 'google', authValue: name },
    });

  test.each([
    ['is written as it is compiled', 'created user { id loginCount }'],
    // Accounts are read below the root, which a compiled operation leaves to GraphQL.js.
    ['is completed by GraphQL.js', 'created user { id loginCount accounts { id } }'],
  ])('is executed once, where the answer %s', async (name, fields) => {
    expect(compileOnly('mutation { deleteUser(id: 1) { id } }')).not.toBeNull();
    const answers: Json[] = [];
    for (let time = 0; time < 6; time += 1) answers.push(await login(fields, name));
    expect(answers.map(({ data }) => data.recordLogin.user.loginCount)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(answers.map(({ data }) => data.recordLogin.created)).toEqual([true, ...new Array(5).fill(false)]);
  });

  test('has the errors of its first execution, at their places', async () => {
    const remove = () =>
      own.graphql('mutation Remove($id: ID!) { deleteUser(id: $id) { id } }', { id: String(removable.pop()) });
    const removable: (number | string)[] = [];
    for (let time = 0; time < 5; time += 1)
      removable.push((await login('user { id }', `removed ${time}`)).data.recordLogin.user.id);
    const last = removable[0];
    for (let time = 0; time < 5; time += 1) expect((await remove()).errors).toBeUndefined();
    removable.push(last as string, 'x');
    expect((await remove()).errors).toMatchObject([{ path: ['deleteUser'], extensions: { code: 'BAD_USER_INPUT' } }]);
    expect((await remove()).errors).toMatchObject([{ path: ['deleteUser'], extensions: { code: 'NOT_FOUND' } }]);
  });
});

describe('a query that is compiled', () => {
  let own: TestProject;
  let ids: string[];
  beforeAll(async () => {
    own = await app.createProject();
    await own.addUsers(
      { auth_method: 'google', auth_value: 'a "quote", é and \u2028', email: 'ada@example.com', external_id: 'x-1' },
      { auth_method: 'wallet', auth_value: ethereumAddress(1), last_login: '2026-01-02T03:04:05.006Z' },
      {
        auth_method: 'email',
        auth_value: 'ada@example.com',
        accounts: [{ network: 'stellar', public_key: stellarAddress(1) }],
      },
    );
    const { nodes } = (await own.graphql('{ users { nodes { id } } }')).data.users;
    ids = nodes.map(({ id }: Json) => id);
    const scope = await app.context.services.projects.getScope(own.appId);
    const banned = parseIdentity({ authMethod: 'email', authValue: 'ada@example.com' }, camelCase);
    await app.context.services.bans.ban(scope, banned, parseBanTerms({ reason: 'spam' }, 'expiresAt'));
  });

  async function textOf(query: string, more: object = {}): Promise<string> {
    const response = await fetch(`${app.url}/graphql`, {
      method: 'POST',
      headers: { ...own.credentials, 'content-type': 'application/json' },
      body: JSON.stringify({ query, variables: { ids: [...ids, '999999'], id: ids[0], absent: '999999' }, ...more }),
    });
    return response.text();
  }

  test.each([
    '{ __typename }',
    '{ __typename userCount other: __typename }',
    '{ a: userCount b: userCount(filter: { loginMethods: [EMAIL] }) c: userCount }',
    '{ users(first: 2) { totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor } edges { cursor node { id } } } }',
    '{ users { nodes { __typename id authMethod loginMethod authValue email wallet externalId createdAt lastLogin loginCount } } }',
    '{ users { nodes { id accounts { __typename id network publicKey walletType } } } }',
    '{ bans { nodes { authMethod authValue reason expiresAt isOfUser } } }',
    '{ users { nodes { ...Facts id ...Facts } } } fragment Facts on User { id wallet ...More } fragment More on User { id loginCount }',
    '{ users { nodes { ... on User { id } ... { authValue } } } }',
    'query ($ids: [ID!]!) { usersByIds(ids: $ids) { id email } }',
    'query ($id: ID!, $absent: ID!) { one: user(id: $id) { id } none: user(id: $absent) { id } again: user(id: $id) { authValue } }',
    `{ verifyWallet(address: "${ethereumAddress(1)}") { exists userId network walletType authMethod } }`,
    '{ searchUsers(by: { email: "ADA@example.com" }) { id } }',
  ])('answers as GraphQL.js does, byte for byte: %s', async (query) => {
    expect(compileOnly(query)).not.toBeNull();
    // By GraphQL.js, as any request with extensions is.
    const expected = await textOf(query, { extensions: {} });
    expect(JSON.parse(expected)).not.toHaveProperty('errors');
    for (let time = 0; time < 7; time += 1) expect(await textOf(query)).toBe(expected);
  });
});

test('rows are charged once for a compiled query that GraphQL.js has to execute again', async () => {
  const shared = await app.createProject();
  const email = 'shared@example.com';
  await shared.addUsers(
    ...Array.from({ length: 60 }, (_, n) => ({ auth_method: 'google', auth_value: `g${n}`, email })),
  );
  const fields = Array.from({ length: 140 }, (_, n) => `a${n}: id`).join(' ');
  const query = `query ($id: ID!) { searchUsers(by: { email: "${email}" }) { ${fields} } user(id: $id) { id } }`;
  const { services } = app.context;
  const scope = await services.projects.getScope(shared.appId);
  const document = engine.readDocument(query);
  const units = async (id: string) => {
    let added = 0;
    const addWeight = (more: number) => {
      added += more;
    };
    const prepared = {
      ...prepareRequest(document, { query, variables: { id }, operationName: undefined }),
      isPlain: true,
    };
    const context = contextOf(
      { id: 'a', scope, until: Number.POSITIVE_INFINITY, addWeight, report: () => undefined },
      prepared,
      services,
    );
    const body = await answerFast(prepared, context, engine.createDocumentCache());
    return { added, isCompiled: document.operation(undefined)?.run !== null, answer: JSON.parse(body ?? 'null') };
  };
  const bySlowWay = await units('x');
  for (let time = 0; time < 4; time += 1) await units('999999');
  const afterBailOut = await units('x');
  expect([bySlowWay.isCompiled, afterBailOut.isCompiled]).toEqual([false, true]);
  expect(bySlowWay.added).toBeGreaterThan(0);
  expect(afterBailOut.added).toBe(bySlowWay.added);
  expect(afterBailOut.answer).toEqual(bySlowWay.answer);
  expect(afterBailOut.answer).toMatchObject({ data: { user: null }, errors: [{ path: ['user'] }] });
  expect(afterBailOut.answer.data.searchUsers).toHaveLength(60);
});

test('an answer that is too large is refused by one statement, by GraphQL.js and compiled', async () => {
  const long = await app.createProject();
  const users = Array.from({ length: 100 }, (_, n) => ({
    auth_method: 'passkey',
    auth_value: `${n} ${'x'.repeat(1_400)}`,
  }));
  await long.addUsers(...users);
  const fields = (count: number) => Array.from({ length: count }, (_, n) => `a${n}: authValue`).join(' ');
  const ask = async (count: number) => {
    app.statements.length = 0;
    const { status, data, errors } = await long.graphql(`{ users(first: 100) { nodes { ${fields(count)} } } }`);
    return { status, data, errors, statements: app.statements.filter((sql) => !/app_secrets/.test(sql)).length };
  };
  expect(await ask(50)).toMatchObject({ status: 200, errors: undefined, statements: 1 });
  // It is compiled after some times.
  for (let time = 0; time < 6; time += 1) {
    const { status, data, errors, statements } = await ask(64);
    expect(errors?.[0]?.message).toMatch(/^answer: got more, expected at most 8388608 bytes/);
    expect([status, data, statements]).toEqual([200, undefined, 1]);
  }
});
