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

const shape = (name: string, most: number, make: Shape['make']): Shape => ({ name, most, make });

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
  shape('pages of 100 with everything', 60, times(`users(first: 100) { totalCount nodes { ${ALL} } }`)),
  shape('pages from the old end', 60, times(`users(last: 100) { nodes { ${ALL} } }`)),
  shape('the longest value under many names', 249, (size) => ({
    query: `{ users(first: 100) { nodes { ${many(size, (n) => `a${n}: authValue`)} } } }`,
  })),
  shape(
    'lists that directives keep from being compiled',
    45,
    times(`users(first: 100) { nodes @include(if: true) { ${ALL} } }`),
  ),
  shape('lists each with a filter of its own', 200, (size) => ({
    query: `{ ${many(size, (n) => `a${n}: users(first: 20, filter: { startDate: "${day(n)}" }) { nodes { id authValue } }`)} }`,
  })),
  shape('numbered pages', 90, (size) => ({
    query: `{ ${many(size, (n) => `a${n}: userPage(page: ${n + 1}, limit: 100) { users { id } }`)} }`,
  })),
];

const lookups: Shape[] = [
  shape('100 users by id', 190, (size, { ids }) => ({
    query: `query ($ids: [ID!]!) { ${many(size, (n) => `a${n}: usersByIds(ids: $ids) { id }`)} }`,
    variables: { ids: ids.slice(0, 100) },
  })),
  shape('the same rich user 100 times, with accounts', 40, (size, { rich }) => ({
    query: `query ($ids: [ID!]!) { ${many(size, (n) => `a${n}: usersByIds(ids: $ids) { accounts { id } }`)} }`,
    variables: { ids: new Array(100).fill(rich) },
  })),
  shape('the same rich user 100 times, as a gateway asks, with accounts', 40, (size, { rich }) => ({
    query: `query ($r: [_Any!]!) { ${many(size, (n) => `a${n}: _entities(representations: $r) { ... on User { accounts { id } } }`)} }`,
    variables: { r: new Array(100).fill({ __typename: 'User', id: rich }) },
  })),
  shape('representations that are no users', 40, (size) => ({
    query: `query ($r: [_Any!]!) { ${many(size, (n) => `a${n}: _entities(representations: $r) { ... on User { id } }`)} }`,
    variables: { r: new Array(90).fill({ __typename: 'x'.repeat(1_000), id: [[['x']]] }) },
  })),
  shape('no users, with much below them', 190, (size) => ({
    query: `{ ${many(size, (n) => `a${n}: usersByIds(ids: []) { ...F }`)} } fragment F on User { ${many(60, (n) => `b${n}: authValue`)} }`,
  })),
  shape('users one by one', 200, (size, { ids }) => ({
    query: `{ ${many(size, (n) => `a${n}: user(id: ${ids[n % ids.length]}) { ${ALL} }`)} }`,
  })),
  shape('ids of as many digits as are taken', 150, (size) => ({
    query: `query ($id: ID!) { ${many(size, (n) => `a${n}: usersByIds(ids: [${'$id '.repeat(20)}]) { id }`)} }`,
    variables: { id: '9'.repeat(4_096) },
  })),
  shape(
    'an email that thousands have, with everything',
    200,
    times(`searchUsers(by: { email: "${CROWD_EMAIL}" }) { ${ALL} }`),
  ),
  shape('an address that hundreds have', 200, times(`searchUsers(by: { address: "${CROWD_ADDRESS}" }) { ${ALL} }`)),
  shape('an email of combining marks', 200, (size) => ({
    query: `query ($email: String!) { ${many(size, (n) => `a${n}: searchUsers(by: { email: $email }) { id }`)} }`,
    variables: { email: marks(1_000) },
  })),
  shape('verifications that are pinned', 200, (size, { ids }) => ({
    query: `{ ${many(size, (n) => `a${n}: verifyWallet(address: "${CROWD_ADDRESS}", userId: ${ids[n]}) { exists }`)} }`,
  })),
  shape('500 wallets that no user has', 20, (size) =>
    manyWallets(size, (n) => ({ address: stellarAddress(50_000 + n) })),
  ),
  shape('500 malformed wallets', 20, (size) =>
    manyWallets(size, (n) => ({ address: `0x${'é'.repeat(120)}${n}`, userId: 'x' })),
  ),
  shape('addresses with a checksum to compute', 200, (size) => ({
    query: `{ ${many(size, (n) => `a${n}: parseAddress(address: "${ethereumAddress(n).toUpperCase().replace('0X', '0x').replace('A', 'a')}") { checksumValid canonical }`)} }`,
  })),
];

const writes: Shape[] = [
  shape('first logins', 190, (size) => {
    const run = Math.random().toString(36).slice(2);
    return {
      query: `mutation { ${many(size, (n) => `a${n}: ${LOGIN}{ authMethod: "github", authValue: "${run} ${n}" }) { created }`)} }`,
    };
  }),
  shape('logins with 100 accounts each', 190, (size) => ({
    query: `mutation ($a: [AccountInput!]) { ${many(size, (n) => `a${n}: ${LOGIN}{ authMethod: "discord", authValue: "${n}", accounts: $a }) { user { accounts { id } } }`)} }`,
    variables: { a: Array.from({ length: 100 }, (_, n) => account(n)) },
  })),
  shape('logins that are malformed', 190, (size) => ({
    query: `mutation ($i: RecordLoginInput!) { ${many(size, (n) => `a${n}: ${LOGIN}$i) { created }`)} }`,
    variables: { i: { authMethod: 'email', authValue: marks(1_000) } },
  })),
];

const documents: Shape[] = [
  shape('fragments that double', 60, (size) => ({ query: `{ ...F0 } ${doubling('userCount', 'Query', size)}` })),
  shape('fragments that double below nothing', 60, (size) => ({
    query: `{ usersByIds(ids: []) { ...F0 } } ${doubling('id', 'User', size)}`,
  })),
  shape('a fragment with much in it, in many places', 90, (size) => ({
    query: `{ ${many(size, (n) => `a${n}: users(first: 1) { nodes { ...F } }`)} } fragment F on User { ${many(140, (n) => `b${n}: authValue`)} }`,
  })),
  shape('inline fragments', 200, (size) => ({
    query: `{ users(first: 100) { nodes { ${'... { id } '.repeat(size)} } } }`,
  })),
  shape('directives', 50, (size) => ({
    query: `{ users(first: 100) { nodes { ${many(size, (n) => `a${n}: authValue @include(if: true)`)} } } }`,
  })),
  shape('introspection', 12, (size) => ({
    query: `{ ${many(size, (n) => `a${n}: __schema { types { name description fields { name description args { name description type { name } } type { name ofType { name } } } } }`)} }`,
  })),
  shape('comments', 24_900, (size) => ({
    query: `{ __typename } ${'#\r'.repeat(Math.min(size, 1_990))}${'#'.repeat(size)}`,
  })),
  shape('operations that share a fragment', 50, (size) => ({
    query: `${many(size, (n) => `query Q${n} { ...F }`)} fragment F on Query { users { nodes { ${many(140, (n) => `a${n}: id`)} } } }`,
    operationName: 'Q0',
  })),
  shape('unknown fields', 200, (size) => ({ query: `{ ${many(size, (n) => `userCoun${n}`)} }` })),
  shape('a fault at the end', 1_300, (size) => ({
    query: `{ ${'userCount '.repeat(Math.min(size, 190))} ${'"x" '.repeat(size)}`,
  })),
  shape('literals within each other', 900, (size) => ({
    query: `{ usersByIds(ids: ${nested('[', size, '1', ']')}) { id } }`,
  })),
  shape('fields of one name to compare', 200, (size) => ({
    query: `{ ${'users { nodes { accounts { id } } } '.repeat(size)} }`,
  })),
  shape('rings of fragments', 45, (size) => ({
    query: `{ ...F0 } ${many(size, (n) => `fragment F${n} on Query { ${many(4, (step) => `...F${(n + step) % size}`)} }`)}`,
  })),
  shape('errors at the end of many lines', 200, (size) => ({
    query: `${'\n'.repeat(1_990)}{ ${many(size, (n) => `a${n}: user(id: "x") { id }`)} }`,
  })),
  shape('long names', 240, (size) => ({
    query: `{ users(first: 100) { nodes { ${many(size, (n) => `${'a'.repeat(124)}${n}: id`)} } } }`,
  })),
];

const variables: Shape[] = [
  shape('a variable that nests', 1_000, (size) => ({
    query: 'query ($a: ID) { user(id: $a) { id } }',
    variables: { a: JSON.parse(nested('[', size, '', ']')) },
  })),
  shape('an unused variable with many keys', 20_000, (size) => ({
    query: '{ __typename }',
    variables: Object.fromEntries(Array.from({ length: size }, (_, n) => [`k${n}`, n])),
  })),
  shape('unknown fields beside long values', 60, (size) => ({
    query: `mutation ($i: RecordLoginInput!) { ${LOGIN}$i) { created } }`,
    variables: {
      i: {
        authMethod: 'google',
        authValue: 'x',
        ...Object.fromEntries(Array.from({ length: size }, (_, n) => [`k${n}`, 'y'.repeat(4_000)])),
      },
    },
  })),
  shape('one long cursor under many names', 200, (size) => ({
    query: `query ($c: String) { ${many(size, (n) => `a${n}: users(first: 1, after: $c) { nodes { id } }`)} }`,
    variables: { c: 'M'.repeat(4_096) },
  })),
  shape('more ids than are taken', 25_000, (size) => ({
    query: 'query ($ids: [ID!]!) { usersByIds(ids: $ids) { id } }',
    variables: { ids: Array.from({ length: size }, (_, n) => n) },
  })),
  shape('a long list of wrong methods', 20_000, (size) => ({
    query: 'query ($m: [LoginMethod!]) { userCount(filter: { loginMethods: $m }) }',
    variables: { m: new Array(size).fill('EMAI') },
  })),
  shape('a filter that many fields share', 99, (size) => ({
    query: `query ($f: UserFilter) { ${many(size, (n) => `a${n}: userCount(filter: $f)`)} }`,
    variables: { f: { startDate: '2024-01-01T00:00:00Z', loginMethods: new Array(15_000).fill('EMAIL') } },
  })),
];

export const SHAPES: readonly Shape[] = [...lists, ...lookups, ...writes, ...documents, ...variables];
