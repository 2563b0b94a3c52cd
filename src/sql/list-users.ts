import { Prisma, type Reader, type User } from '../db/client.js';
import type { Position, UserFilter } from '../services/filters.js';
import { USER_COLUMNS } from './columns.js';
import { coverOf, isOpenAtEnd, isOpenAtStart } from './spans.js';
import { startOfRank, type Total, totalOf } from './totals.js';

/** Rows and their total, from one statement and so from one snapshot. */
export interface UserRows extends Total {
  users: User[];
}

/** A page that starts no deeper than this is read by OFFSET, which is cheaper than to look for its start. */
const SHALLOW = 500n;

const NEWEST_FIRST = Prisma.sql`u.created_at DESC, u.id DESC`;
const OLDEST_FIRST = Prisma.sql`u.created_at ASC, u.id ASC`;

/** The current users `u` of a project within the dates of a filter. */
function withinDates(projectId: number, filter: UserFilter): Prisma.Sql {
  const { createdFrom, createdTo } = filter;
  return Prisma.sql`
    FROM users u
    WHERE u.project_id = ${projectId} AND u.deleted_at IS NULL
      ${isOpenAtStart(filter) ? Prisma.empty : Prisma.sql`AND u.created_at >= ${createdFrom}::timestamptz`}
      ${isOpenAtEnd(filter) ? Prisma.empty : Prisma.sql`AND u.created_at <= ${createdTo}::timestamptz`}`;
}

interface Slice {
  /** More conditions on `u`, each with its AND. */
  readonly where: Prisma.Sql;
  readonly order: Prisma.Sql;
  readonly limit: Prisma.Sql;
  readonly offset: Prisma.Sql;
}

/**
 * Matching users in order. A filter by methods takes the first of each method from the index of that method and merges them:
 * to filter the common index would read a whole project in search of ten users of a rare method.
 */
function slice(projectId: number, filter: UserFilter, { where, order, limit, offset }: Slice): Prisma.Sql {
  if (filter.loginMethods === null) {
    return Prisma.sql`
      SELECT ${USER_COLUMNS} ${withinDates(projectId, filter)} ${where}
      ORDER BY ${order} LIMIT ${limit} OFFSET ${offset}`;
  }
  return Prisma.sql`
    SELECT ${USER_COLUMNS}
    FROM unnest(${filter.loginMethods}::login_method[]) AS m(login_method)
    CROSS JOIN LATERAL (
      SELECT u.* ${withinDates(projectId, filter)} AND u.login_method = m.login_method ${where}
      ORDER BY ${order} LIMIT ${limit} + ${offset}
    ) AS u
    ORDER BY ${order} LIMIT ${limit} OFFSET ${offset}`;
}

/** The exact number of users who match. */
export async function countUsers(db: Reader, projectId: number, filter: UserFilter): Promise<Total> {
  const [row] = await db.read<Total>(totalOf(projectId, filter, coverOf(filter)));
  return row as Total;
}

/** Page `page` of `limit` users, newest first, with the total. A page past the end is empty. */
export async function listUserPage(
  db: Reader,
  projectId: number,
  filter: UserFilter,
  { page, limit }: { page: number; limit: number },
): Promise<UserRows> {
  const cover = coverOf(filter);
  // In bigint: the rank of a page far past the end is more than a double counts.
  const rank = (BigInt(page) - 1n) * BigInt(limit);
  const rows = {
    where: Prisma.empty,
    order: NEWEST_FIRST,
    limit: Prisma.sql`${limit}::bigint`,
    offset: Prisma.sql`${rank}::bigint`,
  };
  const listed =
    rank <= SHALLOW
      ? slice(projectId, filter, rows)
      : Prisma.sql`
          SELECT found.*
          FROM (${startOfRank(projectId, filter, cover, rank)}) AS start
          CROSS JOIN LATERAL (${slice(projectId, filter, {
            ...rows,
            where: Prisma.sql`AND (u.created_at, u.id) < (start.before_at, start.before_id)`,
            offset: Prisma.sql`start.rest`,
          })}) AS found`;
  return toUserRows(
    await db.read<Partial<User> & Total>(Prisma.sql`
      SELECT counted.*, listed.*
      FROM (${totalOf(projectId, filter, cover)}) AS counted
      LEFT JOIN LATERAL (${listed}) AS listed ON true
      ORDER BY listed."createdAt" DESC, listed.id DESC`),
  );
}

function toUserRows(rows: (Partial<User> & Total)[]): UserRows {
  const { total = 0n, pending = 0 } = rows[0] ?? {};
  return { total, pending, users: rows.filter((row) => row.id !== null) as User[] };
}

/** A window of the list: between two positions (exclusive), `limit` users from its newer or its older end. */
export interface UserWindow {
  readonly after: Position | null;
  readonly before: Position | null;
  readonly from: 'newest' | 'oldest';
  readonly limit: number;
}

export interface WindowRows {
  /** Newest first. */
  users: User[];
  /** Whether the filter matches users newer than these, inside the window or beyond it. */
  hasNewer: boolean;
  /** Whether it matches older ones. */
  hasOlder: boolean;
  /** All that match the filter, whatever the window; null where it was not asked for. */
  total: Total | null;
}

/** Row-value seeks on (created_at, id): as cheap at any depth, and independent of whether the rows at its ends still exist. */
export async function listUserWindow(
  db: Reader,
  projectId: number,
  filter: UserFilter,
  window: UserWindow,
  withTotal: boolean,
): Promise<WindowRows> {
  const { after, before, limit } = window;
  const bounds = Prisma.sql`
    ${after === null ? Prisma.empty : Prisma.sql`AND ${olderThan(after)}`}
    ${before === null ? Prisma.empty : Prisma.sql`AND ${newerThan(before)}`}`;
  const listed = slice(projectId, filter, {
    where: bounds,
    order: window.from === 'newest' ? NEWEST_FIRST : OLDEST_FIRST,
    limit: Prisma.sql`${limit + 1}::bigint`,
    offset: Prisma.sql`0`,
  });
  const exists = (condition: Prisma.Sql, order: Prisma.Sql) =>
    Prisma.sql`EXISTS (${slice(projectId, filter, {
      where: Prisma.sql`AND ${condition}`,
      order,
      limit: Prisma.sql`1`,
      offset: Prisma.sql`0`,
    })})`;
  const rows = await db.read<Partial<User> & Beyond>(Prisma.sql`
    SELECT beyond.*, listed.*
    FROM (
      SELECT ${after === null ? NONE : exists(notOlderThan(after), OLDEST_FIRST)} AS newer,
             ${before === null ? NONE : exists(notNewerThan(before), NEWEST_FIRST)} AS older,
             counted.*
      FROM (${withTotal ? totalOf(projectId, filter, coverOf(filter)) : NO_TOTAL}) AS counted
    ) AS beyond
    LEFT JOIN LATERAL (${listed}) AS listed ON true
    ORDER BY listed."createdAt" DESC, listed.id DESC`);
  const users = rows.filter((row) => row.id !== null) as User[];
  // The one row too many tells that there are more at the far end.
  const hasMore = users.length > limit;
  const { newer = false, older = false, total = null, pending = 0 } = rows[0] ?? {};
  return {
    users: window.from === 'newest' ? users.slice(0, limit) : users.slice(-limit),
    hasNewer: newer || (hasMore && window.from === 'oldest'),
    hasOlder: older || (hasMore && window.from === 'newest'),
    total: total === null ? null : { total, pending },
  };
}

/** What a window does not show: whether the filter matches users on either side of it, and how many in all. */
interface Beyond {
  newer: boolean;
  older: boolean;
  total: bigint | null;
  pending: number;
}

const NONE = Prisma.sql`false`;
const NO_TOTAL = Prisma.sql`SELECT NULL::bigint AS total, 0 AS pending`;

function olderThan({ createdAt, id }: Position): Prisma.Sql {
  return Prisma.sql`(u.created_at, u.id) < (${createdAt}::timestamptz, ${id}::bigint)`;
}

function newerThan({ createdAt, id }: Position): Prisma.Sql {
  return Prisma.sql`(u.created_at, u.id) > (${createdAt}::timestamptz, ${id}::bigint)`;
}

// Comparisons of their own, because PostgreSQL cannot seek by the NOT of one: it would read all rows up to the position.
function notOlderThan({ createdAt, id }: Position): Prisma.Sql {
  return Prisma.sql`(u.created_at, u.id) >= (${createdAt}::timestamptz, ${id}::bigint)`;
}

function notNewerThan({ createdAt, id }: Position): Prisma.Sql {
  return Prisma.sql`(u.created_at, u.id) <= (${createdAt}::timestamptz, ${id}::bigint)`;
}
