import { readFileSync } from 'node:fs';
import {
  buildSchema,
  type GraphQLArgument,
  type GraphQLNamedType,
  type GraphQLSchema,
  isEnumType,
  isInputObjectType,
  isObjectType,
  isSpecifiedScalarType,
} from 'graphql';
import { describe, expect, test } from 'vitest';
import { printedSchema } from '#dist/graphql/schema.js';

const committed = readFileSync(new URL('../../schema.graphql', import.meta.url), 'utf8');
const actual = buildSchema(printedSchema());

/** The names and types that clients rely on. Changing one breaks them. */
const FIXED = buildSchema(`
  type Query {
    user(id: ID!): User
    users(filter: UserFilter, first: Int, after: String, last: Int, before: String): UserConnection!
    userPage(filter: UserFilter, page: Int! = 1, limit: Int! = 10): UserPage!
    userCount(filter: UserFilter): Int!
    searchUsers(by: UserSearch!): [User!]!
    usersByIds(ids: [ID!]!): [User]!
    usersByEmails(emails: [String!]!): [[User!]!]!
    usersByExternalIds(externalIds: [String!]!): [User]!
    usersByIdentities(identities: [IdentityInput!]!): [User]!
    verifyWallet(address: String!, userId: ID): WalletVerification!
    verifyWallets(inputs: [WalletInput!]!): [WalletVerdict!]!
    parseAddress(address: String!): AddressReport!
  }
  type Mutation {
    deleteUser(id: ID!): DeleteUserPayload!
    recordLogin(input: RecordLoginInput!): RecordLoginPayload!
  }
  type User { id: ID!  authMethod: String!  loginMethod: LoginMethod!  authValue: String!  wallet: String
              createdAt: DateTime!  lastLogin: DateTime  loginCount: Int!  accounts: [Account!]! }
  type Account { id: ID!  network: Network!  publicKey: String!  walletType: WalletType! }
  type WalletVerification { exists: Boolean!  userId: ID  network: Network  walletType: WalletType  authMethod: String }
  type WalletVerdict { verdict: WalletVerdictKind!  reason: String  userId: ID  network: Network  walletType: WalletType
                       authMethod: String  asOf: DateTime! }
  input WalletInput { address: String!  userId: ID }
  enum WalletVerdictKind { VERIFIED NOT_OWNED MALFORMED }
  type UserConnection { edges: [UserEdge!]!  nodes: [User!]!  pageInfo: PageInfo!  totalCount: Int! }
  type UserPage { page: Int!  limit: Int!  totalUser: Int!  users: [User!]! }
  enum LoginMethod { EMAIL PASSKEY WALLET SOCIALS }
  enum Network { STELLAR ETHEREUM }
  enum WalletType { CUSTODIAL EXTERNAL }
  input UserFilter { startDate: String  endDate: String  loginMethods: [LoginMethod!] }
  input IdentityInput { authMethod: String!  authValue: String! }
  input UserSearch @oneOf { email: String  address: String }

  type DeleteUserPayload { id: ID! }
  type RecordLoginPayload { user: User!  created: Boolean! }
  type AddressReport { network: Network  canonical: String  checksumValid: Boolean  reason: String }
  # By the Relay specification.
  type UserEdge { cursor: String!  node: User! }
  type PageInfo { hasNextPage: Boolean!  hasPreviousPage: Boolean!  startCursor: String  endCursor: String }
  # Its fields are those of the import format that a login knows.
  input RecordLoginInput { authMethod: String!  authValue: String!  email: String  wallet: String }
  scalar DateTime
`);

const FIX = `node -e "import('./dist/graphql/schema.js').then((m) => fs.writeFileSync('schema.graphql', m.printedSchema()))"`;

test('schema.graphql equals the printed schema', () => {
  expect(committed, `schema.graphql is stale; after a build run: ${FIX}`).toBe(printedSchema());
});

/** Every name that a client can use, with its type: `User.id` is `ID!`, `Query.user(id)` is `ID!`. */
function entriesOf(schema: GraphQLSchema): Map<string, { type: string; description: string | null | undefined }> {
  const entries = new Map<string, { type: string; description: string | null | undefined }>();
  for (const type of Object.values(schema.getTypeMap())) {
    if (type.name.startsWith('__') || isSpecifiedScalarType(type)) continue;
    entries.set(type.name, { type: kindOf(type), description: type.description });
    if (isEnumType(type)) {
      for (const { name, description } of type.getValues())
        entries.set(`${type.name}.${name}`, { type: 'enum value', description });
    }
    if (isInputObjectType(type)) {
      for (const field of Object.values(type.getFields())) entries.set(`${type.name}.${field.name}`, inputOf(field));
    }
    if (isObjectType(type)) {
      for (const { name, args, type: fieldType, description } of Object.values(type.getFields())) {
        entries.set(`${type.name}.${name}`, { type: String(fieldType), description });
        for (const argument of args) entries.set(`${type.name}.${name}(${argument.name})`, inputOf(argument));
      }
    }
  }
  return entries;
}

function kindOf(type: GraphQLNamedType): string {
  return isInputObjectType(type) && type.isOneOf ? 'oneOf input' : type.constructor.name;
}

function inputOf({ type, defaultValue, description }: Pick<GraphQLArgument, 'type' | 'defaultValue' | 'description'>) {
  const by = defaultValue === undefined ? '' : ` = ${JSON.stringify(defaultValue)}`;
  return { type: `${type}${by}`, description };
}

describe('the names and types that clients rely on do not change', () => {
  const entries = entriesOf(actual);
  test.each([...entriesOf(FIXED)].map(([name, { type }]) => [name, type]))('%s: %s', (name, type) => {
    expect(entries.get(name)?.type).toBe(type);
  });
});

test('the schema adds only accounts of a login, idempotency keys, emails, external IDs, users by identity and by prefix, bans, and the feed of changes', () => {
  const fixed = entriesOf(FIXED);
  const isOfFeedOrBans = (name: string) => /^(Change|Subscription|Query\.changes|Ban|Query\.bans)/.test(name);
  const extras = [...entriesOf(actual)].filter(([name]) => !fixed.has(name) && !isOfFeedOrBans(name));
  expect(Object.fromEntries(extras.map(([name, { type }]) => [name, type]))).toEqual({
    AccountInput: 'GraphQLInputObjectType',
    'AccountInput.network': 'Network!',
    'AccountInput.publicKey': 'String!',
    'RecordLoginInput.accounts': '[AccountInput!]',
    'RecordLoginInput.externalId': 'String',
    UpdateUserInput: 'GraphQLInputObjectType',
    'UpdateUserInput.email': 'String',
    'UpdateUserInput.externalId': 'String',
    UpdateUserPayload: 'GraphQLObjectType',
    'UpdateUserPayload.user': 'User!',
    'User.email': 'String',
    'User.externalId': 'String',
    'UserFilter.banned': 'Boolean',
    'UserFilter.lastLoginAfter': 'String',
    'UserFilter.lastLoginBefore': 'String',
    'Query.findUser': '[User!]!',
    'Query.findUser(any)': 'String!',
    'Query.userByExternalId': 'User',
    'Query.userByExternalId(externalId)': 'String!',
    'Query.userByIdentity': 'User',
    'Query.userByIdentity(authMethod)': 'String!',
    'Query.userByIdentity(authValue)': 'String!',
    'Query.usersByPrefix': 'UsersByPrefix!',
    'Query.usersByPrefix(first)': 'Int! = 10',
    'Query.usersByPrefix(prefix)': 'String!',
    UsersByPrefix: 'GraphQLObjectType',
    'UsersByPrefix.hasMore': 'Boolean!',
    'UsersByPrefix.users': '[User!]!',
    'Mutation.deleteUser(idempotencyKey)': 'String',
    'Mutation.updateUser': 'UpdateUserPayload!',
    'Mutation.updateUser(id)': 'ID!',
    'Mutation.updateUser(idempotencyKey)': 'String',
    'Mutation.updateUser(input)': 'UpdateUserInput!',
    'Mutation.recordLogin(idempotencyKey)': 'String',
  });
});

test('the description of everything in the schema is a sentence', () => {
  const poor = [...entriesOf(actual)].filter(([, { description }]) => !/^[`A-Z].{8,}\.$/s.test(description ?? ''));
  expect(poor.map(([name, { description }]) => [name, description])).toEqual([]);
});
