import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { VERSION } from '../config/build.js';
import type { Config } from '../config/config.js';
import type { Context } from '../context.js';
import type { Check } from '../dashboard/builder.js';
import { MAX_REQUEST_ID } from '../domain/requests.js';
import { type DocsOf, redact, unavailable } from '../errors.js';
import { graphqlPlugin } from '../graphql/plugin.js';
import { guidesPlugin } from '../guides/guides.js';
import { type AdmissionOptions, admitRequests, createAdmission, type QueuedRequest } from '../http/admission.js';
import { createAuthenticate } from '../http/authentication.js';
import { jsonBodyParser } from '../http/body.js';
import { trustedProxies } from '../http/client-address.js';
import { compressAnswers } from '../http/compression.js';
import { closeInOrder, createUnreadBytes, limitRequestTime, NO_SLOT } from '../http/connections.js';
import { watchDescriptors } from '../http/descriptors.js';
import {
  answerUnusualRequests,
  refuseMalformedHttp,
  refuseUnknownRoutes,
  routableUrl,
  sendFailure,
  setCommonHeaders,
} from '../http/failures.js';
import { createLifetimes, createStreams, type StreamLimits } from '../http/lifetime.js';
import { type DemoCredentials, frontPagePlugin, healthPlugin } from '../http/public-routes.js';
import { limitRates } from '../http/rate-limit.js';
import { createRecentRequests, type RecentRequests, recordRequests } from '../http/recent-requests.js';
import { type LoggedOperation, logRequests, type MeasuredCost, traceRequests } from '../http/request-log.js';
import * as eventLoop from '../http/threads.js';
import { changesPlugin } from '../rest/changes.js';
import { serveOpenApi } from '../rest/openapi.js';
import { restPlugin } from '../rest/plugin.js';
import { verdictsPlugin } from '../rest/wallets.js';
import type { Logger } from '../telemetry/logger.js';
import type { RequestTrace } from '../telemetry/request-trace.js';
import { figuresOf } from './figures.js';
import { createSecondThread } from './second-thread.js';

export interface ServerOptions {
  readonly config: Config;
  readonly log: Logger;
  /** Until it is open, both interfaces answer 503. */
  readonly context: Context;
  readonly demoCredentials?: DemoCredentials;
  /** What the dashboard shows of the database's health. */
  readonly examine?: () => Promise<Check[]>;
  readonly admission?: AdmissionOptions;
  readonly timeouts?: Timeouts;
  readonly streamLimits?: StreamLimits | undefined;
}

/** Times of a connection, in milliseconds. REQUEST_TIMEOUT_MS limits a request, KEEP_ALIVE_SECONDS the pause between two. */
export interface Timeouts {
  /** Until the headers of a request have arrived. A connection that sends nothing ends then too. */
  readonly headersMs: number;
  /** How much longer than REQUEST_TIMEOUT_MS a client may take to read an answer. */
  readonly stalledMs: number;
  /** The interval at which `headersMs` is checked. */
  readonly checkMs: number;
  /** How often a comment is sent on a stream, so that nothing on its way takes it for idle: three times within every documented time-out. */
  readonly heartbeatMs: number;
}

export const TIMEOUTS: Timeouts = { headersMs: 10_000, stalledMs: 30_000, checkMs: 1_000, heartbeatMs: 10_000 };
const BODY_LIMIT_BYTES = 1_048_576;
/** Node's limit for URL and headers together. With it, the router never rejects a parameter as too long. */
const MAX_URL_LENGTH = 16_384;
/**
 * Units of work (http/admission.ts). 256 in flight fill the batches and the connections of a pool. A project beside
 * others gets fewer, because work that has started runs before theirs. A full queue empties in a fraction of a
 * second.
 */
const ADMISSION = { maxInFlight: 256, maxInFlightPerProject: 8, maxQueued: 4_096 };
const LOGGABLE_REQUEST_ID = new RegExp(`^[\\w.:/+=-]{1,${MAX_REQUEST_ID}}$`);

/** Creates the HTTP server with both interfaces and the pages. It does not listen yet. */
export async function createServer({
  config,
  log,
  context,
  demoCredentials = () => null,
  examine = async () => [],
  admission: admissionOptions = ADMISSION,
  timeouts = TIMEOUTS,
  streamLimits,
}: ServerOptions): Promise<FastifyInstance> {
  const { services } = context;
  const unreadMs = timeouts.stalledMs + config.requestTimeoutMs;
  const app = Fastify({
    loggerInstance: withoutChildren(log),
    // logRequests logs one line for each request.
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: trustedProxies(config.trustProxy),
    bodyLimit: BODY_LIMIT_BYTES,
    requestTimeout: timeouts.headersMs + config.requestTimeoutMs,
    connectionTimeout: unreadMs,
    keepAliveTimeout: config.keepAliveMs,
    genReqId: ({ headers }) => {
      const given = headers['x-request-id'];
      return typeof given === 'string' && isLoggableRequestId(given) ? given : randomUUID();
    },
    // A request that arrives while the server closes is still answered. Its connection ends after the answer.
    return503OnClosing: false,
    rewriteUrl: ({ url = '/' }) => routableUrl(url),
    routerOptions: { maxParamLength: MAX_URL_LENGTH },
    frameworkErrors: sendFailure,
    clientErrorHandler: (error, socket) => refuseMalformedHttp(error, socket as Socket, services.docsOf),
    // answerUnusualRequests refuses a request that has no Host header.
    http: {
      requireHostHeader: false,
      headersTimeout: timeouts.headersMs,
      connectionsCheckingInterval: timeouts.checkMs,
    },
  });
  const isClosing = closeInOrder(app, config.requestTimeoutMs);
  app.addHook('onRequest', (request, reply, done) => {
    setCommonHeaders(request, reply);
    done();
  });
  decorateRequests(app);
  app.decorate('docsOf', services.docsOf);
  answerUnusualRequests(app);
  watchDescriptors(app);
  limitRequestTime(app, { timeoutMs: config.requestTimeoutMs, unreadMs });
  const admission = createAdmission(admissionOptions, eventLoop);
  const unread = createUnreadBytes();
  const runWithAdmission = admitRequests(app, admission, unread);
  traceRequests(app, await loadTracing(config, log));
  await limitRates(app, config.rateLimit, log);
  logRequests(app, log);
  const recent = config.dashboard ? createRecentRequests() : null;
  recordRequests(app, services.requestHours.countRequest, recent);
  compressAnswers(app, config.compression);
  const lifetimes = createLifetimes(app, runWithAdmission, unread, timeouts.heartbeatMs);
  const streams = createStreams(app, services.projects, lifetimes, streamLimits);
  const secondThread = createSecondThread(config, {
    openPort: context.db.openPort,
    isAlone: admission.isAlone,
    onFailure: (err, what) => log.error({ err }, what),
  });
  if (config.metricsPort !== null) {
    // Loaded only where it is used, because it takes time and memory.
    const { measure, serveMetrics } = await import('../telemetry/metrics.js');
    const readMetrics = measure(app, figuresOf(context, admission, streams, secondThread));
    const address = { host: config.host, port: config.metricsPort };
    serveWhileListening(app, () => serveMetrics(address, readMetrics));
  }
  app.addHook('onClose', () => secondThread.close());
  app.setErrorHandler(sendFailure);
  app.setNotFoundHandler(refuseUnknownRoutes(app));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, jsonBodyParser());

  const authenticate = createAuthenticate(services.projects, runWithAdmission);
  const requireOpen = () => {
    if (context.isOpen) return;
    throw unavailable('The service is starting or closing.');
  };
  const authenticateWhenOpen: typeof authenticate = (...caller) => {
    requireOpen();
    return authenticate(...caller);
  };
  await serveOpenApi(app, VERSION, demoCredentials);
  await app.register(restPlugin, { prefix: '/server', services, authenticate: authenticateWhenOpen });
  await app.register(changesPlugin, { changes: services.changes, authenticate: authenticateWhenOpen, streams });
  await app.register(verdictsPlugin, {
    services,
    authenticate: authenticateWhenOpen,
    runWithAdmission,
    secondThread: secondThread.taskOf('verdicts'),
  });
  await app.register(graphqlPlugin, {
    services,
    authenticate: authenticateWhenOpen,
    runWithAdmission,
    streams,
    graphiql: config.graphiql,
    demoCredentials,
    documentsDir: config.documentsDir,
    secondThread: secondThread.taskOf('graphql'),
  });
  if (recent !== null) {
    app.decorate('readRequests', recent.read);
    // Loaded only where it is used, because it takes time and memory.
    const [{ dashboardPlugin }, { createStatus }] = await Promise.all([
      import('../dashboard/plugin.js'),
      import('../dashboard/status.js'),
    ]);
    const isEmbedded = config.db.engine === 'embedded';
    const status = createStatus({ admission, pool: context.db.pool, isEmbedded, examine });
    await app.register(dashboardPlugin, {
      ...{ config, services, status, runWithAdmission, lifetimes, requireOpen },
      askForRequests: async (question) => [recent.read(question)],
    });
  }
  await app.register(guidesPlugin, { graphiql: config.graphiql, demoCredentials });
  await app.register(frontPagePlugin, {
    graphiql: config.graphiql,
    dashboard: config.dashboard,
    version: VERSION,
    demoCredentials,
  });
  let checking: Promise<void> | null = null;
  /** Requests share a check that is under way: anyone may ask, as often as they like. */
  function checkDatabase(): Promise<void> {
    checking ??= withReadyTimeout(context.db.check()).finally(() => {
      checking = null;
    });
    return checking;
  }
  const checkReady = async () => {
    if (context.fault !== null) throw unavailable(context.fault);
    if (isClosing() || !context.isOpen) throw new Error('The service is starting or closing.');
    await checkDatabase();
  };
  await app.register(healthPlugin, {
    checkReady,
    describe: () => ({ version: VERSION, schema: context.release.schema }),
  });
  return app;
}

function serveWhileListening(app: FastifyInstance, serve: () => Promise<{ url: string; close(): Promise<void> }>) {
  let listener: Awaited<ReturnType<typeof serve>> | undefined;
  app.decorate('metricsUrl', '');
  app.addHook('onReady', async () => {
    listener = await serve();
    app.metricsUrl = listener.url;
  });
  app.addHook('onClose', () => listener?.close());
}

async function loadTracing({ tracesUrl, tracesHeaders = '' }: Config, log: Logger) {
  if (tracesUrl === null) return null;
  const { createTracing } = await import('../telemetry/tracing.js');
  return createTracing(tracesUrl, tracesHeaders, VERSION, log);
}

/**
 * A logger that is its own child. A child for each request would cost more than most requests, so each log line has the request ID instead.
 * Not a `childLoggerFactory`, of which Fastify checks for each request that it made a logger.
 */
function withoutChildren(log: Logger): FastifyBaseLogger {
  const shared: FastifyBaseLogger = Object.create(log);
  shared.child = () => shared;
  // Fastify writes one line of this level, that it listens. `serve` does, when it knows that the database can be used.
  shared.info = () => undefined;
  return shared;
}

/** A request ID is logged, so it must not contain a secret, an email or an address. */
function isLoggableRequestId(id: string): boolean {
  return LOGGABLE_REQUEST_ID.test(id) && redact(id) === id;
}

const READY_TIMEOUT_MS = 2_000;

async function withReadyTimeout(answer: Promise<void>): Promise<void> {
  const timeout = sleep(READY_TIMEOUT_MS, undefined, { ref: false }).then(() => {
    throw new Error(`The database did not answer within ${READY_TIMEOUT_MS} ms.`);
  });
  await Promise.race([answer, timeout]);
}

/** What this service adds to the requests, the routes and the server of Fastify. */

declare module 'fastify' {
  interface FastifyRequest {
    /** Its slot in http/connections.ts; NO_SLOT when it is not open. */
    timeoutSlot: number;
    /** Its place in admission; null until it is submitted. */
    queued: QueuedRequest | null;
    /** Until when what it writes has an answer, by the clock of `performance`. */
    until: number;
    /** Whether it was answered because its time had run out (http/connections.ts). */
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
    /** The operation that a GraphQL request asks for, once it is known. */
    operation: LoggedOperation | null;
    /** The code of the first error of its answer, once that is known. */
    failure: string | null;
  }

  interface FastifyContextConfig {
    /** The weight of a request in units of admission. The default is 1, which is about the work of one user. */
    weight?: (request: FastifyRequest) => number;
    /** What to do when admission lets a request start, before its handler. */
    begin?: (request: FastifyRequest) => Promise<void> | undefined;
  }

  interface FastifyInstance {
    /** Where the code of an error is explained. */
    docsOf: DocsOf;
    /** From now on the service is not ready, and each connection that it has ends with its next answer. It accepts new ones. */
    drain(): void;
    /** Resolves when no new connections are accepted. */
    stopListening(): Promise<void>;
    /** The URL of the metrics, once the server listens. Absent without METRICS_PORT. */
    metricsUrl?: string;
    /** The requests that this process remembers. Absent without the dashboard. */
    readRequests?: RecentRequests['read'];
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
    'failure',
  ] as const) {
    app.decorateRequest(name, null);
  }
  app.decorateRequest('isForSecondThread', false);
  app.decorateRequest('until', Number.POSITIVE_INFINITY);
  app.decorateRequest('hasTimedOut', false);
  app.decorateRequest('timeoutSlot', NO_SLOT);
}
