import { crc32 } from 'node:zlib';
import { z } from 'zod';
import { AppError, badInput } from '../errors.js';
import { foldCase, requireAuthValue, requireMethodName } from './identities.js';
import { INPUT_LIMITS, type InputKind, isTooLong } from './input-limits.js';
import {
  dateForm,
  decimal,
  EARLIEST,
  ID_META,
  integerMeta,
  LATEST,
  parse,
  parseDate,
  parseEachId,
  readAll,
  readableText,
  readItems,
  says,
} from './parse.js';
import type { AuditEntry } from './projects.js';
import {
  MAX_AUTH_METHODS,
  ofStateFilters,
  STATE_FILTER_NAMES,
  type StateFilter,
  type StateFilterInput,
} from './state-filters.js';
import { LoginMethod, type User } from './users.js';

/* The rules for lists: filters, pages and cursors (spec, "GET /server/users"). */

/** Selects users created from `createdFrom` to `createdTo`, both inclusive, with one of `loginMethods` (null: any). */
export interface UserFilter {
  readonly createdFrom: Date;
  readonly createdTo: Date;
  readonly loginMethods: readonly LoginMethod[] | null;
}

/** A position in the list of users, newest first. It stays valid when its user is removed. */
export interface Position {
  readonly createdAt: Date;
  readonly id: number;
}

/** A page by its number, and the exact number of users on all pages. */
export interface UserPage {
  readonly users: User[];
  readonly total: number;
}

/** Users between two positions. */
export interface UserWindow {
  readonly users: User[];
  /** Whether there are users on that side of the window; false unless asked for. */
  readonly hasNewer: boolean;
  readonly hasOlder: boolean;
  /** The exact number of users who match; null unless asked for. */
  readonly total: number | null;
}

/** Users between two positions by state, of those that were looked at. */
export interface UserScan {
  readonly users: User[];
  /** Whether more may follow. */
  readonly hasMore: boolean;
  /** How far it has looked; null where it found no user until the end of the list. */
  readonly end: Position | null;
}

export const PAGE_SIZE = { default: 10, max: 100 } as const;
/** Bounds of a search by the beginning of a text: users that it finds, and login methods in which it looks at identities. */
export const MOST_BY_PREFIX = 50;
export const METHODS_BY_PREFIX = 10;

/** The most users who are asked for one by one. */
export const MAX_IDS = 100;

/** Each item of a list of a caller; `read` gets its name for errors. BAD_USER_INPUT if they are too many. */
export function readEach<Item, Value>(
  list: string,
  items: readonly Item[],
  read: (name: string, item: Item) => Value,
): Value[] {
  if (items.length > MAX_IDS)
    throw new AppError('BAD_USER_INPUT', `${list}: got ${items.length}, expected at most ${MAX_IDS}.`);
  return readItems(items, (item, place) => read(`${list}[${place}]`, item));
}

const LOGIN_METHODS = Object.values(LoginMethod);
const DATE_FORM = 'a date (2026-01-31) or an RFC 3339 date-time (2026-01-31T12:00:00Z)';
const LOGIN_METHOD_FORM = `${LOGIN_METHODS.join(', ')}, or several of them separated by commas`;

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

/** One bound of the creation date: a whole UTC day, or an instant. */
export function dateBound(name: string, edge: 'first' | 'last') {
  const read = (text: string) => (isTooLong('date', text) ? null : parseDate(text, edge));
  return readableText(name, DATE_FORM, read, (text) => dateForm(text, DATE_FORM)).meta({
    description: `${edge === 'first' ? 'Users created on or after' : 'Users created on or before'} this: ${DATE_FORM}.`,
    maxLength: INPUT_LIMITS.date.max,
    example: '2026-01-31',
  });
}

/** Texts of a parameter, separated by commas, by repetition, or both. */
export function commaSeparated(kind: InputKind, error: ReturnType<typeof says>) {
  return z
    .union([z.string(), z.array(z.string())], { error })
    .transform((texts) => [texts].flat().join(','))
    .refine((whole) => !isTooLong(kind, whole), { error, abort: true })
    .transform((whole) => whole.split(','));
}

/** Describes such a parameter in the OpenAPI document. `maxLength` is the length of all its texts together. */
export function listMeta(kind: InputKind, values: readonly string[], of: string, example: string) {
  const one = values.map((value) => value.replace('.', '\\.')).join('|');
  return {
    description: `${of} ${values.join(', ')}, or several of them separated by commas; the parameter may also be repeated.`,
    maxLength: INPUT_LIMITS[kind].max,
    anyOf: [
      { type: 'array', items: { type: 'string', enum: values } },
      { type: 'string', pattern: `^(${one})(,(${one}))*$` },
    ],
    example,
  };
}

/** Login methods; duplicates are harmless. */
export const loginMethods = (name: string) => {
  const error = says(name, LOGIN_METHOD_FORM);
  return commaSeparated('loginMethods', error)
    .pipe(z.array(z.enum(LoginMethod, { error })))
    .meta(listMeta('loginMethods', LOGIN_METHODS, 'Users who sign in by', 'wallet,socials'));
};

/** User ids. */
export const userIds = (name: string) =>
  commaSeparated('ids', says(name, `at most ${MAX_IDS} user IDs, separated by commas`))
    .transform((ids) => readEach(name, ids, parseEachId))
    .meta({
      description: `At most ${MAX_IDS} user IDs, separated by commas; the parameter may also be repeated.`,
      maxLength: INPUT_LIMITS.ids.max,
      anyOf: [
        { type: 'array', items: ID_META },
        { type: 'string', pattern: '^\\d+(,\\d+)*$' },
      ],
      example: '1,2',
    });

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

/** A filter as GraphQL gives it. */
export interface FilterInput extends StateFilterInput {
  readonly startDate?: string | null | undefined;
  readonly endDate?: string | null | undefined;
  readonly loginMethods?: readonly LoginMethod[] | null | undefined;
}

const KINDS: ReadonlyMap<string, LoginMethod> = new Map(LOGIN_METHODS.map((method) => [method, method]));
/** The name of a provider is the name of no kind (identities.ts). */
const kindOf = (authMethod: string): LoginMethod => KINDS.get(authMethod) ?? LoginMethod.socials;

function readMethods(list: string, names: readonly string[]): string[] {
  if (names.length === 0) throw badInput(list, [], 'at least one login method, or null for all');
  if (names.length > MAX_AUTH_METHODS)
    throw new AppError('BAD_USER_INPUT', `${list}: got ${names.length}, expected at most ${MAX_AUTH_METHODS}.`);
  return readItems(names, (name, place) => requireMethodName(`${list}[${place}]`, name));
}

/** What reads each state filter. */
const READERS = ofStateFilters(STATE_FILTER_NAMES, {
  boolean: () => (is: boolean) => is,
  instant: (_row, name) => {
    const bound = dateBound(name, 'first');
    return (text: string) => parse(bound, text);
  },
  methods: (_row, name) => (names: readonly string[]) => readMethods(name, names),
  text: (_row, name) => (text: string) => foldCase(requireAuthValue(name, text)),
});

/** A filter in two parts: `counted` for the tallies, which know only the kind of a provider, and the rest, null where there is none. BAD_USER_INPUT. */
export function readFilter(input: FilterInput | null | undefined): { counted: UserFilter; state: StateFilter | null } {
  const { startDate: from, endDate: to, loginMethods: kinds, ...given } = input ?? {};
  if (kinds?.length === 0) throw badInput('loginMethods', [], 'at least one login method, or null for all');
  const [createdFrom, createdTo, ...values] = readAll(
    () => parse(startDate, from),
    () => parse(endDate, to),
    ...STATE_FILTER_NAMES.map((name) => () => {
      const value = given[name] ?? null;
      // A reader takes what its name is given.
      return value === null ? null : (READERS[name] as (value: unknown) => unknown)(value);
    }),
  );
  const state = Object.fromEntries(STATE_FILTER_NAMES.map((name, place) => [name, values[place]])) as StateFilter;
  const names = state.authMethods;
  const ofNames = names?.map(kindOf);
  const loginMethods = kinds && ofNames ? kinds.filter((kind) => ofNames.includes(kind)) : (kinds ?? ofNames);
  const uncounted = { ...state, authMethods: names?.some((name) => !KINDS.has(name)) ? names : null };
  return {
    counted: userFilter({ createdFrom, createdTo, loginMethods }),
    state: Object.values(uncounted).every((value) => value === null) ? null : uncounted,
  };
}

const CURSOR = /^(\d{1,15})\.(\d{1,16})\./;

/** A text that callers hand back as it is. The checksum reveals one that was truncated. */
export function opaqueText(text: string): string {
  return Buffer.from(`${text}.${crc32(text).toString(36)}`).toString('base64url');
}

/** The match of an opaque text, if it has the form. Its checksum is right if encoding gives the text again. */
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

/** The words of errors for a cursor of a list of `things`. */
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

/** A cursor from `banCursorOf`. */
export const banCursor = (name: string) =>
  readableText(name, cursorForm('bans'), (text) => {
    const place = openText(text, BAN_CURSOR)?.[1];
    return place !== undefined && opaqueText(`bans.${place}`) === text ? decodeCursor(opaqueText(place)) : null;
  });

export function positionOf({ at, id }: Pick<AuditEntry, 'at' | 'id'>): Position {
  return { createdAt: new Date(at), id };
}
