import { Prisma, type Queryable, type User } from '../db/client.js';
import type { Position, UserFilter } from '../services/filters.js';
import { USER_COLUMNS } from './columns.js';

/** Rows and their total, from one statement and so from one snapshot. */
export interface UserRows {
  users: User[];
  total: number;
}

/** The current users `u` of a project that match a filter. */
function matching(projectId: number, filter: UserFilter): Prisma.Sql {
  const byMethod =
    filter.loginMethods === null
      ? Prisma.empty
      : Prisma.sql`AND u.login_method = ANY(${filter.loginMethods}::login_method[])`;
  return Prisma.sql`
    FROM users u
    WHERE u.project_id = ${projectId} AND u.deleted_at IS NULL
      AND u.created_at >= ${filter.createdFrom}::timestamptz AND u.created_at <= ${filter.createdTo}::timestamptz ${byMethod}`;
}

export async function countUsers(db: Queryable, projectId: number, filter: UserFilter): Promise<number> {
  const [row] = await db.$queryRaw<[{ total: bigint }]>(
    Prisma.sql`SELECT count(*) AS total ${matching(projectId, filter)}`,
  );
  return Number(row.total);
}

/** Page `page` of `limit` users, newest first, with the total. A page past the end is empty. */
export async function listUserPage(
  db: Queryable,
  projectId: number,
  filter: UserFilter,
  { page, limit }: { page: number; limit: number },
): Promise<UserRows> {
  // In bigint: the offset of a page far past the end is more than a double counts.
  const offset = (BigInt(page) - 1n) * BigInt(limit);
  const rows = await db.$queryRaw<(Partial<User> & { total: bigint })[]>(Prisma.sql`
    SELECT counted.total, listed.*
    FROM (SELECT count(*) AS total ${matching(projectId, filter)}) AS counted
    LEFT JOIN LATERAL (
      SELECT ${USER_COLUMNS} ${matching(projectId, filter)}
      ORDER BY u.created_at DESC, u.id DESC
      LIMIT ${limit}::bigint OFFSET ${offset}::bigint
    ) AS listed ON true
    ORDER BY listed."createdAt" DESC, listed.id DESC`);
  return { total: Number(rows[0]?.total ?? 0), users: rows.filter((row) => row.id !== null) as User[] };
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
  total: number | null;
}

/** Row-value seeks on (created_at, id): as cheap at any depth, and independent of whether the rows at its ends still exist. */
export async function listUserWindow(
  db: Queryable,
  projectId: number,
  filter: UserFilter,
  window: UserWindow,
  withTotal: boolean,
): Promise<WindowRows> {
  const match = matching(projectId, filter);
  const { after, before, limit } = window;
  const order =
    window.from === 'newest' ? Prisma.sql`u.created_at DESC, u.id DESC` : Prisma.sql`u.created_at ASC, u.id ASC`;
  const rows = await db.$queryRaw<(Partial<User> & Beyond)[]>(Prisma.sql`
    SELECT beyond.*, listed.*
    FROM (
      SELECT ${after === null ? NONE : Prisma.sql`EXISTS (SELECT 1 ${match} AND NOT ${olderThan(after)})`} AS newer,
             ${before === null ? NONE : Prisma.sql`EXISTS (SELECT 1 ${match} AND NOT ${newerThan(before)})`} AS older,
             ${withTotal ? Prisma.sql`(SELECT count(*) ${match})` : Prisma.sql`NULL::bigint`} AS total
    ) AS beyond
    LEFT JOIN LATERAL (
      SELECT ${USER_COLUMNS} ${match}
        ${after === null ? Prisma.empty : Prisma.sql`AND ${olderThan(after)}`}
        ${before === null ? Prisma.empty : Prisma.sql`AND ${newerThan(before)}`}
      ORDER BY ${order}
      LIMIT ${limit + 1}::bigint
    ) AS listed ON true
    ORDER BY listed."createdAt" DESC, listed.id DESC`);
  const users = rows.filter((row) => row.id !== null) as User[];
  // The one row too many tells that there are more at the far end.
  const hasMore = users.length > limit;
  const { newer = false, older = false, total = null } = rows[0] ?? {};
  return {
    users: window.from === 'newest' ? users.slice(0, limit) : users.slice(-limit),
    hasNewer: newer || (hasMore && window.from === 'oldest'),
    hasOlder: older || (hasMore && window.from === 'newest'),
    total: total === null ? null : Number(total),
  };
}

/** What a window does not show: whether the filter matches users on either side of it, and how many in all. */
interface Beyond {
  newer: boolean;
  older: boolean;
  total: bigint | null;
}

const NONE = Prisma.sql`false`;

function olderThan({ createdAt, id }: Position): Prisma.Sql {
  return Prisma.sql`(u.created_at, u.id) < (${createdAt}::timestamptz, ${id}::bigint)`;
}

function newerThan({ createdAt, id }: Position): Prisma.Sql {
  return Prisma.sql`(u.created_at, u.id) > (${createdAt}::timestamptz, ${id}::bigint)`;
}
