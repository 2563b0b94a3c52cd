import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { AppError } from '../errors.js';
import { serveAudit, serveExport } from './downloads.js';
import type { RightOf, StreamOptions } from './transfer.js';
import { serveImport } from './uploads.js';

/*
 * Downloads, uploads and what a page follows, which may be of any length. Nothing that they hold for others waits for the network: a file
 * stands between it and a transaction.
 */

/** The event says that something is new, not what: the page asks as what its operator may see. */
const NEWS = 'data: \n\n';

export function serveStreams(app: FastifyInstance, rightOf: RightOf, options: StreamOptions): void {
  const { services, streams } = options;
  serveExport(app, rightOf, options);
  serveAudit(app, rightOf, options);
  serveImport(app, rightOf, options);

  app.get('/dashboard/projects/:appId/news', {
    schema: { hide: true },
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      const { scope, terms, restMs } = await rightOf(request, 'inspect', 'follow');
      return streams.follow(request, reply, terms, async function* ({ signal, admit }) {
        try {
          for await (const _ of services.changes.watch(scope, signal)) {
            yield await admit(async () => NEWS);
            await sleep(restMs, undefined, { signal });
          }
        } catch (error) {
          // Where it is not admitted, it ends in order: the page connects again.
          if (!signal.aborted && !(error instanceof AppError)) throw error;
        }
      });
    },
  });
}
