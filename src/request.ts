import type { FastifyInstance } from 'fastify';
import type { Parameters, PreparedRequest } from './graphql/execution.js';
import type { QueuedRequest } from './http/admission.js';
import type { LoggedOperation } from './http/request-log.js';
import { NO_SLOT } from './http/request-timeout.js';
import type { MeasuredCost } from './http/server-timing.js';
import type { Permission, ProjectScope } from './domain/projects.js';
import type { Measurements } from './telemetry/metrics.js';
import type { RequestTrace } from './telemetry/request-trace.js';

/** What this service adds to the requests, the routes and the server of Fastify. */

declare module 'fastify' {
  interface FastifyRequest {
    /** The project whose credentials came with the request. Set only behind authentication. */
    scope: ProjectScope;
    /** Its slot in http/request-timeout.ts; NO_SLOT when it is not open. */
    timeoutSlot: number;
    /** Its place in admission; null until it is submitted. */
    queued: QueuedRequest | null;
    /** Whether it was answered because its time had run out (http/request-timeout.ts). */
    hasTimedOut: boolean;
    /**
     * Adds units of work beyond the weight of the route, once the size of the answer is known. False where no client waits for the answer any
     * more: then work that can end does.
     */
    addWeight(units: number): boolean;
    /** Set if the caller asked for the cost, or if the operator traces this request. */
    trace: RequestTrace | null;
    /** The cost of the request, if its caller sent `Userdir-Cost: 1`. */
    measuredCost: MeasuredCost | null;
    /** The parameters of a GraphQL request, once they are found well-formed. */
    graphqlParameters: Parameters | null;
    /** The JSON of the body of a GraphQL request. */
    json: Buffer | null;
    /** Whether another thread executes a GraphQL request (graphql/elsewhere.ts). */
    isForElsewhere: boolean;
    /** A GraphQL request, once it is read and its cost is known. */
    graphql: PreparedRequest | null;
    /** The operation that a GraphQL request asks for, once it is known. */
    operation: LoggedOperation | null;
  }

  interface FastifyContextConfig {
    /** The weight of a request in units of admission. The default is 1, which is about the work of one user. */
    weight?: (request: FastifyRequest) => number;
    /** What to do when admission lets a request start, before its handler. */
    begin?: (request: FastifyRequest) => Promise<void> | undefined;
    /** The permission that a REST route requires of the App Secret. */
    permission?: Permission;
  }

  interface FastifyInstance {
    /** From now on the service is not ready, and each connection that it has ends with its next answer. It accepts new ones. */
    drain(): void;
    /** Resolves when no new connections are accepted. `turn` lets the process that accepts them take what waits; by default it is this one. */
    stopListening(turn?: () => Promise<unknown>): Promise<void>;
    /** Rejects while this process cannot answer requests. */
    checkReady(): Promise<void>;
    /** The URL of the metrics, once the server listens. Absent without METRICS_PORT, and in a worker. */
    metricsUrl?: string;
    /** The metrics of this process. Absent without METRICS_PORT. */
    readMetrics?(): Promise<Measurements>;
  }
}

/** Gives every request all its properties from the start, so that V8 keeps one shape for them. */
export function decorateRequests(app: FastifyInstance): void {
  for (const name of [
    'queued',
    'trace',
    'measuredCost',
    'graphqlParameters',
    'graphql',
    'json',
    'operation',
  ] as const) {
    app.decorateRequest(name, null);
  }
  app.decorateRequest('isForElsewhere', false);
  app.decorateRequest('hasTimedOut', false);
  app.decorateRequest('timeoutSlot', NO_SLOT);
}
