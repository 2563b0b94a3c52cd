import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { beforeAll, expect, test, vi } from 'vitest';
import { type Credentials, type RunningServer, startServer, useDatabase, userdirJson } from '../support/command.js';
import { openEvents, subscribe } from '../support/events.js';
import { PATIENCE } from '../support/waiting.js';

/** What clients see of a service that gets SIGTERM. */

const database = useDatabase();
let project: Credentials;
beforeAll(async () => {
  project = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
});

const start = (settings: Record<string, string> = {}) =>
  startServer({ ...database.env, DEMO: 'off', REQUEST_TIMEOUT_MS: '60000', ...settings });
const credentials = () => ({ 'service-app-id': project.app_id, 'service-app-secret': project.app_secret });

/** Clients that ask in a loop, each on a connection that is kept, until they are refused. Returns how often each outcome came. */
function startClients(url: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  const outcomes = new Map<string, number>();
  const ask = () =>
    new Promise<string>((resolve) => {
      request(`${url}/server/users/count`, { agent, headers: credentials() }, (response) => {
        response.resume().on('end', () => resolve(String(response.statusCode)));
      })
        .on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
        .end();
    });
  const clients = Array.from({ length: 16 }, async () => {
    for (let outcome = ''; outcome !== 'ECONNREFUSED'; ) {
      outcome = await ask();
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }
  });
  return { outcomes, ended: Promise.all(clients).finally(() => agent.destroy()) };
}

test.each(['0', '500'])(
  'a service that stops resets no request of 16 clients, with SHUTDOWN_DELAY_MS=%s',
  async (delayMs) => {
    const server = await start({ SHUTDOWN_DELAY_MS: delayMs });
    const { outcomes, ended } = startClients(server.url);
    await vi.waitUntil(() => (outcomes.get('200') ?? 0) > 64, PATIENCE);
    expect(await server.stop()).toMatchObject({ code: 0, signal: null });
    await ended;
    expect([...outcomes.keys()].toSorted()).toEqual(['200', 'ECONNREFUSED']);
  },
);

const ASK = () =>
  `GET /server/users/count HTTP/1.1\r\nHost: localhost\r\nservice-app-id: ${project.app_id}\r\n` +
  `service-app-secret: ${project.app_secret}\r\n\r\n`;

/** A connection on which one request has been answered, and all that arrives on it. */
async function openConnection({ url }: RunningServer) {
  const socket = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('utf8');
  const connection = { socket, text: '', answers: () => connection.text.split('HTTP/1.1 200').length - 1 };
  socket.on('data', (chunk: string) => {
    connection.text += chunk;
  });
  socket.write(ASK());
  await vi.waitUntil(() => connection.text.includes('}'), PATIENCE);
  expect(connection.text).toMatch(/^HTTP\/1\.1 200 OK/);
  expect(connection.text).not.toMatch(/connection: close/i);
  connection.text = '';
  return connection;
}

test('a request on a kept connection is answered when the service does not listen any more, and ends the connection; a silent one is ended and not reset', async () => {
  // For a connection on which nothing has arrived it would wait for longer than this.
  const server = await start({ REQUEST_TIMEOUT_MS: '600000' });
  const untouched = connect(Number(new URL(server.url).port), '127.0.0.1').on('error', () => undefined);
  await once(untouched, 'connect');
  const connection = await openConnection(server);
  const { socket: silent } = await openConnection(server);
  const errors: Error[] = [];
  silent.on('error', (error) => errors.push(error));
  const silentEnded = once(silent, 'end');
  // Three at once: the last answer ends the connection.
  const ended = once(connection.socket, 'end');
  server.process.kill('SIGTERM');
  await server.logged('finishing the requests in flight');
  connection.socket.write(ASK().repeat(3));
  await ended;
  expect(connection.answers()).toBe(3);
  expect(connection.text.match(/connection: close/gi)).toHaveLength(1);
  expect(connection.text.indexOf('onnection: close')).toBeGreaterThan(connection.text.lastIndexOf('HTTP/1.1 200'));
  await silentEnded;
  expect(errors).toEqual([]);
  expect(await server.outcome).toMatchObject({ code: 0, signal: null });
  untouched.destroy();
});

test('the same signal again within a second counts as one, later it ends the service at once', async () => {
  const server = await start({ SHUTDOWN_DELAY_MS: '600000' });
  const connection = await openConnection(server);
  for (const _ of [1, 2]) server.process.kill('SIGTERM');
  await server.logged('finishing the requests in flight');
  connection.socket.write(ASK());
  await vi.waitUntil(() => connection.answers() === 1, PATIENCE);
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  expect(await server.stop('SIGTERM')).toMatchObject({ code: 1, signal: null });
});

test('streams, which say when to come again, and an upload that goes on for longer than a request may take, end with the service', async () => {
  const server = await start({ REQUEST_TIMEOUT_MS: '1000' });
  const port = Number(new URL(server.url).port);
  const events = await openEvents(`${server.url}/changes`, { headers: credentials() });
  const subscription = await subscribe(server.url, credentials(), 'subscription { changes { change { id } } }');
  const { url } = await userdirJson(database.env, ['dashboard']);
  const logIn = await fetch(`${server.url}/dashboard/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' },
    body: JSON.stringify({ token: new URL(url).hash.replace('#login=', '') }),
  });
  const upload = connect(port, '127.0.0.1').on('error', () => undefined);
  upload.write(
    `POST /dashboard/projects/${project.app_id}/import HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n` +
      `Cookie: ${logIn.headers.get('set-cookie')?.replace(/;.*/s, '')}\r\nContent-Type: application/x-ndjson\r\n` +
      'Content-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n',
  );
  expect(String(await once(upload, 'data'))).toContain('100 Continue');
  const dripping = setInterval(() => upload.write('\n'), 100);
  expect(await server.stop()).toMatchObject({ code: 0, signal: null });
  clearInterval(dripping);
  upload.destroy();
  const [event] = await events.ended();
  expect([event?.event, JSON.parse(event?.data ?? '')]).toEqual([
    'error',
    { error: expect.stringContaining('Connect again'), code: 'UNAVAILABLE', retry_after: 1 },
  ]);
  const [result, complete] = await subscription.ended();
  expect(JSON.parse(result?.data ?? '').errors[0].extensions).toMatchObject({ code: 'UNAVAILABLE', retryAfter: 1 });
  expect(complete?.event).toBe('complete');
  expect((await server.outcome).stderr).toContain('were broken off');
});
