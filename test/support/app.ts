import type { AddressInfo } from 'node:net';
// For the type of `server.swagger`.
import type {} from '@fastify/swagger';
import { afterAll, beforeAll } from 'vitest';
import type { AdmissionOptions } from '#dist/http/admission.js';
import type {} from '#dist/request.js';
import { createServer, type Timeouts } from '#dist/app.js';
import { parseConfig } from '#dist/config/config.js';
import { type Context, createContext } from '#dist/context.js';
import { createLogger } from '#dist/telemetry/logger.js';
import { copyTemplate } from './engines.js';
import { requireCleanLog } from './hygiene.js';
import { requireDocumented } from './openapi.js';

/** A running service. Others may be on the same database, with projects of theirs. */
export interface TestApp {
  readonly url: string;
  /** With METRICS_PORT. */
  readonly metricsUrl: string;
  readonly context: Context;
  readonly dataDir: string;
  /** The SQL of every statement that Prisma has issued on its database, as long as it runs. */
  readonly statements: string[];
  /** The lines of its log. */
  readonly logged: string[];
  /** A new project, with the ways to call the service as its backend. */
  createProject(name?: string): Promise<TestProject>;
  close(): Promise<void>;
}

export interface TestProject {
  readonly appId: string;
  readonly appSecret: string;
  /** The recommended headers. */
  readonly credentials: Record<string, string>;
  /** A REST call; `path` is below the base address. Throws where the answer is none that the OpenAPI document describes. */
  rest(path: string, init?: RequestInit): Promise<RestAnswer>;
  /** A GraphQL operation; the parsed body, with its HTTP status. */
  graphql(query: string, variables?: Record<string, unknown>): Promise<GraphQLAnswer>;
  /** Adds users by the import format, all or nothing; throws where one is refused. */
  addUsers(...users: ImportedUser[]): Promise<void>;
}

// biome-ignore lint/suspicious/noExplicitAny: bodies are looked into by assertions, which would each have to narrow them
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
  created_at?: string | null;
  last_login?: string | null;
  login_count?: number | null;
  accounts?: { network: string; public_key: string }[] | null;
}

export interface TestAppOptions {
  /** Settings beside those of the database. */
  readonly env?: Record<string, string>;
  /** A database that no other file has used: for what other projects' data, or the age of a connection, would change. */
  readonly ownDatabase?: boolean;
  /** The credentials that GraphiQL shows, as in demo mode. */
  readonly demoCredentials?: () => { appId: string; appSecret: string } | null;
  /** How much may be under way and wait, where a test has less to offer than the service can take. */
  readonly admission?: AdmissionOptions;
  readonly timeouts?: Timeouts;
}

/** A service for the tests of the file or the `describe` that asks for it. It is there from its `beforeAll` on. */
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

/** A service of one's own, on the database of this worker unless the options say otherwise. */
export async function startTestApp(options: TestAppOptions = {}): Promise<TestApp> {
  const { env = {}, ownDatabase = false, demoCredentials, admission, timeouts } = options;
  const watcher: Watcher = { statements: [], logged: [] };
  const { context, settings, watchers, close } = await (ownDatabase ? openContext(env) : openSharedContext());
  watchers.add(watcher);
  const config = parseConfig({ ...settings, PORT: '0', ...env });
  const server = await createServer({
    config,
    log: logFor(watcher),
    context,
    ...(demoCredentials && { demoCredentials }),
    ...(admission && { admission }),
    ...(timeouts && { timeouts }),
  });
  await server.listen({ host: '127.0.0.1', port: 0 });
  const url = `http://127.0.0.1:${(server.server.address() as AddressInfo).port}`;

  return {
    url,
    metricsUrl: server.metricsUrl ?? '',
    context,
    dataDir: config.dataDir,
    ...watcher,
    async createProject(name = 'Test') {
      const { appId, appSecret } = await context.services.projects.createProject(name);
      return testProject(url, context, () => server.swagger(), { appId, appSecret });
    },
    async close() {
      await server.close();
      await (ownDatabase ? close() : settle(context));
      watchers.delete(watcher);
      requireCleanLog(watcher.logged.join(''));
    },
  };
}

/** What an app is told of the database that it may share. */
type Watcher = Pick<TestApp, 'statements' | 'logged'>;

interface OpenDirectory {
  readonly context: Context;
  readonly settings: Record<string, string>;
  readonly watchers: Set<Watcher>;
  close(): Promise<void>;
}

/** Everything is logged, so that whatever a test does is seen to leave nothing in a log that should not be there. */
function logFor({ logged }: Watcher) {
  return createLogger('trace', { write: (line) => logged.push(line) });
}

/** The files of a worker run one after the other, and every test has a project of its own. The end of the run removes it. */
let shared: Promise<OpenDirectory> | undefined;

function openSharedContext(): Promise<OpenDirectory> {
  shared ??= openContext({});
  return shared;
}

async function openContext(env: Record<string, string>): Promise<OpenDirectory> {
  const database = await copyTemplate();
  const watchers = new Set<Watcher>();
  const context = createContext(parseConfig({ ...database.env, ...env }), {
    command: 'test',
    onStatement: (sql) => {
      for (const { statements } of watchers) statements.push(sql);
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

/** Waits for what a file has left to do in the background, so that the next one finds the database at rest. */
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
    async addUsers(...users) {
      const lines = users.map((user) => `${JSON.stringify(user)}\n`).join('');
      const report = await context.services.transfers.importUsers(
        await context.services.projects.getScope(appId),
        toChunks(lines),
        { onConflict: 'fail', skipInvalid: false, progress: () => undefined, signal: new AbortController().signal },
      );
      if (report.failed > 0) throw new Error(JSON.stringify(report.errors));
    },
  };
}

async function* toChunks(text: string): AsyncGenerator<Buffer> {
  yield Buffer.from(text);
}
