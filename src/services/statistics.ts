import { createBatchedRead } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import type { ProjectScope } from '../domain/projects.js';
import { LoginMethod } from '../domain/users.js';
import { AppError, badInput } from '../errors.js';
import {
  countByMethod,
  countSignUps,
  type MethodsKey,
  type SignUpsKey,
  type SignUpsRow,
  signUpsGroupKey,
} from '../sql/totals/sign-ups.js';
import type { Totals } from './totals.js';

/** The most days or months of one answer. */
export const MAX_BUCKETS = 400;
const LOGIN_METHODS = Object.values(LoginMethod);

/** The users who were created in a day or a month, and are still there. */
export interface SignUps extends Record<LoginMethod, number> {
  /** Its first day: 2026-01-31. */
  readonly from: string;
  readonly total: number;
}

/** Numbers of users from the tallies: exact, and as fast for ten million users as for ten. */
export function createStatistics(db: Database, totals: Totals) {
  const signUps = createBatchedRead({
    name: 'sign-ups',
    read: (keys: readonly SignUpsKey[]) => countSignUps(db.lagging, keys),
    answer: (rows: SignUpsRow[]) => rows,
    groupKey: signUpsGroupKey,
    weigh: () => MAX_BUCKETS / 10,
  });
  const byMethod = createBatchedRead({
    name: 'totals by method',
    read: (keys: readonly MethodsKey[]) => countByMethod(db.lagging, keys),
    answer: (rows) => rows,
  });

  return {
    /** The current users by login method: always every method, in the same order. */
    async totalsByMethod(scope: ProjectScope): Promise<{ loginMethod: LoginMethod; total: number }[]> {
      const projectId = scope.projectIdFor('read');
      const rows = await byMethod({ projectId });
      totals.scheduleFold(projectId, { pending: rows.reduce((sum, { pending }) => sum + pending, 0) });
      const usersOf = (method: LoginMethod) => rows.find((row) => row.loginMethod === method)?.users ?? 0;
      return LOGIN_METHODS.map((loginMethod) => ({ loginMethod, total: usersOf(loginMethod) }));
    },

    /**
     * The current users by the day or the month of their creation, from the day `from` through the day `to`: every day or month,
     * also those without any. Months count as a whole. BAD_USER_INPUT for more than 400.
     */
    async signUps(scope: ProjectScope, from: string, to: string, by: 'day' | 'month'): Promise<SignUps[]> {
      const projectId = scope.projectIdFor('read');
      const starts = startsOf(readDay('from', from), readDay('to', to), by);
      const [first, last] = [starts[0], starts.at(-1)];
      if (first === undefined || last === undefined)
        throw new AppError('BAD_USER_INPUT', `from, to: got ${from} after ${to}, expected them in order.`);
      const rows = await signUps({ projectId, from: first, to: nextStart(last, by), by });
      const found = new Map<string, Record<string, number>>();
      for (const row of rows) found.set(row.from, { ...found.get(row.from), [row.loginMethod]: row.users });
      return starts.map((start) => {
        const day = dayOf(start);
        const counts = LOGIN_METHODS.map((method) => [method, found.get(day)?.[method] ?? 0] as const);
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
