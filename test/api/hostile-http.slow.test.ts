import { connect, type Socket } from 'node:net';
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { TIMEOUTS as DEFAULTS } from '#dist/app/app.js';
import { type TestApp, type TestProject, useTestApp } from '../support/app.js';
import { PATIENCE } from '../support/waiting.js';

/** Malicious connections: slow ones, and ones that smuggle a request behind another. Tests write bytes to a socket. */

const TIMEOUTS = { ...DEFAULTS, headersMs: 400, stalledMs: 400, checkMs: 50 };
const REQUEST_TIMEOUT_MS = 600;
/** The maximum time a connection may stay open: the sum of the timeouts, and time for a busy machine. */
const BOUND_MS = 60_000;

const app = useTestApp({
  timeouts: TIMEOUTS,
  env: { REQUEST_TIMEOUT_MS: String(REQUEST_TIMEOUT_MS), KEEP_ALIVE_SECONDS: '1' },
});
let project: TestProject;
let credentials: string;
let victim: number;
beforeAll(async () => {
  project = await app.createProject();
  credentials = Object.entries(project.credentials)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('');
  await project.addUsers(
    ...Array.from({ length: 100 }, (_, index) => ({
      auth_method: 'passkey',
      auth_value: `${index} ${'x'.repeat(1_000)}`,
    })),
  );
  // A busy machine may need more than REQUEST_TIMEOUT_MS for an answer.
  victim = await vi.waitFor(
    async () => (await project.rest('/server/users?limit=1')).body.result.users[0].id,
    PATIENCE,
  );
});
// After every test, the server still answers, and no smuggled DELETE has removed the user.
afterEach(async () => {
  await vi.waitFor(
    async () => expect((await project.rest(`/server/users/${victim}`)).body.result.id).toBe(victim),
    PATIENCE,
  );
});

const head = (line: string, ...headers: string[]) =>
  `${line} HTTP/1.1\r\nHost: userdir\r\n${credentials}${headers.map((header) => `${header}\r\n`).join('')}`;
const count = () => `${head('GET /server/users/count')}\r\n`;

interface Conversation {
  readonly socket: Socket;
  /** Everything that was received, once the connection has ended. */
  readonly received: Promise<string>;
  /** How long the connection stayed open, in milliseconds. */
  readonly lasted: Promise<number>;
}

/** Writes any bytes to a new connection, which stays open until the server ends it or the time is over. */
function converse(...parts: string[]): Conversation {
  return converseWith(app, ...parts);
}

function converseWith({ url }: TestApp, ...parts: string[]): Conversation {
  const { hostname, port } = new URL(url);
  const beganAt = performance.now();
  const socket = connect(Number(port), hostname, () => {
    for (const part of parts) socket.write(part, 'latin1');
  });
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk;
  });
  socket.on('error', () => undefined);
  const timer = setTimeout(() => socket.destroy(), BOUND_MS);
  const closed = ended(socket).then(() => clearTimeout(timer));
  return { socket, received: closed.then(() => text), lasted: closed.then(() => performance.now() - beganAt) };
}

/** Resolves when the connection ends, also with an error. */
function ended(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()));
}

/** Status and body of each answer, in order. */
function answersIn(text: string): { status: number; body: { message?: string; error?: string } }[] {
  return text
    .split(/(?=HTTP\/1\.1 \d{3} )/)
    .filter((part) => part !== '')
    .map((part) => ({
      status: Number(part.slice(9, 12)),
      body: JSON.parse(part.slice(part.indexOf('\r\n\r\n') + 4) || '{}'),
    }));
}

describe('a connection ends in bounded time', () => {
  /** Sends single bytes, more slowly than the timeouts allow, until the connection is closed. */
  function drip({ socket }: Conversation): void {
    const timer = setInterval(() => socket.write('a'), 100);
    socket.once('close', () => clearInterval(timer));
  }

  test.each<[string, () => string, boolean, number[]]>([
    ['that sends nothing', () => '', false, [408]],
    ['that stops in the request line', () => 'GET /serv', false, [408]],
    ['that stops in the headers', () => head('GET /server/users/count'), false, [408]],
    ['whose headers come byte by byte', () => `${head('GET /server/users/count')}X-Slow: `, true, [408]],
    ['whose second request stops', () => `${count()}GET /ser`, false, [200, 408]],
    [
      'whose body never comes',
      () => `${head('POST /server/wallets/verify', 'Content-Type: application/json', 'Content-Length: 10')}\r\n`,
      false,
      [408],
    ],
    [
      'whose body comes byte by byte',
      () => `${head('POST /graphql', 'Content-Type: application/json', 'Content-Length: 100000')}\r\n`,
      true,
      [408],
    ],
    [
      'whose chunks come byte by byte',
      () =>
        `${head('POST /server/wallets/verify', 'Content-Type: application/json', 'Transfer-Encoding: chunked')}\r\nfffff\r\n`,
      true,
      [408],
    ],
    [
      'whose last chunk never comes',
      () =>
        `${head('POST /server/wallets/verify', 'Content-Type: application/json', 'Transfer-Encoding: chunked')}\r\n2\r\n{}\r\n`,
      false,
      [408],
    ],
    ['that says nothing after its answer', count, false, [200]],
  ])('%s', async (_what, bytes, dripping, statuses) => {
    const conversation = converse(bytes());
    if (dripping) drip(conversation);
    expect(await conversation.lasted).toBeLessThan(BOUND_MS - 1_000);
    expect(answersIn(await conversation.received).map(({ status }) => status)).toEqual(statuses);
  });

  test('that asks for many pages and reads none of them', async () => {
    const { hostname, port } = new URL(app.url);
    const socket = connect(Number(port), hostname).on('error', () => undefined);
    socket.pause();
    const page = `${head('GET /server/users?limit=100')}\r\n`;
    socket.write(page.repeat(200));
    const beganAt = performance.now();
    // A socket that does not read notices the end only when a write fails.
    const timer = setInterval(() => socket.write(page), 100);
    await Promise.race([ended(socket), new Promise((resolve) => setTimeout(resolve, BOUND_MS))]);
    clearInterval(timer);
    socket.destroy();
    expect(performance.now() - beganAt).toBeLessThan(BOUND_MS - 1_000);
  });
});

test('a connection that reads its answer too slowly is closed', async () => {
  const { hostname, port } = new URL(app.url);
  const socket = connect(Number(port), hostname).on('error', () => undefined);
  // With this listener the socket does not flow: the timer below does all reads.
  socket.on('readable', () => undefined);
  const aliases = Array.from({ length: 60 }, (_, index) => `a${index}: authValue`).join(' ');
  const query = encodeURIComponent(`{ users(first: 100) { nodes { ${aliases} } } }`);
  const request = `${head(`GET /graphql?query=${query}`)}\r\n`;
  socket.write(request.repeat(4));
  let read = 0;
  const beganAt = performance.now();
  // Fast enough for the server to see constant progress, but too slow to read 6 MB in a second.
  const reading = setInterval(() => {
    read += socket.read(16_384)?.length ?? 0;
  }, 5);
  // Without writes, the socket would notice the end only after it has read all buffered data.
  const writing = setInterval(() => socket.write(request), 100);
  await Promise.race([ended(socket), new Promise((resolve) => setTimeout(resolve, BOUND_MS))]);
  clearInterval(reading);
  clearInterval(writing);
  expect(socket.destroyed).toBe(true);
  expect(performance.now() - beganAt).toBeLessThan(BOUND_MS - 1_000);
  expect(read).toBeGreaterThan(16_384);
});

describe('requests that are sent together on one connection', () => {
  // On a busy machine, two hundred requests take longer than the request timeout of the other server.
  const patient = useTestApp();
  const get = (path: string) => `${head(`GET ${path}`)}\r\n`;

  test('are answered in order, no matter how long each takes', async () => {
    const paths = [
      '/server/users?limit=100',
      '/livez',
      '/server/nothing',
      '/server/users?page=0',
      `/server/users/${victim}`,
    ];
    const { received } = converse(
      paths.map(get).join(''),
      `${head('GET /server/users/count', 'Connection: close')}\r\n`,
    );
    const answers = answersIn(await received);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 404, 400, 200, 200]);
    expect([answers[0]?.body.message, answers[4]?.body.message, answers[5]?.body.message]).toEqual([
      'Users listed.',
      'User found.',
      'Users counted.',
    ]);
  });

  test('are answered in order when there are two hundred of them', async () => {
    const many = Array.from({ length: 200 }, (_, index) => get(`/server/users?limit=1&page=${index + 1}`));
    const { received } = converseWith(patient, many.join(''), `${head('GET /livez', 'Connection: close')}\r\n`);
    const pages = answersIn(await received).map(({ body }) => (body as { result?: { page: number } }).result?.page);
    expect(pages).toEqual([...many.map((_, index) => index + 1), undefined]);
  });

  test('are answered before bytes behind them that are not HTTP are refused', async () => {
    for (const rubbish of ['RUBBISH\r\n\r\n', 'GET / HTTP/9.9\r\n\r\n', '\x16\x03\x01\x02\x00\x01']) {
      const { received } = converse(
        get('/server/users?limit=100') + get('/server/users/count') + rubbish,
        'more of it',
      );
      const answers = answersIn(await received);
      expect(answers.map(({ status, body }) => [status, body.message ?? body.error])).toEqual([
        [200, 'Users listed.'],
        [200, 'Users counted.'],
        [400, 'The request is not valid HTTP.'],
      ]);
    }
  });

  test('are not answered after a request with Connection: close, which is answered itself', async () => {
    const { received } = converse(`${head('GET /server/users/count', 'Connection: close')}\r\n${count()}`);
    expect(answersIn(await received).map(({ status }) => status)).toEqual([200]);
  });
});

describe('one request hidden behind another is never answered', () => {
  const post = (...headers: string[]) =>
    head('POST /server/wallets/verify', 'Content-Type: application/json', ...headers);
  const CHUNKED = 'Transfer-Encoding: chunked';

  test.each<[string, () => string]>([
    ['a length and chunks', () => `${post('Content-Length: 5', CHUNKED)}\r\n0\r\n\r\n`],
    ['chunks and a length', () => `${post(CHUNKED, 'Content-Length: 5')}\r\n0\r\n\r\n`],
    ['two different lengths', () => `${post('Content-Length: 2', 'Content-Length: 0')}\r\n{}`],
    ['the same length twice', () => `${post('Content-Length: 2', 'Content-Length: 2')}\r\n{}`],
    ['a list of lengths', () => `${post('Content-Length: 2, 2')}\r\n{}`],
    ['a length with a sign', () => `${post('Content-Length: +2')}\r\n{}`],
    ['a length in hexadecimal', () => `${post('Content-Length: 0x2')}\r\n{}`],
    ['an empty length', () => `${post('Content-Length:')}\r\n`],
    ['a length with a space in it', () => `${post('Content-Length: 0 2')}\r\n`],
    ['a length in full-width digits', () => `${post('Content-Length: \xef\xbc\x92')}\r\n{}`],
    ['a length beyond 64 bits', () => `${post('Content-Length: 18446744073709551616')}\r\n`],
    ['a space before the colon of a length', () => `${post('Content-Length : 0')}\r\n`],
    ['a space before the colon of a coding', () => `${post('Transfer-Encoding : chunked')}\r\n0\r\n\r\n`],
    ['a tab before the colon of a coding', () => `${post('Transfer-Encoding\t: chunked')}\r\n0\r\n\r\n`],
    ['an unknown coding', () => `${post('Transfer-Encoding: xchunked')}\r\n0\r\n\r\n`],
    ['another coding after chunks', () => `${post('Transfer-Encoding: chunked, identity')}\r\n0\r\n\r\n`],
    ['chunks twice', () => `${post(CHUNKED, CHUNKED)}\r\n0\r\n\r\n`],
    ['chunks twice in a list', () => `${post('Transfer-Encoding: chunked, chunked')}\r\n0\r\n\r\n`],
    ['chunks in quotes', () => `${post('Transfer-Encoding: "chunked"')}\r\n0\r\n\r\n`],
    ['a vertical tab before chunks', () => `${post('Transfer-Encoding: \x0bchunked')}\r\n0\r\n\r\n`],
    ['a folded coding', () => `${post('Transfer-Encoding:', ' chunked')}\r\n0\r\n\r\n`],
    ['a folded header', () => `${post('X-A: a', '\tContent-Length: 0')}\r\n`],
    ['a bare carriage return', () => `${post('X-A: a\rContent-Length: 0')}\r\n`],
    ['a bare line feed between headers', () => `${post('X-A: a\nContent-Length: 0')}\r\n`],
    ['bare line feeds after the headers', () => `${post(CHUNKED).slice(0, -2)}\n\n0\r\n\r\n`],
    [
      'a space before the first header',
      () => `POST /server/wallets/verify HTTP/1.1\r\n X-A: a\r\n${post().split('\r\n').slice(1).join('\r\n')}\r\n`,
    ],
    ['a chunk size in words', () => `${post(CHUNKED)}\r\nzero\r\n\r\n`],
    ['a chunk size with 0x', () => `${post(CHUNKED)}\r\n0x0\r\n\r\n`],
    ['a negative chunk size', () => `${post(CHUNKED)}\r\n-1\r\n\r\n`],
    ['a chunk size beyond 64 bits', () => `${post(CHUNKED)}\r\nfffffffffffffffff\r\n\r\n`],
    ['a chunk size with a space', () => `${post(CHUNKED)}\r\n0 \r\n\r\n`],
    ['a chunk longer than it says', () => `${post(CHUNKED)}\r\n1\r\n{}\r\n0\r\n\r\n`],
    ['a chunk that ends in a line feed', () => `${post(CHUNKED)}\r\n2\r\n{}\n0\r\n\r\n`],
    ['chunk sizes that end in line feeds', () => `${post(CHUNKED)}\r\n0\n\n`],
    ['a line feed in a chunk extension', () => `${post(CHUNKED)}\r\n0;a\nb\r\n\r\n`],
    ['an endless chunk extension', () => `${post(CHUNKED)}\r\n0;${'a'.repeat(20_000)}\r\n\r\n`],
    ['a length after the last chunk', () => `${post(CHUNKED)}\r\n0\r\nContent-Length: 9\r\n\r\n`],
    ['chunks in HTTP/1.0', () => `${post(CHUNKED).replace('1.1', '1.0')}\r\n0\r\n\r\n`],
    ['the preface of HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['too many headers', () => `${head('GET /livez', ...Array(101).fill('X-A: a'), 'Connection: close')}\r\n`],
    ['a body that is longer than it says', () => `${post('Content-Length: 1')}\r\n{}`],
  ])('%s', async (_what, first) => {
    for (const behind of [count(), `${head(`DELETE /server/users/${victim}`)}\r\n`]) {
      const { received } = converse(first() + behind);
      const answers = answersIn(await received);
      // One answer to the request and one to the rest of the bytes, or one answer to both.
      expect(answers.length === 1 || answers.length === 2).toBe(true);
      expect(answers.map(({ status }) => status).filter((status) => ![400, 413, 431].includes(status))).toEqual([]);
      expect(answers.at(-1)?.body.error).toEqual(expect.any(String));
    }
  });

  test.each(['identity, chunked', 'gzip, chunked', 'chunked;q=1'])(
    'the transfer coding %s is refused, because a proxy may not know it',
    async (coding) => {
      const bytes = `${post(`Transfer-Encoding: ${coding}`, 'Connection: close')}\r\n0\r\n\r\n${count()}`;
      const answers = answersIn(await converse(bytes).received);
      expect(answers.map(({ status }) => status)).toEqual([400]);
    },
  );

  test('a Content-Length that covers the next request makes it a body, for GET too', async () => {
    for (const line of ['GET /server/users/count', 'POST /server/wallets/verify']) {
      const { received } = converse(
        `${head(line, `Content-Length: ${count().length}`, 'Connection: close')}\r\n${count()}`,
      );
      expect(answersIn(await received)).toHaveLength(1);
    }
  });

  test.each([
    ['GET /server/users/count', 'Connection: Upgrade', 'Upgrade: h2c'],
    ['GET /server/users/count', 'Connection: keep-alive, upgrade', 'Upgrade: websocket', 'Upgrade: h2c'],
    ['GET /server/users/count', 'connection: UPGRADE', 'uPgrade: TLS/1.3', 'Content-Length: 0'],
  ])('requests that are sent together with an Upgrade header are answered: %s, %s', async (line, ...offer) => {
    const upgrade = `${head(line, ...offer)}\r\n`;
    const { received } = converse(
      count() + upgrade + count() + upgrade + upgrade + count(),
      `${head('GET /server/nothing', 'Connection: close')}\r\n`,
    );
    expect(answersIn(await received).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200, 404]);
  });

  test('the body of a request with an Upgrade header is read as its body', async () => {
    const body = JSON.stringify({ address: `0x${'0'.repeat(40)}` });
    const offer = ['Content-Type: application/json', 'Connection: Upgrade', 'Upgrade: h2c'];
    const withLength = `${head('POST /server/wallets/verify', `Content-Length: ${body.length}`, ...offer)}\r\n${body}`;
    const inChunks = `${head('POST /server/wallets/verify', 'Transfer-Encoding: chunked', ...offer)}\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    const { received } = converse(
      withLength + inChunks + count(),
      `${head('GET /server/nothing', 'Connection: close')}\r\n`,
    );
    expect(answersIn(await received).map(({ status, body }) => [status, body.message])).toEqual([
      [200, 'Wallet verified.'],
      [200, 'Wallet verified.'],
      [200, 'Users counted.'],
      [404, undefined],
    ]);
  });

  test('a request with an Upgrade header is under the same limits as any other', async () => {
    const offer = ['Connection: Upgrade', 'Upgrade: h2c'];
    const many = `${head('GET /server/users/count', ...offer, ...Array(2_100).fill('X: a'))}\r\n`;
    expect(answersIn(await converse(many, count()).received).map(({ status }) => status)).toEqual([431]);
    const broken = `${head('POST /server/wallets/verify', ...offer, 'Content-Length: 100')}\r\n{`;
    expect(answersIn(await converse(broken).received).map(({ status }) => status)).toEqual([408]);
    const garbage = `${head('GET /server/users/count', ...offer)}\r\nRUBBISH\r\n\r\n`;
    expect(answersIn(await converse(garbage).received).map(({ status }) => status)).toEqual([200, 400]);
  });
});

test('100 headers are accepted and 101 are refused', async () => {
  const withHeaders = (count: number) => {
    const fixed = head('GET /server/users/count', 'Connection: close');
    const more = Array(count - (fixed.split('\r\n').length - 2)).fill('X-A: a\r\n');
    return converse(`${fixed}${more.join('')}\r\n`).received.then(answersIn);
  };
  expect((await withHeaders(100)).map(({ status }) => status)).toEqual([200]);
  expect(await withHeaders(101)).toEqual([{ status: 431, body: { error: 'headers: got 101, expected at most 100.' } }]);
});
