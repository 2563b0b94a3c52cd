import { beforeAll, expect, test } from 'vitest';
import { startTestApp, type TestProject, useTestApp } from '../support/app.js';
import { addNamedUsers, codesOf, expectGraphQLRefusal, idsOf, requestGraphQL } from '../support/graphql.js';
import { basic } from '../support/rest.js';

/** GraphQL over HTTP: which requests are accepted, and that every error is a GraphQL answer. */

const app = useTestApp();
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
});

const json = { 'content-type': 'application/json' };
const COUNT = JSON.stringify({ query: '{ userCount }' });

const post = (body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = json) =>
  requestGraphQL(app, { method: 'POST', headers: { ...project.credentials, ...headers }, body });
const get = (parameters: Record<string, string>, headers: Record<string, string> = {}) =>
  requestGraphQL(
    app,
    { headers: { accept: 'application/json', ...project.credentials, ...headers } },
    `?${new URLSearchParams(parameters)}`,
  );

test.each([
  ['no credentials', () => ({})],
  ['a wrong secret', () => ({ ...project.credentials, 'service-app-secret': 'wrong' })],
  ['an unknown App ID', () => ({ ...project.credentials, 'service-app-id': 'app_000000000000000000000000' })],
  ['no secret', () => ({ 'service-app-id': project.appId })],
])('with %s every operation is UNAUTHENTICATED with 401', async (_, credentials) => {
  const bodies = [
    COUNT,
    JSON.stringify({ query: '{ __schema { queryType { name } } }' }),
    JSON.stringify({ query: '{ __typename }' }),
    JSON.stringify({ query: '{ parseAddress(address: "x") { reason } }' }),
    JSON.stringify({ query: 'mutation { deleteUser(id: 1) { id } }' }),
    JSON.stringify({ query: '{ not valid' }),
    // An error with a suggestion would reveal the schema to an anonymous client.
    JSON.stringify({ query: '{ userCoun parseAddres }' }),
    'not JSON',
  ];
  for (const body of bodies) {
    const headers = { ...json, ...(credentials() as Record<string, string>) };
    const answer = await requestGraphQL(app, { method: 'POST', headers, body });
    expect(answer.status).toBe(401);
    expect(expectGraphQLRefusal(answer.text).code).toBe('UNAUTHENTICATED');
    expect(answer.text).not.toMatch(/Did you mean|userCount|parseAddress/);
    expect(answer.headers.get('www-authenticate')).toBe('Basic realm="userdir"');
  }
});

test('HTTP Basic credentials are accepted like those in the headers', async () => {
  const headers = { ...json, ...basic(`${project.appId}:${project.appSecret}`) };
  const answer = await requestGraphQL(app, { method: 'POST', headers, body: COUNT });
  expect(JSON.parse(answer.text)).toEqual({ data: { userCount: 0 } });
});

test('a browser gets the GraphiQL page without credentials, and a query in its URL is not executed', async () => {
  for (const search of ['', '?query=%7BuserCount%7D', '?%71uery=%7B__schema%7BqueryType%7Bname%7D%7D%7D']) {
    const answer = await requestGraphQL(app, { headers: { accept: 'text/html,application/json;q=0.9' } }, search);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toContain('text/html');
    expect(answer.text).toMatch(/^\s*<!doctype html>/i);
    expect(answer.text).toContain('\\u003cAPP_SECRET>');
    expect(answer.headers.get('content-security-policy')).toMatch(/default-src 'none'.*frame-ancestors 'none'/);
  }
});

test('when GraphiQL is off, a browser needs credentials like any other client', async () => {
  await using plain = await startTestApp({ env: { GRAPHIQL: 'off' } });
  const answer = await requestGraphQL(plain, { headers: { accept: 'text/html' } });
  expect(answer.status).toBe(401);
  expect(expectGraphQLRefusal(answer.text).code).toBe('UNAUTHENTICATED');
});

test('a query may be sent by GET, with variables and an operation name', async () => {
  const answer = await get({
    query:
      'query Other { __typename } query Asked($address: String!) { parseAddress(address: $address) { canonical } }',
    operationName: 'Asked',
    variables: JSON.stringify({ address: `0x${'A'.repeat(40)}` }),
  });
  expect(answer.status).toBe(200);
  expect(JSON.parse(answer.text)).toEqual({ data: { parseAddress: { canonical: `0x${'a'.repeat(40)}` } } });
});

test('a mutation by GET is refused with 405 and changes nothing', async () => {
  const named = await addNamedUsers(app, 'ada');
  const { ada } = await idsOf(named);
  const answer = await get({ query: `mutation { deleteUser(id: ${ada}) { id } }` }, named.credentials);
  expect(answer.status).toBe(405);
  expect(answer.headers.get('allow')).toBe('POST');
  expect(expectGraphQLRefusal(answer.text).code).toBe('METHOD_NOT_ALLOWED');
  expect(await idsOf(named)).toEqual({ ada });
});

test.each([
  { query: '{ userCount }', variables: '{' },
  { query: '{ userCount }', variables: '1' },
  { query: '{ userCount }', extensions: 'x' },
  { variables: '{}' },
])('a GET with the parameters %j is BAD_USER_INPUT with 400', async (parameters) => {
  const answer = await get(parameters);
  expect(answer.status).toBe(400);
  expect(expectGraphQLRefusal(answer.text).code).toBe('BAD_USER_INPUT');
});

test('a URL that is not valid UTF-8 is BAD_USER_INPUT with 400', async () => {
  const answer = await requestGraphQL(app, { headers: project.credentials }, '?query={userCount}&variables=%FF');
  expect(answer.status).toBe(400);
  expect(expectGraphQLRefusal(answer.text).code).toBe('BAD_USER_INPUT');
});

test.each(['PUT', 'PATCH', 'DELETE', 'OPTIONS'])(
  '%s is refused with 405, and the answer lists the allowed methods',
  async (method) => {
    const answer = await requestGraphQL(app, { method, headers: project.credentials });
    expect(answer.status).toBe(405);
    expect(answer.headers.get('allow')).toBe('GET, POST');
    expect(expectGraphQLRefusal(answer.text).code).toBe('METHOD_NOT_ALLOWED');
  },
);

test('no answer has CORS headers, so pages of other origins cannot read it', async () => {
  const answer = await post(COUNT, { ...json, origin: 'https://example.com' });
  expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([]);
});

test.each([
  'text/plain',
  'application/graphql',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/jsonx',
  '',
])('the content type %j is refused with 415, so that no HTML form can send an operation', async (type) => {
  const answer = await post(COUNT, { 'content-type': type });
  expect(answer.status).toBe(415);
  expect(expectGraphQLRefusal(answer.text).code).toBe('UNSUPPORTED_MEDIA_TYPE');
});

test.each(['utf-16', '"utf-8"', 'latin1'])(
  'a charset in the Accept header does not change the answer: %s',
  async (charset) => {
    const accept = `application/json; charset=${charset}`;
    const query = 'mutation { recordLogin(input: { authMethod: "google", authValue: "charset" }) { created } }';
    const named = await app.createProject();
    const headers = { ...named.credentials, ...json, accept };
    const answer = await requestGraphQL(app, { method: 'POST', headers, body: JSON.stringify({ query }) });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8']);
    expect(JSON.parse(answer.text)).toEqual({ data: { recordLogin: { created: true } } });
  },
);

test.each([
  ['application/graphql-response+json, application/json', 'application/graphql-response+json'],
  ['application/json, application/graphql-response+json', 'application/json'],
  ['text/html, application/graphql-response+json;q=0.5', 'application/graphql-response+json'],
  ['*/*, application/graphql-response+json', 'application/json'],
  ['image/png', 'application/json'],
  ['text/event-stream', 'application/json'],
  [';;,', 'application/json'],
])('the answer to Accept: %s is %s', async (accept, type) => {
  const answer = await post(COUNT, { ...json, accept });
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, `${type}; charset=utf-8`]);
  expect(answer.headers.get('cache-control')).toBe('no-store');
  expect(JSON.parse(answer.text)).toEqual({ data: { userCount: 0 } });
});

test('an operation is found only by its full name, also when its document is cached', async () => {
  const bodies = [
    { query: 'query Q { userCount }', operationName: '' },
    { query: 'Q { userCount }', operationName: 'Q query' },
    { query: ' query Q { userCount }', operationName: 'Q' },
  ];
  for (let time = 0; time < 6; time += 1) {
    const answers = await Promise.all(bodies.map((body) => post(JSON.stringify(body))));
    expect(answers.map(({ status }) => status)).toEqual([400, 200, 200]);
    const texts = answers.map(({ text }) => JSON.parse(text));
    expect(texts.map((text) => 'data' in text)).toEqual([false, false, true]);
  }
});

test('the same operation in a body and in a URL gets the same answer', async () => {
  for (const parameters of [
    { query: '' },
    { query: ' ' },
    { query: '{ userCount' },
    { query: 'query ($a: ID) { userCount }', variables: '{"__proto__": {}}' },
    { query: 'query ($a: ID!) { user(id: $a) { id } }', variables: '{"a": {}}' },
    { query: '{ userCount }', operationName: 'Other' },
  ]) {
    const { variables, ...rest } = parameters;
    const body = `{${Object.entries(rest).map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`)}${variables ? `, "variables": ${variables}` : ''}}`;
    const [byBody, byUrl] = [await post(body), await get(parameters)];
    expect([byUrl.status, codesOf(JSON.parse(byUrl.text))]).toEqual([byBody.status, codesOf(JSON.parse(byBody.text))]);
    if (!variables?.includes('__proto__')) expect(byUrl.text).toBe(byBody.text);
  }
});

test.each([
  '',
  '{',
  '{"query": "{ userCount }"',
  'null',
  '1',
  '"{ userCount }"',
  '[]',
  '[{"query": "{ userCount }"}]',
  '{}',
  '{"query": null}',
  '{"query": 1}',
  '{"query": ["{ userCount }"]}',
  '{"query": "{ userCount }", "variables": []}',
  '{"query": "{ userCount }", "variables": "{}"}',
  '{"query": "{ userCount }", "extensions": 1}',
  '{"query": "{ userCount }", "operationName": 1}',
  '{"query": "{ userCount }", "operationName": "Other"}',
  '{"query": "{ userCount }", "__proto__": {}}',
  '{"query": "query A { userCount } query B { userCount }"}',
])('the body %s is BAD_USER_INPUT with 400', async (body) => {
  const answer = await post(body);
  expect(answer.status).toBe(400);
  expect(expectGraphQLRefusal(answer.text).code).toBe('BAD_USER_INPUT');
});

test('a body that is not valid UTF-8 is BAD_USER_INPUT with 400', async () => {
  const answer = await post(Buffer.from('{"query": "{ userCount } # \xff"}', 'latin1'));
  expect(answer.status).toBe(400);
  expect(answer.text).toContain('The body is not valid UTF-8; it must not be compressed.');
  expect(expectGraphQLRefusal(answer.text).code).toBe('BAD_USER_INPUT');
});

test('a body that is compressed or in an unknown encoding is refused', async () => {
  const answer = await post(Buffer.from([0x1f, 0x8b, 0x08, 0x00]), { ...json, 'content-encoding': 'gzip' });
  expect(answer.status).toBe(400);
  expect(expectGraphQLRefusal(answer.text).code).toBe('BAD_USER_INPUT');
});

test.each([
  ['a syntax error', '{ userCount'],
  ['an empty document', ''],
  ['an unknown field', '{ nope }'],
  ['an unknown argument', '{ userCount(limit: 1) }'],
  ['a missing argument', '{ user { id } }'],
  ['no selection', '{ users }'],
  ['an unknown enum value', '{ userCount(filter: { loginMethods: [TELEPATHY] }) }'],
  ['a subscription', 'subscription { userCount }'],
  ['a subscription with a condition', 'subscription { changes @include(if: false) { cursor } }'],
  ['a subscription with a condition on a fragment', 'subscription { ... @skip(if: true) { changes { cursor } } }'],
  ['@defer', '{ users { ... @defer { totalCount } } }'],
])('a document with %s is BAD_USER_INPUT, with 200 as application/json and 400 as GraphQL', async (_, query) => {
  const body = JSON.stringify({ query });
  const asJson = await post(body, { ...json, accept: 'application/json' });
  const asGraphQL = await post(body, { ...json, accept: 'application/graphql-response+json' });
  for (const { text } of [asJson, asGraphQL]) {
    expect(codesOf(JSON.parse(text))).toEqual(['BAD_USER_INPUT']);
    expect(Object.keys(JSON.parse(text))).toEqual(['errors']);
  }
  expect([asJson.status, asGraphQL.status]).toEqual([200, 400]);
  expect(asGraphQL.headers.get('content-type')).toBe('application/graphql-response+json; charset=utf-8');
});

test('variables in the URL of a POST are refused: without them a question could be about any user', async () => {
  const body = JSON.stringify({ query: 'query ($id: ID) { verifyWallet(address: "G", userId: $id) { exists } }' });
  const headers = { ...project.credentials, ...json };
  for (const parameters of [{ variables: '{"id":5}' }, { 'variables[id]': '5' }]) {
    const search = `?${new URLSearchParams(parameters as Record<string, string>)}`;
    const answer = await requestGraphQL(app, { method: 'POST', headers, body }, search);
    expect(answer.status).toBe(400);
    expect(expectGraphQLRefusal(answer.text)).toEqual({
      code: 'BAD_USER_INPUT',
      message: 'variables: got them in the URL, expected them in the body of a POST.',
    });
  }
});
