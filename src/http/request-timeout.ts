import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { AppError } from '../errors.js';
import { currentAnswer } from './malformed-requests.js';

/** In milliseconds. */
export interface Deadlines {
  /** Until a request has its answer. */
  readonly timeoutMs: number;
  /** Until an answer that was made is read. */
  readonly unreadMs: number;
}

/** How late a late request may be noticed, as a part of the time it has. */
const SWEEPS = 20;

/**
 * No request stays without an answer for longer than `timeoutMs` (and a twentieth more): what waits for the database is answered with
 * INTERNAL_SERVER_ERROR, a body that does not arrive with REQUEST_TIMEOUT. What the request has begun goes on, within the
 * limits of the database. An answer that is not read as a whole within `unreadMs` ends its connection, also where its caller reads
 * a byte now and then and so is never idle.
 *
 * One sweep over all requests rather than Fastify's `handlerTimeout`, whose timer, signal and listeners cost every request
 * several microseconds.
 */
export function addDeadline(app: FastifyInstance, { timeoutMs, unreadMs }: Deadlines): void {
  const sweepMs = timeoutMs / SWEEPS;
  // What a sweep sees for the first time has been there for up to as long as there is between two.
  const endUnread = watchUnread(app, unreadMs - 2 * sweepMs);
  /** When each arrived; in that order, so a sweep ends at the first that has time left. */
  const underWay = new Map<FastifyReply, number>();
  app.addHook('onRequest', (_request, reply, done) => {
    underWay.set(reply, performance.now());
    done();
  });
  app.addHook('onSend', (_request, reply, _payload, done) => {
    underWay.delete(reply);
    done();
  });

  function sweep(): void {
    endUnread();
    const latest = performance.now() - timeoutMs;
    for (const [reply, arrivedAt] of underWay) {
      if (arrivedAt > latest) return;
      underWay.delete(reply);
      if (reply.request.socket.destroyed) continue;
      // The connection of one who is still sending cannot be used again.
      if (!reply.request.raw.complete) reply.header('connection', 'close');
      reply.send(
        reply.request.raw.complete
          ? unanswered()
          : new AppError('REQUEST_TIMEOUT', 'The request did not arrive in time.'),
      );
      // Whatever the handler comes to say now is too late.
      reply.hijack();
    }
  }

  function unanswered(): AppError {
    const cause = new Error(`It was not answered within ${timeoutMs} ms.`);
    return new AppError('INTERNAL_SERVER_ERROR', cause.message, { cause });
  }

  const timer = setInterval(sweep, sweepMs).unref();
  app.addHook('onClose', (_app, done) => {
    clearInterval(timer);
    done();
  });
}

interface Unread {
  answer: ServerResponse;
  since: number;
}

/** Ends the connections on which one answer has been waiting to be read for longer than `longestMs`, each time it is called. */
function watchUnread(app: FastifyInstance, longestMs: number): () => void {
  // Connections and not answers, which are many more and nearly always read at once.
  const connections = new Map<Socket, Unread | null>();
  app.server.on('connection', (socket) => {
    connections.set(socket, null);
    socket.once('close', () => connections.delete(socket));
  });
  return () => {
    const now = performance.now();
    for (const [socket, unread] of connections) {
      const answer = currentAnswer(socket);
      // Behind one that waits the others wait as well.
      if (!answer?.writableEnded) {
        if (unread !== null) connections.set(socket, null);
      } else if (unread?.answer !== answer) connections.set(socket, { answer, since: now });
      else if (now - unread.since > longestMs) socket.destroy();
    }
  };
}
