import { isWithdrawn, UNKNOWN_OUTCOME, unavailable, withdrawn } from '../errors.js';
import {
  type BatchSize,
  batchChannel,
  currentTrace,
  type TraceSpan,
  withSharedSpan,
} from '../telemetry/request-trace.js';
import type { Database } from './database.js';
import { isLockTimeout, leavesSession } from './failures.js';
import type { Queryable } from './statements.js';

export interface BatchedWrite<Key extends { readonly projectId: number }, Answer> {
  readonly db: Pick<Database, 'withdrawable' | 'statementMs'>;
  /** The rows, in the plural: the name in metrics and traces. */
  readonly name: string;
  /** A key's changes, as texts that contain the project. Keys with a text in common are written one after the other, and each finds what the one before has done. */
  readonly changes: (key: Key) => readonly string[];
  /** Equal for keys that one statement can write. Without it, one statement writes all keys. */
  readonly groupKey?: (key: Key) => unknown;
  /** The rows that a key may write. */
  readonly weigh: (key: Key) => number;
  /** Writes keys in one transaction: an answer or an error for each. Throws an error that undid all. Without `waits`, a lock fails soon. */
  readonly write: (db: Queryable, keys: readonly Key[], waits: boolean) => Promise<readonly (Answer | Error)[]>;
  /** True if simultaneous writes of others were in the way. A lone key is written once more then, and finds them. */
  readonly isCrossed: (error: unknown) => boolean;
}

/** A statement has at most so many keys, and rows. */
const MAX_KEYS = 64;
const MAX_WEIGHT = 500;
/** So many keys start a statement beside one under way; fewer wait for its end. So the database has work while this process writes answers. */
const FULL_BATCH = 5;
const CONCURRENT_STATEMENTS = 2;
/** With so many keys that wait, a statement leaves before the end of the tick, as for reads (batched-read.ts). */
const FIRST_BATCH = 8;
/** Keys that are written alone at the same time: of one project, and of all. They may wait for a lock, and each has a connection. */
const ALONE_OF_PROJECT = 2;
const ALONE = 6;
/** The keys of a project are written alone for so long after one of them has met a lock alone. */
const ASIDE_MS = 5_000;
/** The pause between looks for calls whose time is over. */
const CHECK_MS = 50;

/** A call that is not answered. */
interface Call<Key, Answer> {
  readonly key: Key;
  readonly changes: readonly string[];
  readonly trace: TraceSpan | undefined;
  /** Until when it has an answer, by the clock of `performance`. */
  readonly until: number;
  /** True if it is written by a statement of its own. */
  isAlone: boolean;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** Calls that share a statement, until it has ended. */
interface Batch<Key, Answer> {
  readonly calls: readonly Call<Key, Answer>[];
  /** True if the database has it, or may have it. */
  isSent: boolean;
}

/**
 * Writes of all requests share statements, and so commits, across projects. Each is answered after its commit.
 * A lone write leaves at once. While a statement is under way, others wait for its end, or leave before that if they are many:
 * the database flushes once for many, and the process reads requests meanwhile.
 * A fault of one key is a row of the statement. Keys of a statement that PostgreSQL has undone, as for a lock, are written again, each alone,
 * in their order; so is a lone key that met a lock, and its project is then kept apart for a while.
 * Nothing is written again that may be committed.
 * A call is answered when its time is over: one that was not sent never is; of another one, the answer says that its outcome is unknown.
 * So a key waits for a lock only where there is time for all of the statement.
 */
export function createBatchedWrite<Key extends { readonly projectId: number }, Answer>({
  db,
  name,
  changes,
  groupKey = () => null,
  weigh,
  write,
  isCrossed,
}: BatchedWrite<Key, Answer>): (key: Key, until: number) => Promise<Answer> {
  let waiting: Call<Key, Answer>[] = [];
  const underWay = new Set<Batch<Key, Answer>>();
  /** The changes of statements under way. */
  const changing = new Set<string>();
  /** Statements under way that several keys share, or may share. */
  let shared = 0;
  /** The projects of the keys that are written alone. */
  const alone: number[] = [];
  /** Until when a project is kept apart. */
  const aside = new Map<number, number>();
  let lastBatch = 0;
  let isScheduled = false;
  let timer: NodeJS.Timeout | null = null;

  const mayShare = () => shared === 0 || (shared < CONCURRENT_STATEMENTS && waiting.length >= FULL_BATCH);
  const mayStartAlone = ({ projectId }: Key) =>
    alone.length < ALONE && alone.filter((project) => project === projectId).length < ALONE_OF_PROJECT;

  /** Starts what may start now. */
  function dispatch(): void {
    isScheduled = false;
    if (waiting.length > MAX_KEYS) waiting = inTurns(waiting);
    /** The changes of statements under way, or of a call that waits before this one. */
    const blocked = new Set(changing);
    const batch: Call<Key, Answer>[] = [];
    const single: Call<Key, Answer>[] = [];
    let room = mayShare() ? MAX_WEIGHT : 0;
    waiting = waiting.filter((call) => {
      const isFree = !call.changes.some((change) => blocked.has(change));
      for (const change of call.changes) blocked.add(change);
      if (!isFree) return true;
      if (call.isAlone) {
        if (!mayStartAlone(call.key)) return true;
        alone.push(call.key.projectId);
        single.push(call);
        return false;
      }
      const weight = weigh(call.key);
      const first = batch[0]?.key;
      const fits = first === undefined ? room > 0 : weight <= room && groupKey(first) === groupKey(call.key);
      if (!fits || batch.length === MAX_KEYS) return true;
      room -= weight;
      batch.push(call);
      return false;
    });
    for (const call of single) void writeAlone(call);
    if (batch.length > 0) void writeTogether(batch);
  }

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    // As for reads (batched-read.ts): while keys come one at a time, there is nothing to collect in a tick.
    if (lastBatch === 1 && changing.size === 0) queueMicrotask(() => process.nextTick(dispatch));
    else setImmediate(dispatch);
  }

  /** Writes calls by one statement. Other calls start before these are answered, so that the database goes on. */
  async function send(
    calls: readonly Call<Key, Answer>[],
    isAlone: boolean,
    ended: () => void,
  ): Promise<readonly (Answer | Error)[]> {
    for (const call of calls) for (const change of call.changes) changing.add(change);
    const keys = calls.map(({ key }) => key);
    const batch: Batch<Key, Answer> = { calls, isSent: false };
    underWay.add(batch);
    const on = db.withdrawable(() => {
      if (calls.some(isOver)) return false;
      batch.isSent = true;
      return true;
    });
    const waits = isAlone && (calls[0]?.until ?? 0) - performance.now() > db.statementMs;
    const work = () => write(on, keys, waits);
    const again = (error: unknown) => {
      if (keys.length === 1 && isCrossed(error)) return work();
      throw error;
    };
    const traces = calls.flatMap(({ trace }) => trace ?? []);
    if (batchChannel.hasSubscribers) batchChannel.publish({ name, keys: keys.length } satisfies BatchSize);
    try {
      return await withSharedSpan(traces, { kind: 'batch', name, keys: keys.length }, () => work().catch(again));
    } finally {
      underWay.delete(batch);
      for (const call of calls) for (const change of call.changes) changing.delete(change);
      ended();
    }
  }

  async function writeTogether(calls: readonly Call<Key, Answer>[]): Promise<void> {
    lastBatch = calls.length;
    shared += 1;
    const ended = () => {
      shared -= 1;
    };
    // Only a failure of the statement: what follows its commit must not write it again.
    const answers = await send(calls, false, ended).catch((error) => {
      const isRepeated = calls.length > 1 ? leavesSession(error) : isLockTimeout(error);
      if (isWithdrawn(error)) waiting = [...calls.filter((call) => !isEnded(call)), ...waiting];
      else if (isRepeated) waiting = [...calls.map((call) => Object.assign(call, { isAlone: true })), ...waiting];
      else for (const { reject } of calls) reject(error);
      return null;
    });
    dispatch();
    if (answers !== null) for (const [place, call] of calls.entries()) settle(call, answers[place] as Answer | Error);
  }

  async function writeAlone(call: Call<Key, Answer>): Promise<void> {
    const { projectId } = call.key;
    try {
      const [answer] = await send([call], true, () => void alone.splice(alone.indexOf(projectId), 1));
      settle(call, answer as Answer | Error);
    } catch (error) {
      call.reject(error);
      if (isLockTimeout(error)) {
        aside.set(projectId, performance.now() + ASIDE_MS);
        rejectBehind(call, error);
      }
    }
    dispatch();
  }

  /** Calls that waited for this one would wait for its lock, one after the other. */
  function rejectBehind({ changes }: Call<Key, Answer>, error: unknown): void {
    const isBehind = (other: Call<Key, Answer>) => other.changes.some((change) => changes.includes(change));
    for (const other of waiting) if (isBehind(other)) other.reject(error);
    waiting = waiting.filter((other) => !isBehind(other));
  }

  /** True while a project is kept apart. Forgets the others. */
  function isAside(projectId: number): boolean {
    if (aside.size === 0) return false;
    const now = performance.now();
    for (const [project, until] of aside) if (until < now) aside.delete(project);
    return aside.has(projectId);
  }

  /** Answers the calls whose time is over. */
  function endCalls(): void {
    waiting = waiting.filter((call) => !isEnded(call));
    for (const { calls, isSent } of underWay) for (const call of calls) isEnded(call, isSent);
    if (timer === null || waiting.length + underWay.size > 0) return;
    clearInterval(timer);
    timer = null;
  }

  return (key, until) =>
    new Promise((resolve, reject) => {
      const isAlone = isAside(key.projectId);
      const call = { key, changes: changes(key), trace: currentTrace(), until, isAlone, resolve, reject };
      if (isEnded(call)) return;
      waiting.push(call);
      timer ??= setInterval(endCalls, CHECK_MS).unref();
      if (isAlone || mayShare()) schedule();
      if (waiting.length === FIRST_BATCH && mayShare()) queueMicrotask(dispatch);
    });
}

const isOver = ({ until }: Call<unknown, never>) => until <= performance.now();

/** True if the time of a call is over, which is answered then. */
function isEnded(call: Call<unknown, never>, isSent = false): boolean {
  if (!isOver(call)) return false;
  call.reject(isSent ? unavailable(`The database has not answered in time. ${UNKNOWN_OUTCOME}`) : withdrawn());
  return true;
}

function settle<Answer>({ resolve, reject }: Call<unknown, Answer>, answer: Answer | Error): void {
  if (answer instanceof Error) reject(answer);
  else resolve(answer);
}

/** The first call of each project, then the second of each, and so on: a project with many delays the others by one. */
function inTurns<Key extends { readonly projectId: number }, Answer>(calls: readonly Call<Key, Answer>[]) {
  const counts = new Map<number, number>();
  const turns: Call<Key, Answer>[][] = [];
  for (const call of calls) {
    const turn = counts.get(call.key.projectId) ?? 0;
    counts.set(call.key.projectId, turn + 1);
    const calls = turns[turn];
    if (calls === undefined) turns.push([call]);
    else calls.push(call);
  }
  return turns.flat();
}
