import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { type AdmissionOptions, createAdmission } from './http/admission.js';
import { admitRequests } from './http/admit-requests.js';
import { createAuthenticate } from './http/authentication.js';
import { closeInOrder } from './http/closing.js';
import { compressAnswers } from './http/compression.js';
import type { Config } from './config/config.js';
import { limitRequestTime } from './http/request-timeout.js';
import type { Context } from './context.js';
import { unavailable } from './errors.js';
import * as eventLoop from './http/event-loop.js';
import type { Check } from './dashboard/builder.js';
import { graphqlPlugin } from './graphql/plugin.js';
import { refuseUnknownRoutes, sendFailure, setCommonHeaders } from './http/failures.js';
import { type DemoCredentials, frontPagePlugin } from './http/front-page.js';
import { servePublicKeys } from './http/jwks.js';
import { answerUnusualRequests, refuseMalformedHttp, routableUrl } from './http/malformed-requests.js';
import { logRequests } from './http/request-log.js';
import { decorateRequests } from './request.js';
import { jsonBodyParser } from './http/body.js';
import type { Logger } from './telemetry/logger.js';
import { traceRequests } from './http/server-timing.js';
import { createLifetimes } from './http/lifetime.js';
import { createStreams, type StreamLimits } from './http/streams.js';
import { createUnreadBytes } from './http/unread-bytes.js';
import { healthPlugin } from './http/health.js';
import { limitRates } from './http/rate-limit.js';
import { redact } from './telemetry/redact.js';
import { serveOpenApi } from './rest/openapi.js';
import { changesPlugin } from './rest/changes.js';
import { restPlugin } from './rest/plugin.js';
import { verdictsPlugin } from './rest/verdicts.js';
import { createSecondThread } from './threads/second-thread.js';
import { VERSION } from './config/version.js';

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
  /** In a worker: rejects unless all workers can answer requests. The primary process serves the metrics then. */
  readonly checkWorkers?: () => Promise<void>;
  readonly streamLimits?: StreamLimits | undefined;
}

/** Time limits of a connection, in milliseconds. REQUEST_TIMEOUT_MS limits a request. */
export interface Timeouts {
  /** Until the headers of a request have arrived. A connection that sends nothing ends then too. */
  readonly headersMs: number;
  /** How much longer than REQUEST_TIMEOUT_MS a client may take to read an answer. */
  readonly stalledMs: number;
  /** Between two requests of a connection. */
  readonly idleMs: number;
  /** The interval at which `headersMs` is checked. */
  readonly checkMs: number;
}

const TIMEOUTS: Timeouts = { headersMs: 10_000, stalledMs: 30_000, idleMs: 72_000, checkMs: 1_000 };
const BODY_LIMIT_BYTES = 1_048_576;
/** Node's limit for URL and headers together. With it, the router never rejects a parameter as too long. */
const MAX_URL_LENGTH = 16_384;
/**
 * Units of work (http/admission.ts). 256 in flight fill the batches and the connections of a pool. A project beside
 * others gets fewer, because work that has started runs before theirs. A full queue empties in a fraction of a
 * second.
 */
const ADMISSION = { maxInFlight: 256, maxInFlightPerProject: 8, maxQueued: 4_096 };
const LOGGABLE_REQUEST_ID = /^[\w.:/+=-]{1,128}$/;

/** Creates the HTTP server with both interfaces and the pages. It does not listen yet. */
export async function createServer({
  config,
  log,
  context,
  demoCredentials = () => null,
  examine = async () => [],
  admission: admissionOptions = ADMISSION,
  timeouts = TIMEOUTS,
  checkWorkers,
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
    keepAliveTimeout: timeouts.idleMs,
    genReqId: ({ headers }) => {
      const given = headers['x-request-id'];
      return typeof given === 'string' && isLoggableRequestId(given) ? given : randomUUID();
    },
    // A request that arrives while the server closes is still answered. Its connection ends after the answer.
    return503OnClosing: false,
    rewriteUrl: ({ url = '/' }) => routableUrl(url),
    routerOptions: { maxParamLength: MAX_URL_LENGTH },
    frameworkErrors: sendFailure,
    clientErrorHandler: refuseMalformedHttp,
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
  answerUnusualRequests(app);
  limitRequestTime(app, { timeoutMs: config.requestTimeoutMs, unreadMs });
  const admission = createAdmission(admissionOptions, eventLoop);
  const unread = createUnreadBytes();
  const runWithAdmission = admitRequests(app, admission, unread);
  traceRequests(app, await loadTracing(config, log));
  await limitRates(app, config.rateLimit, log);
  logRequests(app, log);
  compressAnswers(app, config.compression);
  const lifetimes = createLifetimes(app, runWithAdmission, unread);
  const streams = createStreams(app, services.projects, lifetimes, streamLimits);
  const secondThread = createSecondThread(config, {
    openPort: context.db.openPort,
    isAlone: admission.isAlone,
    onFailure: (err, what) => log.error({ err }, what),
  });
  if (config.metricsPort !== null) {
    // Loaded only where it is used, because it takes time and memory.
    const { measure, serveMetrics } = await import('./telemetry/metrics.js');
    const { lagSeconds, findOldestWriter } = services.changes;
    const changes = { lagSeconds, findOldestWriter, openStreams: streams.count };
    const { db } = context;
    const metrics = measure(app, { admission, db, changes, webhooks: services.webhooks, secondThread });
    app.decorate('readMetrics', metrics.json);
    const address = { host: config.host, port: config.metricsPort };
    if (checkWorkers === undefined) serveWhileListening(app, () => serveMetrics(address, metrics.text));
  }
  app.addHook('onClose', () => secondThread.close());
  app.setErrorHandler(sendFailure);
  app.setNotFoundHandler(refuseUnknownRoutes(app));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, jsonBodyParser());

  const authenticate = createAuthenticate(services.projects, runWithAdmission);
  const requireOpen = () => {
    if (context.isOpen()) return;
    throw unavailable('The service is starting or closing.');
  };
  const authenticateWhenOpen: typeof authenticate = (...caller) => {
    requireOpen();
    return authenticate(...caller);
  };
  await serveOpenApi(app, VERSION);
  servePublicKeys(app, services.receipts);
  await app.register(restPlugin, { prefix: '/server', services, authenticate: authenticateWhenOpen });
  await app.register(changesPlugin, { changes: services.changes, authenticate: authenticateWhenOpen, streams });
  await app.register(verdictsPlugin, {
    services,
    authenticate: authenticateWhenOpen,
    runWithAdmission,
    elsewhere: secondThread.elsewhere('verdicts'),
  });
  await app.register(graphqlPlugin, {
    services,
    authenticate: authenticateWhenOpen,
    runWithAdmission,
    streams,
    graphiql: config.graphiql,
    demoCredentials,
    documentsDir: config.documentsDir,
    elsewhere: secondThread.elsewhere('graphql'),
  });
  if (config.dashboard) {
    // Loaded only where it is used, because it takes time and memory.
    const [{ dashboardPlugin }, { createStatus }] = await Promise.all([
      import('./dashboard/plugin.js'),
      import('./dashboard/load.js'),
    ]);
    const isEmbedded = config.db.engine === 'embedded';
    const status = createStatus({ admission, pool: context.db.pool, isEmbedded, examine });
    await app.register(dashboardPlugin, { config, services, status, runWithAdmission, lifetimes, requireOpen });
  }
  await app.register(frontPagePlugin, {
    graphiql: config.graphiql,
    dashboard: config.dashboard,
    demoCredentials,
  });
  app.decorate('checkReady', async () => {
    if (isClosing() || !context.isOpen()) throw new Error('The service is starting or closing.');
    await withReadyTimeout(context.db.check());
  });
  await app.register(healthPlugin, { checkReady: checkWorkers ?? (() => app.checkReady()) });
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
  const { createTracing } = await import('./telemetry/tracing.js');
  return createTracing(tracesUrl, tracesHeaders, log);
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

/** Fastify takes a number of hops only as a function. */
function trustedProxies(trust: Config['trustProxy']) {
  return typeof trust === 'number' ? (_address: string, hop: number) => hop < trust : trust;
}

const READY_TIMEOUT_MS = 2_000;

async function withReadyTimeout(answer: Promise<void>): Promise<void> {
  const timeout = sleep(READY_TIMEOUT_MS, undefined, { ref: false }).then(() => {
    throw new Error(`The database did not answer within ${READY_TIMEOUT_MS} ms.`);
  });
  await Promise.race([answer, timeout]);
}
