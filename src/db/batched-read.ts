import { channel } from 'node:diagnostics_channel';
import DataLoader from 'dataloader';
import { isUnreachable } from './client.js';
import { currentObservation, type Observation, observedFor } from '../telemetry/request-trace.js';
import type { Placed } from '../sql/columns.js';
import { keyText } from './key-text.js';

/** What is asked for: an App ID, or an object with the project and all else that the answer depends on. */
type BatchKey = string | { readonly projectId: number };

export interface BatchedRead<Key, Row, Answer> {
  /** What it reads, in the plural, as metrics and traces call it. */
  readonly name: string;
  /** One statement for keys of one shape. */
  readonly read: (keys: readonly Key[]) => Promise<Placed<Row>[]>;
  /** What the rows of one key amount to. Made once, for all who ask for the key in one batch. */
  readonly answer: (rows: Placed<Row>[]) => Answer;
  /** Equal for keys that one statement can answer; without it all can be. */
  readonly shape?: (key: Key) => string;
  /** How many rows a key may bring, 1 where nothing is said. */
  readonly weigh?: (key: Key) => number;
}

/** A batch of as many keys does not wait for the end of the turn. */
const FULL = 16;
/** A statement for several keys brings at most as many rows. */
export const MAX_WEIGHT = 1_000;
/** As many statements of one batch run at once, so that it does not take every connection. */
const STATEMENTS_AT_ONCE = 2;
/** The same of those that are tried again after a failure. */
const RETRIES_AT_ONCE = 2;
/** After as many failures the fault is taken for the database's and not for that of one project. */
const MAX_FAILED_RETRIES = 4;

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
 * works while the turn goes on. A caller must not change the answer, which another may have as well.
 *
 * What would bring many rows is split into statements that run one after the other, those of the project that asks for least
 * first, and a key is answered as soon as its own statement is.
 */
export function createBatchedRead<Key extends BatchKey, Row, Answer>(
  batched: BatchedRead<Key, Row, Answer>,
): (key: Key) => Promise<Answer> {
  const { name } = batched;
  const observers = createObservers();
  let waiting = 0;
  let leave = () => {};

  /** From now on, or from the end of the statement before it. */
  function issue(keys: readonly Key[], before: Promise<unknown> | undefined): Promise<(Answer | Error)[]> {
    const observations = observers.take(keys);
    const start = () => {
      if (batches.hasSubscribers) batches.publish({ name, keys: keys.length } satisfies BatchSize);
      return observedFor(observations, { kind: 'batch', name, keys: keys.length }, () => answerKeys(batched, keys));
    };
    return before === undefined ? start() : before.then(start);
  }

  /** An answer of several statements for each key, which comes as soon as its own statement is done. */
  function issueAll(keys: readonly Key[], shapes: readonly number[][][]): Promise<Answer>[] {
    const answers = new Array<Promise<Answer>>(keys.length);
    const lanes: Promise<unknown>[] = [];
    for (const [index, statements] of shapes.entries()) {
      const lane = index % STATEMENTS_AT_ONCE;
      for (const places of statements) {
        const found = issue(
          places.map((place) => keys[place] as Key),
          lanes[lane],
        );
        lanes[lane] = found;
        for (const [position, place] of places.entries()) {
          answers[place] = found.then((answersOfStatement) => orThrow(answersOfStatement[position] as Answer | Error));
        }
      }
    }
    return answers;
  }

  const loader = new DataLoader<Key, Answer, string>(
    async (keys) => {
      loader.clearAll();
      const shapes = splitKeys(batched, keys);
      if (shapes.length === 1 && shapes[0]?.length === 1) return issue(keys, undefined);
      // What DataLoader resolves with a promise waits for that promise.
      return issueAll(keys, shapes) as unknown as Answer[];
    },
    {
      cacheKeyFn: keyText,
      batchScheduleFn: (dispatch) => {
        waiting = 0;
        leave = once(dispatch);
        setImmediate(leave);
      },
    },
  );
  return (key) => {
    observers.add(key);
    const answer = loader.load(key);
    waiting += 1;
    // Not at once: whatever else this request asks for in the same go comes along.
    if (waiting === FULL) queueMicrotask(leave);
    return answer;
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

function orThrow<Answer>(answer: Answer | Error): Answer {
  if (answer instanceof Error) throw answer;
  return answer;
}

/** Who observes the requests that wait for keys; of those that ask for the same key only one is in the batch. */
function createObservers() {
  const byKey = new Map<string, Observation[]>();
  return {
    add(key: BatchKey): void {
      const observation = currentObservation();
      if (observation === undefined) return;
      const text = keyText(key);
      byKey.set(text, [...(byKey.get(text) ?? []), observation]);
    },
    take(keys: readonly BatchKey[]): Observation[] {
      if (byKey.size === 0) return [];
      return keys.flatMap((key) => {
        const text = keyText(key);
        const taken = byKey.get(text) ?? [];
        byKey.delete(text);
        return taken;
      });
    },
  };
}

function projectOf(key: BatchKey): string | number {
  return typeof key === 'string' ? key : key.projectId;
}

/** The places of keys by shape, and those of a shape by statement. */
function splitKeys<Key extends BatchKey>(
  { shape = () => '', weigh = () => 1 }: Pick<BatchedRead<Key, unknown, unknown>, 'shape' | 'weigh'>,
  keys: readonly Key[],
): number[][][] {
  const weights = keys.map(weigh);
  const isLight = sum(weights) <= MAX_WEIGHT;
  if (isLight && keys.length === 1) return [[[0]]];
  const byShape = groupBy(isLight ? [...keys.keys()] : lightestProjectFirst(keys, weights), (place) =>
    shape(keys[place] as Key),
  );
  return byShape.map((places) => (isLight ? [places] : splitByWeight(places, weights)));
}

function lightestProjectFirst(keys: readonly BatchKey[], weights: readonly number[]): number[] {
  const byProject = groupBy([...keys.keys()], (place) => projectOf(keys[place] as BatchKey));
  const weightOf = (places: number[]) => sum(places.map((place) => weights[place] as number));
  return byProject
    .map((places) => ({ places, weight: weightOf(places) }))
    .sort((a, b) => a.weight - b.weight)
    .flatMap(({ places }) => places);
}

function splitByWeight(places: readonly number[], weights: readonly number[]): number[][] {
  const statements: number[][] = [];
  let room = 0;
  for (const place of places) {
    const weight = weights[place] as number;
    if (weight > room) {
      statements.push([]);
      room = MAX_WEIGHT;
    }
    statements.at(-1)?.push(place);
    room -= weight;
  }
  return statements;
}

function groupBy<Item, Group>(items: readonly Item[], groupOf: (item: Item) => Group): Item[][] {
  const groups = new Map<Group, Item[]>();
  for (const item of items) {
    const group = groupOf(item);
    const members = groups.get(group);
    if (members === undefined) groups.set(group, [item]);
    else members.push(item);
  }
  return [...groups.values()];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

/** The answer for each key, or why there is none. */
async function answerKeys<Key extends BatchKey, Row, Answer>(
  batched: BatchedRead<Key, Row, Answer>,
  keys: readonly Key[],
): Promise<(Answer | Error)[]> {
  try {
    const rows: Placed<Row>[][] = keys.map(() => []);
    // WITH ORDINALITY counts from 1.
    for (const row of await batched.read(keys)) rows[row.place - 1]?.push(row);
    return rows.map(batched.answer);
  } catch (error) {
    return answerApart(batched, keys, error as Error);
  }
}

/**
 * Keys whose statement has failed, asked again without each other: a value that the database refuses is the fault of its key,
 * and a statement that takes too long may be that of one project. Those who ask for least come first.
 */
async function answerApart<Key extends BatchKey, Row, Answer>(
  batched: BatchedRead<Key, Row, Answer>,
  keys: readonly Key[],
  error: Error,
): Promise<(Answer | Error)[]> {
  const answers = new Array<Answer | Error>(keys.length).fill(error);
  const byKey = isDataException(error);
  const parts = groupBy([...keys.keys()], (place) => (byKey ? place : projectOf(keys[place] as Key)));
  if (parts.length === 1 || isUnreachable(error)) return answers;

  let failures = 0;
  const rest = parts.toSorted((a, b) => a.length - b.length).values();
  const retry = async () => {
    for (const places of rest) {
      if (failures >= MAX_FAILED_RETRIES) return;
      const found = await answerKeys(
        batched,
        places.map((place) => keys[place] as Key),
      );
      for (const [position, place] of places.entries()) answers[place] = found[position] as Answer | Error;
      if (!byKey && found.every((answer) => answer instanceof Error)) failures += 1;
      if (found[0] instanceof Error && isUnreachable(found[0])) failures = MAX_FAILED_RETRIES;
    }
  };
  await Promise.all(Array.from({ length: RETRIES_AT_ONCE }, retry));
  return answers;
}

/** SQLSTATE class 22: the database could not take a value. */
function isDataException(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && code.length === 5 && code.startsWith('22');
}
