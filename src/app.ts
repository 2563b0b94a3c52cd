import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { createAuthenticate } from './auth.js';
import type { Config } from './config.js';
import type { Directory } from './directory.js';
import { AppError } from './errors.js';
import { graphqlPlugin } from './graphql/plugin.js';
import {
  answerEverything,
  jsonBodyParser,
  logRequest,
  refuseMalformedHttp,
  refuseUnknownRoutes,
  routableUrl,
  sendFailure,
  setCommonHeaders,
} from './http.js';
import type { Logger } from './logger.js';
import { pagesPlugin } from './pages.js';
import { serveOpenApi } from './rest/openapi.js';
import { restPlugin } from './rest/plugin.js';
import type { Credentials } from './services/projects.js';
import { VERSION } from './version.js';

export interface ServerOptions {
  readonly config: Config;
  readonly log: Logger;
  /** Until it is open, every question is answered with 503. */
  readonly directory: Directory;
  readonly demoCredentials?: () => Credentials | null;
}

const BODY_LIMIT_BYTES = 1_048_576;
const REQUEST_TIMEOUT_MS = 30_000;
/** What Node lets pass as headers, the URL among them: no parameter is too long for the router to find its route. */
const LONGEST_URL = 16_384;
const SANE_REQUEST_ID = /^[\w.:/+=-]{1,128}$/;

/** The HTTP server with both interfaces and the pages beside them; it does not listen yet. */
export async function createServer({
  config,
  log,
  directory,
  demoCredentials,
}: ServerOptions): Promise<FastifyInstance> {
  const { services } = directory;
  const app = Fastify({
    loggerInstance: log as FastifyBaseLogger,
    // Requests are logged by logRequest, one line each.
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: trustedProxies(config.trustProxy),
    bodyLimit: BODY_LIMIT_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    genReqId: ({ headers }) => {
      const given = headers['x-request-id'];
      return typeof given === 'string' && SANE_REQUEST_ID.test(given) ? given : randomUUID();
    },
    // A request that arrives while the server closes is still answered; its connection ends after it.
    return503OnClosing: false,
    rewriteUrl: ({ url = '/' }) => routableUrl(url),
    routerOptions: { maxParamLength: LONGEST_URL },
    frameworkErrors: sendFailure,
    clientErrorHandler: refuseMalformedHttp,
    // Its absence is refused by answerEverything.
    http: { requireHostHeader: false },
  });
  app.addHook('onRequest', async (request, reply) => {
    setCommonHeaders(request, reply);
  });
  answerEverything(app);
  app.addHook('onResponse', async (request, reply) => logRequest(request, reply));
  let closing = false;
  app.addHook('preClose', async () => {
    closing = true;
  });
  // A connection whose request was taken before the close would stay open for the client's next one, and hold the close up.
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (closing) reply.header('connection', 'close');
    done();
  });
  app.setErrorHandler(sendFailure);
  app.setNotFoundHandler(refuseUnknownRoutes(app));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, jsonBodyParser(app));

  const authenticate = createAuthenticate(services.projects);
  const authenticateWhenOpen: typeof authenticate = async (caller) => {
    if (directory.isOpen()) return authenticate(caller);
    throw new AppError('UNAVAILABLE', 'The service is starting or closing.', { headers: { 'retry-after': '1' } });
  };
  await serveOpenApi(app, VERSION);
  await app.register(restPlugin, { prefix: '/server', services, authenticate: authenticateWhenOpen });
  await app.register(graphqlPlugin, {
    services,
    authenticate: authenticateWhenOpen,
    graphiql: config.graphiql,
    demoCredentials: demoCredentials ?? (() => null),
  });
  await app.register(pagesPlugin, {
    graphiql: config.graphiql,
    checkReady: async () => {
      if (closing || !directory.isOpen()) throw new Error('The service is starting or closing.');
      await withinTime(directory.db.check());
    },
  });
  return app;
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
