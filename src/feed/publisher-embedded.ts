import { setTimeout as sleep } from 'node:timers/promises';
import { createBackground, type OnFailure } from '../db/background.js';
import type { Database } from '../db/database.js';
import * as sql from './changes.sql.js';
import type { Pruning } from './pruning.js';
import type { Publication, PublisherEngine } from './publication.js';

/** The pause between two looks at the sequence while there are listeners. Without any, only a reader who waits makes it publish. */
const LISTENING_MS = 20;
/** After a failure it begins again. */
const RETRY_MS = 1_000;

/** Publishes in the one process of an embedded database. */
export function createEmbeddedPublisher(
  db: Database,
  publication: Publication,
  pruning: Pruning,
  onFailure: OnFailure,
  stopped: AbortSignal,
): PublisherEngine {
  const inBackground = createBackground(onFailure);
  let isStarted = false;
  let running: Promise<void> = Promise.resolve();

  /** One session does everything, so whatever this statement sees is committed, and no other transaction is open. */
  async function publish(): Promise<void> {
    const { published } = await sql.publishSettled(db, publication.published());
    if (published !== null) publication.announce(published);
  }

  async function publishWhileListening(): Promise<void> {
    publication.announce(await sql.publishChanges(db, 0));
    pruning.schedule(() => true);
    while (!stopped.aborted) {
      if (publication.hasListeners()) await sleep(LISTENING_MS, undefined, { ref: false, signal: stopped });
      else await publication.untilListened();
      if (publication.hasListeners()) await publish();
    }
  }

  async function keepPublishing(): Promise<void> {
    while (!stopped.aborted) {
      await inBackground('Publishing changes', async () => {
        await publishWhileListening().catch((error) => {
          if (!stopped.aborted) throw error;
        });
      });
      await sleep(RETRY_MS, undefined, { ref: false, signal: stopped }).catch(() => undefined);
    }
  }

  return {
    start() {
      if (isStarted) return;
      isStarted = true;
      running = keepPublishing();
    },

    waitFor: publish,
    ended: () => running,
  };
}
