import cluster from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { Config } from '../config/config.js';
import type { AskForRequests } from '../domain/requests.js';
import { unavailable } from '../errors.js';
import type { Logger } from '../telemetry/logger.js';
import { connect, type PrimaryActions, type Started, type WorkerActions } from './channel.js';

/** The parts of the server that a supervisor needs. */
type Server = Pick<FastifyInstance, 'drain' | 'stopListening' | 'checkReady' | 'readMetrics' | 'readRequests'>;

/** What tells a serving process when to stop, and is told when it serves: the primary process, or this process itself. */
export interface Supervisor {
  serve(by: Server): void;
  /** Called after `serve`. Resolves when the process has to stop. */
  untilStopped(): Promise<void>;
  started(started: Started): Promise<void> | void;
  /** The database may no longer be used by this release: the service has to stop. */
  outdated(reason: string): void;
  /** In a worker: rejects unless all workers can answer requests. */
  readonly checkReady?: () => Promise<void>;
  /** In a worker: asks all workers which requests they remember. */
  readonly askForRequests?: AskForRequests;
}

interface Primary extends Supervisor {
  /** Hands over what was counted. */
  leave(): Promise<void>;
}

/** The supervisor of a worker. Null in a process that is not a worker. */
export function connectToPrimary(log: Logger): Primary | null {
  const { worker } = cluster;
  if (worker === undefined) return null;
  let server: Server | undefined;
  let stop = () => {};
  const stopped = new Promise<void>((resolve) => {
    stop = resolve;
  });
  const actions: WorkerActions = {
    checkReady: async () => {
      if (server === undefined) throw new Error('The worker is starting.');
      await server.checkReady();
    },
    readMetrics: async () => (await server?.readMetrics?.()) ?? [],
    readRequests: async (question) => server?.readRequests?.(question) ?? null,
    drain: async () => server?.drain(),
    stopListening: async () => server?.stopListening(() => call('turn').catch(() => undefined)),
    stop: async () => {
      log.info('Finishing the requests in flight.');
      stop();
    },
  };
  const call = connect<PrimaryActions>(worker, { ...actions });
  // The primary decides when workers end. A terminal and systemd send their signals to every process.
  for (const signal of ['SIGINT', 'SIGHUP']) process.on(signal, () => undefined);
  process.on('SIGTERM', () => void call('terminated').catch(() => undefined));
  return {
    untilStopped: () => stopped,
    serve: (by) => {
      server = by;
    },
    checkReady: () => call('checkReady'),
    askForRequests: (question) =>
      call('askForRequests', question).catch((cause) => {
        throw unavailable('The workers could not be asked.', cause);
      }),
    // An answer that comes late is as good.
    started: (started) => call('started', started).catch(() => undefined),
    outdated: (reason) => void call('outdated', reason).catch(() => undefined),
    async leave() {
      if (server?.readMetrics) await call('leaving', await server.readMetrics()).catch(() => undefined);
    },
  };
}

/** The supervisor of a process that serves by itself. */
export function alone({ shutdownDelayMs }: Config, log: Logger, started: Supervisor['started']): Supervisor {
  let server: Server | undefined;
  const outdated = new AbortController();
  return {
    serve: (by) => {
      server = by;
    },
    outdated: (reason) => outdated.abort(log.error(reason)),
    async untilStopped() {
      await untilSignal(log, 'finishing the requests in flight', outdated.signal);
      if (shutdownDelayMs === 0) return;
      server?.drain();
      await sleep(shutdownDelayMs);
    },
    started,
  };
}

/** npm and many supervisors pass on a signal that has reached the whole group of processes: it arrives twice. */
export const SAME_SIGNAL_MS = 1_000;

/** Resolves at the first SIGINT or SIGTERM, or when `other` aborts. Another signal ends the process immediately, unless it is the same one once more. */
export function untilSignal(log: Logger, what: string, other?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    other?.addEventListener('abort', () => resolve());
    let first: { readonly signal: NodeJS.Signals; readonly at: number } | null = null;
    const stop = (signal: NodeJS.Signals) => {
      if (first?.signal === signal && performance.now() - first.at < SAME_SIGNAL_MS) return;
      if (first !== null) process.exit(1);
      first = { signal, at: performance.now() };
      log.info(`${signal}: ${what}.`);
      resolve();
    };
    process.on('SIGINT', stop);
    process.on('SIGTERM', stop);
  });
}
