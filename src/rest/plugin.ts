import type { FastifyPluginAsync, FastifySchemaCompiler } from 'fastify';
import type { z } from 'zod';
import type { Services } from '../context.js';
import { parse } from '../domain/parse.js';
import { AppError, badInput, fromUnknown } from '../errors.js';
import { type Authenticate, authenticated, CHALLENGE, stillAuthenticated } from '../http/authentication.js';
import { jsonBodyParser } from '../http/body.js';
import {
  codeHeaders,
  type Instead,
  namesIgnoredParameters,
  refuseUnknownRoutes,
  sendFailure,
} from '../http/failures.js';
import { JSON_TYPE } from '../http/media-types.js';
import { userRoutes } from './users.js';
import { BODY_FORM, walletRoutes } from './wallets.js';

/** The largest body that is parsed, without the white space around it. The largest valid body has a fiftieth of it. */
const MAX_JSON_BYTES = 16_384;

/** Users are changed over GraphQL only. */
const INSTEAD: readonly Instead[] = [
  {
    methods: ['POST', 'PUT'],
    path: /^\/server\/users$/,
    sentence: 'To register a user, send recordLogin or createUser over GraphQL.',
  },
  {
    methods: ['PATCH', 'POST', 'PUT'],
    path: /^\/server\/users(\/\d+)?$/,
    sentence: 'To change a user, send updateUser over GraphQL.',
  },
];

/** The REST interface under /server: authentication first, then the six routes. */
export const restPlugin: FastifyPluginAsync<{ services: Services; authenticate: Authenticate }> = async (
  app,
  options,
) => {
  const refuseUnknown = refuseUnknownRoutes(app, INSTEAD);
  app.setNotFoundHandler(refuseUnknown);
  app.addHook('onRequest', authenticated(options.authenticate));
  app.addHook('preHandler', stillAuthenticated(options.authenticate));
  // The services check it too, but only after the parameters, and 401 has to come before every other error.
  app.addHook('onRoute', (route) => {
    const permission = route.config?.permission;
    if (permission === undefined) throw new Error(`The route ${route.url} does not say what permission it needs.`);
    route.onRequest = (request, _reply, done) => {
      request.scope.projectIdFor(permission);
      done();
    };
    const nameIgnored = namesIgnoredParameters(route.schema as { querystring?: z.ZodObject });
    route.preValidation = (request, reply, done) => {
      // A path that ends where its parameter should be.
      if (Object.values(request.params as object).includes('')) refuseUnknown(request);
      nameIgnored(request, reply);
      // Fastify would take it for null.
      const isMissing = route.schema?.body !== undefined && request.body === undefined;
      done(isMissing ? badInput('body', undefined, BODY_FORM) : undefined);
    };
  });
  app.setValidatorCompiler(compileValidator);
  // The response schemas are for the OpenAPI document. The compiler already checks the answers.
  app.setSerializerCompiler(() => JSON.stringify);
  app.setErrorHandler((error, request, reply) => {
    const failure = fromUnknown(error);
    // The spec has 401 for credentials that do not permit the request. The header and the log still tell the code.
    if (failure.code === 'FORBIDDEN' || failure.code === 'PROJECT_DISABLED') {
      const headers = { ...CHALLENGE, ...codeHeaders(failure.code, app.docsOf) };
      sendFailure(new AppError('UNAUTHENTICATED', failure.message, { headers }), request, reply);
      request.failure = failure.code;
      return;
    }
    // A malformed content type gets the same error as any other wrong one.
    if (failure.code !== 'UNSUPPORTED_MEDIA_TYPE') return sendFailure(failure, request, reply);
    return sendFailure(badInput('content-type', request.headers['content-type'], 'application/json'), request, reply);
  });
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, jsonBodyParser(MAX_JSON_BYTES));
  app.addContentTypeParser('*', { parseAs: 'buffer' }, ({ headers, routeOptions }, _body, done) => {
    // A route without a body ignores one.
    const isWrong = routeOptions.schema?.body !== undefined;
    done(isWrong ? badInput('content-type', headers['content-type'], JSON_TYPE) : null, undefined);
  });

  await app.register(userRoutes, { services: options.services });
  await app.register(walletRoutes, { services: options.services });
};

/** Checks parameters by their schema, with the errors of the domain. */
export const compileValidator: FastifySchemaCompiler<z.ZodType> =
  ({ schema }) =>
  (value) => {
    try {
      return { value: parse(schema, value) };
    } catch (error) {
      return { error: fromUnknown(error) };
    }
  };
