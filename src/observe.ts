import type { FastifyInstance } from 'fastify';
import { type Bill, createBill, type Observation, observe, startObserving } from './observation.js';
import type { Tracing } from './tracing.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** There for a request whose cost or trace somebody wants. */
    observation: Observation | null;
    /** What its caller asked for with `Userdir-Cost: 1`. */
    bill: Bill | null;
  }
}

/**
 * Observes the requests that ask what they cost, and with `tracing` those that are traced. The former are answered with
 * `Server-Timing`. To be called after whatever makes a request wait before its handler.
 */
export function observeRequests(app: FastifyInstance, tracing: Tracing | null): void {
  app.decorateRequest('observation', null);
  app.decorateRequest('bill', null);
  if (tracing !== null) {
    const stop = startObserving();
    app.addHook('onClose', () => tracing.close().finally(stop));
  }
  app.addHook('onRequest', (request, reply, done) => {
    const bill = request.headers['userdir-cost'] === '1' ? createBill() : null;
    const span = tracing?.begin(request, reply) ?? null;
    if (bill !== null || span !== null) {
      request.bill = bill;
      request.observation = { bills: bill === null ? [] : [bill], span };
      reply.raw.once('close', startObserving());
    }
    observe(request.observation, done);
  });
  // Whoever has read the body, or left the turn to this request, was somebody else.
  app.addHook('preHandler', ({ observation }, _reply, done) => observe(observation, done));
  app.addHook('onSend', ({ bill }, reply, _payload, done) => {
    // What was refused before it was a request of Fastify's has none.
    if (bill) reply.header('server-timing', serverTiming(bill, reply.elapsedTime));
    done();
  });
}

function serverTiming({ waitedMs, databaseMs, statements }: Bill, totalMs: number): string {
  const ms = (time: number) => Math.round(time * 100) / 100;
  const described = `${statements} ${statements === 1 ? 'statement' : 'statements'}`;
  return `total;dur=${ms(totalMs)}, wait;dur=${ms(waitedMs)}, db;dur=${ms(databaseMs)};desc="${described}"`;
}
