import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../db/database.js';
import { isBusy } from '../db/failures.js';
import type { Queryable } from '../db/statements.js';
import { IMPORT_WAIT_MS } from '../domain/bounds.js';
import { IMPORT_RUNS } from '../domain/import-results.js';
import { unavailable } from '../errors.js';
import { tryToImportAlone } from './transfers.sql.js';

/* One import of a project at a time: what must not run beside one waits for its end. */

const RETRY_MS = 250;

export interface Waiting {
  /** The time to wait for an import to end. */
  readonly waitMs?: number;
  /** Called once, with a sentence for people, if it has to wait. */
  readonly onWait?: (sentence: string) => void;
  /** Ends the waiting, too. */
  readonly signal: AbortSignal;
  /** Called at the end of each transaction; what it throws undoes the transaction. Without it, what was allowed at the start stays so. */
  readonly permit?: (tx: Queryable) => Promise<unknown>;
}

/** Runs `work` in a transaction beside no import of the project. It holds no connection while it waits. UNAVAILABLE after too long. */
export async function withoutImport<Result>(
  db: Pick<Database, 'transaction'>,
  projectId: number,
  { waitMs = IMPORT_WAIT_MS, onWait, signal, permit }: Waiting,
  work: (tx: Queryable) => Promise<Result>,
): Promise<Result> {
  const deadline = performance.now() + waitMs;
  for (let hasToldSo = false; ; hasToldSo = true) {
    signal.throwIfAborted();
    const attempt = db.transaction('READ COMMITTED', async (tx) => {
      if (!(await tryToImportAlone(tx, projectId))) return null;
      const result = await work(tx);
      await permit?.(tx);
      return { result };
    });
    // The one session of the embedded database is held by the import itself.
    const done = await attempt.catch((error: unknown) => {
      if (isBusy(error)) return null;
      throw error;
    });
    if (done !== null) return done.result;
    if (!hasToldSo) onWait?.(IMPORT_RUNS.waiting);
    if (performance.now() >= deadline) throw unavailable(IMPORT_RUNS.tooLong);
    await sleep(RETRY_MS, undefined, { signal });
  }
}
