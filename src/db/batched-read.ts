/*
 * DataLoader for the whole process, without a cache: keys of all requests share batches. That is sound because every key
 * contains its project, so no batch crosses projects, and because a batch is forgotten when it leaves, so no answer is old.
 */

import DataLoader from 'dataloader';
import {
  type BatchSize,
  batchChannel,
  currentTrace,
  type RequestTrace,
  withSharedSpan,
} from '../telemetry/request-trace.js';
import { isDataException, isUnreachable } from './failures.js';

/** An App ID, or an object with the project and everything else on which the answer depends. */
type BatchKey = string | { readonly projectId: number };

/**
 * A row of a batched read. `keyIndex` is the position of the key that it answers, from 1. Every batched read passes its keys
 * as arrays of equal length, so that one prepared statement serves any number of keys.
 */
export type KeyedRow<Row> = Row & { keyIndex: number };

export interface BatchedRead<Key, Row, Answer> {
  /** What is read, in the plural: the name in metrics and traces. */
  readonly name: string;
  /** One statement for keys of one group. */
  readonly read: (keys: readonly Key[]) => Promise<KeyedRow<Row>[]>;
  /** Makes the answer to one key from its rows. Runs once a batch, for all callers of that key. */
  readonly answer: (rows: KeyedRow<Row>[]) => Answer;
  /** Equal for keys that one statement can answer. Without it, one statement answers all keys. */
  readonly groupKey?: (key: Key) => string;
  /** How many rows a key may return; 1 without it. */
  readonly weigh?: (key: Key) => number;
}

/**
 * With so many keys a batch leaves before the end of the tick. Otherwise the database would wait until the process has read all requests,
 * and the process until the database has answered them all. With fewer keys, what each statement costs by itself would weigh more.
 */
const FULL_BATCH = 24;
/**
 * The same while no statement of the read is under way: the database has nothing to do for it. With 16 connections all requests would
 * otherwise share one statement, and the process and the database would work by turns.
 */
const FIRST_BATCH = 8;
/** A statement for several keys returns at most this many rows. */
export const MAX_WEIGHT = 1_000;
/** How many statements of one batch run at the same time, so that it does not take every connection. */
const CONCURRENT_STATEMENTS = 2;
/** How many retries of a failed statement run at the same time. */
const CONCURRENT_RETRIES = 2;
/** After this many failed retries the database is at fault, and not one project. */
const MAX_FAILED_RETRIES = 4;

/**
 * Collects the keys of all requests during one tick of the event loop, and reads them by one statement for each group.
 *
 * Dispatched at the end of the tick, or earlier with enough keys (FIRST_BATCH, FULL_BATCH), so that the database works while the tick
 * goes on. While keys come one at a time, there is nothing to collect: then the database works while the process ends what the request
 * began. A caller must not change the answer, because other callers may have the same object.
 *
 * A batch that would return many rows is split into statements that run one after the other. The project with the fewest rows
 * comes first, and a key is answered as soon as its own statement is.
 */
export function createBatchedRead<Key extends BatchKey, Row, Answer>(
  batched: BatchedRead<Key, Row, Answer>,
): (key: Key) => Promise<Answer> {
  const { name } = batched;
  const tracesOf = createTraces();
  const batch = createBatch<Answer>();
  let dispatchSoon = () => {};
  /** Statements that are not answered yet. */
  let underWay = 0;
  /** Keys of the batch that left last. */
  let lastBatch = 0;

  /** Starts a statement, at once or after the one before it. */
  function issue(keys: readonly Key[], before: Promise<unknown> | undefined): Promise<(Answer | Error)[]> {
    const traces = tracesOf.take(keys);
    const start = () => {
      if (batchChannel.hasSubscribers) batchChannel.publish({ name, keys: keys.length } satisfies BatchSize);
      return withSharedSpan(traces, { kind: 'batch', name, keys: keys.length }, () => answerKeys(batched, keys));
    };
    const found = before === undefined ? start() : before.then(start);
    underWay += 1;
    found.then(ended, ended);
    return found;
  }

  function ended(): void {
    underWay -= 1;
  }

  /** Starts several statements and returns a promise for each key, which is resolved by the key's own statement. */
  function issueAll(keys: readonly Key[], groups: readonly number[][][]): Promise<Answer>[] {
    const answers = new Array<Promise<Answer>>(keys.length);
    const lastIssued: Promise<unknown>[] = [];
    for (const [index, statements] of groups.entries()) {
      const slot = index % CONCURRENT_STATEMENTS;
      for (const keyIndexes of statements) {
        const found = issue(
          keyIndexes.map((keyIndex) => keys[keyIndex] as Key),
          lastIssued[slot],
        );
        lastIssued[slot] = found;
        for (const [position, keyIndex] of keyIndexes.entries()) {
          answers[keyIndex] = found.then((ofStatement) => orThrow(ofStatement[position] as Answer | Error));
        }
      }
    }
    return answers;
  }

  const loader = new DataLoader<Key, Answer, string>(
    async (keys) => {
      loader.clearAll();
      lastBatch = keys.length;
      const groups = splitKeys(batched, keys);
      if (groups.length === 1 && groups[0]?.length === 1) return issue(keys, undefined);
      // DataLoader resolves a key with its promise, and so waits for each of them separately.
      return issueAll(keys, groups) as unknown as Answer[];
    },
    {
      cacheKeyFn: cacheKey,
      cacheMap: batch,
      batchScheduleFn: (dispatch) => {
        const dispatchOnce = atMostOnce(dispatch);
        if (lastBatch === 1 && underWay === 0) afterPromises(dispatchOnce);
        else setImmediate(dispatchOnce);
        // Not synchronously, so that the other keys of the same request come along.
        dispatchSoon = atMostOnce(() => queueMicrotask(dispatchOnce));
      },
    },
  );
  return (key) => {
    tracesOf.add(key);
    const answer = loader.load(key);
    if (batch.size() >= (underWay === 0 ? FIRST_BATCH : FULL_BATCH)) dispatchSoon();
    return answer;
  };
}

/**
 * The keys of one batch. `clear` starts a new Map: when V8 clears or rehashes a Map that has become old, its dead table keeps the
 * answers alive until the next full collection.
 */
function createBatch<Answer>() {
  let answers = new Map<string, Promise<Answer>>();
  return {
    size: () => answers.size,
    get: (key: string) => answers.get(key),
    set: (key: string, answer: Promise<Answer>) => answers.set(key, answer),
    delete: (key: string) => answers.delete(key),
    clear: () => {
      answers = new Map();
    },
  };
}

/**
 * The text by which equal keys are found. It contains every property, so keys that differ in any of them differ here. The
 * length stands before each text, so that no text can imitate two. Keys with the same properties in another order count as
 * different, which costs a second read and returns no wrong answer.
 */
export function cacheKey(value: unknown): string {
  if (typeof value === 'string') return `${value.length}:${value}`;
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value !== 'object' || value === null) return String(value);
  if (value instanceof Date) return `@${value.getTime()}`;
  if (Array.isArray(value)) return `[${value.map(cacheKey).join()}]`;
  if (Object.getPrototypeOf(value) !== Object.prototype) {
    throw new TypeError('A key consists of plain objects, lists, dates and simple values.');
  }
  let text = '{';
  // Faster than Object.keys, and equal to it for a plain object.
  for (const name in value) text += `${name}=${cacheKey((value as Record<string, unknown>)[name])},`;
  return `${text}}`;
}

/** Once no promise of this request is left to run: all its keys are there by then, and a tick would bring only those of other requests. */
function afterPromises(run: () => void): void {
  queueMicrotask(() => process.nextTick(run));
}

function atMostOnce(run: () => void): () => void {
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

/** The traced requests behind each queued key. Several requests may wait for one key, which is in the batch once. */
function createTraces() {
  const byKey = new Map<string, RequestTrace[]>();
  return {
    add(key: BatchKey): void {
      const trace = currentTrace();
      if (trace === undefined) return;
      const text = cacheKey(key);
      byKey.set(text, [...(byKey.get(text) ?? []), trace]);
    },
    take(keys: readonly BatchKey[]): RequestTrace[] {
      if (byKey.size === 0) return [];
      return keys.flatMap((key) => {
        const text = cacheKey(key);
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

/** The indexes of the keys, by group and then by statement. */
function splitKeys<Key extends BatchKey>(
  { groupKey = () => '', weigh = () => 1 }: Pick<BatchedRead<Key, unknown, unknown>, 'groupKey' | 'weigh'>,
  keys: readonly Key[],
): number[][][] {
  const weights = keys.map(weigh);
  const isLight = sum(weights) <= MAX_WEIGHT;
  if (isLight && keys.length === 1) return [[[0]]];
  const groups = groupBy(isLight ? [...keys.keys()] : lightestProjectFirst(keys, weights), (keyIndex) =>
    groupKey(keys[keyIndex] as Key),
  );
  return groups.map((keyIndexes) => (isLight ? [keyIndexes] : splitByWeight(keyIndexes, weights)));
}

function lightestProjectFirst(keys: readonly BatchKey[], weights: readonly number[]): number[] {
  const byProject = groupBy([...keys.keys()], (keyIndex) => projectOf(keys[keyIndex] as BatchKey));
  const weightOf = (keyIndexes: number[]) => sum(keyIndexes.map((keyIndex) => weights[keyIndex] as number));
  return byProject
    .map((keyIndexes) => ({ keyIndexes, weight: weightOf(keyIndexes) }))
    .sort((a, b) => a.weight - b.weight)
    .flatMap(({ keyIndexes }) => keyIndexes);
}

function splitByWeight(keyIndexes: readonly number[], weights: readonly number[]): number[][] {
  const statements: number[][] = [];
  let available = 0;
  for (const keyIndex of keyIndexes) {
    const weight = weights[keyIndex] as number;
    if (weight > available) {
      statements.push([]);
      available = MAX_WEIGHT;
    }
    statements.at(-1)?.push(keyIndex);
    available -= weight;
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

/** The answer to each key, or its error. */
async function answerKeys<Key extends BatchKey, Row, Answer>(
  batched: BatchedRead<Key, Row, Answer>,
  keys: readonly Key[],
): Promise<(Answer | Error)[]> {
  try {
    const rows: KeyedRow<Row>[][] = keys.map(() => []);
    // WITH ORDINALITY counts from 1.
    for (const row of await batched.read(keys)) rows[row.keyIndex - 1]?.push(row);
    return rows.map(batched.answer);
  } catch (error) {
    return answerSeparately(batched, keys, error as Error);
  }
}

/**
 * Reads the keys of a failed statement again, separately. A value that the database refuses is the fault of one key; a
 * statement that takes too long may be the fault of one project. Projects with the fewest keys come first.
 */
async function answerSeparately<Key extends BatchKey, Row, Answer>(
  batched: BatchedRead<Key, Row, Answer>,
  keys: readonly Key[],
  error: Error,
): Promise<(Answer | Error)[]> {
  const answers = new Array<Answer | Error>(keys.length).fill(error);
  const byKey = isDataException(error);
  const parts = groupBy([...keys.keys()], (keyIndex) => (byKey ? keyIndex : projectOf(keys[keyIndex] as Key)));
  if (parts.length === 1 || isUnreachable(error)) return answers;

  let failures = 0;
  const remaining = parts.toSorted((a, b) => a.length - b.length).values();
  const retry = async () => {
    for (const keyIndexes of remaining) {
      if (failures >= MAX_FAILED_RETRIES) return;
      const found = await answerKeys(
        batched,
        keyIndexes.map((keyIndex) => keys[keyIndex] as Key),
      );
      for (const [position, keyIndex] of keyIndexes.entries()) answers[keyIndex] = found[position] as Answer | Error;
      if (!byKey && found.every((answer) => answer instanceof Error)) failures += 1;
      if (found[0] instanceof Error && isUnreachable(found[0])) failures = MAX_FAILED_RETRIES;
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_RETRIES }, retry));
  return answers;
}
