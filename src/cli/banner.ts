import type { Config } from '../config/config.js';
import type { Credentials } from '../domain/projects.js';
import { COMMAND } from '../errors.js';
import type { DemoCredentials } from '../http/public-routes.js';
import { counted } from './terminal.js';

/** What a server prints when it answers requests. */
export interface Started {
  readonly url: string;
  /** In demo mode a link that logs in. Null without a dashboard. */
  readonly dashboardUrl: string | null;
  readonly metricsUrl: string | undefined;
  readonly demo: ReturnType<DemoCredentials>;
  /** How many projects there are. */
  readonly projects: number;
}

export function printBanner(started: Started, config: Config, asJson: boolean): void {
  process.stdout.write(asJson ? jsonBanner(started) : banner(started, config));
}

/** Lines to paste into a terminal; the examples of the documentation read the same two variables. */
function firstRequest(url: string, { appId, appSecret }: Credentials): string {
  return `    export APP_ID=${appId} APP_SECRET=${appSecret}
    curl -s -u "$APP_ID:$APP_SECRET" '${url}/server/users?limit=2'`;
}

function banner({ url, dashboardUrl, metricsUrl, demo, projects }: Started, config: Config): string {
  const metrics = metricsUrl === undefined ? '' : `\n    Metrics     ${metricsUrl}`;
  const graphiql = config.graphiql ? ' (GraphiQL in a browser)' : '';
  const database = config.db.engine === 'embedded' ? `embedded, in ${config.db.dataDir}` : 'PostgreSQL';
  const withoutDemo =
    projects === 0
      ? `There is no project yet. Create one: ${COMMAND} project create --name NAME`
      : `${counted(projects, 'project')}. To list them: ${COMMAND} project list`;
  const credentials =
    demo === null
      ? `\n  ${withoutDemo}\n`
      : `
  Demo project
    App ID      ${demo.appId}
    App Secret  ${demo.appSecret}

  First request:
${firstRequest(url, demo)}
`;
  const isLink = dashboardUrl?.includes('#') === true;
  const how = isLink
    ? `\n                (signs in once, within ten minutes; again: ${COMMAND} dashboard)`
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
${credentials}
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
