import type { FastifyPluginAsync, FastifyReply, FastifyRequest, onSendHookHandler } from 'fastify';
import { shouldRenderGraphiQL } from 'graphql-yoga';
import type { Services } from '../context.js';
import { atMost, isTooLong } from '../domain/input-limits.js';
import type { HttpRequest } from '../engine/answer.js';
import { extensionsOf } from '../engine/errors.js';
import { answerFast, isPlainPost, type Parameters, type PreparedRequest } from '../engine/execution.js';
import { LIMITS, limitExceeded } from '../engine/limits.js';
import { AppError, badInput } from '../errors.js';
import type { RunWithAdmission } from '../http/admission.js';
import { type Authenticate, authenticated, stillAuthenticated } from '../http/authentication.js';
import { jsonBodyParser, parseJson, parseWithAdmission } from '../http/body.js';
import {
  failureOf,
  helpHeader,
  plainName,
  refuseBrackets,
  refuseMalformedUrl,
  reportFailure,
} from '../http/failures.js';
import type { Streams } from '../http/lifetime.js';
import { accepts, EVENT_STREAM, JSON_TYPE, preferredType } from '../http/media-types.js';
import type { DemoCredentials } from '../http/public-routes.js';
import type { Requester } from './builder.js';
import { contextOf } from './context.js';
import { engine } from './engine.js';
import { createExplorer, type Explorer } from './explorer.js';
import {
  createPersistedQueries,
  createRequestReader,
  createTextFinder,
  readDocumentsDir,
  readGivenDocument,
  warmDocuments,
} from './request.js';
import { keepSubscription, subscriptionEvents } from './subscriptions.js';

export interface GraphQLOptions {
  readonly services: Services;
  readonly authenticate: Authenticate;
  readonly runWithAdmission: RunWithAdmission;
  readonly streams: Streams;
  readonly graphiql: boolean;
  /** Credentials for GraphiQL's header editor. Only those of the demo project are ever shown. */
  readonly demoCredentials: DemoCredentials;
  /** The directory of documents that all projects may name; null for none. */
  readonly documentsDir: string | null;
}

const METHODS = ['GET', 'POST'];
/** A body holds a document, which has its own limit, and its variables. */
const BODY_LIMIT_BYTES = 262_144;

/** The GraphQL interface at /graphql. A browser that opens it without a query gets GraphiQL. */
export const graphqlPlugin: FastifyPluginAsync<GraphQLOptions> = async (app, options) => {
  const { services, authenticate, runWithAdmission, streams, graphiql, demoCredentials, documentsDir } = options;
  const documents = engine.createDocumentCache();
  const persisted = createPersistedQueries();
  const reader = createRequestReader(documents, persisted);
  const answerer = engine.createAnswerer({
    report: ({ cause: err }) => app.log.error({ err }, 'A request failed.'),
    docsOf: services.docsOf,
  });
  const shared = documentsDir === null ? new Map<string, string>() : await readDocumentsDir(documentsDir);
  await warmDocuments(documents, shared);
  const findText = createTextFinder(shared, persisted);
  const explore = graphiql ? createExplorer(services) : null;
  const setScope = authenticated(authenticate);

  app.setErrorHandler((error, request, reply) => sendFailure(failureOf(error, request), request, reply, services));
  app.addHook('preHandler', stillAuthenticated(authenticate));
  app.removeContentTypeParser('application/json');
  const parseBody = parseWithAdmission(jsonBodyParser(), runWithAdmission);
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    request.json = body;
    parseBody(request, body, done);
  });
  app.addHook('onSend', addCost);
  app.route({
    url: '/graphql',
    method: METHODS,
    exposeHeadRoute: false,
    bodyLimit: BODY_LIMIT_BYTES,
    schema: { hide: true },
    config: { weight: reader.weigh, begin: reader.read },
    onRequest(request, reply, done) {
      if (!(explore && asksForPage(request))) return setScope.call(app, request, reply, done);
      refuseMalformedUrl(request);
      done();
    },
    preValidation(request, _reply, done) {
      if (explore && asksForPage(request)) return done();
      const arrived = request.method === 'GET' ? urlParameters(request) : bodyParameters(request);
      const { accept } = request.raw.headers;
      const { document, ...parameters } = toParameters(arrived as Record<string, unknown> | null | undefined);
      request.raw.headers.accept = mediaTypeOf(accept);
      request.graphqlParameters = {
        ...parameters,
        query: findText(request.scope.appId, document),
        hash: document.hash,
        isPlain: isPlainPost(request.method, arrived as object),
        accept,
      };
      done();
    },
    handler: async (request, reply) => {
      try {
        return await answer(request, reply);
      } finally {
        forget(request);
      }
    },
  });
  app.route({
    url: '/graphql',
    method: app.supportedMethods.filter((method) => !METHODS.includes(method)),
    schema: { hide: true },
    onRequest: async (request) => {
      await authenticate(request);
      throw new AppError('METHOD_NOT_ALLOWED', `${request.method} is not allowed here; use ${METHODS.join(' or ')}.`, {
        headers: { allow: METHODS.join(', ') },
      });
    },
    handler: () => undefined,
  });
  app.addHook('onClose', () => answerer.dispose());

  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const prepared = request.graphql;
    if (prepared === null) return answerPage(explore as Explorer, await demoCredentials(request), reply);
    const requester = requesterOf(request);
    if (prepared.refusal === null && prepared.operation?.node.operation === 'subscription') {
      requireStream(request);
      const subscription = keepSubscription(prepared);
      return streams.send(request, reply, 'changes', (stream) =>
        subscriptionEvents(subscription, { requester, documents, services, stream }),
      );
    }
    const context = contextOf(requester, prepared, services);
    const data = await answerFast(prepared, context, documents);
    const asked = httpRequestOf(request);
    const { status, headers, body, failure } =
      data === null || prepared.isUnavailable
        ? await answerer.answer(asked, prepared, context, data)
        : answerOf(asked, data, prepared);
    // True if the request timed out (http/connections.ts). Fastify would log the URL of a second answer.
    if (reply.sent) return reply;
    request.failure = failure;
    return reply.code(status).headers(headers).send(body);
  }
};

/** Answers with GraphiQL, and the credentials that it may show. */
async function answerPage(
  explore: Explorer,
  credentials: Awaited<ReturnType<DemoCredentials>>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { html, policy } = await explore(credentials);
  if (reply.sent) return reply;
  return reply.type('text/html; charset=utf-8').header('content-security-policy', policy).send(html);
}

/** Answers a request that failed before it was executed. */
function sendFailure(
  failure: AppError,
  request: FastifyRequest,
  reply: FastifyReply,
  { docsOf }: Pick<Services, 'docsOf'>,
): FastifyReply {
  reportFailure(failure, request);
  const type = mediaTypeOf(request.raw.headers.accept);
  const body = { errors: [{ message: failure.publicMessage, extensions: extensionsOf(failure, { docsOf }) }] };
  return reply
    .code(statusOf(failure, type))
    .headers({ ...helpHeader(docsOf(failure.code)), ...failure.headers, 'content-type': `${type}; charset=utf-8` })
    .send(JSON.stringify(body));
}

/** Adds its cost at the end of the answer to a request with `Userdir-Cost: 1`. */
const addCost: onSendHookHandler<unknown> = ({ headers, operation, graphql }, _reply, payload, done) => {
  if (headers['userdir-cost'] !== '1' || !operation) return done();
  const cost = { requested: operation.cost, limit: graphql?.operation?.costLimit ?? LIMITS.cost };
  const extensions = `,"extensions":${JSON.stringify({ cost })}}`;
  if (typeof payload === 'string') done(null, payload.slice(0, -1) + extensions);
  else if (Buffer.isBuffer(payload)) done(null, Buffer.concat([payload.subarray(0, -1), Buffer.from(extensions)]));
  else done();
};

/** Refuses a subscription whose caller takes no stream, or which is so long that the stream would keep much. */
function requireStream({ graphqlParameters, raw, json, url }: FastifyRequest): void {
  if (!accepts(graphqlParameters?.accept, EVENT_STREAM))
    throw badInput('Accept', raw.headers.accept, `${EVENT_STREAM} for a subscription`);
  const { length } = json ?? url;
  if (length > LIMITS.subscriptionBytes)
    throw new AppError('PAYLOAD_TOO_LARGE', limitExceeded('subscriptionBytes', length));
}

function requesterOf(request: FastifyRequest): Requester {
  return {
    id: request.id,
    scope: request.scope,
    until: request.until,
    addWeight(units) {
      if (!request.addWeight(units)) throw new AppError('REQUEST_TIMEOUT', 'No client waits for the answer.');
    },
    report: (failure) => reportFailure(failure, request, 'A resolver failed.'),
  };
}

/** The answer of a request that has data. */
const answerOf = ({ accept }: HttpRequest, body: string, { failure }: PreparedRequest) => ({
  status: 200,
  headers: { 'content-type': `${accept}; charset=utf-8` },
  body,
  failure,
});

function httpRequestOf({ method, url, raw, json }: FastifyRequest): HttpRequest {
  return { method, url, accept: raw.headers.accept as string, body: json };
}

/** Drops what a request has read. One that has waited may be in the old generation, where V8 keeps what it refers to until the next full collection. */
function forget(request: FastifyRequest): void {
  request.body = undefined;
  request.json = null;
  request.graphqlParameters = null;
  request.graphql = null;
}

/** True if a browser opens the page, by Yoga's own test. The page is public, and its request is not executed; the requests that it sends need credentials. */
function asksForPage({ method, headers }: FastifyRequest): boolean {
  if (method !== 'GET') return false;
  return shouldRenderGraphiQL({ method, headers: new Headers({ accept: headers.accept ?? '' }) } as Request);
}

/** The parameters of a body. Variables in the URL are refused: without its `$userId`, a question would be about any user. */
function bodyParameters({ query, body }: FastifyRequest): unknown {
  if (Object.keys(query as object).some((name) => plainName(name) === 'variables'))
    throw new AppError('BAD_USER_INPUT', 'variables: got them in the URL, expected them in the body of a POST.');
  if (Array.isArray(body))
    throw new AppError(
      'BAD_USER_INPUT',
      'The body is a list. Batches of operations are not supported: send each operation in a request of its own.',
    );
  return body;
}

const URL_PARAMETERS = ['query', 'documentId', 'operationName', 'variables', 'extensions'];

/** The parameters of a URL, as a body would have them. Two are JSON. An empty parameter counts as absent. */
function urlParameters(request: FastifyRequest): Record<string, unknown> {
  refuseBrackets(request.query, URL_PARAMETERS);
  const { query, documentId, operationName, ...given } = request.query as Record<string, unknown>;
  const parameters: Record<string, unknown> = {
    query,
    documentId,
    operationName: operationName === '' ? undefined : operationName,
  };
  for (const name of ['variables', 'extensions']) {
    const text = given[name];
    if (text === undefined || text === '') continue;
    if (typeof text !== 'string') throw badInput(name, text, 'a JSON object');
    parameters[name] = parseJson(Buffer.from(text), name);
  }
  return parameters;
}

/** Checks the parameters of a request. Throws BAD_USER_INPUT. Yoga would answer some with 200 or name another fault. */
function toParameters(parameters: Record<string, unknown> | null | undefined) {
  const { variables, operationName, extensions } = parameters ?? {};
  requireObject('variables', variables);
  requireObject('extensions', extensions);
  const isName = typeof operationName === 'string' && !isTooLong('graphqlName', operationName);
  if (operationName != null && !isName) {
    throw badInput('operationName', operationName, `the name of an operation, ${atMost('graphqlName')}`);
  }
  return {
    document: readGivenDocument(parameters ?? {}),
    variables: (variables ?? undefined) as Parameters['variables'],
    operationName: (operationName ?? undefined) as Parameters['operationName'],
  };
}

function requireObject(name: string, value: unknown): void {
  if (value != null && (typeof value !== 'object' || Array.isArray(value)))
    throw badInput(name, value, 'a JSON object');
}

const GRAPHQL_TYPES = [JSON_TYPE, 'application/graphql-response+json'];

/** The Accept header of the last request, and its media type. The next one is nearly always the same, and is not read again. */
let last = { accept: '', type: JSON_TYPE };

/**
 * The media type of the answer: that of the two which the Accept header prefers, otherwise JSON, always in UTF-8. It is chosen before execution:
 * Yoga would find out only afterwards that it has no type for the answer (406), and would send some answers as a stream.
 */
function mediaTypeOf(accept = ''): string {
  if (accept !== last.accept) last = { accept, type: preferredType(accept, GRAPHQL_TYPES) ?? JSON_TYPE };
  return last.type;
}

/** The status of a failure. Clients of automatic persisted queries that take JSON only expect 200 for an unknown hash. */
function statusOf({ code, status }: AppError, type: string): number {
  return code === 'PERSISTED_QUERY_NOT_FOUND' && type === JSON_TYPE ? 200 : status;
}
