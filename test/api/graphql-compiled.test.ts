import { createRequire } from 'node:module';
import fc from 'fast-check';
import type * as GraphQL from 'graphql';
import { beforeAll, describe, expect, test } from 'vitest';
import { compile } from '#dist/engine/compiled.js';
import { prepareRequest } from '#dist/engine/execution.js';
import { engine, schema } from '#dist/graphql/schema.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

// The same copy of the module that the schema uses. An import would load a second copy.
const { execute, parse, validate }: typeof GraphQL = createRequire(import.meta.url)('graphql');

/** A compiled query gives the same answer as GraphQL.js, byte for byte, or leaves the operation to GraphQL.js. */

const app = useTestApp();
let project: TestProject;
let context: {
  scope: object;
  services: object;
  requestId: string;
  isLarge: boolean;
  charge: () => boolean;
  report: () => void;
};
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
  const { services } = app.context;
  const scope = await services.projects.getScope(project.appId);
  context = { scope, services, requestId: 'test', isLarge: false, charge: () => true, report: () => undefined };
  const { data } = await project.graphql('{ users(first: 100) { nodes { id } } }');
  ids = data.users.nodes.map((user: { id: string }) => user.id);
});

function accounts(...numbers: number[]) {
  return numbers.map((number) => ({ network: 'stellar', public_key: stellarAddress(number) }));
}

interface Question {
  readonly query: string;
  readonly variables?: Record<string, unknown>;
  readonly operationName?: string;
}

/** Both answers. `compiled` is null if it leaves the operation to GraphQL.js, undefined if it cannot be compiled. */
async function bothAnswers({ query, variables = {}, operationName }: Question) {
  const read = engine.readDocument(query);
  const document = read.tree as GraphQL.DocumentNode;
  expect(read.errors).toEqual([]);
  const prepared = prepareRequest(read, { query, variables, operationName });
  const executed = await execute({
    schema,
    document,
    contextValue: context,
    variableValues: variables,
    operationName: operationName ?? null,
  });
  if (prepared.refusal !== null) return { executed, compiled: null };
  const size = { fields: 0, most: 1_000 };
  const run = prepared.operation && compile(schema, document, prepared.operation.node, size);
  const answer = run === null ? undefined : await run(prepared.coerced, context as never);
  return { executed, compiled: typeof answer === 'object' && 'body' in answer ? answer.body : answer && null };
}

/** Compiles a valid operation with a limit on its number of fields. */
function compileOnly(query: string, operationName?: string, most = 1_000) {
  const document = engine.readDocument(query);
  const operation = document.operation(operationName);
  return operation && compile(schema, document.tree as GraphQL.DocumentNode, operation.node, { fields: 0, most });
}

async function expectSame(question: Question) {
  const { executed, compiled } = await bothAnswers(question);
  expect(compiled).toBe(executed.errors === undefined ? JSON.stringify(executed) : null);
}

const leaf = (...names: string[]) => fc.constantFrom(...names, '__typename');
const aliased = (selection: fc.Arbitrary<string>) =>
  fc.tuple(fc.constantFrom('', '', 'a: ', 'b: ', 'longerAlias: '), selection).map(([alias, text]) => alias + text);
const isMergeable = (query: string) => validate(schema, parse(query)).length === 0;

const accountSelection = fc.array(aliased(leaf('id', 'network', 'publicKey', 'walletType')), {
  minLength: 1,
  maxLength: 5,
});
const userSelection = fc
  .array(
    fc.oneof(
      { weight: 4, arbitrary: aliased(leaf('id', 'authMethod', 'authValue', 'loginMethod', 'wallet', 'loginCount')) },
      { weight: 2, arbitrary: aliased(leaf('createdAt', 'lastLogin')) },
      { weight: 2, arbitrary: aliased(accountSelection.map((fields) => `accounts { ${fields.join(' ')} }`)) },
      { weight: 1, arbitrary: fc.constantFrom('... on User { id wallet }', '... { authValue }', '...Known') },
    ),
    { minLength: 1, maxLength: 6 },
  )
  .map((fields) => `{ ${fields.join(' ')} }`);
const connectionSelection = fc
  .array(
    fc.oneof(
      userSelection.map((user) => `nodes ${user}`),
      userSelection.map((user) => `edges { cursor node ${user} }`),
      fc.constantFrom('totalCount', 'pageInfo { hasNextPage startCursor endCursor }', '__typename'),
    ),
    { minLength: 1, maxLength: 3 },
  )
  .map((fields) => `{ ${fields.join(' ')} }`);

const filter = fc.constantFrom(
  '',
  ', filter: {}',
  ', filter: { loginMethods: [PASSKEY] }',
  ', filter: { loginMethods: [] }',
  ', filter: { startDate: "2026-02-30" }',
  ', filter: { startDate: "2020-01-01", endDate: null }',
  ', filter: $filter',
  ', filter: { banned: false, lastLoginBefore: "2026-01-01" }',
  ', filter: { lastLoginAfter: "never" }',
);
const size = fc.constantFrom('1', '7', '100', '0', '$size');

const rootField = fc.oneof(
  fc.tuple(size, filter, connectionSelection).map(([first, by, rest]) => `users(first: ${first}${by}) ${rest}`),
  fc.tuple(size, filter, connectionSelection).map(([last, by, rest]) => `users(last: ${last}${by}) ${rest}`),
  fc
    .tuple(fc.constantFrom('1', '2', '99', '0', '$size'), userSelection)
    .map(([page, user]) => `userPage(page: ${page}, limit: 3) { page limit totalUser users ${user} }`),
  fc.tuple(fc.constantFrom('1', '"2"', '"x"', '$id'), userSelection).map(([id, user]) => `user(id: ${id}) ${user}`),
  fc.tuple(fc.constantFrom('[]', '[1, 2, 99999]', '[$id, "1"]'), userSelection).map(([list, user]) => {
    return `usersByIds(ids: ${list}) ${user}`;
  }),
  fc
    .tuple(fc.constantFrom('[]', '["ADA@example.com", "x@example.com"]', '["nobody"]'), userSelection)
    .map(([list, user]) => `usersByEmails(emails: ${list}) ${user}`),
  fc
    .tuple(fc.constantFrom('{ authMethod: "email", authValue: "ada@example.com" }', '[]'), userSelection)
    .map(([list, user]) => `usersByIdentities(identities: ${list}) ${user}`),
  fc.tuple(fc.constantFrom('1', '99999', '"x"', '$id'), userSelection).map(([id, user]) => {
    return `_entities(representations: [{ __typename: "User", id: ${id} }, { __typename: "User", id: 2 }]) { __typename ... on User ${user} }`;
  }),
  fc
    .tuple(fc.constantFrom('{ email: "ADA@example.com" }', '{ email: "nobody" }', '$search'), userSelection)
    .map(([by, user]) => `searchUsers(by: ${by}) ${user}`),
  fc
    .constantFrom(ethereumAddress(1), stellarAddress(2), 'nonsense')
    .map((address) => `verifyWallet(address: "${address}") { exists userId network walletType authMethod }`),
  fc
    .tuple(fc.constantFrom('ada@example.com', '1', '', 'nobody'), userSelection)
    .map(([any, user]) => `findUser(any: "${any}") ${user}`),
  fc
    .tuple(fc.constantFrom('a', '', 'nobody'), size, userSelection)
    .map(([prefix, first, user]) => `usersByPrefix(prefix: "${prefix}", first: ${first}) { hasMore users ${user} }`),
  fc
    .tuple(fc.constantFrom('A-1', ' ', 'nobody'), userSelection)
    .map(([externalId, user]) => `userByExternalId(externalId: "${externalId}") ${user}`),
  fc
    .tuple(fc.constantFrom('1', '0', '$size'), userSelection)
    .map(([first, user]) => `bans(first: ${first}) { nodes { authValue user ${user} } pageInfo { endCursor } }`),
  fc.constantFrom('userCount', 'userCount(filter: $filter)', '__typename'),
);

const question = fc
  .record({
    fields: fc.array(aliased(rootField), { minLength: 1, maxLength: 3 }),
    variables: fc.record(
      {
        size: fc.constantFrom<unknown>(3, 100, 0, 1.5, 'three'),
        id: fc.constantFrom<unknown>(1, '2', null, true),
        filter: fc.constantFrom<unknown>({}, null, { loginMethods: ['EMAIL'] }, { loginMethods: ['email'] }),
        search: fc.constantFrom<unknown>(
          { email: 'ada@example.com' },
          { address: ethereumAddress(1) },
          { email: 'ada@example.com', address: ethereumAddress(1) },
          {},
        ),
      },
      { requiredKeys: [] },
    ),
  })
  .map(({ fields, variables }) => {
    const body = fields.join(' ');
    const types = { size: 'Int! = 2', id: 'ID! = 1', filter: 'UserFilter', search: 'UserSearch!' };
    const used = Object.entries(types).filter(([name]) => body.includes(`$${name}`));
    const definitions = used.map(([name, type]) => `$${name}: ${type}`).join(' ');
    const fragment = body.includes('...Known')
      ? 'fragment Known on User { id ...More } fragment More on User { wallet }'
      : '';
    return { query: `query Q${definitions && `(${definitions})`} { ${body} } ${fragment}`, variables };
  })
  .filter(({ query }) => isMergeable(query));

test('any query with any variables gives the same data, or is left to GraphQL.js when there are errors', async () => {
  let compiledOnce = 0;
  await fc.assert(
    fc.asyncProperty(question, async (asked) => {
      const { executed, compiled } = await bothAnswers(asked);
      expect(compiled).toBe(executed.errors === undefined ? JSON.stringify(executed) : null);
      if (typeof compiled === 'string') compiledOnce += 1;
    }),
    { numRuns: 300 },
  );
  expect(compiledOnce).toBeGreaterThan(50);
});

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

test('a document with two operations executes the one that is named', async () => {
  const query = 'query A { userCount } query B { users(first: 1) { nodes { id } } }';
  await expectSame({ query, operationName: 'A' });
  await expectSame({ query, operationName: 'B' });
  const { executed } = await bothAnswers({ query, operationName: 'B' });
  expect(executed.data).toEqual({ users: { nodes: [{ id: ids[0] }] } });
});

test('users without accounts, special characters in values, and repeated fields give the same answer', async () => {
  await expectSame({
    query: `{ users(first: 100) { nodes { id id x: id authValue accounts { id } accounts { publicKey } ...F } totalCount } }
            fragment F on User { accounts { walletType } createdAt lastLogin }`,
  });
});

test('a field that fails while another is in flight does not affect the other', async () => {
  await expectSame({ query: `{ a: user(id: "x") { id } b: users { nodes { id } } c: user(id: ${ids[0]}) { id } }` });
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
