import type { FastifyInstance } from 'fastify';
import { type Bill, createBill, observe, startObserving } from '../telemetry/request-trace.js';
import type { Tracing } from '../telemetry/tracing.js';

export interface OpenBill extends Bill {
  /** Ends the observation. Twice is as once. */
  close(): void;
}

/** Bills that are open at once. While one is, every request of the service pays for it. */
const BILLS_OF_PROJECT = 10;
const BILLS = 100;

/**
 * Observes the requests that ask what they cost, and with `tracing` those that are traced. The former are answered with
 * `Server-Timing`. A bill is opened for right credentials and once the body is there; beyond so many there is none, and the
 * request is answered as if it had not asked. To be called after whatever makes a request wait before its handler.
 */
export function observeRequests(app: FastifyInstance, tracing: Tracing | null): void {
  if (tracing !== null) {
    const stop = startObserving();
    app.addHook('onClose', () => tracing.close().finally(stop));
    app.addHook('onRequest', (request, reply, done) => {
      const span = tracing.begin(request, reply);
      if (span !== null) request.observation = { bills: [], span };
      observe(request.observation, done);
    });
  }
  const openBill = createBills();
  app.addHook('preValidation', (request, reply, done) => {
    const { headers, scope } = request;
    if (headers['userdir-cost'] === '1' && scope) {
      const bill = openBill(scope.appId);
      if (bill !== null) {
        request.bill = bill;
        request.observation = { bills: [bill], span: request.observation?.span ?? null };
        reply.raw.once('close', bill.close);
      }
    }
    done();
  });
  // Whoever has read the body, or left the turn to this request, was somebody else.
  app.addHook('preHandler', ({ observation }, _reply, done) => observe(observation, done));
  app.addHook('onSend', ({ bill }, reply, _payload, done) => {
    // What was refused before it was a request of Fastify's has none.
    if (bill) {
      reply.header('server-timing', serverTiming(bill, reply.elapsedTime));
      bill.close();
    }
    done();
  });
}

/** Opens a bill of a project, or null where there are as many as there may be. */
function createBills(): (appId: string) => OpenBill | null {
  const ofProjects = new Map<string, number>();
  let all = 0;
  const count = (appId: string, change: 1 | -1) => {
    all += change;
    const ofProject = (ofProjects.get(appId) ?? 0) + change;
    if (ofProject === 0) ofProjects.delete(appId);
    else ofProjects.set(appId, ofProject);
  };
  return (appId) => {
    if (all >= BILLS || (ofProjects.get(appId) ?? 0) >= BILLS_OF_PROJECT) return null;
    count(appId, 1);
    const stop = startObserving();
    let isOpen = true;
    const close = () => {
      if (!isOpen) return;
      isOpen = false;
      count(appId, -1);
      stop();
    };
    return Object.assign(createBill(), { close });
  };
}

function serverTiming({ waitedMs, databaseMs, statements }: Bill, totalMs: number): string {
  const ms = (time: number) => Math.round(time * 100) / 100;
  const described = `${statements} ${statements === 1 ? 'statement' : 'statements'}`;
  return `total;dur=${ms(totalMs)}, wait;dur=${ms(waitedMs)}, db;dur=${ms(databaseMs)};desc="${described}"`;
}
