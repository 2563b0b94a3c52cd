import { beforeAll, expect, test } from 'vitest';
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
