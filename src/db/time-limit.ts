/** Work that a time limit can give up. */
export interface Limited {
  giveUp(): void;
}

/** How often work is checked, in milliseconds: it may take that much longer than its limit. */
const CHECK_MS = 250;

/**
 * Gives up work that is open for longer than `limitMs`. Returns a function that opens work, and returns a function that closes it.
 *
 * One timer checks all open work, while there is any. A timer for each statement, which pg has for `query_timeout`, costs more; and V8
 * keeps each statement alive until the next full collection, with all that hangs on it (docs/benchmarks.md, "Garbage collection").
 */
export function createTimeLimit(limitMs: number): { open(work: Limited): number; close(slot: number): void } {
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
  };
}
