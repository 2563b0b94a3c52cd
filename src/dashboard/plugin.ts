import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { GraphQLError } from 'graphql';
import { VERSION } from '../config/build.js';
import type { Config } from '../config/config.js';
import type { Services } from '../context.js';
import { atMost, isTooLong } from '../domain/input-limits.js';
import type { ActiveSession } from '../domain/operators.js';
import type { ProjectScope } from '../domain/projects.js';
import { extensionsOf } from '../engine/errors.js';
import { type Parameters, type PreparedRequest, weightOfRequest } from '../engine/execution.js';
import { AppError, badInput, COMMAND, fromUnknown, withdrawn } from '../errors.js';
import type { RunWithAdmission } from '../http/admission.js';
import { refuseMalformedUrl, reportFailure, setCommonHeaders } from '../http/failures.js';
import { createPlaces, type Lifetimes } from '../http/lifetime.js';
import type { DashboardContext, StatusSource } from './builder.js';
import { servePages } from './pages.js';
import { servePasskeySignIn, siteOf } from './passkey-sign-in.js';
import { engine } from './schema.js';
import {
  createSessions,
  isForeign,
  operatorOf,
  type Place,
  readCookies,
  refuseForeign,
  requireOwnName,
  type Sessions,
  setPageHeaders,
  tenantOf,
} from './session.js';
import { type RightOf, serveStreams } from './streams.js';

export interface DashboardOptions {
  readonly config: Config;
  readonly services: Services;
  readonly status: StatusSource;
  readonly runWithAdmission: RunWithAdmission;
  /** Downloads and uploads outlive their requests. */
  readonly lifetimes: Lifetimes;
  /** The least time between two events of what a page follows. There may be many pages, so rights are read only so often. */
  readonly newsMs: number;
  /** Throws UNAVAILABLE while the service is starting or closing. */
  readonly requireOpen: () => void;
}

const BODY_LIMIT_BYTES = 131_072;

/** The dashboard: its pages, its sessions and the operators’ schema, all below /dashboard. */
export const dashboardPlugin: FastifyPluginAsync<DashboardOptions> = async (app, options) => {
  const { config, services, runWithAdmission, requireOpen } = options;
  const place: Place = { host: config.host, publicUrl: config.publicUrl };
  const sessions = createSessions({ operators: services.operators, publicUrl: config.publicUrl, runWithAdmission });
  await readCookies(app);

  app.addHook('onRequest', async (request, reply) => {
    setPageHeaders(reply);
    refuseMalformedUrl(request);
    requireOwnName(request, place);
  });
  app.setErrorHandler(sendError);

  app.get('/dashboard/config.json', { schema: { hide: true } }, async (request) => ({
    sso: config.oidc !== null,
    passkeys: siteOf(config.publicUrl, request)?.origin ?? null,
    command: COMMAND,
    version: VERSION,
  }));

  app.post('/dashboard/session', {
    schema: { hide: true },
    bodyLimit: 4_096,
    onRequest: async (request) => {
      requireOpen();
      refuseForeign(request);
    },
    handler: (request, reply) => sessions.run(request, () => sessions.logIn(request, reply)),
  });
  servePasskeySignIn(app, {
    services,
    sessions,
    publicUrl: config.publicUrl,
    requireOpen,
  });
  serveGraphQL(app, sessions, options);
  serveStreams(app, createRightOf(sessions, options), options);
  if (config.oidc !== null) {
    const { serveOidc } = await import('./oidc.js');
    const originOf = (request: FastifyRequest) => originIn(request, config);
    await serveOidc(app, { oidc: config.oidc, services, sessions, originOf, requireOpen });
  }
  await servePages(app);
};

/** Where browsers reach the service: as the settings say, or as this request did. */
function originIn({ protocol, host }: FastifyRequest, { publicUrl }: Config): string {
  return publicUrl ?? `${protocol}://${host}`;
}

function serveGraphQL(app: FastifyInstance, sessions: Sessions, options: DashboardOptions): void {
  const { services, requireOpen } = options;
  const documents = engine.createDocumentCache();

  function prepare(parameters: Parameters, tenant: string): PreparedRequest {
    const document = documents.findOrRead(parameters.query, tenant);
    const prepared = engine.prepareRequest(document, parameters);
    if (prepared.operation === null && document.tree !== null) prepared.refusal = [new GraphQLError(NO_OPERATION)];
    return prepared;
  }

  app.post('/dashboard/graphql', {
    schema: { hide: true },
    bodyLimit: BODY_LIMIT_BYTES,
    // Before the body is read.
    onRequest: async (request) => {
      requireOpen();
      const session = await sessions.identify(request);
      if (!isForeign(request)) return;
      await sessions.limits.refusal(session.operator);
      await services.operators.recordRefusal(operatorOf(session), request.id, 'request from another site');
      refuseForeign(request);
    },
    handler: async (request, reply) => {
      const parameters = readParameters(request.body);
      // Reading the document comes in its turn too. Only then is it known what the operation costs, and so its weight in the queue.
      const prepared = await sessions.run(request, async () => prepare(parameters, sessions.queueOf(request)));
      const execute = async () => {
        // Again: the operator may have lost the session while the body arrived, or in the queue.
        const context = await contextOf(request, reply, sessions, options);
        return engine.executeRequest(prepared, context);
      };
      const result = await sessions.run(request, execute, weightOfRequest(prepared));
      if (reply.sent) return reply;
      return reply.type('application/json; charset=utf-8').send(JSON.stringify(result));
    },
    // In the form of GraphQL, as all other answers of this route.
    errorHandler: (error, request, reply) => {
      const failure = fromUnknown(error);
      reportFailure(failure, request);
      const { publicMessage: message, status, headers } = failure;
      reply
        .code(status)
        .headers(headers)
        .send({ errors: [{ message, extensions: extensionsOf(failure, {}) }] });
    },
  });
}

const NO_OPERATION = 'operationName: expected the name of one query or mutation of the document.';

/** The parts of a body, or BAD_USER_INPUT. */
function readParameters(body: unknown): Parameters {
  const { query, variables, operationName } = (body ?? {}) as Record<string, unknown>;
  if (typeof query !== 'string') throw badInput('query', query, 'a GraphQL document');
  if (variables != null && (typeof variables !== 'object' || Array.isArray(variables)))
    throw badInput('variables', variables, 'a JSON object');
  if (operationName != null && (typeof operationName !== 'string' || isTooLong('graphqlName', operationName)))
    throw badInput('operationName', operationName, `the name of an operation, ${atMost('graphqlName')}`);
  return { query, variables: (variables ?? {}) as Record<string, unknown>, operationName: operationName ?? undefined };
}

/** How many transfers an operator has at a time in this process. Each holds a file, at most, as long as its client is slow. */
const TRANSFERS = { inAll: Number.POSITIVE_INFINITY, perHolder: 1 };

function tooManyTransfers(): AppError {
  const message = 'An export or import of yours is running already. Try again when it has ended.';
  return new AppError('UNAVAILABLE', message, { headers: { 'retry-after': '10' } });
}

/** How many pages follow a project in this process, and of one operator. */
const FOLLOWERS = { inAll: 200, perHolder: 10 };

function tooManyFollowers(): AppError {
  return new AppError('RATE_LIMITED', `Too many pages follow projects: ${FOLLOWERS.perHolder} of an operator may.`, {
    headers: { 'retry-after': '10' },
  });
}

/** The right of an operator in the project of a download or an upload. A refusal is recorded. */
function createRightOf(sessions: Sessions, { services, requireOpen, newsMs }: DashboardOptions): RightOf {
  const transfers = createPlaces(TRANSFERS, tooManyTransfers);
  const followers = createPlaces(FOLLOWERS, tooManyFollowers);
  return async (request, permission, use = 'transfer') => {
    const isTransfer = use === 'transfer';
    requireOpen();
    const { appId } = request.params as { appId: string };
    const question = { isUse: isTransfer };
    const scopeOf = (session: ActiveSession) =>
      services.projects[isTransfer ? 'getScope' : 'getEnabledScope'](appId, operatorOf(session));
    const session = await sessions.identify(request, question);
    refuseForeign(request);
    const scope = await sessions.run(request, () => scopeOf(session));
    const recordRefusal = () =>
      services.audit.recordRefusal(scope, request.id, permission === 'operate' ? 'import' : 'export');
    async function permit(): Promise<ProjectScope> {
      const now = await scopeOf(await sessions.require(request, question));
      now.projectIdFor(permission);
      return now;
    }
    if (!scope.permits(permission)) {
      await sessions.limits.refusal(session.operator);
      await recordRefusal();
    }
    scope.projectIdFor(permission);
    if (isTransfer) await sessions.limits.change(session.operator);
    return {
      scope,
      recordRefusal,
      permitWithin: async (tx) =>
        services.projects.requireStill(scope, operatorOf(await sessions.require(request, { tx })), permission),
      terms: {
        tenant: tenantOf(session),
        places: isTransfer ? transfers : followers,
        holder: session.operator,
        permission: `${session.id} ${appId} ${permission} ${use}`,
        permit,
        checkMs: isTransfer ? 0 : newsMs,
        endsAtClose: !isTransfer,
      },
    };
  };
}

/** The scopes of a request, each found once. */
function createScopes({ projects }: Services, operator: DashboardContext['operator']) {
  const scopes = new Map<string, Promise<ProjectScope>>();
  return (appId: string): Promise<ProjectScope> => {
    const known = scopes.get(appId) ?? projects.getScope(appId, operator);
    scopes.set(appId, known);
    return known;
  };
}

async function contextOf(
  request: FastifyRequest,
  reply: FastifyReply,
  sessions: Sessions,
  options: DashboardOptions,
): Promise<DashboardContext> {
  const { config, services, status } = options;
  const session = await sessions.require(request);
  const operator = operatorOf(session);
  return {
    session,
    operator,
    services,
    status,
    request,
    requestId: request.id,
    passkeySite: () => siteOf(config.publicUrl, request),
    dashboardUrl: `${originIn(request, config)}/dashboard`,
    report: (failure) => reportFailure(failure, request, 'A resolver of the dashboard failed.'),
    scopeOf: createScopes(services, operator),
    async renew() {
      // What its time has not begun is not begun any more.
      if (request.hasTimedOut) throw withdrawn();
      return contextOf(request, reply, sessions, options);
    },
    count: {
      change: () => sessions.limits.change(session.operator),
      refusal: () => sessions.limits.refusal(session.operator),
    },
    forgetSession: () => sessions.forget(request, reply),
  };
}

/** Answers `{"error": {"code", "message"}}`: so does everything below /dashboard but GraphQL. */
function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const failure = fromUnknown(error);
  reportFailure(failure, request);
  setCommonHeaders(request, reply);
  reply.code(failure.status).headers(failure.headers).type('application/json; charset=utf-8');
  reply.serializer(JSON.stringify).send({ error: { code: failure.code, message: failure.publicMessage } });
}
