import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { LARGEST_ANSWER_BYTES } from '../domain/input-limits.js';
import { AppError, UNKNOWN_OUTCOME, unavailable, withdrawn } from '../errors.js';
import type { Hooks } from './pipeline.js';

/** Private properties of Node's connection. */
interface PrivateState {
  readonly _httpMessage?: ServerResponse | null;
  readonly parser?: { readonly incoming: IncomingMessage | null } | null;
}

/** The answer that is being sent on a connection. */
export function currentAnswer(socket: Socket): ServerResponse | null {
  return (socket as PrivateState)._httpMessage ?? null;
}

/** True if another request has arrived on its connection behind a request. */
export function hasNewerRequest(request: IncomingMessage): boolean {
  const newest = (request.socket as PrivateState).parser?.incoming ?? request;
  return newest !== request;
}

/** A client may take so long to close its side of a connection that has ended. */
const LINGER_MS = 1_000;

/** Ends a connection, and reads until the client ends it too: closed with something unread, it would be reset, and the last answer might be lost. */
export function endGently(socket: Socket): void {
  socket.end();
  const force = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(force));
}

/** A connection that is silent for so long ends while the server closes. Until then its client may be about to send a request. */
const GRACE_MS = 1_000;
const CHECK_MS = 20;
/** After the longest request, its answer may take so long to be read. */
const READ_MS = 1_000;
/** The server stops listening when no connection has come for so long, and at the latest when it has looked for it so often. */
const QUIET_MS = 20;
const LOOKS = 25;

/** How the server closes. */
export interface OrderlyClose {
  readonly hooks: Hooks;
  /** True while the server drains or closes. */
  isClosing(): boolean;
}

/**
 * Lets the server close in order. While it drains it accepts connections, but each that it had before ends with its next answer.
 * When it closes, it stops listening, and each connection ends with its next answer, or when it was silent for long.
 * Work that is still open after the longest request, such as an upload, is broken off.
 */
export function closeInOrder(app: FastifyInstance, requestTimeoutMs: number): OrderlyClose {
  const connections = new Set<Socket>();
  let accepted = 0;
  /** The connections from before the server drains; null until then. */
  let old: Set<Socket> | null = null;
  let stopped: Promise<void> | null = null;
  /** Requests that wait until no process of the service listens; null where none has to. */
  let held: (() => void)[] | null = null;
  let isClosing = false;
  // Node calls it when the server stops listening. Clients may be about to send a request on such connections.
  app.server.closeIdleConnections = () => undefined;
  app.server.on('connection', (socket) => {
    accepted += 1;
    connections.add(socket);
    // Node calls this after an answer with `Connection: close`.
    socket.destroySoon = () => endGently(socket);
    socket.once('close', () => {
      connections.delete(socket);
      old?.delete(socket);
    });
  });
  const hooks: Hooks = {
    onRequest({ raw }, _reply, done) {
      // It has arrived behind the last answer, and could not be answered.
      if (raw.socket.writableEnded) return;
      if (held === null) done();
      else held.push(done);
    },
    onSend({ raw }, reply, _payload, done) {
      if (isClosing || old?.has(raw.socket)) {
        // The answers to requests that came behind it would be lost.
        if (hasNewerRequest(raw)) reply.raw.removeHeader('connection');
        else reply.header('connection', 'close');
      }
      done();
    },
  };
  app.decorate('drain', () => {
    old ??= new Set(connections);
  });
  app.decorate('stopListening', () => {
    stopped ??= stopListening();
    return stopped;
  });
  app.addHook('preClose', async () => {
    await app.stopListening();
    isClosing = true;
    for (const resume of held ?? []) resume();
    held = null;
    void endConnections();
  });

  /** Accepts all waiting connections before the listener closes, which would reset them. No answer ends a connection meanwhile: its client would connect again. */
  async function stopListening(): Promise<void> {
    if (!app.server.listening) return;
    held = [];
    for (let looks = 0, before = -1; looks < LOOKS && before !== accepted; looks += 1) {
      before = accepted;
      await sleep(QUIET_MS);
      // Timers come before new connections in a turn of the event loop.
      await nextTurn();
    }
    app.server.close();
  }

  async function endConnections(): Promise<void> {
    const startedAt = performance.now();
    const readings = new Map<Socket, { readonly bytesRead: number; readonly since: number }>();
    while (connections.size > 0) {
      const now = performance.now();
      if (now - startedAt > GRACE_MS + requestTimeoutMs + READ_MS) breakOff();
      for (const socket of connections) {
        const { bytesRead, writable } = socket;
        const before = readings.get(socket);
        if (currentAnswer(socket) !== null || before?.bytesRead !== bytesRead)
          readings.set(socket, { bytesRead, since: now });
        else if (now - before.since > GRACE_MS && writable) endGently(socket);
      }
      await sleep(CHECK_MS);
    }
  }

  function breakOff(): void {
    app.log.warn(
      `${connections.size} connections were in use for longer than a request may take, and were broken off.`,
    );
    for (const socket of connections) socket.destroy();
  }

  return { hooks, isClosing: () => old !== null || stopped !== null };
}

/** A smaller answer fits into the buffers of the operating system, unless it waits behind others on its connection. */
const SMALL_ANSWER = 65_536;
const MAX_UNREAD_BYTES = 4 * LARGEST_ANSWER_BYTES;

/** Counts for each holder, and for all together. */
export interface Counts {
  /** What a holder has. */
  of(holder: string): number;
  /** What all have together. */
  all(): number;
  /** Adds until the returned function is called. */
  add(holder: string, amount: number): () => void;
}

export function createCounts(): Counts {
  const counts = new Map<string, number>();
  let all = 0;
  const of = (holder: string) => counts.get(holder) ?? 0;
  return {
    of,
    all: () => all,
    add(holder, amount) {
      counts.set(holder, of(holder) + amount);
      all += amount;
      return () => {
        const left = of(holder) - amount;
        if (left > 0) counts.set(holder, left);
        else counts.delete(holder);
        all -= amount;
      };
    },
  };
}

/** Counts, by project, what waits in memory until its clients read it: answers, and pieces of what goes on (lifetime.ts). */
export interface UnreadBytes extends Pick<Counts, 'add'> {
  /** True if the project leaves too much unread. */
  isFull(project: string): boolean;
  /** Counts an answer until it is read. The characters of a text are taken for its bytes. */
  addAnswer(project: string, payload: unknown, reply: FastifyReply): void;
}

export function createUnreadBytes(): UnreadBytes {
  const { of, add } = createCounts();
  return {
    add,
    isFull: (project) => of(project) > MAX_UNREAD_BYTES,
    addAnswer(project, payload, { raw, request }) {
      if (typeof payload !== 'string' && !Buffer.isBuffer(payload)) return;
      if (request.socket.destroyed) return;
      if (payload.length < SMALL_ANSWER && currentAnswer(request.socket) === raw) return;
      const remove = add(project, payload.length);
      const forget = onConnectionEnd(request.socket, release);
      raw.once('close', release);

      function release(): void {
        raw.off('close', release);
        forget();
        remove();
      }
    },
  };
}

/** UNAVAILABLE for a project that leaves too much unread. */
export function notRead(): AppError {
  return unavailable('Earlier answers to this project have not been read. Read them before you send more requests.');
}

/** True while a request waits for its answer: its client has not gone, and its time is not over. */
export function isAwaited({ hasTimedOut, socket }: FastifyRequest): boolean {
  return !hasTimedOut && !socket.destroyed;
}

const callbacks = new WeakMap<Socket, Set<() => void>>();

/** Calls back when a connection ends or has ended; returns a function that forgets it. Node does not notify answers that are queued. */
export function onConnectionEnd(socket: Socket, callback: () => void): () => void {
  if (socket.destroyed) {
    callback();
    return () => undefined;
  }
  const listeners = callbacks.get(socket);
  const ofSocket = listeners ?? new Set<() => void>();
  ofSocket.add(callback);
  if (listeners === undefined) {
    callbacks.set(socket, ofSocket);
    socket.once('close', () => {
      for (const callBack of [...ofSocket]) callBack();
    });
  }
  return () => ofSocket.delete(callback);
}

/** In milliseconds. */
export interface TimeLimits {
  /** Until a request has its answer. */
  readonly timeoutMs: number;
  /** Until an answer that was made is read. */
  readonly unreadMs: number;
}

/** Requests are checked this many times within the timeout. */
const CHECKS = 20;

/**
 * Answers every request within `timeoutMs` (and at most a twentieth more): one that waits with UNAVAILABLE, one without its body with
 * REQUEST_TIMEOUT. Work that has started goes on, within the limits of the database; writes end before (`until`). A connection whose answer is not
 * read as a whole within `unreadMs` is ended. One timer checks all requests: Fastify's `handlerTimeout` costs microseconds for each.
 */
export function limitRequestTime(app: FastifyInstance, { timeoutMs, unreadMs }: TimeLimits): Hooks {
  const intervalMs = timeoutMs / CHECKS;
  // An answer may be unread for almost one interval when a check sees it for the first time.
  const endUnread = watchUnread(app, unreadMs - 2 * intervalMs);
  const open = createOpenRequests();
  function check(): void {
    endUnread();
    const late = open.arrivedBefore(performance.now() - timeoutMs);
    // A command has no time limit.
    const overdue = late
      .filter(({ request }) => request.until !== Number.POSITIVE_INFINITY)
      .map((reply) => {
        // All before the first answer, with which another request may leave the queue.
        reply.request.hasTimedOut = true;
        return { reply, failure: failureOf(reply.request) };
      });
    for (const { reply, failure } of overdue) {
      const { request } = reply;
      open.remove(request);
      if (request.socket.destroyed) continue;
      // A connection whose client is still sending cannot be used again.
      if (!request.raw.complete) reply.header('connection', 'close');
      reply.send(failure);
      // The handler's own answer would come too late.
      reply.hijack();
    }
  }

  function failureOf({ raw, queued, routeOptions }: FastifyRequest): AppError {
    if (!raw.complete) return new AppError('REQUEST_TIMEOUT', 'The request did not arrive in time.');
    // Only the dashboard does something before admission has the request.
    const hasBegun = queued === null ? routeOptions.url?.startsWith('/dashboard') : queued.state !== 'queued';
    if (!hasBegun) return withdrawn();
    const words = `The request was not answered within ${timeoutMs} ms.`;
    return unavailable(`${words} ${UNKNOWN_OUTCOME}`, new Error(words));
  }

  const timer = setInterval(check, intervalMs).unref();
  app.addHook('onClose', async () => clearInterval(timer));
  return {
    onRequest(request, reply, done) {
      // Two checks earlier, so that on a busy machine, too, the answer says what became of the write.
      request.until = performance.now() + timeoutMs - 2 * intervalMs;
      open.add(reply);
      done();
    },
    onSend(request, _reply, _payload, done) {
      open.remove(request);
      done();
    },
  };
}

/** A request that is not, or no longer, among the open ones. */
export const NO_SLOT = -1;

/** The open requests, in slots that are used again. A Map that V8 has rehashed would keep every request alive until the next full collection. */
interface OpenRequests {
  add(reply: FastifyReply): void;
  remove(request: FastifyRequest): void;
  /** Those that came before an instant by `performance.now()`. */
  arrivedBefore(instant: number): FastifyReply[];
}

function createOpenRequests(): OpenRequests {
  const replies: (FastifyReply | null)[] = [];
  const arrivals: number[] = [];
  const free: number[] = [];
  return {
    add(reply) {
      const slot = free.pop() ?? replies.length;
      replies[slot] = reply;
      arrivals[slot] = performance.now();
      reply.request.timeoutSlot = slot;
    },
    remove(request) {
      const { timeoutSlot: slot = NO_SLOT } = request;
      // A request that Fastify has refused before its hooks was never added.
      if (slot === NO_SLOT) return;
      replies[slot] = null;
      free.push(slot);
      request.timeoutSlot = NO_SLOT;
    },
    arrivedBefore(instant) {
      return replies.filter(
        (reply, slot): reply is FastifyReply => reply !== null && (arrivals[slot] as number) < instant,
      );
    },
  };
}

/** Returns a function that ends the connections whose current answer has been unread for longer than `longestMs`. */
function watchUnread(app: FastifyInstance, longestMs: number): () => void {
  // Watches connections and not answers: there are fewer of them, and answers are nearly always read at once.
  const connections = new Map<Socket, { readonly answer: ServerResponse; readonly since: number } | null>();
  app.server.on('connection', (socket) => {
    connections.set(socket, null);
    socket.once('close', () => connections.delete(socket));
  });
  return () => {
    const now = performance.now();
    for (const [socket, unread] of connections) {
      const answer = currentAnswer(socket);
      // The current answer stands for the ones that are queued behind it.
      if (!answer?.writableEnded) {
        if (unread !== null) connections.set(socket, null);
      } else if (unread?.answer !== answer) connections.set(socket, { answer, since: now });
      else if (now - unread.since > longestMs) socket.destroy();
    }
  };
}
