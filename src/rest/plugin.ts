import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { Authenticate } from '../auth.js';
import { AppError } from '../errors.js';
import { isDecodable } from '../http.js';
import { parse } from '../services/filters.js';
import type { ProjectScope } from '../services/projects.js';
import type { Services } from '../services/services.js';
import { userRoutes } from './users.js';
import { walletRoutes } from './wallets.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** The project whose credentials came with the request; there only behind authentication. */
    scope: ProjectScope;
  }
}

/** The REST interface under /server: authentication before anything else, then the six routes. */
export const restPlugin: FastifyPluginAsync<{ services: Services; authenticate: Authenticate }> = async (
  app,
  options,
) => {
  app.addHook('onRequest', async (request) => {
    request.scope = await options.authenticate(request);
    refuseMalformedUrl(request);
  });
  app.setValidatorCompiler<z.ZodType>(({ schema }) => (value) => {
    try {
      return { value: parse(schema, value) };
    } catch (error) {
      return { error: error as Error };
    }
  });
  // The shapes of answers are for the OpenAPI document; the types hold them already.
  app.setSerializerCompiler(() => JSON.stringify);
  // A body of any other type is a body without the parameters: 400 names what is missing (design, section 3).
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, _body, done) => done(null, undefined));

  const routes = collectRoutes(app);
  await app.register(userRoutes, { services: options.services });
  await app.register(walletRoutes, { services: options.services });
  app.setNotFoundHandler((request) => {
    throw noSuchRoute(routes, request);
  });
};

/** Percent-encoding that is no UTF-8 would otherwise arrive as it was written and be searched for. */
function refuseMalformedUrl({ originalUrl }: FastifyRequest): void {
  if (!isDecodable(originalUrl)) throw new AppError('BAD_USER_INPUT', 'The URL is not percent-encoded UTF-8.');
}

interface Route {
  path: RegExp;
  method: string;
}

/** The routes that are registered from here on. */
function collectRoutes(app: FastifyInstance): Route[] {
  const routes: Route[] = [];
  app.addHook('onRoute', ({ url, method }) => {
    const path = new RegExp(`^${url.replace(/:\w+/g, '[^/]+')}$`);
    routes.push(...[method].flat().map((each) => ({ path, method: each })));
  });
  return routes;
}

/** 405 with the methods that the path has, 404 where it has none. */
function noSuchRoute(routes: Route[], { method, raw }: FastifyRequest): AppError {
  const path = (raw.url ?? '').replace(/\?.*$/s, '');
  const allowed = routes.filter((route) => route.path.test(path)).map((route) => route.method);
  if (allowed.length === 0) return new AppError('NOT_FOUND', 'There is no such route.');
  const allow = [...new Set(allowed)].join(', ');
  return new AppError('METHOD_NOT_ALLOWED', `${method} is not possible here; ${allow} is.`, { headers: { allow } });
}
