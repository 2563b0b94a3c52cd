import { cacheKey, type KeyedRow } from '../db/batched-read.js';
import { Prisma, type Queryable } from '../db/statements.js';
import type { StateFilter } from '../domain/filters.js';
import { keyedStatement } from './keyed-statement.js';
import { LINKED_ACCOUNTS, NO_ACCOUNTS } from './linked-accounts.js';
import { AFTER, BEFORE, type ListRow, NEWEST_FIRST, OLDEST_FIRST, slice, type WindowKey } from './list-users.js';
import { SHOWN_COLUMNS } from './user-columns.js';

/** How many users of the list one window looks at. */
export const SCANNED = 1_000;

/** Asks for the users of a window whose state matches. */
export interface ScanKey extends Omit<WindowKey, 'withTotal' | 'withNewer' | 'withOlder'> {
  readonly state: StateFilter;
}

/** Where a window that has looked at SCANNED users ended; nulls if the list ended before. */
export interface Reached {
  reachedAt: string | null;
  reachedId: number | null;
}

/** As `countGroupKey`. */
export function scanGroupKey({ projectId: _, limit: __, after, before, ...shared }: ScanKey): string {
  return `${after !== null} ${before !== null} ${cacheKey(shared)}`;
}

/**
 * Windows for keys of one group: of the next SCANNED users those whose state matches, at most one more than the limit. No index has
 * the states, because an index of the last login would cost every login (docs/decisions/user-states.md). So the work is bounded instead.
 */
export function scanUserWindows(db: Queryable, keys: readonly ScanKey[]): Promise<KeyedRow<ListRow<Reached>>[]> {
  const { filter, state, after, before, from, withAccounts } = keys[0] as ScanKey;
  const order = from === 'newest' ? NEWEST_FIRST : OLDEST_FIRST;
  const where = Prisma.sql`
    ${after === null ? Prisma.empty : Prisma.sql`AND (u.created_at, u.id) < ${AFTER}`}
    ${before === null ? Prisma.empty : Prisma.sql`AND (u.created_at, u.id) > ${BEFORE}`}`;
  const scanned = slice(filter, { where, order, limit: Prisma.sql`k.scanned`, offset: Prisma.sql`0` });
  const last = slice(filter, { where, order, limit: Prisma.sql`1`, offset: Prisma.sql`(k.scanned - 1)` });
  const read = keyedStatement<ScanKey, ListRow<Reached>>(
    {
      project_id: ['int', ({ projectId }) => projectId],
      size: ['bigint', ({ limit }) => limit + 1],
      // A limit that the planner does not know: of a known one it would think that a table without statistics hardly has as many rows, and sort.
      scanned: ['bigint', () => SCANNED],
      after_at: ['timestamptz', (each) => each.after?.createdAt ?? null],
      after_id: ['bigint', (each) => each.after?.id ?? null],
      before_at: ['timestamptz', (each) => each.before?.createdAt ?? null],
      before_id: ['bigint', (each) => each.before?.id ?? null],
    },
    (from) => Prisma.sql`
      SELECT k.key_index::int AS "keyIndex", reached.created_at AS "reachedAt", reached.id AS "reachedId",
             ${SHOWN_COLUMNS}, ${withAccounts ? LINKED_ACCOUNTS : NO_ACCOUNTS}
      FROM ${from}
      LEFT JOIN LATERAL (SELECT u.created_at, u.id FROM (${last}) AS u) AS reached ON true
      LEFT JOIN LATERAL (
        SELECT u.* FROM (${scanned}) AS u WHERE true ${stateIs(state)} ORDER BY ${order} LIMIT k.size
      ) AS u ON true`,
  );
  return read(db, keys);
}

/** The conditions of a state on `u`, each with its AND. A user without a login counts from the registration on. */
function stateIs({ lastLoginBefore, lastLoginAfter, banned }: StateFilter): Prisma.Sql {
  const isBanned = Prisma.sql`EXISTS (
    SELECT FROM bans b
    WHERE b.project_id = u.project_id AND b.auth_method = u.auth_method AND b.auth_value_key = u.auth_value_key
  )`;
  return Prisma.sql`
    ${lastLoginBefore === null ? Prisma.empty : Prisma.sql`AND coalesce(u.last_login, u.created_at) < ${lastLoginBefore}::timestamptz`}
    ${lastLoginAfter === null ? Prisma.empty : Prisma.sql`AND u.last_login >= ${lastLoginAfter}::timestamptz`}
    ${banned === null ? Prisma.empty : Prisma.sql`AND ${isBanned} = ${banned}::boolean`}`;
}
