import { pino } from 'pino';
import { beforeAll, describe, expect, test } from 'vitest';
import { createServer } from '#dist/app/app.js';
import { type TestApp, type TestProject, useTestApp } from '../support/app.js';
import { expectGraphQLRefusal, explained } from '../support/graphql.js';

/** The failure of a whole GraphQL request, whatever has refused it: its media type is the one that the client takes. */

const GRAPHQL = 'application/graphql-response+json';
const JSON_TYPE = 'application/json';

/** What clients send as Accept, and the media type of the answer. */
const ACCEPTED: readonly [accept: string, type: string][] = [
  [GRAPHQL, GRAPHQL],
  [JSON_TYPE, JSON_TYPE],
  ['*/*', JSON_TYPE],
  // Apollo Client, urql, and one that prefers the second.
  [`${GRAPHQL},${JSON_TYPE};q=0.9`, GRAPHQL],
  [`${GRAPHQL}, application/graphql+json, ${JSON_TYPE}, text/event-stream, multipart/mixed`, GRAPHQL],
  [`${JSON_TYPE};q=0.5, ${GRAPHQL}; q=0.8`, GRAPHQL],
  [`${GRAPHQL};q=0, ${JSON_TYPE};q=0.1`, JSON_TYPE],
  ['text/event-stream', JSON_TYPE],
];

interface Sent {
  readonly method?: string;
  readonly search?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

const post = (body: object | string, headers: Record<string, string> = {}): Sent => ({
  method: 'POST',
  headers: { 'content-type': JSON_TYPE, ...headers },
  body: typeof body === 'string' ? body : JSON.stringify(body),
});
const HASH = 'a'.repeat(64);
const persistedQuery = { extensions: { persistedQuery: { version: 1, sha256Hash: HASH } } };

const app = useTestApp();
let project: TestProject;
let disabled: TestProject;
let limited: TestProject;

async function scopeOf({ appId }: TestProject) {
  return app.context.services.projects.getScope(appId);
}

beforeAll(async () => {
  [project, disabled, limited] = [await app.createProject(), await app.createProject(), await app.createProject()];
  const { lifecycle } = app.context.services;
  await lifecycle.disableProject(await scopeOf(disabled));
  await lifecycle.limitProject(await scopeOf(limited), 1);
  await limited.graphql('{ userCount }');
});

async function send({ url }: Pick<TestApp, 'url'>, sent: Sent, accept: string, by = project) {
  const { search = '', headers, ...init } = sent;
  const given = { ...by.credentials, ...headers, accept };
  const response = await fetch(`${url}/graphql${search}`, { ...init, headers: given });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** Requests that are refused, with the code and the status; a second status for answers as application/json. */
const REFUSED: readonly [what: string, sent: () => Sent, code: string, status: number, asJson?: number][] = [
  ['a wrong secret', () => post({ query: '{ userCount }' }, { 'service-app-secret': 'x' }), 'UNAUTHENTICATED', 401],
  ['a disabled project', () => post({ query: '{ userCount }' }, disabled.credentials), 'PROJECT_DISABLED', 403],
  ['the rate limit', () => post({ query: '{ userCount }' }, limited.credentials), 'RATE_LIMITED', 429],
  ['an unknown documentId', () => post({ documentId: HASH }), 'DOCUMENT_NOT_FOUND', 404],
  ['a malformed documentId', () => post({ documentId: 'x' }), 'BAD_USER_INPUT', 400],
  ['an unknown hash', () => post(persistedQuery), 'PERSISTED_QUERY_NOT_FOUND', 404, 200],
  ['another method', () => ({ method: 'PUT' }), 'METHOD_NOT_ALLOWED', 405],
  ['a mutation by GET', () => ({ search: '?query=mutation{deleteUser(id:1){id}}' }), 'METHOD_NOT_ALLOWED', 405],
  [
    'variables with brackets in the URL',
    () => ({ search: '?query=query($id:ID=1){user(id:$id){id}}&variables[id]=5' }),
    'BAD_USER_INPUT',
    400,
  ],
  ['no query in the URL', () => ({ search: '?x=1' }), 'BAD_USER_INPUT', 400],
  ['a large body', () => post(`"${'x'.repeat(300_000)}"`), 'PAYLOAD_TOO_LARGE', 413],
  ['another content type', () => post('x', { 'content-type': 'text/plain' }), 'UNSUPPORTED_MEDIA_TYPE', 415],
  [
    '101 headers',
    () => post('{}', Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`x-${n}`, '1']))),
    'HEADERS_TOO_LARGE',
    431,
  ],
  ['no JSON', () => post('{'), 'BAD_USER_INPUT', 400],
  ['variables that are a list', () => post({ query: '{ userCount }', variables: [] }), 'BAD_USER_INPUT', 400],
  [
    'a variable of another type',
    () => post({ query: 'query ($id: ID!) { user(id: $id) { id } }' }),
    'BAD_USER_INPUT',
    400,
  ],
  ['an unknown operation', () => post({ query: '{ userCount }', operationName: 'X' }), 'BAD_USER_INPUT', 400],
  ['an unknown field', () => post({ query: '{ nope }' }), 'BAD_USER_INPUT', 400, 200],
  ['too high a cost', () => post({ query: `{ ${costly} }` }), 'BAD_USER_INPUT', 400, 200],
];
const costly = Array.from({ length: 100 }, (_, n) => `a${n}: users(first: 100) { nodes { accounts { id } } }`).join(
  ' ',
);

describe.each(ACCEPTED)('with Accept: %s', (accept, type) => {
  test.each(REFUSED)('%s', async (_what, sent, code, status, asJson = status) => {
    const answer = await send(app, sent(), accept);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([
      type === GRAPHQL ? status : asJson,
      `${type}; charset=utf-8`,
    ]);
    expect(expectGraphQLRefusal(answer.text).code).toBe(code);
    const { retryAfter } = JSON.parse(answer.text).errors[0].extensions;
    expect(retryAfter === undefined ? null : String(retryAfter)).toBe(answer.headers.get('retry-after'));
    if (code === 'RATE_LIMITED') expect(retryAfter).toBeGreaterThan(0);
  });

  test('a service that is not open', async () => {
    const context = { ...app.context, isOpen: false };
    const server = await createServer({ config: app.config, log: pino({ level: 'silent' }), context });
    const headers = { ...project.credentials, accept, 'content-type': JSON_TYPE };
    const answer = await server.inject({ method: 'POST', url: '/graphql', headers, payload: '{}' });
    await server.close();
    expect([answer.statusCode, answer.headers['content-type'], answer.headers['retry-after']]).toEqual([
      503,
      `${type}; charset=utf-8`,
      '1',
    ]);
    expect(answer.json().errors[0].extensions).toEqual({ ...explained('UNAVAILABLE'), retryAfter: 1 });
  });
});
