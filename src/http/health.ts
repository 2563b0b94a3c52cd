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

  let reported: string | null = null;
  app.get('/readyz', { schema: { hide: true } }, async (request) => {
    try {
      await checkReady();
      reported = null;
    } catch (cause) {
      const { message, code } = cause as NodeJS.ErrnoException;
      const reason = message || code || 'unknown';
      // Load balancers ask every few seconds. One line tells it, until the reason changes.
      if (reason !== reported) request.log.warn({ ...logIds(request), reason }, 'Not ready.');
      reported = reason;
      throw new AppError('UNAVAILABLE', 'The service is not ready.');
    }
    return { status: 'ready' };
  });
};
