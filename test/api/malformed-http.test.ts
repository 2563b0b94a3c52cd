import { connect } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { type TestProject, useTestApp } from '../support/app.js';
import { expectError, sendRaw } from '../support/rest.js';

/** Requests that no HTTP client would send, as raw bytes over a socket: a JSON answer, then the connection ends. */

const app = useTestApp();
let project: TestProject;
let credentials: string;
beforeAll(async () => {
  project = await app.createProject();
  credentials = lines(...Object.entries(project.credentials).map(([name, value]) => `${name}: ${value}`));
});

function lines(...all: string[]): string {
  return all.map((line) => `${line}\r\n`).join('');
}

/** A request with credentials whose connection ends after it. */
function request(line: string, headers: string[] = [], body = ''): Buffer {
  const head = lines(line, 'Host: userdir', 'Connection: close') + credentials + lines(...headers, '');
  return Buffer.from(head + body, 'latin1');
}

const withoutCredentials = (bytes: Buffer) => Buffer.from(bytes.toString('latin1').replace(credentials, ''), 'latin1');

describe('invalid HTTP is refused before authentication, the same with and without credentials', () => {
  const LONG = 'a'.repeat(17_000);
  const cases: [string, number, () => Buffer][] = [
    ['a bad request line', 400, () => request('HELLO')],
    ['an unknown method', 400, () => request('BREW /server/users HTTP/1.1')],
    ['a method in lower case', 400, () => request('get /server/users HTTP/1.1')],
    ['an unknown version', 400, () => request('GET /server/users HTTP/3.7')],
    ['HTTP/1.2', 400, () => request('GET /server/users HTTP/1.2')],
    ['HTTP/2.0', 400, () => request('GET /server/users HTTP/2.0')],
    ['no version', 400, () => request('GET /server/users')],
    ['two Hosts', 400, () => request('GET /server/users HTTP/1.1', ['Host: elsewhere'])],
    ['the same Host twice', 400, () => request('GET /server/users HTTP/1.1', ['hOST: userdir'])],
    [
      'two Authorization headers',
      400,
      () => request('GET /server/users HTTP/1.1', ['Authorization: Basic YTpi', 'authorization: Basic YTpi']),
    ],
    ['no version word', 400, () => request('GET /server/users FTP/1.1')],
    ['a space in the path', 400, () => request('GET /server/users/a b HTTP/1.1')],
    ['raw bytes above ASCII in the path', 400, () => request('GET /server/users/\xff\xfe HTTP/1.1')],
    ['a raw NUL in the path', 400, () => request('GET /server/users/\0 HTTP/1.1')],
    ['a TLS handshake', 400, () => Buffer.from('\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 'latin1')],
    ['line feeds alone', 400, () => Buffer.from('GET /server/users HTTP/1.1\nHost: a\n\n')],
    ['a raw NUL in a header', 400, () => request('GET /server/users HTTP/1.1', ['X-A: a\0b'])],
    ['a space in the name of a header', 400, () => request('GET /server/users HTTP/1.1', ['X A: a'])],
    ['a header without a name', 400, () => request('GET /server/users HTTP/1.1', [': a'])],
    ['headers over 16 KiB', 431, () => request('GET /server/users HTTP/1.1', [`X-A: ${LONG}`])],
    ['many headers over 16 KiB', 431, () => request('GET /server/users HTTP/1.1', Array(9_000).fill('X-A: a'))],
    ['a URL over 16 KiB', 431, () => request(`GET /server/users?x=${LONG} HTTP/1.1`)],
    ['an App Secret over 16 KiB', 431, () => request('GET /server/users HTTP/1.1', [`service-app-secret: ${LONG}`])],
    ['CONNECT', 400, () => request('CONNECT /server/users HTTP/1.1')],
    ['a port above 65535 in the URL', 400, () => request('GET http://userdir:99999/server/users HTTP/1.1')],
    ['CONNECT to another machine', 400, () => request('CONNECT example.com:443 HTTP/1.1')],
  ];
  test.each(cases)('%s: %d', async (_what, status, bytes) => {
    for (const sent of [bytes(), withoutCredentials(bytes())]) {
      const answer = await sendRaw(app.url, sent);
      expectError(answer, status);
      expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
    }
  });

  test('a request without a Host header is 400', async () => {
    const bytes = request('GET /server/users HTTP/1.1').toString().replace('Host: userdir\r\n', '');
    expect(expectError(await sendRaw(app.url, bytes), 400)).toBe('The header host is missing.');
  });
});

describe('valid HTTP is authenticated first', () => {
  const cases: [string, number, () => Buffer][] = [
    ['PROPFIND', 405, () => request('PROPFIND /server/users HTTP/1.1')],
    ['TRACE', 405, () => request('TRACE /server/users HTTP/1.1')],
    ['PURGE', 405, () => request('PURGE /server/users HTTP/1.1')],
    ['OPTIONS', 405, () => request('OPTIONS /server/wallets/verify HTTP/1.1')],
    ['OPTIONS of nothing', 404, () => request('OPTIONS /server/nothing HTTP/1.1')],
    ['a dot segment that no client resolved', 404, () => request('GET /server/users/../users HTTP/1.1')],
    ['a slash too many', 404, () => request('GET /server//users HTTP/1.1')],
    ['malformed percent-encoding', 400, () => request('GET /server/users/%FF HTTP/1.1')],
    ['a fragment in the URL', 400, () => request('GET /server/users?page=1#&limit=0 HTTP/1.1')],
    ['a fragment in the URL of a document', 400, () => request('GET /graphql?query={userCount}#&variables=1 HTTP/1.1')],
    ['no content type', 400, () => request('POST /server/wallets/verify HTTP/1.1', ['Content-Length: 2'], '{}')],
    [
      'an empty content type',
      400,
      () => request('POST /server/wallets/verify HTTP/1.1', ['Content-Type:', 'Content-Length: 2'], '{}'),
    ],
    [
      'the first of two content types',
      400,
      () =>
        request(
          'POST /server/wallets/verify HTTP/1.1',
          ['Content-Type: text/plain', 'Content-Type: application/json', 'Content-Length: 2'],
          '{}',
        ),
    ],
    [
      'the last of two content types',
      400,
      () =>
        request(
          'POST /server/wallets/verify HTTP/1.1',
          ['Content-Type: application/json', 'Content-Type: text/plain', 'Content-Length: 2'],
          '{}',
        ),
    ],
    [
      'two idempotency keys',
      400,
      () => request('DELETE /server/users/1 HTTP/1.1', ['Idempotency-Key: a', 'Idempotency-Key: a']),
    ],
    [
      'an unknown expectation',
      400,
      () =>
        request(
          'POST /server/wallets/verify HTTP/1.1',
          ['Expect: wonders', 'Content-Type: application/json', 'Content-Length: 2'],
          '{}',
        ),
    ],
  ];
  test.each(cases)('%s: %d, and 401 without credentials', async (_what, status, bytes) => {
    // REST and GraphQL each have their own form of error.
    const [right, anonymous] = [await sendRaw(app.url, bytes()), await sendRaw(app.url, withoutCredentials(bytes()))];
    if (right.body.errors !== undefined) {
      expect([right.status, anonymous.status]).toEqual([status, 401]);
      return;
    }
    expectError(right, status);
    expectError(anonymous, 401);
  });

  test.each(['userdir/graphql', 'somebody@userdir', 'userdir?a', 'userdir#a', 'userdir\\a', '['])(
    'a Host header that contains more than a host and port is 400: %s',
    async (host) => {
      for (const line of ['GET /server/users/count HTTP/1.1', 'GET /graphql?query={userCount} HTTP/1.1']) {
        const bytes = request(line).toString('latin1').replace('Host: userdir', `Host: ${host}`);
        expect(JSON.stringify((await sendRaw(app.url, bytes)).body)).toContain('The Host header is malformed.');
      }
    },
  );

  test('too many bytes of headers are 431, and the error says how many there may be', async () => {
    const long = 'a'.repeat(17_000);
    for (const bytes of [request(`GET /server/users?x=${long} HTTP/1.1`), request('GET / HTTP/1.1', [`X-A: ${long}`])])
      expect((await sendRaw(app.url, bytes)).body.error).toBe(
        'headers: got more, expected at most 16384 bytes together with the request line, and at most 100 headers.',
      );
  });

  test('HEAD gets the same answer as GET, without a body', async () => {
    const statuses = ['/server/users', '/server/users?page=0', '/server/nothing', '/server/wallets/verify'].map(
      async (path) => {
        const { status, headers, body } = await sendRaw(app.url, request(`HEAD ${path} HTTP/1.1`));
        expect([headers['content-type'], body]).toEqual(['application/json; charset=utf-8', undefined]);
        return status;
      },
    );
    expect(await Promise.all(statuses)).toEqual([200, 400, 404, 405]);
    const anonymous = await sendRaw(app.url, withoutCredentials(request('HEAD /server/users HTTP/1.1')));
    expect([anonymous.status, anonymous.body]).toEqual([401, undefined]);
  });

  test.each(['service-app-id', 'service-app-secret'])('a credential that is sent twice is 401: %s', async (name) => {
    const twice = `${name}: ${project.credentials[name]}`;
    expectError(await sendRaw(app.url, request('GET /server/users HTTP/1.1', [twice])), 401);
  });

  test('a request for the path * is 404', async () => {
    expectError(await sendRaw(app.url, request('POST * HTTP/1.1')), 404);
  });

  test.each([
    ['of HAProxy', 'OPTIONS / HTTP/1.0\r\n\r\n'],
    ['of the whole server', 'OPTIONS * HTTP/1.0\r\n\r\n'],
    ['with a name', 'OPTIONS * HTTP/1.1\r\nHost: userdir\r\nConnection: close\r\n\r\n'],
  ])('a check by OPTIONS is 204 without credentials: %s', async (_whose, bytes) => {
    const { status, body, headers } = await sendRaw(app.url, bytes);
    expect([status, body, headers['allow']]).toEqual([204, undefined, 'GET, HEAD, OPTIONS']);
  });

  test('the error for another HTTP version names the accepted versions, and the connection ends', async () => {
    const bytes = lines('GET /livez HTTP/2.0', 'Host: userdir', '') + lines('GET /livez HTTP/1.1', 'Host: userdir', '');
    const answer = await sendRaw(app.url, bytes);
    expect(expectError(answer, 400)).toBe('The request is in HTTP/2.0, expected HTTP/1.1 or HTTP/1.0.');
    expect(answer.headers['connection']).toBe('close');
  });

  test('a credential with bytes above ASCII is refused as wrong', async () => {
    const bytes = withoutCredentials(
      request('GET /server/users HTTP/1.1', ['service-app-id: \xff', 'service-app-secret: \xfe']),
    );
    expectError(await sendRaw(app.url, bytes), 401);
  });

  test('an absolute URL and HTTP/1.0 are answered', async () => {
    const absolute = await sendRaw(app.url, request('GET http://userdir/server/users/count HTTP/1.1'));
    expect([absolute.status, absolute.body.result]).toEqual([200, { total_user: 0 }]);
    const old = await sendRaw(app.url, request('GET /server/users/count HTTP/1.0'));
    expect([old.status, old.body.result]).toEqual([200, { total_user: 0 }]);
  });
});

test('a client that disconnects in the middle of a request does not affect the server', async () => {
  const whole = request(
    'POST /server/wallets/verify HTTP/1.1',
    ['Content-Type: application/json', 'Content-Length: 90'],
    '{"address":',
  );
  const cuts = [1, 20, whole.length - 15, whole.length];
  await Promise.all(
    [...cuts.map((cut) => whole.subarray(0, cut)), request('CONNECT a:1 HTTP/1.1')].map(
      (bytes) =>
        new Promise<void>((resolve) => {
          const { hostname, port } = new URL(app.url);
          const socket = connect(Number(port), hostname, () => socket.write(bytes, () => socket.resetAndDestroy()));
          socket.on('close', () => resolve()).on('error', () => undefined);
        }),
    ),
  );
  expect((await project.rest('/server/users/count')).status).toBe(200);
});
