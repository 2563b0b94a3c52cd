import { setTimeout as sleep } from 'node:timers/promises';
import { createBackground, type OnFailure } from '../db/background.js';
import type { Database } from '../db/database.js';
import { isLockTimeout } from '../db/failures.js';
import { deleteEndedBans, listProjectsWithEndedBans } from './bans.sql.js';

/** The feed has the end of a ban so late at most. The embedded database is asked less often: it rests while it has no requests. */
const INTERVAL_MS = 2_000;
const EMBEDDED_INTERVAL_MS = 10_000;
/** The most bans of a project that end in one transaction. */
const AT_ONCE = 100;

/**
 * Deletes the bans that have ended, which records their ends in the feed. No statement waits for it: each looks at the end of a ban itself.
 * All processes do it, and none deletes another's. Each project has transactions of its own: one whose users are locked, as by an import, waits for the next time.
 */
export interface EndedBans {
  /** Called once, when a server has opened its database. */
  start(): void;
  /** Stops, and waits for the transaction that is under way. */
  close(): Promise<void>;
}

export function createEndedBans(db: Database, onFailure: OnFailure): EndedBans {
  const inBackground = createBackground(onFailure);
  const intervalMs = db.engineUsage() === null ? INTERVAL_MS : EMBEDDED_INTERVAL_MS;
  const stopped = new AbortController();
  let running: Promise<void> = Promise.resolve();

  const { signal } = stopped;

  async function deleteOf(projectId: number): Promise<void> {
    try {
      while (!signal.aborted && (await deleteEndedBans(db, projectId, AT_ONCE)) === AT_ONCE);
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
    }
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      await inBackground('Deleting bans that have ended', async () => {
        for (const projectId of await listProjectsWithEndedBans(db)) await deleteOf(projectId);
      });
      await sleep(intervalMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  return {
    start() {
      running = run();
    },
    async close() {
      stopped.abort();
      await running;
    },
  };
}
