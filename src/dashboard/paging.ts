import { badInput } from '../errors.js';

/** The most items of one page. */
export const MAX_PAGE = 100;
/** The users of a page whose length was not asked. */
export const DEFAULT_PAGE = 25;

/** A number of items, or BAD_USER_INPUT. */
export function readLimit(name: string, value: number): number {
  if (value >= 1 && value <= MAX_PAGE) return value;
  throw badInput(name, value, `a whole number from 1 to ${MAX_PAGE}`);
}
