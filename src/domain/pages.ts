import { AppError } from '../errors.js';
import { MAX_IDS, PAGE_SIZE } from './bounds.js';
import type { Position } from './cursors.js';
import { decimal, integerMeta, readItems } from './parse.js';
import type { User } from './users.js';

/* Pages of lists, and how many a request may ask for. */

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
