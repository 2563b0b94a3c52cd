import { z } from 'zod';
import { AppError, badInput, expected, show } from '../errors.js';
import { INPUT_LIMITS, isTooLong } from './input-limits.js';

/* Parses values of callers (numbers, ids, dates and instants), and words the refusal of one. */

/** The largest id that the database assigns, and the largest that is exact in JSON. */
export const LARGEST_ID = BigInt(Number.MAX_SAFE_INTEGER);
/** The first and the last instant of a creation; the database checks it. A filter without dates has these two. */
export const EARLIEST = new Date('1970-01-01T00:00:00.000Z');
export const LATEST = new Date('9999-12-31T23:59:59.999Z');

/** Zod's error for one value: its name, the value and what is accepted. */
export const says = (name: string, accepted: string) => (issue: { input?: unknown }) =>
  expected(name, issue.input, accepted);

const KEYS_NAMED = 5;

interface Issue {
  readonly code?: string | undefined;
  readonly keys?: string[];
  readonly input?: unknown;
  readonly path?: readonly PropertyKey[] | undefined;
}

/** The place of a value in `whole`, such as `wallets[3].address`. */
function nameOf({ path = [] }: Issue, whole: string): string {
  const steps = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`));
  return steps.join('').slice(1) || whole;
}

/** Zod's error for a value somewhere in an object, with its path as the name. */
export const saysWhere = (accepted: string) => (issue: Issue) =>
  expected(nameOf(issue, 'value'), issue.input, accepted);

/** Zod's error for an object that errors call `whole`. An unknown key is an error: a misspelt `user_id` would ask about any user. */
export const objectError = (whole: string, form: string, accepted: string) => (issue: Issue) => {
  const { keys = [] } = issue;
  if (issue.code !== 'unrecognized_keys') return expected(nameOf(issue, whole), issue.input, form);
  return `${nameOf(issue, whole)}: got the unknown key ${nameKeys(keys)}, expected only ${accepted}.`;
};

/** The first of several keys, as an error repeats them. */
export function nameKeys(keys: readonly string[]): string {
  const more = keys.length > KEYS_NAMED ? ` and ${keys.length - KEYS_NAMED} more` : '';
  return keys.slice(0, KEYS_NAMED).map(show).join(', ') + more;
}

/** A list can have as many faults as items; a caller needs the first few. */
const MAX_FAULTS_NAMED = 5;

/** Reads each item. Where some are refused, the error has the sentences of the first few. BAD_USER_INPUT. */
export function readItems<Item, Value>(items: readonly Item[], read: (item: Item, at: number) => Value): Value[] {
  try {
    return items.map(read);
  } catch (error) {
    throw allFaults(error, items, read);
  }
}

/** Reads several values of one request, none by another, so that a caller who has several faults hears of them at once. BAD_USER_INPUT. */
export function readAll<Values extends unknown[]>(...readers: { [At in keyof Values]: () => Values[At] }): Values {
  try {
    const values: unknown[] = [];
    for (const read of readers) values.push(read());
    return values as Values;
  } catch (error) {
    throw allFaults(error, readers, (read) => read());
  }
}

/** The error of reading, with the sentences of what else is refused: only who has made a fault waits for that. */
export function allFaults<Item>(
  first: unknown,
  items: readonly Item[],
  read: (item: Item, at: number) => unknown,
): unknown {
  const said = new Set<string>();
  for (let at = 0; at < items.length && said.size < MAX_FAULTS_NAMED; at += 1) {
    try {
      read(items[at] as Item, at);
    } catch (error) {
      if (!(error instanceof AppError && error.code === 'BAD_USER_INPUT')) return error;
      said.add(error.message);
    }
  }
  return said.size < 2 ? first : new AppError('BAD_USER_INPUT', [...said].join(' '));
}

/** Parses `value` by `schema`, or throws BAD_USER_INPUT with its first faults. */
export function parse<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  try {
    // Not `safeParse`: its result has a getter, which a request must not make (docs/decisions/garbage.md).
    return schema.parse(value);
  } catch (error) {
    if (!(error instanceof z.ZodError)) throw error;
    const faults = error.issues.slice(0, MAX_FAULTS_NAMED).map(({ message }) => message);
    throw new AppError('BAD_USER_INPUT', faults.join(' '));
  }
}

/** A decimal number without sign, point or exponent, from `min` to `max`. */
export function decimal(name: string, min: number, max: number) {
  const error = says(name, `a whole number from ${min} to ${max}`);
  return z
    .string({ error })
    .refine((digits) => !isTooLong('number', digits) && /^[0-9]+$/.test(digits), { error, abort: true })
    .refine((digits) => Number(digits) >= min && Number(digits) <= max, { error })
    .transform(Number);
}

/** What the OpenAPI document says of an ID that is a number. After a restore IDs need more than 32 bits, which generated clients take otherwise. */
export const ID_META = { ...integerMeta(1), format: 'int64' } as const;

/** The OpenAPI document shows a text of digits as an integer. */
export function integerMeta(minimum: number, maximum?: number) {
  return { type: 'integer', pattern: undefined, minimum, ...(maximum !== undefined && { maximum }) } as const;
}

/** A text through `read`, which returns null where the text has not the `form`. */
export function readableText<Value>(
  name: string,
  form: string,
  read: (text: string) => Value | null,
  formFor = (_text: string) => form,
) {
  return z.string({ error: says(name, form) }).transform((text, context) => {
    const value = read(text);
    if (value !== null) return value;
    context.addIssue({ code: 'custom', input: text, message: expected(name, text, formFor(text)) });
    return z.NEVER;
  });
}

const USER_ID = /^0*[1-9][0-9]*$/;

/** A user id as digits. A number larger than any id finds no user; its first digits are enough to see that it is too large. */
export function userId(name: string, form = 'decimal digits, 1 and up') {
  const error = says(name, form);
  return z
    .string({ error })
    .regex(USER_ID, { error })
    .transform((digits) => BigInt(digits.replace(/^0+/, '').slice(0, INPUT_LIMITS.id.max)))
    .meta({ ...ID_META, description: 'User ID: decimal digits, 1 and up.', example: 42 });
}

const wellFormedId = userId('id');

/** One user id of a list. A parser with its own name is made only for one that is malformed. BAD_USER_INPUT. */
export function parseEachId(name: string, id: unknown): bigint {
  return parse(typeof id === 'string' && USER_ID.test(id) ? wellFormedId : userId(name), id);
}

/** The user id of a text that may be something else; null where no user can have it. */
export function parseUserId(text: string): bigint | null {
  const id = isTooLong('id', text) ? null : wellFormedId.safeParse(text);
  return id?.success && id.data <= LARGEST_ID ? id.data : null;
}

const LARGEST_INT = 2 ** 31 - 1;

/** The id of a row that has no more of them than an int. BAD_USER_INPUT. */
export function readId(name: string, text: string): number {
  const id = /^[1-9]\d{0,9}$/.test(text) ? Number(text) : Number.NaN;
  if (id <= LARGEST_INT) return id;
  throw badInput(name, text.slice(0, 64), 'an id from an earlier answer');
}

/** A whole number of GraphQL from 1 to `most`. BAD_USER_INPUT. */
export function readNumber(name: string, value: number, most = LARGEST_INT): number {
  if (value >= 1 && value <= most) return value;
  throw badInput(name, value, most === LARGEST_INT ? 'a whole number, 1 and up' : `a whole number from 1 to ${most}`);
}

const MAX_SECONDS = 36_500 * 86_400;

/** Whole seconds as milliseconds. BAD_USER_INPUT. */
export function readSeconds(name: string, seconds: number, least: number): number {
  if (Number.isInteger(seconds) && seconds >= least && seconds <= MAX_SECONDS) return seconds * 1_000;
  throw badInput(name, seconds, `a whole number of seconds from ${least} to ${MAX_SECONDS}`);
}

const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+\- ])(\d\d):(\d\d)))?$/;
const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

/**
 * The first or the last millisecond of a date or date-time (RFC 3339, section 5.6); null where it is malformed or does not exist.
 * Finer parts are cut off: rounded, the last instant of a year would be in the next. A space before the offset is a "+" that was not percent-encoded.
 */
export function parseDate(text: string, edge: 'first' | 'last'): Date | null {
  const match = RFC_3339.exec(text);
  if (match === null) return null;
  const [, year, month, day, hour, minute, second, fraction = '', sign, offsetHour, offsetMinute] = match;
  const midnight = utcMidnight(Number(year), Number(month), Number(day));
  if (midnight === null) return null;
  if (hour === undefined) return withinRange(edge === 'first' ? midnight : midnight + DAY_MS - 1);

  const time = { hour: Number(hour), minute: Number(minute), second: Number(second) };
  const offset = { hour: Number(offsetHour ?? 0), minute: Number(offsetMinute ?? 0) };
  if (time.hour > 23 || time.minute > 59 || time.second > 60 || offset.hour > 23 || offset.minute > 59) return null;
  const offsetMs = (sign === '-' ? -1 : 1) * (offset.hour * 60 + offset.minute) * MINUTE_MS;
  const minuteStart = midnight + (time.hour * 60 + time.minute) * MINUTE_MS - offsetMs;
  // A leap second can only end a UTC day. It becomes the last millisecond before midnight.
  if (time.second === 60)
    return (minuteStart + MINUTE_MS) % DAY_MS === 0 ? withinRange(minuteStart + MINUTE_MS - 1) : null;

  const milliseconds = Number(fraction.slice(0, 3).padEnd(3, '0'));
  return withinRange(minuteStart + time.second * 1_000 + milliseconds);
}

/** The form to expect instead of a refused date: `form`, unless the date has it and names no moment of the calendar. */
export function dateForm(text: string, form: string): string {
  if (!RFC_3339.test(text) || parseDate(text, 'first') !== null) return form;
  return text.includes(':') ? 'a date and a time that exist' : 'a date that exists';
}

/** Null where the day does not exist. Date.UTC would accept 30 February, and read the years 0 to 99 as 1900 to 1999. */
function utcMidnight(year: number, month: number, day: number): number | null {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return date.getUTCMonth() === month - 1 && date.getUTCDate() === day ? date.getTime() : null;
}

/** No user is created outside EARLIEST…LATEST, so such a bound moves to one millisecond past it: PostgreSQL cannot represent every year. */
function withinRange(time: number): Date {
  return new Date(Math.min(Math.max(time, EARLIEST.getTime() - 1), LATEST.getTime() + 1));
}

/** Refuses the character U+0000, which no text of PostgreSQL has, wherever it is in a value that may nest. BAD_USER_INPUT. */
export function requireNoNul(name: string, value: unknown): void {
  if (typeof value === 'string' && value.includes('\0'))
    throw badInput(name, value, 'text without the character U+0000');
  if (typeof value !== 'object' || value === null) return;
  for (const [key, item] of Object.entries(value)) requireNoNul(Array.isArray(value) ? name : key, item);
}

/** Retries with a key get the first answer for so long. */
export const KEY_KEPT_HOURS = 24;
export const KEY = /^[\x21-\x7e]+$/;

export const KEY_FORM = `1 to ${INPUT_LIMITS.idempotencyKey.max} printable ASCII characters without spaces`;

/** The key, or BAD_USER_INPUT; null if there is none. */
export function requireKey(name: string, key: string | null | undefined): string | null {
  if (key === null || key === undefined) return null;
  if (isTooLong('idempotencyKey', key) || !KEY.test(key)) throw badInput(name, key, KEY_FORM);
  return key;
}
