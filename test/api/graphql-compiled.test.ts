import type * as GraphQL from 'graphql';
import { beforeAll, describe, expect, test } from 'vitest';
import { compile } from '#dist/engine/compiled.js';
import { engine, schema } from '#dist/graphql/schema.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** What is compiled, and what is left to GraphQL.js. That both answer the same, differential.slow.test.ts checks. */

const app = useTestApp();
let project: TestProject;
let ids: string[];

beforeAll(async () => {
  project = await app.createProject();
  await project.addUsers(
    { auth_method: 'wallet', auth_value: ethereumAddress(1), last_login: '2026-01-31T12:00:00.12Z', login_count: 7 },
    { auth_method: 'email', auth_value: 'grace@example.com', accounts: accounts(2, 3) },
    {
      auth_method: 'google',
      auth_value: 'a "quote", a \\ and 😀 and é',
      email: 'ada@example.com',
      accounts: accounts(4),
    },
    ...Array.from({ length: 30 }, (_, index) => ({ auth_method: 'passkey', auth_value: `passkey ${index}` })),
  );
  const { data } = await project.graphql('{ users(first: 100) { nodes { id } } }');
  ids = data.users.nodes.map((user: { id: string }) => user.id);
});

function accounts(...numbers: number[]) {
  return numbers.map((number) => ({ network: 'stellar', public_key: stellarAddress(number) }));
}

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

test('over HTTP, the twentieth execution gives the same answer as the first', async () => {
  const query = 'query ($id: ID!, $size: Int) { user(id: $id) { id authValue } users(first: $size) { nodes { id } } }';
  const ask = async (variables: object) => {
    const { status, data, errors } = await project.graphql(query, variables as Record<string, unknown>);
    return { status, data, errors };
  };
  const good = { id: ids[0], size: 2 };
  const [first, bad, worse] = [await ask(good), await ask({ id: 'x', size: 2 }), await ask({ size: 2 })];
  expect(first.data.users.nodes).toEqual([{ id: ids[0] }, { id: ids[1] }]);
  expect([bad.errors?.[0]?.extensions.code, worse.errors?.[0]?.extensions.code]).toEqual([
    'BAD_USER_INPUT',
    'BAD_USER_INPUT',
  ]);
  for (let time = 0; time < 20; time += 1) expect(await ask(good)).toEqual(first);
  expect(await ask({ id: 'x', size: 2 })).toEqual(bad);
  expect(await ask({ size: 2 })).toEqual(worse);
});
