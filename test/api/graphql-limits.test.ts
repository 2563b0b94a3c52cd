import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { getIntrospectionQuery } from 'graphql';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type GraphQLAnswer, startTestApp, type TestApp, type TestProject } from '../support/app.js';
import { codesOf } from '../support/graphql.js';

/** Documents made to hurt: each is refused, and none makes the service fail. */

let app: TestApp;
let project: TestProject;
beforeAll(async () => {
  app = await startTestApp();
  project = await app.createProject();
});
afterAll(() => app.close());

const wrap = (open: string, depth: number, inside: string, close: string) =>
  open.repeat(depth) + inside + close.repeat(depth);

/** Every fragment spreads several others, in rings: the validator recurses through all pairs of them. */
function fragmentRings(count: number, spreads: number): string {
  const fragments = Array.from({ length: count }, (_, index) => {
    const others = Array.from({ length: spreads }, (_, step) => `...F${(index + step + 1) % count}`);
    return `fragment F${index} on Query { ${others.join(' ')} }`;
  });
  return `{ ...F0 } ${fragments.join(' ')}`;
}

/** As many of something as asked, each made from its number. */
const many = (count: number, make: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => make(index)).join(' ');

test.each([
  ['characters: got 50001, expected at most 50000.', `{ userCount } #${' '.repeat(50_001 - 15)}`],
  ['tokens: got more, expected at most 4000.', `{ ${'userCount '.repeat(4_000)} }`],
  ['tokens: got more, expected at most 4000.', `{ usersByIds(ids: [${'1 '.repeat(20_000)}]) { id } }`],
  ['depth: got 21, expected at most 20.', wrap('{ users ', 20, '{ x }', '}')],
  ['depth: got 1301, expected at most 20.', wrap('{ users ', 1_300, '{ x }', '}')],
  [
    'depth: got 22, expected at most 20.',
    `{ ...A } fragment A on Query ${wrap('{ a ', 20, '{ ...B }', '}')} fragment B on A { x { y } }`,
  ],
  ['root fields: got 201, expected at most 200.', `{ ${'userCount '.repeat(201)} }`],
  [
    'root fields: got 201, expected at most 200.',
    `{ ${'userCount '.repeat(100)} ...A ...A } fragment A on Query { ${'userCount '.repeat(101)} }`,
  ],
  ['aliases: got 251, expected at most 250.', `{ users { ${many(251, (n) => `a${n}: totalCount`)} } }`],
  ['directives: got 51, expected at most 50.', `{ users { totalCount ${'@include(if: true) '.repeat(51)} } }`],
  ['directives: got 51, expected at most 50.', `{ ${many(51, () => '... @skip(if: false) { userCount }')} }`],
  ['directives: got 51, expected at most 50.', `query ($a: Int ${'@a '.repeat(51)}) { userCount }`],
  [
    'repetitions: got more fields of the same name than can be compared, expected each once.',
    `{ users { ${'totalCount '.repeat(3_900)} } }`,
  ],
  ['fragments: got 201, expected at most 200.', `{ users { ${'... { totalCount } '.repeat(201)} } }`],
  ['fragments: got 201, expected at most 200.', `{ ${many(200, () => '...F')} } fragment F on Query { userCount }`],
  ['fragments: got 951, expected at most 200.', fragmentRings(190, 4)],
])('%s', async (sentence, query) => {
  const { data, errors } = await project.graphql(query);
  expect(errors).toEqual([{ message: sentence, extensions: { code: 'BAD_USER_INPUT' } }]);
  expect(data).toBeUndefined();
});

test.each([
  ['of a list 20,000 deep', `{ usersByIds(ids: ${wrap('[', 20_000, '1', ']')}) { id } }`],
  ['of a list 1,990 deep', `{ usersByIds(ids: ${wrap('[', 1_990, '1', ']')}) { id } }`],
  ['of an input object 1,000 deep', `{ userCount(filter: ${wrap('{ startDate: ', 1_000, '"x"', '}')}) }`],
  ['of a type 1,990 deep', `query ($a: ${wrap('[', 1_990, 'ID', ']')}) { usersByIds(ids: $a) { id } }`],
  ['of fragments in rings', fragmentRings(30, 4)],
  ['of a fragment that spreads itself', '{ ...F } fragment F on Query { userCount ...F }'],
  ['of introspection in circles', `{ __schema { types ${wrap('{ fields { type ', 8, '{ name }', '} }')} } }`],
])('a document %s is BAD_USER_INPUT', async (_, query) => {
  const answer = await project.graphql(query);
  expect(new Set(codesOf(answer))).toEqual(new Set(['BAD_USER_INPUT']));
  expect(answer.data).toBeUndefined();
});

test('a limit is answered as every other fault of a document, by either media type', async () => {
  const deep = { query: wrap('{ users ', 20, '{ x }', '}') };
  const query = `query ($n: Int) { ${many(100, (n) => `a${n}: users(first: $n) { nodes { id authValue } }`)} }`;
  const dear = { query, variables: { n: 100 } };
  for (const body of [deep, dear]) {
    const statuses = ['application/json', 'application/graphql-response+json'].map(async (accept) => {
      const headers = { ...project.credentials, 'content-type': 'application/json', accept };
      const response = await fetch(`${app.url}/graphql`, { method: 'POST', headers, body: JSON.stringify(body) });
      expect(codesOf((await response.json()) as GraphQLAnswer)).toEqual(['BAD_USER_INPUT']);
      return response.status;
    });
    expect(await Promise.all(statuses)).toEqual([200, 400]);
  }
});

test('fragments that spread each other twice over are harmless', async () => {
  const chain = many(60, (index) => `fragment F${index} on Query { ...F${index + 1} ...F${index + 1} }`);
  const { data } = await project.graphql(`{ ...F0 } ${chain} fragment F60 on Query { userCount }`);
  expect(data).toEqual({ userCount: 0 });
});

test.each([1_000, 400_000])('variables nested %i deep are BAD_USER_INPUT', async (depth) => {
  const response = await fetch(`${app.url}/graphql`, {
    method: 'POST',
    headers: { ...project.credentials, 'content-type': 'application/json' },
    body: `{"query": "query ($ids: [ID!]!) { usersByIds(ids: $ids) { id } }", "variables": {"ids": ${wrap('[', depth, '', ']')}}}`,
  });
  expect(response.status).toBe(400);
  expect(codesOf((await response.json()) as { errors: { message: string; extensions: { code: string } }[] })).toEqual([
    'BAD_USER_INPUT',
  ]);
});

test('the introspection that tools send is well within the limits', async () => {
  const query = getIntrospectionQuery({ inputValueDeprecation: true, oneOf: true, schemaDescription: true });
  const { data, errors } = await project.graphql(query);
  expect(errors).toBeUndefined();
  expect(data.__schema.types.length).toBeGreaterThan(10);
});

test('a document that asks for 100 users one by one is well within the limits', async () => {
  const fields = Array.from(
    { length: 100 },
    (_, index) => `u${index}: user(id: ${index + 1}) { id authMethod accounts { id } }`,
  );
  const { data, errors } = await project.graphql(`{ ${fields.join(' ')} }`);
  expect(errors).toBeUndefined();
  expect(Object.keys(data)).toHaveLength(100);
});

test('documents that are remembered do not fill the memory', async () => {
  setFlagsFromString('--expose-gc');
  const heapMiB = () => {
    runInNewContext('gc')();
    return process.memoryUsage().heapUsed / 2 ** 20;
  };
  const before = heapMiB();
  // 2 MiB each, also those that are refused.
  for (let index = 0; index < 120; index += 1) {
    const answer = await project.graphql(`{ a${index}: users { ${'totalCount '.repeat(3_980)} } }`);
    expect(codesOf(answer)).toEqual(['BAD_USER_INPUT']);
  }
  expect(heapMiB() - before).toBeLessThan(120);
});
