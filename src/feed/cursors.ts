import { type ChangeCursor, cursorExpired } from '../domain/changes.js';
import { inWords } from '../domain/figures.js';
import type { ChangeRow, FeedRow } from './changes.sql.js';

/* A cursor is an id in the timeline in which it was published. A restore of the database begins a new timeline. */

/** The timeline of cursors before the first change, which are the same in every database. */
const BEGINNING = { timeline: '00000000', published: 1 };

/** As many earlier timelines are kept: see the migration. */
const MAX_TIMELINES = 200;

/** True if the timeline of a cursor is still known. */
const isKnown = ({ timeline }: ChangeCursor, feed: FeedRow) =>
  timeline === feed.timeline || timelinesOf(feed).some((one) => one.timeline === timeline);

function timelinesOf({ timelines }: FeedRow): { timeline: string; published: number }[] {
  const words = timelines?.split(' ') ?? [];
  return words.flatMap((word, index) =>
    index % 2 === 0 ? [{ timeline: word, published: Number(words[index + 1]) }] : [],
  );
}

/** The cursor of an id, in the timeline in which it was published, so that a change always has the same. */
export function cursorsOf(feed: FeedRow): (id: number) => ChangeCursor {
  const timelines = [BEGINNING, ...timelinesOf(feed)];
  return (id) => ({ timeline: timelines.find(({ published }) => published >= id)?.timeline ?? feed.timeline, id });
}

/** Throws CURSOR_EXPIRED where changes after the cursor are missing, or where it has seen changes that this database lost. */
export function requireKept({ timeline, id }: ChangeCursor, feed: ChangeRow, retentionMs: number): void {
  if (timeline !== feed.timeline) {
    const place = [BEGINNING, ...timelinesOf(feed)].find((one) => one.timeline === timeline);
    if (place === undefined || id > place.published)
      throw cursorExpired('this database has not all of the changes before it');
  }
  requireNotPruned(id, feed, retentionMs);
}

/** As `requireKept`, for a place that is never moved, which may be older than the timelines that are kept. */
export function requirePlaceKept(place: ChangeCursor, feed: ChangeRow, retentionMs: number): void {
  if (isKnown(place, feed) || timelinesOf(feed).length < MAX_TIMELINES) requireKept(place, feed, retentionMs);
  else requireNotPruned(place.id, feed, retentionMs);
}

/** Throws CURSOR_EXPIRED where changes after the place have been deleted. */
function requireNotPruned(place: number, { prunedThrough }: ChangeRow, retentionMs: number): void {
  if (prunedThrough !== null && place < prunedThrough)
    throw cursorExpired(`changes are kept for ${inWords(retentionMs)}, and some after it are gone`);
}
