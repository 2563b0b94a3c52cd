import { z } from 'zod';
import { MAX_IDS } from './bounds.js';
import { INPUT_LIMITS, type InputKind, isTooLong } from './input-limits.js';
import { readEach } from './pages.js';
import { dateForm, ID_META, parseDate, parseEachId, readableText, says } from './parse.js';
import { LoginMethod } from './users.js';

/* Parameters that several routes have: dates, login methods, IDs. */

export const LOGIN_METHODS = Object.values(LoginMethod);
const DATE_FORM = 'a date (2026-01-31) or an RFC 3339 date-time (2026-01-31T12:00:00Z)';
export const LOGIN_METHOD_FORM = `${LOGIN_METHODS.join(', ')}, or several of them separated by commas`;

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
