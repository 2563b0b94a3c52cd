import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import { type DocumentNode, type ExecutionArgs, execute, GraphQLError, getOperationAST } from 'graphql';
import { createYoga, type Plugin, shouldRenderGraphiQL } from 'graphql-yoga';
import { LRUCache } from 'lru-cache';
import type { Authenticate } from '../auth.js';
import { AppError, badInput, fromUnknown } from '../errors.js';
import { type DemoCredentials, refuseMalformedUrl, reportFailure } from '../http.js';
import type { Services } from '../services/services.js';
import type { GraphQLContext } from './builder.js';
import { toGraphQLError } from './errors.js';
import { createExplorer } from './explorer.js';
import { contextOf, createFastPath, type ServerContext } from './fast-path.js';
import { costOf, excess, findExcess, LIMITS, REMEMBERED_TOKENS } from './limits.js';
import { schema } from './schema.js';

export interface GraphQLOptions {
  readonly services: Services;
  readonly authenticate: Authenticate;
  readonly graphiql: boolean;
  /** Credentials that GraphiQL's header editor is filled with; only ever those of the demo project. */
  readonly demoCredentials: DemoCredentials;
}

const METHODS = ['GET', 'POST'];

/** The GraphQL interface at /graphql, with GraphiQL for a browser that comes without a query. */
export const graphqlPlugin: FastifyPluginAsync<GraphQLOptions> = async (app, options) => {
  const { services, authenticate, graphiql, demoCredentials } = options;
  // Of resolvers the errors are masked by executeWithin, which knows the request.
  const maskError = (error: unknown) =>
    toGraphQLError(error, (failure) => app.log.error({ err: failure.cause }, 'A request failed.'));
  const yoga = createYoga<ServerContext, GraphQLContext>({
    schema,
    context: ({ fastify }) => contextOf(fastify, services),
    parserAndValidationCache: { documentCache: rememberDocuments(), errorCache: FORGETFUL },
    plugins: [readDocuments(maskError), executeWithin(maskError)],
    maskedErrors: { maskError },
    // It would log every refused request as an error, with the value that was refused.
    logging: false,
    graphiql: false,
    landingPage: false,
    // A secret does not belong in a browser page of another origin; Fastify limits the body; uploads have no use here.
    cors: false,
    maxRequestBodySize: false,
    multipart: false,
  });

  const fastPath = createFastPath(yoga, services);
  const explore = graphiql ? await createExplorer(services) : null;

  app.setErrorHandler((error, request, reply) => {
    const failure = fromUnknown(error);
    reportFailure(failure, request);
    return reply.code(failure.status).headers(failure.headers).send(toBody(failure));
  });
  app.decorateRequest('operation', null);
  // Whoever asks what an operation costs (src/observe.ts) is told at the end of the answer, whichever way it was made.
  app.addHook('onSend', ({ bill, operation }, _reply, payload, done) => {
    if (!bill || !operation || typeof payload !== 'string') return done();
    const cost = { requested: operation.cost, limit: LIMITS.cost, statements: bill.statements };
    done(null, `${payload.slice(0, -1)},"extensions":${JSON.stringify({ cost })}}`);
  });
  app.route({
    url: '/graphql',
    method: METHODS,
    exposeHeadRoute: false,
    schema: { hide: true },
    onRequest: async (request) => {
      if (!(explore && asksForPage(request))) request.scope = await authenticate(request);
      refuseMalformedUrl(request);
    },
    preHandler: async (request) => {
      if (explore && asksForPage(request)) return;
      refuseMalformedParameters(request);
      acceptJson(request);
    },
    handler: async (request, reply) => {
      if (explore && asksForPage(request)) {
        const { html, policy } = await explore(demoCredentials(request));
        if (reply.sent) return reply;
        return reply.type('text/html; charset=utf-8').header('content-security-policy', policy).send(html);
      }
      const fast = await fastPath.answer({ fastify: request });
      // Too late (src/deadline.ts): Fastify would log the URL of what is sent twice.
      if (reply.sent) return reply;
      if (fast !== null) return reply.type(fast.contentType).send(fast.body);
      const response = await yoga.handleNodeRequestAndResponse(request, reply, { fastify: request });
      if (reply.sent) return reply;
      fastPath.learn(request, response);
      reply.code(response.status).headers(Object.fromEntries(response.headers.entries()));
      return reply.send(await response.text());
    },
  });
  app.route({
    url: '/graphql',
    method: app.supportedMethods.filter((method) => !METHODS.includes(method)),
    schema: { hide: true },
    onRequest: async (request) => {
      await authenticate(request);
      throw new AppError(
        'METHOD_NOT_ALLOWED',
        `${request.method} is not possible here; ${METHODS.join(' and ')} are.`,
        {
          headers: { allow: METHODS.join(', ') },
        },
      );
    },
    handler: () => undefined,
  });
  app.addHook('onClose', () => yoga.dispose());
};

/** Documents that were parsed, as many as have so many tokens: one token takes half a kilobyte. */
function rememberDocuments() {
  return new LRUCache<string, DocumentNode>({
    max: 1_000,
    maxSize: REMEMBERED_TOKENS,
    sizeCalculation: ({ tokenCount = LIMITS.tokens }) => tokenCount,
  });
}

/** What has no syntax is not worth its memory. */
const FORGETFUL = { get: () => undefined, set: () => undefined };

/**
 * Executes what does not cost too much with its variables, of which Yoga's cache of valid documents knows nothing.
 *
 * Yoga's own executor answers fields in the order in which they are resolved; the specification wants that of the query
 * (section 7.2.2), which GraphQL.js keeps. What is not executed at all is left to Yoga's to refuse.
 */
function executeWithin(maskError: (error: unknown) => GraphQLError): Plugin {
  return {
    onExecute({ executeFn, setExecuteFn }) {
      setExecuteFn(async (args: ExecutionArgs) => {
        const { document, operationName, variableValues, contextValue } = args;
        const operation = getOperationAST(document, operationName);
        if (!operation || operation.operation === 'subscription') return executeFn(args);
        const { begin, report } = contextValue as GraphQLContext;
        const cost = costOf(document, operationName, variableValues);
        begin(operation, cost);
        if (cost > LIMITS.cost) return { errors: [maskError(new GraphQLError(excess('cost', cost)))] };
        const result = await execute(args);
        if (!('data' in result)) return executeFn(args);
        return result.errors
          ? { ...result, errors: result.errors.map((error) => toGraphQLError(error, report)) }
          : result;
      });
    },
  };
}

/** Reads a document within its limits, and gives the faults of an invalid one the code of every other bad input: Yoga does not mask these. */
function readDocuments(maskError: (error: unknown) => GraphQLError): Plugin {
  return {
    onParse({ parseFn, setParseFn }) {
      setParseFn((source: unknown, parseOptions: object) => {
        try {
          return parseFn(source, { ...parseOptions, maxTokens: LIMITS.tokens });
        } catch (error) {
          if (error instanceof RangeError) throw tooDeep();
          throw isTooLong(error) ? new GraphQLError(excess('tokens', 'more')) : error;
        }
      });
    },
    onValidate({ validateFn, setValidationFn }) {
      setValidationFn((...parameters) => {
        try {
          const beyond = findExcess(parameters[1]);
          return (beyond === null ? validateFn(...parameters).map(sayMore) : [beyond]).map(maskError);
        } catch (error) {
          if (error instanceof RangeError) return [maskError(tooDeep())];
          throw error;
        }
      });
    },
  };
}

/** Parser and validator recurse as deep as lists and objects nest: the stack is their limit. */
function tooDeep(): GraphQLError {
  return new GraphQLError(excess('depth', 'too many to follow'));
}

/** GraphQL.js has a limit of its own for the comparisons of fields with the same name, which does not say what it is about. */
function sayMore(error: GraphQLError): GraphQLError {
  if (error.message !== 'Validation aborted.') return error;
  return new GraphQLError('repetitions: got more fields of the same name than can be compared, expected each once.');
}

/** The parser has no other sign of it than its sentence. */
function isTooLong(error: unknown): boolean {
  return error instanceof GraphQLError && error.message.includes(`more that ${LIMITS.tokens} tokens`);
}

/**
 * A browser that opens the page, by Yoga's own test: such a request is answered with the page and never executed. The
 * page is public, everything that it asks is not.
 */
function asksForPage({ method, headers }: FastifyRequest): boolean {
  if (method !== 'GET') return false;
  return shouldRenderGraphiQL({ method, headers: new Headers({ accept: headers.accept ?? '' }) } as Request);
}

/** What Yoga would answer with 200, with words about another fault, or as a failure of the service. */
function refuseMalformedParameters({ method, body, query: search }: FastifyRequest): void {
  const parameters = (method === 'GET' ? search : body) as Record<string, unknown> | null | undefined;
  if (typeof parameters?.['query'] !== 'string') {
    throw new AppError('BAD_USER_INPUT', 'query: expected one GraphQL document, in a JSON object or in the URL.');
  }
  const { length } = parameters['query'];
  if (length > LIMITS.characters) throw new AppError('BAD_USER_INPUT', excess('characters', length));
  if (method !== 'GET') return;
  for (const name of ['variables', 'extensions']) {
    const value = parameters[name];
    if (value !== undefined && !isJson(value)) throw badInput(name, value, 'a JSON object');
  }
}

function isJson(text: unknown): boolean {
  try {
    return JSON.parse(text as string) !== undefined;
  } catch {
    return text === '';
  }
}

const JSON_TYPE = /^\s*(application\/json|application\/graphql-response\+json|application\/\*|\*\/\*)\s*(;|$)/i;

/**
 * Every answer is JSON, whatever else the caller would take. Yoga would find out that it has no form for the answer
 * (406) only after it has executed the operation, and would send some as a stream.
 */
function acceptJson({ raw }: FastifyRequest): void {
  const accepted = (raw.headers.accept ?? '').split(',').filter((type) => JSON_TYPE.test(type));
  raw.headers.accept = accepted.join(',') || 'application/json';
}

function toBody(failure: AppError) {
  return { errors: [{ message: failure.publicMessage, extensions: { code: failure.code } }] };
}
