import http, { type IncomingHttpHeaders } from 'node:http';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import Fastify from 'fastify';
import { beforeAll, describe, expect, test } from 'vitest';
import { compressAnswers } from '#dist/http/compression.js';
import { startTestApp, type TestApp, type TestProject, useTestApp } from '../support/app.js';

/** Answers are compressed where the client asks for it, and stay the same otherwise. */

const app = useTestApp({ env: { COMPRESSION: 'on', GRAPHIQL: 'on' } });
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
  await addUsers(project);
});

function addUsers(to: TestProject): Promise<void> {
  const users = Array.from({ length: 60 }, (_, index) => ({
    auth_method: 'email',
    // Not all of it is ASCII, so that bytes and characters differ.
    auth_value: `ädä.${index}@example.com`,
  }));
  return to.addUsers(...users);
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
}

/** A request without the headers that fetch adds, and an answer that nothing has decompressed. */
function ask(path: string, headers: Record<string, string> = {}, { method = 'GET', body = '', url = app.url } = {}) {
  return new Promise<Answer>((resolve, reject) => {
    const request = http.request(url + path, { method, agent: false, headers: { ...project.credentials, ...headers } });
    request.on('error', reject).on('response', async (response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk);
      resolve({ status: response.statusCode ?? 0, headers: response.headers, bytes: Buffer.concat(chunks) });
    });
    request.end(body);
  });
}

const DECODERS: Record<string, (bytes: Buffer) => Buffer> = { br: brotliDecompressSync, gzip: gunzipSync };
const QUERY = '{ users(first: 60) { nodes { id authValue createdAt } } }';
const post = (query: string) => ({ method: 'POST', body: JSON.stringify({ query }) });
const JSON_BODY = { 'content-type': 'application/json' };

describe.each<[string, string, Record<string, string>, { method?: string; body?: string }]>([
  ['a page of REST', '/server/users?limit=60', {}, {}],
  ['an answer of GraphQL', '/graphql', JSON_BODY, post(QUERY)],
  ['an answer of GraphQL to a URL', `/graphql?query=${encodeURIComponent(QUERY)}`, {}, {}],
  ['a page of changes', '/changes?limit=60', {}, {}],
])('%s', (_, path, headers, init) => {
  test.each([
    ['gzip', 'gzip'],
    ['br', 'br'],
    ['gzip, deflate, br', 'br'],
    ['gzip;q=1, br;q=0.5', 'gzip'],
    ['*', 'br'],
  ])('with Accept-Encoding: %s is sent as %s', async (accepted, encoding) => {
    const plain = await ask(path, headers, init);
    expect([plain.headers['content-encoding'], plain.headers.vary]).toEqual([undefined, 'accept-encoding']);
    const answer = await ask(path, { ...headers, 'accept-encoding': accepted }, init);
    expect(answer.status).toBe(plain.status);
    expect(answer.headers).toMatchObject({
      'content-encoding': encoding,
      'content-length': String(answer.bytes.length),
      'content-type': plain.headers['content-type'],
      vary: 'accept-encoding',
    });
    expect(answer.bytes.length).toBeLessThan(plain.bytes.length / 2);
    expect(DECODERS[encoding]?.(answer.bytes).toString()).toBe(plain.bytes.toString());
  });
});

test.each(['identity', 'deflate', 'zstd', 'gzip;q=0', '', 'nonsense;;q=x', ','.repeat(5_000)])(
  'with Accept-Encoding: %.20s it is sent as it is',
  async (accepted) => {
    const { status, headers, bytes } = await ask('/server/users?limit=60', { 'accept-encoding': accepted });
    expect([status, headers['content-encoding'], headers.vary]).toEqual([200, undefined, 'accept-encoding']);
    expect(JSON.parse(bytes.toString()).result.users).toHaveLength(60);
  },
);

test('the cost of a GraphQL request is part of the compressed answer', async () => {
  const { bytes } = await ask(
    '/graphql',
    { ...JSON_BODY, 'userdir-cost': '1', 'accept-encoding': 'gzip' },
    post(QUERY),
  );
  expect(JSON.parse(gunzipSync(bytes).toString())).toMatchObject({ data: {}, extensions: { cost: { limit: 10_000 } } });
});

test('an answer of at most 1 KiB is not compressed', async () => {
  for (const path of ['/server/users?limit=1', '/server/users?limit=1000', '/server/users/count']) {
    const { headers } = await ask(path, { 'accept-encoding': 'gzip' });
    expect([headers['content-encoding'], headers.vary]).toEqual([undefined, undefined]);
  }
});

test('HEAD has the headers of GET, and no body', async () => {
  const get = await ask('/server/users?limit=60', { 'accept-encoding': 'gzip' });
  const head = await ask('/server/users?limit=60', { 'accept-encoding': 'gzip' }, { method: 'HEAD' });
  const shown = ({ status, headers }: Answer) => [status, headers['content-length'], headers['content-encoding']];
  expect([head.bytes.length, shown(head)]).toEqual([0, shown(get)]);
});

test('pages and documents without credentials are not compressed', async () => {
  for (const path of ['/docs/try', '/openapi.json', '/graphql']) {
    const { status, headers } = await ask(path, { accept: 'text/html', 'accept-encoding': 'gzip, br' });
    expect([path, status, headers['content-encoding']]).toEqual([path, 200, undefined]);
  }
});

test('a stream is not compressed', async () => {
  const headers = { ...project.credentials, accept: 'text/event-stream', 'accept-encoding': 'gzip, br' };
  const answered = await new Promise<IncomingHttpHeaders>((resolve, reject) => {
    const request = http.get(`${app.url}/changes`, { agent: false, headers });
    request.on('error', reject).on('response', (response) => {
      resolve(response.headers);
      response.destroy();
    });
  });
  expect([answered['content-type'], answered['content-encoding']]).toEqual([
    'text/event-stream; charset=utf-8',
    undefined,
  ]);
});

describe('clients on this machine', () => {
  const encodingOf = async (by: TestApp) => {
    const { headers } = await ask('/server/users?limit=60', { 'accept-encoding': 'gzip' }, { url: by.url });
    return headers['content-encoding'];
  };

  test.each([['remote'], ['off']])('get no compressed answers with COMPRESSION=%s', async (COMPRESSION) => {
    await using other = await startTestApp({ env: { COMPRESSION } });
    expect(await encodingOf(other)).toBeUndefined();
  });

  test.each([
    ['203.0.113.7', 'gzip'],
    ['::ffff:203.0.113.7', 'gzip'],
    ['2001:db8::1', 'gzip'],
    ['127.0.0.1', undefined],
    ['127.9.9.9', undefined],
    ['::ffff:127.0.0.1', undefined],
    ['::1', undefined],
  ])('are told apart by the address of their connection: %s', async (remoteAddress, encoding) => {
    const server = Fastify();
    server.decorateRequest('scope');
    server.addHook('onRequest', async (request) => {
      request.scope = {} as typeof request.scope;
    });
    const { onRoute } = compressAnswers('remote');
    if (onRoute !== undefined) server.addHook('onRoute', onRoute);
    server.get('/', async () => ({ text: 'x'.repeat(2_000) }));
    const headers = { 'accept-encoding': 'gzip', 'x-forwarded-for': '203.0.113.9' };
    const answer = await server.inject({ url: '/', remoteAddress, headers });
    expect(answer.headers['content-encoding']).toBe(encoding);
  });
});
