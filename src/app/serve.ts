import { mkdir, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type Closer, runThenClose } from '../closers.js';
import { VERSION } from '../config/build.js';
import { type Config, dashboardUrlOf, LOOPBACK } from '../config/config.js';
import { isWritableForOthers, othersMayWrite } from '../config/private-files.js';
import { type Context, type ContextOptions, createContext } from '../context.js';
import { createCommandToken } from '../dashboard/command-token.js';
import { explainFailure, mustBeCorrected, withAdvice } from '../db/connection-failures.js';
import { HeldUpError, isUnreachable, RefusedError, toUnavailable } from '../db/failures.js';
import { LOCK_WAIT_MS } from '../db/lock.js';
import { inspectMigrations } from '../db/migrate.js';
import { loginLink, type Operator } from '../domain/operators.js';
import type { Credentials } from '../domain/projects.js';
import { AppError } from '../errors.js';
import { hostnameOf, isThroughProxy } from '../http/client-address.js';
import type { Logger } from '../telemetry/logger.js';
import { createServer } from './app.js';
import { openDemo } from './demo.js';

export interface ServeOptions {
  readonly config: Config;
  readonly log: Logger;
  /** Who starts the server, and may log in to its dashboard. */
  readonly operator: Operator;
  /** Resolves when the server is to stop, or when the signal aborts. */
  readonly untilStopped: (signal: AbortSignal) => Promise<void>;
  /** Is called when the server answers requests. */
  readonly announce: (started: Started) => void;
}

/** What there is when a server answers requests. */
export interface Started {
  readonly url: string;
  /** In demo mode a link that logs in. Null without a dashboard. */
  readonly dashboardUrl: string | null;
  readonly metricsUrl: string | undefined;
  readonly demo: Credentials | null;
  /** How many projects there are. */
  readonly projects: number;
}

/** What ends a server beside a signal. */
interface Ends {
  /** Another process has the data directory. */
  readonly lost: AbortController;
  /** A newer release has migrated the database. */
  readonly outdated: AbortController;
}

/**
 * V8 places objects in the old generation from the start where most of their kind have survived. After many queries that stay
 * cached, it does so for the syntax trees of all queries, and what they refer to survives with them: a collection then takes
 * 50 ms instead of 2 (docs/decisions/garbage.md).
 */
const GC_FLAGS = '--no-allocation-site-pretenuring';

/** Serves until it has to stop; resolves when everything is closed. */
export async function serve(options: ServeOptions): Promise<void> {
  setFlagsFromString(GC_FLAGS);
  const { config, log } = options;
  const ends: Ends = { lost: new AbortController(), outdated: new AbortController() };
  const closers: Closer[] = [];
  const work = () =>
    startAndWait(options, ends, closers)
      .catch((error) => {
        throw ends.lost.signal.aborted ? ends.lost.signal.reason : explainListenFailure(error, config);
      })
      .finally(() => closers.unshift(limitClosing(config, log)));
  await runThenClose(work, closers);
}

/** What a server consists of, in the order in which it is started. What is opened is closed by `closers`, in reverse. */
async function startAndWait(options: ServeOptions, ends: Ends, closers: Closer[]): Promise<void> {
  const { config, log, untilStopped, announce } = options;
  const context = createContext(config, contextOptions(log, ends));
  closers.push(() => context.close());
  const commandToken = config.db.engine === 'embedded' ? createCommandToken(config.dataDir) : null;
  let demo: Credentials | null = null;
  const demoCredentials = (request: FastifyRequest) => (maySeeDemo(request, config) ? demo : null);
  const server = await createServer({ config, log, context, commandToken, demoCredentials });
  closers.push(() => server.close());
  // Before listening, so that a second server reports who holds the data directory, not that the port is in use.
  await context.lockDataDirectory();
  if (commandToken !== null && isWritableForOthers(await stat(config.dataDir)))
    log.warn(`${othersMayWrite(config.dataDir)}. Restrict it: chmod 700 ${config.dataDir}`);
  // That of a server that was killed.
  await commandToken?.hide();
  const drained = untilStopped(ends.outdated.signal).then(() => drain(server, config));
  const stopped = Promise.race([drained, untilAborted(ends.lost.signal)]);
  const stopping = new AbortController();
  const stop = () => stopping.abort();
  // Awaited below; until then a rejection must not count as unhandled.
  stopped.then(stop, stop);
  closers.push(stop);
  let onWaiting = () => {};
  const waits = new Promise<void>((resolve) => {
    onWaiting = resolve;
  });
  const opened = openWhenReachable(context, log, stopping.signal, onWaiting);
  // A proxy that does not ask /readyz sends a request to another process as long as this one takes no connection.
  await Promise.race([opened, waits, sleep(LISTENS_AFTER_MS, undefined, { ref: false })]);
  // Fastify hands them on to Node.js, and its types do not know the last one.
  const address = { host: config.host, port: config.port, reusePort: config.reusePort };
  const url = await server.listen(address);
  if (!context.isOpen) log.info(`Listening at ${url}, and not ready.`);
  if (await opened) {
    await logStart(context, log, url);
    // Another process may have the data directory by then, with a file of its own.
    closers.push(() => (context.isOpen ? commandToken?.hide() : undefined));
    await commandToken?.show(url);
    if (config.demo) await mkdir(config.dataDir, { recursive: true, mode: 0o700 });
    demo = await openDemo(context.services, config.dataDir, config.demo);
    announce(await describeStart(options, context, { url, metricsUrl: server.metricsUrl, demo }));
  }
  await stopped;
  await server.stopListening();
  ends.outdated.signal.throwIfAborted();
}

function contextOptions(log: Logger, { lost, outdated }: Ends): ContextOptions {
  return {
    command: 'userdir serve',
    lockWaitMs: LOCK_WAIT_MS,
    serving: true,
    onBackgroundFailure: (err, what) => log.warn({ err }, `${what} failed in the background and will be retried.`),
    onLost: (error) => lost.abort(error),
    onDoubt: (sentence) => log.warn(sentence),
    onRestored: (sentence) => log.warn(sentence),
    onMigrating: (sentence, isDetail) => (isDetail ? log.debug(sentence) : log.info(sentence)),
    onOutdated: (error) => {
      log.error(error.message);
      outdated.abort(error);
    },
    onIdleError: (err) =>
      log.warn({ err: toUnavailable(err) }, 'A connection to the database broke and will be replaced.'),
    onReplica: (err) =>
      err === null
        ? log.info('Lists are read on the standby of DATABASE_REPLICA_URL.')
        : log.warn({ err }, 'Lists are read on the primary until the standby is good.'),
  };
}

/**
 * A page contains a secret in demo mode only: with the embedded database, on a loopback address, under the name of this machine (the scripts of
 * another site could read the page), and not through a proxy, whose clients are unknown.
 */
function maySeeDemo({ headers }: FastifyRequest, { db, host, trustProxy }: Config): boolean {
  const isOnlyHere = db.engine === 'embedded' && LOOPBACK.test(host) && trustProxy === false;
  return isOnlyHere && LOOPBACK.test(hostnameOf(headers.host)) && !isThroughProxy(headers);
}

async function logStart({ db, release: { schema } }: Context, log: Logger, url: string): Promise<void> {
  log.info({ version: VERSION, schema }, `Server listening at ${url}`);
  const { unknown } = await inspectMigrations(db.direct);
  if (unknown.length > 0)
    log.warn(
      `A newer userdir has migrated the database, which this one, ${VERSION}, may still serve. Unknown here: ${unknown.join(', ')}.`,
    );
}

async function describeStart(
  { config, operator }: ServeOptions,
  { services }: Context,
  listening: Pick<Started, 'url' | 'metricsUrl' | 'demo'>,
): Promise<Started> {
  const dashboardUrl = dashboardUrlOf(config, listening.url);
  // In demo mode with a link that logs in, so that a first start needs no other command.
  const link = listening.demo && dashboardUrl && (await linkOf(services, operator, dashboardUrl));
  return { ...listening, dashboardUrl: link ?? dashboardUrl, projects: await services.projects.countProjects() };
}

/** A link that logs in; null if there are operators, and the person who starts the server is not among them. */
async function linkOf({ operators }: Context['services'], operator: Operator, url: string): Promise<string | null> {
  try {
    return loginLink(url, await operators.createFirstLink(operator));
  } catch (error) {
    if (error instanceof AppError && error.code === 'NOT_FOUND') return null;
    throw error;
  }
}

/** Answers that it is not ready, for as long as a balancer needs to notice. */
async function drain(server: FastifyInstance, { shutdownDelayMs }: Config): Promise<void> {
  if (shutdownDelayMs === 0) return;
  server.drain();
  await sleep(shutdownDelayMs);
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason));
  });
}

/** How long closing may take beyond the longest request: http/connections.ts needs two seconds of it, on a machine that is not busy. */
const SHUTDOWN_GRACE_MS = 5_000;

/** Ends the process if it does not close in time. Returns what calls that off. */
function limitClosing({ requestTimeoutMs }: Config, log: Logger): Closer {
  const timeoutMs = requestTimeoutMs + SHUTDOWN_GRACE_MS;
  const force = setTimeout(() => {
    log.error(`Requests did not finish within ${timeoutMs} ms. Ending them.`);
    process.exit(1);
  }, timeoutMs);
  return () => clearTimeout(force);
}

const RETRY_MS = 500;
const TRIES_PER_LOG_LINE = 20;

/** After so long a server listens while its database is still being opened or migrated: supervisors ask /livez. */
const LISTENS_AFTER_MS = 5_000;

/**
 * Opens the database, and waits while it cannot be reached, or lacks migrations that others have to apply. Calls `onWaiting` then.
 * Returns false if the signal aborts first.
 */
async function openWhenReachable(
  context: Context,
  log: Logger,
  signal: AbortSignal,
  onWaiting: () => void,
): Promise<boolean> {
  for (let tries = 0; ; tries += 1) {
    try {
      await context.open({ signal });
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      const isWaiting = error instanceof RefusedError || error instanceof HeldUpError;
      if (!isWaiting && (mustBeCorrected(error) || !isUnreachable(error))) throw withAdvice(error);
      const reason = explainFailure(error);
      const what = isWaiting ? 'lacks migrations. Until they are applied' : 'cannot be reached. Until it can be';
      if (tries % TRIES_PER_LOG_LINE === 0) log.warn({ reason }, `The database ${what}, requests are answered by 503.`);
      onWaiting();
    }
    await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return false;
  }
}

/** Names the setting to change if the address or the port cannot be used. */
function explainListenFailure(error: unknown, config: Config): unknown {
  const {
    code,
    syscall,
    hostname,
    address = hostname,
    port = config.port,
  } = error as NodeJS.ErrnoException & { hostname?: string; address?: string; port?: number };
  const isOfMetrics = port === config.metricsPort || (address !== config.host && address === config.metricsHost);
  const [prefix, host] = isOfMetrics ? ['METRICS_', config.metricsHost] : ['', config.host];
  const noAddress = new Error(`${prefix}HOST ${host} is not an address of this machine.`);
  if (code === 'ENOTFOUND' && hostname === host) return noAddress;
  if (syscall !== 'listen') return error;
  if (code === 'EADDRINUSE')
    return new Error(`Port ${port} on ${host} is in use by another process; set ${prefix}PORT to a free one.`);
  if (code === 'EACCES')
    return new Error(
      `Port ${port} on ${host} is not permitted for this system user; set ${prefix}PORT to another port.`,
    );
  return code === 'EADDRNOTAVAIL' ? noAddress : error;
}
