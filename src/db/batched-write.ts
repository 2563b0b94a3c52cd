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
import { mayShare, type PlannedCall, type PlannedKeys, planWrites, type StatementsUnderWay } from './write-plan.js';

export interface BatchedWrite<Key extends { readonly projectId: number }, Answer>
  extends Pick<PlannedKeys<Key>, 'weigh'>,
    Partial<Pick<PlannedKeys<Key>, 'groupKey'>> {
  readonly db: Pick<Database, 'withdrawable' | 'statementMs'>;
  /** The rows, in the plural: the name in metrics and traces. */
  readonly name: string;
  /** A key's changes, as texts that contain the project. Keys with a text in common are written one after the other, and each finds what the one before has done. */
  readonly changes: (key: Key) => readonly string[];
  /** Writes keys in one transaction: an answer or an error for each. Throws an error that undid all. Without `waits`, a lock fails soon. */
  readonly write: (db: Queryable, keys: readonly Key[], waits: boolean) => Promise<readonly (Answer | Error)[]>;
  /** True if simultaneous writes of others were in the way. A key that is written alone is written once more then, and finds them. */
  readonly isCrossed: (error: unknown) => boolean;
}

/** With so many keys that wait, a statement leaves before the end of the tick, as for reads (batched-read.ts). */
const FIRST_BATCH = 8;
/** The keys of a project are written alone for so long after one of them has met a lock alone. */
const ASIDE_MS = 5_000;
/** The pause between looks for calls whose time is over. */
const CHECK_MS = 50;

/** A call that is not answered. */
interface Call<Key, Answer> extends PlannedCall<Key> {
  readonly trace: TraceSpan | undefined;
  /** Until when it has an answer, by the clock of `performance`. */
  readonly until: number;
  isAlone: boolean;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** Calls that share a statement, or one that has its own, until it has ended. */
interface Batch<Key, Answer> {
  readonly calls: readonly Call<Key, Answer>[];
  readonly isAlone: boolean;
  /** True if the database has it, or may have it. */
  isSent: boolean;
}

/**
 * Writes of all requests share statements, and so commits, across projects. Each is answered after its commit.
 * A write leaves at once where nothing is under way. While a statement is under way, others wait for its end, or leave before that if they are many:
 * the database flushes once for many, and the process reads requests meanwhile.
 * A fault of one key is a row of the statement. Keys of a statement that PostgreSQL has undone, as for a lock, are written again, each alone,
 * in their order; so is the only key of a statement that met a lock, and its project is then kept apart for a while.
 * Nothing is written again that may be committed.
 * A call is answered when its time is over: one that was not sent never is; of another one, the answer says that its outcome is unknown.
 * So a key waits for a lock only where there is time for all of the statement.
 */
export function createBatchedWrite<Key extends { readonly projectId: number }, Answer>(
  options: BatchedWrite<Key, Answer>,
): (key: Key, until: number) => Promise<Answer> {
  const { groupKey = () => null, weigh } = options;
  let waiting: Call<Key, Answer>[] = [];
  const batches = createBatches<Key, Answer>();
  const aside = createAside();
  let lastBatch = 0;
  let isScheduled = false;
  let timer: NodeJS.Timeout | null = null;

  /** Starts what may start now. */
  function dispatch(): void {
    isScheduled = false;
    const plan = planWrites(waiting, batches.underWay, { groupKey, weigh });
    waiting = plan.waiting;
    for (const call of plan.alone) void writeAlone(call);
    if (plan.together.length > 0) void writeTogether(plan.together);
  }

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    // As for reads (batched-read.ts): while keys come one at a time, there is nothing to collect in a tick.
    if (lastBatch === 1 && batches.underWay.changing.size === 0) queueMicrotask(() => process.nextTick(dispatch));
    else setImmediate(dispatch);
  }

  async function send(batch: Batch<Key, Answer>): Promise<readonly (Answer | Error)[]> {
    batches.begin(batch);
    try {
      return await writeBatch(options, batch);
    } finally {
      batches.end(batch);
    }
  }

  /** Writes calls by one statement. Other calls start before these are answered, so that the database goes on. */
  async function writeTogether(calls: readonly Call<Key, Answer>[]): Promise<void> {
    lastBatch = calls.length;
    // Only a failure of the statement: what follows its commit must not write it again.
    const answers = await send({ calls, isAlone: false, isSent: false }).catch((error) => {
      waiting = [...takeForRepeat(calls, error), ...waiting];
      return null;
    });
    dispatch();
    if (answers !== null) for (const [place, call] of calls.entries()) settle(call, answers[place] as Answer | Error);
  }

  async function writeAlone(call: Call<Key, Answer>): Promise<void> {
    try {
      const [answer] = await send({ calls: [call], isAlone: true, isSent: false });
      settle(call, answer as Answer | Error);
    } catch (error) {
      call.reject(error);
      if (isLockTimeout(error)) {
        aside.add(call.key.projectId);
        waiting = rejectBehind(waiting, call, error);
      }
    }
    dispatch();
  }

  /** Answers the calls whose time is over. */
  function endCalls(): void {
    waiting = waiting.filter((call) => !endIfOver(call));
    for (const { calls, isSent } of batches.all) for (const call of calls) endIfOver(call, isSent);
    if (timer === null || waiting.length + batches.all.size > 0) return;
    clearInterval(timer);
    timer = null;
  }

  return (key, until) =>
    new Promise((resolve, reject) => {
      const isAlone = aside.has(key.projectId);
      const call = { key, changes: options.changes(key), trace: currentTrace(), until, isAlone, resolve, reject };
      if (endIfOver(call)) return;
      waiting.push(call);
      timer ??= setInterval(endCalls, CHECK_MS).unref();
      if (isAlone || mayShare(batches.underWay, waiting.length)) schedule();
      if (waiting.length === FIRST_BATCH && mayShare(batches.underWay, waiting.length)) queueMicrotask(dispatch);
    });
}

/** The batches that have begun and not ended, and what they change. */
interface Batches<Key extends { readonly projectId: number }, Answer> {
  readonly all: ReadonlySet<Batch<Key, Answer>>;
  readonly underWay: StatementsUnderWay;
  begin(batch: Batch<Key, Answer>): void;
  end(batch: Batch<Key, Answer>): void;
}

function createBatches<Key extends { readonly projectId: number }, Answer>(): Batches<Key, Answer> {
  const all = new Set<Batch<Key, Answer>>();
  const underWay = { changing: new Set<string>(), shared: 0, alone: [] as number[] };
  return {
    all,
    underWay,
    begin(batch) {
      all.add(batch);
      for (const { key, changes } of batch.calls) {
        for (const change of changes) underWay.changing.add(change);
        if (batch.isAlone) underWay.alone.push(key.projectId);
      }
      if (!batch.isAlone) underWay.shared += 1;
    },
    end(batch) {
      all.delete(batch);
      for (const { key, changes } of batch.calls) {
        for (const change of changes) underWay.changing.delete(change);
        if (batch.isAlone) underWay.alone.splice(underWay.alone.indexOf(key.projectId), 1);
      }
      if (!batch.isAlone) underWay.shared -= 1;
    },
  };
}

/** Runs the statement of a batch; for a key that is alone again, where writes of others were in the way. */
function writeBatch<Key extends { readonly projectId: number }, Answer>(
  { db, name, write, isCrossed }: BatchedWrite<Key, Answer>,
  batch: Batch<Key, Answer>,
): Promise<readonly (Answer | Error)[]> {
  const { calls, isAlone } = batch;
  const keys = calls.map(({ key }) => key);
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
  return withSharedSpan(traces, { kind: 'batch', name, keys: keys.length }, () => work().catch(again));
}

/** Answers calls after a failure of their statement, but those that are to be written again, which it returns. */
function takeForRepeat<Key, Answer>(calls: readonly Call<Key, Answer>[], error: unknown): readonly Call<Key, Answer>[] {
  if (isWithdrawn(error)) return calls.filter((call) => !endIfOver(call));
  const isRepeated = calls.length > 1 ? leavesSession(error) : isLockTimeout(error);
  if (isRepeated) return calls.map((call) => Object.assign(call, { isAlone: true }));
  for (const { reject } of calls) reject(error);
  return [];
}

/** Rejects the calls that waited for this one: they would wait for its lock, one after the other. Returns the others. */
function rejectBehind<Key, Answer>(
  waiting: readonly Call<Key, Answer>[],
  { changes }: Call<Key, Answer>,
  error: unknown,
): Call<Key, Answer>[] {
  const isBehind = (other: Call<Key, Answer>) => other.changes.some((change) => changes.includes(change));
  for (const other of waiting) if (isBehind(other)) other.reject(error);
  return waiting.filter((other) => !isBehind(other));
}

/** The projects that are kept apart, whose keys are written alone. */
interface Aside {
  /** Keeps a project apart for a while. */
  add(projectId: number): void;
  /** True while a project is kept apart. Forgets the others. */
  has(projectId: number): boolean;
}

function createAside(): Aside {
  const ends = new Map<number, number>();
  return {
    add: (projectId) => void ends.set(projectId, performance.now() + ASIDE_MS),
    has(projectId) {
      if (ends.size === 0) return false;
      const now = performance.now();
      for (const [project, until] of ends) if (until < now) ends.delete(project);
      return ends.has(projectId);
    },
  };
}

const isOver = ({ until }: Call<unknown, never>) => until <= performance.now();

/** Answers a call whose time is over. True if it did. */
function endIfOver(call: Call<unknown, never>, isSent = false): boolean {
  if (!isOver(call)) return false;
  call.reject(isSent ? unavailable(`The database has not answered in time. ${UNKNOWN_OUTCOME}`) : withdrawn());
  return true;
}

function settle<Answer>({ resolve, reject }: Call<unknown, Answer>, answer: Answer | Error): void {
  if (answer instanceof Error) reject(answer);
  else resolve(answer);
}
