import { createHash } from 'node:crypto';
import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import type { Credentials } from '../domain/projects.js';
import { AppError, COMMAND, unavailable } from '../errors.js';
import { logIds } from './request-log.js';

/** The credentials of the demo project, for a request that may see them on a page; null for any other. */
export type DemoCredentials = (request: FastifyRequest) => Credentials | null;

/** The policy of a page, which may load what `sources` names and send requests to this service only: credentials typed into it stay here. */
export function pagePolicy(sources: Record<string, string>): string {
  const more = Object.entries(sources).map(([kind, source]) => `${kind}-src ${source}; `);
  return `default-src 'none'; connect-src 'self'; img-src 'self' data:; ${more.join('')}base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
}

export interface FrontPageOptions {
  readonly graphiql: boolean;
  readonly dashboard: boolean;
  readonly version: string;
  readonly demoCredentials: DemoCredentials;
}

export const frontPagePlugin: FastifyPluginAsync<FrontPageOptions> = async (app, options) => {
  app.get('/', { schema: { hide: true } }, async (request, reply) =>
    reply
      .type('text/html; charset=utf-8')
      .header('content-security-policy', FRONT_PAGE_POLICY)
      .send(frontPage(request, options)),
  );
};

/** The address of the service as the caller names it. The page puts it into shell commands, so special characters are refused. */
function originOf({ protocol, host }: FastifyRequest): string {
  const scheme = protocol === 'https' ? 'https' : 'http';
  return /^[\w.:[\]-]+$/.test(host) ? `${scheme}://${host}` : 'http://127.0.0.1:4000';
}

/** The service, its readiness, where to go next, and the first call. It has no framework and one script. */
function frontPage(request: FastifyRequest, options: FrontPageOptions): string {
  const { graphiql, dashboard, version, demoCredentials } = options;
  const origin = originOf(request);
  const demo = demoCredentials(request);
  const { appId, appSecret } = demo ?? { appId: '<APP_ID>', appSecret: '<APP_SECRET>' };
  const curl = `curl -s -H 'service-app-id: ${appId}' \\\n  -H 'service-app-secret: ${appSecret}' \\\n `;
  const query = JSON.stringify({ query: '{ users(first: 2) { totalCount nodes { id authValue } } }' });
  const graphqlCall = `-H 'content-type: application/json' \\\n  -d '${query}' \\\n  '${origin}/graphql'`;
  const explorer = graphiql
    ? link(
        '/graphql',
        'GraphQL explorer',
        'GraphiQL with worked examples, completion and the documentation of every field.',
      )
    : `<li><strong>GraphQL</strong><span>At <code>/graphql</code>; the explorer is off (<code>GRAPHIQL</code>).</span></li>`;
  const note = demo
    ? 'These are the credentials of the demo project of this machine: paste a line into a terminal.'
    : `Put in the App ID and the App Secret of a project; <code>${COMMAND} project create --name NAME</code> creates one.`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>userdir</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<header>
<h1>userdir <small>${version}</small></h1>
<p>The users of many projects, over GraphQL and REST at once.</p>
<p role="status"><a id="health" href="/readyz">Is it ready?</a></p>
</header>
<main>
<nav aria-label="Interfaces"><ul>
${explorer}
${link('/docs', 'Documentation', 'Guides, examples, errors and limits, with a search.')}
${link('/docs/reference', 'REST reference', 'All routes with their parameters, answers and errors, which you can try on the page.')}
${dashboard ? link('/dashboard', 'Dashboard', 'For operators: projects, users, secrets, bans and the audit trail. It needs a link to sign in.') : ''}
${link('/openapi.json', 'OpenAPI document', 'OpenAPI 3.1, for generators of clients and for tools.')}
</ul></nav>
<h2>The first call</h2>
<p>${note}</p>
${call('REST: the newest two users', `${curl} '${origin}/server/users?limit=2'`)}
${call('GraphQL: the same, and how many there are', `${curl} ${graphqlCall}`)}
</main>
<footer>For monitors: <a href="/livez">/livez</a> while the process lives, <a href="/readyz">/readyz</a> while it can answer.</footer>
<script>${SCRIPT}</script>
</body>
</html>
`;
}

function link(path: string, name: string, what: string): string {
  return `<li><a href="${path}">${name}</a><span>${what}</span></li>`;
}

function call(title: string, command: string): string {
  return `<figure>
<figcaption>${title}<button type="button">Copy</button></figcaption>
<pre tabindex="0"><code>${escapeHtml(command)}</code></pre>
</figure>`;
}

/** A page with the credentials of the demo project for its scripts. They stand in the page and not in a script, which a page of another site could load. */
export function withDemo(html: string, demo: Credentials): string {
  const meta = `<meta name="demo" content="${escapeHtml(JSON.stringify(demo))}">`;
  return html.replace('</head>', () => `${meta}</head>`);
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

/** The colours of this page and of the documentation are those of the dashboard (dashboard/pages/style.css). */
export const PALETTE = `
:root { color-scheme: light dark; --page: #fff; --text: #1b1b23; --dim: #62626f; --line: #e4e4ea; --edge: #8b8b99; --soft: #f7f7f9; --link: #4f46d6; --good: #0f6b3f; --bad: #b3202e; --mark: #fdf1d8; --string: #0f6b3f; --word: #8a2a8c; font: 16px/1.55 system-ui, sans-serif; color: var(--text); background: var(--page); }
@media (prefers-color-scheme: dark) { :root { --page: #121216; --text: #ececf1; --dim: #a0a0ae; --line: #2b2b34; --edge: #6f6f7d; --soft: #18181d; --link: #a5a0ff; --good: #6fd3a0; --bad: #ff8f99; --mark: #463a12; --string: #8fd3a5; --word: #d8a1f0; } }
`;

const STYLE = `${PALETTE}* { box-sizing: border-box; }
body { max-width: 52rem; margin: 0 auto; padding: clamp(1.5rem, 6vw, 4rem) 1.25rem; }
h1 { margin: 0; font-size: 2rem; letter-spacing: -.02em; }
h1 small { font-size: .9rem; font-weight: normal; letter-spacing: 0; color: var(--dim); }
h2 { margin: 2.5rem 0 0; font-size: 1.2rem; }
p { margin: .4rem 0; }
a { color: var(--link); text-underline-offset: .2em; }
code, pre { font: .85rem/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
#health { display: inline-flex; align-items: center; gap: .5rem; margin-top: .5rem; padding: .15rem .75rem; border: 1px solid var(--line); border-radius: 2rem; color: inherit; font-size: .9rem; text-decoration: none; }
#health::before { content: ''; width: .6rem; height: .6rem; border-radius: 50%; background: var(--dim); }
#health.good::before { background: var(--good); }
#health.bad::before { background: var(--bad); }
nav ul { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); gap: 1rem; margin: 2rem 0 0; padding: 0; list-style: none; }
nav li { position: relative; padding: 1rem 1.1rem; border: 1px solid var(--line); border-radius: .6rem; background: var(--soft); }
nav li:has(a):hover { border-color: var(--link); }
nav a { font-weight: 600; }
nav a::after { content: ''; position: absolute; inset: 0; }
nav span { display: block; color: var(--dim); font-size: .9rem; }
figure { margin: 1.2rem 0 0; border: 1px solid var(--line); border-radius: .6rem; overflow: hidden; }
figcaption { display: flex; justify-content: space-between; align-items: center; gap: 1rem; padding: .45rem .6rem .45rem 1.1rem; border-bottom: 1px solid var(--line); font-size: .9rem; }
button { min-width: 5.5rem; padding: .25rem .7rem; border: 1px solid var(--line); border-radius: .4rem; background: var(--soft); color: inherit; font: inherit; cursor: pointer; }
button:hover { border-color: var(--link); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
pre { margin: 0; padding: .9rem 1.1rem; background: var(--soft); overflow-x: auto; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); color: var(--dim); font-size: .9rem; }
`;

const SCRIPT = `
const health = document.getElementById('health');
async function look() {
  const say = (text, good) => { if (health.textContent !== text) health.textContent = text; health.className = good ? 'good' : 'bad'; };
  try {
    const { ok } = await fetch('/readyz', { cache: 'no-store', signal: AbortSignal.timeout(4000) });
    say(ok ? 'Ready' : 'Not ready: starting, closing, or without its database', ok);
  } catch {
    say('No answer', false);
  }
  setTimeout(look, 5000);
}
look();
for (const button of document.querySelectorAll('button')) {
  button.onclick = async () => {
    const code = button.closest('figure').querySelector('code');
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = 'Copied';
    } catch {
      // The clipboard is for safe origins only: what is selected can be copied by hand.
      getSelection().selectAllChildren(code);
      button.textContent = 'Selected';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  };
}
`;

const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

const FRONT_PAGE_POLICY = pagePolicy({ script: hashOf(SCRIPT), style: hashOf(STYLE) });

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
      const { message, code } = cause as NodeJS.ErrnoException;
      const reason = message || code || 'unknown';
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
