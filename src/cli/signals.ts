import type { Logger } from '../telemetry/logger.js';

/** npm and many supervisors pass on a signal that has reached the whole group of processes: it arrives twice. */
const SAME_SIGNAL_MS = 1_000;

/**
 * Resolves at the first SIGINT or SIGTERM, or when `other` aborts. Another signal ends the process immediately, unless it is the same one
 * once more.
 */
export function untilSignal(log: Logger, other: AbortSignal): Promise<void> {
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
