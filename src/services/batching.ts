import { channel } from 'node:diagnostics_channel';
import DataLoader from 'dataloader';
import { currentObservation, type Observation, observedFor } from '../observation.js';
import type { Placed } from '../sql/columns.js';

export interface BatchedRead<Key, Row> {
  /** What it reads, in the plural, as metrics and traces call it. */
  readonly name: string;
  /** One statement for keys of one shape. */
  readonly read: (keys: readonly Key[]) => Promise<Placed<Row>[]>;
  /** Equal for keys that have the same answer: of those that come together only one is asked. Starts with the project. */
  readonly identify: (key: Key) => string;
  /** Equal for keys that one statement can answer; without it all can be. */
  readonly shape?: (key: Key) => string;
}

/** A batch of as many keys does not wait for the end of the turn. */
const FULL = 16;
/** More than as many keys go into several statements, however they come. */
const MAX_KEYS = 1_000;

/** Is told of every batch: whoever measures them subscribes. */
export const batches = channel('userdir.batches');
export interface BatchSize {
  readonly name: string;
  readonly keys: number;
}

/**
 * A read whose keys are gathered over one turn of the event loop, across all requests, into one statement for each shape.
 *
 * A key carries its project, so a batch may mix projects and cannot cross them. Nothing is cached beyond the batch, and nobody
 * waits for company: a batch leaves at the end of the turn, or before it with the request that fills it, so that the database
 * works while the turn goes on. A caller must not change the rows, which another may have as well.
 */
export function createBatchedRead<Key, Row>(batched: BatchedRead<Key, Row>): (key: Key) => Promise<Placed<Row>[]> {
  const { name, identify, shape } = batched;
  const observers = createObservers();
  let waiting = 0;
  let leave = () => {};
  const loader = new DataLoader<Key, Placed<Row>[], string>(
    async (keys) => {
      loader.clearAll();
      const answers = new Array<Placed<Row>[] | Error>(keys.length);
      await Promise.all(
        placesByShape(keys, shape).map(async (places) => {
          const alike = places.map((place) => keys[place] as Key);
          if (batches.hasSubscribers) batches.publish({ name, keys: alike.length } satisfies BatchSize);
          const observations = observers.take(alike, identify);
          const part = { kind: 'batch', name, keys: alike.length } as const;
          const found = await observedFor(observations, part, () => answer(batched, alike));
          for (const [index, place] of places.entries()) answers[place] = found[index] as Placed<Row>[] | Error;
        }),
      );
      return answers;
    },
    {
      cacheKeyFn: identify,
      maxBatchSize: MAX_KEYS,
      batchScheduleFn: (dispatch) => {
        waiting = 0;
        leave = once(dispatch);
        setImmediate(leave);
      },
    },
  );
  return (key) => {
    observers.add(key, identify);
    const rows = loader.load(key);
    waiting += 1;
    // Not at once: whatever else this request asks for in the same go comes along.
    if (waiting === FULL) queueMicrotask(leave);
    return rows;
  };
}

function once(run: () => void): () => void {
  let hasRun = false;
  return () => {
    if (hasRun) return;
    hasRun = true;
    run();
  };
}

/** Who observes the requests that wait for keys; of those that ask for the same key only one is in the batch. */
function createObservers() {
  const byKey = new Map<string, Observation[]>();
  return {
    add<Key>(key: Key, identify: (key: Key) => string): void {
      const observation = currentObservation();
      if (observation === undefined) return;
      const id = identify(key);
      byKey.set(id, [...(byKey.get(id) ?? []), observation]);
    },
    take<Key>(keys: readonly Key[], identify: (key: Key) => string): Observation[] {
      if (byKey.size === 0) return [];
      return keys.flatMap((key) => {
        const id = identify(key);
        const taken = byKey.get(id) ?? [];
        byKey.delete(id);
        return taken;
      });
    },
  };
}

/** The rows of each key, or why there are none. */
async function answer<Key, Row>(
  batched: BatchedRead<Key, Row>,
  keys: readonly Key[],
): Promise<(Placed<Row>[] | Error)[]> {
  try {
    const answers: Placed<Row>[][] = keys.map(() => []);
    // WITH ORDINALITY counts from 1.
    for (const row of await batched.read(keys)) answers[row.place - 1]?.push(row);
    return answers;
  } catch (error) {
    if (keys.length === 1 || !isDataException(error)) return keys.map(() => error as Error);
    // A value that the database refuses is the fault of one key; the others are asked without it.
    return (await Promise.all(keys.map((key) => answer(batched, [key])))).flat(1) as (Placed<Row>[] | Error)[];
  }
}

/** SQLSTATE class 22: the database could not take a value. */
function isDataException(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && code.length === 5 && code.startsWith('22');
}

/** The places of keys, by shape. */
function placesByShape<Key>(keys: readonly Key[], shape: ((key: Key) => string) | undefined): number[][] {
  if (shape === undefined) return [[...keys.keys()]];
  const byShape = new Map<string, number[]>();
  for (const [place, key] of keys.entries()) {
    const name = shape(key);
    const places = byShape.get(name);
    if (places === undefined) byShape.set(name, [place]);
    else places.push(place);
  }
  return [...byShape.values()];
}
