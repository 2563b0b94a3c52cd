/* Writes values for a reader. The page is in English, in the reader's time zone. */
const LOCALE = 'en-GB';
const numbers = new Intl.NumberFormat('en');
const dateTimes = new Intl.DateTimeFormat(LOCALE, { dateStyle: 'medium', timeStyle: 'short' });
const exactTimes = new Intl.DateTimeFormat(LOCALE, { dateStyle: 'medium', timeStyle: 'medium' });
const dates = new Intl.DateTimeFormat(LOCALE, { dateStyle: 'medium' });
const utcTimes = new Intl.DateTimeFormat(LOCALE, { dateStyle: 'medium', timeStyle: 'long', timeZone: 'UTC' });
const days = new Intl.DateTimeFormat(LOCALE, { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' });
const months = new Intl.DateTimeFormat(LOCALE, { month: 'short', year: 'numeric', timeZone: 'UTC' });

export const formatNumber = (value: number): string => numbers.format(value);
export const formatDateTime = (iso: string, isExact = false): string =>
  (isExact ? exactTimes : dateTimes).format(new Date(iso));
export const formatDay = (iso: string): string => dates.format(new Date(iso));
export const formatUtc = (iso: string): string => utcTimes.format(new Date(iso));
/** A UTC day or month, `2026-01-31`. */
export const formatBucket = (date: string, by: Interval): string =>
  (by === 'MONTH' ? months : days).format(new Date(`${date}T00:00:00Z`));

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${formatNumber(count)} ${count === 1 ? one : many}`;

export type Interval = 'DAY' | 'MONTH';
export const METHOD_NAMES = { EMAIL: 'Email', PASSKEY: 'Passkey', WALLET: 'Wallet', SOCIALS: 'Socials' } as const;
export type LoginMethod = keyof typeof METHOD_NAMES;
export const LOGIN_METHODS = Object.keys(METHOD_NAMES) as readonly LoginMethod[];

/** Sign-ups of one day or month, by login method. */
export type Bucket = Readonly<{ from: string; total: number } & Record<Lowercase<LoginMethod>, number>>;

export const countOf = (bucket: Bucket, method: LoginMethod) => bucket[method.toLowerCase() as Lowercase<LoginMethod>];

/** The time until an instant, in the two largest units: "2 h 5 min". */
export function formatRemaining(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's'],
  ] as const;
  const first = parts.findIndex(([value]) => value > 0);
  const shown = parts.slice(first, first + 2).filter(([value]) => value > 0);
  return first < 0 ? '0 s' : shown.map(([value, unit]) => `${value} ${unit}`).join(' ');
}

/** The first day of the UTC month `count` months before this one, `2026-01-01`. */
export function firstOfMonth(count: number): string {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - count)).toISOString().slice(0, 10);
}

/** The UTC day `count` days before today, `2026-01-31`. */
export const daysAgo = (count: number): string => new Date(Date.now() - count * 86_400_000).toISOString().slice(0, 10);
