import { setTimeout as sleep } from 'node:timers/promises';
import { createBackground, type OnFailure } from '../db/background.js';
import type { Database } from '../db/database.js';
import { inBatches } from '../db/statements.js';
import { deleteEndedBans } from './bans.sql.js';

/** How soon the feed has the end of a ban. */
const INTERVAL_MS = 2_000;

/**
 * Deletes the bans that have ended, which records their ends in the feed. No statement waits for it: each looks at the end of a ban itself. All
 * processes do it, and none deletes what another one is deleting.
 */
export function createEndedBans(db: Database, onFailure: OnFailure) {
  const inBackground = createBackground(onFailure);
  const stopped = new AbortController();
  let running: Promise<void> = Promise.resolve();

  async function run(): Promise<void> {
    const { signal } = stopped;
    while (!signal.aborted) {
      await inBackground('Deleting bans that have ended', () =>
        inBatches((limit) => deleteEndedBans(db, limit), signal),
      );
      await sleep(INTERVAL_MS, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  return {
    /** Called once, when a server has opened its database. */
    start(): void {
      running = run();
    },
    async close(): Promise<void> {
      stopped.abort();
      await running;
    },
  };
}
