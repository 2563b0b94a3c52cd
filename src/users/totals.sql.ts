import { Prisma, type Queryable } from '../db/statements.js';
import type { CountedFilter } from '../domain/filters.js';

/*
 * Totals and positions from tallies (prisma/migrations, "Totals"). Triggers append every change to `tally_deltas`; a fold adds them up.
 * Tallies plus pending deltas are exact within one statement. In the fragments, `project` is the id of the project, as a column or a value.
 */

/** The number of users, and how many deltas were added up for it. A fold would spare the next reader these. */
export interface Total {
  total: number;
  pending: number;
}

/** The condition that the `login_method` of `alias` is one of the filter. */
export function methodIs(alias: string, { loginMethods }: CountedFilter): Prisma.Sql {
  if (loginMethods === null) return Prisma.empty;
  return Prisma.sql`AND ${Prisma.raw(alias)}.login_method = ANY(${loginMethods}::login_method[])`;
}

function unnestSpans(spans: readonly SpanRange[]): Prisma.Sql {
  return Prisma.sql`unnest(
    ${spans.map(({ span }) => span)}::tally_span[],
    ${spans.map(({ from }) => from)}::timestamptz[],
    ${spans.map(({ to }) => to)}::timestamptz[]
  )`;
}

/** Counts current users of a filter between two positions by a range of an index, for each method: for all, a planner may read the whole index. */
function counted(project: Prisma.Sql, { loginMethods }: CountedFilter, from: Prisma.Sql, to: Prisma.Sql): Prisma.Sql {
  const ofMethod = loginMethods === null ? Prisma.empty : Prisma.sql`AND u.login_method = m.login_method`;
  const inRange = Prisma.sql`
    SELECT count(*) AS users
    FROM users u
    WHERE u.project_id = ${project} AND u.deleted_at IS NULL ${ofMethod}
      AND (u.created_at, u.id) >= (${from}) AND (u.created_at, u.id) < (${to})`;
  if (loginMethods === null) return inRange;
  return Prisma.sql`
    SELECT coalesce(sum(each.users), 0) AS users
    FROM unnest(${loginMethods}::login_method[]) AS m(login_method)
    CROSS JOIN LATERAL (${inRange}) AS each`;
}

/** A row (starts_at, starts_id): the start of the first or the last slice within `e`; none if the day has no slices. */
function sliceWithin(project: Prisma.Sql, order: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    SELECT s.starts_at, s.starts_id
    FROM tally_slices s
    WHERE s.project_id = ${project} AND s.starts_at >= e.from_at AND s.starts_at < e.to_at
    ORDER BY s.starts_at ${order}, s.starts_id ${order}
    LIMIT 1`;
}

/** A row (from_at, to_at, users) for each partial day at the ends of a filter: its slices are added up, and only incomplete ones are counted. */
function countedPartialDays(project: Prisma.Sql, filter: CountedFilter, partialDays: readonly TimeRange[]): Prisma.Sql {
  const [first, last] = [Prisma.sql`first.starts_at, first.starts_id`, Prisma.sql`last.starts_at, last.starts_id`];
  const end = Prisma.sql`e.to_at, 0`;
  return Prisma.sql`
    SELECT e.from_at, e.to_at, head.users + tail.users + coalesce((
             SELECT sum(s.users)
             FROM tally_slices s
             WHERE s.project_id = ${project} AND (s.starts_at, s.starts_id) >= (${first})
               AND (s.starts_at, s.starts_id) < (${last}) ${methodIs('s', filter)}
           ), 0) + coalesce((
             SELECT sum(d.change)
             FROM tally_deltas d
             WHERE first.starts_at IS NOT NULL AND d.project_id = ${project}
               AND (d.created_at, d.user_id) >= (${first}) AND (d.created_at, d.user_id) < (${last}) ${methodIs('d', filter)}
           ), 0) AS users
    FROM unnest(${partialDays.map(({ from }) => from)}::timestamptz[], ${partialDays.map(({ to }) => to)}::timestamptz[]) AS e(from_at, to_at)
    LEFT JOIN LATERAL (${sliceWithin(project, Prisma.sql`ASC`)}) AS first ON true
    LEFT JOIN LATERAL (${sliceWithin(project, Prisma.sql`DESC`)}) AS last ON true
    CROSS JOIN LATERAL (
      ${counted(project, filter, Prisma.sql`e.from_at, 0`, Prisma.sql`coalesce(first.starts_at, e.to_at), coalesce(first.starts_id, 0)`)}
    ) AS head
    CROSS JOIN LATERAL (${counted(project, filter, last, end)}) AS tail`;
}

/** A row (total, pending): how many current users match. Reads the tallies of whole spans, and up to two slices at each end. */
export function totalOf(project: Prisma.Sql, filter: CountedFilter, { spans, partialDays }: BucketCover): Prisma.Sql {
  if (spans[0]?.span === 'all') return totalOfAll(project, filter);
  const whole = { from: spans[0]?.from ?? new Date(0), to: spans.at(-1)?.to ?? new Date(0) };
  return Prisma.sql`
    SELECT (pending.changes + tallied.users + counted.users)::bigint AS total, pending.count::int AS pending
    FROM (
      SELECT count(*) AS count,
             coalesce(sum(d.change) FILTER (
               WHERE d.created_at >= ${whole.from}::timestamptz AND d.created_at < ${whole.to}::timestamptz ${methodIs('d', filter)}
             ), 0) AS changes
      FROM tally_deltas d
      WHERE d.project_id = ${project}
    ) AS pending
    CROSS JOIN (
      SELECT coalesce(sum(each.users), 0) AS users
      FROM ${unnestSpans(spans)} AS s(span, from_at, to_at)
      CROSS JOIN LATERAL (
        SELECT sum(t.users) AS users
        FROM tallies t
        WHERE t.project_id = ${project} AND t.span = s.span
          AND t.starts_on >= utc_day(s.from_at) AND t.starts_on < utc_day(s.to_at) ${methodIs('t', filter)}
      ) AS each
    ) AS tallied
    CROSS JOIN (
      SELECT coalesce(sum(e.users), 0) AS users FROM (${countedPartialDays(project, filter, partialDays)}) AS e
    ) AS counted`;
}

/** A filter without dates, which is the most frequent: one tally for each login method. */
function totalOfAll(project: Prisma.Sql, filter: CountedFilter): Prisma.Sql {
  return Prisma.sql`
    SELECT (pending.changes + coalesce((
             SELECT sum(t.users)
             FROM tallies t
             WHERE t.project_id = ${project} AND t.span = 'all' ${methodIs('t', filter)}
           ), 0))::bigint AS total, pending.count AS pending
    FROM (
      SELECT count(*)::int AS count, coalesce(sum(d.change) FILTER (WHERE true ${methodIs('d', filter)}), 0) AS changes
      FROM tally_deltas d
      WHERE d.project_id = ${project}
    ) AS pending`;
}

/**
 * A row (before_at, before_id, rest), or none past the end. To find the user of rank `rank` (0 is the newest), skip `rest` users before that
 * position; `rest` is smaller than a slice, or than a day without slices. The search goes from months to a day, and then to a slice.
 * At each step the blocks are numbered from the newest, and the one that contains the rank is entered.
 */
export function startOfRank(
  project: Prisma.Sql,
  filter: CountedFilter,
  { steps, partialDays }: BucketCover,
  rank: Prisma.Sql,
): Prisma.Sql {
  const changesWithin = (range: Prisma.Sql, span: Prisma.Sql) => Prisma.sql`
        SELECT ${span} AS span, utc_start(t.starts_on) AS from_at, t.users
        FROM tallies t
        WHERE t.project_id = ${project} AND t.span = ${span}
          AND t.starts_on >= utc_day(${range}.from_at) AND t.starts_on < utc_day(${range}.to_at) ${methodIs('t', filter)}
        UNION ALL
        SELECT ${span}, date_trunc(${span}::text, p.created_at, 'UTC'), p.change
        FROM pending p
        WHERE p.created_at >= ${range}.from_at AND p.created_at < ${range}.to_at`;
  const withRank = (blocks: Prisma.Sql) => Prisma.sql`
      SELECT numbered.* FROM (${blocks}) AS numbered
      WHERE ${rank} >= numbered.newer AND ${rank} < numbered.newer + numbered.users`;
  return Prisma.sql`
    WITH pending AS MATERIALIZED (
      SELECT d.created_at, d.user_id, d.change FROM tally_deltas d WHERE d.project_id = ${project} ${methodIs('d', filter)}
    ), coarse AS (
      SELECT each.span::text AS kind, each.from_at, sum(each.users) AS users,
             CASE each.span WHEN 'month' THEN date_trunc('month', each.from_at + interval '32 days', 'UTC')
                            ELSE each.from_at + interval '1 day' END AS to_at
      FROM ${unnestSpans(steps)} AS s(span, from_at, to_at)
      CROSS JOIN LATERAL (${changesWithin(Prisma.sql`s`, Prisma.sql`s.span`)}) AS each
      GROUP BY each.span, each.from_at
      UNION ALL
      SELECT 'partial day', e.from_at, e.users, e.to_at FROM (${countedPartialDays(project, filter, partialDays)}) AS e
    ), block AS (
      ${withRank(Prisma.sql`SELECT c.*, sum(c.users) OVER (ORDER BY c.from_at DESC) - c.users AS newer FROM coarse c`)}
    ), days AS (
      SELECT 'day' AS kind, each.from_at, each.from_at + interval '1 day' AS to_at, sum(each.users) AS users, block.newer
      FROM block
      CROSS JOIN LATERAL (${changesWithin(Prisma.sql`block`, Prisma.sql`'day'::tally_span`)}) AS each
      WHERE block.kind = 'month'
      GROUP BY each.from_at, block.newer
      UNION ALL
      SELECT block.kind, block.from_at, block.to_at, block.users, block.newer FROM block WHERE block.kind <> 'month'
    ), day AS (
      ${withRank(Prisma.sql`
        SELECT d.kind, d.from_at, d.to_at, d.users, d.newer + sum(d.users) OVER (ORDER BY d.from_at DESC) - d.users AS newer FROM days d`)}
    ), slices AS (
      SELECT s.starts_at, s.starts_id, sum(s.users) FILTER (WHERE true ${methodIs('s', filter)}) AS users,
             coalesce(lead(s.starts_at) OVER position, day.to_at) AS ends_at,
             coalesce(lead(s.starts_id) OVER position, 0) AS ends_id,
             day.kind = 'partial day' AND lead(s.starts_at) OVER position IS NULL AS is_cut_short
      FROM day
      JOIN tally_slices s ON s.project_id = ${project} AND s.starts_at >= day.from_at AND s.starts_at < day.to_at
      GROUP BY s.starts_at, s.starts_id, day.kind, day.to_at
      WINDOW position AS (ORDER BY s.starts_at, s.starts_id)
    ), whole AS (
      SELECT s.starts_at, s.starts_id, s.ends_at, s.ends_id,
             CASE WHEN s.is_cut_short THEN (
               ${counted(project, filter, Prisma.sql`s.starts_at, s.starts_id`, Prisma.sql`s.ends_at, s.ends_id`)}
             ) ELSE coalesce(s.users, 0) + coalesce((
               SELECT sum(p.change)
               FROM pending p
               WHERE (p.created_at, p.user_id) >= (s.starts_at, s.starts_id) AND (p.created_at, p.user_id) < (s.ends_at, s.ends_id)
             ), 0) END AS users
      FROM slices s
    ), cut AS (
      SELECT * FROM whole
      UNION ALL
      -- Of a partial day also the rest of the slice in which it begins.
      (SELECT day.from_at, 0, w.starts_at, w.starts_id, day.users - (SELECT sum(users) FROM whole)
       FROM day
       CROSS JOIN whole w
       WHERE day.kind = 'partial day'
       ORDER BY w.starts_at, w.starts_id
       LIMIT 1)
    ), slice AS (
      ${withRank(Prisma.sql`
        SELECT cut.*, day.newer + sum(cut.users) OVER (ORDER BY cut.starts_at DESC, cut.starts_id DESC) - cut.users AS newer
        FROM cut CROSS JOIN day`)}
    )
    SELECT coalesce(slice.ends_at, day.to_at) AS before_at, coalesce(slice.ends_id, 0) AS before_id,
           (${rank} - coalesce(slice.newer, day.newer))::bigint AS rest
    FROM day
    LEFT JOIN slice ON true`;
}

/** The deltas that one fold adds, which bounds the time of its locks. A smaller fold also divides crowded days into slices. */
export const MAX_FOLDED = 100_000;

/** Folds up to MAX_FOLDED committed deltas and returns their number; 0 while another process folds. */
export async function foldTallies(db: Queryable, projectId: number): Promise<number> {
  const [row] = await db.query<{ folded: number }>(Prisma.sql`
    SELECT fold_tallies(${projectId}::int, ${MAX_FOLDED}::int) AS folded`);
  return row?.folded ?? 0;
}

export async function cutCrowdedDays(db: Queryable, projectId: number): Promise<void> {
  await db.query(Prisma.sql`SELECT cut_crowded_days(${projectId}::int, NULL)::text`);
}

interface TimeRange {
  readonly from: Date;
  readonly to: Date;
}

/** A range of whole spans, for which there are tallies. */
interface SpanRange extends TimeRange {
  readonly span: 'all' | 'month' | 'day';
}

/** The time of a filter, divided into spans with tallies and partial days to be counted. No two parts overlap. */
interface BucketCover {
  /** The fewest spans: all time, or whole months with whole days on either side. */
  readonly spans: readonly SpanRange[];
  /** The spans without `all`, so that a position can be found in it. */
  readonly steps: readonly SpanRange[];
  /** The ends of the time, each within one day. */
  readonly partialDays: readonly TimeRange[];
}

const DAY_MS = 86_400_000;
/** The first day of a creation, and the day after the last (domain/parse.ts). */
const FIRST_DAY = 0;
const END_DAY = Date.UTC(10_000, 0, 1) / DAY_MS;

/** True if a filter includes the oldest users. */
export function isOpenAtStart({ createdFrom }: Pick<CountedFilter, 'createdFrom'>): boolean {
  return createdFrom.getTime() <= FIRST_DAY * DAY_MS;
}

/** The newest. */
export function isOpenAtEnd({ createdTo }: Pick<CountedFilter, 'createdTo'>): boolean {
  return createdTo.getTime() + 1 >= END_DAY * DAY_MS;
}

/** Divides the time of a filter at the starts of UTC days and months. */
export function bucketCoverOf({
  createdFrom,
  createdTo,
}: Pick<CountedFilter, 'createdFrom' | 'createdTo'>): BucketCover {
  // Instants are whole milliseconds, so the exclusive end is the next one.
  const from = createdFrom.getTime();
  const to = createdTo.getTime() + 1;
  const firstDay = Math.max(Math.ceil(from / DAY_MS), FIRST_DAY);
  const endDay = Math.min(Math.floor(to / DAY_MS), END_DAY);
  if (firstDay >= endDay) {
    const midnight = Math.min(Math.max(firstDay * DAY_MS, from), to);
    return { spans: [], steps: [], partialDays: timeRanges([from, midnight], [midnight, to]) };
  }

  const partialDays = timeRanges([from, firstDay * DAY_MS], [endDay * DAY_MS, to]);
  const firstMonth = monthStart(firstDay, startsMonth(firstDay) ? 0 : 1);
  const endMonth = monthStart(endDay, 0);
  const steps =
    firstMonth < endMonth
      ? [...daySpans(firstDay, firstMonth), span('month', firstMonth, endMonth), ...daySpans(endMonth, endDay)]
      : daySpans(firstDay, endDay);
  const isAll = firstDay === FIRST_DAY && endDay === END_DAY;
  return { spans: isAll ? [span('all', firstDay, endDay)] : steps, steps, partialDays };
}

function timeRanges(...bounds: [from: number, to: number][]): TimeRange[] {
  return bounds.filter(([from, to]) => from < to).map(([from, to]) => ({ from: new Date(from), to: new Date(to) }));
}

function daySpans(fromDay: number, toDay: number): SpanRange[] {
  return fromDay < toDay ? [span('day', fromDay, toDay)] : [];
}

function span(kind: SpanRange['span'], fromDay: number, toDay: number): SpanRange {
  return { span: kind, from: new Date(fromDay * DAY_MS), to: new Date(toDay * DAY_MS) };
}

function startsMonth(day: number): boolean {
  return monthStart(day, 0) === day;
}

/** The first day of the month of a day, or of the month `later` months after it. Days count from 1970. */
function monthStart(day: number, later: number): number {
  const date = new Date(day * DAY_MS);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later) / DAY_MS;
}
