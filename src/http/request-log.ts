import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyBaseLogger, FastifyInstance, FastifyRequest } from 'fastify';
import { redact } from '../errors.js';
import type { Logger } from '../telemetry/logger.js';
import { enableTraces, runInTrace } from '../telemetry/request-trace.js';
import type { Tracing } from '../telemetry/tracing.js';
import type { Hooks } from './pipeline.js';

/** The operation of a GraphQL request, as the log, the metrics and its cost name it. */
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
  return { reqId: id, trace: trace?.traceId };
}

/**
 * Logs a line for each request that fails, and for one of `sample` that succeed; for probes that succeed, only where debug lines are wanted. No line
 * has a URL, a body or a header: these hold personal data and credentials.
 */
export function logRequests(log: Logger, sample: number): Hooks {
  if (!log.isLevelEnabled('info')) return {};
  // No field of the line can hold a secret, and looking for one would take longer than the rest of the line.
  const lines = log.child({}, { redact: [] });
  let successes = 0;
  return {
    onResponse(request, reply, done) {
      const isSuccess = request.failure === null && reply.statusCode < 400;
      const isProbe = isSuccess && request.routeOptions.config?.isProbe === true;
      if (isSuccess && !isProbe && successes++ % sample !== 0) return done();
      lines[isProbe ? 'debug' : 'info']({
        ...logIds(request),
        method: request.method,
        route: request.routeOptions.url ?? 'none',
        operation: request.operation?.name ?? undefined,
        status: reply.statusCode,
        code: request.failure ?? undefined,
        ...request.refusal,
        ms: Math.round(reply.elapsedTime * 10) / 10,
        project: request.scope?.appId,
        sample: isSuccess && sample > 1 ? sample : undefined,
      });
      done();
    },
  };
}

/** Traces requests for the operator. */
export function traceRequests(app: FastifyInstance, tracing: Tracing | null): Hooks {
  if (tracing === null) return {};
  const disable = enableTraces();
  app.addHook('onClose', () => tracing.close().finally(disable));
  return {
    onRequest(request, reply, done) {
      request.trace = tracing.begin(request, reply);
      runInTrace(request.trace, done);
    },
    // This may run in the trace of another request, which read this body or released this request from the queue.
    preHandler: ({ trace }, _reply, done) => runInTrace(trace, done),
  };
}
