import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyBaseLogger, FastifyInstance, FastifyRequest } from 'fastify';
import { redact } from '../errors.js';
import type { Logger } from '../telemetry/logger.js';
import { createRequestCost, enableTraces, type RequestCost, runInTrace } from '../telemetry/request-trace.js';
import type { Tracing } from '../telemetry/tracing.js';
import { createCounts } from './connections.js';
import type { Hooks } from './pipeline.js';

/** The operation of a GraphQL request, as the log, the metrics and the cost report name it. */
export interface LoggedOperation {
  readonly type: string;
  /** Null where it has no name, or a name that must not be logged. */
  readonly name: string | null;
  readonly cost: number;
}

const LOGGABLE_REQUEST_ID = /^[\w.:/+=-]{1,128}$/;

/** The ID of a request: its own, unless that might contain a secret, an email or an address, because it is logged. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const id = headers['x-request-id'];
  const isLoggable = typeof id === 'string' && LOGGABLE_REQUEST_ID.test(id) && redact(id) === id;
  return isLoggable ? id : randomUUID();
}

/** A logger that is its own child: children cost more than most requests, so lines have the request ID. Fastify checks each child of a `childLoggerFactory`. */
export function withoutChildren(log: Logger): FastifyBaseLogger {
  const shared: FastifyBaseLogger = Object.create(log);
  shared.child = () => shared;
  // Fastify writes one line of this level, that it listens. `serve` does, when it knows that the database can be used.
  shared.info = () => undefined;
  return shared;
}

/** The IDs that connect the log lines of one request. */
export function logIds({ id, trace }: FastifyRequest) {
  return { reqId: id, trace: trace?.span?.traceId };
}

/** Logs one line for each request. No line has a URL, a body or a header: these hold personal data and credentials. */
export function logRequests(log: Logger): Hooks {
  if (!log.isLevelEnabled('info')) return {};
  // No field of the line can hold a secret, and looking for one would take longer than the rest of the line.
  const lines = log.child({}, { redact: [] });
  return {
    onResponse(request, reply, done) {
      lines.info({
        ...logIds(request),
        method: request.method,
        route: request.routeOptions.url ?? 'none',
        operation: request.operation?.name ?? undefined,
        status: reply.statusCode,
        code: request.failure ?? undefined,
        ...request.refusal,
        ms: Math.round(reply.elapsedTime * 10) / 10,
        project: request.scope?.appId,
      });
      done();
    },
  };
}

/** The cost of a request that is being measured. */
export interface MeasuredCost extends RequestCost {
  /** Stops the measurement. A second call does nothing. */
  close(): void;
}

/** Requests that may be measured at once. While one is, every request of the service is slower. */
const MAX_PER_PROJECT = 10;
const MAX_IN_ALL = 100;

/** Traces requests for the operator, and measures authenticated ones with `Userdir-Cost: 1`, within the limits, for `Server-Timing`. */
export function traceRequests(app: FastifyInstance, tracing: Tracing | null): Hooks {
  const measure = createMeasurements();
  const hooks: Hooks = {
    preValidation(request, _reply, done) {
      const { headers, scope } = request;
      if (headers['userdir-cost'] === '1' && scope) {
        const cost = measure(scope.appId);
        if (cost !== null) {
          request.measuredCost = cost;
          request.trace = { costs: [cost], span: request.trace?.span ?? null };
        }
      }
      done();
    },
    // This may run in the trace of another request, which read this body or released this request from the queue.
    preHandler: ({ trace }, _reply, done) => runInTrace(trace, done),
    onSend({ measuredCost }, reply, _payload, done) {
      // Undefined for a request that Fastify has refused before it was decorated.
      if (measuredCost) {
        reply.header('server-timing', serverTiming(measuredCost, reply.elapsedTime));
        measuredCost.close();
      }
      done();
    },
  };
  if (tracing === null) return hooks;
  const disable = enableTraces();
  app.addHook('onClose', () => tracing.close().finally(disable));
  return {
    ...hooks,
    onRequest(request, reply, done) {
      const span = tracing.begin(request, reply);
      if (span !== null) request.trace = { costs: [], span };
      runInTrace(request.trace, done);
    },
  };
}

/** Returns a function that starts to measure a request of a project; null beyond the limits. */
function createMeasurements(): (appId: string) => MeasuredCost | null {
  const measured = createCounts();
  return (appId) => {
    if (measured.all() >= MAX_IN_ALL || measured.of(appId) >= MAX_PER_PROJECT) return null;
    const uncount = measured.add(appId, 1);
    const disable = enableTraces();
    let isOpen = true;
    const close = () => {
      if (!isOpen) return;
      isOpen = false;
      uncount();
      disable();
    };
    return Object.assign(createRequestCost(), { close });
  };
}

function serverTiming({ queuedMs, databaseMs, statements }: RequestCost, totalMs: number): string {
  const ms = (time: number) => Math.round(time * 100) / 100;
  const described = `${statements} ${statements === 1 ? 'statement' : 'statements'}`;
  return `total;dur=${ms(totalMs)}, wait;dur=${ms(queuedMs)}, db;dur=${ms(databaseMs)};desc="${described}"`;
}
