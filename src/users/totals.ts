import { createBackground, type OnFailure } from '../db/background.js';
import { createBatchedRead } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import type { ProjectScope } from '../domain/projects.js';
import { LoginMethod, MAX_BUCKETS, type SignUps } from '../domain/users.js';
import { AppError, badInput } from '../errors.js';
import { compareTallies, repairTallies, type TallyDifference } from './check-tallies.sql.js';
import * as sql from './sign-ups.sql.js';
import { cutCrowdedDays, foldTallies, MAX_FOLDED, type Total } from './totals.sql.js';

/** Keeps exact totals cheap: statements add up the tallies and the pending deltas, and folds keep the deltas few. */
export interface Totals {
  /** Starts a fold if the statement of a total had many pending deltas to add up. To be called by every reader of a total. */
  scheduleFold(projectId: number, total: Pick<Total, 'pending'>): void;
  /** To be called when a user is added or removed: else the first reader after many would have to add up all of them. */
  countChange(projectId: number, users?: number): void;
  /** Folds the committed deltas of a project, after a fold in the background. */
  fold(scope: ProjectScope): Promise<void>;
  /** Counts the project's users and returns where its tallies differ. */
  check(scope: ProjectScope): Promise<TallyDifference[]>;
  /** Counts the project's users, corrects its tallies and returns where they differed. */
  repair(scope: ProjectScope): Promise<TallyDifference[]>;
  /** Waits for the folds in the background. */
  flush(): Promise<void>;
}

/** With more pending deltas than this, a fold pays off for the next reader. */
const MAX_PENDING = 64;
/** After so many users added or removed, a fold starts without waiting for a reader. */
const MAX_UNREAD = 1_000;
/** A fold leaves dead rows, which slow down every reader. After this many they are vacuumed. */
const MAX_FOLDED_UNVACUUMED = 5_000;

export function createTotals(db: Database, onFailure: OnFailure): Totals {
  const inBackground = createBackground(onFailure);
  const folding = new Map<number, Promise<void>>();
  /** By project: how many users this process has added or removed since a fold. */
  const unread = new Map<number, number>();
  let foldedSinceVacuum = 0;

  /** Counted from here on, so that the folds of other projects meanwhile do not ask for a vacuum each. */
  async function vacuumDeltas(): Promise<void> {
    const folded = foldedSinceVacuum;
    foldedSinceVacuum = 0;
    await db.vacuumDeltas().catch((error) => {
      foldedSinceVacuum += folded;
      throw error;
    });
  }

  async function fold(projectId: number): Promise<void> {
    let folded = 0;
    for (let batch = MAX_FOLDED; batch === MAX_FOLDED; folded += batch) {
      batch = await db.transaction('READ COMMITTED', (tx) => foldTallies(tx, projectId));
    }
    // Of several folds only the last one looked for crowded days, and only among its own deltas.
    if (folded >= MAX_FOLDED) {
      await db.transaction('READ COMMITTED', (tx) => cutCrowdedDays(tx, projectId));
    }
    foldedSinceVacuum += folded;
    if (foldedSinceVacuum > MAX_FOLDED_UNVACUUMED) await vacuumDeltas();
  }

  /** Folds in the background, once at a time for a project. It changes no total, so after a failure the next reader tries again. */
  function foldInBackground(projectId: number): void {
    if (folding.has(projectId)) return;
    unread.delete(projectId);
    const folded = inBackground('Folding totals', () => fold(projectId));
    folding.set(
      projectId,
      folded.finally(() => folding.delete(projectId)),
    );
  }

  return {
    scheduleFold(projectId, { pending }) {
      if (pending > MAX_PENDING) foldInBackground(projectId);
    },

    countChange(projectId, users = 1) {
      const count = (unread.get(projectId) ?? 0) + users;
      unread.set(projectId, count);
      if (count >= MAX_UNREAD) foldInBackground(projectId);
    },

    async fold(scope) {
      const projectId = scope.projectIdFor('operate');
      await folding.get(projectId);
      await fold(projectId);
    },

    check(scope) {
      const projectId = scope.projectIdFor('operate');
      // To count takes as long as it takes: a transaction has no time limit, behind a pooler either.
      return db.transaction('READ COMMITTED', (tx) => compareTallies(tx, projectId));
    },

    repair(scope) {
      const projectId = scope.projectIdFor('operate');
      return db.transaction('READ COMMITTED', (tx) => repairTallies(tx, projectId));
    },

    async flush() {
      await Promise.all(folding.values());
    },
  };
}

const LOGIN_METHODS = Object.values(LoginMethod);

/** Numbers of users from the tallies: exact, and as fast for ten million users as for ten. */
export interface Statistics {
  /** The current users by login method: always every method, in the same order. */
  totalsByMethod(scope: ProjectScope): Promise<MethodTotal[]>;
  /** Current users by the day or the whole month of their creation, from the day `from` through `to`, also zeros. BAD_USER_INPUT for more than 400. */
  signUps(scope: ProjectScope, from: string, to: string, by: 'day' | 'month'): Promise<SignUps[]>;
}

export interface MethodTotal {
  readonly loginMethod: LoginMethod;
  readonly total: number;
}

export function createStatistics(db: Database, totals: Totals): Statistics {
  const signUps = createBatchedRead({
    name: 'sign-ups',
    read: (keys: readonly sql.SignUpsKey[]) => sql.countSignUps(db.replicaReads, keys),
    answer: (rows: sql.SignUpsRow[]) => rows,
    groupKey: sql.signUpsGroupKey,
    weigh: () => MAX_BUCKETS / 10,
  });
  const byMethod = createBatchedRead({
    name: 'totals by method',
    read: (keys: readonly sql.MethodsKey[]) => sql.countByMethod(db.replicaReads, keys),
    answer: (rows) => rows,
  });

  return {
    async totalsByMethod(scope) {
      const projectId = scope.projectIdFor('read');
      const rows = await byMethod({ projectId });
      totals.scheduleFold(projectId, { pending: rows.reduce((sum, { pending }) => sum + pending, 0) });
      const usersOf = (method: LoginMethod) => rows.find((row) => row.loginMethod === method)?.users ?? 0;
      return LOGIN_METHODS.map((loginMethod) => ({ loginMethod, total: usersOf(loginMethod) }));
    },

    async signUps(scope, from, to, by) {
      const projectId = scope.projectIdFor('read');
      const starts = startsOf(readDay('from', from), readDay('to', to), by);
      const [first, last] = [starts[0], starts.at(-1)];
      if (first === undefined || last === undefined)
        throw new AppError('BAD_USER_INPUT', `from, to: got ${from} after ${to}, expected them in order.`);
      const rows = await signUps({ projectId, from: first, to: nextStart(last, by), by });
      const countsByDay = new Map<string, Record<string, number>>();
      for (const row of rows) countsByDay.set(row.from, { ...countsByDay.get(row.from), [row.loginMethod]: row.users });
      return starts.map((start) => {
        const day = dayOf(start);
        const counts = LOGIN_METHODS.map((method) => [method, countsByDay.get(day)?.[method] ?? 0] as const);
        const total = counts.reduce((sum, [, users]) => sum + users, 0);
        return { from: day, total, ...(Object.fromEntries(counts) as Record<LoginMethod, number>) };
      });
    },
  };
}

const DAY = /^\d{4}-\d\d-\d\d$/;
const dayOf = (date: Date) => date.toISOString().slice(0, 10);

function readDay(name: string, text: string): Date {
  const isDay = DAY.test(text) && text >= '1970-01-01';
  const date = new Date(isDay ? `${text}T00:00:00Z` : Number.NaN);
  // JavaScript reads 30 February as 2 March.
  if (Number.isNaN(date.getTime()) || dayOf(date) !== text)
    throw badInput(name, text.slice(0, 64), 'a day such as 2026-01-31');
  return date;
}

/** The starts of the days or months from the one of `from` through the one of `to`. */
function startsOf(from: Date, to: Date, by: 'day' | 'month'): Date[] {
  const starts: Date[] = [];
  const first = by === 'day' ? from : new Date(Date.UTC(from.getUTCFullYear(), from.getUTCMonth(), 1));
  for (let start = first; start <= to; start = nextStart(start, by)) {
    if (starts.length === MAX_BUCKETS)
      throw new AppError('BAD_USER_INPUT', `from, to: got more, expected at most ${MAX_BUCKETS} ${by}s.`);
    starts.push(start);
  }
  return starts;
}

function nextStart(start: Date, by: 'day' | 'month'): Date {
  const [year, month, day] = [start.getUTCFullYear(), start.getUTCMonth(), start.getUTCDate()];
  return new Date(by === 'day' ? Date.UTC(year, month, day + 1) : Date.UTC(year, month + 1, 1));
}
