import type { FastifyPluginAsync } from 'fastify';
import { AppError } from '../errors.js';
import { logIds } from './request-log.js';

export interface HealthOptions {
  /** Resolves when the service can answer requests; rejects while it cannot. */
  readonly checkReady: () => Promise<void>;
}

/** `/livez` tells that the process runs, `/readyz` that it can answer requests. */
export const healthPlugin: FastifyPluginAsync<HealthOptions> = async (app, { checkReady }) => {
  app.get('/livez', { schema: { hide: true } }, async () => ({ status: 'alive' }));

  app.get('/readyz', { schema: { hide: true } }, async (request) => {
    try {
      await checkReady();
    } catch (cause) {
      request.log.warn({ ...logIds(request), err: cause }, 'Not ready.');
      throw new AppError('UNAVAILABLE', 'The service is not ready.');
    }
    return { status: 'ready' };
  });
};
