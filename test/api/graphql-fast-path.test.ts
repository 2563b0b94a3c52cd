import { beforeAll, expect, test } from 'vitest';
import { answerFast } from '#dist/engine/answer.js';
import { prepareRequest } from '#dist/engine/execution.js';
import { contextOf } from '#dist/graphql/builder.js';
import { engine } from '#dist/graphql/schema.js';
import { ethereumAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';

// With its own database, the first user has the id 1.
const app = useTestApp({ ownDatabase: true });
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
  await project.addUsers({ auth_method: 'wallet', auth_value: ethereumAddress(1) });
});

async function ask(body: object, headers: Record<string, string> = {}) {
  const response = await fetch(`${app.url}/graphql`, {
    method: 'POST',
    headers: { ...project.credentials, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return { status: response.status, type: response.headers.get('content-type'), body: await response.text() };
}

// An empty `extensions` has no meaning, but it sends the request through Yoga's HTTP layer.
const theLongWay = { extensions: {} };

test.each([
  { query: '{ users { totalCount nodes { id wallet createdAt accounts { publicKey } } } }' },
  { query: 'query A { userCount } query B { users(first: 0) { totalCount } }', operationName: 'B' },
  { query: 'query A { userCount } query B { userCount }' },
  { query: 'query Q($id: ID!) { user(id: $id) { id } }', variables: { id: 'abc' } },
  { query: 'query Q($id: ID!) { user(id: $id) { id } }', variables: {} },
  { query: 'query Q($page: Int!) { userPage(page: $page) { page } }', variables: { page: 'one' } },
  { query: 'mutation { deleteUser(id: 999999) { id } }' },
  { query: '{ a: verifyWallet(address: "nonsense") { exists } b: userCount }' },
  { query: '{ nothing }' },
  { query: '{ users {' },
  { query: '' },
  { query: 'subscription { users { totalCount } }' },
  { query: 'fragment F on User { id } { user(id: 1) { ...F __typename } __typename }' },
])('the fast path and the HTTP layer of Yoga give the same answer, byte for byte: %j', async (body) => {
  for (const accept of [
    '*/*',
    'application/json',
    'application/graphql-response+json',
    'application/json, text/plain, */*',
  ]) {
    const long = await ask({ ...body, ...theLongWay }, { accept });
    // The first answer for an Accept header goes through Yoga; later requests with this header take the fast path.
    await ask({ query: '{ __typename }' }, { accept });
    expect(await ask(body, { accept })).toEqual(long);
  }
});

test('rows are charged once for a compiled query that GraphQL.js has to execute again', async () => {
  const shared = await app.createProject();
  const email = 'shared@example.com';
  await shared.addUsers(
    ...Array.from({ length: 60 }, (_, n) => ({ auth_method: 'google', auth_value: `g${n}`, email })),
  );
  const fields = Array.from({ length: 140 }, (_, n) => `a${n}: id`).join(' ');
  const query = `query ($id: ID!) { searchUsers(by: { email: "${email}" }) { ${fields} } user(id: $id) { id } }`;
  const { services } = app.context;
  const scope = await services.projects.getScope(shared.appId);
  const document = engine.readDocument(query);
  const units = async (id: string) => {
    let added = 0;
    const addWeight = (more: number) => {
      added += more;
    };
    const prepared = {
      ...prepareRequest(document, { query, variables: { id }, operationName: undefined }),
      isPlain: true,
    };
    const context = contextOf(
      { id: 'a', scope, until: Number.POSITIVE_INFINITY, addWeight, report: () => undefined },
      prepared,
      services,
    );
    const body = await answerFast(prepared, context, engine.createDocumentCache());
    return { added, isCompiled: document.operation(undefined)?.run !== null, answer: JSON.parse(body ?? 'null') };
  };
  const bySlowWay = await units('x');
  for (let time = 0; time < 4; time += 1) await units('999999');
  const afterBailOut = await units('x');
  expect([bySlowWay.isCompiled, afterBailOut.isCompiled]).toEqual([false, true]);
  expect(bySlowWay.added).toBeGreaterThan(0);
  expect(afterBailOut.added).toBe(bySlowWay.added);
  expect(afterBailOut.answer).toEqual(bySlowWay.answer);
  expect(afterBailOut.answer).toMatchObject({ data: { user: null }, errors: [{ path: ['user'] }] });
  expect(afterBailOut.answer.data.searchUsers).toHaveLength(60);
});
