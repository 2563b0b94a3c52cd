import { getIntrospectionQuery } from 'graphql';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestApp, type TestApp, type TestProject } from '../support/app.js';
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

test.each([
  ['of more than 4,000 tokens', `{ ${'userCount '.repeat(4_000)} }`],
  ['of 20,000 aliases', `{ ${Array.from({ length: 20_000 }, (_, index) => `a${index}: userCount`).join(' ')} }`],
  ['of a list 100,000 deep', `{ usersByIds(ids: ${wrap('[', 100_000, '1', ']')}) { id } }`],
  ['of a list 1,990 deep', `{ usersByIds(ids: ${wrap('[', 1_990, '1', ']')}) { id } }`],
  ['of an input object 1,000 deep', `{ userCount(filter: ${wrap('{ startDate: ', 1_000, '"x"', '}')}) }`],
  ['of a type 1,990 deep', `query ($a: ${wrap('[', 1_990, 'ID', ']')}) { usersByIds(ids: $a) { id } }`],
  ['of selections 100,000 deep', wrap('{ users ', 100_000, '', '}')],
  ['of selections 1,300 deep', wrap('{ users ', 1_300, '', '}')],
  ['of fragments in rings', fragmentRings(190, 4)],
  ['of one field 3,900 times', `{ ${'userCount '.repeat(3_900)} }`],
  ['of introspection in circles', `{ __schema { types ${wrap('{ fields { type ', 8, '{ name }', '} }')} } }`],
])('a document %s is BAD_USER_INPUT', async (_, query) => {
  const answer = await project.graphql(query);
  expect(codesOf(answer)).toEqual(['BAD_USER_INPUT']);
  expect(answer.data).toBeUndefined();
});

test('fragments that spread each other twice over are harmless', async () => {
  const chain = Array.from(
    { length: 300 },
    (_, index) => `fragment F${index} on Query { ...F${index + 1} ...F${index + 1} }`,
  );
  const { data } = await project.graphql(`{ ...F0 } ${chain.join(' ')} fragment F300 on Query { userCount }`);
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
