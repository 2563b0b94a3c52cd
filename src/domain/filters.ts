import { crc32 } from 'node:zlib';
import { z } from 'zod';
import { AppError, badInput, expected, show } from '../errors.js';
import { INPUT_LIMITS, isTooLong } from './input-limits.js';
import type { AuditEntry } from './projects.js';
import { LoginMethod } from './users.js';

/* All rules for dates, login methods, pages, cursors and ids (spec, "GET /server/users"). */

/** Selects users created from `createdFrom` to `createdTo`, both inclusive, with one of `loginMethods` (null: any). */
export interface UserFilter {
  readonly createdFrom: Date;
  readonly createdTo: Date;
  readonly loginMethods: readonly LoginMethod[] | null;
}

/** Selects users by their last login (from `lastLoginAfter` to before `lastLoginBefore`) and by whether they are banned; null: any. */
export interface StateFilter {
  readonly lastLoginBefore: Date | null;
  readonly lastLoginAfter: Date | null;
  readonly banned: boolean | null;
}

/** A position in the list of users, newest first. It stays valid when its user is removed. */
export interface Position {
  readonly createdAt: Date;
  readonly id: number;
}

/** The first and the last instant of a creation; the database checks it. A filter without dates has these two. */
export const EARLIEST = new Date('1970-01-01T00:00:00.000Z');
export const LATEST = new Date('9999-12-31T23:59:59.999Z');
/** The largest id that the database assigns, and the largest that is exact in JSON. */
export const LARGEST_ID = BigInt(Number.MAX_SAFE_INTEGER);
export const PAGE_SIZE = { default: 10, max: 100 } as const;
/** How many users a search by the beginning of a text finds, and in how many login methods it looks at identities. */
export const MOST_BY_PREFIX = 50;
export const METHODS_BY_PREFIX = 10;

const LOGIN_METHODS = Object.values(LoginMethod);
const DATE_FORM = 'a date (2026-01-31) or an RFC 3339 date-time (2026-01-31T12:00:00Z)';
const LOGIN_METHOD_FORM = `${LOGIN_METHODS.join(', ')}, or several of them separated by commas`;

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

/** Where a value stands in `whole`, such as `wallets[3].address`. */
function nameOf({ path = [] }: Issue, whole: string): string {
  const steps = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`));
  return steps.join('').slice(1) || whole;
}

/** Zod's error for a value somewhere in an object, with its path as the name. */
export const saysWhere = (accepted: string) => (issue: Issue) =>
  expected(nameOf(issue, 'value'), issue.input, accepted);

/**
 * Zod's error for an object, which errors call `whole`: what it has to be, and which keys it may have. An unknown key is an error:
 * a misspelt `user_id` would turn the request into one about any user.
 */
export const objectError = (whole: string, form: string, known: string) => (issue: Issue) => {
  const { keys = [] } = issue;
  if (issue.code !== 'unrecognized_keys') return expected(nameOf(issue, whole), issue.input, form);
  return `${nameOf(issue, whole)}: got the unknown key ${nameKeys(keys)}, expected only ${known}.`;
};

/** The first of several keys, as an error repeats them. */
export function nameKeys(keys: readonly string[]): string {
  const more = keys.length > KEYS_NAMED ? ` and ${keys.length - KEYS_NAMED} more` : '';
  return keys.slice(0, KEYS_NAMED).map(show).join(', ') + more;
}

/** A list can have as many faults as items; a caller needs the first few. */
const MAX_FAULTS_NAMED = 5;

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

/** The OpenAPI document shows a text of digits as an integer. */
export function integerMeta(minimum: number, maximum?: number) {
  return { type: 'integer', pattern: undefined, minimum, ...(maximum !== undefined && { maximum }) } as const;
}

export const page = decimal('page', 1, Number.MAX_SAFE_INTEGER)
  .default(1)
  .meta({
    ...integerMeta(1),
    description: 'Page number, from 1, which is the default. A page past the end is empty and has the right total.',
    example: 1,
  });

/** The size of a page of `things`. */
export function pageSize(things: string, size: { readonly default: number; readonly max: number }, note = '') {
  const description = `${things}, 1 to ${size.max}, by default ${size.default}.${note}`;
  const meta = { ...integerMeta(1, size.max), description, example: size.default };
  return decimal('limit', 1, size.max).default(size.default).meta(meta);
}
export const limit = pageSize('Users per page', PAGE_SIZE, ' Other values are refused, never clamped.');

const USER_ID = /^0*[1-9][0-9]*$/;

/**
 * A user id as digits. A number larger than any id is well-formed and finds no user; only its first digits are converted,
 * which is enough to see that it is too large.
 */
export function userId(name: string) {
  const error = says(name, 'decimal digits, 1 and up');
  return z
    .string({ error })
    .regex(USER_ID, { error })
    .transform((digits) => BigInt(digits.replace(/^0+/, '').slice(0, INPUT_LIMITS.id.max)))
    .meta({ ...integerMeta(1), description: 'User ID: decimal digits, 1 and up.', example: 42 });
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

/** What `read` makes of a text; it returns null where the text has not the `form`. */
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

/** One bound of the creation date: a whole UTC day, or an instant. */
export function dateBound(name: string, edge: 'first' | 'last') {
  const read = (text: string) => (isTooLong('date', text) ? null : parseDate(text, edge));
  return readableText(name, DATE_FORM, read, (text) => dateForm(text, DATE_FORM)).meta({
    description: `${edge === 'first' ? 'Users created on or after' : 'Users created on or before'} this: ${DATE_FORM}.`,
    maxLength: INPUT_LIMITS.date.max,
    example: '2026-01-31',
  });
}

/** Login methods separated by commas, by repetition, or both; duplicates are harmless. */
export const loginMethods = (name: string) => {
  const error = says(name, LOGIN_METHOD_FORM);
  return z
    .union([z.string(), z.array(z.string())], { error })
    .transform((given) => [given].flat().join(','))
    .refine((whole) => !isTooLong('loginMethods', whole), { error, abort: true })
    .transform((whole) => whole.split(','))
    .pipe(z.array(z.enum(LoginMethod, { error })))
    .meta({
      description: `Users who sign in by ${LOGIN_METHOD_FORM}; the parameter may also be repeated.`,
      // Of one text; several together are limited to the same length.
      maxLength: INPUT_LIMITS.loginMethods.max,
      example: 'wallet,socials',
    });
};

/** A filter from its parsed parts. An absent part does not restrict the users. */
export function userFilter(parts: { [Part in keyof UserFilter]?: UserFilter[Part] | null | undefined }): UserFilter {
  const { loginMethods } = parts;
  const methods = loginMethods && LOGIN_METHODS.filter((method) => loginMethods.includes(method));
  return {
    createdFrom: parts.createdFrom ?? EARLIEST,
    createdTo: parts.createdTo ?? LATEST,
    loginMethods: methods && methods.length < LOGIN_METHODS.length ? methods : null,
  };
}

const startDate = dateBound('startDate', 'first').nullish();
const endDate = dateBound('endDate', 'last').nullish();

/** A filter as GraphQL gives it. BAD_USER_INPUT. */
export function readUserFilter(
  given: { startDate?: unknown; endDate?: unknown; loginMethods?: LoginMethod[] | null | undefined } | null | undefined,
): UserFilter {
  if (given?.loginMethods?.length === 0)
    throw badInput('loginMethods', [], 'at least one login method, or null for all');
  return userFilter({
    createdFrom: parse(startDate, given?.startDate),
    createdTo: parse(endDate, given?.endDate),
    loginMethods: given?.loginMethods,
  });
}

const lastLogin = {
  before: dateBound('lastLoginBefore', 'first').nullish(),
  after: dateBound('lastLoginAfter', 'first').nullish(),
};

/** The conditions on the state of a user as GraphQL gives them; null where there is none. BAD_USER_INPUT. */
export function readStateFilter(
  given:
    | { lastLoginBefore?: unknown; lastLoginAfter?: unknown; banned?: boolean | null | undefined }
    | null
    | undefined,
): StateFilter | null {
  const state = {
    lastLoginBefore: parse(lastLogin.before, given?.lastLoginBefore) ?? null,
    lastLoginAfter: parse(lastLogin.after, given?.lastLoginAfter) ?? null,
    banned: given?.banned ?? null,
  };
  return Object.values(state).every((value) => value === null) ? null : state;
}

const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+\- ])(\d\d):(\d\d)))?$/;
const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

/**
 * The first or the last millisecond of a date or date-time (RFC 3339, section 5.6); null where it is malformed or does not
 * exist. What is finer than a millisecond is cut off: rounded, the last instant of a year would be in the next. A space before
 * the offset is read as a "+" that was not percent-encoded.
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

/** What is expected instead of a date that was refused: the `form`, unless the text has it and names no moment of the calendar. */
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

/**
 * No user is created outside EARLIEST…LATEST, so a bound outside moves to one millisecond past that end. No answer changes,
 * and PostgreSQL never gets a year that it cannot represent.
 */
function withinRange(time: number): Date {
  return new Date(Math.min(Math.max(time, EARLIEST.getTime() - 1), LATEST.getTime() + 1));
}

const CURSOR = /^(\d{1,15})\.(\d{1,16})\./;

/** A text that callers hand back as it is. The checksum reveals one that was truncated. */
export function opaqueText(text: string): string {
  return Buffer.from(`${text}.${crc32(text).toString(36)}`).toString('base64url');
}

/** What an opaque text has, if it has the form. Its checksum is right if the same comes of it again. */
export function openText(opaque: string, form: RegExp): RegExpExecArray | null {
  return isTooLong('cursor', opaque) ? null : form.exec(Buffer.from(opaque, 'base64url').toString());
}

export function encodeCursor({ createdAt, id }: Position): string {
  return opaqueText(`${createdAt.getTime()}.${id}`);
}

/** The cursor of an item of a list, such as a user or a ban. */
export function cursorOf({ createdAt, id }: { readonly createdAt: string; readonly id: number }): string {
  return encodeCursor({ createdAt: new Date(createdAt), id });
}

/** What errors say of a cursor of a list of `things`. */
export const cursorForm = (things: string) => `a cursor of ${things} from an earlier answer`;

/** A cursor from `encodeCursor`. */
export const cursor = (name: string, things: string) => readableText(name, cursorForm(things), decodeCursor);

function decodeCursor(text: string): Position | null {
  const match = openText(text, CURSOR);
  if (match === null) return null;
  const position = { createdAt: new Date(Number(match[1])), id: Number(match[2]) };
  const exists = position.createdAt >= EARLIEST && position.createdAt <= LATEST;
  return exists && encodeCursor(position) === text ? position : null;
}

const BAN_CURSOR = /^bans\.(.*)\.[0-9a-z]+$/;

/** The cursor of a ban in GraphQL: it names its list, so that no cursor of users is taken for it. */
export function banCursorOf({ createdAt, id }: { readonly createdAt: string; readonly id: number }): string {
  return opaqueText(`bans.${new Date(createdAt).getTime()}.${id}`);
}

/** A cursor from `banCursorOf`, or one of 0.9.0, which may be of another list: `list` is null. */
export const banCursor = (name: string) =>
  readableText(name, cursorForm('bans'), (text) => {
    const place = openText(text, BAN_CURSOR)?.[1];
    const position = decodeCursor(place === undefined ? text : opaqueText(place));
    if (position === null || place === undefined) return position && { ...position, list: null };
    return opaqueText(`bans.${place}`) === text ? { ...position, list: 'bans' as const } : null;
  });

export function positionOf({ at, id }: Pick<AuditEntry, 'at' | 'id'>): Position {
  return { createdAt: new Date(at), id };
}
