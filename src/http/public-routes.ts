import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import type { Credentials } from '../domain/projects.js';
import { AppError, unavailable } from '../errors.js';
import { logIds } from './request-log.js';

/** The credentials of the demo project, for a request that may see them on a page, as long as they are valid; null otherwise. */
export type DemoCredentials = (request: FastifyRequest) => Promise<Credentials | null>;

/** The policy of a page, which may load what `sources` names and send requests to this service only: credentials typed into it stay here. */
export function pagePolicy(sources: Record<string, string>): string {
  const more = Object.entries(sources).map(([kind, source]) => `${kind}-src ${source}; `);
  return `default-src 'none'; connect-src 'self'; img-src 'self' data:; ${more.join('')}base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
}

/** What a page that others have made needs to be one of this site. Its header is as that of the guides (guides/make-guides.js). */
export const SITE = {
  viewport: '<meta name="viewport" content="width=device-width, initial-scale=1">',
  header:
    '<header class="site"><a href="/">userdir</a><nav aria-label="Documentation"><a href="/docs">Documentation</a></nav></header>',
  style: `
.site { display: flex; gap: 16px; align-items: baseline; padding: 12px 20px; border-bottom: 1px solid #8884; font: 15px system-ui, sans-serif; }
.site a { color: inherit; text-decoration: none; white-space: nowrap; }
.site > a { font-weight: 600; }`,
};

/** A page with the credentials of the demo project for its scripts. They stand in the page and not in a script, which a page of another site could load. */
export function withDemo(html: string, demo: Credentials): string {
  const meta = `<meta name="demo" content="${escapeHtml(JSON.stringify(demo))}">`;
  return html.replace('</head>', () => `${meta}</head>`);
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

export interface HealthOptions {
  /** Rejects while requests cannot be answered: with an AppError, whose message may be told, or with any other error. */
  readonly checkReady: () => Promise<void>;
  readonly describe: () => { readonly version: string; readonly schema: string | null };
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** A supervisor or balancer asks it all the time: it is measured apart from requests, and a 503 of it is no failure. */
    isProbe?: true;
  }
}

/** UNAVAILABLE has the reason as its cause. */
function reasonOf(error: unknown): string {
  const { message, code } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
  return message || code || 'unknown';
}

const PROBE = { schema: { hide: true }, config: { isProbe: true } } as const;

/** `/livez` tells that the process runs, `/readyz` that it can answer requests. */
export const healthPlugin: FastifyPluginAsync<HealthOptions> = async (app, { checkReady, describe }) => {
  app.get('/livez', PROBE, async () => ({ status: 'alive' }));

  let reported: string | null = null;
  async function requireReady(request: FastifyRequest): Promise<void> {
    try {
      await checkReady();
      reported = null;
    } catch (cause) {
      const reason = reasonOf(cause);
      // Load balancers ask every few seconds. One line tells it, until the reason changes.
      if (reason !== reported) request.log.warn({ ...logIds(request), reason }, 'Not ready.');
      reported = reason;
      throw unavailable(cause instanceof AppError ? cause.message : 'The service is not ready.');
    }
  }
  app.get('/readyz', PROBE, async (request) => {
    await requireReady(request);
    return { status: 'ready', ...describe() };
  });
  // The check of a balancer that was told no other, also as OPTIONS *.
  app.options('/', PROBE, async (request, reply) => {
    await requireReady(request);
    return reply.code(204).header('allow', 'GET, HEAD, OPTIONS').send();
  });
};
