import { Prisma, type Queryable } from '../db/client.js';
import type { Position, UserFilter } from '../domain/filters.js';
import { LINKED_ACCOUNTS, NO_ACCOUNTS, type Placed, toUser, USER_COLUMNS, type User, type UserRow } from './columns.js';
import { keyText } from '../db/key-text.js';
import { coverOf, isOpenAtEnd, isOpenAtStart } from './totals/time-ranges.js';
import { startOfRank, type Total, totalOf } from './totals/totals.js';

/*
 * Lists are batched reads as well: a statement answers several questions `k` of one shape. Those share a filter, and whatever
 * else is part of the text of the statement; each brings its own project, size and place. A statement is one snapshot, so
 * rows and their total are of one instant.
 */

/** A page that starts no further than this from either end is read by OFFSET from there, which is cheaper than to look for its start. */
const SHALLOW = 500n;

const NEWEST_FIRST = Prisma.sql`u.created_at DESC, u.id DESC`;
const OLDEST_FIRST = Prisma.sql`u.created_at ASC, u.id ASC`;
const PROJECT = Prisma.sql`k.project_id`;

/** The current users `u` of the project of `k` within the dates of a filter. */
function withinDates(filter: UserFilter): Prisma.Sql {
  const { createdFrom, createdTo } = filter;
  return Prisma.sql`
    FROM users u
    WHERE u.project_id = ${PROJECT} AND u.deleted_at IS NULL
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
function slice(filter: UserFilter, { where, order, limit, offset }: Slice): Prisma.Sql {
  if (filter.loginMethods === null) {
    return Prisma.sql`SELECT u.* ${withinDates(filter)} ${where} ORDER BY ${order} LIMIT ${limit} OFFSET ${offset}`;
  }
  return Prisma.sql`
    SELECT u.*
    FROM unnest(${filter.loginMethods}::login_method[]) AS m(login_method)
    CROSS JOIN LATERAL (
      SELECT u.* ${withinDates(filter)} AND u.login_method = m.login_method ${where}
      ORDER BY ${order} LIMIT ${limit} + ${offset}
    ) AS u
    ORDER BY ${order} LIMIT ${limit} OFFSET ${offset}`;
}

/** A question for the number of users who match. */
export interface CountKey {
  readonly projectId: number;
  readonly filter: UserFilter;
}

/** Keys of one shape go into one statement. Its text and values are made of all parts of a key but those which each key brings. */
export function countShape({ projectId: _, ...shared }: CountKey): string {
  return keyText(shared);
}

/** The exact number of users who match: one row for each of the keys, which have one filter. */
export function countUsers(db: Queryable, keys: readonly CountKey[]): Promise<Placed<Total>[]> {
  const { filter } = keys[0] as CountKey;
  return db.query(Prisma.sql`
    SELECT k.place::int AS place, counted.*
    FROM unnest(${keys.map((key) => key.projectId)}::int[]) WITH ORDINALITY AS k(project_id, place)
    CROSS JOIN LATERAL (${totalOf(PROJECT, filter, coverOf(filter))}) AS counted`);
}

/** A question for page `page` of `limit` users, newest first. */
export interface PageKey extends CountKey {
  readonly page: number;
  readonly limit: number;
  readonly withAccounts: boolean;
}

/** A row of a list: what belongs to the whole of it, and one of its users, or nulls where it is empty. */
export type ListRow<Whole> = Placed<Whole & Partial<UserRow>>;

// In bigint: the rank of a page far past the end is more than a double counts.
const rankOf = ({ page, limit }: PageKey) => (BigInt(page) - 1n) * BigInt(limit);

/** As `countShape`. */
export function pageShape(key: PageKey): string {
  const { projectId: _, page: __, limit: ___, ...shared } = key;
  return `${rankOf(key) <= SHALLOW ? 'shallow' : 'deep'} ${keyText(shared)}`;
}

/** Pages with their totals, for keys of one shape. A page past the end is empty. */
export function listUserPages(db: Queryable, keys: readonly PageKey[]): Promise<ListRow<Total>[]> {
  const { filter, withAccounts } = keys[0] as PageKey;
  const isShallow = rankOf(keys[0] as PageKey) <= SHALLOW;
  const cover = coverOf(filter);
  const rows = {
    where: Prisma.empty,
    order: NEWEST_FIRST,
    limit: Prisma.sql`k.size`,
    offset: Prisma.sql`k.rank`,
  };
  // Its OFFSET 0 keeps the planner from writing the count out wherever it is named.
  const counted = Prisma.sql`${totalOf(PROJECT, filter, cover)} OFFSET 0`;
  const fromEnd = Prisma.sql`(counted.total - k.rank)`;
  const listed = isShallow
    ? slice(filter, rows)
    : Prisma.sql`
        (${slice(filter, {
          where: Prisma.sql`AND ${fromEnd} <= ${SHALLOW}::bigint`,
          order: OLDEST_FIRST,
          limit: Prisma.sql`greatest(least(k.size, ${fromEnd}), 0)`,
          offset: Prisma.sql`greatest(${fromEnd} - k.size, 0)`,
        })})
        UNION ALL
        SELECT found.*
        FROM (${startOfRank(PROJECT, filter, cover, Prisma.sql`k.rank`)}) AS start
        CROSS JOIN LATERAL (${slice(filter, {
          ...rows,
          where: Prisma.sql`AND (u.created_at, u.id) < (start.before_at, start.before_id)`,
          offset: Prisma.sql`start.rest`,
        })}) AS found
        WHERE ${fromEnd} > ${SHALLOW}::bigint`;
  return db.query(Prisma.sql`
    SELECT k.place::int AS place, counted.*, ${USER_COLUMNS}, ${withAccounts ? LINKED_ACCOUNTS : NO_ACCOUNTS}
    FROM unnest(
      ${keys.map((key) => key.projectId)}::int[],
      ${keys.map((key) => key.limit)}::bigint[],
      ${keys.map(rankOf)}::bigint[]
    ) WITH ORDINALITY AS k(project_id, size, rank, place)
    CROSS JOIN LATERAL (${counted}) AS counted
    LEFT JOIN LATERAL (${listed}) AS u ON true
    ORDER BY k.place, ${NEWEST_FIRST}`);
}

/** The users among rows that may have none, in their order. */
export function usersOf(rows: readonly Partial<UserRow>[]): User[] {
  return rows.filter(({ id }) => id !== null).map((row) => toUser(row as UserRow));
}

/** A question for a window of the list: between two positions (exclusive), `limit` users from its newer or its older end. */
export interface WindowKey extends CountKey {
  readonly after: Position | null;
  readonly before: Position | null;
  readonly from: 'newest' | 'oldest';
  readonly limit: number;
  readonly withAccounts: boolean;
  readonly withTotal: boolean;
}

/** What a window does not show: whether the filter matches users on either side of it, and how many in all, if asked for. */
export interface Beyond {
  newer: boolean;
  older: boolean;
  total: number | null;
  pending: number;
}

/** As `countShape`. */
export function windowShape({ projectId: _, limit: __, after, before, ...shared }: WindowKey): string {
  return `${after !== null} ${before !== null} ${keyText(shared)}`;
}

/**
 * Windows for keys of one shape, each with one user more than its limit where there is one: that tells that there are more
 * at the far end. Row-value seeks on (created_at, id): as cheap at any depth, and independent of whether the rows at the ends
 * of a window still exist.
 */
export function listUserWindows(db: Queryable, keys: readonly WindowKey[]): Promise<ListRow<Beyond>[]> {
  const { filter, after, before, from, withAccounts, withTotal } = keys[0] as WindowKey;
  const bounds = Prisma.sql`
    ${after === null ? Prisma.empty : Prisma.sql`AND (u.created_at, u.id) < ${AFTER}`}
    ${before === null ? Prisma.empty : Prisma.sql`AND (u.created_at, u.id) > ${BEFORE}`}`;
  const listed = slice(filter, {
    where: bounds,
    order: from === 'newest' ? NEWEST_FIRST : OLDEST_FIRST,
    limit: Prisma.sql`k.size`,
    offset: Prisma.sql`0`,
  });
  // The comparisons are not written as the NOT of those above, because PostgreSQL cannot seek by one.
  const exists = (where: Prisma.Sql, order: Prisma.Sql) =>
    Prisma.sql`EXISTS (${slice(filter, { where, order, limit: Prisma.sql`1`, offset: Prisma.sql`0` })})`;
  const newer = exists(Prisma.sql`AND (u.created_at, u.id) >= ${AFTER}`, OLDEST_FIRST);
  const older = exists(Prisma.sql`AND (u.created_at, u.id) <= ${BEFORE}`, NEWEST_FIRST);
  return db.query(Prisma.sql`
    SELECT k.place::int AS place, beyond.*, ${USER_COLUMNS}, ${withAccounts ? LINKED_ACCOUNTS : NO_ACCOUNTS}
    FROM unnest(
      ${keys.map((key) => key.projectId)}::int[],
      ${keys.map((key) => key.limit + 1)}::bigint[],
      ${keys.map((key) => key.after?.createdAt ?? null)}::timestamptz[],
      ${keys.map((key) => key.after?.id ?? null)}::bigint[],
      ${keys.map((key) => key.before?.createdAt ?? null)}::timestamptz[],
      ${keys.map((key) => key.before?.id ?? null)}::bigint[]
    ) WITH ORDINALITY AS k(project_id, size, after_at, after_id, before_at, before_id, place)
    CROSS JOIN LATERAL (
      SELECT ${after === null ? NO : newer} AS newer, ${before === null ? NO : older} AS older, counted.*
      FROM (${withTotal ? totalOf(PROJECT, filter, coverOf(filter)) : NO_TOTAL}) AS counted
    ) AS beyond
    LEFT JOIN LATERAL (${listed}) AS u ON true
    ORDER BY k.place, ${NEWEST_FIRST}`);
}

const AFTER = Prisma.sql`(k.after_at, k.after_id)`;
const BEFORE = Prisma.sql`(k.before_at, k.before_id)`;
const NO = Prisma.sql`false`;
const NO_TOTAL = Prisma.sql`SELECT NULL::bigint AS total, 0 AS pending`;
