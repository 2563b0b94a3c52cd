import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createJsonSplitter, MAX_RECORD_LENGTH, parseExactly } from '#dist/users/moving/read-json.js';

/** Files of other systems are cut into records without being parsed as a whole: see src/users/moving/read-json.ts. */

const RUNS = { numRuns: 300 };

/** Texts with many of the marks that have a meaning in JSON. */
const text = fc.oneof(
  fc.string({ unit: fc.constantFrom('"', '\\', '{', '}', '[', ']', ',', ':', 'a', ' ', '\n', 'é'), maxLength: 12 }),
  fc.constantFrom('users', 'people', ''),
);
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 3 },
    text,
    fc.integer(),
    fc.constantFrom(true, false, null),
    fc.array(tie('any'), { maxLength: 3 }),
    fc.dictionary(text, tie('any'), { maxKeys: 3 }),
  ),
}));
const record = fc.dictionary(text, value.any, { maxKeys: 4 });
const records = fc.array(record, { maxLength: 5 });
const indent = fc.constantFrom(undefined, 1, '\t');

const share = fc.nat(1_000).map((n) => n / 1_000);
/** Where a file is cut into pieces, as shares of its length. */
const cuts = fc.array(share, { maxLength: 6 });

function split(json: string, shares: readonly number[], lists: readonly string[] = []) {
  const splitter = createJsonSplitter(lists);
  const places = [0, ...shares.map((share) => Math.floor(share * json.length)).sort((a, b) => a - b), json.length];
  const found = places.slice(1).flatMap((end, place) => splitter.split(json.slice(places[place], end)));
  return { found: found.map((text) => (text === null ? null : JSON.parse(text))), isWithin: splitter.isWithin() };
}

describe('whole records are cut out, wherever pieces of the file are cut', () => {
  test('of a list', () => {
    fc.assert(
      fc.property(records, indent, cuts, (all, space, shares) => {
        expect(split(JSON.stringify(all, null, space), shares)).toEqual({ found: all, isWithin: false });
      }),
      RUNS,
    );
  });

  test('of objects, one after another', () => {
    fc.assert(
      fc.property(records, fc.constantFrom('\n', '', ' '), cuts, (all, between, shares) => {
        expect(split(all.map((one) => JSON.stringify(one)).join(between), shares).found).toEqual(all);
      }),
      RUNS,
    );
  });

  test('of a list within an object, whatever stands before and after it', () => {
    const others = fc.dictionary(
      text.filter((name) => name !== 'users' && name !== 'people'),
      value.any,
      { maxKeys: 3 },
    );
    fc.assert(
      fc.property(
        records,
        others,
        others,
        fc.constantFrom('users', 'people'),
        indent,
        cuts,
        (all, a, b, name, space, shares) => {
          const object = {
            ...a,
            [name]: all,
            ...Object.fromEntries(Object.entries(b).map(([key, one]) => [`${key}.`, one])),
          };
          const json = JSON.stringify(object, null, space);
          expect(split(json, shares, ['users', 'people'])).toEqual({ found: all, isWithin: false });
        },
      ),
      RUNS,
    );
  });

  test('only a file that ends within a record has more to come', () => {
    fc.assert(
      fc.property(record, share, (one, until) => {
        const json = JSON.stringify([one]);
        const end = Math.floor(until * json.length);
        expect(split(json.slice(0, end), []).isWithin).toBe(end > 0 && end < json.length);
      }),
      RUNS,
    );
  });
});

test.each([
  [MAX_RECORD_LENGTH, false],
  [MAX_RECORD_LENGTH + 1, true],
])('a record of %i characters is given as none: %s', (length, isTooLong) => {
  const frame = '{"a":""}'.length;
  const long = `{"a":"${'x'.repeat(length - frame)}"}`;
  for (const shares of [[], [0.5], [0.1, 0.9]]) {
    const { found } = split(`[{"first":1},${long},{"last":1}]`, shares);
    expect(found).toEqual([{ first: 1 }, isTooLong ? null : JSON.parse(long), { last: 1 }]);
  }
});

describe('a whole number that JavaScript would round is a text', () => {
  test('and everything else is as JSON has it', () => {
    const number = fc.oneof(fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }), fc.maxSafeInteger().map(BigInt));
    fc.assert(
      fc.property(number, text, value.any, (whole, name, other) => {
        const isRounded = BigInt(Number(whole)) !== whole || !Number.isSafeInteger(Number(whole));
        const json = `{"n":[ ${whole},{"t":${JSON.stringify(`${name}: ${whole}`)}}],"o":${JSON.stringify(other)}}`;
        expect(parseExactly(json)).toEqual({
          n: [isRounded ? String(whole) : Number(whole), { t: `${name}: ${whole}` }],
          o: other,
        });
      }),
      RUNS,
    );
  });

  test.each(['9007199254740991', '-9007199254740991', '9007199254740992', '-9007199254740993'])('%s', (whole) => {
    expect(parseExactly(`[${whole}]`)).toEqual([Number.isSafeInteger(Number(whole)) ? Number(whole) : whole]);
  });
});
