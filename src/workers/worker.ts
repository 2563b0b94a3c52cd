import cluster from 'node:cluster';
import type { Logger } from '../telemetry/logger.js';
import type { Measurements } from '../telemetry/metrics.js';
import { connect, type PrimaryActions, type Started, type WorkerActions } from './channel.js';

/** The parts of the server that the primary asks for. */
interface Server {
  checkReady(): Promise<void>;
  readMetrics?(): Promise<Measurements>;
}

/** What tells a serving process when to stop, and is told when it serves: the primary process, or this process itself. */
export interface Supervisor {
  /** Resolves when the process has to stop: with the time for which it still accepts requests, or null for the usual one. */
  untilStopped(): Promise<number | null>;
  serve(by: Server): void;
  started(started: Started): Promise<void> | void;
  /** In a worker: rejects unless all workers can answer requests. */
  readonly checkReady?: () => Promise<void>;
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
  const { promise: stopped, stop } = untilTold(log);
  const actions: WorkerActions = {
    checkReady: async () => {
      if (server === undefined) throw new Error('The worker is starting.');
      await server.checkReady();
    },
    readMetrics: async () => (await server?.readMetrics?.()) ?? [],
    stop: async (delayMs) => stop(delayMs),
  };
  const call = connect<PrimaryActions>(
    {
      isConnected: () => worker.isConnected(),
      send: (message, onError) => void process.send?.(message, undefined, undefined, onError),
      onMessage: (listener) => void process.on('message', listener),
      onEnd: (listener) => void process.on('disconnect', listener),
    },
    { ...actions },
  );
  return {
    untilStopped: () => stopped,
    serve: (by) => {
      server = by;
    },
    checkReady: () => call('checkReady'),
    // An answer that comes late is as good.
    started: (started) => call('started', started).catch(() => undefined),
    async leave() {
      if (server?.readMetrics) await call('leaving', await server.readMetrics()).catch(() => undefined);
    },
  };
}

/** The primary decides when workers end. A terminal and systemd send their signals to every process. */
function untilTold(log: Logger) {
  let stop: (delayMs: number | null) => void = () => undefined;
  const promise = new Promise<number | null>((resolve) => {
    stop = resolve;
  });
  for (const signal of ['SIGINT', 'SIGHUP']) process.on(signal, () => undefined);
  process.on('SIGTERM', () => stop(null));
  void promise.then(() => log.info('Finishing the requests in flight.'));
  return { promise, stop };
}
