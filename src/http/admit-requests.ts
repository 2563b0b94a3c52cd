import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type AppError, unavailable } from '../errors.js';
import { startStep, currentTrace, type RequestTrace, runInTrace } from '../telemetry/request-trace.js';
import type { Admission, QueuedRequest } from './admission.js';
import { notRead, type UnreadBytes } from './unread-bytes.js';

/**
 * Runs work of `weight` units (default 1) when the project's queue lets it start. More than may be in flight counts as that, so that it can
 * start at all. `addWeight` adds what turns out to be needed. Throws UNAVAILABLE if the queue is full.
 */
export type RunWithAdmission = <Result>(
  project: string,
  work: (addWeight: (units: number) => void) => Promise<Result>,
  weight?: number,
) => Promise<Result>;

/**
 * Makes every authenticated request wait for admission before its handler, and releases it when it is answered.
 * Returns a function that does the same for other work. Call it before the routes are registered.
 */
export function admitRequests(app: FastifyInstance, admission: Admission, unread: UnreadBytes): RunWithAdmission {
  const refuse = createRefusals();

  app.decorateRequest('addWeight', function addWeight(units) {
    if (this.queued !== null) admission.addWeight(this.queued, units);
    return !this.hasTimedOut && !this.socket.destroyed;
  });
  app.addHook('preHandler', (request, reply, done) => {
    const { scope, routeOptions } = request;
    if (!scope) return done();
    if (unread.isFull(scope.appId)) return done(notRead());
    admit(request, reply, routeOptions.config.weight?.(request) ?? 1, done);
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    if (request.queued !== null) admission.release(request.queued);
    if (request.scope) unread.addAnswer(request.scope.appId, payload, reply);
    done();
  });
  // The database closes next. Work for a client that has gone may still use a connection, so this waits for it.
  app.addHook('onClose', () => admission.idle());

  function admit(request: FastifyRequest, reply: FastifyReply, weight: number, done: (error?: Error) => void): void {
    const queued: QueuedRequest = { project: request.scope.appId, weight, start, state: 'new' };
    // Set before it starts: a handler may be done at once.
    request.queued = queued;
    submit(queued, request.trace, done);

    function start(): void {
      // The client has gone, or the request has timed out and is answered.
      if (request.socket.destroyed || reply.sent) {
        admission.release(queued);
        request.measuredCost?.close();
        return;
      }
      const begun = request.routeOptions.config.begin?.(request);
      if (begun === undefined) done();
      else begun.then(() => done(), done);
    }
  }

  function submit(queued: QueuedRequest, trace: RequestTrace | null, done: (error: Error) => void): void {
    if (!admission.submit(queued)) refuse(queued.project, done);
    else if (trace && queued.state === 'queued') queued.onDequeued = startStep(trace, { kind: 'queue' }).end;
  }

  return (project, work, weight = 1) => {
    const trace = currentTrace() ?? null;
    return new Promise((resolve, reject) => {
      const start = () =>
        void runInTrace(trace, () => work((units) => admission.addWeight(queued, units)))
          .finally(() => admission.release(queued))
          .then(resolve, reject);
      const queued: QueuedRequest = { project, weight: Math.min(weight, admission.budget), start, state: 'new' };
      submit(queued, trace, reject);
    });
  };
}

/** How many requests of a project are refused without delay in a second. */
const IMMEDIATE_REFUSALS = 50;
const REFUSAL_DELAY_MS = 1_000;

/**
 * Refuses a request at once or, if its project has had many refusals, after a delay. A client that retries without a
 * pause would otherwise be refused thousands of times a second, which takes time from other projects.
 */
function createRefusals(): (project: string, done: (error: Error) => void) => void {
  let since = 0;
  let counts = new Map<string, number>();
  return (project, done) => {
    const now = performance.now();
    if (now - since > REFUSAL_DELAY_MS) {
      since = now;
      counts = new Map();
    }
    const count = (counts.get(project) ?? 0) + 1;
    counts.set(project, count);
    if (count <= IMMEDIATE_REFUSALS) done(overloaded());
    else setTimeout(() => done(overloaded()), REFUSAL_DELAY_MS);
  };
}

function overloaded(): AppError {
  return unavailable('The service is overloaded: the queue is full.');
}
