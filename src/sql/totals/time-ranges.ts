import type { UserFilter } from '../../domain/filters.js';

/** A stretch of time in which users were created, from one instant to before another. */
export interface Stretch {
  readonly from: Date;
  readonly to: Date;
}

/** A stretch made of whole spans that tallies are kept of. */
export interface SpanStretch extends Stretch {
  readonly span: 'all' | 'month' | 'day';
}

/** The time of a filter, cut into what tallies know and what is to be counted. Nothing lies in two parts. */
export interface Cover {
  /** The fewest spans: all of time, or whole months with whole days on either side. */
  readonly spans: readonly SpanStretch[];
  /** The same without `all`, so that positions can be found in it. */
  readonly steps: readonly SpanStretch[];
  /** The partial days at the ends, each within one day. */
  readonly edges: readonly Stretch[];
}

const DAY_MS = 86_400_000;
/** The first day, and the day after the last, on which users are created (services/filters.ts). */
const FIRST_DAY = 0;
const END_DAY = Date.UTC(10_000, 0, 1) / DAY_MS;

/** Whether a filter takes every user from the first on. */
export function isOpenAtStart({ createdFrom }: Pick<UserFilter, 'createdFrom'>): boolean {
  return createdFrom.getTime() <= FIRST_DAY * DAY_MS;
}

/** Whether a filter takes every user to the last. */
export function isOpenAtEnd({ createdTo }: Pick<UserFilter, 'createdTo'>): boolean {
  return createdTo.getTime() + 1 >= END_DAY * DAY_MS;
}

/** Cuts the time of a filter at the starts of UTC days and months. */
export function coverOf({ createdFrom, createdTo }: Pick<UserFilter, 'createdFrom' | 'createdTo'>): Cover {
  // Instants are whole milliseconds, so the last one of the filter ends where the next begins.
  const from = createdFrom.getTime();
  const to = createdTo.getTime() + 1;
  const firstDay = Math.max(Math.ceil(from / DAY_MS), FIRST_DAY);
  const endDay = Math.min(Math.floor(to / DAY_MS), END_DAY);
  if (firstDay >= endDay) {
    const midnight = Math.min(Math.max(firstDay * DAY_MS, from), to);
    return { spans: [], steps: [], edges: stretches([from, midnight], [midnight, to]) };
  }

  const edges = stretches([from, firstDay * DAY_MS], [endDay * DAY_MS, to]);
  const firstMonth = monthStart(firstDay, startsMonth(firstDay) ? 0 : 1);
  const endMonth = monthStart(endDay, 0);
  const steps =
    firstMonth < endMonth
      ? [...daySpans(firstDay, firstMonth), span('month', firstMonth, endMonth), ...daySpans(endMonth, endDay)]
      : daySpans(firstDay, endDay);
  const isAll = firstDay === FIRST_DAY && endDay === END_DAY;
  return { spans: isAll ? [span('all', firstDay, endDay)] : steps, steps, edges };
}

function stretches(...bounds: [from: number, to: number][]): Stretch[] {
  return bounds.filter(([from, to]) => from < to).map(([from, to]) => ({ from: new Date(from), to: new Date(to) }));
}

function daySpans(fromDay: number, toDay: number): SpanStretch[] {
  return fromDay < toDay ? [span('day', fromDay, toDay)] : [];
}

function span(kind: SpanStretch['span'], fromDay: number, toDay: number): SpanStretch {
  return { span: kind, from: new Date(fromDay * DAY_MS), to: new Date(toDay * DAY_MS) };
}

function startsMonth(day: number): boolean {
  return monthStart(day, 0) === day;
}

/** The day that starts the month of a day, or one `later`. Days count from 1970, as they do everywhere here. */
function monthStart(day: number, later: number): number {
  const date = new Date(day * DAY_MS);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later) / DAY_MS;
}
