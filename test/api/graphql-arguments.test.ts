import { readFileSync } from 'node:fs';
import {
  buildSchema,
  type GraphQLArgument,
  type GraphQLInputField,
  getNullableType,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isRequiredInputField,
} from 'graphql';
import { beforeAll, describe, expect, test } from 'vitest';
import { CHANGE_TYPES } from '#dist/domain/change-types.js';
import { nameOf } from '#dist/domain/spelling.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { explained } from '../support/graphql.js';
import { jsonPost } from '../support/rest.js';

const app = useTestApp();
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
});

describe('extensions.argument', () => {
  const login = (input: string) => `mutation { recordLogin(input: { authMethod: "google", ${input} }) { created } }`;
  test.each<[argument: string | undefined, operation: string]>([
    ['id', '{ user(id: "x") { id } }'],
    ['ids[1]', '{ usersByIds(ids: [1, "x"]) { id } }'],
    ['ids[0]', '{ usersByIds(ids: ["0"]) { id } }'],
    [
      'representations[1].id',
      '{ _entities(representations: [{ __typename: "User", id: 1 }, { __typename: "User" }]) { __typename } }',
    ],
    ['representations[0].__typename', '{ _entities(representations: [{ __typename: "X", id: 1 }]) { __typename } }'],
    ['representations[0]', '{ _entities(representations: [1]) { __typename } }'],
    ['ids', `{ usersByIds(ids: [${'1, '.repeat(101)}]) { id } }`],
    ['emails[1]', '{ usersByEmails(emails: ["a@example.com", "x"]) { id } }'],
    ['externalIds[0]', '{ usersByExternalIds(externalIds: [""]) { id } }'],
    ['identities[0].authValue', '{ usersByIdentities(identities: [{ authMethod: "wallet", authValue: "x" }]) { id } }'],
    ['filter.startDate', '{ userCount(filter: { startDate: "x" }) }'],
    ['filter.loginMethods', '{ userCount(filter: { loginMethods: [] }) }'],
    ['page', '{ userPage(page: 0) { page } }'],
    ['limit', '{ userPage(limit: 101) { page } }'],
    ['after', '{ users(after: "x") { totalCount } }'],
    ['first', '{ users(first: 1, last: 1) { totalCount } }'],
    ['by.email', '{ searchUsers(by: { email: "x" }) { id } }'],
    ['by.address', '{ searchUsers(by: { address: "x" }) { id } }'],
    ['authMethod', '{ userByIdentity(authMethod: "X", authValue: "x") { id } }'],
    ['authValue', '{ userByIdentity(authMethod: "wallet", authValue: "x") { id } }'],
    ['userId', `{ verifyWallet(address: "${stellarAddress(1)}", userId: null) { exists } }`],
    ['input.authValue', login('authValue: ""')],
    ['input.email', login('authValue: "x", email: "x"')],
    ['input.accounts[0].publicKey', login('authValue: "x", accounts: [{ network: STELLAR, publicKey: "x" }]')],
    ['idempotencyKey', 'mutation { deleteUser(id: 1, idempotencyKey: "a b") { id } }'],
    ['id', 'mutation { wrong: deleteUser(id: "0") { id } }'],
    // Not about an argument, or not one that a field was given.
    [undefined, '{ user(id: 1) { nothing } }'],
    ['nothing', '{ users(nothing: 1) { totalCount } }'],
    [undefined, '{ users { totalCount @include(if: "x") } }'],
    // Values that do not fit their type.
    ['first', '{ users(first: "x") { totalCount } }'],
    ['filter.loginMethods[1]', '{ userCount(filter: { loginMethods: [EMAIL, GOOGLE] }) }'],
    ['filter.loginMethods', '{ userCount(filter: { loginMethods: "EMAIL" }) }'],
    ['filter.startDat', '{ userCount(filter: { startDat: "2026-01-31" }) }'],
    ['filtre', '{ userCount(filtre: null) }'],
    [
      'input.accounts[1].network',
      login('authValue: "x", accounts: [{ network: STELLAR, publicKey: "x" }, { network: 1, publicKey: "x" }]'),
    ],
    ['input.authValue', 'mutation { recordLogin(input: { authMethod: "google" }) { created } }'],
    ['input.accounts[0].publicKey', login('authValue: "x", accounts: [{ network: STELLAR }]')],
    ['page', '{ userPage(page: null) { page } }'],
    ['first', '{ ...Some } fragment Some on Query { users(first: 1.5) { totalCount } }'],
  ])('is %s for %s', async (argument, operation) => {
    const { errors } = await project.graphql(operation);
    expect(errors?.map(({ extensions }) => extensions)).toEqual([
      { ...explained('BAD_USER_INPUT'), ...(argument !== undefined && { argument }) },
    ]);
  });

  test.each<[argument: string | undefined, query: string, variables: Json]>([
    ['first', 'query ($n: Int) { users(first: $n) { totalCount } }', { n: 'ten' }],
    ['id', 'query ($x: ID!) { user(id: $x) { id } }', {}],
    [
      'input.authValue',
      'mutation ($i: RecordLoginInput!) { recordLogin(input: $i) { created } }',
      { i: { authMethod: 'x' } },
    ],
    [
      'inputs[1].address',
      'query ($i: [WalletInput!]!) { verifyWallets(inputs: $i) { verdict } }',
      { i: [{ address: 'x' }, {}] },
    ],
    ['filter.loginMethod', 'query ($f: UserFilter) { userCount(filter: $f) }', { f: { loginMethod: ['EMAIL'] } }],
    ['filter.loginMethods[0]', 'query ($f: UserFilter) { userCount(filter: $f) }', { f: { loginMethods: ['GOOGLE'] } }],
    ['filter.loginMethods', 'query ($m: [LoginMethod!]) { userCount(filter: { loginMethods: $m }) }', { m: [] }],
    [
      'filter.loginMethods[1]',
      'query ($m: [LoginMethod!]) { userCount(filter: { loginMethods: $m }) }',
      { m: ['EMAIL', 1] },
    ],
    [
      'inputs[1].address',
      'query ($i: [WalletInput!]!) { verifyWallets(inputs: $i) { verdict } }',
      { i: [{ address: 'x' }, { address: 1 }] },
    ],
    ['first', 'query ($n: Int) { ...Some } fragment Some on Query { users(first: $n) { totalCount } }', { n: 1.5 }],
    [
      'limit',
      'query A { userCount } query B($n: Int!) { a: userPage(limit: $n) { page } b: userPage(page: $n) { page } }',
      { n: 'x' },
    ],
    [undefined, 'query ($i: Boolean!) { userCount @include(if: $i) }', { i: 'x' }],
  ])('is %s for a variable of %s', async (argument, query, variables) => {
    const operationName = query.startsWith('query A') ? 'B' : undefined;
    const { body } = await project.rest('/graphql', jsonPost({ query, variables, operationName }));
    expect(body.errors.map(({ extensions }: Json) => extensions)).toEqual([
      { ...explained('BAD_USER_INPUT'), ...(argument !== undefined && { argument }) },
    ]);
  });

  const CHANGES = CHANGE_TYPES.map(nameOf).toSorted().join(', ');
  const METHODS = 'Expected one of EMAIL, PASSKEY, SOCIALS, WALLET';
  test.each<[message: string, query: string, variables?: Json]>([
    [
      `Value "GOOGLE" does not exist in "LoginMethod" enum. ${METHODS}.`,
      '{ userCount(filter: { loginMethods: [GOOGLE] }) }',
    ],
    [
      `Enum "LoginMethod" cannot represent non-enum value: "EMAIL". Did you mean the enum value "EMAIL"? ${METHODS}, without quotes.`,
      '{ userCount(filter: { loginMethods: ["EMAIL"] }) }',
    ],
    [
      `Variable "$m" got invalid value "GOOGLE" at "m[0]"; Value "GOOGLE" does not exist in "LoginMethod" enum. ${METHODS}.`,
      'query ($m: [LoginMethod!]) { userCount(filter: { loginMethods: $m }) }',
      { m: ['GOOGLE'] },
    ],
    [
      `Value "user" does not exist in "ChangeType" enum. Expected one of ${CHANGES}.`,
      '{ changes(types: [user]) { nodes { id } } }',
    ],
    [
      'OneOf Input Object "UserSearch" must specify exactly one key. Expected one of address, email.',
      '{ searchUsers(by: {}) { id } }',
    ],
    [
      'Variable "$by" got invalid value { email: "a", address: "b" }; Exactly one key must be specified for OneOf type "UserSearch". Expected one of address, email.',
      'query ($by: UserSearch!) { searchUsers(by: $by) { id } }',
      { by: { email: 'a', address: 'b' } },
    ],
    [
      'ID cannot represent a non-string and non-integer value: 1.5. Expected decimal digits.',
      '{ user(id: 1.5) { id } }',
    ],
    [
      'Variable "$id" got invalid value 1.5; ID cannot represent value: 1.5. Expected decimal digits.',
      'query ($id: ID!) { user(id: $id) { id } }',
      { id: 1.5 },
    ],
    [
      'email: got "ada x@b", expected an email address without blanks.',
      '{ searchUsers(by: { email: "ada x@b" }) { id } }',
    ],
    [
      'accounts[0].publicKey: got "[address]", expected a Stellar address (G and 55 more characters), as its network says.',
      `mutation { recordLogin(input: { authMethod: "q", authValue: "1", accounts: [{ network: STELLAR, publicKey: "0x${'a'.repeat(40)}" }] }) { created } }`,
    ],
  ])('the accepted values or keys are named: %s', async (message, query, variables = {}) => {
    const { errors } = await project.graphql(query, variables);
    expect(errors?.map((error) => error.message)).toEqual([message]);
  });

  test.each<[message: string, query: string, operationName?: string]>([
    [
      'operationName: got nothing, expected the name of an operation in the document: A, B.',
      'query A { userCount } query B { userCount }',
    ],
    [
      'operationName: got "C", expected the name of an operation in the document: A, B.',
      'query A { userCount } query B { userCount }',
      'C',
    ],
    [
      'operationName: got nothing, expected the name of an operation in the document: Q0, Q1, Q2, Q3, Q4 or one of 3 more.',
      Array.from({ length: 8 }, (_, n) => `query Q${n} { userCount }`).join(' '),
    ],
    [
      'operationName: got "A", expected nothing, because the operation of the document has no name.',
      '{ userCount }',
      'A',
    ],
  ])('an operation that is not there: %s', async (message, query, operationName) => {
    for (const accept of ['application/json', 'application/graphql-response+json']) {
      const init = jsonPost({ query, operationName });
      const answer = await project.rest('/graphql', { ...init, headers: { ...init.headers, accept } });
      expect([answer.status, answer.body]).toEqual([
        400,
        { errors: [{ message, extensions: explained('BAD_USER_INPUT') }] },
      ]);
    }
  });

  const identity = 'authMethod: "google", authValue: "nobody"';
  test.each([
    ['id', 'deleteUser(id: 999999999) { id }'],
    ['id', 'restoreUser(id: 999999999) { user { id } }'],
    ['id', 'banUser(id: 99999999999999999999) { user { id } }'],
    ['userId', `linkIdentity(userId: 999999999, input: { ${identity} }) { user { id } }`],
    ['from', 'mergeUsers(from: 999999998, into: 999999999) { user { id } }'],
  ])('is %s where there is no user: %s', async (argument, mutation) => {
    const { errors } = await project.graphql(`mutation { ${mutation} }`);
    expect(errors?.[0]?.extensions).toEqual({ ...explained('NOT_FOUND'), argument });
  });

  test('is absent from errors of other codes', async () => {
    const { secrets, projects } = app.context.services;
    const terms = { label: 'reader', scopes: ['read' as const], expiresInMs: null };
    const { appSecret } = await secrets.addSecret(await projects.getScope(project.appId), terms);
    const init = jsonPost({ query: 'mutation { deleteUser(id: 1) { id } }' });
    const headers = { ...init.headers, 'service-app-secret': appSecret };
    const { body } = await project.rest('/graphql', { ...init, headers });
    expect(body.errors[0].extensions).toEqual(explained('FORBIDDEN'));
  });

  test('and the other user are told of a conflict', async () => {
    const login = async (authValue: string, more = '') =>
      project.graphql(`mutation {
        recordLogin(input: { authMethod: "github", authValue: "${authValue}" ${more} }) { user { id } }
      }`);
    const { id } = (await login('first', 'externalId: "X-1"')).data.recordLogin.user;
    const other = (await login('second')).data.recordLogin.user.id;
    const taken = await login('third', 'externalId: "X-1"');
    const link = 'input: { authMethod: "github", authValue: "first" }';
    const linked = await project.graphql(`mutation { linkIdentity(userId: ${other}, ${link}) { user { id } } }`);
    const updated = await project.graphql(
      `mutation { updateUser(id: ${other}, input: { externalId: "X-1" }) { user { id } } }`,
    );
    expect([taken, linked, updated].map(({ errors }) => errors?.[0]?.extensions)).toEqual(
      ['input.externalId', 'input.authValue', 'input.externalId'].map((argument) => ({
        ...explained('CONFLICT'),
        argument,
        userId: id,
      })),
    );
    const kept = await login('first', 'externalId: "X-2"');
    expect(kept.errors?.[0]?.extensions).toEqual({ ...explained('CONFLICT'), argument: 'input.externalId' });
  });
});

describe('a written argument without a value is BAD_USER_INPUT', () => {
  const lost = (argument: string) => ({
    message: `${argument}: got no value for the variable $lost, expected one. If none is meant, leave ${argument} out of the document.`,
    extensions: { ...explained('BAD_USER_INPUT'), argument },
  });
  const wallet = `address: "${stellarAddress(1)}"`;
  const VERIFY = `query ($lost: ID, $yes: Boolean! = true) { verifyWallet(${wallet}, userId: $lost) @include(if: $yes) { exists } }`;

  test.each<[argument: string, query: string]>([
    ['userId', `query ($lost: ID) { verifyWallet(${wallet}, userId: $lost) { exists } }`],
    ['userId', `query ($lost: ID) { ...V } fragment V on Query { verifyWallet(${wallet}, userId: $lost) { exists } }`],
    [
      'inputs[1].userId',
      `query ($lost: ID) { verifyWallets(inputs: [{ ${wallet} }, { ${wallet}, userId: $lost }]) { verdict } }`,
    ],
  ])('%s of %s, also once it is compiled', async (argument, query) => {
    for (let time = 0; time < 5; time += 1)
      expect((await project.graphql(query, { other: 1 })).errors).toMatchObject([lost(argument)]);
  });

  test('but not of a field that is left out, nor where the variable has a default', async () => {
    expect(await project.graphql(VERIFY, { yes: false })).toMatchObject({ data: {} });
    expect((await project.graphql(VERIFY)).errors).toMatchObject([lost('userId')]);
    expect(await project.graphql(VERIFY.replace('$lost: ID', '$lost: ID = 1'))).toMatchObject({
      data: { verifyWallet: { exists: false } },
    });
  });

  // From the schema, so that a new mutation is tested too.
  const { mutations, variableUses } = optionalArguments();
  test.each(variableUses)('of the mutation %s: %s', async (_, argument, query) => {
    expect((await project.graphql(query)).errors).toMatchObject([lost(argument)]);
  });

  test('of each mutation, which all take an idempotency key, but for the one whose receivers know it again', () => {
    const tested = new Set(['resendWebhookMessage', ...variableUses.map(([mutation]) => mutation)]);
    expect(tested).toEqual(new Set(mutations));
  });

  test('and null is as absent where it widens nothing: the mutation is done', async () => {
    const { data } = await project.graphql(
      'mutation ($none: String) { recordLogin(input: { authMethod: "github", authValue: "n", email: $none }, idempotencyKey: $none) { created } }',
      { none: null },
    );
    expect(data).toEqual({ recordLogin: { created: true } });
  });
});

/** A request for each argument, and field of an input object, that a mutation need not be given: with a variable there. */
function optionalArguments() {
  const schema = buildSchema(readFileSync('schema.graphql', 'utf8'));
  const mutations = Object.values(schema.getMutationType()?.getFields() ?? {});
  const variableUses: [mutation: string, argument: string, query: string][] = [];
  type Input = GraphQLArgument | GraphQLInputField;
  const required = (inputs: readonly Input[]) => inputs.filter(isRequiredInputField);
  const inner = ({ type }: Input) => getNullableType(type);
  const write = (input: Input): string => {
    const type = inner(input);
    if (isListType(type)) return '[]';
    if (isEnumType(type)) return String(type.getValues()[0]?.name);
    if (isInputObjectType(type)) return writeObject(Object.values(type.getFields()));
    return String(type) === 'ID' || String(type) === 'String' ? '"1"' : '1';
  };
  const writeAll = (inputs: readonly Input[], lost?: Input) =>
    [
      ...required(inputs).map((input) => `${input.name}: ${write(input)}`),
      ...(lost ? [`${lost.name}: $lost`] : []),
    ].join(', ');
  const writeObject = (fields: readonly Input[], lost?: Input) => `{ ${writeAll(fields, lost)} }`;
  for (const { name, args } of mutations) {
    const add = (path: string, { type }: Input, given: string) =>
      variableUses.push([name, path, `mutation ($lost: ${type}) { ${name}(${given}) { __typename } }`]);
    for (const argument of args) {
      if (!isNonNullType(argument.type)) add(argument.name, argument, writeAll(args, argument));
      const type = inner(argument);
      if (!isInputObjectType(type)) continue;
      const fields = Object.values(type.getFields());
      for (const field of fields.filter(({ type: of }) => !isNonNullType(of))) {
        const others = writeAll(args.filter((other) => other !== argument));
        add(
          `${argument.name}.${field.name}`,
          field,
          `${argument.name}: ${writeObject(fields, field)}${others && `, ${others}`}`,
        );
      }
    }
  }
  return { mutations: mutations.map(({ name }) => name), variableUses };
}

describe('userByIdentity', () => {
  const find = async (authMethod: string, authValue: string, of = project): Promise<Json> => {
    const { data, errors } = await of.graphql(
      'query ($m: String!, $v: String!) { userByIdentity(authMethod: $m, authValue: $v) { authValue accounts { publicKey } } }',
      { m: authMethod, v: authValue },
    );
    expect(errors).toBeUndefined();
    return data.userByIdentity;
  };
  beforeAll(async () => {
    await project.addUsers(
      { auth_method: 'email', auth_value: 'Ada@example.com' },
      { auth_method: 'passkey', auth_value: 'cGFzc2tleQ' },
      { auth_method: 'github', auth_value: 'cGFzc2tleQ' },
      { auth_method: 'wallet', auth_value: ethereumAddress(1) },
    );
  });

  test('compares an identity as a login does', async () => {
    const address = ethereumAddress(1);
    expect(await find('email', ' ADA@example.com')).toEqual({ authValue: 'Ada@example.com', accounts: [] });
    expect(await find('passkey', 'cGFzc2tleQ')).toMatchObject({ authValue: 'cGFzc2tleQ' });
    expect(await find('wallet', address.toUpperCase().replace('X', 'x'))).toEqual({
      authValue: address,
      accounts: [{ publicKey: address }],
    });
  });
});

test('email is the folded login email, whatever gave it, and null without one', async () => {
  const emails = await app.createProject();
  const logins = [
    ['email', 'Ada@Example.com', ''],
    ['google', '1', ', email: "Ada@Example.com"'],
    ['apple', 'Grace@example.com', ''],
    ['passkey', 'p', ''],
  ];
  const fields = logins.map(
    ([method, value, more], n) =>
      `u${n}: recordLogin(input: { authMethod: "${method}", authValue: "${value}"${more} }) { user { email authValue } }`,
  );
  const { data } = await emails.graphql(`mutation { ${fields.join(' ')} }`);
  expect(Object.values<Json>(data).map(({ user }) => user)).toEqual([
    { email: 'ada@example.com', authValue: 'Ada@Example.com' },
    { email: 'ada@example.com', authValue: '1' },
    { email: 'grace@example.com', authValue: 'Grace@example.com' },
    { email: null, authValue: 'p' },
  ]);
  // Every way to a user has it.
  const again = await emails.graphql(
    '{ userByIdentity(authMethod: "google", authValue: "1") { email } searchUsers(by: { email: "ada@example.com" }) { email } userPage { users { email } } }',
  );
  expect(again.data).toEqual({
    userByIdentity: { email: 'ada@example.com' },
    searchUsers: [{ email: 'ada@example.com' }, { email: 'ada@example.com' }],
    userPage: { users: [null, 'grace@example.com', 'ada@example.com', 'ada@example.com'].map((email) => ({ email })) },
  });
  // REST has the fields of its contract.
  const { body } = await emails.rest('/server/users?limit=1');
  expect(Object.keys(body.result.users[0])).not.toContain('email');
});
