import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * How long work that could wait may go on in one turn of the event loop, in milliseconds. Between two turns the loop reads
 * what has arrived, so that no caller waits for all of what another has asked.
 */
const SLICE_MS = 2;

/** When the first work of this turn was noticed; null until then. */
let startedAt: number | null = null;

/** Whether so much has been done in this turn of the event loop that other work should wait for the next. */
export function isSliceOver(): boolean {
  const now = performance.now();
  if (startedAt === null) {
    startedAt = now;
    setImmediate(() => {
      startedAt = null;
    });
  }
  return now - startedAt > SLICE_MS;
}

/** Resolves in a later turn of the event loop, which has time left. */
export async function nextSlice(): Promise<void> {
  do await nextTurn();
  while (isSliceOver());
}
