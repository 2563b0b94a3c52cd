import { atMost, isTooLong } from '../../domain/input-limits.js';
import { badInput } from '../../errors.js';

/* The format of dates of a file, in the tokens of Luxon, which makes a regular expression of it. */

/** The tokens of each part of a date that Luxon reads. `D`, `t` and `f` are whole dates and times in the form of a language. */
const TOKENS: readonly (readonly string[])[] = [
  ['G', 'GG', 'GGGGG'],
  ['y', 'yy', 'yyyy', 'yyyyy', 'yyyyyy', 'kk', 'kkkk'],
  ['q', 'qq'],
  ['M', 'MM', 'MMM', 'MMMM', 'L', 'LL', 'LLL', 'LLLL'],
  ['W', 'WW'],
  ['d', 'dd', 'o', 'ooo'],
  ['E', 'EEE', 'EEEE', 'c', 'ccc', 'cccc'],
  ['h', 'hh', 'H', 'HH'],
  ['a'],
  ['m', 'mm'],
  ['s', 'ss'],
  ['S', 'SSS', 'u', 'uu', 'uuu'],
  ['z', 'Z', 'ZZ', 'ZZZ'],
  ['D', 'DD', 'DDD', 'DDDD'],
  ['t', 'tt', 'ttt', 'tttt', 'T', 'TT', 'TTT', 'TTTT'],
  ['f', 'ff', 'fff', 'ffff', 'F', 'FF', 'FFF', 'FFFF'],
];
const PART_OF = new Map(TOKENS.flatMap((tokens, part) => tokens.map((token) => [token, part])));

/** A text within apostrophes, or a letter as often as it follows itself. */
const QUOTED_OR_TOKEN = /'[^']*(?:'|$)|([A-Za-z])\1*/g;

/** Checks a format of dates: each part once, because every further part that may have several lengths multiplies the time to read a date. BAD_USER_INPUT. */
export function requireDateFormat(format: string): void {
  if (isTooLong('date', format)) throw badInput('dates', format, `a format of ${atMost('date')}`);
  const tokens = (format.match(QUOTED_OR_TOKEN) ?? []).filter((token) => !token.startsWith("'"));
  const unknown = tokens.find((token) => !PART_OF.has(token));
  if (unknown !== undefined)
    throw badInput('dates', unknown, "tokens of Luxon such as dd.MM.yyyy HH:mm, and other letters within '…'");
  const parts = tokens.map((token) => PART_OF.get(token));
  const again = tokens.find((_, place) => parts.indexOf(parts[place]) < place);
  if (again !== undefined) throw badInput('dates', again, 'each part of a date and its time once');
}
