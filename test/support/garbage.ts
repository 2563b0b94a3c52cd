import { createRequire } from 'node:module';
import fc from 'fast-check';
import type * as GraphQL from 'graphql';
import { schema } from '#dist/graphql/schema.js';
import { ethereumAddress, stellarAddress } from './addresses.js';

// The module that built the schema; an import would resolve to a second copy.
const {
  getNamedType,
  getNullableType,
  isEnumType,
  isInputObjectType,
  isListType,
  isObjectType,
  isUnionType,
}: typeof GraphQL = createRequire(import.meta.url)('graphql');

/** Requests generated from the grammar of both interfaces, then damaged. */

export interface Garbage {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: string | null;
}

/** Texts for any value: valid, invalid and random. */
const text = fc.oneof(
  fc.constantFrom('1', '2', '10', '100', '101', '0', '-1', '007', '9007199254740993', '1e3', '0x1f', 'NaN', ''),
  fc.constantFrom(...'email wallet,socials passkey, EMAIL 2026-01-31 2026-02-30 2026-01-31T12:00:00+24:00'.split(' ')),
  fc.constantFrom('ada@example.com', 'ADA@Example.com ', '@', stellarAddress(1), ethereumAddress(1), '0xZZ', 'google'),
  fc.constantFrom(
    'null',
    'true',
    "'; DROP TABLE users--",
    '\0',
    '\ud800',
    ...'{{7*7}} ../.. % %00 %ff'.split(' '),
    '\u202e',
  ),
  fc.string({ maxLength: 20 }),
  fc.string({ unit: 'binary', maxLength: 10 }),
  fc.integer().map(String),
  fc.double().map(String),
  fc.date().map((date) => (Number.isNaN(date.getTime()) ? 'Invalid Date' : date.toISOString())),
);

const json = fc.oneof(
  text,
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom(null, 0, 1, -1, 1.5, 2 ** 31, 2 ** 53, [], {}, [[]], true),
);

/** A list of damages to a text: insert, cut or double a piece. */
const spoils = fc.array(
  fc.tuple(fc.nat(), fc.constantFrom('cut', 'double', 'insert'), fc.constantFrom(...'{}()[]":!$@.,&|#\\ \n\0é')),
  {
    maxLength: 3,
  },
);
type Spoils = typeof spoils extends fc.Arbitrary<infer Value> ? Value : never;

function spoil(given: string, how: Spoils): string {
  return how.reduce((current, [at, kind, piece]) => {
    const start = current.length === 0 ? 0 : at % current.length;
    const part = current.slice(start, start + 1 + (at % 7));
    if (kind === 'cut') return current.slice(0, start) + current.slice(start + part.length);
    return current.slice(0, start) + (kind === 'double' ? part : piece) + current.slice(start);
  }, given);
}

const spoilt = (given: fc.Arbitrary<string>) =>
  fc.oneof(
    { weight: 2, arbitrary: given },
    { weight: 1, arbitrary: fc.tuple(given, spoils).map(([value, how]) => spoil(value, how)) },
  );

/** Replaces lone surrogates, because they have no percent-encoding. */
const wellFormed = (value: string) => Buffer.from(value).toString();
// Other tests write raw bytes, and cover what no client can put into a request line or a header.
const inUrl = (value: string) => value.replace(/[^!-~]/gu, (character) => encodeURIComponent(wellFormed(character)));
const inHeader = (value: string) => value.replace(/[^\t -~\x80-\xff]/g, '');

const headers = fc.dictionary(
  fc.constantFrom(
    ...`content-type accept x-request-id host accept-encoding content-encoding x-forwarded-for expect range if-none-match cookie
      origin authorization service-app-id`.split(/\s+/),
  ),
  fc.oneof(
    text.map(inHeader),
    fc.constantFrom(
      'application/json',
      'application/json; charset=utf-8',
      ...'text/plain application/graphql-response+json text/html */* gzip 100-continue'.split(' '),
      'Basic Og==',
      'bytes=0-',
      'localhost',
    ),
  ),
  { maxKeys: 2 },
);

const parameters = fc
  .array(
    fc.tuple(
      fc.oneof(
        fc.constantFrom(...'page limit start_date end_date login_method email address __proto__ page[]'.split(' ')),
        text,
      ),
      text,
    ),
    { maxLength: 4 },
  )
  .map((pairs) => pairs.map((pair) => pair.map((part) => encodeURIComponent(wellFormed(part))).join('=')).join('&'));

const path = spoilt(
  fc.oneof(
    fc.constantFrom(
      ...`/server/users /server/users/count /server/users/search /server/wallets/verify /server/users/1 /wallets/verify`.split(
        /\s+/,
      ),
    ),
    text.map((id) => `/server/users/${id}`),
    text.map((rest) => `/server/${rest}`),
  ),
);

const wallet = fc.record({ address: fc.oneof(text, json), user_id: json }, { requiredKeys: [] });
const verifyBody = spoilt(
  fc.oneof(
    wallet.map((value) => JSON.stringify(value)),
    fc.array(wallet, { maxLength: 4 }).map((wallets) => JSON.stringify({ wallets })),
    json.map((value) => JSON.stringify(value)),
  ),
);

export const restGarbage: fc.Arbitrary<Garbage> = fc
  .record({
    method: fc.constantFrom('GET', 'GET', 'GET', 'POST', 'POST', 'DELETE', 'PUT', 'PATCH', 'OPTIONS'),
    path,
    query: fc.option(spoilt(parameters), { nil: null }),
    headers,
    body: fc.option(verifyBody, { nil: null }),
  })
  .map(({ method, path: route, query, headers: more, body }) => ({
    method,
    path: inUrl(query === null ? route : `${route}?${query}`).replace(/^(?!\/)/, '/'),
    headers: { ...(body !== null && { 'content-type': 'application/json' }), ...more },
    body: method === 'GET' ? null : body,
  }));

/** A document from the schema: each number makes one choice, and the document ends when no number is left. */
export function makeDocument(numbers: readonly number[], values: readonly string[]): string {
  let at = 0;
  const choose = (count: number) => (at < numbers.length ? (numbers[at++] as number) % count : 0);
  const pick = <Item>(items: readonly Item[]) => items[choose(items.length)] as Item;

  const value = (type: GraphQL.GraphQLInputType): string => {
    // Sometimes a value of the wrong type.
    if (choose(6) === 1) return pick(['null', '$v', '$w', '"\\u0000"', '1', 'EMAIL', '[]', '{}', '""', '{ a: 1 }']);
    const nullable = getNullableType(type);
    if (isListType(nullable)) return `[${Array.from({ length: choose(4) }, () => value(nullable.ofType)).join(', ')}]`;
    if (isEnumType(nullable)) return pick(nullable.getValues()).name;
    if (isInputObjectType(nullable)) {
      const fields = Object.values(nullable.getFields()).filter(
        (field) => choose(2) === 0 || field.type !== getNullableType(field.type),
      );
      return `{ ${fields.map((field) => `${field.name}: ${value(field.type)}`).join(', ')} }`;
    }
    if (nullable.toString() === '_Any') return `{ __typename: "User", id: ${pick(['1', '"2"', '99', '"x"', '[]'])} }`;
    if (nullable.toString() === 'Int') return pick(['1', '10', '100', '0', '-1', '2147483648']);
    return JSON.stringify(pick(values) ?? '');
  };
  const selections = (type: GraphQL.GraphQLObjectType, depth: number): string => {
    const fields = Object.values(type.getFields());
    return Array.from({ length: 1 + choose(3) }, () => {
      if (choose(8) === 1)
        return pick([
          '__typename',
          '...F',
          '... { __typename }',
          'nope',
          '__schema { types { name } }',
          `... on ${type.name} { __typename }`,
        ]);
      const field = pick(fields);
      const args = field.args.filter((arg) => arg.type !== getNullableType(arg.type) || choose(3) === 1);
      const given = args.map((arg) => `${arg.name}: ${value(arg.type)}`).join(', ');
      const named = getNamedType(field.type);
      const below = isUnionType(named)
        ? ` { __typename ... on User { ${selections(named.getTypes()[0] as GraphQL.GraphQLObjectType, depth + 1)} } }`
        : isObjectType(named)
          ? ` { ${depth > 6 ? '__typename' : selections(named, depth + 1)} }`
          : '';
      const alias = choose(4) === 1 ? `${pick(['a', 'b', 'id', '__a'])}: ` : '';
      const directive =
        choose(12) === 1 ? pick([' @include(if: $b)', ' @skip(if: true)', ' @defer', ' @deprecated']) : '';
      return `${alias}${field.name}${given && `(${given})`}${directive}${below}`;
    }).join(' ');
  };
  const kind = pick(['query', 'query', 'mutation'] as const);
  const root = (kind === 'query' ? schema.getQueryType() : schema.getMutationType()) as GraphQL.GraphQLObjectType;
  const variables = pick(['', '', '($v: Int = 3, $w: ID)', '($v: [ID!]!, $b: Boolean = false)', '($v: UserFilter)']);
  const more = pick([
    '',
    '',
    ' fragment F on User { id ...F }',
    ' fragment F on Query { userCount }',
    ' query Other { userCount }',
  ]);
  return `${kind} ${pick(['', 'Q'])}${variables} { ${selections(root, 0)} }${more}`;
}

const document = spoilt(
  fc
    .tuple(
      fc.array(fc.nat(), { maxLength: 60 }),
      fc.array(
        text.map((value) => value.slice(0, 80)),
        { minLength: 1, maxLength: 4 },
      ),
    )
    .map(([numbers, values]) => makeDocument(numbers, values)),
);

/** A request for any query of the schema, sometimes with invalid parts. */
export const graphqlQuestion = fc.record({
  query: fc
    .tuple(
      fc.array(fc.nat(), { maxLength: 60 }),
      fc.array(
        text.map((value) => value.slice(0, 80)),
        { minLength: 1, maxLength: 4 },
      ),
    )
    .map(([numbers, values]) => makeDocument(numbers, values))
    .filter((query) => !query.startsWith('mutation')),
  variables: fc.dictionary(
    fc.constantFrom('v', 'w', 'b'),
    fc.oneof(text.map(wellFormed), fc.constantFrom<unknown>(3, true, null, ['1'], { startDate: '2026-01-31' })),
  ),
});

export const graphqlGarbage: fc.Arbitrary<Garbage> = fc
  .record({
    byGet: fc.constantFrom(false, false, false, false, true),
    parameters: fc.record(
      {
        query: fc.oneof({ weight: 20, arbitrary: document }, { weight: 1, arbitrary: json }),
        variables: fc.oneof(fc.dictionary(fc.constantFrom('v', 'w', 'b'), json), json),
        operationName: fc.constantFrom<unknown>('Q', 'Other', null, 1),
        extensions: fc.constantFrom<unknown>({}, 1),
      },
      { requiredKeys: ['query'] },
    ),
    how: fc.oneof({ weight: 9, arbitrary: fc.constant([] as Spoils) }, { weight: 1, arbitrary: spoils }),
    headers,
  })
  .map(({ byGet, parameters: given, how, headers: more }) => {
    const search = Object.entries(given).map(
      ([name, part]) =>
        `${name}=${encodeURIComponent(typeof part === 'string' ? wellFormed(part) : JSON.stringify(part))}`,
    );
    return byGet
      ? {
          method: 'GET',
          path: `/graphql?${spoil(search.join('&'), how).replace(/[^!-~]/g, '')}`,
          headers: more,
          body: null,
        }
      : {
          method: 'POST',
          path: '/graphql',
          headers: { 'content-type': 'application/json', ...more },
          body: spoil(JSON.stringify(given), how),
        };
  });
