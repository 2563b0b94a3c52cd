import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import { AppError } from '../errors.js';
import { FRONT_PAGE_POLICY, frontPage } from './front-page.js';
import { type DemoCredentials, idsOf } from './malformed-requests.js';

export interface PagesOptions {
  /** Resolves when the service can answer questions; throws where it cannot. */
  readonly checkReady: () => Promise<void>;
  readonly graphiql: boolean;
  readonly demoCredentials: DemoCredentials;
}

/** What is there beside the two interfaces: the front page and the health routes (design, section 8). */
export const pagesPlugin: FastifyPluginAsync<PagesOptions> = async (app, { checkReady, graphiql, demoCredentials }) => {
  app.get('/livez', { schema: { hide: true } }, async () => ({ status: 'alive' }));

  app.get('/readyz', { schema: { hide: true } }, async (request) => {
    try {
      await checkReady();
    } catch (cause) {
      request.log.warn({ ...idsOf(request), err: cause }, 'Not ready.');
      throw new AppError('UNAVAILABLE', 'The service is not ready.', { cause });
    }
    return { status: 'ready' };
  });

  app.get('/', { schema: { hide: true } }, async (request, reply) =>
    reply
      .type('text/html; charset=utf-8')
      .header('content-security-policy', FRONT_PAGE_POLICY)
      .send(frontPage({ origin: originOf(request), graphiql, demo: demoCredentials(request) })),
  );
};

/** As the caller names the service; the examples are for a shell, so nothing that is special there is repeated. */
function originOf({ protocol, host }: FastifyRequest): string {
  const scheme = protocol === 'https' ? 'https' : 'http';
  return /^[\w.:[\]-]+$/.test(host) ? `${scheme}://${host}` : 'http://127.0.0.1:4000';
}
