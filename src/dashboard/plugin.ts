import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { GraphQLError } from 'graphql';
import { VERSION } from '../config/build.js';
import { type Config, dashboardUrlOf } from '../config/config.js';
import type { Services } from '../context.js';
import { atMost, isTooLong } from '../domain/input-limits.js';
import type { ProjectScope } from '../domain/projects.js';
import { extensionsOf } from '../engine/errors.js';
import { type Parameters, type PreparedRequest, weightOfRequest } from '../engine/execution.js';
import { AppError, badInput, COMMAND, fromUnknown, withdrawn } from '../errors.js';
import type { Requester } from '../graphql/builder.js';
import { engine as engineOfCallers } from '../graphql/engine.js';
import type { RunWithAdmission } from '../http/admission.js';
import { refuseMalformedUrl, reportFailure, setCommonHeaders } from '../http/failures.js';
import { createPlaces, type Lifetimes, type Streams } from '../http/lifetime.js';
import { createScopes, type DashboardContext, type StatusSource } from './builder.js';
import { contextOfCaller } from './caller.js';
import type { CommandToken } from './command-token.js';
import { engine } from './engine.js';
import { contextOfCommand, executeDocument, readValid } from './execute.js';
import { servePages } from './pages.js';
import { servePasskeySignIn, siteOf } from './passkey-sign-in.js';
import {
  type Asker,
  createSessions,
  isForeign,
  readCookies,
  refuseForeign,
  refuseForeignAsker,
  requireOwnName,
  type ServiceAddress,
  type Sessions,
  setPageHeaders,
} from './session.js';
import { serveStreams } from './streams.js';
import type { RightOf } from './transfer.js';

export interface DashboardOptions {
  readonly config: Config;
  readonly services: Services;
  /** Lets in commands, also where there is no dashboard for people; null where there is nothing for them. */
  readonly commandToken: CommandToken | null;
  readonly status: StatusSource;
  readonly runWithAdmission: RunWithAdmission;
  /** Downloads and uploads outlive their requests. */
  readonly lifetimes: Lifetimes;
  readonly streams: Streams;
  /** The least time between two events of what a page follows. There may be many pages, so rights are read only so often. */
  readonly newsMs: number;
  /** Throws UNAVAILABLE while the service is starting or closing. */
  readonly requireOpen: () => void;
}

const BODY_LIMIT_BYTES = 131_072;

/** The dashboard: its pages, its sessions and the operators’ schema, all below /dashboard. With DASHBOARD=off only the schema, for commands. */
export const dashboardPlugin: FastifyPluginAsync<DashboardOptions> = async (app, options) => {
  const { config, services, runWithAdmission, requireOpen, commandToken } = options;
  const { host, publicUrl } = config;
  const address: ServiceAddress = { host, publicUrl };
  const sessions = createSessions({ operators: services.operators, publicUrl, runWithAdmission, commandToken });
  await readCookies(app);

  app.addHook('onRequest', async (request, reply) => {
    if (!config.dashboard && !sessions.isCommand(request)) return reply.callNotFound();
    setPageHeaders(reply);
    refuseMalformedUrl(request);
    requireOwnName(request, address);
    return undefined;
  });
  app.setErrorHandler(sendError);
  serveGraphQL(app, sessions, options);
  serveStreams(app, createRightOf(sessions, options), options);
  if (!config.dashboard) return;

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
  if (config.oidc !== null) {
    const { serveOidc } = await import('./oidc.js');
    const siteOrigin = (request: FastifyRequest) => publicUrl ?? originOf(request);
    await serveOidc(app, { oidc: config.oidc, services, sessions, originOf: siteOrigin, requireOpen });
  }
  await servePages(app);
};

/** Where a request reached the service. */
const originOf = ({ protocol, host }: FastifyRequest) => `${protocol}://${host}`;

function serveGraphQL(app: FastifyInstance, sessions: Sessions, options: DashboardOptions): void {
  const { services, requireOpen } = options;
  const documents = engine.createDocumentCache();
  const documentsOfCallers = engineOfCallers.createDocumentCache();

  function prepare(parameters: AskedDocument, tenant: string): PreparedRequest {
    const known = parameters.project === undefined ? documents : documentsOfCallers;
    const document = known.findOrRead(parameters.query, tenant);
    const prepared = engine.prepareRequest(document, parameters);
    const kind = prepared.operation?.node.operation;
    const isNone = kind === undefined && document.tree !== null;
    if (isNone || kind === 'subscription') prepared.refusal = [new GraphQLError(NO_OPERATION)];
    return prepared;
  }

  app.post('/dashboard/graphql', {
    schema: { hide: true },
    bodyLimit: BODY_LIMIT_BYTES,
    // Before the body is read.
    onRequest: async (request) => {
      requireOpen();
      const asker = await sessions.identify(request);
      // A command may take as long as it takes.
      if (asker.session === null) endTimeLimit(request);
      if (asker.session === null || !isForeign(request)) return;
      await sessions.limits.refusal(asker);
      await services.operators.recordRefusal(asker.operator, request.id, 'request from another site');
      refuseForeign(request);
    },
    handler: async (request, reply) => {
      const parameters = readParameters(request.body);
      if (sessions.isCommand(request)) return answerCommand(request, parameters);
      // Reading the document comes in its turn too. Only then is it known what the operation costs, and so its weight in the queue.
      const prepared = await sessions.run(request, async () => prepare(parameters, sessions.queueOf(request)));
      const execute = async (addWeight: Requester['addWeight']) => {
        // Again: the operator may have lost the session while the body arrived, or in the queue.
        const context = await contextOf(request, reply, sessions, options);
        const { project } = parameters;
        if (project === undefined) return engine.executeRequest(prepared, context);
        return engine.executeRequest(prepared, await contextOfCaller(context, project, prepared, addWeight));
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

  /** Answers a command, in the queue of commands: with status 200 wherever its document was executed. */
  async function answerCommand(request: FastifyRequest, { query, variables = {}, project }: AskedDocument) {
    const document = await readValid(query, project);
    return sessions.run(request, async () => {
      const { operator } = await sessions.require(request);
      const place = {
        status: options.status,
        dashboardUrl: dashboardUrlOf(options.config, originOf(request)),
        report: (failure: AppError) => reportFailure(failure, request, 'A resolver failed for a command.'),
      };
      try {
        const context = contextOfCommand(services, operator, place);
        return { data: await executeDocument(document, variables, context, project) };
      } catch (error) {
        const { code, publicMessage, cause } = fromUnknown(error);
        // The operator may see the reason of an internal error; a client of the API may not.
        const message = code === 'INTERNAL_SERVER_ERROR' ? (cause as Error).message : publicMessage;
        return { errors: [{ message, extensions: { code } }] };
      }
    });
  }
}

function endTimeLimit(request: FastifyRequest): void {
  request.until = Number.POSITIVE_INFINITY;
  request.socket.setTimeout(0);
}

const NO_OPERATION = 'operationName: expected the name of one query or mutation of the document.';

/** A document of the operators' schema or, with a project, of the public one. */
interface AskedDocument extends Parameters {
  /** An App ID. */
  readonly project: string | undefined;
}

/** The parts of a body, or BAD_USER_INPUT. */
function readParameters(body: unknown): AskedDocument {
  const { query, variables, operationName, project } = (body ?? {}) as Record<string, unknown>;
  if (typeof query !== 'string') throw badInput('query', query, 'a GraphQL document');
  if (variables != null && (typeof variables !== 'object' || Array.isArray(variables)))
    throw badInput('variables', variables, 'a JSON object');
  if (operationName != null && (typeof operationName !== 'string' || isTooLong('graphqlName', operationName)))
    throw badInput('operationName', operationName, `the name of an operation, ${atMost('graphqlName')}`);
  if (project != null && typeof project !== 'string') throw badInput('project', project, 'an App ID');
  return {
    query,
    variables: (variables ?? {}) as Record<string, unknown>,
    operationName: operationName ?? undefined,
    project: project ?? undefined,
  };
}

/** How many transfers an operator has at a time in this process. Each holds a file, at most, as long as its client is slow. */
const TRANSFERS = { inAll: Number.POSITIVE_INFINITY, perHolder: 1 };

function tooManyTransfers(): AppError {
  const message = 'An export or import of yours is running already. Try again when it has ended.';
  return new AppError('UNAVAILABLE', message, { headers: { 'retry-after': '10' } });
}

/** The import of a page waits so long for another one. */
const PAGE_WAIT_MS = 30_000;

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
    const scopeOf = ({ session, operator }: Asker) =>
      services.projects[isTransfer || session === null ? 'getScope' : 'getEnabledScope'](appId, operator);
    const asker = await sessions.identify(request, question);
    const { session, operator } = asker;
    refuseForeignAsker(asker, request);
    const scope = await sessions.run(request, () => scopeOf(asker));
    // A person has one browser, and any number of commands.
    const holder = session === null ? `command ${request.id}` : operator.name;
    const recordRefusal = () =>
      services.audit.recordRefusal(scope, request.id, permission === 'operate' ? 'import' : 'export');
    async function permit(): Promise<ProjectScope> {
      const now = await scopeOf(await sessions.require(request, question));
      now.projectIdFor(permission);
      return now;
    }
    if (!scope.permits(permission)) {
      await sessions.limits.refusal(asker);
      await recordRefusal();
    }
    scope.projectIdFor(permission);
    if (isTransfer) await sessions.limits.change(asker);
    return {
      scope,
      requestId: session === null ? null : request.id,
      recordRefusal,
      // A command asks one question then, where a page asks many.
      restMs: session === null ? 0 : newsMs,
      ...(session !== null && { waitMs: PAGE_WAIT_MS }),
      permitWithin: async (tx) =>
        services.projects.requireStill(scope, (await sessions.require(request, { tx })).operator, permission),
      terms: {
        tenant: sessions.queueOf(request),
        places: isTransfer ? transfers : followers,
        holder,
        permission: `${session?.id ?? holder} ${appId} ${permission} ${use}`,
        permit,
        checkMs: isTransfer ? 0 : newsMs,
        endsAtClose: !isTransfer,
      },
    };
  };
}

async function contextOf(
  request: FastifyRequest,
  reply: FastifyReply,
  sessions: Sessions,
  options: DashboardOptions,
): Promise<DashboardContext> {
  const { config, services, status } = options;
  const asker = await sessions.require(request);
  const { operator, session } = asker;
  return {
    browser: session && {
      session,
      passkeySite: () => siteOf(config.publicUrl, request),
      forgetSession: () => sessions.forget(request, reply),
    },
    operator,
    services,
    status,
    requestId: request.id,
    until: request.until,
    dashboardUrl: dashboardUrlOf(config, originOf(request)),
    report: (failure) => reportFailure(failure, request, 'A resolver of the dashboard failed.'),
    scopeOf: createScopes(services, operator),
    async renew() {
      // What its time has not begun is not begun any more.
      if (request.hasTimedOut) throw withdrawn();
      return contextOf(request, reply, sessions, options);
    },
    count: {
      change: () => sessions.limits.change(asker),
      refusal: () => sessions.limits.refusal(asker),
    },
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
