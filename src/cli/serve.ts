import type { Command } from 'commander';
import type { Started } from '../app/serve.js';
import { type Config, findMisspelt, parseConfig } from '../config/config.js';
import { DECLARATIONS } from '../config/settings.js';
import { LINK_MS } from '../domain/bounds.js';
import { inWords } from '../domain/figures.js';
import { COMMAND, counted } from '../errors.js';
import type { Logger } from '../telemetry/logger.js';
import { addCommand } from './arguments.js';
import { type CommandContext, operatorOf } from './rows.js';

export const SETTINGS_HELP = `
Settings are environment variables; docs/configuration.md lists all of them:
  DATABASE_URL     a PostgreSQL database (postgres://…); without it, the embedded database
  EMBEDDED         on: use the embedded database even with NODE_ENV=production
  DATA_DIR         the directory of the embedded database (default: ${DECLARATIONS.DATA_DIR.default})
  HOST, PORT       where serve listens (default: ${DECLARATIONS.HOST.default}, ${DECLARATIONS.PORT.default})
  LOG_LEVEL        the lowest level that serve logs (default: ${DECLARATIONS.LOG_LEVEL.default})
  USERDIR_PROJECT  the project of commands without --project, which a single project does not need

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 this release cannot use the database,
4 try again later.`;

export function addServeCommand(program: Command, { env }: CommandContext): void {
  addCommand(program, {
    name: 'serve',
    description: 'serve GraphQL and REST until SIGINT or SIGTERM',
    help: SETTINGS_HELP,
    examples: ['serve', 'serve --json'],
    takes: [],
  }).action(async ({ json }) => {
    const config = parseConfig(env);
    // Imported here, because every other command starts in half the time without the HTTP server.
    const [{ serve }, { createLogger }] = await Promise.all([
      import('../app/serve.js'),
      import('../telemetry/logger.js'),
    ]);
    const log = createLogger(config.logLevel);
    for (const warning of findMisspelt(env)) log.warn(warning);
    await serve({
      config,
      log,
      operator: operatorOf(config),
      untilStopped: (signal) => untilSignal(log, signal),
      announce: (started) => process.stdout.write(json ? jsonBanner(started) : banner(started, config)),
    });
    log.info('Stopped.');
  });
}

/** npm and many supervisors pass on a signal that has reached the whole group of processes: it arrives twice. */
const SAME_SIGNAL_MS = 1_000;

/**
 * Resolves at the first SIGINT or SIGTERM, or when `other` aborts. Another signal ends the process immediately, unless it is the same one
 * once more.
 */
function untilSignal(log: Logger, other: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    other.addEventListener('abort', () => resolve());
    let first: { readonly signal: NodeJS.Signals; readonly at: number } | null = null;
    const stop = (signal: NodeJS.Signals) => {
      if (first?.signal === signal && performance.now() - first.at < SAME_SIGNAL_MS) return;
      if (first !== null) process.exit(1);
      first = { signal, at: performance.now() };
      log.info(`${signal}: finishing the requests in flight.`);
      resolve();
    };
    process.on('SIGINT', stop);
    process.on('SIGTERM', stop);
  });
}

function banner({ url, dashboardUrl, metricsUrl, demo, projects }: Started, config: Config): string {
  const metrics = metricsUrl === undefined ? '' : `\n    Metrics     ${metricsUrl}`;
  const graphiql = config.graphiql ? ' (GraphiQL in a browser)' : '';
  const database = config.db.engine === 'embedded' ? `embedded, in ${config.db.dataDir}` : 'PostgreSQL';
  const withoutDemo =
    projects === 0
      ? `There is no project yet. Create one: ${COMMAND} project create --name NAME`
      : `${counted(projects, 'project')}. To list them: ${COMMAND} project list`;
  // Lines to paste into a terminal; the examples of the documentation read the same two variables.
  const withDemo =
    demo &&
    `Demo project
    App ID      ${demo.appId}
    App Secret  ${demo.appSecret}

  First request:
    export APP_ID=${demo.appId} APP_SECRET=${demo.appSecret}
    curl -s -u "$APP_ID:$APP_SECRET" '${url}/server/users?limit=2'`;
  const how = dashboardUrl?.includes('#')
    ? `\n                (signs in once, within ${inWords(LINK_MS)}; again: ${COMMAND} dashboard)`
    : ` (sign in: ${COMMAND} dashboard)`;
  const dashboard = dashboardUrl === null ? '' : `\n    Dashboard   ${dashboardUrl}${how}`;
  return `
  userdir is ready.

    Start here  ${url}${dashboard}
    GraphQL     ${url}/graphql${graphiql}
    Guides      ${url}/docs
    REST        ${url}/server (all routes: ${url}/docs/reference)
    Health      ${url}/readyz${metrics}
    Database    ${database}

  ${withDemo ?? withoutDemo}

`;
}

function jsonBanner({ url, dashboardUrl, metricsUrl, demo }: Started): string {
  const value = {
    url,
    graphql: `${url}/graphql`,
    rest: `${url}/server`,
    ...(dashboardUrl !== null && { dashboard: dashboardUrl }),
    ...(metricsUrl !== undefined && { metrics: metricsUrl }),
    demo: demo && { app_id: demo.appId, app_secret: demo.appSecret },
  };
  return `${JSON.stringify(value)}\n`;
}
