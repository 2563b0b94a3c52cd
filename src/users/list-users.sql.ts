import { cacheKey, type KeyedRow } from '../db/batched-read.js';
import { type KeyColumns, type KeyedRead, keyedStatement, Prisma, type Queryable } from '../db/statements.js';
import { SCANNED } from '../domain/bounds.js';
import type { Position } from '../domain/cursors.js';
import type { CountedFilter } from '../domain/filters.js';
import { STATE_FILTER_NAMES, type StateFilter, type StateFilterName } from '../domain/state-filters.js';
import { bucketCoverOf, isOpenAtEnd, isOpenAtStart, startOfRank, type Total, totalOf } from './totals.sql.js';
import { banOfUser, LINKED_ACCOUNTS, NO_ACCOUNTS, SHOWN_COLUMNS, type UserRow } from './user-columns.sql.js';

/* A statement answers keys `k` of one group in one snapshot; each has its own project, size and position. Rows have no order (`usersOf`). */

/** A page that starts within this distance of either end is read by OFFSET, which is cheaper than finding its start. */
const SHALLOW = 500n;

/** Keeps the planner from computing the columns of a subquery again for each row that has them. */
const ONCE = Prisma.sql`OFFSET 0`;

const NEWEST_FIRST = Prisma.sql`u.created_at DESC, u.id DESC`;
const OLDEST_FIRST = Prisma.sql`u.created_at ASC, u.id ASC`;
const PROJECT = Prisma.sql`k.project_id`;

/** The current users `u` of the project of `k` within the dates of a filter. */
function withinDates(filter: CountedFilter): Prisma.Sql {
  const { createdFrom, createdTo } = filter;
  return Prisma.sql`
    FROM users u
    WHERE u.project_id = ${PROJECT} AND u.deleted_at IS NULL
      ${isOpenAtStart(filter) ? Prisma.empty : Prisma.sql`AND u.created_at >= ${createdFrom}::timestamptz`}
      ${isOpenAtEnd(filter) ? Prisma.empty : Prisma.sql`AND u.created_at <= ${createdTo}::timestamptz`}`;
}

interface Slice {
  /** More conditions on `u`, each with its AND. */
  readonly where?: Prisma.Sql;
  readonly order: Prisma.Sql;
  readonly limit: Prisma.Sql;
  readonly offset?: Prisma.Sql;
}

const NONE_SKIPPED = Prisma.sql`0`;

/** Matching users in order. Each login method is read from its own index: the common one would read a whole project for a rare method. */
export function slice(
  filter: CountedFilter,
  { where = Prisma.empty, order, limit, offset = NONE_SKIPPED }: Slice,
): Prisma.Sql {
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

export interface CountKey {
  readonly projectId: number;
  readonly filter: CountedFilter;
}

/** Keys of one group share a statement: they agree in everything but the parts that are arrays in the statement. */
export function countGroupKey({ projectId: _, ...shared }: CountKey): string {
  return cacheKey(shared);
}

/** The exact number of users who match: one row for each key of a group. */
export const countUsers = shapedStatement(
  countGroupKey,
  ({ filter }: CountKey): KeyedRead<CountKey, Total> =>
    keyedStatement(
      { project_id: ['int', (key) => key.projectId] },
      (keys) => Prisma.sql`
        SELECT k.key_index::int AS "keyIndex", counted.*
        FROM ${keys}
        CROSS JOIN LATERAL (${totalOf(PROJECT, filter, bucketCoverOf(filter))}) AS counted`,
    ),
);

/** The statement of the group of the keys, made by `make` from the first of them. Those without a filter are few and frequent, so they are kept. */
function shapedStatement<Key extends CountKey, Row>(
  shapeOf: (key: Key) => string,
  make: (key: Key) => KeyedRead<Key, Row>,
): KeyedRead<Key, Row> {
  const kept = new Map<string, KeyedRead<Key, Row>>();
  return (db, keys) => {
    const key = keys[0] as Key;
    if (!selectsAll(key.filter)) return make(key)(db, keys);
    const shape = shapeOf(key);
    const read = kept.get(shape) ?? make(key);
    kept.set(shape, read);
    return read(db, keys);
  };
}

function selectsAll(filter: CountedFilter): boolean {
  return filter.loginMethods === null && isOpenAtStart(filter) && isOpenAtEnd(filter);
}

/** Asks for page `page` of `limit` users, newest first. */
export interface PageKey extends CountKey {
  readonly page: number;
  readonly limit: number;
  readonly withAccounts: boolean;
}

/** What is asked of a page, in a project and by a filter. */
export type AskedPage = Omit<PageKey, keyof CountKey>;

/** A row of a list: the values of the whole list, and one of its users, or nulls if the list is empty. */
export type ListRow<Whole> = KeyedRow<Whole & Partial<UserRow>>;

// A bigint, because the rank of a page far past the end is not exact in a double.
const rankOf = ({ page, limit }: PageKey) => (BigInt(page) - 1n) * BigInt(limit);

/** As `countGroupKey`. */
export function pageGroupKey(key: PageKey): string {
  const { projectId: _, page: __, limit: ___, ...shared } = key;
  return `${rankOf(key) <= SHALLOW ? 'shallow' : 'deep'} ${cacheKey(shared)}`;
}

/** Pages with their totals, for keys of one group. A page past the end is empty. */
export const listUserPages = shapedStatement(pageGroupKey, (key: PageKey): KeyedRead<PageKey, ListRow<Total>> => {
  const { filter, withAccounts } = key;
  const isShallow = rankOf(key) <= SHALLOW;
  const cover = bucketCoverOf(filter);
  const rows = { order: NEWEST_FIRST, limit: Prisma.sql`k.size`, offset: Prisma.sql`k.rank` };
  const counted = Prisma.sql`${totalOf(PROJECT, filter, cover)} ${ONCE}`;
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
  return keyedStatement(
    {
      project_id: ['int', ({ projectId }) => projectId],
      size: ['bigint', ({ limit }) => limit],
      rank: ['bigint', rankOf],
    },
    (keys) => Prisma.sql`
      SELECT k.key_index::int AS "keyIndex", counted.*, ${SHOWN_COLUMNS}, ${withAccounts ? LINKED_ACCOUNTS : NO_ACCOUNTS}
      FROM ${keys}
      CROSS JOIN LATERAL (${counted}) AS counted
      LEFT JOIN LATERAL (${listed}) AS u ON true`,
  );
});

interface Bounds {
  readonly after: Position | null;
  readonly before: Position | null;
}

const AFTER = Prisma.sql`(k.after_at, k.after_id)`;
const BEFORE = Prisma.sql`(k.before_at, k.before_id)`;
const BOUNDS = {
  after_at: ['timestamptz', ({ after }) => after?.createdAt.toISOString() ?? null],
  after_id: ['bigint', ({ after }) => after?.id ?? null],
  before_at: ['timestamptz', ({ before }) => before?.createdAt.toISOString() ?? null],
  before_id: ['bigint', ({ before }) => before?.id ?? null],
} satisfies KeyColumns<Bounds>;

/** The conditions on `u` of the bounds that are given, each with its AND. */
function withinBounds({ after, before }: Bounds): Prisma.Sql {
  return Prisma.sql`
    ${after === null ? Prisma.empty : Prisma.sql`AND (u.created_at, u.id) < ${AFTER}`}
    ${before === null ? Prisma.empty : Prisma.sql`AND (u.created_at, u.id) > ${BEFORE}`}`;
}

/** Asks for a window of the list: `limit` users between two positions (exclusive), from its newer or its older end. */
export interface WindowKey extends CountKey, Bounds {
  readonly from: 'newest' | 'oldest';
  readonly limit: number;
  readonly withAccounts: boolean;
  readonly withTotal: boolean;
  /** True to find out if there are users on that side of the window. */
  readonly withNewer: boolean;
  readonly withOlder: boolean;
}

export type AskedWindow = Omit<WindowKey, keyof CountKey>;

/** Users outside a window: beyond each bound of it, and how many in all. Nulls unless asked for: each row of the window repeats these values. */
export interface Beyond {
  newer: boolean | null;
  older: boolean | null;
  total: number | null;
  pending: number | null;
}

/** As `countGroupKey`. */
export function windowGroupKey(key: WindowKey): string {
  const { projectId: _, limit: __, withNewer: ___, withOlder: ____, after, before, ...shared } = key;
  return `${after !== null} ${before !== null} ${cacheKey(shared)}`;
}

/** True if a window has one user more than its limit, if there is one, to tell whether the list goes on at its far end. */
function showsMore({ from, withNewer, withOlder }: WindowKey): boolean {
  return from === 'newest' ? withOlder : withNewer;
}

/** Windows for keys of one group. They seek by (created_at, id): the same cost at any depth, also when the users at the ends are removed. */
export const listUserWindows = shapedStatement(
  windowGroupKey,
  (key: WindowKey): KeyedRead<WindowKey, ListRow<Beyond>> => {
    const { filter, after, before, from, withAccounts, withTotal } = key;
    const listed = slice(filter, {
      where: withinBounds(key),
      order: from === 'newest' ? NEWEST_FIRST : OLDEST_FIRST,
      limit: Prisma.sql`k.size`,
    });
    // Not written as NOT of the bounds above, because PostgreSQL cannot seek by NOT.
    const exists = (where: Prisma.Sql, order: Prisma.Sql) =>
      Prisma.sql`EXISTS (${slice(filter, { where, order, limit: Prisma.sql`1` })})`;
    const newer = exists(Prisma.sql`AND (u.created_at, u.id) >= ${AFTER}`, OLDEST_FIRST);
    const older = exists(Prisma.sql`AND (u.created_at, u.id) <= ${BEFORE}`, NEWEST_FIRST);
    return keyedStatement<WindowKey, ListRow<Beyond>>(
      {
        project_id: ['int', ({ projectId }) => projectId],
        size: ['bigint', (key) => key.limit + (showsMore(key) ? 1 : 0)],
        ...BOUNDS,
        with_newer: ['boolean', ({ withNewer }) => withNewer],
        with_older: ['boolean', ({ withOlder }) => withOlder],
      },
      (keys) => Prisma.sql`
      SELECT k.key_index::int AS "keyIndex", beyond.*, ${SHOWN_COLUMNS}, ${withAccounts ? LINKED_ACCOUNTS : NO_ACCOUNTS}
      FROM ${keys}
      CROSS JOIN LATERAL (
        SELECT ${after === null ? UNKNOWN : Prisma.sql`CASE WHEN k.with_newer THEN ${newer} END`} AS newer,
               ${before === null ? UNKNOWN : Prisma.sql`CASE WHEN k.with_older THEN ${older} END`} AS older, counted.*
        FROM (${withTotal ? totalOf(PROJECT, filter, bucketCoverOf(filter)) : NO_TOTAL}) AS counted
        ${ONCE}
      ) AS beyond
      LEFT JOIN LATERAL (${listed}) AS u ON true`,
    );
  },
);

const UNKNOWN = Prisma.sql`NULL::boolean`;
const NO_TOTAL = Prisma.sql`SELECT NULL::bigint AS total, NULL::int AS pending`;

/** Asks for the users of a window whose state matches. */
export interface ScanKey extends Omit<WindowKey, 'withTotal' | 'withNewer' | 'withOlder'> {
  /** Null: any. */
  readonly state: StateFilter | null;
}

export type AskedScan = Omit<ScanKey, keyof CountKey | 'state'>;

/** The end of a window that has looked at so many users; nulls if the list ended before. */
export interface Reached {
  reachedAt: string | null;
  reachedId: number | null;
}

/** As `countGroupKey`. */
export function scanGroupKey({ projectId: _, limit: __, after, before, ...shared }: ScanKey): string {
  return `${after !== null} ${before !== null} ${cacheKey(shared)}`;
}

/** Windows of users by state, with one more than the limit. No index has it (docs/decisions/user-states.md), so the work is bounded. */
export function scanUserWindows(db: Queryable, keys: readonly ScanKey[]): Promise<KeyedRow<ListRow<Reached>>[]> {
  const key = keys[0] as ScanKey;
  const { filter, state, from, withAccounts } = key;
  const order = from === 'newest' ? NEWEST_FIRST : OLDEST_FIRST;
  const where = withinBounds(key);
  const scanned = slice(filter, { where, order, limit: Prisma.sql`k.scanned` });
  const last = slice(filter, { where, order, limit: Prisma.sql`1`, offset: Prisma.sql`(k.scanned - 1)` });
  const read = keyedStatement<ScanKey, ListRow<Reached>>(
    {
      project_id: ['int', ({ projectId }) => projectId],
      size: ['bigint', ({ limit }) => limit + 1],
      // A limit that the planner does not know: of a known one it would think that a table without statistics hardly has as many rows, and sort.
      scanned: ['bigint', () => SCANNED],
      ...BOUNDS,
    },
    (from) => Prisma.sql`
      SELECT k.key_index::int AS "keyIndex", reached.created_at AS "reachedAt", reached.id AS "reachedId",
             ${SHOWN_COLUMNS}, ${withAccounts ? LINKED_ACCOUNTS : NO_ACCOUNTS}
      FROM ${from}
      LEFT JOIN LATERAL (SELECT u.created_at, u.id FROM (${last}) AS u) AS reached ON true
      LEFT JOIN LATERAL (
        SELECT u.* FROM (${scanned}) AS u WHERE ${stateIs(state)} ORDER BY ${order} LIMIT k.size
      ) AS u ON true`,
  );
  return read(db, keys);
}

type Condition<Name extends StateFilterName> = (wanted: NonNullable<StateFilter[Name]>) => Prisma.Sql;

/**
 * A text in the form in which it is looked for, in any case. The database folds both sides: another program folds some letters otherwise. Users are
 * looked at one by one, and a text of ASCII takes a tenth of the time.
 */
const folded = (text: Prisma.Sql) => Prisma.sql`CASE WHEN octet_length(${text}) = char_length(${text})
  THEN lower(${text} COLLATE "C") COLLATE "default"
  ELSE replace(lower(normalize(${text}) COLLATE "default"), 'ς', 'σ')
END`;

/** What each state filter asks of `u`. */
const CONDITIONS: { readonly [Name in StateFilterName]: Condition<Name> } = {
  lastLoginBefore: (end) => Prisma.sql`coalesce(u.last_login, u.created_at) < ${end}::timestamptz`,
  lastLoginAfter: (start) => Prisma.sql`u.last_login >= ${start}::timestamptz`,
  banned: (is) => Prisma.sql`EXISTS (${banOfUser(Prisma.sql`1`)}) = ${is}::boolean`,
  authMethods: (names) => Prisma.sql`u.auth_method = ANY(${names}::text[])`,
  contains(part) {
    const texts = Prisma.sql`concat_ws(chr(10), u.login_email, u.auth_value, u.external_id)`;
    return Prisma.sql`strpos(${folded(texts)}, ${folded(Prisma.sql`${part}::text`)}) > 0`;
  },
};

function conditionOf<Name extends StateFilterName>(name: Name, state: StateFilter): Prisma.Sql {
  const wanted = state[name];
  return wanted === null ? Prisma.sql`true` : CONDITIONS[name](wanted);
}

function stateIs(state: StateFilter | null): Prisma.Sql {
  if (state === null) return Prisma.sql`true`;
  const conditions = STATE_FILTER_NAMES.map((name) => conditionOf(name, state));
  return Prisma.join(conditions, ' AND ');
}
