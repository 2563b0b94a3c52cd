import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import { createYoga, type GraphiQLOptions, type Plugin } from 'graphql-yoga';
import type { Authenticate } from '../auth.js';
import { type AppError, fromUnknown } from '../errors.js';
import type { Services } from '../services/services.js';
import type { GraphQLContext } from './builder.js';
import { toGraphQLError } from './errors.js';
import { createFastPath, type ServerContext } from './fast-path.js';
import { schema } from './schema.js';

export interface GraphQLOptions {
  readonly services: Services;
  readonly authenticate: Authenticate;
  readonly graphiql: boolean;
  /** Credentials that GraphiQL's header editor is filled with; only ever those of the demo project. */
  readonly demoCredentials: () => { appId: string; appSecret: string } | null;
}

/** More than any sane operation needs (the introspection query has 300); a longer text is refused before it is parsed further. */
const MAX_TOKENS = 4_000;

/** The GraphQL interface at /graphql, with GraphiQL for a browser that comes without a query. */
export const graphqlPlugin: FastifyPluginAsync<GraphQLOptions> = async (app, options) => {
  const { services, authenticate, graphiql, demoCredentials } = options;
  const yoga = createYoga<ServerContext, GraphQLContext>({
    schema,
    context: ({ fastify }) => ({ scope: fastify.scope, services }),
    plugins: [limitTokens],
    maskedErrors: {
      maskError: (error) =>
        toGraphQLError(error, (failure) => app.log.error({ err: failure.cause }, 'A resolver failed.')),
    },
    // It would log every refused request, with what its caller wrote; maskError above logs what an operator needs.
    logging: false,
    ...(graphiql && { renderGraphiQL: (await import('@graphql-yoga/render-graphiql')).renderGraphiQL }),
    graphiql: graphiql ? () => graphiqlOptions(demoCredentials()) : false,
    landingPage: false,
    // A secret does not belong in a browser page of another origin; Fastify limits the body; uploads have no use here.
    cors: false,
    maxRequestBodySize: false,
    multipart: false,
  });

  const fastPath = createFastPath(yoga);

  app.setErrorHandler((error, request, reply) => {
    const failure = fromUnknown(error);
    if (failure.code === 'INTERNAL_SERVER_ERROR')
      request.log.error({ err: failure.cause }, 'A GraphQL request failed.');
    return reply.code(failure.status).headers(failure.headers).send(toBody(failure));
  });
  app.route({
    url: '/graphql',
    method: ['GET', 'POST'],
    exposeHeadRoute: false,
    schema: { hide: true },
    onRequest: async (request) => {
      if (!(graphiql && asksForPage(request))) request.scope = await authenticate(request);
    },
    handler: async (request, reply) => {
      const fast = await fastPath.answer({ fastify: request });
      if (fast !== null) return reply.type(fast.contentType).send(fast.body);
      const response = await yoga.handleNodeRequestAndResponse(request, reply, { fastify: request });
      fastPath.learn(request, response);
      reply.code(response.status).headers(Object.fromEntries(response.headers.entries()));
      return reply.send(await response.text());
    },
  });
  app.addHook('onClose', () => yoga.dispose());
};

const limitTokens: Plugin = {
  onParse({ parseFn, setParseFn }) {
    setParseFn((source: unknown, parseOptions: object) => parseFn(source, { ...parseOptions, maxTokens: MAX_TOKENS }));
  },
};

/** A browser that opens the page: the page is public, everything that it asks is not. */
function asksForPage({ method, headers, url }: FastifyRequest): boolean {
  return method === 'GET' && (headers.accept ?? '').includes('text/html') && !/[?&]query=/.test(url);
}

function toBody(failure: AppError) {
  return { errors: [{ message: failure.publicMessage, extensions: { code: failure.code } }] };
}

const WELCOME = `# The user directory of one project. Ctrl+Space completes, Ctrl+Enter runs.
query NewestUsers {
  users(first: 10) {
    totalCount
    nodes {
      id
      authMethod
      authValue
      createdAt
      accounts {
        network
        publicKey
        walletType
      }
    }
    pageInfo {
      hasNextPage
      endCursor
    }
  }
}
`;

function graphiqlOptions(demo: { appId: string; appSecret: string } | null): GraphiQLOptions {
  const headers = {
    'service-app-id': demo?.appId ?? '<APP_ID>',
    'service-app-secret': demo?.appSecret ?? '<APP_SECRET>',
  };
  return {
    title: 'userdir GraphiQL',
    favicon: 'data:,',
    defaultQuery: WELCOME,
    headers: JSON.stringify(headers, null, 2),
    // Without this a 401 makes the browser ask for a password in a window of its own.
    credentials: 'omit',
    shouldPersistHeaders: false,
  };
}
