import { createBackground, type OnFailure } from '../db/background.js';

/** Deletes what has expired, one time after the other, in the process that publishes. */
export interface Pruning {
  /** Deletes now, after a deletion that is under way. */
  prune(): Promise<void>;
  /** Deletes now, and from time to time while `isMine` says so. Does nothing once closed: a session may still become the leader while the database closes. */
  schedule(isMine: () => boolean): void;
  /** Ends the schedule, and waits for a deletion that is under way, which `stopped` ends. */
  end(): Promise<void>;
}

const PRUNE_INTERVAL_MS = 600_000;

export function createPruning(
  deleteExpired: (signal: AbortSignal) => Promise<void>,
  onFailure: OnFailure,
  stopped: AbortSignal,
): Pruning {
  const inBackground = createBackground(onFailure);
  let pruning: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;

  function prune(): Promise<void> {
    pruning = pruning.then(() => inBackground('Deleting what has expired', () => deleteExpired(stopped)));
    return pruning;
  }

  return {
    prune,

    schedule(isMine) {
      if (stopped.aborted) return;
      void prune();
      timer ??= setInterval(() => {
        if (isMine()) void prune();
      }, PRUNE_INTERVAL_MS).unref();
    },

    end() {
      clearInterval(timer);
      return pruning;
    },
  };
}
