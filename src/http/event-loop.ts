import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * How long work that can wait may take in one turn of the event loop, in milliseconds. Between two turns the loop reads
 * new requests, so that no caller waits until all work of another caller is done.
 */
const SLICE_MS = 2;

/** When the first work of this turn was noticed; null until then. */
let startedAt: number | null = null;

/** Whether this turn of the event loop has used up its time, so that more work should wait for the next turn. */
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
