import type { FastifyInstance } from 'fastify';
import type { Parameters, PreparedRequest } from './graphql/execution.js';
import type { QueuedRequest } from './http/admission.js';
import type { LoggedOperation } from './http/request-log.js';
import type { MeasuredCost } from './http/server-timing.js';
import type { Permission, ProjectScope } from './domain/projects.js';
import type { RequestTrace } from './telemetry/request-trace.js';

/** All that a request, a route and the server carry beside what Fastify gives them. */

declare module 'fastify' {
  interface FastifyRequest {
    /** The project whose credentials came with the request. Set only behind authentication. */
    scope: ProjectScope;
    /** Its place in admission; null until it is submitted. */
    queued: QueuedRequest | null;
    /** Adds units of work beyond the weight of the route, once the size of the answer is known. */
    addWeight(units: number): void;
    /** Set for a request whose cost or trace is asked for. */
    trace: RequestTrace | null;
    /** What the request has cost, where its caller has asked with `Userdir-Cost: 1`. */
    measuredCost: MeasuredCost | null;
    /** The parameters of a GraphQL request, once they are found well-formed. */
    graphqlParameters: Parameters | null;
    /** A GraphQL request, once it is read and its cost is known. */
    graphql: PreparedRequest | null;
    /** The operation that a GraphQL request asks for, once it is known. */
    operation: LoggedOperation | null;
  }

  interface FastifyContextConfig {
    /** Units of work of a request to this route; 1 by default, which is about the work of one user. */
    weight?: (request: FastifyRequest) => number | Promise<number>;
    /** What a REST route needs the App Secret to permit. */
    permission?: Permission;
  }

  interface FastifyInstance {
    /** From now on the service is not ready, and each connection ends with its next answer. */
    drain(): void;
    /** Where the metrics are, once the server listens; with METRICS_PORT. */
    metricsUrl?: string;
  }
}

/** Gives every request all its properties from the start, so that V8 keeps one shape for them. */
export function decorateRequests(app: FastifyInstance): void {
  for (const name of ['queued', 'trace', 'measuredCost', 'graphqlParameters', 'graphql', 'operation'] as const) {
    app.decorateRequest(name, null);
  }
}
