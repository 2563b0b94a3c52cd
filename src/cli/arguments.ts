import { InvalidArgumentError, Option } from 'commander';
import { dateBound, parse } from '../domain/filters.js';
import type { SecretScope } from '../domain/projects.js';
import { SECRET_SCOPES } from '../domain/projects.js';

/** What several commands have in common, and what the words of a command line mean; each meaning throws InvalidArgumentError. */

export const json = () => new Option('--json', 'print one JSON value on stdout');
export const project = () => new Option('--project <APP_ID>', 'the App ID of the project').makeOptionMandatory();

/** For the end of a help: whole command lines, without `userdir` before them. */
export function examples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ userdir ${line}`).join('\n')}`;
}

const TIME_UNITS_MS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
/** Dates stay within four digits of a year on either side. */
const LONGEST_MS = 36_500 * 86_400_000;
const MAX_ENTRIES = 100_000;

/** Milliseconds. */
export function duration(text: string): number {
  const milliseconds = parseDuration(text);
  if (milliseconds !== null) return milliseconds;
  throw new InvalidArgumentError(
    'Expected a whole number with a unit, such as 90s, 30m, 24h, 30d or 2w, and 100 years at most.',
  );
}

function parseDuration(text: string): number | null {
  const [, digits = '', unit = ''] = /^(\d{1,6})([smhdw])$/.exec(text) ?? [];
  const milliseconds = Number(digits) * (TIME_UNITS_MS[unit] ?? Number.NaN);
  return digits === '' || milliseconds > LONGEST_MS ? null : milliseconds;
}

export function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('Expected a whole number from 0 to 999999999.');
  return Number(text);
}

export function entries(text: string): number {
  const number = wholeNumber(text);
  if (number >= 1 && number <= MAX_ENTRIES) return number;
  throw new InvalidArgumentError(`Expected a whole number from 1 to ${MAX_ENTRIES}.`);
}

/** A user ID as a number, which JSON carries exactly. */
export function userNumber(text: string): number {
  const number = Number(text);
  if (/^[1-9]\d*$/.test(text) && Number.isSafeInteger(number)) return number;
  throw new InvalidArgumentError('Expected a user ID: decimal digits, 1 and up.');
}

/** The base address of a server, as it was written. */
export function serverUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isBase = url !== null && url.search + url.hash + url.username + url.password === '';
  if (isBase && ['http:', 'https:'].includes(url.protocol)) return text;
  throw new InvalidArgumentError(
    'Expected the base address of a server, such as https://users.example.com, without credentials or a query.',
  );
}

const sinceDate = dateBound('since', 'first');

/** An instant, as long ago as a duration says or on a date, in ISO 8601. */
export function since(text: string): string {
  const ago = parseDuration(text);
  if (ago !== null) return new Date(Date.now() - ago).toISOString();
  try {
    return parse(sinceDate, text).toISOString();
  } catch {
    throw new InvalidArgumentError(
      'Expected a time such as 24h or 30d, a date (2026-01-31) or an RFC 3339 date-time (2026-01-31T12:00:00Z).',
    );
  }
}

export function commaSeparated(text: string): string[] {
  return text.split(',').map((name) => name.trim());
}

/** Scopes separated by commas, each once. */
export function scopes(text: string): SecretScope[] {
  const named = commaSeparated(text);
  const known = SECRET_SCOPES.filter((scope) => named.includes(scope));
  if (named.every((name) => (SECRET_SCOPES as string[]).includes(name))) return known;
  throw new InvalidArgumentError(`Expected some of ${SECRET_SCOPES.join(', ')}, separated by commas.`);
}
