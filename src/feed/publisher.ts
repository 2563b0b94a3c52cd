import type { OnFailure } from '../db/background.js';
import type { Database } from '../db/database.js';
import { createPruning, type Pruning } from './pruning.js';
import { createPublication, type Publication, type PublisherEngine } from './publication.js';
import { createEmbeddedPublisher } from './publisher-embedded.js';
import { createLeaderPublisher } from './publisher-leader.js';

/** Settles up to where the feed can be read. The process that publishes also deletes from time to time what has expired. */
export interface ChangePublisher {
  readonly start: PublisherEngine['start'];
  readonly waitFor: PublisherEngine['waitFor'];
  readonly listen: Publication['listen'];
  readonly lagSeconds: Publication['lagSeconds'];
  readonly prune: Pruning['prune'];
  /** Stops, and waits for what is under way. */
  close(): Promise<void>;
}

export function createChangePublisher(
  db: Database,
  deleteExpired: (signal: AbortSignal) => Promise<void>,
  onFailure: OnFailure,
): ChangePublisher {
  const stopped = new AbortController();
  const publication = createPublication();
  const pruning = createPruning(deleteExpired, onFailure, stopped.signal);
  const engine =
    db.engineUsage() === null
      ? createLeaderPublisher(db, publication, pruning, onFailure)
      : createEmbeddedPublisher(db, publication, pruning, onFailure, stopped.signal);
  return {
    start: engine.start,
    waitFor: engine.waitFor,
    listen: publication.listen,
    lagSeconds: publication.lagSeconds,
    prune: pruning.prune,
    async close() {
      stopped.abort();
      publication.wake();
      await Promise.all([engine.ended(), pruning.end()]);
    },
  };
}
