/* Batches keys of all requests with DataLoader, without a cache: keys contain their project, and a batch is forgotten when it leaves. */

import DataLoader from 'dataloader';
import {
  type BatchSize,
  batchChannel,
  currentTrace,
  type TraceSpan,
  withSharedSpan,
} from '../telemetry/request-trace.js';
import { isDataException, isTooSlow, isUnreachable } from './failures.js';

/** An App ID, or an object with the project and everything else on which the answer depends. */
type BatchKey = string | { readonly projectId: number };

/** A row of a batched read. `keyIndex` is the position of its key, from 1. Keys are arrays of equal length, so one prepared statement serves any number. */
export type KeyedRow<Row> = Row & { keyIndex: number };

export interface BatchedRead<Key, Row, Answer> {
  /** The rows, in the plural: the name in metrics and traces. */
  readonly name: string;
  /** One statement for keys of one group. */
  readonly read: (keys: readonly Key[]) => Promise<KeyedRow<Row>[]>;
  /** Makes the answer to one key from its rows. Runs once a batch, for all callers of that key. */
  readonly answer: (rows: KeyedRow<Row>[]) => Answer;
  /** Equal for keys that one statement can answer. Without it, one statement answers all keys. */
  readonly groupKey?: (key: Key) => string;
  /** The rows that a key may return; 1 without it. */
  readonly weigh?: (key: Key) => number;
}

/** So many keys leave before the end of the tick, or database and process would wait for each other. Fewer keys cost more for each. */
const FULL_BATCH = 24;
/** The bound while no statement of the read is under way: 16 connections would share one statement, and process and database work by turns. */
const FIRST_BATCH = 8;
/** A statement for several keys returns at most this many rows. */
export const MAX_WEIGHT = 1_000;
/** Statements of one batch that run at the same time, so that it does not take every connection. */
const CONCURRENT_STATEMENTS = 2;
/** Retries of a failed statement that run at the same time. */
const CONCURRENT_RETRIES = 2;
/** After this many failed retries the database is at fault, and not one project. */
const MAX_FAILED_RETRIES = 4;

/**
 * Collects the keys of all requests during one tick of the event loop, and reads them by one statement for each group.
 * A batch leaves at the end of the tick, or earlier with enough keys (FIRST_BATCH, FULL_BATCH), so that the database works meanwhile.
 * While keys come one at a time, each leaves at once. Callers must not change the answer, because others may have the same object.
 * A batch of many rows is split into statements one after the other, the project with the fewest rows first.
 * A key is answered as soon as its own statement is.
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
    const answers = before === undefined ? start() : before.then(start);
    underWay += 1;
    answers.then(ended, ended);
    return answers;
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
        const answered = issue(
          keyIndexes.map((keyIndex) => keys[keyIndex] as Key),
          lastIssued[slot],
        );
        lastIssued[slot] = answered;
        for (const [position, keyIndex] of keyIndexes.entries()) {
          answers[keyIndex] = answered.then((ofStatement) => orThrow(ofStatement[position] as Answer | Error));
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

/** The keys of one batch. `clear` starts a new Map: a Map that V8 has cleared or rehashed keeps the answers alive until the next full collection. */
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
 * The text by which equal keys are found. It contains every property, so keys that differ in any of them differ here. The length stands before
 * each text, so that no text can imitate two. Another order of properties makes another key: a second read, but no wrong answer.
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
  const byKey = new Map<string, TraceSpan[]>();
  return {
    add(key: BatchKey): void {
      const trace = currentTrace();
      if (trace === undefined) return;
      const text = cacheKey(key);
      byKey.set(text, [...(byKey.get(text) ?? []), trace]);
    },
    take(keys: readonly BatchKey[]): TraceSpan[] {
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
  return numbers.reduce((total, number) => total + number, 0);
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

/** Other keys would fail as well. A statement that took too long may be so because of one project. */
const isHopeless = (error: Error) => isUnreachable(error) && !isTooSlow(error);

/** Reads the keys of a failed statement again, separately: one key or one project may be at fault. Projects with the fewest keys come first. */
async function answerSeparately<Key extends BatchKey, Row, Answer>(
  batched: BatchedRead<Key, Row, Answer>,
  keys: readonly Key[],
  error: Error,
): Promise<(Answer | Error)[]> {
  const answers = new Array<Answer | Error>(keys.length).fill(error);
  const byKey = isDataException(error);
  const parts = groupBy([...keys.keys()], (keyIndex) => (byKey ? keyIndex : projectOf(keys[keyIndex] as Key)));
  if (parts.length === 1 || isHopeless(error)) return answers;

  let failures = 0;
  const remaining = parts.toSorted((a, b) => a.length - b.length).values();
  const retry = async () => {
    for (const keyIndexes of remaining) {
      if (failures >= MAX_FAILED_RETRIES) return;
      const results = await answerKeys(
        batched,
        keyIndexes.map((keyIndex) => keys[keyIndex] as Key),
      );
      for (const [position, keyIndex] of keyIndexes.entries()) answers[keyIndex] = results[position] as Answer | Error;
      if (!byKey && results.every((answer) => answer instanceof Error)) failures += 1;
      if (results[0] instanceof Error && isHopeless(results[0])) failures = MAX_FAILED_RETRIES;
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_RETRIES }, retry));
  return answers;
}
