import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { type AdmissionOptions, createAdmission } from './http/admission.js';
import { admitRequests } from './http/admit-requests.js';
import { createAuthenticate } from './http/authentication.js';
import type { Config } from './config/config.js';
import { addDeadline } from './http/request-timeout.js';
import type { Context } from './context.js';
import { AppError } from './errors.js';
import { isSliceOver } from './http/event-loop.js';
import { graphqlPlugin } from './graphql/plugin.js';
import { refuseUnknownRoutes, sendFailure, setCommonHeaders } from './http/failures.js';
import { type DemoCredentials, frontPagePlugin } from './http/front-page.js';
import { answerUnusualRequests, refuseMalformedHttp, routableUrl } from './http/malformed-requests.js';
import { logRequests } from './http/request-log.js';
import { decorateRequests } from './request.js';
import { jsonBodyParser } from './http/body.js';
import type { Logger } from './telemetry/logger.js';
import { observeRequests } from './http/server-timing.js';
import { healthPlugin } from './http/health.js';
import { limitRates } from './http/rate-limit.js';
import { redact } from './telemetry/redact.js';
import { serveOpenApi } from './rest/openapi.js';
import { restPlugin } from './rest/plugin.js';
import { VERSION } from './config/version.js';

export interface ServerOptions {
  readonly config: Config;
  readonly log: Logger;
  /** Until it is open, every question is answered with 503. */
  readonly directory: Context;
  readonly demoCredentials?: DemoCredentials;
  readonly admission?: AdmissionOptions;
  readonly timeouts?: Timeouts;
}

/** How long a connection may take beside the time of its request (REQUEST_TIMEOUT_MS), in milliseconds. */
export interface Timeouts {
  /** Until the headers of a request are there, also when nothing at all comes. */
  readonly headersMs: number;
  /** Until some of an answer is read. */
  readonly stalledMs: number;
  /** Between two requests. */
  readonly idleMs: number;
  /** How often the first is looked at. */
  readonly checkMs: number;
}

const TIMEOUTS: Timeouts = { headersMs: 10_000, stalledMs: 30_000, idleMs: 72_000, checkMs: 1_000 };
const BODY_LIMIT_BYTES = 1_048_576;
/** What Node lets pass as headers, the URL among them: no parameter is too long for the router to find its route. */
const LONGEST_URL = 16_384;
/**
 * Enough in flight to fill the batches and the connections of a pool. One project among others gets less, because what it has
 * started is done before what the others ask. A full queue is worked off in a fraction of a second.
 */
const ADMISSION = { maxInFlight: 256, maxInFlightPerProject: 8, maxQueued: 4_096 };
const SANE_REQUEST_ID = /^[\w.:/+=-]{1,128}$/;

/** The HTTP server with both interfaces and the pages beside them; it does not listen yet. */
export async function createServer({
  config,
  log,
  directory,
  demoCredentials = () => null,
  admission: admissionOptions = ADMISSION,
  timeouts = TIMEOUTS,
}: ServerOptions): Promise<FastifyInstance> {
  const { services } = directory;
  const unreadMs = timeouts.stalledMs + config.requestTimeoutMs;
  const app = Fastify({
    loggerInstance: log as FastifyBaseLogger,
    // Requests are logged by logRequest, one line each.
    logController: new LogController({ disableRequestLogging: true }),
    // A logger for each request would cost more than most requests; what is logged of one names it by itself.
    childLoggerFactory: (logger) => logger,
    trustProxy: trustedProxies(config.trustProxy),
    bodyLimit: BODY_LIMIT_BYTES,
    requestTimeout: timeouts.headersMs + config.requestTimeoutMs,
    connectionTimeout: unreadMs,
    keepAliveTimeout: timeouts.idleMs,
    genReqId: ({ headers }) => {
      const given = headers['x-request-id'];
      return typeof given === 'string' && isSaneRequestId(given) ? given : randomUUID();
    },
    // A request that arrives while the server closes is still answered; its connection ends after it.
    return503OnClosing: false,
    rewriteUrl: ({ url = '/' }) => routableUrl(url),
    routerOptions: { maxParamLength: LONGEST_URL },
    frameworkErrors: sendFailure,
    clientErrorHandler: refuseMalformedHttp,
    // answerUnusualRequests refuses a request without it.
    http: {
      requireHostHeader: false,
      headersTimeout: timeouts.headersMs,
      connectionsCheckingInterval: timeouts.checkMs,
    },
  });
  app.addHook('onRequest', (request, reply, done) => {
    setCommonHeaders(request, reply);
    done();
  });
  decorateRequests(app);
  answerUnusualRequests(app);
  addDeadline(app, { timeoutMs: config.requestTimeoutMs, unreadMs });
  const admission = createAdmission(admissionOptions, isSliceOver);
  const runWithAdmission = admitRequests(app, admission);
  observeRequests(app, await loadTracing(config, log));
  if (config.rateLimit !== null) await limitRates(app, config.rateLimit, log);
  logRequests(app, log);
  if (config.metricsPort !== null) {
    // Most services have no use for it, nor for what makes traces.
    const { serveMetrics } = await import('./telemetry/metrics.js');
    serveMetrics(app, { host: config.host, port: config.metricsPort, admission, db: directory.db });
  }
  let closing = false;
  app.decorate('drain', () => {
    closing = true;
  });
  app.addHook('preClose', async () => app.drain());
  // A connection whose request was taken before the close would stay open for the client's next one, and hold the close up.
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (closing) reply.header('connection', 'close');
    done();
  });
  app.setErrorHandler(sendFailure);
  app.setNotFoundHandler(refuseUnknownRoutes(app));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, jsonBodyParser(app));

  const authenticate = createAuthenticate(services.projects, runWithAdmission);
  const authenticateWhenOpen: typeof authenticate = (caller) => {
    if (directory.isOpen()) return authenticate(caller);
    throw new AppError('UNAVAILABLE', 'The service is starting or closing.', { headers: { 'retry-after': '1' } });
  };
  await serveOpenApi(app, VERSION);
  await app.register(restPlugin, { prefix: '/server', services, authenticate: authenticateWhenOpen });
  await app.register(graphqlPlugin, {
    services,
    authenticate: authenticateWhenOpen,
    runWithAdmission,
    graphiql: config.graphiql,
    demoCredentials,
  });
  await app.register(frontPagePlugin, { graphiql: config.graphiql, demoCredentials });
  await app.register(healthPlugin, {
    checkReady: async () => {
      if (closing || !directory.isOpen()) throw new Error('The service is starting or closing.');
      await withinTime(directory.db.check());
    },
  });
  return app;
}

async function loadTracing({ tracesUrl, tracesHeaders = '' }: Config, log: Logger) {
  if (tracesUrl === null) return null;
  const { createTracing } = await import('./telemetry/tracing.js');
  return createTracing(tracesUrl, tracesHeaders, log);
}

/** It is logged, and so is no place for a secret, an email or an address. */
function isSaneRequestId(id: string): boolean {
  return SANE_REQUEST_ID.test(id) && redact(id) === id;
}

/** Fastify takes a number of hops as a function only. */
function trustedProxies(trust: Config['trustProxy']) {
  return typeof trust === 'number' ? (_address: string, hop: number) => hop < trust : trust;
}

const READY_TIMEOUT_MS = 2_000;

async function withinTime(answer: Promise<void>): Promise<void> {
  const timeout = sleep(READY_TIMEOUT_MS, undefined, { ref: false }).then(() => {
    throw new Error(`The database did not answer within ${READY_TIMEOUT_MS} ms.`);
  });
  await Promise.race([answer, timeout]);
}
