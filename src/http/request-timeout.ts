import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../errors.js';
import { currentAnswer } from './connections.js';

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
 * Answers every request within `timeoutMs` (and at most a twentieth more). A request that waits for the database is answered with
 * INTERNAL_SERVER_ERROR, one whose body does not arrive with REQUEST_TIMEOUT. Work that has started goes on, within the limits of
 * the database. A connection whose answer is not read as a whole within `unreadMs` is ended, even where the client reads a byte
 * now and then.
 *
 * One timer checks all requests. Fastify's `handlerTimeout` would cost several microseconds for each request: a timer, a signal
 * and listeners.
 */
export function limitRequestTime(app: FastifyInstance, { timeoutMs, unreadMs }: TimeLimits): void {
  const intervalMs = timeoutMs / CHECKS;
  // An answer may be unread for almost one interval when a check sees it for the first time.
  const endUnread = watchUnread(app, unreadMs - 2 * intervalMs);
  const open = createOpenRequests();
  app.addHook('onRequest', (_request, reply, done) => {
    open.add(reply);
    done();
  });
  app.addHook('onSend', (request, _reply, _payload, done) => {
    open.remove(request);
    done();
  });

  function check(): void {
    endUnread();
    for (const reply of open.arrivedBefore(performance.now() - timeoutMs)) {
      open.remove(reply.request);
      reply.request.hasTimedOut = true;
      if (reply.request.socket.destroyed) continue;
      // A connection whose client is still sending cannot be used again.
      if (!reply.request.raw.complete) reply.header('connection', 'close');
      reply.send(
        reply.request.raw.complete
          ? unanswered()
          : new AppError('REQUEST_TIMEOUT', 'The request did not arrive in time.'),
      );
      // The handler's own answer would come too late.
      reply.hijack();
    }
  }

  function unanswered(): AppError {
    const cause = new Error(`It was not answered within ${timeoutMs} ms.`);
    return new AppError('INTERNAL_SERVER_ERROR', cause.message, { cause });
  }

  const timer = setInterval(check, intervalMs).unref();
  app.addHook('onClose', (_app, done) => {
    clearInterval(timer);
    done();
  });
}

/** A request that is not, or no longer, among the open ones. */
export const NO_SLOT = -1;

/**
 * The open requests, in slots that are used again. Not a Map: when V8 rehashes a Map that has become old, its dead table keeps the
 * entries alive until the next full collection, and every request with it.
 */
function createOpenRequests() {
  const replies: (FastifyReply | null)[] = [];
  const arrivals: number[] = [];
  const free: number[] = [];
  return {
    add(reply: FastifyReply): void {
      const slot = free.pop() ?? replies.length;
      replies[slot] = reply;
      arrivals[slot] = performance.now();
      reply.request.timeoutSlot = slot;
    },
    remove(request: FastifyRequest): void {
      const { timeoutSlot: slot = NO_SLOT } = request;
      // A request that Fastify has refused before its hooks was never added.
      if (slot === NO_SLOT) return;
      replies[slot] = null;
      free.push(slot);
      request.timeoutSlot = NO_SLOT;
    },
    arrivedBefore(instant: number): FastifyReply[] {
      return replies.filter(
        (reply, slot): reply is FastifyReply => reply !== null && (arrivals[slot] as number) < instant,
      );
    },
  };
}

interface Unread {
  answer: ServerResponse;
  since: number;
}

/** Returns a function that ends the connections whose current answer has been unread for longer than `longestMs`. */
function watchUnread(app: FastifyInstance, longestMs: number): () => void {
  // Watches connections and not answers: there are fewer of them, and answers are nearly always read at once.
  const connections = new Map<Socket, Unread | null>();
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
