import type { FastifyPluginAsync } from 'fastify';
import type { z } from 'zod';
import { type Authenticate, CHALLENGE } from '../http/authentication.js';
import { AppError, badInput, fromUnknown } from '../errors.js';
import { refuseUnknownRoutes, sendFailure } from '../http/failures.js';
import { refuseMalformedUrl } from '../http/malformed-requests.js';
import { jsonBodyParser } from '../http/body.js';
import { redact } from '../telemetry/redact.js';
import { parse } from '../domain/filters.js';
import type { Services } from '../services/services.js';
import { userRoutes } from './users.js';
import { walletRoutes } from './wallets.js';

/** The largest body that is read, without the white space around it. The largest that is right has a fiftieth of it. */
const BODY_LIMIT_BYTES = 16_384;

/** The REST interface under /server: authentication before anything else, then the six routes. */
export const restPlugin: FastifyPluginAsync<{ services: Services; authenticate: Authenticate }> = async (
  app,
  options,
) => {
  app.addHook('onRequest', async (request) => {
    request.scope = await options.authenticate(request);
    refuseMalformedUrl(request);
  });
  // The services refuse it too, but only after the parameters: 401 comes before every other check.
  app.addHook('onRoute', (route) => {
    const act = route.config?.act;
    if (act === undefined) throw new Error(`The route ${route.url} does not say what scope it takes.`);
    route.onRequest = (request, _reply, done) => {
      request.scope.projectIdFor(act);
      done();
    };
    const { querystring } = (route.schema ?? {}) as { querystring?: z.ZodObject };
    const known = new Set(Object.keys(querystring?.shape ?? {}));
    // Before the parameters are checked, which leaves nothing of the others.
    route.preValidation = (request, reply, done) => {
      const ignored = ignoredParameters(request.query as object, known);
      if (ignored !== '') reply.header('userdir-ignored-parameters', ignored);
      done();
    };
  });
  app.setValidatorCompiler<z.ZodType>(({ schema }) => (value) => {
    try {
      return { value: parse(schema, value) };
    } catch (error) {
      return { error: fromUnknown(error) };
    }
  });
  // The shapes of answers are for the OpenAPI document; the types hold them already.
  app.setSerializerCompiler(() => JSON.stringify);
  app.setErrorHandler((error, request, reply) => {
    const failure = fromUnknown(error);
    // The status that the specification has for credentials which are not good enough.
    if (failure.code === 'FORBIDDEN') {
      const refusal = new AppError('UNAUTHENTICATED', failure.message, { headers: CHALLENGE });
      return sendFailure(refusal, request, reply);
    }
    // A content type that cannot even be parsed is as wrong as any other (design, section 3).
    if (failure.code !== 'UNSUPPORTED_MEDIA_TYPE') return sendFailure(failure, request, reply);
    return sendFailure(badInput('content-type', request.headers['content-type'], 'application/json'), request, reply);
  });
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, jsonBodyParser(app, BODY_LIMIT_BYTES));
  // A body of any other type is a body without the parameters: 400 names what is missing (design, section 3).
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, _body, done) => done(null, undefined));

  app.setNotFoundHandler(refuseUnknownRoutes(app));
  await app.register(userRoutes, { services: options.services });
  await app.register(walletRoutes, { services: options.services });
};

const IGNORED_NAMED = 10;
const NAME_LENGTH = 64;
/** Where the header is this long no other name is added: a proxy may refuse an answer with more than 4 KiB of headers. */
const HEADER_LENGTH = 1_000;

/** The first parameters of a query that the route does not know, percent-encoded, as the header has them. */
function ignoredParameters(query: object, known: ReadonlySet<string>): string {
  let header = '';
  let named = 0;
  for (const name in query) {
    if (name === '' || known.has(name)) continue;
    header += (named === 0 ? '' : ', ') + encodeName(name);
    named += 1;
    if (named === IGNORED_NAMED || header.length >= HEADER_LENGTH) break;
  }
  return header;
}

function encodeName(name: string): string {
  const start = redact(name.slice(0, NAME_LENGTH)).slice(0, NAME_LENGTH);
  // Half of a surrogate pair could not be encoded.
  return encodeURIComponent(start.replace(/[\ud800-\udbff]$/, ''));
}
