import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import Fastify, { type FastifyInstance } from 'fastify';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { AppError } from '#dist/errors.js';
import { admitRequests, createAdmission } from '#dist/http/admission.js';
import { createUnreadBytes } from '#dist/http/connections.js';
import { createLifetimes, createPlaces, type Lifetime, type Places } from '#dist/http/lifetime.js';
import { PATIENCE } from '../support/waiting.js';

/** A server with one route whose answer outlives its request. */

const MEBIBYTE = 2 ** 20;
const ADMISSION = { maxInFlight: 16, maxInFlightPerProject: 8, maxQueued: 32 };

let app: FastifyInstance;
let unread: ReturnType<typeof createUnreadBytes>;
let admission: ReturnType<typeof createAdmission>;
let places: Places;
let permit: () => Promise<unknown>;
let work: (life: Lifetime<unknown>) => Promise<void>;
let begun: Lifetime<unknown>[];
let reasons: unknown[];
/** What the handler waits for before it begins. */
let before: Promise<unknown>;
let sockets: Socket[];

beforeEach(async () => {
  [begun, reasons, sockets] = [[], [], []];
  before = Promise.resolve();
  permit = async () => 'permitted';
  work = ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
  app = Fastify();
  unread = createUnreadBytes();
  admission = createAdmission(ADMISSION);
  places = createPlaces({ perHolder: 100, inAll: 100 }, () => new AppError('RATE_LIMITED', 'Too many.'));
  const lifetimes = createLifetimes(app, admitRequests(app, admission, unread).runWithAdmission, unread);
  app.get('/', async (request, reply) => {
    await before;
    const terms = {
      tenant: 'project',
      places,
      holder: 'project',
      permission: 'p',
      permit: () => permit(),
      endsAtClose: true,
    };
    const body = lifetimes.begin(request, reply, terms, async (life) => {
      begun.push(life);
      life.signal.addEventListener('abort', () => reasons.push(life.signal.reason));
      await work(life);
    });
    return reply.send(body);
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await app.close();
});

/** Sends a request on a connection of its own, and reads nothing. */
async function ask(): Promise<Socket> {
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1').pause();
  socket.on('error', () => undefined);
  sockets.push(socket);
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  return socket;
}

const untilBegun = (count = 1) => vi.waitUntil(() => begun.length === count, PATIENCE);

describe('a client that goes', () => {
  test('before the work begins gives its place back, and the work never begins', async () => {
    let proceed = () => {};
    before = new Promise<void>((resolve) => {
      proceed = resolve;
    });
    const accepted = once(app.server, 'connection') as Promise<[Socket]>;
    const arrived = once(app.server, 'request');
    const client = await ask();
    const [[socket]] = await Promise.all([accepted, arrived]);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    client.destroy();
    await closed;
    const take = vi.spyOn(places, 'take');
    proceed();
    await vi.waitUntil(() => take.mock.calls.length === 1 && places.count() === 0, PATIENCE);
    expect(begun).toEqual([]);
  });

  test('keeps its place until the work has ended', async () => {
    let end = () => {};
    work = () =>
      new Promise((resolve) => {
        end = resolve;
      });
    const client = await ask();
    await untilBegun();
    client.destroy();
    await vi.waitUntil(() => begun[0]?.isGone(), PATIENCE);
    expect(places.count()).toBe(1);
    end();
    await vi.waitUntil(() => places.count() === 0, PATIENCE);
  });

  test('ends a work whose answer is queued behind another on its connection', async () => {
    const client = await ask();
    client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await untilBegun(2);
    client.destroy();
    await vi.waitUntil(() => begun.every((life) => life.isGone()), PATIENCE);
    await vi.waitUntil(() => places.count() === 0, PATIENCE);
  });
});

test('a client that does not read is sent no more than it has room for, and counts with its project until it goes', async () => {
  const written: number[] = [];
  work = async ({ write, signal }) => {
    const index = written.push(0) - 1;
    while (!signal.aborted) {
      await write(Buffer.alloc(MEBIBYTE));
      written[index] = (written[index] as number) + 1;
    }
  };
  for (let n = 0; n < 40; n += 1) await ask();
  await vi.waitUntil(() => unread.isFull('project'), PATIENCE);
  expect(unread.isFull('other')).toBe(false);
  // Each holds the one piece that does not fit into the buffers of the operating system.
  expect(Math.max(...written)).toBeLessThan(30);
  await expect(begun[0]?.admit(async () => 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  for (const socket of sockets) socket.destroy();
  await vi.waitUntil(() => !unread.isFull('project') && places.count() === 0, PATIENCE);
});

describe('permission', () => {
  test('is read again at each piece of work', async () => {
    await ask();
    await untilBegun();
    const [life] = begun as [Lifetime<unknown>];
    permit = async () => 'first';
    expect(await life.admit(async (now) => now)).toBe('first');
    permit = async () => {
      throw new AppError('FORBIDDEN', 'It is gone.');
    };
    let hasRun = false;
    const refused = life.admit(async () => {
      hasRun = true;
    });
    await expect(refused).rejects.toMatchObject({ code: 'FORBIDDEN' });
    expect(hasRun).toBe(false);
  });

  test('that is gone ends what nothing happens to, and a database that is away does not', async () => {
    await ask();
    await untilBegun();
    let asked = 0;
    permit = async () => {
      asked += 1;
      throw new AppError('UNAVAILABLE', 'It is away.');
    };
    await vi.waitUntil(() => asked > 1, PATIENCE);
    expect(begun[0]?.signal.aborted).toBe(false);
    permit = async () => {
      throw new AppError('UNAUTHENTICATED', 'It is gone.');
    };
    await vi.waitUntil(() => reasons.length === 1, PATIENCE);
    expect(reasons[0]).toMatchObject({ code: 'UNAUTHENTICATED' });
    await vi.waitUntil(() => places.count() === 0, PATIENCE);
  });
});

test('each piece of work has its own weight, and never more than can start', async () => {
  await ask();
  await untilBegun();
  const [life] = begun as [Lifetime<unknown>];
  const seen = (weight: number, more = 0) =>
    life.admit(async (_permit, addWeight) => {
      addWeight(more);
      return admission.load.inFlight;
    }, weight);
  expect(await seen(3)).toBe(3);
  expect(await seen(3, 4)).toBe(7);
  expect(await seen(1_000)).toBe(ADMISSION.maxInFlight);
  expect(admission.load.inFlight).toBe(0);
});

test('places are limited by holder and in all, and are given back', () => {
  const few = createPlaces({ perHolder: 1, inAll: 2 }, (isOwn) => new AppError('UNAVAILABLE', String(isOwn)));
  const leave = few.take('a');
  expect(() => few.take('a')).toThrow('true');
  few.take('b');
  expect(() => few.take('c')).toThrow('false');
  leave();
  few.take('c');
  expect(few.count()).toBe(2);
});
