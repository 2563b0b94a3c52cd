/** Work that a time limit can give up. */
export interface Limited {
  giveUp(): void;
}

export interface TimeLimit {
  /** Returns the slot by which the work is closed. */
  open(work: Limited): number;
  close(slot: number): void;
  /** Gives up all work that is open now. */
  giveUpAll(): void;
}

/** How often work is checked, in milliseconds: it may take that much longer than its limit. */
const CHECK_MS = 250;

/**
 * Gives up work that is open for longer than `limitMs`.
 *
 * One timer checks all open work, while there is any. A timer for each statement, which pg has for `query_timeout`, costs more; and V8
 * keeps each statement alive until the next full collection, with all that hangs on it (docs/benchmarks.md, "Garbage collection").
 */
export function createTimeLimit(limitMs: number): TimeLimit {
  /** The open work in slots that are used again, with the time when it was opened. */
  const works: (Limited | null)[] = [];
  const openedAt: number[] = [];
  const free: number[] = [];
  let timer: NodeJS.Timeout | null = null;

  function check(): void {
    const latest = performance.now() - limitMs;
    for (const [slot, work] of works.entries()) if (work !== null && (openedAt[slot] as number) < latest) work.giveUp();
    if (free.length < works.length) return;
    clearInterval(timer as NodeJS.Timeout);
    timer = null;
  }

  return {
    open(work) {
      const slot = free.pop() ?? works.length;
      works[slot] = work;
      openedAt[slot] = performance.now();
      timer ??= setInterval(check, CHECK_MS).unref();
      return slot;
    },
    close(slot) {
      works[slot] = null;
      free.push(slot);
    },
    giveUpAll() {
      for (const work of works) work?.giveUp();
    },
  };
}
