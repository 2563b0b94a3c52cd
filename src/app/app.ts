import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import Fastify, { type FastifyInstance, type FastifyRequest, LogController } from 'fastify';
import { VERSION } from '../config/build.js';
import type { Config } from '../config/config.js';
import type { Context } from '../context.js';
import type { CommandToken } from '../dashboard/command-token.js';
import { BODY_BYTES, HEADER_BYTES } from '../domain/bounds.js';
import type { Credentials } from '../domain/projects.js';
import { type DocsOf, show, unavailable } from '../errors.js';
import { graphqlPlugin } from '../graphql/plugin.js';
import { guidesPlugin } from '../guides/guides.js';
import { type AdmissionOptions, admitRequests, createAdmission, type QueuedRequest } from '../http/admission.js';
import { createAuthenticate, requireOpen } from '../http/authentication.js';
import { jsonBodyParser } from '../http/body.js';
import { trustedProxies } from '../http/client-address.js';
import { compressAnswers } from '../http/compression.js';
import { closeInOrder, createUnreadBytes, limitRequestTime, NO_SLOT } from '../http/connections.js';
import { watchDescriptors } from '../http/descriptors.js';
import {
  answerUnusualRequests,
  commonHeaders,
  refuseMalformedHttp,
  refuseUnknownRoutes,
  routableUrl,
  sendFailure,
} from '../http/failures.js';
import { createLifetimes, createStreams, type StreamLimits } from '../http/lifetime.js';
import { addHooks, type Hooks } from '../http/pipeline.js';
import { type DemoCredentials, healthPlugin } from '../http/public-routes.js';
import { limitRates } from '../http/rate-limit.js';
import { type LoggedOperation, logRequests, requestIdOf, traceRequests, withoutChildren } from '../http/request-log.js';
import * as eventLoop from '../http/turns.js';
import { changesPlugin } from '../rest/changes.js';
import { copiesPlugin } from '../rest/copies.js';
import { serveOpenApi } from '../rest/openapi.js';
import { restPlugin } from '../rest/plugin.js';
import { verdictsPlugin } from '../rest/wallets.js';
import type { Logger } from '../telemetry/logger.js';
import type { Figure } from '../telemetry/metrics.js';
import type { TraceSpan } from '../telemetry/request-trace.js';
import { shownDemo } from './demo.js';
import { figuresOf, shared } from './figures.js';

export interface ServerOptions {
  readonly config: Config;
  readonly log: Logger;
  /** Until it is open, both interfaces answer 503. */
  readonly context: Context;
  readonly demoCredentials?: (request: FastifyRequest) => Credentials | null;
  /** Lets in commands on this machine. */
  readonly commandToken?: CommandToken | null;
  readonly admission?: AdmissionOptions;
  readonly timeouts?: Timeouts;
  readonly streamLimits?: StreamLimits | undefined;
}

/** Times of a connection, in milliseconds. REQUEST_TIMEOUT_MS limits a request, KEEP_ALIVE_SECONDS the pause between two. */
export interface Timeouts {
  /** Until the headers of a request have arrived. A connection that sends nothing ends then too. */
  readonly headersMs: number;
  /** A client may take so much longer than REQUEST_TIMEOUT_MS to read an answer. */
  readonly stalledMs: number;
  /** The interval at which `headersMs` is checked. */
  readonly checkMs: number;
  /** The interval of comments on a stream, so that nothing on its way takes it for idle: three times within every documented time-out. */
  readonly heartbeatMs: number;
  /** A page that follows a project is told of what is new at most so often, because it asks again then, and is permitted anew so often. */
  readonly newsMs: number;
}

export const TIMEOUTS: Timeouts = {
  headersMs: 10_000,
  stalledMs: 30_000,
  checkMs: 1_000,
  heartbeatMs: 10_000,
  newsMs: 5_000,
};
/** Units of work (http/admission.ts). 256 fill the batches and the pool. A project beside others gets fewer: its work would run before theirs. */
const ADMISSION = { maxInFlight: 256, maxInFlightPerProject: 8, maxQueued: 4_096 };

/** Creates the HTTP server with both interfaces and the pages. It does not listen yet. */
export async function createServer(options: ServerOptions): Promise<FastifyInstance> {
  const { config, log, context, demoCredentials: demoOf = () => null, timeouts = TIMEOUTS } = options;
  const demoCredentials: DemoCredentials = (request) => shownDemo(context.services, demoOf(request));
  const { services } = context;
  const app = createFastify(options, timeouts);
  decorateRequests(app);
  app.decorate('docsOf', services.docsOf);
  watchDescriptors(app);
  const closing = closeInOrder(app, config.requestTimeoutMs);
  const admission = createAdmission(options.admission ?? ADMISSION, eventLoop);
  const unread = createUnreadBytes();
  const { hooks: admissionHooks, runWithAdmission } = admitRequests(app, admission, unread);
  const lifetimes = createLifetimes(app, runWithAdmission, unread);
  const streams = createStreams(app, services.projects, lifetimes, timeouts.heartbeatMs, options.streamLimits);
  const rates = await limitRates(app, config.rateLimit, log);
  addHooks(app, {
    closing: closing.hooks,
    commonHeaders,
    unusualRequests: answerUnusualRequests(app),
    requestTime: limitRequestTime(app, { timeoutMs: config.requestTimeoutMs, unreadMs: unreadMsOf(config, timeouts) }),
    traces: traceRequests(app, await loadTracing(config, log)),
    rateLimit: rates.hooks,
    admission: admissionHooks,
    log: logRequests(log, config.logSample),
    metrics: await loadMetrics(app, config, () => figuresOf(context, admission, streams, rates.redis)),
    compression: compressAnswers(config.compression),
  });
  app.setErrorHandler(sendFailure);
  app.setNotFoundHandler(refuseUnknownRoutes(app));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, jsonBodyParser());

  const authenticate = createAuthenticate(context, services.projects, runWithAdmission);
  const { graphiql, dashboard, documentsDir } = config;
  await serveOpenApi(app, { version: VERSION, publicUrl: config.publicUrl, demoCredentials });
  await app.register(restPlugin, { prefix: '/server', services, authenticate });
  await app.register(copiesPlugin, { services, authenticate });
  await app.register(changesPlugin, { changes: services.changes, authenticate, streams });
  await app.register(verdictsPlugin, { services, authenticate, runWithAdmission });
  await app.register(graphqlPlugin, {
    services,
    authenticate,
    runWithAdmission,
    streams,
    graphiql,
    demoCredentials,
    documentsDir,
  });
  const { commandToken = null } = options;
  if (config.dashboard || commandToken !== null) {
    // Loaded only where it is used, because it takes time and memory.
    const [{ dashboardPlugin }, { createStatus }] = await Promise.all([
      import('../dashboard/plugin.js'),
      import('../dashboard/status.js'),
    ]);
    await app.register(dashboardPlugin, {
      config,
      services,
      runWithAdmission,
      lifetimes,
      streams,
      commandToken,
      newsMs: timeouts.newsMs,
      status: createStatus(config, async (totals) =>
        (await import('./examination.js')).examineDatabase(context, { config: config.db, totals }),
      ),
      requireOpen: () => requireOpen(context),
    });
  }
  await app.register(guidesPlugin, { graphiql, dashboard, demoCredentials });
  await app.register(healthPlugin, {
    checkReady: createReadyCheck(context, closing.isClosing),
    describe: () => ({ version: VERSION, schema: context.release.schema }),
  });
  return app;
}

/** Until an answer that was made is read. */
function unreadMsOf({ requestTimeoutMs }: Config, { stalledMs }: Timeouts): number {
  return stalledMs + requestTimeoutMs;
}

function createFastify({ config, log, context }: ServerOptions, timeouts: Timeouts): FastifyInstance {
  return Fastify({
    loggerInstance: withoutChildren(log),
    // logRequests logs one line for each request.
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: trustedProxies(config.trustProxy),
    bodyLimit: BODY_BYTES,
    // A busy machine or a slow disk may take longer than ten seconds, the default. The plugins are ours, and end.
    pluginTimeout: 0,
    requestTimeout: timeouts.headersMs + config.requestTimeoutMs,
    connectionTimeout: unreadMsOf(config, timeouts),
    keepAliveTimeout: config.keepAliveMs,
    genReqId: requestIdOf,
    // A request that arrives while the server closes is still answered. Its connection ends after the answer.
    return503OnClosing: false,
    rewriteUrl: routableUrl,
    // The router never rejects a parameter as too long: the URL is no longer.
    routerOptions: { maxParamLength: HEADER_BYTES },
    frameworkErrors: sendFailure,
    clientErrorHandler: (error, socket) => refuseMalformedHttp(error, socket as Socket, context.services.docsOf),
    // answerUnusualRequests refuses a request that has no Host header.
    http: {
      requireHostHeader: false,
      headersTimeout: timeouts.headersMs,
      connectionsCheckingInterval: timeouts.checkMs,
    },
  });
}

function createReadyCheck(context: Context, isClosing: () => boolean): () => Promise<void> {
  // Anyone may ask, as often as they like.
  const checkDatabase = shared(() => withReadyTimeout(context.db.check()));
  return async () => {
    if (context.fault !== null) throw unavailable(context.fault);
    if (isClosing() || !context.isOpen) throw new Error('The service is starting or closing.');
    await checkDatabase();
  };
}

/** Metrics on a port of their own, while the server listens. */
async function loadMetrics(
  app: FastifyInstance,
  { metricsHost: host, metricsPort: port }: Config,
  figures: () => Figure[],
): Promise<Hooks> {
  if (port === null) return {};
  // Loaded only where it is used, because it takes time and memory.
  const { measure, serveMetrics } = await import('../telemetry/metrics.js');
  const { hooks, readMetrics } = measure(app, figures());
  let listener: Awaited<ReturnType<typeof serveMetrics>> | undefined;
  app.decorate('metricsUrl', '');
  app.addHook('onReady', async () => {
    listener = await serveMetrics({ host, port }, readMetrics);
    app.metricsUrl = listener.url;
  });
  app.addHook('onClose', () => listener?.close());
  return hooks;
}

/** The one way to send traces. */
const TRACES_PROTOCOL = 'http/json';

async function loadTracing({ tracesUrl, tracesProtocol, tracesHeaders = '' }: Config, log: Logger) {
  if (tracesUrl === null) return null;
  if (tracesProtocol !== TRACES_PROTOCOL)
    log.warn(
      `OTEL_EXPORTER_OTLP_PROTOCOL is ${show(tracesProtocol)}, which is not supported. Traces are sent as ${TRACES_PROTOCOL}.`,
    );
  const { createTracing } = await import('../telemetry/tracing.js');
  return createTracing(tracesUrl, tracesHeaders, VERSION, log);
}

const READY_TIMEOUT_MS = 2_000;

async function withReadyTimeout(answer: Promise<void>): Promise<void> {
  const timeout = sleep(READY_TIMEOUT_MS, undefined, { ref: false }).then(() => {
    throw new Error(`The database did not answer within ${READY_TIMEOUT_MS} ms.`);
  });
  await Promise.race([answer, timeout]);
}

/** Additions of this service to the requests, the routes and the server of Fastify. */

declare module 'fastify' {
  interface FastifyRequest {
    /** Its slot in http/connections.ts; NO_SLOT when it is not open. */
    timeoutSlot: number;
    /** Its place in admission; null until it is submitted. */
    queued: QueuedRequest | null;
    /** Until when what it writes has an answer, by the clock of `performance`. */
    until: number;
    /** True if it was answered because its time had run out (http/connections.ts). */
    hasTimedOut: boolean;
    /** Adds units of work to the weight of the route, once the size of the answer is known. False if no client waits any more: then work that can end does. */
    addWeight(units: number): boolean;
    /** Set if the operator traces this request. */
    trace: TraceSpan | null;
    /** The operation that a GraphQL request asks for, once it is known. */
    operation: LoggedOperation | null;
    /** The code of the first error of its answer, once that is known. */
    failure: string | null;
  }

  interface FastifyContextConfig {
    /** The weight of a request in units of admission. The default is 1, which is about the work of one user. */
    weight?: (request: FastifyRequest) => number;
    /** Runs when admission lets a request start, before its handler. */
    begin?: (request: FastifyRequest) => Promise<void> | undefined;
  }

  interface FastifyInstance {
    /** Links the explanation of an error's code. */
    docsOf: DocsOf;
    /** From now on the service is not ready, and each connection that it has ends with its next answer. It accepts new ones. */
    drain(): void;
    /** Resolves when no new connections are accepted. */
    stopListening(): Promise<void>;
    /** The URL of the metrics, once the server listens. Absent without METRICS_PORT. */
    metricsUrl?: string;
  }
}

/** Gives every request all its properties from the start, so that V8 keeps one shape for them. */
export function decorateRequests(app: FastifyInstance): void {
  for (const name of [
    'queued',
    'trace',
    'graphqlParameters',
    'graphql',
    'json',
    'operation',
    'failure',
    'refusal',
  ] as const) {
    app.decorateRequest(name, null);
  }
  app.decorateRequest('until', Number.POSITIVE_INFINITY);
  app.decorateRequest('hasTimedOut', false);
  app.decorateRequest('timeoutSlot', NO_SLOT);
}
