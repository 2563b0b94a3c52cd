import { isFull, isReadOnly } from './failures.js';

/* Remembers what a database that answers has refused to write, for the operator: reads go on meanwhile, and no check of reads tells it. */

export type RefusalReason = 'no_space' | 'read_only';

export interface RefusedWrite {
  readonly at: Date;
  readonly reason: RefusalReason;
}

export interface RefusedWrites {
  /** The last one that this process knows; null if there was none. */
  last(): RefusedWrite | null;
  /** How many there were since the start. */
  counts(): Readonly<Record<RefusalReason, number>>;
  /** Notes a failure, if it is such a refusal. */
  note(error: unknown): void;
}

export function createRefusedWrites(): RefusedWrites {
  const counts = { no_space: 0, read_only: 0 };
  let last: RefusedWrite | null = null;
  return {
    note(error) {
      const reason = refusalOf(error);
      if (reason === null) return;
      counts[reason] += 1;
      last = { at: new Date(), reason };
    },
    last: () => last,
    counts: () => ({ ...counts }),
  };
}

/** Why the database refused to write; null for any other failure. */
export function refusalOf(error: unknown): RefusalReason | null {
  if (isFull(error)) return 'no_space';
  return isReadOnly(error) ? 'read_only' : null;
}
