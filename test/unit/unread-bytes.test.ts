import { EventEmitter, once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { FastifyReply } from 'fastify';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createUnreadBytes } from '#dist/http/connections.js';

/** A project may leave five of these answers unread, but not six. */
const ANSWER = 'x'.repeat(6 * 1_048_576);

let unread: ReturnType<typeof createUnreadBytes>;
let server: Server;
beforeEach(async () => {
  unread = createUnreadBytes();
  server = createServer((request, raw) => {
    unread.addAnswer('project', ANSWER, { raw, request: { socket: request.socket } } as unknown as FastifyReply);
    raw.end(ANSWER);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterEach(() => void server.close());

/** Sends `count` requests and reads nothing; returns when the server has answered all of them. */
async function askFor(count: number): Promise<{ client: Socket; accepted: Socket }> {
  let answered = 0;
  const allAnswered = new Promise<void>((resolve) => {
    const listener = () => {
      answered += 1;
      if (answered < count) return;
      server.off('request', listener);
      resolve();
    };
    server.on('request', listener);
  });
  const connected = once(server, 'connection');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1').pause();
  client.on('error', () => undefined);
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(count));
  const [accepted] = await connected;
  await allAnswered;
  return { client, accepted };
}

test('queued answers no longer count when their connection ends', async () => {
  for (const _round of [1, 2, 3]) {
    const { client, accepted } = await askFor(6);
    expect(unread.isFull('project')).toBe(true);
    // once() would reject, because this connection ends with an error.
    const closed = new Promise((resolve) => accepted.once('close', resolve));
    client.destroy();
    await closed;
    expect(unread.isFull('project')).toBe(false);
  }
});

test('answers count until they are read, and do not affect another project', async () => {
  const { client } = await askFor(6);
  expect(unread.isFull('project')).toBe(true);
  expect(unread.isFull('other')).toBe(false);
  client.resume();
  await expect.poll(() => unread.isFull('project')).toBe(false);
  client.destroy();
});

test('an answer on a connection that has ended does not count', async () => {
  const socket = { destroyed: true } as Socket;
  for (let n = 0; n < 6; n += 1)
    unread.addAnswer('project', ANSWER, { request: { socket } } as unknown as FastifyReply);
  expect(unread.isFull('project')).toBe(false);
});

test('a small answer counts only where it waits behind others on its connection', () => {
  const answer = 'x'.repeat(1_024);
  const raw = new EventEmitter();
  const behind = Object.assign(new EventEmitter(), { destroyed: false, _httpMessage: raw });
  for (let n = 0; n < 40_000; n += 1)
    unread.addAnswer('project', answer, { raw, request: { socket: behind } } as unknown as FastifyReply);
  expect(unread.isFull('project')).toBe(false);
  for (let n = 0; n < 40_000; n += 1)
    unread.addAnswer('project', answer, {
      raw: new EventEmitter(),
      request: { socket: behind },
    } as unknown as FastifyReply);
  expect(unread.isFull('project')).toBe(true);
  behind.emit('close');
  expect(unread.isFull('project')).toBe(false);
});
