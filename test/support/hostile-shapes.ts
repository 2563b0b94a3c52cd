import { ethereumAddress, stellarAddress } from './addresses.js';

/** Requests of a tenant that wants to delay the others: all kinds of documents and variables, as large as accepted. */

/** The users of the project that receives the shapes (`fixtureLines`). */
export interface Fixture {
  readonly ids: readonly string[];
  /** The id of the user with 100 accounts. */
  readonly rich: string;
}

export interface Asked {
  readonly query: string;
  readonly variables?: Record<string, unknown>;
  readonly operationName?: string;
}

export interface Shape {
  readonly name: string;
  /** Makes a larger request for a larger `size`. */
  readonly make: (size: number, fixture: Fixture) => Asked;
  /** The largest size to try. */
  readonly most: number;
}

const CROWD = 3_000;
const CROWD_EMAIL = 'crowd@example.com';
const CROWD_ADDRESS = ethereumAddress(7);
const ALL =
  'id authMethod loginMethod authValue wallet createdAt lastLogin loginCount accounts { id network publicKey walletType }';

/** The fixture in the import format: `crowd` users who share an email, and last the user with 100 accounts. */
export function* fixtureLines(crowd = CROWD): Generator<string> {
  const line = (user: object) => `${JSON.stringify(user)}\n`;
  const account = (number: number) => ({ network: 'stellar', public_key: stellarAddress(number) });
  for (let n = 0; n < crowd; n += 1) {
    const accounts = n % 10 === 0 ? [{ network: 'ethereum', public_key: CROWD_ADDRESS }] : [];
    yield line({ auth_method: 'google', auth_value: `crowd ${n}`, email: CROWD_EMAIL, accounts });
  }
  // The longest values; JSON must escape half of each.
  for (let n = 0; n < 110; n += 1) {
    const accounts = Array.from({ length: 20 }, (_, index) => account(1_000 + n * 20 + index));
    yield line({ auth_method: 'passkey', auth_value: `${n}${'"é'.repeat(498)}`, accounts });
  }
  yield line({
    auth_method: 'google',
    auth_value: 'rich',
    accounts: Array.from({ length: 100 }, (_, n) => account(n)),
  });
}

const many = (count: number, make: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => make(index)).join(' ');
const nested = (open: string, depth: number, inside: string, close: string): string =>
  open.repeat(depth) + inside + close.repeat(depth);
/** The same field under many aliases. */
const times = (field: string) => (size: number) => ({ query: `{ ${many(size, (n) => `a${n}: ${field}`)} }` });
/** The same 500 wallets several times, with nothing selected but what takes the least of the cost. */
const manyWallets = (size: number, make: (index: number) => object): Asked => ({
  query: `query ($w: [WalletInput!]!) { ${many(size, (n) => `a${n}: verifyWallets(inputs: $w) { asOf }`)} }`,
  variables: { w: Array.from({ length: 500 }, (_, index) => make(index)) },
});
const day = (n: number) => new Date(Date.UTC(2024, 0, 1 + n)).toISOString().slice(0, 10);
/** Combining marks in the wrong order, which every Unicode normalisation must sort. */
const marks = (length: number) => `a${'\u0315\u0300\u05ae\u0345'.repeat(length)}`.slice(0, length);
const account = (n: number) => ({ network: 'STELLAR', publicKey: stellarAddress(n) });
const LOGIN = 'recordLogin(input: ';
const doubling = (last: string, type: string, depth: number) =>
  `${many(depth, (n) => `fragment F${n} on ${type} { ...F${n + 1} ...F${n + 1} }`)} fragment F${depth} on ${type} { ${last} }`;

const lists: Shape[] = [
  { name: 'pages of 100 with everything', most: 60, make: times(`users(first: 100) { totalCount nodes { ${ALL} } }`) },
  { name: 'pages from the old end', most: 60, make: times(`users(last: 100) { nodes { ${ALL} } }`) },
  {
    name: 'the longest value under many names',
    most: 249,
    make: (size) => ({ query: `{ users(first: 100) { nodes { ${many(size, (n) => `a${n}: authValue`)} } } }` }),
  },
  {
    name: 'lists that directives keep from being compiled',
    most: 45,
    make: times(`users(first: 100) { nodes @include(if: true) { ${ALL} } }`),
  },
  {
    name: 'lists each with a filter of its own',
    most: 200,
    make: (size) => ({
      query: `{ ${many(size, (n) => `a${n}: users(first: 20, filter: { startDate: "${day(n)}" }) { nodes { id authValue } }`)} }`,
    }),
  },
  {
    name: 'numbered pages',
    most: 90,
    make: (size) => ({
      query: `{ ${many(size, (n) => `a${n}: userPage(page: ${n + 1}, limit: 100) { users { id } }`)} }`,
    }),
  },
];

const lookups: Shape[] = [
  {
    name: '100 users by id',
    most: 190,
    make: (size, { ids }) => ({
      query: `query ($ids: [ID!]!) { ${many(size, (n) => `a${n}: usersByIds(ids: $ids) { id }`)} }`,
      variables: { ids: ids.slice(0, 100) },
    }),
  },
  {
    name: 'the same rich user 100 times, with accounts',
    most: 40,
    make: (size, { rich }) => ({
      query: `query ($ids: [ID!]!) { ${many(size, (n) => `a${n}: usersByIds(ids: $ids) { accounts { id } }`)} }`,
      variables: { ids: new Array(100).fill(rich) },
    }),
  },
  {
    name: 'the same rich user 100 times, as a gateway asks, with accounts',
    most: 40,
    make: (size, { rich }) => ({
      query: `query ($r: [_Any!]!) { ${many(size, (n) => `a${n}: _entities(representations: $r) { ... on User { accounts { id } } }`)} }`,
      variables: { r: new Array(100).fill({ __typename: 'User', id: rich }) },
    }),
  },
  {
    name: 'representations that are no users',
    most: 40,
    make: (size) => ({
      query: `query ($r: [_Any!]!) { ${many(size, (n) => `a${n}: _entities(representations: $r) { ... on User { id } }`)} }`,
      variables: { r: new Array(90).fill({ __typename: 'x'.repeat(1_000), id: [[['x']]] }) },
    }),
  },
  {
    name: 'no users, with much below them',
    most: 190,
    make: (size) => ({
      query: `{ ${many(size, (n) => `a${n}: usersByIds(ids: []) { ...F }`)} } fragment F on User { ${many(60, (n) => `b${n}: authValue`)} }`,
    }),
  },
  {
    name: 'users one by one',
    most: 200,
    make: (size, { ids }) => ({
      query: `{ ${many(size, (n) => `a${n}: user(id: ${ids[n % ids.length]}) { ${ALL} }`)} }`,
    }),
  },
  {
    name: 'ids of as many digits as are taken',
    most: 150,
    make: (size) => ({
      query: `query ($id: ID!) { ${many(size, (n) => `a${n}: usersByIds(ids: [${'$id '.repeat(20)}]) { id }`)} }`,
      variables: { id: '9'.repeat(4_096) },
    }),
  },
  {
    name: 'an email that thousands have, with everything',
    most: 200,
    make: times(`searchUsers(by: { email: "${CROWD_EMAIL}" }) { ${ALL} }`),
  },
  {
    name: 'an address that hundreds have',
    most: 200,
    make: times(`searchUsers(by: { address: "${CROWD_ADDRESS}" }) { ${ALL} }`),
  },
  {
    name: 'an email of combining marks',
    most: 200,
    make: (size) => ({
      query: `query ($email: String!) { ${many(size, (n) => `a${n}: searchUsers(by: { email: $email }) { id }`)} }`,
      variables: { email: marks(1_000) },
    }),
  },
  {
    name: 'verifications that are pinned',
    most: 200,
    make: (size, { ids }) => ({
      query: `{ ${many(size, (n) => `a${n}: verifyWallet(address: "${CROWD_ADDRESS}", userId: ${ids[n]}) { exists }`)} }`,
    }),
  },
  {
    name: '500 wallets that no user has',
    most: 20,
    make: (size) => manyWallets(size, (n) => ({ address: stellarAddress(50_000 + n) })),
  },
  {
    name: '500 malformed wallets',
    most: 20,
    make: (size) => manyWallets(size, (n) => ({ address: `0x${'é'.repeat(120)}${n}`, userId: 'x' })),
  },
  {
    name: 'addresses with a checksum to compute',
    most: 200,
    make: (size) => ({
      query: `{ ${many(size, (n) => `a${n}: parseAddress(address: "${ethereumAddress(n).toUpperCase().replace('0X', '0x').replace('A', 'a')}") { checksumValid canonical }`)} }`,
    }),
  },
];

const writes: Shape[] = [
  {
    name: 'first logins',
    most: 190,
    make: (size) => {
      const run = Math.random().toString(36).slice(2);
      return {
        query: `mutation { ${many(size, (n) => `a${n}: ${LOGIN}{ authMethod: "github", authValue: "${run} ${n}" }) { created }`)} }`,
      };
    },
  },
  {
    name: 'logins with 100 accounts each',
    most: 190,
    make: (size) => ({
      query: `mutation ($a: [AccountInput!]) { ${many(size, (n) => `a${n}: ${LOGIN}{ authMethod: "discord", authValue: "${n}", accounts: $a }) { user { accounts { id } } }`)} }`,
      variables: { a: Array.from({ length: 100 }, (_, n) => account(n)) },
    }),
  },
  {
    name: 'logins that are malformed',
    most: 190,
    make: (size) => ({
      query: `mutation ($i: RecordLoginInput!) { ${many(size, (n) => `a${n}: ${LOGIN}$i) { created }`)} }`,
      variables: { i: { authMethod: 'email', authValue: marks(1_000) } },
    }),
  },
];

const documents: Shape[] = [
  {
    name: 'fragments that double',
    most: 60,
    make: (size) => ({ query: `{ ...F0 } ${doubling('userCount', 'Query', size)}` }),
  },
  {
    name: 'fragments that double below nothing',
    most: 60,
    make: (size) => ({ query: `{ usersByIds(ids: []) { ...F0 } } ${doubling('id', 'User', size)}` }),
  },
  {
    name: 'a fragment with much in it, in many places',
    most: 90,
    make: (size) => ({
      query: `{ ${many(size, (n) => `a${n}: users(first: 1) { nodes { ...F } }`)} } fragment F on User { ${many(140, (n) => `b${n}: authValue`)} }`,
    }),
  },
  {
    name: 'inline fragments',
    most: 200,
    make: (size) => ({ query: `{ users(first: 100) { nodes { ${'... { id } '.repeat(size)} } } }` }),
  },
  {
    name: 'directives',
    most: 50,
    make: (size) => ({
      query: `{ users(first: 100) { nodes { ${many(size, (n) => `a${n}: authValue @include(if: true)`)} } } }`,
    }),
  },
  {
    name: 'introspection',
    most: 12,
    make: (size) => ({
      query: `{ ${many(size, (n) => `a${n}: __schema { types { name description fields { name description args { name description type { name } } type { name ofType { name } } } } }`)} }`,
    }),
  },
  {
    name: 'comments',
    most: 24_900,
    make: (size) => ({ query: `{ __typename } ${'#\r'.repeat(Math.min(size, 1_990))}${'#'.repeat(size)}` }),
  },
  {
    name: 'operations that share a fragment',
    most: 50,
    make: (size) => ({
      query: `${many(size, (n) => `query Q${n} { ...F }`)} fragment F on Query { users { nodes { ${many(140, (n) => `a${n}: id`)} } } }`,
      operationName: 'Q0',
    }),
  },
  { name: 'unknown fields', most: 200, make: (size) => ({ query: `{ ${many(size, (n) => `userCoun${n}`)} }` }) },
  {
    name: 'a fault at the end',
    most: 1_300,
    make: (size) => ({ query: `{ ${'userCount '.repeat(Math.min(size, 190))} ${'"x" '.repeat(size)}` }),
  },
  {
    name: 'literals within each other',
    most: 900,
    make: (size) => ({ query: `{ usersByIds(ids: ${nested('[', size, '1', ']')}) { id } }` }),
  },
  {
    name: 'fields of one name to compare',
    most: 200,
    make: (size) => ({ query: `{ ${'users { nodes { accounts { id } } } '.repeat(size)} }` }),
  },
  {
    name: 'rings of fragments',
    most: 45,
    make: (size) => ({
      query: `{ ...F0 } ${many(size, (n) => `fragment F${n} on Query { ${many(4, (step) => `...F${(n + step) % size}`)} }`)}`,
    }),
  },
  {
    name: 'errors at the end of many lines',
    most: 200,
    make: (size) => ({ query: `${'\n'.repeat(1_990)}{ ${many(size, (n) => `a${n}: user(id: "x") { id }`)} }` }),
  },
  {
    name: 'long names',
    most: 240,
    make: (size) => ({
      query: `{ users(first: 100) { nodes { ${many(size, (n) => `${'a'.repeat(124)}${n}: id`)} } } }`,
    }),
  },
];

const variables: Shape[] = [
  {
    name: 'a variable that nests',
    most: 1_000,
    make: (size) => ({
      query: 'query ($a: ID) { user(id: $a) { id } }',
      variables: { a: JSON.parse(nested('[', size, '', ']')) },
    }),
  },
  {
    name: 'an unused variable with many keys',
    most: 20_000,
    make: (size) => ({
      query: '{ __typename }',
      variables: Object.fromEntries(Array.from({ length: size }, (_, n) => [`k${n}`, n])),
    }),
  },
  {
    name: 'unknown fields beside long values',
    most: 60,
    make: (size) => ({
      query: `mutation ($i: RecordLoginInput!) { ${LOGIN}$i) { created } }`,
      variables: {
        i: {
          authMethod: 'google',
          authValue: 'x',
          ...Object.fromEntries(Array.from({ length: size }, (_, n) => [`k${n}`, 'y'.repeat(4_000)])),
        },
      },
    }),
  },
  {
    name: 'one long cursor under many names',
    most: 200,
    make: (size) => ({
      query: `query ($c: String) { ${many(size, (n) => `a${n}: users(first: 1, after: $c) { nodes { id } }`)} }`,
      variables: { c: 'M'.repeat(4_096) },
    }),
  },
  {
    name: 'more ids than are taken',
    most: 25_000,
    make: (size) => ({
      query: 'query ($ids: [ID!]!) { usersByIds(ids: $ids) { id } }',
      variables: { ids: Array.from({ length: size }, (_, n) => n) },
    }),
  },
  {
    name: 'a long list of wrong methods',
    most: 20_000,
    make: (size) => ({
      query: 'query ($m: [LoginMethod!]) { userCount(filter: { loginMethods: $m }) }',
      variables: { m: new Array(size).fill('EMAI') },
    }),
  },
  {
    name: 'a filter that many fields share',
    most: 99,
    make: (size) => ({
      query: `query ($f: UserFilter) { ${many(size, (n) => `a${n}: userCount(filter: $f)`)} }`,
      variables: { f: { startDate: '2024-01-01T00:00:00Z', loginMethods: new Array(15_000).fill('EMAIL') } },
    }),
  },
];

export const SHAPES: readonly Shape[] = [...lists, ...lookups, ...writes, ...documents, ...variables];
