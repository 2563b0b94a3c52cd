import { mkdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { createServer } from '../app.js';
import { type Closer, runThenClose } from '../closers.js';
import { type Config, isLoopback } from '../config/config.js';
import { isUnreachable } from '../db/failures.js';
import { LOCK_WAIT_MS } from '../db/lock.js';
import { type Context, createContext } from '../context.js';
import { createLogger, type Logger } from '../telemetry/logger.js';
import type { Credentials } from '../domain/projects.js';
import { controlSocketPath, removeControlSocket, serveControl } from './control.js';
import { openDemo } from './demo.js';

/** How much longer than any request can take the end may take. */
const SHUTDOWN_GRACE_MS = 2_000;

/** Serves until a signal comes; resolves when everything is closed. */
export async function serve(config: Config, asJson: boolean, warnings: readonly string[]): Promise<void> {
  const log = createLogger(config.logLevel);
  for (const warning of warnings) log.warn(warning);
  const isEmbedded = config.db.engine === 'embedded';
  const controlSocket = isEmbedded ? controlSocketPath(config.dataDir) : undefined;
  const lost = new AbortController();
  const directory = createContext(config, {
    command: 'userdir serve',
    lockWaitMs: LOCK_WAIT_MS,
    serving: true,
    onBackgroundFailure: (err, what) => log.warn({ err }, `${what} failed in the background and is tried again.`),
    onLost: (error) => lost.abort(error),
    onDoubt: (sentence) => log.warn(sentence),
    onIdleError: (err) => log.warn({ err }, 'A connection to the database broke and is replaced.'),
    ...(controlSocket && { controlSocket }),
  });
  let demo: Credentials | null = null;
  let force: NodeJS.Timeout | undefined;
  const closers: Closer[] = [() => clearTimeout(force)];
  async function serveUntilStopped(): Promise<void> {
    if (controlSocket !== undefined) closers.push(() => removeControlSocket(controlSocket, config.dataDir));
    closers.push(() => directory.close());
    const server = await createServer({
      config,
      log,
      context: directory,
      // A page contains a secret in demo mode only: embedded, not to be reached from another machine, not under the name of
      // another site, whose scripts could read it, and not by way of a proxy, whose callers could be anybody.
      demoCredentials: ({ headers }) =>
        isEmbedded &&
        isLoopback(config.host) &&
        config.trustProxy === false &&
        isLoopback(hostnameOf(headers.host)) &&
        !Object.keys(headers).some((name) => PROXIED.test(name))
          ? demo
          : null,
    });
    closers.push(() => server.close());
    // First of all, so that a second server hears who has the directory and not that a port is taken.
    await directory.hold();
    const url = await server.listen({ host: config.host, port: config.port });
    const stopped = Promise.race([untilSignal(log), untilAborted(lost.signal)]);
    // Heard of below, when nothing else is under way.
    stopped.catch(() => undefined);
    if (await openWhenReachable(directory, log, stopped)) {
      if (controlSocket !== undefined) {
        const { db, services } = directory;
        const control = await serveControl(controlSocket, config.dataDir, { db, services, applied: [] });
        closers.push(() => control.close());
      }
      if (config.demo) await mkdir(config.dataDir, { recursive: true, mode: 0o700 });
      demo = await openDemo(directory.services, config.dataDir, config.demo);
      const urls = { url, metricsUrl: server.metricsUrl };
      process.stdout.write(asJson ? jsonBanner(urls, demo) : banner(urls, config, demo));
    }
    await stopped;
    server.drain();
    await sleep(config.shutdownDelayMs, undefined, { signal: lost.signal });
  }
  const work = () =>
    serveUntilStopped()
      .catch((error) => {
        throw lost.signal.aborted ? lost.signal.reason : explain(error, config);
      })
      .finally(() => {
        const timeoutMs = config.requestTimeoutMs + SHUTDOWN_GRACE_MS;
        force = setTimeout(() => {
          log.error(`Requests did not finish within ${timeoutMs} ms; ending them.`);
          process.exit(1);
        }, timeoutMs);
      });
  await runThenClose(work, closers);
  log.info('Stopped.');
}

/** What proxies say of whom a request is. */
const PROXIED = /^(forwarded|via|x-real-ip|x-forwarded.*)$/;

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason));
  });
}

function hostnameOf(host = ''): string {
  return host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
}

const RETRY_MS = 500;
const TRIES_A_LINE = 20;

/** Opens the directory, however long its database cannot be reached; false where a signal came before that. */
async function openWhenReachable(directory: Context, log: Logger, stopped: Promise<void>): Promise<boolean> {
  const signal = stopped.then(() => true);
  signal.catch(() => undefined);
  for (let tries = 0; ; tries += 1) {
    try {
      await directory.open();
      return true;
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      const { code, message } = error as NodeJS.ErrnoException;
      const reason = message || code;
      if (tries % TRIES_A_LINE === 0)
        log.warn({ reason }, 'The database cannot be reached; the service comes up as soon as it can.');
    }
    if (await Promise.race([signal, sleep(RETRY_MS, false)])) return false;
  }
}

/** Resolves at the first SIGINT or SIGTERM; a second one ends the process at once. */
function untilSignal(log: { info(message: string): void }): Promise<void> {
  return new Promise((resolve) => {
    let signals = 0;
    const stop = (signal: NodeJS.Signals) => {
      signals += 1;
      if (signals > 1) process.exit(1);
      log.info(`${signal}: finishing the requests in flight.`);
      resolve();
    };
    process.on('SIGINT', stop);
    process.on('SIGTERM', stop);
  });
}

function explain(error: unknown, { host, metricsPort, port: httpPort }: Config): unknown {
  const {
    code,
    syscall,
    hostname,
    port = httpPort,
  } = error as NodeJS.ErrnoException & { hostname?: string; port?: number };
  const setting = port === metricsPort ? 'METRICS_PORT' : 'PORT';
  if (code === 'ENOTFOUND' && hostname === host) return new Error(`HOST ${host} is no address of this machine.`);
  if (syscall !== 'listen') return error;
  if (code === 'EADDRINUSE')
    return new Error(`Port ${port} on ${host} is in use by another process; set ${setting} to a free one.`);
  if (code === 'EACCES')
    return new Error(`Port ${port} on ${host} may not be used by this system user; set ${setting} to another one.`);
  if (code === 'EADDRNOTAVAIL') return new Error(`HOST ${host} is no address of this machine.`);
  return error;
}

/** Lines to paste into a terminal; the examples of the documentation read the same two variables. */
function firstRequest(url: string, { appId, appSecret }: Credentials): string {
  return `    export APP_ID=${appId} APP_SECRET=${appSecret}
    curl -s -u "$APP_ID:$APP_SECRET" '${url}/server/users?limit=2'`;
}

interface Urls {
  readonly url: string;
  readonly metricsUrl: string | undefined;
}

function banner({ url, metricsUrl }: Urls, config: Config, demo: Credentials | null): string {
  const metrics = metricsUrl === undefined ? '' : `\n    Metrics     ${metricsUrl}`;
  const graphiql = config.graphiql ? ' (GraphiQL in a browser)' : '';
  const database = config.db.engine === 'embedded' ? `embedded, in ${config.db.dataDir}` : 'PostgreSQL';
  const credentials =
    demo === null
      ? '\n  Make a project with: userdir project create --name NAME\n'
      : `
  Demo project
    App ID      ${demo.appId}
    App Secret  ${demo.appSecret}

  First request:
${firstRequest(url, demo)}
`;
  return `
  userdir is ready.

    Start here  ${url}
    GraphQL     ${url}/graphql${graphiql}
    REST        ${url}/server (reference: ${url}/docs)
    Health      ${url}/readyz${metrics}
    Database    ${database}
${credentials}
`;
}

function jsonBanner({ url, metricsUrl }: Urls, demo: Credentials | null): string {
  const value = {
    url,
    graphql: `${url}/graphql`,
    rest: `${url}/server`,
    ...(metricsUrl !== undefined && { metrics: metricsUrl }),
    demo: demo && { app_id: demo.appId, app_secret: demo.appSecret },
  };
  return `${JSON.stringify(value)}\n`;
}
