import { type ChildProcess, type ChildProcessWithoutNullStreams, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, inject } from 'vitest';
import { parseConfig } from '#dist/config/config.js';
import { type Context, createContext } from '#dist/context.js';
import type { Json } from './app.js';
import { copyTemplate, type TestDatabase } from './engines.js';
import { requireCleanLog } from './hygiene.js';
import { requireDocumentedBy } from './openapi.js';

/** The `userdir` command as an operator runs it: a process, its streams and its exit code. */
export const CLI: string = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));

const HOST = fileURLToPath(new URL('./command-host.mjs', import.meta.url));

/** The command line to run: the build, unless a test gives another. */
export type Command = readonly [file: string, ...args: string[]];
const BUILD: Command = [process.execPath, CLI];

/** The command as if a person looked on: `migrate` then tells each step when it begins. */
export const lookingOn = ([node, ...cli]: Command): Command => [
  node,
  '--import',
  'data:text/javascript,process.stderr.isTTY = true',
  ...cli,
];

export interface Outcome {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export type Settings = Record<string, string>;

/** Only the settings of a test: a DATABASE_URL of the machine must not reach the command. */
function environment(settings: Settings): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', LOG_LEVEL: 'trace', OPERATOR: 'tester', ...settings };
}

/** Starts the command in a new process. */
export function spawnUserdir(
  settings: Settings,
  args: readonly string[],
  [file, ...before]: Command = BUILD,
): ChildProcessWithoutNullStreams {
  const child = spawn(file, [...before, ...args], { env: environment(settings) });
  // A command may end before it has read its input; the test checks its outcome instead.
  child.stdin.on('error', () => undefined);
  return child;
}

/** Collects the output of a process; resolves when it ends. Rejects if stderr contains what no log may contain. */
export async function outcomeOf(child: ChildProcessWithoutNullStreams): Promise<Outcome> {
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const [code, signal] = await once(child, 'close');
  requireCleanLog(stderr);
  return { code, signal, stdout, stderr };
}

/** Idle processes that have run a command and can run another. */
const idleHosts: ChildProcess[] = [];
/** What each writes to its own stderr, once it has ended. */
const lastWords = new WeakMap<ChildProcess, Promise<string>>();

/** Runs the command to its end: `serve` in a new process, others in a reused process (command-host.mjs). */
export async function userdir(
  settings: Settings,
  args: readonly string[],
  input: string | Buffer = '',
): Promise<Outcome> {
  if (args[0] === 'serve') {
    const child = spawnUserdir(settings, args);
    child.stdin.end(input);
    return outcomeOf(child);
  }
  const host = idleHosts.pop() ?? startHost();
  host.send({ entry: CLI, args, settings: environment(settings), input });
  const outcome = await answerOf(host);
  idleHosts.push(host);
  requireCleanLog(outcome.stderr);
  return outcome;
}

function startHost(): ChildProcess {
  const host = fork(HOST, { stdio: ['ignore', 'inherit', 'pipe', 'ipc'], serialization: 'advanced', execArgv: [] });
  host.unref();
  host.channel?.unref();
  const stderr = host.stderr as Socket;
  stderr.unref();
  lastWords.set(host, text(stderr));
  return host;
}

function answerOf(host: ChildProcess): Promise<Outcome> {
  const ended = new AbortController();
  const { signal } = ended;
  return Promise.race([
    once(host, 'message', { signal }).then(([outcome]) => outcome),
    once(host, 'exit', { signal }).then(async ([code]) => {
      throw new Error(`The command's process ended with ${code}: ${await lastWords.get(host)}`);
    }),
  ]).finally(() => ended.abort());
}

/** The value that the command prints with `--json`; throws unless it succeeds and prints exactly one line. */
export async function userdirJson(settings: Settings, args: readonly string[], input?: string): Promise<Json> {
  const { code, stdout, stderr } = await userdir(settings, [...args, '--json'], input);
  if (code !== 0) throw new Error(`userdir ${args.join(' ')} ended with ${code}: ${stderr}`);
  if (!/^[^\n]+\n$/.test(stdout)) throw new Error(`userdir ${args.join(' ')} printed ${JSON.stringify(stdout)}`);
  return JSON.parse(stdout);
}

/** A project as `project create --json` prints it. */
export interface Credentials {
  readonly app_id: string;
  readonly app_secret: string;
}

export interface RunningServer {
  readonly url: string;
  /** Only with METRICS_PORT. */
  readonly metricsUrl: string;
  readonly demo: Credentials | null;
  /** In demo mode a link that logs in; absent without a dashboard. */
  readonly dashboard: string | undefined;
  readonly process: ChildProcessWithoutNullStreams;
  /** Resolves when the process ends. */
  readonly outcome: Promise<Outcome>;
  /** Resolves when the log on stderr contains `text`. */
  logged(text: string): Promise<void>;
  /** Ends the process with a signal. */
  stop(signal?: NodeJS.Signals): Promise<Outcome>;
}

/** Starts `userdir serve` on a free port; resolves when it is ready. */
export async function startServer(settings: Settings, command?: Command): Promise<RunningServer> {
  const child = spawnUserdir({ PORT: '0', ...settings }, ['serve', '--json'], command);
  const outcome = outcomeOf(child);
  const [first] = await Promise.race([
    once(child.stdout, 'data'),
    outcome.then(({ code, stderr }) => Promise.reject(new Error(`The server ended with ${code}: ${stderr}`))),
  ]);
  const { url, metrics: metricsUrl, demo, dashboard } = JSON.parse(String(first));
  let log = '';
  child.stderr.on('data', (text: string) => {
    log += text;
  });
  return {
    url,
    metricsUrl,
    demo,
    dashboard,
    process: child,
    outcome,
    async logged(text) {
      while (!log.includes(text)) await once(child.stderr, 'data');
    },
    stop(signal = 'SIGTERM') {
      child.kill(signal);
      return outcome;
    },
  };
}

/** A timestamp as the command writes it. */
export const TIMESTAMP: RegExp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** Works on a database as no command does, while no server runs on an embedded one. */
export async function withDirectory<Result>(
  settings: Settings,
  work: (directory: Context) => Promise<Result>,
): Promise<Result> {
  const directory = createContext(parseConfig(settings), { command: 'test' });
  await directory.open();
  return work(directory).finally(() => directory.close());
}

/** A folder, which goes with the run. */
export const makeFolder = () => mkdtempSync(join(inject('run').folder, 'folder-'));

/** A database for the tests of the calling file or `describe`, or one for each of them. */
export function useDatabase(often: 'once' | 'for each' = 'once'): Pick<TestDatabase, 'env'> {
  const [before, after] = often === 'once' ? [beforeAll, afterAll] : [beforeEach, afterEach];
  let database: TestDatabase;
  before(async () => {
    database = await copyTemplate();
  });
  after(() => database.drop());
  return {
    get env() {
      return database.env;
    },
  };
}

/** A server, and the command on the same database, for the tests of the calling file or `describe`. */
export function useServer({
  settings = {},
  fill,
}: {
  settings?: Settings;
  fill?: (directory: Context) => Promise<unknown>;
} = {}) {
  const database = useDatabase();
  let server: RunningServer;
  let env: Settings;
  beforeAll(async () => {
    env = { ...database.env, ...settings };
    if (fill !== undefined) await withDirectory(env, fill);
    server = await startServer({ ...env, DEMO: 'off' });
  });
  afterAll(() => server.stop());
  const runJson = (...args: string[]): Promise<Json> => userdirJson(env, args);
  return {
    url: () => server.url,
    metricsUrl: () => server.metricsUrl,
    settings: () => env,
    run: (...args: string[]) => userdir(env, args),
    runJson,
    /** The command with standard input. */
    runWith: (input: string | Buffer, ...args: string[]) => userdir(env, args, input),
    createProject: (): Promise<Credentials> => runJson('project', 'create', '--name', 'Test'),
  };
}

/** The values of NDJSON. */
export const linesOf = (text: string): Json[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

/** All users of a project as REST lists them. */
export async function listUsers(url: string, project: Credentials): Promise<Json[]> {
  const users: Json[] = [];
  for (let page = 1; ; page += 1) {
    const { result } = (await call(url, project, `/server/users?limit=100&page=${page}`)).body;
    users.push(...result.users);
    if (result.users.length < 100) return users;
  }
}

/** Calls the service with a project's credentials; throws if the OpenAPI document does not describe a REST answer. */
export async function call(
  url: string,
  credentials: Credentials,
  path: string,
  init: RequestInit = {},
): Promise<{ status: number; headers: Headers; body: Json }> {
  const headers = {
    'service-app-id': credentials.app_id,
    'service-app-secret': credentials.app_secret,
    ...(init.body === undefined ? {} : { 'content-type': 'application/json' }),
    ...(init.headers as Record<string, string> | undefined),
  };
  const response = await fetch(url + path, { ...init, headers });
  const { status } = response;
  const body = await response.json();
  await requireDocumentedBy(url, { method: init.method ?? 'GET', path, status, headers: response.headers, body });
  return { status, headers: response.headers, body };
}

const RECORD_LOGIN =
  'mutation ($input: RecordLoginInput!, $key: String) { recordLogin(input: $input, idempotencyKey: $key) { created user { id authValue loginCount } } }';

export function recordLogin(
  url: string,
  credentials: Credentials,
  input: Record<string, unknown>,
  key: string | null = null,
): ReturnType<typeof call> {
  const body = JSON.stringify({ query: RECORD_LOGIN, variables: { input, key } });
  return call(url, credentials, '/graphql', { method: 'POST', body });
}

/** Records a login, and returns the ID of its user. */
export async function logIn(url: string, credentials: Credentials, input: Record<string, unknown>): Promise<number> {
  return Number((await recordLogin(url, credentials, input)).body.data.recordLogin.user.id);
}
