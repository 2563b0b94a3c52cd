import { cacheKey, type KeyedRow } from '../db/batched-read.js';
import { keyedStatement, Prisma, type Queryable } from '../db/statements.js';

/** Asks for the users created in each day or month from `from` to before `to`. Both are starts of a day, or of a month. */
export interface SignUpsKey {
  readonly projectId: number;
  readonly from: Date;
  readonly to: Date;
  readonly by: 'day' | 'month';
}

/** The current users with a login method who were created in the day or the month that begins on `from` (2026-01-31). */
export interface SignUpsRow {
  from: string;
  loginMethod: string;
  users: number;
}

/** Keys of one group share a statement: they differ in the project only. */
export function signUpsGroupKey({ projectId: _, ...shared }: SignUpsKey): string {
  return cacheKey(shared);
}

/** New users by day, from the tallies and the pending deltas: the time does not grow with the users. Zeros are left out. */
export function countSignUps(db: Queryable, keys: readonly SignUpsKey[]): Promise<KeyedRow<SignUpsRow>[]> {
  const { from, to, by } = keys[0] as SignUpsKey;
  return db.query(Prisma.sql`
    SELECT k.key_index::int AS "keyIndex", to_char(each.starts_on, 'YYYY-MM-DD') AS "from",
           each.login_method::text AS "loginMethod", sum(each.users)::bigint AS users
    FROM unnest(${keys.map(({ projectId }) => projectId)}::int[]) WITH ORDINALITY AS k(project_id, key_index)
    CROSS JOIN LATERAL (
      SELECT t.starts_on, t.login_method, t.users
      FROM tallies t
      WHERE t.project_id = k.project_id AND t.span = ${by}::tally_span
        AND t.starts_on >= utc_day(${from}::timestamptz) AND t.starts_on < utc_day(${to}::timestamptz)
      UNION ALL
      SELECT utc_day(date_trunc(${by}::text, d.created_at, 'UTC')), d.login_method, d.change
      FROM tally_deltas d
      WHERE d.project_id = k.project_id AND d.created_at >= ${from}::timestamptz AND d.created_at < ${to}::timestamptz
    ) AS each
    GROUP BY k.key_index, each.starts_on, each.login_method
    HAVING sum(each.users) <> 0
    ORDER BY each.starts_on`);
}

export interface MethodsKey {
  readonly projectId: number;
}

/** The exact number of current users by login method: a row for each that has any tally or delta. */
export const countByMethod = keyedStatement<MethodsKey, Omit<SignUpsRow, 'from'> & { pending: number }>(
  { project_id: ['int', ({ projectId }) => projectId] },
  (keys) => Prisma.sql`
    SELECT k.key_index::int AS "keyIndex", each.login_method::text AS "loginMethod", sum(each.users)::bigint AS users,
           sum(each.pending)::int AS pending
    FROM ${keys}
    CROSS JOIN LATERAL (
      SELECT t.login_method, t.users, 0 AS pending FROM tallies t WHERE t.project_id = k.project_id AND t.span = 'all'
      UNION ALL
      SELECT d.login_method, d.change, 1 FROM tally_deltas d WHERE d.project_id = k.project_id
    ) AS each
    GROUP BY k.key_index, each.login_method`,
);
