import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FastifyInstance } from 'fastify';
import { pagePolicy } from '../http/public-routes.js';

/** Where the build puts the pages: index.html, and files with hashed names in assets/. */
const PAGES_DIR = fileURLToPath(new URL('./pages/', import.meta.url));

/** The page loads its own files only, and sends requests to this service only. */
const POLICY = pagePolicy({ script: "'self'", style: "'self'", font: "'self'" });

const NOT_BUILT = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>userdir</title>
<p>The pages of the dashboard are not built: run <code>npm run build</code>.</p></html>
`;

/** Serves the pages: every path below /dashboard that is nothing else is a screen of the one page. */
export async function servePages(app: FastifyInstance): Promise<void> {
  const index = join(PAGES_DIR, 'index.html');
  const isBuilt = existsSync(index);
  const html = isBuilt ? readFileSync(index) : Buffer.from(NOT_BUILT);
  if (isBuilt) {
    const { default: fastifyStatic } = await import('@fastify/static');
    await app.register(fastifyStatic, {
      root: join(PAGES_DIR, 'assets'),
      prefix: '/dashboard/assets/',
      index: false,
      // A name contains a hash of the content.
      immutable: true,
      maxAge: '365d',
      decorateReply: false,
    });
  }
  for (const url of ['/dashboard', '/dashboard/*']) {
    app.get(url, { schema: { hide: true } }, async (_request, reply) =>
      reply
        .code(isBuilt ? 200 : 503)
        .type('text/html; charset=utf-8')
        .header('content-security-policy', POLICY)
        .header('cache-control', 'no-cache')
        .send(html),
    );
  }
}
