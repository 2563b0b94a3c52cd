import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError, type ErrorCode, fromUnknown } from '../errors.js';
import { logIds } from './request-log.js';

/** How both interfaces and the pages answer a request that fails. */

/** Headers of every answer. */
export function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers({ 'x-request-id': request.id, 'cache-control': 'no-store' });
}

/** Logs a failure that has a cause for the operator. The answer to the caller does not contain that cause. */
export function reportFailure(failure: AppError, request: FastifyRequest, message = 'A request failed.'): void {
  const entry = { ...logIds(request), err: failure.cause };
  if (failure.code === 'INTERNAL_SERVER_ERROR') request.log.error(entry, message);
  else if (failure.code === 'UNAVAILABLE' && failure.cause !== undefined) request.log.warn(entry, message);
}

/** The header of every failure outside GraphQL, with the code that GraphQL has in `extensions.code`. */
export function codeHeader(code: ErrorCode): { 'userdir-error-code': ErrorCode } {
  return { 'userdir-error-code': code };
}

/** Answers `{"error"}` with the status of the error's code. REST uses this form, and so does everything that is not GraphQL. */
export function sendFailure(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const failure = fromUnknown(error);
  reportFailure(failure, request);
  setCommonHeaders(request, reply);
  reply
    .code(failure.status)
    .headers({ ...codeHeader(failure.code), ...failure.headers })
    .type('application/json; charset=utf-8');
  reply.serializer(JSON.stringify).send({ error: failure.publicMessage });
}

/**
 * Returns a handler for what is not found: 405 with the methods of the path, or 404 if the path has none or has this one. It knows the
 * routes that are registered on `app` after this call.
 */
export function refuseUnknownRoutes(app: FastifyInstance): (request: FastifyRequest) => never {
  const routes: { path: RegExp; method: string }[] = [];
  app.addHook('onRoute', ({ url, method }) => {
    const pattern = url.replaceAll('.', '\\.').replaceAll('*', '.*').replace(/:\w+/g, '[^/]+');
    routes.push(...[method].flat().map((each) => ({ path: new RegExp(`^${pattern}$`), method: each })));
  });
  return ({ method, raw }) => {
    const path = (raw.url ?? '').replace(/\?.*$/s, '');
    const allowed = routes.filter((route) => route.path.test(path)).map((route) => route.method);
    // The route of the method has found nothing, such as a file of a page.
    if (allowed.length === 0 || allowed.includes(method))
      throw new AppError('NOT_FOUND', 'There is nothing at this path.');
    const allow = [...new Set(allowed)].join(', ');
    throw new AppError('METHOD_NOT_ALLOWED', `${method} is not allowed here; use ${allow}.`, { headers: { allow } });
  };
}
