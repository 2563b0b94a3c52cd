import type { NameOf } from '#dist/domain/spelling.js';
import type { LoginMethod as Kind } from '#dist/domain/users.js';

/* Writes values for a reader. The page is in English, in the reader's time zone. */
const LOCALE = 'en-GB';
const numbers = new Intl.NumberFormat('en');
const dateTimes = new Intl.DateTimeFormat(LOCALE, { dateStyle: 'medium', timeStyle: 'short' });
const exactTimes = new Intl.DateTimeFormat(LOCALE, { dateStyle: 'medium', timeStyle: 'medium' });
const zonedTimes = new Intl.DateTimeFormat(LOCALE, { dateStyle: 'medium', timeStyle: 'long' });
const dates = new Intl.DateTimeFormat(LOCALE, { dateStyle: 'medium' });
const utcTimes = new Intl.DateTimeFormat(LOCALE, { dateStyle: 'medium', timeStyle: 'long', timeZone: 'UTC' });
const days = new Intl.DateTimeFormat(LOCALE, { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' });
const shortDays = new Intl.DateTimeFormat(LOCALE, { day: 'numeric', month: 'short', timeZone: 'UTC' });
const hours = new Intl.DateTimeFormat(LOCALE, { timeStyle: 'short' });
const months = new Intl.DateTimeFormat(LOCALE, { month: 'short', year: 'numeric', timeZone: 'UTC' });

export const formatNumber = (value: number): string => numbers.format(value);
export const formatDateTime = (iso: string, isExact = false): string =>
  (isExact ? exactTimes : dateTimes).format(new Date(iso));
export const formatDay = (iso: string): string => dates.format(new Date(iso));
/** The reader's time zone, of all times that do not name another one. */
export const ZONE = zonedTimes.resolvedOptions().timeZone;
/** With its zone, in that of the reader and in UTC. */
export const formatZoned = (iso: string): string =>
  [...new Set([zonedTimes, utcTimes].map((times) => times.format(new Date(iso))))].join(' = ');
/** A UTC day or month, `2026-01-31`, or an hour of the reader by its instant. */
export const formatBucket = (from: string, by: Interval): string =>
  ({ HOUR: dateTimes, DAY: days, MONTH: months })[by].format(new Date(from));
/** The same on the axis of a chart. */
export const formatTick = (milliseconds: number, by: Interval): string =>
  ({ HOUR: hours, DAY: shortDays, MONTH: months })[by].format(new Date(milliseconds));

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${formatNumber(count)} ${count === 1 ? one : many}`;

export type Interval = 'HOUR' | 'DAY' | 'MONTH';
export type LoginMethod = NameOf<Kind>;
export const METHOD_NAMES: Readonly<Record<LoginMethod, string>> = {
  EMAIL: 'Email',
  PASSKEY: 'Passkey',
  WALLET: 'Wallet',
  SOCIALS: 'Socials',
};
export const LOGIN_METHODS = Object.keys(METHOD_NAMES) as readonly LoginMethod[];

/** The first day of the UTC month `count` months before this one, `2026-01-01`. */
export function firstOfMonth(count: number): string {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - count)).toISOString().slice(0, 10);
}

/** The UTC day `count` days before today, `2026-01-31`. */
export const daysAgo = (count: number): string => new Date(Date.now() - count * 86_400_000).toISOString().slice(0, 10);
