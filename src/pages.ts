import type { FastifyPluginAsync } from 'fastify';
import { AppError } from './errors.js';
import { idsOf } from './http.js';

export interface PagesOptions {
  /** Resolves when the service can answer questions; throws where it cannot. */
  readonly checkReady: () => Promise<void>;
  readonly graphiql: boolean;
}

/** What is there beside the two interfaces: the front page and the health routes (design, section 8). */
export const pagesPlugin: FastifyPluginAsync<PagesOptions> = async (app, { checkReady, graphiql }) => {
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

  app.get('/', { schema: { hide: true } }, async (_request, reply) =>
    reply.type('text/html; charset=utf-8').send(frontPage(graphiql)),
  );
};

function frontPage(graphiql: boolean): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>userdir</title>
    <link rel="icon" href="data:,">
    <style>
      :root { color-scheme: light dark; font: 16px/1.6 system-ui, sans-serif; }
      body { max-width: 38rem; margin: 4rem auto; padding: 0 1.5rem; }
      h1 { font-size: 1.6rem; margin-bottom: 0; }
      li { margin: .4rem 0; }
      code { font-size: .95em; }
    </style>
  </head>
  <body>
    <h1>userdir</h1>
    <p>The users of many projects, over GraphQL and REST at once.</p>
    <ul>
      <li>${graphiql ? '<a href="/graphql">GraphQL</a>: explore it in GraphiQL' : '<code>/graphql</code>: the GraphQL interface'}</li>
      <li><a href="/docs">REST</a>: the routes under <code>/server</code>, and their <a href="/openapi.json">OpenAPI document</a></li>
      <li><a href="/livez">Alive?</a> <a href="/readyz">Ready?</a></li>
    </ul>
    <p>Every call needs the App ID and the App Secret of a project; <code>userdir project create --name NAME</code> makes one.</p>
  </body>
</html>
`;
}
