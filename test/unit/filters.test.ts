import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { banCursor, banCursorOf, cursor, encodeCursor } from '#dist/domain/cursors.js';
import { EARLIEST, LARGEST_ID, LATEST, parse, parseDate, userId } from '#dist/domain/parse.js';
import { STATE_FILTER_NAMES } from '#dist/domain/state-filters.js';
import { AppError } from '#dist/errors.js';
import { ROOT } from '../support/checkout.js';

/** The rules for dates and ids, compared with independent parsers. */

const inRange = (time: number) => time >= EARLIEST.getTime() && time <= LATEST.getTime();
const two = (value: number) => String(value).padStart(2, '0');
const four = (value: number) => String(value).padStart(4, '0');

/** The number of days in a month, by the calendar rule. */
function daysOf(year: number, month: number): number {
  if (month === 2) return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28;
  return [4, 6, 9, 11].includes(month) ? 30 : 31;
}

/** A four-digit year, a month and a day from 1 to 31; some of these dates do not exist. */
const someDay = fc.record({
  year: fc.oneof(fc.integer({ min: 0, max: 9999 }), fc.integer({ min: 1970, max: 2100 })),
  month: fc.integer({ min: 1, max: 12 }),
  day: fc.integer({ min: 1, max: 31 }),
});
const realDay = someDay.filter(({ year, month, day }) => day <= daysOf(year, month));
const textOf = ({ year, month, day }: { year: number; month: number; day: number }) =>
  `${four(year)}-${two(month)}-${two(day)}`;
const upTo = (max: number) => fc.integer({ min: 0, max });
const offset = fc.record({ sign: fc.constantFrom('+', '-'), hour: upTo(23), minute: upTo(59) });
const time = fc.record({ hour: upTo(23), minute: upTo(59), second: upTo(59) });
const clock = ({ hour, minute, second }: { hour: number; minute: number; second: number }) =>
  `${two(hour)}:${two(minute)}:${two(second)}`;

/** The parser moves an instant outside the range of creation dates to one millisecond outside it. */
function expectInstant(parsed: Date | null, oracle: number): void {
  expect(parsed).not.toBeNull();
  if (inRange(oracle)) expect(parsed?.getTime()).toBe(oracle);
  else expect(parsed?.getTime()).toBe(oracle < EARLIEST.getTime() ? EARLIEST.getTime() - 1 : LATEST.getTime() + 1);
}

describe('parseDate: a date', () => {
  test('covers the whole UTC day, from its first to its last millisecond', () => {
    fc.assert(
      fc.property(realDay, (day) => {
        const midnight = Date.parse(`${textOf(day)}T00:00:00.000Z`);
        expectInstant(parseDate(textOf(day), 'first'), midnight);
        expectInstant(parseDate(textOf(day), 'last'), midnight + 86_399_999);
      }),
    );
  });

  test('is invalid if the day does not exist', () => {
    fc.assert(
      fc.property(someDay, (day) => {
        expect(parseDate(textOf(day), 'first') !== null).toBe(day.day <= daysOf(day.year, day.month));
      }),
      { numRuns: 500 },
    );
  });

  test.each(['2025-02-29', '2025-02-30', '1900-02-29', '2026-04-31', '2026-00-01', '2026-13-01', '2026-01-00'])(
    'is invalid: %s',
    (text) => {
      for (const edge of ['first', 'last'] as const) {
        expect(parseDate(text, edge)).toBeNull();
        expect(parseDate(`${text}T12:00:00Z`, edge)).toBeNull();
      }
    },
  );
});

describe('parseDate: a date-time', () => {
  test('is the same instant as in Date.parse, at any offset and to the millisecond', () => {
    const milliseconds = fc.option(
      upTo(999).map((value) => `.${String(value).padStart(3, '0')}`),
      { nil: '' },
    );
    fc.assert(
      fc.property(realDay, time, milliseconds, fc.option(offset, { nil: null }), (day, at, fraction, zone) => {
        const place = zone === null ? 'Z' : `${zone.sign}${two(zone.hour)}:${two(zone.minute)}`;
        const text = `${textOf(day)}T${clock(at)}${fraction}${place}`;
        for (const edge of ['first', 'last'] as const) expectInstant(parseDate(text, edge), Date.parse(text));
      }),
      { numRuns: 500 },
    );
  });

  test('may have lower-case letters and a space, as RFC 3339 allows', () => {
    const instant = Date.parse('2026-01-31T12:00:00Z');
    for (const text of ['2026-01-31t12:00:00z', '2026-01-31 12:00:00Z', '2026-01-31 12:00:00-00:00']) {
      expect(parseDate(text, 'first')?.getTime()).toBe(instant);
    }
  });

  test('may have a space before its offset, because a URL decodes "+" as a space', () => {
    expect(parseDate('2026-01-31T12:00:00 02:00', 'first')).toEqual(new Date('2026-01-31T10:00:00Z'));
  });

  test('finer than a millisecond is cut off, also at the end of a year', () => {
    const finer = fc.tuple(upTo(999), fc.stringMatching(/^[0-9]{1,30}$/));
    fc.assert(
      fc.property(realDay, time, finer, (day, at, [milliseconds, rest]) => {
        const known = `${textOf(day)}T${clock(at)}.${String(milliseconds).padStart(3, '0')}`;
        for (const edge of ['first', 'last'] as const)
          expectInstant(parseDate(`${known}${rest}Z`, edge), Date.parse(`${known}Z`));
      }),
    );
    expect(parseDate('2025-12-31T23:59:59.9995Z', 'first')?.toISOString()).toBe('2025-12-31T23:59:59.999Z');
  });

  test.each([
    ['2016-12-31T23:59:60Z', '2016-12-31T23:59:59.999Z'],
    ['2016-12-31T23:59:60.5Z', '2016-12-31T23:59:59.999Z'],
    ['2017-01-01T05:29:60+05:30', '2016-12-31T23:59:59.999Z'],
    ['1990-12-31T15:59:60-08:00', '1990-12-31T23:59:59.999Z'],
  ])('in a leap second is the last millisecond before that second: %s', (text, instant) => {
    for (const edge of ['first', 'last'] as const) expect(parseDate(text, edge)).toEqual(new Date(instant));
  });

  test.each(['2016-12-31T12:00:60Z', '2016-12-31T23:58:60Z', '2016-12-31T23:59:60+01:00', '2016-12-31T23:59:61Z'])(
    'in a leap second that is not at the end of a UTC day is invalid: %s',
    (text) => {
      expect(parseDate(text, 'first')).toBeNull();
    },
  );

  test.each([
    ...`2026-01-31T24:00:00Z 2026-01-31T12:60:00Z 2026-01-31T12:00:00+24:00 2026-01-31T12:00:00+01:60 2026-01-31T12:00:00+0100
      2026-01-31T12:00:00+01 2026-01-31T12:00:00 2026-01-31T12:00Z 2026-01-31T12:00:00.Z 2026-01-31T12:00:00,5Z`.split(
      /\s+/,
    ),
    '2026-01-31T12:00:00Z ',
    '2026-01-31T12:00:00Z\n',
    ' 2026-01-31',
    ...'+002026-01-31 -0001-01-01 2026-W05-6 2026-031 20260131T120000Z 2026-01 ２０２６-01-31'.split(' '),
    '',
  ])('is invalid: %j', (text) => {
    expect(parseDate(text, 'first')).toBeNull();
  });
});

describe('parseDate: the limits of the range', () => {
  test.each([
    ['0000-01-01', EARLIEST.getTime() - 1],
    ['0000-01-01T00:00:00+23:59', EARLIEST.getTime() - 1],
    ['1969-12-31T23:59:59.999Z', EARLIEST.getTime() - 1],
    ['1970-01-01', EARLIEST.getTime()],
    ['9999-12-31', LATEST.getTime() - 86_399_999],
    ['9999-12-31T23:59:59.999Z', LATEST.getTime()],
    ['9999-12-31T23:59:59-23:59', LATEST.getTime() + 1],
  ])('a bound outside the range of creation dates is at most one millisecond outside it: %s', (text, instant) => {
    expect(parseDate(text, 'first')?.getTime()).toBe(instant);
  });
});

describe('user id', () => {
  const isPlain = (text: string) => /^[0123456789]+$/.test(text);
  const someText = fc.oneof(
    fc.nat({ max: 200 }).map(String),
    fc.bigInt().map(String),
    fc.double().map(String),
    fc.string(),
    fc.constantFrom(...'0 00 1 001 100 101 -1 +1 1.0 1e2 0x10'.split(' '), ' 1', '1 ', '1\n', '１', '٣', ''),
  );

  test('is an exact decimal integer from 1; one of more than 20 digits is above the largest id', () => {
    fc.assert(
      fc.property(someText, (text) => {
        if (isPlain(text) && BigInt(text) >= 10n ** 20n)
          expect(parse(userId('user_id'), text)).toBeGreaterThan(LARGEST_ID);
        else if (isPlain(text) && BigInt(text) >= 1n) expect(parse(userId('user_id'), text)).toBe(BigInt(text));
        else expect(() => parse(userId('user_id'), text)).toThrow(AppError);
      }),
      { numRuns: 500 },
    );
  });
});

describe('the place of a user or a ban in a list', () => {
  const things = [
    {
      what: 'users',
      encode: (at: Date, id: number) => encodeCursor({ createdAt: at, id }),
      form: cursor('after', 'users'),
    },
    {
      what: 'bans',
      encode: (at: Date, id: number) => banCursorOf({ createdAt: at.toISOString(), id }),
      form: banCursor('after'),
    },
  ];

  test.each(things)('of $what is read as it was written', ({ encode, form }) => {
    fc.assert(
      fc.property(
        fc.oneof(fc.constantFrom(EARLIEST, LATEST), fc.date({ min: EARLIEST, max: LATEST, noInvalidDate: true })),
        fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
        (createdAt, id) => {
          expect(parse(form, encode(createdAt, id))).toEqual({ createdAt, id });
        },
      ),
    );
    // These must be read whatever the property chooses.
    for (const createdAt of [EARLIEST, LATEST]) expect(parse(form, encode(createdAt, 1))).toEqual({ createdAt, id: 1 });
  });

  test.each(things)('of $what is refused where no user was ever created', ({ encode, form }) => {
    for (const at of [EARLIEST.getTime() - 1, LATEST.getTime() + 1])
      expect(() => parse(form, encode(new Date(at), 1))).toThrow(/from an earlier answer/);
  });
});

test('the page about GraphQL names each filter by which nothing is counted', () => {
  const page = readFileSync(join(ROOT, 'docs/graphql.md'), 'utf8');
  expect(STATE_FILTER_NAMES.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
});
