import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import type {} from '@fastify/swagger';
import { afterAll, beforeAll } from 'vitest';
import { createServer, type Timeouts } from '#dist/app/app.js';
import { type Config, parseConfig } from '#dist/config/config.js';
import { type Context, createContext } from '#dist/context.js';
import { createCommandToken } from '#dist/dashboard/command-token.js';
import type { ImportReport } from '#dist/domain/import-results.js';
import type { AdmissionOptions } from '#dist/http/admission.js';
import type { StreamLimits } from '#dist/http/lifetime.js';
import { createLogger } from '#dist/telemetry/logger.js';
import type { ImportOptions } from '#dist/users/import-users.js';
import { copyTemplate } from './engines.js';
import { requireCleanLog } from './hygiene.js';
import { requireDocumented } from './openapi.js';
// For the type of `server.swagger`.

/** A running service. Other services may use the same database, with other projects. */
export interface TestApp {
  readonly url: string;
  /** Only with METRICS_PORT. */
  readonly metricsUrl: string;
  readonly context: Context;
  readonly config: Config;
  readonly dataDir: string;
  /** Of its database, for a command that works on it: with `takesCommands`, or on PostgreSQL. */
  readonly settings: Record<string, string>;
  /** The SQL of every statement that the service sends to its database while it runs. */
  readonly statements: string[];
  /** The same of its standby. */
  readonly replicaStatements: string[];
  /** The lines of its log. */
  readonly logged: string[];
  /** Creates a project, with functions that call the service as its backend. */
  createProject(name?: string): Promise<TestProject>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface TestProject {
  readonly appId: string;
  readonly appSecret: string;
  /** The recommended credential headers. */
  readonly credentials: Record<string, string>;
  /** A REST call; `path` is below the base URL. Throws if the OpenAPI document does not describe the answer. */
  rest(path: string, init?: RequestInit): Promise<RestAnswer>;
  /** Sends a GraphQL operation; returns the parsed body with its HTTP status. */
  graphql(query: string, variables?: Record<string, unknown>): Promise<GraphQLAnswer>;
  /** Imports these lines, by default those of new users, and all or none. */
  importLines(lines: readonly object[], options?: Partial<ImportOptions>): Promise<ImportReport>;
  /** Adds users in the import format, all or nothing; throws if one is refused. */
  addUsers(...users: ImportedUser[]): Promise<void>;
}

// biome-ignore lint/suspicious/noExplicitAny: assertions read into bodies, and each would have to narrow the type
export type Json = any;

export interface RestAnswer {
  status: number;
  headers: Headers;
  body: Json;
}

export interface GraphQLAnswer {
  status: number;
  headers: Headers;
  data: Json;
  errors: { message: string; path?: (string | number)[]; extensions: { code: string } }[] | undefined;
}

/** One line of the import format (docs/operating.md). */
export interface ImportedUser {
  auth_method: string;
  auth_value: string;
  email?: string | null;
  wallet?: string | null;
  external_id?: string | null;
  created_at?: string | null;
  last_login?: string | null;
  login_count?: number | null;
  accounts?: { network: string; public_key: string }[] | null;
}

export interface TestAppOptions {
  /** Settings in addition to those of the database. */
  readonly env?: Record<string, string>;
  /** A new database, for tests that other projects' data or an old connection would disturb. */
  readonly ownDatabase?: boolean;
  /** The credentials that GraphiQL shows, as in demo mode. */
  readonly demoCredentials?: () => { appId: string; appSecret: string } | null;
  /** Lower limits for requests in flight and queued, so that a test can reach them. */
  readonly admission?: AdmissionOptions;
  readonly timeouts?: Timeouts;
  readonly streamLimits?: StreamLimits;
  /** Lets commands in while it holds the embedded database. */
  readonly takesCommands?: boolean;
}

/** A service for the tests of the calling file or `describe`. It starts in `beforeAll`. */
export function useTestApp(options: TestAppOptions = {}): TestApp {
  let app: TestApp | undefined;
  beforeAll(async () => {
    app = await startTestApp(options);
  });
  afterAll(() => app?.close());
  return new Proxy({} as TestApp, {
    get(_, key) {
      if (app === undefined) throw new Error('The service of these tests starts in beforeAll.');
      return Reflect.get(app, key);
    },
  });
}

/** Starts a separate service, on the database of this worker unless the options say otherwise. */
export async function startTestApp(options: TestAppOptions = {}): Promise<TestApp> {
  const {
    env = {},
    ownDatabase = false,
    demoCredentials,
    admission,
    timeouts,
    streamLimits,
    takesCommands = false,
  } = options;
  const watcher: Watcher = { statements: [], replicaStatements: [], logged: [] };
  const { context, settings, watchers, close } = await (ownDatabase
    ? openContext(env, takesCommands)
    : openSharedContext());
  watchers.add(watcher);
  const config = parseConfig({ ...settings, PORT: '0', ...env });
  const commandToken = takesCommands && config.db.engine === 'embedded' ? createCommandToken(config.dataDir) : null;
  const server = await createServer({
    config,
    commandToken,
    log: logFor(watcher),
    context,
    ...(demoCredentials && { demoCredentials }),
    ...(admission && { admission }),
    ...(timeouts && { timeouts }),
    ...(streamLimits && { streamLimits }),
  });
  await server.listen({ host: '127.0.0.1', port: 0 });
  const url = `http://127.0.0.1:${(server.server.address() as AddressInfo).port}`;

  await commandToken?.show(url);

  const end = async () => {
    await commandToken?.hide();
    await server.close();
    await (ownDatabase ? close() : settle(context));
    watchers.delete(watcher);
    requireCleanLog(watcher.logged.join(''));
  };

  return {
    url,
    metricsUrl: server.metricsUrl ?? '',
    context,
    config,
    dataDir: config.dataDir,
    settings,
    ...watcher,
    async createProject(name = 'Test') {
      const { appId, appSecret } = await context.services.projects.createProject(name);
      return testProject(url, context, () => server.swagger(), { appId, appSecret });
    },
    close: end,
    [Symbol.asyncDispose]: end,
  };
}

/** What an app records from a database that it may share. */
type Watcher = Pick<TestApp, 'statements' | 'replicaStatements' | 'logged'>;

interface OpenDirectory {
  readonly context: Context;
  readonly settings: Record<string, string>;
  readonly watchers: Set<Watcher>;
  close(): Promise<void>;
}

/** Logs at every level, so that each test also checks that logs contain nothing forbidden. */
function logFor({ logged }: Watcher) {
  return createLogger('trace', { write: (line) => logged.push(line) });
}

/** Shared by the files of a worker, which run in sequence with separate projects. The end of the run removes it. */
let shared: Promise<OpenDirectory> | undefined;

function openSharedContext(): Promise<OpenDirectory> {
  shared ??= openContext({});
  return shared;
}

async function openContext(env: Record<string, string>, takesCommands = false): Promise<OpenDirectory> {
  const database = await copyTemplate();
  const watchers = new Set<Watcher>();
  const context = createContext(parseConfig({ ...database.env, ...env }), {
    command: 'test',
    serving: takesCommands,
    onStatement: (sql, server) => {
      for (const watcher of watchers) watcher[server === 'primary' ? 'statements' : 'replicaStatements'].push(sql);
    },
    onBackgroundFailure: (err, what) => {
      for (const watcher of watchers) logFor(watcher).warn({ err }, what);
    },
  });
  await context.open();
  return {
    context,
    settings: database.env,
    watchers,
    async close() {
      await context.close();
      await database.drop();
    },
  };
}

/** Waits for background work of a file, so that the next file starts with an idle database. */
async function settle({ services }: Context): Promise<void> {
  await services.totals.flush();
  await services.projects.flush();
}

function testProject(
  url: string,
  context: Context,
  openapi: () => Json,
  { appId, appSecret }: { appId: string; appSecret: string },
): TestProject {
  const credentials = { 'service-app-id': appId, 'service-app-secret': appSecret };
  return {
    appId,
    appSecret,
    credentials,
    async rest(path, init = {}) {
      const response = await fetch(url + path, { ...init, headers: { ...credentials, ...(init.headers as object) } });
      const text = await response.text();
      const { status, headers } = response;
      const body = text === '' ? undefined : JSON.parse(text);
      requireDocumented(openapi, { method: init.method ?? 'GET', path, status, headers, body });
      return { status, headers, body };
    },
    async graphql(query, variables) {
      const response = await fetch(`${url}/graphql`, {
        method: 'POST',
        headers: { ...credentials, 'content-type': 'application/json' },
        body: JSON.stringify({ query, variables }),
      });
      const { data, errors } = (await response.json()) as Json;
      return { status: response.status, headers: response.headers, data, errors };
    },
    async importLines(lines, options = {}) {
      return context.services.transfers.importUsers(
        await context.services.projects.getScope(appId),
        Readable.from(lines.map((line) => Buffer.from(`${JSON.stringify(line)}\n`))),
        {
          onConflict: 'fail',
          skipInvalid: false,
          progress: () => undefined,
          signal: new AbortController().signal,
          ...options,
        },
      );
    },
    async addUsers(...users) {
      const report = await this.importLines(users);
      if (report.failed > 0) throw new Error(JSON.stringify(report.errors));
    },
  };
}

/** The lines of an export without the IDs, which an import gives anew. */
export const withoutIds = (ndjson: string): string => ndjson.replaceAll(/^\{"id":\d+,/gm, '{');
