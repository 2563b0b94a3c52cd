import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ChangeRow } from '#dist/feed/changes.sql.js';
import { cursorsOf, requireKept, requirePlaceKept } from '#dist/feed/cursors.js';

/** Cursors of the feed, in a database that was restored any number of times. */

const DAY_MS = 86_400_000;
/** As many earlier timelines are kept. */
const KEPT = 200;

/** A feed whose earlier timelines end at these ids. It has published as much after the last one, and has deleted what is through `pruned`. */
function feedOf(ends: readonly number[], pruned: number | null = null): ChangeRow {
  const timelines = ends.map((end, index) => `t${index} ${end}`);
  return {
    timeline: 'now',
    published: (ends.at(-1) ?? 1) + 1_000,
    timelines: timelines.length === 0 ? null : timelines.join(' '),
    prunedThrough: pruned,
  } as ChangeRow;
}

/** Ends of timelines, in their order. No id is 1, with which a feed begins. */
const someEnds = (maxLength: number) =>
  fc.uniqueArray(fc.integer({ min: 2, max: 10_000 }), { maxLength }).map((ends) => ends.sort((a, b) => a - b));

const codeOf = (work: () => void): string => {
  try {
    work();
    return 'kept';
  } catch (error) {
    return (error as { code: string }).code;
  }
};

describe('a change', () => {
  test('has the timeline in which it was published: the first that reaches its id, or else the present one', () => {
    fc.assert(
      fc.property(someEnds(6), fc.integer({ min: 2, max: 11_000 }), (ends, id) => {
        const place = ends.findIndex((end) => end >= id);
        expect(cursorsOf(feedOf(ends))(id)).toEqual({ timeline: place < 0 ? 'now' : `t${place}`, id });
      }),
    );
  });

  test.each([0, 1])('of the beginning (%i) has the same cursor in every database', (id) => {
    expect(cursorsOf(feedOf([]))(id)).toEqual({ timeline: '00000000', id });
    expect(cursorsOf(feedOf([7]))(id)).toEqual({ timeline: '00000000', id });
  });
});

describe('a cursor', () => {
  test('that this database has given is kept, and another one only as far as its timeline is known', () => {
    fc.assert(
      fc.property(someEnds(6), fc.integer({ min: 2, max: 11_000 }), fc.nat(6), (ends, id, place) => {
        const feed = feedOf(ends);
        expect(codeOf(() => requireKept(cursorsOf(feed)(id), feed, DAY_MS))).toBe('kept');
        const end = ends[place];
        const isSeen = end !== undefined && id <= end;
        const ofAnother = { timeline: `t${place}`, id };
        expect(codeOf(() => requireKept(ofAnother, feed, DAY_MS))).toBe(isSeen ? 'kept' : 'CURSOR_EXPIRED');
        expect(codeOf(() => requirePlaceKept(ofAnother, feed, DAY_MS))).toBe(isSeen ? 'kept' : 'CURSOR_EXPIRED');
      }),
    );
  });

  test('is kept from the last change that was deleted on', () => {
    const feed = feedOf([], 500);
    const at = (id: number) => codeOf(() => requireKept({ timeline: 'now', id }, feed, DAY_MS));
    expect([499, 500, 501].map(at)).toEqual(['CURSOR_EXPIRED', 'kept', 'kept']);
    const none = feedOf([]);
    expect(codeOf(() => requireKept({ timeline: 'now', id: 0 }, none, DAY_MS))).toBe('kept');
  });

  test.each([
    [30 * DAY_MS, '30 days'],
    [DAY_MS, '1 day'],
    [3_600_000, '1 hour'],
    [90 * 60_000, '90 minutes'],
    [60_000, '1 minute'],
  ])('that is too old is told for how long changes are kept: %i ms', (retentionMs, words) => {
    expect(() => requireKept({ timeline: 'now', id: 1 }, feedOf([], 2), retentionMs)).toThrow(
      `changes are kept for ${words}, and some after it are gone`,
    );
  });
});

test('a place of a webhook outlives the timelines that are kept, and a cursor of a caller does not', () => {
  const endsOf = (count: number) => Array.from({ length: count }, (_, index) => index + 2);
  const old = { timeline: 'forgotten', id: 5 };
  for (const [count, place] of [
    [KEPT - 1, 'CURSOR_EXPIRED'],
    [KEPT, 'kept'],
  ] as const) {
    const feed = feedOf(endsOf(count));
    expect(codeOf(() => requireKept(old, feed, DAY_MS))).toBe('CURSOR_EXPIRED');
    expect(codeOf(() => requirePlaceKept(old, feed, DAY_MS))).toBe(place);
  }
  const pruned = feedOf(endsOf(KEPT), 6);
  expect(codeOf(() => requirePlaceKept(old, pruned, DAY_MS))).toBe('CURSOR_EXPIRED');
  expect(codeOf(() => requirePlaceKept({ ...old, id: 6 }, pruned, DAY_MS))).toBe('kept');
});
