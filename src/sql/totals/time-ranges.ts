import type { UserFilter } from '../../domain/filters.js';

/** From one instant to before another. */
export interface TimeRange {
  readonly from: Date;
  readonly to: Date;
}

/** A range of whole spans, for which there are tallies. */
export interface SpanRange extends TimeRange {
  readonly span: 'all' | 'month' | 'day';
}

/** The time of a filter, divided into spans with tallies and partial days to be counted. No two parts overlap. */
export interface BucketCover {
  /** The fewest spans: all time, or whole months with whole days on either side. */
  readonly spans: readonly SpanRange[];
  /** The same without `all`, so that a position can be found in it. */
  readonly steps: readonly SpanRange[];
  /** The ends of the time, each within one day. */
  readonly partialDays: readonly TimeRange[];
}

const DAY_MS = 86_400_000;
/** The first day of a creation, and the day after the last (domain/filters.ts). */
const FIRST_DAY = 0;
const END_DAY = Date.UTC(10_000, 0, 1) / DAY_MS;

/** Whether a filter includes the oldest users. */
export function isOpenAtStart({ createdFrom }: Pick<UserFilter, 'createdFrom'>): boolean {
  return createdFrom.getTime() <= FIRST_DAY * DAY_MS;
}

/** Whether a filter includes the newest users. */
export function isOpenAtEnd({ createdTo }: Pick<UserFilter, 'createdTo'>): boolean {
  return createdTo.getTime() + 1 >= END_DAY * DAY_MS;
}

/** Divides the time of a filter at the starts of UTC days and months. */
export function bucketCoverOf({ createdFrom, createdTo }: Pick<UserFilter, 'createdFrom' | 'createdTo'>): BucketCover {
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
