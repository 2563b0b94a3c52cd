import DataLoader from 'dataloader';
import type { Placed } from '../sql/columns.js';

/** Keys of one statement. More than this many in one turn of the event loop go into several. */
const MAX_BATCH_SIZE = 1_000;

/**
 * A read whose keys are gathered over one turn of the event loop, across all requests, into one statement.
 *
 * A key carries its project, so a batch may mix projects and cannot cross them. Nothing is cached, and a lone request waits
 * for nobody: `setImmediate` runs as soon as the current turn's work is done.
 */
export function createBatchedRead<Key, Row>(
  read: (keys: readonly Key[]) => Promise<Placed<Row>[]>,
): (key: Key) => Promise<Row[]> {
  const loader = new DataLoader<Key, Row[]>(
    async (keys) => {
      const found: Row[][] = keys.map(() => []);
      // WITH ORDINALITY counts from 1.
      for (const { place, ...row } of await read(keys)) found[place - 1]?.push(row as Row);
      return found;
    },
    { cache: false, batchScheduleFn: (dispatch) => setImmediate(dispatch), maxBatchSize: MAX_BATCH_SIZE },
  );
  return (key) => loader.load(key);
}
