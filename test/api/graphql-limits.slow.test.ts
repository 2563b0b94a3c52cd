import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { getIntrospectionQuery } from 'graphql';
import { beforeAll, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { codesOf, explained } from '../support/graphql.js';
import { jsonPost } from '../support/rest.js';

/** Malicious documents: each is refused, and the service keeps working. */

const app = useTestApp();
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
});

const wrap = (open: string, depth: number, inside: string, close: string) =>
  open.repeat(depth) + inside + close.repeat(depth);

/** Each fragment spreads several others, in cycles. A validator would recurse through all pairs of them. */
function fragmentRings(count: number, spreads: number): string {
  const fragments = Array.from({ length: count }, (_, index) => {
    const others = Array.from({ length: spreads }, (_, step) => `...F${(index + step + 1) % count}`);
    return `fragment F${index} on Query { ${others.join(' ')} }`;
  });
  return `{ ...F0 } ${fragments.join(' ')}`;
}

/** Makes `count` texts, each from its index, and joins them with spaces. */
const many = (count: number, make: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => make(index)).join(' ');

test.each([
  ['number: got 4097 characters, expected at most 4096 bytes.', `{ user(id: 1${'0'.repeat(4_096)}) { id } }`],
  ['tokens: got more, expected at most 2000.', `{ usersByIds(ids: [${'1 '.repeat(9_000)}]) { id } }`],
  ['depth: got 601, expected at most 20.', wrap('{ users ', 600, '{ x }', '}')],
  ['repetitions: got 21, expected at most 20.', `{ users { a: totalCount ${'... { a: totalCount } '.repeat(21)} } }`],
  ['fragments: got 451, expected at most 100.', fragmentRings(90, 4)],
])('%s', async (sentence, query) => {
  const { data, errors } = await project.graphql(query);
  expect(errors).toEqual([{ message: sentence, extensions: explained('BAD_USER_INPUT') }]);
  expect(data).toBeUndefined();
});

test.each([
  ['of a list 20,000 deep', `{ usersByIds(ids: ${wrap('[', 20_000, '1', ']')}) { id } }`],
  ['of a list 990 deep', `{ usersByIds(ids: ${wrap('[', 990, '1', ']')}) { id } }`],
  ['of an input object 400 deep', `{ userCount(filter: ${wrap('{ startDate: ', 400, '"x"', '}')}) }`],
  ['of a type 990 deep', `query ($a: ${wrap('[', 990, 'ID', ']')}) { usersByIds(ids: $a) { id } }`],
  ['of fragments in rings', fragmentRings(15, 4)],
  ['of a fragment that spreads itself', '{ ...F } fragment F on Query { userCount ...F }'],
  ['of introspection in circles', `{ __schema { types ${wrap('{ fields { type ', 8, '{ name }', '} }')} } }`],
])('a document %s is BAD_USER_INPUT', async (_, query) => {
  const answer = await project.graphql(query);
  expect(new Set(codesOf(answer))).toEqual(new Set(['BAD_USER_INPUT']));
  expect(answer.data).toBeUndefined();
});

test('a document with too many operations is refused, also when operationName selects one', async () => {
  const query = many(51, (n) => `query Q${n} { userCount }`);
  const { body } = await project.rest('/graphql', jsonPost({ query, operationName: 'Q7' }));
  expect(body.errors.map(({ message }: Json) => message)).toEqual(['operations: got 51, expected at most 50.']);
});

test('a chain of fragments that each spread the next one twice is executed quickly', async () => {
  const chain = many(30, (index) => `fragment F${index} on Query { ...F${index + 1} ...F${index + 1} }`);
  const { data } = await project.graphql(`{ ...F0 } ${chain} fragment F30 on Query { userCount }`);
  expect(data).toEqual({ userCount: 0 });
});

test.each([9, 1_000, 100_000])('variables nested %i levels deep are BAD_USER_INPUT', async (depth) => {
  const answer = await project.rest('/graphql', {
    ...jsonPost(null),
    body: `{"query": "query ($ids: [ID!]!) { usersByIds(ids: $ids) { id } }", "variables": {"ids": ${wrap('[', depth, '', ']')}}}`,
  });
  expect([answer.status, codesOf(answer.body)]).toEqual([400, ['BAD_USER_INPUT']]);
});

const INTROSPECTION = getIntrospectionQuery({
  inputValueDeprecation: true,
  oneOf: true,
  schemaDescription: true,
  specifiedByUrl: true,
  directiveIsRepeatable: true,
});

async function askWithCost(query: string): Promise<Json> {
  const init = jsonPost({ query });
  return (await project.rest('/graphql', { ...init, headers: { ...init.headers, 'userdir-cost': '1' } })).body;
}

test('the introspection query of common tools is within its limit, which grows with the schema', async () => {
  const { data, errors, extensions } = await askWithCost(INTROSPECTION);
  expect(errors).toBeUndefined();
  const { requested, limit } = extensions.cost;
  expect(limit).toBe(Math.max(10_000, Math.ceil(1.25 * requested)));
  expect(data.__schema.types.length).toBeGreaterThan(10);
});

test.each([
  ['twice in one operation', INTROSPECTION.replace('{', '{ again: __schema { types { ...FullType } } ')],
  [
    'with the fields of the type of each field',
    INTROSPECTION.replace(
      'fields(includeDeprecated: true) {',
      'fields(includeDeprecated: true) { again: type { fields { name args { name } } }',
    ),
  ],
])('introspection %s is refused by its cost', async (_, query) => {
  const { data, errors, extensions } = await askWithCost(query);
  const { requested, limit } = extensions.cost;
  expect([data, errors[0].message]).toEqual([undefined, `cost: got ${requested}, expected at most ${limit}.`]);
});

test('an operation that asks for something beside introspection has the limit of all others', async () => {
  const { errors, extensions } = await askWithCost(
    INTROSPECTION.replace('{', '{ userCount a: userCount b: userCount c: userCount '),
  );
  expect(extensions.cost.limit).toBe(10_000);
  expect(errors[0].message).toBe(`cost: got ${extensions.cost.requested}, expected at most 10000.`);
});

/** A document of nearly the maximum length that is mostly comments. */
const comments = (index: number) => `{ a${index}: __typename } ${'#\r'.repeat(1_900)}${'#'.repeat(45_000)}`;

test.each([
  ['that are valid, with comments', (index: number) => comments(index)],
  [
    'that are refused for what they repeat',
    (index: number) => `{ a${index}: users { ${'totalCount '.repeat(3_980)} } }`,
  ],
  ['that are refused for fields that are not there', (index: number) => `{ ${many(98, (n) => `no${index}x${n}`)} }`],
  ['that have no syntax', (index: number) => `{ a${index} ${'userCount '.repeat(1_000)}`],
])(
  'documents %s do not fill the memory',
  async (_, make) => {
    setFlagsFromString('--expose-gc');
    const heapMiB = () => {
      runInNewContext('gc')();
      return process.memoryUsage().heapUsed / 2 ** 20;
    };
    await project.graphql(make(0));
    const before = heapMiB();
    for (let index = 1; index <= 200; index += 1) await project.graphql(make(index));
    // Cached, each document would take half a mebibyte or more.
    expect(heapMiB() - before).toBeLessThan(60);
  },
  120_000,
);

test('an answer has at most five errors, and says when there are more', async () => {
  const fields = (count: number) => `{ ${many(count, (n) => `a${n}: user(id: "x") { id }`)} }`;
  const [five, six] = [await project.graphql(fields(5)), await project.graphql(fields(6))];
  const message = 'id: got "x", expected decimal digits, 1 and up.';
  expect(five.errors?.map((error) => error.message)).toEqual(new Array(5).fill(message));
  expect(six.errors?.map((error) => error.message)).toEqual([
    ...new Array(4).fill(message),
    `${message} (More errors are not shown.)`,
  ]);
  expect(Object.keys(six.data)).toHaveLength(6);
});

test.each([
  ['a text for a number', 'query ($v: Int) { users(first: $v) { nodes { id } } }', { v: 'x'.repeat(4_000) }],
  [
    'unknown fields beside long values',
    'mutation ($v: RecordLoginInput!) { recordLogin(input: $v) { created } }',
    { v: Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`k${n}`, 'x'.repeat(4_000)])) },
  ],
])('errors in variables have short messages: %s', async (_, query, variables) => {
  const { errors, status } = await project.graphql(query, variables);
  expect(status).toBe(400);
  expect(errors?.length).toBeLessThanOrEqual(5);
  for (const { message } of errors ?? []) {
    expect(message.length).toBeLessThan(600);
    expect(message).not.toMatch(/x{201}/);
  }
});

test.each([
  [{ v: 'x'.repeat(4_097) }, 'id: got a text of 4097 characters, expected at most 4096 bytes.'],
  [{ v: 'é'.repeat(2_049) }, 'id: got a text of 2049 characters (4098 bytes), expected at most 4096 bytes.'],
])('a string in the variables that is too long is refused before it is parsed', async (variables, message) => {
  const { errors, status } = await project.graphql('query ($v: ID!) { user(id: $v) { id } }', variables);
  const extensions = { ...explained('BAD_USER_INPUT'), argument: 'id' };
  expect([status, errors]).toEqual([400, [{ message, extensions }]]);
});

test('a variable that the operation does not declare is ignored', async () => {
  const variables = { unused: [[['x'.repeat(10_000)]]] };
  expect((await project.graphql('{ userCount }', variables)).data).toEqual({ userCount: 0 });
});
