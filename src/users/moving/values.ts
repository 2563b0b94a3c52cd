import { DateTime } from 'luxon';
import { type DateRange, isWithin } from '../../domain/import-format.js';
import { isTooLong } from '../../domain/input-limits.js';
import { isTooDeep } from '../../domain/lines.js';
import { dateForm, parseDate } from '../../domain/parse.js';
import { AppError, show } from '../../errors.js';

/* Values as other systems write them: texts, truths, objects and dates. */

/** The fields of a JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** True for what says nothing: null, an empty text, list or object. */
export function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === '') return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

/** A text or a number as text, without the space around it; empty for anything else. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value.trim() : typeof value === 'number' ? String(value) : '';
}

/** The words of a text, such as the names of fields. */
export function wordsOf(text: string): string[] {
  return text.trim().split(/\s+/);
}

/** True or false, also as text (`true`, `t`, `1`, `yes`); null where it is not said. */
export function truthOf(value: unknown): boolean | null {
  if (typeof value === 'boolean') return value;
  const text = textOf(value).toLowerCase();
  if (/^(true|t|1|yes|y|on)$/.test(text)) return true;
  return /^(false|f|0|no|n|off)$/.test(text) ? false : null;
}

/** The object of a JSON text, or a value that is one; empty where there is none. */
export function objectOf(value: unknown): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  const parsed = parsedOf(value);
  return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed) ? (parsed as Fields) : {};
}

/** The objects of a list, which may be JSON text. */
export function objectsOf(value: unknown): Fields[] {
  const list = Array.isArray(value) ? value : parsedOf(value);
  return Array.isArray(list) ? list.filter((item) => typeof item === 'object' && item !== null) : [];
}

/** The texts of a list, or of a cell that has several. */
export function textsOf(value: unknown, separator: string | RegExp = /[|,;\s]+/): string[] {
  const parsed = Array.isArray(value) ? value : parsedOf(value);
  const texts = Array.isArray(parsed) ? parsed.map(textOf) : textOf(value).split(separator);
  return texts.map((text) => text.trim()).filter((text) => text !== '');
}

function parsedOf(value: unknown): unknown {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value) || isTooDeep(value)) return null;
  try {
    return JSON.parse(value);
  } catch {
    return null;
  }
}

/** A date as RFC 3339; null where there is none. BAD_USER_INPUT names the field, and the value as it stands in the file. */
export type ReadDate = (field: string, range: DateRange, value: unknown) => string | null;

export interface DateOptions {
  /** The format of dates that are in none of the forms that are known, in the tokens of Luxon: `dd.MM.yyyy HH:mm:ss`. */
  readonly format: string | null;
  /** The time zone of dates that say none, by its IANA name. */
  readonly zone: string;
  /** Counts the dates that say no time zone, and those that mean never. */
  readonly note: (what: string) => void;
}

const DATE_FORM = 'RFC 3339, seconds or milliseconds since 1970, or what --dates says';
/** A greater number is in milliseconds: as seconds it would be after the year 5138. */
const MOST_SECONDS = 1e11;
/** PostgreSQL writes an offset without minutes, and a blank instead of the T. */
const LOOSE = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d(?:\.\d+)?))?)? ?(Z|UTC|[+-]\d\d(?::?\d\d)?)?$/i;

/** As systems write that something has never happened: zero, the first day of .NET and Go or of Windows, or a day that MySQL has for it. */
const NEVER =
  /^(0+(\.0+)?|-62135596800(000)?|(0000-00-00|0001-01-01|1601-01-01)([T ][\d:.]+)? ?(Z|UTC|[+-]\d\d(:?\d\d)*)?)$/i;

/** True for a date that says that something has never happened. */
export const isNever = (value: unknown) => NEVER.test(textOf(value));

export function createDateReader({ format, zone, note }: DateOptions): ReadDate {
  return (field, range, value) => {
    if (isEmpty(value)) return null;
    const text = isTooLong('date', String(value)) ? '' : String(value).trim();
    if (isNever(text)) {
      note('dates that mean never, read as none');
      return null;
    }
    const instant = fromNumber(text) ?? (format === null ? null : fromFormat(text, format)) ?? fromText(text);
    if (instant !== null && isWithin(range, new Date(instant))) return instant;
    const form = instant === null ? dateForm(text, DATE_FORM) : range.form;
    throw new AppError('BAD_USER_INPUT', `${field}: got ${show(value)}, expected ${form}.`);
  };

  function fromFormat(text: string, tokens: string): string | null {
    const date = DateTime.fromFormat(text, tokens, { zone });
    if (date.isValid && !/[Zz]/.test(tokens)) note(`dates without a time zone, read as ${zone}`);
    return date.isValid ? date.toUTC().toISO() : null;
  }

  function fromText(text: string): string | null {
    if (isInstant(text)) return text;
    const [, day, time, seconds = '00', offset] = LOOSE.exec(text) ?? [];
    if (day === undefined) return (parseDate(text, 'first') ?? fromHttp(text))?.toISOString() ?? null;
    if (offset === undefined) {
      note(`dates without a time zone, read as ${zone}`);
      const date = DateTime.fromISO(time === undefined ? day : `${day}T${time}:${seconds}`, { zone });
      return date.isValid ? date.toUTC().toISO() : null;
    }
    const minutes = /^[+-]/.test(offset)
      ? offset
          .replace(':', '')
          .padEnd(5, '0')
          .replace(/(\d\d)$/, ':$1')
      : 'Z';
    return parseDate(`${day}T${time ?? '00:00'}:${seconds}${minutes}`, 'first')?.toISOString() ?? null;
  }
}

/** True for an instant in the form of the lines of an import, which most systems write. */
function isInstant(text: string): boolean {
  const time = text.length === 24 && text.endsWith('Z') ? Date.parse(text) : Number.NaN;
  return !Number.isNaN(time) && new Date(time).toISOString() === text;
}

/** `Tue, 03 Jan 2023 10:42:14 GMT` */
function fromHttp(text: string): Date | null {
  const date = DateTime.fromHTTP(text);
  return date.isValid ? date.toJSDate() : null;
}

function fromNumber(text: string): string | null {
  if (!/^\d{9,14}(\.\d+)?$/.test(text)) return null;
  const number = Number(text);
  return new Date(number < MOST_SECONDS ? number * 1_000 : number).toISOString();
}
