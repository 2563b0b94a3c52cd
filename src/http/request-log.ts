import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Logger } from '../telemetry/logger.js';

/** The operation of a GraphQL request, as the log, the metrics and the cost report name it. */
export interface LoggedOperation {
  readonly type: string;
  /** Null where it has no name, or a name that must not be logged. */
  readonly name: string | null;
  readonly cost: number;
}

/** What connects the log lines of one request. */
export function logIds({ id, trace }: FastifyRequest) {
  return { reqId: id, trace: trace?.span?.traceId };
}

/** Logs one line for each request. No line has a URL, a body or a header: these hold personal data and credentials. */
export function logRequests(app: FastifyInstance, log: Logger): void {
  if (!log.isLevelEnabled('info')) return;
  // No field of the line can hold a secret, and looking for one would take longer than the rest of the line.
  const lines = log.child({}, { redact: [] });
  app.addHook('onResponse', (request, reply, done) => {
    lines.info({
      ...logIds(request),
      method: request.method,
      route: request.routeOptions.url ?? 'none',
      operation: request.operation?.name ?? undefined,
      status: reply.statusCode,
      ms: Math.round(reply.elapsedTime * 10) / 10,
      project: request.scope?.appId,
    });
    done();
  });
}
