import type { FastifyInstance, FastifyReply } from 'fastify';
import { AppError } from './errors.js';

/** How late a late request may be noticed, as a part of the time it has. */
const SWEEPS = 20;

/**
 * No request stays without an answer for longer than `timeoutMs` (and a twentieth more): what waits for the database is answered with
 * INTERNAL_SERVER_ERROR, a body that does not arrive with REQUEST_TIMEOUT. What the request has begun goes on, within the
 * limits of the database.
 *
 * One sweep over all requests rather than Fastify's `handlerTimeout`, whose timer, signal and listeners cost every request
 * several microseconds.
 */
export function addDeadline(app: FastifyInstance, timeoutMs: number): void {
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

  const timer = setInterval(sweep, timeoutMs / SWEEPS).unref();
  app.addHook('onClose', (_app, done) => {
    clearInterval(timer);
    done();
  });
}
