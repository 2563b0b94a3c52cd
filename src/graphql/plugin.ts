import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { parse } from 'graphql';
import { createYoga, type Plugin, shouldRenderGraphiQL } from 'graphql-yoga';
import type { RunWithAdmission } from '../http/admit-requests.js';
import { type Authenticate, authenticated } from '../http/authentication.js';
import { AppError, badInput, fromUnknown } from '../errors.js';
import { reportFailure } from '../http/failures.js';
import type { DemoCredentials } from '../http/front-page.js';
import { refuseMalformedUrl } from '../http/malformed-requests.js';
import { atMost, isTooLong } from '../domain/input-limits.js';
import { createJsonParser, jsonBodyParser, type ParseJson, parseWithAdmission } from '../http/body.js';
import type { Services } from '../services/services.js';
import type { GraphQLContext } from './builder.js';
import { createDocumentCache } from './documents.js';
import { toGraphQLError, toGraphQLErrors } from './errors.js';
import { executeRequest, type Parameters, type PreparedRequest } from './execution.js';
import { createExplorer } from './explorer.js';
import { answerFast } from './fast-path.js';
import { LIMITS } from './limits.js';
import { accepts, EVENT_STREAM, type Streams } from '../http/streams.js';
import { schema } from './schema.js';
import {
  createPersistedQueries,
  createTextFinder,
  readDocumentsDir,
  readGivenDocument,
  warmDocuments,
} from './registered-documents.js';
import { subscriptionEvents } from './subscriptions.js';
import { contextOf, createRequestReader } from './request.js';

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

/** What Yoga makes its context from. */
interface ServerContext {
  readonly fastify: FastifyRequest;
}

const METHODS = ['GET', 'POST'];
const RETRY_SOON = { 'retry-after': '1' };
/** A body holds a document, which has its own limit, and its variables. */
const BODY_LIMIT_BYTES = 262_144;

/** The GraphQL interface at /graphql. A browser that opens it without a query gets GraphiQL. */
export const graphqlPlugin: FastifyPluginAsync<GraphQLOptions> = async (app, options) => {
  const { services, authenticate, runWithAdmission, streams, graphiql, demoCredentials, documentsDir } = options;
  const documents = createDocumentCache();
  const persisted = createPersistedQueries();
  const reader = createRequestReader(documents, persisted);
  const shared = documentsDir === null ? new Map<string, string>() : await readDocumentsDir(documentsDir);
  await warmDocuments(documents, '', shared);
  const findText = createTextFinder({ registered: services.documents, shared, persisted, runWithAdmission });
  app.addHook(
    'onClose',
    services.documents.onRead((appId, texts) => warmDocuments(documents, appId, texts)),
  );
  const yoga = createYoga<ServerContext, GraphQLContext>({
    schema,
    context: ({ fastify }) => contextOf(fastify, services),
    parserAndValidationCache: false,
    plugins: [usePreparedRequest()],
    // executeRequest masks the errors of resolvers, because it knows the request.
    maskedErrors: {
      maskError: (error: unknown) =>
        toGraphQLError(error, (failure) => app.log.error({ err: failure.cause }, 'A request failed.')),
    },
    // Yoga would log each refused request as an error, with the refused value.
    logging: false,
    graphiql: false,
    landingPage: false,
    // No CORS: a secret does not belong in a page of another origin. Fastify limits the body. Uploads are not used.
    cors: false,
    maxRequestBodySize: false,
    multipart: false,
  });
  const explore = graphiql ? await createExplorer(services) : null;
  const parseJson = createJsonParser(app);
  const setScope = authenticated(authenticate);

  app.setErrorHandler((error, request, reply) => {
    const failure = fromUnknown(error);
    reportFailure(failure, request);
    return reply.code(failure.status).headers(failure.headers).send(toBody(failure));
  });
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    parseWithAdmission(jsonBodyParser(app), runWithAdmission),
  );
  // A request with `Userdir-Cost: 1` (http/server-timing.ts) gets its cost at the end of the answer.
  app.addHook('onSend', ({ measuredCost, operation }, _reply, payload, done) => {
    if (!measuredCost || !operation || typeof payload !== 'string') return done();
    const cost = { requested: operation.cost, limit: LIMITS.cost, statements: measuredCost.statements };
    done(null, `${payload.slice(0, -1)},"extensions":${JSON.stringify({ cost })}}`);
  });
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
      const given = request.method === 'GET' ? urlParameters(request, parseJson) : request.body;
      const { accept } = request.raw.headers;
      const { document, ...parameters } = toParameters(given as Record<string, unknown> | null | undefined);
      request.raw.headers.accept = mediaTypeOf(accept);
      const proceed = (query: string) => {
        const { hash } = document;
        request.graphqlParameters = { ...parameters, query, hash, acceptsEvents: accepts(accept, EVENT_STREAM) };
        done();
      };
      const text = findText(request.scope, document);
      if (typeof text === 'string') proceed(text);
      else text.then(proceed, done);
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
  app.addHook('onClose', () => yoga.dispose());

  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { graphql } = request;
    if (graphql === null) {
      const { html, policy } = await (explore as NonNullable<typeof explore>)(demoCredentials(request));
      if (reply.sent) return reply;
      return reply.type('text/html; charset=utf-8').header('content-security-policy', policy).send(html);
    }
    if (graphql.refusal === null && graphql.operation?.node.operation === 'subscription') {
      if (!graphql.acceptsEvents) {
        throw badInput('Accept', request.raw.headers.accept, `${EVENT_STREAM} for a subscription`);
      }
      return streams.send(request, reply, 'changes', (stream) =>
        subscriptionEvents(graphql, contextOf(request, services, stream), stream),
      );
    }
    const body = await answerFast(request, graphql, contextOf(request, services), documents);
    // True if the request timed out (http/request-timeout.ts). Fastify would log the URL of a second answer.
    if (reply.sent) return reply;
    if (body !== null) {
      if (graphql.isUnavailable) reply.code(503).headers(RETRY_SOON);
      return reply.type(`${request.raw.headers.accept}; charset=utf-8`).send(body);
    }
    const response = await yoga.handleNodeRequestAndResponse(request, reply, { fastify: request });
    if (reply.sent) return reply;
    reply.code(response.status).headers(Object.fromEntries(response.headers.entries()));
    if (graphql.isUnavailable) reply.code(503).headers(RETRY_SOON);
    return reply.send(await response.text());
  }
};

/**
 * Drops what a request has read. A request that has waited may lie in the old generation: until the next full collection, V8
 * would keep everything that it refers to, although the request is answered.
 */
function forget(request: FastifyRequest): void {
  request.body = undefined;
  request.graphqlParameters = null;
  request.graphql = null;
}

/** Stands for a document that is not valid. Yoga answers the errors of its validation and does not read it. */
const NO_DOCUMENT = parse('{ __typename }');

/**
 * Hands the prepared request (request.ts) to Yoga, so that Yoga does not read it again. GraphQL.js executes it, because
 * Yoga's own executor answers fields in the order in which they resolve. The specification asks for the order of the
 * query (section 7.2.2).
 */
function usePreparedRequest(): Plugin {
  const preparedOf = (context: unknown) => (context as ServerContext).fastify.graphql as PreparedRequest;
  return {
    onParams({ setParams, context }) {
      const { query, variables, operationName, document } = preparedOf(context);
      setParams({
        query,
        ...(variables && { variables }),
        // NO_DOCUMENT has no operation of that name.
        ...(document.tree !== null && operationName !== undefined && { operationName }),
      });
    },
    onParse({ context, setParsedDocument }) {
      setParsedDocument(preparedOf(context).document.tree ?? NO_DOCUMENT);
    },
    onValidate({ context, setResult }) {
      // Yoga does not mask validation errors.
      setResult(toGraphQLErrors(preparedOf(context).document.errors, () => undefined));
    },
    onExecute({ args, setExecuteFn }) {
      const context = args.contextValue as unknown as GraphQLContext;
      setExecuteFn(() => executeRequest(preparedOf(context), context));
    },
  };
}

/**
 * Whether a browser opens the page, by Yoga's own test. Such a request gets the page and is never executed. The page is
 * public; the requests that it sends need credentials.
 */
function asksForPage({ method, headers }: FastifyRequest): boolean {
  if (method !== 'GET') return false;
  return shouldRenderGraphiQL({ method, headers: new Headers({ accept: headers.accept ?? '' }) } as Request);
}

/** The parameters of a URL, as a body would have them. Two are JSON. An empty parameter counts as absent. */
function urlParameters(request: FastifyRequest, parseJson: ParseJson): Record<string, unknown> {
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
    parameters[name] = parseJson(request, Buffer.from(text), name);
  }
  return parameters;
}

/** Checks the parameters of a request. Throws BAD_USER_INPUT. Yoga would answer some with 200 or name another fault. */
function toParameters(given: Record<string, unknown> | null | undefined) {
  const { variables, operationName, extensions } = given ?? {};
  for (const [name, value] of Object.entries({ variables, extensions })) {
    if (value != null && (typeof value !== 'object' || Array.isArray(value)))
      throw badInput(name, value, 'a JSON object');
  }
  const isName = typeof operationName === 'string' && !isTooLong('graphqlName', operationName);
  if (operationName != null && !isName) {
    throw badInput('operationName', operationName, `the name of an operation, ${atMost('graphqlName')}`);
  }
  return {
    document: readGivenDocument(given ?? {}),
    variables: (variables ?? undefined) as Parameters['variables'],
    operationName: (operationName ?? undefined) as Parameters['operationName'],
  };
}

const MEDIA_TYPES = ['application/json', 'application/graphql-response+json'];
const ANY_JSON = new Set(['application/*', '*/*']);

/**
 * The media type of the answer: the first of the two known types that the Accept header names, otherwise JSON. It is
 * chosen before the request is executed. Yoga would find out only afterwards that it has no type for the answer
 * (406), and would send some answers as a stream. Every answer is UTF-8, even if the header names another charset.
 */
function mediaTypeOf(accept = ''): string {
  for (const each of accept.split(',')) {
    const type = each.replace(/;.*/s, '').trim().toLowerCase();
    if (MEDIA_TYPES.includes(type)) return type;
    if (ANY_JSON.has(type)) break;
  }
  return 'application/json';
}

function toBody(failure: AppError) {
  return { errors: [{ message: failure.publicMessage, extensions: { code: failure.code } }] };
}
