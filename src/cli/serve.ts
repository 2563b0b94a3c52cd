import { mkdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import type { Command } from 'commander';
import type { FastifyInstance } from 'fastify';
import { type Closer, runThenClose } from '../closers.js';
import { VERSION } from '../config/build.js';
import { type Config, findMisspelt, LOOPBACK, parseConfig } from '../config/config.js';
import type { Context } from '../context.js';
import { HeldUpError, isUnreachable, RefusedError } from '../db/failures.js';
import { LOCK_WAIT_MS } from '../db/lock.js';
import { loginLink, type Operator } from '../domain/operators.js';
import type { Credentials } from '../domain/projects.js';
import { AppError } from '../errors.js';
import { hostnameOf, isThroughProxy } from '../http/client-address.js';
import type { Logger } from '../telemetry/logger.js';
import { addCommand, jsonOption } from './arguments.js';
import { printBanner, type Started } from './banner.js';
import { openDemo } from './demo.js';
import { removeCommandFile, writeCommandFile } from './door.js';
import { dashboardUrlOf, operatorOf } from './present.js';
import type { CommandContext } from './rows.js';
import { untilSignal } from './signals.js';
import { withAdvice } from './terminal.js';

export const SETTINGS_HELP = `
Settings are environment variables; docs/configuration.md lists all of them:
  DATABASE_URL  a PostgreSQL database (postgres://…); without it, the embedded database
  EMBEDDED      on: use the embedded database even with NODE_ENV=production
  DATA_DIR      the directory of the embedded database (default: ./data)
  HOST, PORT    where serve listens (default: 127.0.0.1, 4000)
  LOG_LEVEL     the lowest level that serve logs (default: info)

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 this release is too old for the database,
4 try again later.`;

export function addServeCommand(program: Command, { env }: CommandContext): void {
  addCommand(program, {
    name: 'serve',
    description: 'serve GraphQL and REST until SIGINT or SIGTERM',
    help: SETTINGS_HELP,
    examples: ['serve', 'serve --json'],
    takes: [jsonOption()],
  }).action(async ({ json }) => {
    const config = parseConfig(env);
    const { createLogger } = await import('../telemetry/logger.js');
    const log = createLogger(config.logLevel);
    for (const warning of findMisspelt(env)) log.warn(warning);
    await serve(config, log, (started) => printBanner(started, config, json === true));
    log.info('Stopped.');
  });
}

/**
 * V8 places objects in the old generation from the start where most of their kind have survived. After many queries that stay
 * cached, it does so for the syntax trees of all queries, and what they refer to survives with them: a collection then takes
 * 50 ms instead of 2 (docs/decisions/garbage.md).
 */
const GC_FLAGS = '--no-allocation-site-pretenuring';

/** How long closing may take beyond the longest request: http/connections.ts needs two seconds of it, on a machine that is not busy. */
const SHUTDOWN_GRACE_MS = 5_000;

/** Serves until it has to stop; resolves when everything is closed. Calls `announce` when it answers requests. */
async function serve(config: Config, log: Logger, announce: (started: Started) => void): Promise<void> {
  const isEmbedded = config.db.engine === 'embedded';
  // Imported here, because every other command starts in half the time without the HTTP server.
  const [{ createServer }, { createContext }] = await Promise.all([import('../app/app.js'), import('../context.js')]);
  setFlagsFromString(GC_FLAGS);
  const door = isEmbedded ? (await import('../dashboard/door.js')).createDoor() : null;
  const lost = new AbortController();
  const outdated = new AbortController();
  const context = createContext(config, {
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
    onIdleError: (err) => log.warn({ err }, 'A connection to the database broke and will be replaced.'),
    onReplica: (err) =>
      err === null
        ? log.info('Lists are read on the standby of DATABASE_REPLICA_URL.')
        : log.warn({ err }, 'Lists are read on the primary until the standby is good.'),
  });
  let demo: Credentials | null = null;
  let force: NodeJS.Timeout | undefined;
  const closers: Closer[] = [() => clearTimeout(force)];
  async function serveUntilStopped(): Promise<void> {
    closers.push(() => context.close());
    if (door !== null) closers.push(() => (context.isOpen ? removeCommandFile(config.dataDir) : undefined));
    const server = await createServer({
      config,
      log,
      context,
      door,
      examine: async (totals) => {
        const { examinationOf, examineDatabase } = await import('./doctor-database.js');
        return examineDatabase(context, examinationOf(config, totals));
      },
      // A page contains a secret in demo mode only: with the embedded database, on a loopback address, under the name of this machine
      // (the scripts of another site could read the page), and not through a proxy, whose clients are unknown.
      demoCredentials: ({ headers }) =>
        isEmbedded &&
        LOOPBACK.test(config.host) &&
        config.trustProxy === false &&
        LOOPBACK.test(hostnameOf(headers.host)) &&
        !isThroughProxy(headers)
          ? demo
          : null,
    });
    closers.push(() => server.close());
    // Before listening, so that a second server reports who holds the data directory, not that the port is in use.
    await context.lockDataDirectory();
    // That of a server that was killed.
    if (door !== null) await removeCommandFile(config.dataDir);
    // Fastify hands them on to Node.js, and its types do not know the last one.
    const address = { host: config.host, port: config.port, reusePort: config.reusePort };
    const url = await server.listen(address);
    const drained = untilSignal(log, outdated.signal).then(() => drain(server, config));
    const stopped = Promise.race([drained, untilAborted(lost.signal)]);
    // Awaited below; until then a rejection must not count as unhandled.
    stopped.catch(() => undefined);
    if (await openWhenReachable(context, log, url, stopped)) {
      const { schema } = context.release;
      log.info({ version: VERSION, schema }, `Server listening at ${url}`);
      const { inspectMigrations } = await import('../db/migrate.js');
      const { unknown } = await inspectMigrations(context.db.direct);
      if (unknown.length > 0)
        log.warn(
          `A newer userdir has migrated the database, which this one, ${VERSION}, may still serve. Unknown here: ${unknown.join(', ')}.`,
        );
      const dashboardUrl = dashboardUrlOf(config, url);
      if (door !== null) await writeCommandFile(config.dataDir, { url: reachableFromHere(url), token: door.token });
      if (config.demo) await mkdir(config.dataDir, { recursive: true, mode: 0o700 });
      demo = await openDemo(context.services, config.dataDir, config.demo);
      // In demo mode with a link that logs in, so that a first start needs no other command.
      const link = demo && dashboardUrl && (await linkOf(context, operatorOf(config), dashboardUrl));
      announce({
        url,
        dashboardUrl: link ?? dashboardUrl,
        metricsUrl: server.metricsUrl,
        demo,
        projects: await context.services.projects.countProjects(),
      });
    }
    await stopped;
    await server.stopListening();
    outdated.signal.throwIfAborted();
  }
  const work = () =>
    serveUntilStopped()
      .catch((error) => {
        throw lost.signal.aborted ? lost.signal.reason : explainListenFailure(error, config);
      })
      .finally(() => {
        const timeoutMs = config.requestTimeoutMs + SHUTDOWN_GRACE_MS;
        force = setTimeout(() => {
          log.error(`Requests did not finish within ${timeoutMs} ms. Ending them.`);
          process.exit(1);
        }, timeoutMs);
      });
  await runThenClose(work, closers);
}

/** The address of a server for who is on the same machine: one that listens on every address is also reached over loopback. */
function reachableFromHere(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
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

const RETRY_MS = 500;
const TRIES_PER_LOG_LINE = 20;

/** Opens the database, and waits while it cannot be reached, or lacks migrations that others have to apply. Returns false if a signal arrived first. */
async function openWhenReachable(
  context: Context,
  log: Logger,
  url: string,
  stopped: Promise<unknown>,
): Promise<boolean> {
  const stopping = new AbortController();
  const { signal } = stopping;
  const stop = () => stopping.abort();
  stopped.then(stop, stop);
  for (let tries = 0; ; tries += 1) {
    try {
      await context.open({ signal });
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      const isWaiting = error instanceof RefusedError || error instanceof HeldUpError;
      if (!isWaiting && !isUnreachable(error)) throw withAdvice(error);
      const { code, message } = error as NodeJS.ErrnoException;
      const reason = message || code;
      const what = isWaiting ? 'lacks migrations. Until they are applied' : 'cannot be reached. Until it can be';
      if (tries % TRIES_PER_LOG_LINE === 0) log.warn({ reason }, `The database ${what}, ${url} answers 503.`);
    }
    await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return false;
  }
}

/** Names the setting to change if the address or the port cannot be used. */
function explainListenFailure(error: unknown, { host, metricsPort, port: httpPort }: Config): unknown {
  const {
    code,
    syscall,
    hostname,
    port = httpPort,
  } = error as NodeJS.ErrnoException & { hostname?: string; port?: number };
  const setting = port === metricsPort ? 'METRICS_PORT' : 'PORT';
  if (code === 'ENOTFOUND' && hostname === host) return new Error(`HOST ${host} is not an address of this machine.`);
  if (syscall !== 'listen') return error;
  if (code === 'EADDRINUSE')
    return new Error(`Port ${port} on ${host} is in use by another process; set ${setting} to a free one.`);
  if (code === 'EACCES')
    return new Error(`Port ${port} on ${host} is not permitted for this system user; set ${setting} to another port.`);
  if (code === 'EADDRNOTAVAIL') return new Error(`HOST ${host} is not an address of this machine.`);
  return error;
}

/** A link that logs in; null if there are operators, and the person who starts the server is not among them. */
async function linkOf({ services }: Context, operator: Operator, dashboardUrl: string): Promise<string | null> {
  try {
    return loginLink(dashboardUrl, await services.operators.createFirstLink(operator));
  } catch (error) {
    if (error instanceof AppError && error.code === 'NOT_FOUND') return null;
    throw error;
  }
}
