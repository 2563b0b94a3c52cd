import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createFirstLines } from '#dist/users/first-lines.js';

/** The lines of a file that are of one user, against a map of texts. */

/** What is found for each of these lines, by a map. */
function expected(lines: readonly (readonly string[])[]) {
  const firsts = new Map<string, number>();
  return lines.map((texts, index) => {
    const place = texts.findIndex((text) => firsts.has(text));
    if (place >= 0) return { line: firsts.get(texts[place] as string), place };
    for (const text of texts) firsts.set(text, index + 1);
    return null;
  });
}

const found = (lines: readonly (readonly string[])[]) => {
  const firstLines = createFirstLines();
  return lines.map((texts, index) => firstLines.earlierThan(index + 1, texts));
};

test('a line is told of the first line that has one of its texts, and which of them', () => {
  const texts = fc.uniqueArray(
    fc.nat(60).map((n) => `text ${n}`),
    { minLength: 1, maxLength: 4 },
  );
  fc.assert(
    fc.property(fc.array(texts, { maxLength: 60 }), (lines) => {
      expect(found(lines)).toEqual(expected(lines));
    }),
  );
});

test('also in a file of many lines, of which none is forgotten', () => {
  // The table grows three times.
  const COUNT = 20_000;
  const lines = Array.from({ length: COUNT }, (_, n) => [`text ${n}`]);
  expect(found([...lines, ...lines])).toEqual([
    ...lines.map(() => null),
    ...lines.map((_, n) => ({ line: n + 1, place: 0 })),
  ]);
});

test('room is made by forgetting all lines, and only where there is too little', () => {
  const firstLines = createFirstLines();
  firstLines.earlierThan(1, ['a']);
  const most = 0.75 * 2 ** 23;
  firstLines.makeRoom(most - 1);
  expect(firstLines.earlierThan(2, ['a'])).toEqual({ line: 1, place: 0 });
  firstLines.makeRoom(most);
  expect(firstLines.earlierThan(3, ['a'])).toBeNull();
  expect(firstLines.earlierThan(4, ['a'])).toEqual({ line: 3, place: 0 });
});
