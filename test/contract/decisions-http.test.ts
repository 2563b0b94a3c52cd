import { beforeAll, describe, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { basic, expectError, jsonPost, SIX_ROUTES, sendRaw } from '../support/rest.js';

/** Decisions of this service where the contract (docs/spec.md) is silent: the HTTP rows of docs/decisions/rest.md. */

const app = useTestApp();
let empty: TestProject;
beforeAll(async () => {
  empty = await app.createProject();
});

async function call(path: string, init: RequestInit = {}) {
  const answer = await fetch(app.url + path, init);
  return { status: answer.status, headers: answer.headers, body: JSON.parse(await answer.text()) };
}

test.each(['text/plain', 'application/xml', 'x/y; z'])(
  'a route without a body ignores one that is no JSON: %s',
  async (type) => {
    const project = await app.createProject();
    await project.addUsers({ auth_method: 'google', auth_value: 'one' });
    const { body } = await project.rest('/server/users');
    const init = { method: 'DELETE', headers: { 'content-type': type }, body: '{' };
    const answer = await project.rest(`/server/users/${body.result.users[0].id}`, init);
    expect(answer.status).toBe(200);
  },
);

test('a route without a body refuses one that says it is JSON and is none, and does nothing', async () => {
  const project = await app.createProject();
  await project.addUsers({ auth_method: 'google', auth_value: 'one' });
  const path = `/server/users/${(await project.rest('/server/users')).body.result.users[0].id}`;
  const remove = (body: string) =>
    project.rest(path, { method: 'DELETE', headers: { 'content-type': 'application/json' }, body });
  expectError(await remove('{'), 400);
  expect((await project.rest(path)).status).toBe(200);
  expect((await remove('{}')).status).toBe(200);
});

describe('a request with both credential schemes', () => {
  const status = async (headers: Record<string, string>) => (await call('/server/users', { headers })).status;

  test('passes with correct headers: a wrong Basic is ignored', async () => {
    expect(await status({ ...empty.credentials, ...basic('x:y') })).toBe(200);
  });
  test('is 401 with wrong headers: a correct Basic is ignored', async () => {
    const right = basic(`${empty.appId}:${empty.appSecret}`);
    expect(await status(right)).toBe(200);
    expect(await status({ ...empty.credentials, 'service-app-secret': 'wrong', ...right })).toBe(401);
  });
  test.each(['service-app-id', 'service-app-secret'])('uses the headers even if only one is sent: %s', async (name) => {
    const right = basic(`${empty.appId}:${empty.appSecret}`);
    expect(await status({ [name]: empty.credentials[name] ?? '', ...right })).toBe(401);
    expect(await status({ [name]: '', ...right })).toBe(401);
  });
  test('acts on the project of the headers', async () => {
    const other = await app.createProject();
    await other.addUsers({ auth_method: 'google', auth_value: 'one' });
    const headers = { ...other.credentials, ...basic(`${empty.appId}:${empty.appSecret}`) };
    expect((await call('/server/users/count', { headers })).body.result.total_user).toBe(1);
  });
  test('accepts the scheme name in any case, and refuses an empty App Secret', async () => {
    const { authorization } = basic(`${empty.appId}:${empty.appSecret}`);
    expect(await status({ authorization: authorization.replace('Basic', 'bASIC') })).toBe(200);
    expect(await status(basic(`${empty.appId}:`))).toBe(401);
  });
});

describe('401', () => {
  const wrong = [
    ['malformed query', '/server/users?page=0', {}],
    ['malformed date', '/server/users/count?start_date=x', {}],
    ['neither parameter', '/server/users/search', {}],
    ['malformed id', '/server/users/abc', {}],
    ['broken percent-encoding in the query', '/server/users?email=%FF', {}],
    ['broken percent-encoding in the path', '/server/users/%FF', {}],
    ['a path that is no UTF-8 and no route', '/server/%C0%AF', {}],
    ['an endless id', `/server/users/${'1'.repeat(5_000)}`, {}],
    ['unknown path', '/server/nothing', {}],
    ['the bare prefix', '/server', {}],
    ['wrong method', '/server/users', { method: 'PATCH' }],
    ['a method of WebDAV', '/server/users', { method: 'PROPFIND' }],
    ['CORS preflight', '/server/users', { method: 'OPTIONS' }],
    ['broken JSON', '/server/wallets/verify', { ...jsonPost(0), body: '{' }],
    ['wrong content type', '/server/wallets/verify', { ...jsonPost(0), headers: { 'content-type': 'text/plain' } }],
    ['no content type of any form', '/server/wallets/verify', { ...jsonPost(0), headers: { 'content-type': 'x' } }],
  ] as const;
  test.each(wrong)('comes before every other check: %s', async (_what, path, init) => {
    expectError(await call(path, init), 401);
    expect((await empty.rest(path, init)).status).not.toBe(401);
  });

  test('comes before a body that is too large has been read', async () => {
    const head = 'POST /server/wallets/verify HTTP/1.1\r\nHost: a\r\nConnection: close\r\n';
    const announced = `${head}Content-Type: application/json\r\nContent-Length: 999999999\r\n\r\n`;
    expectError(await sendRaw(app.url, announced), 401);
  });

  test('with WWW-Authenticate: Basic realm="userdir"', async () => {
    for (const headers of [{}, { ...empty.credentials, 'service-app-secret': 'wrong' }, basic('a:b')]) {
      const answer = await call('/server/users', { headers });
      expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([401, 'Basic realm="userdir"']);
    }
  });
});

describe('unknown path or wrong method', () => {
  test.each(['/server', '/server/', '/server/nothing', '/server/users/1/accounts', '/server/wallets', '/nothing'])(
    'an unknown path is 404 with {"error"}: %s',
    async (path) => {
      for (const method of ['GET', 'POST']) expectError(await empty.rest(path, { method }), 404);
    },
  );
  test.each([
    ['POST', '/server/users', 'GET, HEAD'],
    ['DELETE', '/server/users', 'GET, HEAD'],
    ['PUT', '/server/users/1', 'GET, HEAD, DELETE'],
    ['PATCH', '/server/users/1', 'GET, HEAD, DELETE'],
    ['POST', '/server/users/count', 'GET, HEAD, DELETE'],
    ['GET', '/server/wallets/verify', 'POST'],
    ['OPTIONS', '/server/users', 'GET, HEAD'],
    ['PROPFIND', '/server/users', 'GET, HEAD'],
    ['POST', '/livez', 'GET, HEAD'],
    ['DELETE', '/openapi.json', 'GET, HEAD'],
  ])('a wrong method is 405 with Allow and {"error"}: %s %s', async (method, path, allow) => {
    const answer = await empty.rest(path, { method });
    expect(expectError(answer, 405)).toContain(method);
    expect(answer.headers.get('allow')).toBe(allow);
  });
});

describe('bodies', () => {
  const post = (body: string, contentType: string) =>
    empty.rest('/server/wallets/verify', { method: 'POST', body, headers: { 'content-type': contentType } });
  const good = JSON.stringify({ address: stellarAddress(1) });
  test.each(['application/json', 'Application/JSON', 'application/json; charset=utf-8'])(
    'a correct content type is accepted: %s',
    async (contentType) => {
      expect((await post(good, contentType)).status).toBe(200);
    },
  );
});

test('REST extensions never change the status or the body: each answer has only the keys of the contract', async () => {
  const bodies = await Promise.all(SIX_ROUTES.map(async ({ path, init }) => (await empty.rest(path, init)).body));
  expect(bodies.map((body) => Object.keys(body.result ?? body))).toEqual([
    ['page', 'limit', 'total_user', 'users'],
    ['total_user'],
    ['total_user', 'users'],
    ['error'],
    ['error'],
    ['exists'],
  ]);
  // Parameters of GraphQL or of a careless client change nothing.
  const asked = await empty.rest('/server/users?fields=id&include=total&pretty=1&first=1&after=x');
  expect(asked.body).toEqual(bodies[0]);
});

test('a JSON answer is the same for every Accept header', async () => {
  const init = jsonPost({ address: stellarAddress(1) });
  const plain = await empty.rest('/server/wallets/verify', init);
  const accept = { ...init, headers: { ...init.headers, accept: 'text/html' } };
  expect((await empty.rest('/server/wallets/verify', accept)).body).toEqual(plain.body);
});

describe('every response', () => {
  const answers: [string, string, RequestInit][] = [
    ['200', '/server/users', {}],
    ['400', '/server/users?page=0', {}],
    ['400 of the URL', '/server/users/%FF', {}],
    ['400 of the body', '/server/wallets/verify', { ...jsonPost(0), body: '{' }],
    ['401', '/server/users', { headers: { 'service-app-id': 'x' } }],
    ['404', '/server/users/999999999', {}],
    ['404 of the path', '/server/nothing', {}],
    ['404 elsewhere', '/nothing', {}],
    ['405', '/server/users', { method: 'PUT' }],
    ['413', '/server/wallets/verify', jsonPost('x'.repeat(1_048_576))],
    ['the health route', '/livez', {}],
    ['the OpenAPI document', '/openapi.json', {}],
  ];
  const header = async (name: string, path: string, init: RequestInit, more = {}) => {
    const answer = await empty.rest(path, { ...init, headers: { ...(init.headers as object), ...more } });
    return answer.headers.get(name);
  };

  test.each(answers)("has the caller's X-Request-Id if it is well formed: %s", async (_what, path, init) => {
    for (const id of ['abc-123', '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', 'a'.repeat(128)]) {
      expect(await header('x-request-id', path, init, { 'x-request-id': id })).toBe(id);
    }
  });
  test.each(answers)('has a new X-Request-Id if the request has none: %s', async (_what, path, init) => {
    const [first, second] = [await header('x-request-id', path, init), await header('x-request-id', path, init)];
    expect(first).toMatch(/^[\w-]{8,}$/);
    expect(second).not.toBe(first);
  });
  test.each(['', 'a b', 'a"b', '<script>', 'é', 'a,b', 'a'.repeat(129), '{}'])(
    "has a new X-Request-Id if the caller's is malformed: %j",
    async (id) => {
      const given = await header('x-request-id', '/server/users', {}, { 'x-request-id': id });
      expect(given).toMatch(/^[0-9a-f-]{36}$/);
    },
  );
  test.each(answers)('has Cache-Control: no-store: %s', async (_what, path, init) => {
    expect(await header('cache-control', path, init)).toBe('no-store');
  });
  test('has Cache-Control: no-store and X-Request-Id even if the request is not HTTP', async () => {
    const { status, headers } = await sendRaw(app.url, 'HELLO\r\n\r\n');
    expect([status, headers['cache-control']]).toEqual([400, 'no-store']);
    expect(headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  });
  test.each([
    ['GET', '/server/users'],
    ['OPTIONS', '/server/users'],
    ['OPTIONS', '/server/wallets/verify'],
    ['GET', '/server/users?page=0'],
    ['GET', '/openapi.json'],
  ])('has no CORS headers: %s %s', async (method, path) => {
    const asked = { origin: 'https://example.com', 'access-control-request-method': 'GET' };
    const { headers } = await empty.rest(path, { method, headers: asked });
    expect([...headers.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([]);
  });
});
