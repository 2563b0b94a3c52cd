import { z } from 'zod';
import { AppError } from '../errors.js';
import { CHANGE_TYPES, type ChangeType } from './change-types.js';
import { opaqueText, openText } from './cursors.js';
import { INPUT_LIMITS } from './input-limits.js';
import { pageSize } from './pages.js';
import { commaSeparated, listMeta } from './parameters.js';
import { readableText, says } from './parse.js';

/* The feed of changes: what a change is, and its cursors. */

/** A change of a user, an account or a ban. It names the user, and has nothing that identifies a person. */
export interface Change<Id = number> {
  /** Its place in the feed: a cursor. */
  readonly id: string;
  readonly type: ChangeType;
  /** When its transaction began; ISO 8601. */
  readonly at: string;
  /** Null for a ban of an identity that no current user has. */
  readonly userId: Id | null;
  /** Of `user.updated`: which fields, by their names in the import format. Otherwise empty. */
  readonly fields: readonly string[];
  /** Of `user.merged`: the user who has taken over what this one had; else null. */
  readonly mergedInto: Id | null;
}

export const CHANGES_PAGE = { default: 100, max: 1_000 } as const;

/** A place in the feed. A database restored from an older backup gives the same ids to other changes, so it begins a new timeline. */
export interface ChangeCursor {
  readonly timeline: string;
  readonly id: number;
}

const CURSOR = /^([0-9a-f]{8})\.(\d{1,16})\./;
const CURSOR_FORM = 'a cursor of this feed (the id of a change, the end of a page), or "now"';
/** The text of the present end of the feed, for a follower that is about to read all users. */
const NOW = 'now';

/** Null: before the oldest change that is kept. */
export type Place = ChangeCursor | typeof NOW | null;

export function encodeChangeCursor({ timeline, id }: ChangeCursor): string {
  return opaqueText(`${timeline}.${id}`);
}

export function decodeChangeCursor(text: string): ChangeCursor | null {
  const match = openText(text, CURSOR);
  if (match === null) return null;
  const cursor = { timeline: String(match[1]), id: Number(match[2]) };
  return Number.isSafeInteger(cursor.id) && encodeChangeCursor(cursor) === text ? cursor : null;
}

/** A cursor from `encodeChangeCursor`, or `now`. */
export function changeCursor(name: string) {
  const read = (text: string) => (text === NOW ? NOW : decodeChangeCursor(text));
  return readableText(name, CURSOR_FORM, read).meta({ maxLength: INPUT_LIMITS.cursor.max });
}

/** The id of one change, which is its cursor. */
export function changeId(name: string) {
  return readableText(name, 'the id of a change, which is that of its message', decodeChangeCursor).meta({
    maxLength: INPUT_LIMITS.cursor.max,
  });
}

export const changesLimit = pageSize('Changes on a page', CHANGES_PAGE);

const TYPES_FORM = `${CHANGE_TYPES.join(', ')}, or several of them separated by commas`;

/** Types of changes; duplicates are harmless. */
export function changeTypes(name: string) {
  const error = says(name, TYPES_FORM);
  return commaSeparated('changeTypes', error)
    .pipe(z.array(z.enum(CHANGE_TYPES, { error })))
    .meta(listMeta('changeTypes', CHANGE_TYPES, 'Only changes of these types:', 'user.created,user.removed'));
}

/** The warning to operators of a database that was restored. */
export const RESTORED =
  'The database was restored from a backup, or copied. IDs and changes go on far beyond those that are known, so that none is given again, and webhooks are paused: docs/disaster.md, "After a restore", says what to do.';

/** CURSOR_EXPIRED, and what to do. */
export function cursorExpired(why: string): AppError {
  return new AppError(
    'CURSOR_EXPIRED',
    `The cursor has expired: ${why}. Take a new one (after "now"), read all users again, and go on with it; \`userdir user export\` returns both.`,
  );
}

/** A change as one line of JSON, for /changes and the command. */
export function formatChange({ id, type, at, ...change }: Change): string {
  return JSON.stringify({ id, type, at, ...changeData(change) });
}

/** The user whom a change names, and what it says of them, under the names of REST and webhooks. */
export function changeData<Id>({ userId, fields, mergedInto }: Pick<Change<Id>, 'userId' | 'fields' | 'mergedInto'>) {
  return {
    user_id: userId,
    ...(fields.length > 0 && { fields }),
    ...(mergedInto !== null && { merged_into: mergedInto }),
  };
}

/** Changes that a follower gets together, perhaps none, and the cursor from which the next ones come. */
export interface FollowedChanges {
  readonly changes: readonly Change[];
  readonly end: string;
}

/** Runs a read when admission lets it. */
export type Admit = <Result>(work: () => Promise<Result>) => Promise<Result>;

export interface ChangesQuery {
  readonly after: Place;
  /** Null: all. */
  readonly types: readonly ChangeType[] | null;
}
