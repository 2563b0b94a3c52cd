import { createBatchedRead, type KeyedRow } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import type { Queryable } from '../db/statements.js';
import { type Change, type ChangeCursor, encodeChangeCursor } from '../domain/changes.js';
import type { AppError } from '../errors.js';
import * as sql from './changes.sql.js';
import { cursorsOf, requireKept, requirePlaceKept } from './cursors.js';

/** Reads the feed part by part. A full part has as many changes as asked for, or as may be looked at. */
export interface FeedParts {
  /** The part after a cursor, or the first (null). CURSOR_EXPIRED. */
  read(projectId: number, after: ChangeCursor | null, extent: Extent): Promise<FeedPart>;
  /** The part of a page, which may be read on a standby. CURSOR_EXPIRED. */
  readForPage(projectId: number, after: ChangeCursor | null, extent: Extent): Promise<FeedPart>;
  /** The part after a place, such as a webhook's. CURSOR_EXPIRED. */
  readAfter(projectId: number, place: ChangeCursor, wanted: Wanted): Promise<PartAfterPlace>;
}

/** The extent of one read: the most changes, their types, and the most that are looked at. */
export type Extent = Pick<sql.ChangesKey, 'types' | 'limit' | 'scan'>;

export type Wanted = Pick<Extent, 'types' | 'limit'>;

export interface FeedPart {
  readonly changes: Change[];
  /** Where the next part begins. */
  readonly end: ChangeCursor;
  readonly isFull: boolean;
  /** The id of the last change that can be read. */
  readonly published: number;
  /** The id of the project's newest change that is committed, perhaps not published yet. */
  readonly newest: number;
}

export interface PartAfterPlace {
  /** Each with its own place. */
  readonly changes: { readonly change: Change; readonly id: number }[];
  readonly end: number;
  /** True if more may come. */
  readonly isFull: boolean;
  readonly timeline: string;
}

/** A page for few types looks at so many changes in one statement. */
export const SCANNED_AT_ONCE = 1_000;
/** To look at so many for their type is one unit of work (http/admission.ts). */
export const SCANNED_PER_UNIT = 200;

/** One read, for which a request has paid with its weight. */
export function extentOf(types: Extent['types'], limit: number): Extent {
  return {
    types,
    limit,
    scan: types === null ? limit : Math.max(limit, SCANNED_PER_UNIT),
  };
}

/** The feed keeps what is not older than `retentionMs`. */
export function createFeedParts(db: Database, retentionMs: number): FeedParts {
  const readOn = (on: Queryable) =>
    createBatchedRead({
      name: 'changes',
      read: (keys: readonly sql.ChangesKey[]) => sql.readChanges(on, keys),
      answer: (rows: KeyedRow<sql.ChangeRow>[]) => rows,
      groupKey: ({ types }) => types?.join() ?? '',
      weigh: ({ scan }) => scan,
    });
  const readNow = readOn(db);
  const readLagging = db.replica === null ? readNow : readOn(db.replicaReads);

  async function readPart(projectId: number, after: ChangeCursor | null, extent: Extent, read: typeof readNow) {
    const rows = await read({ projectId, after: after?.id ?? 0, ...extent });
    const feed = rows[0] as sql.ChangeRow;
    if (after !== null) requireKept(after, feed, retentionMs);
    return partOf(rows, after, extent);
  }

  return {
    read: (projectId, after, extent) => readPart(projectId, after, extent, readNow),

    // A standby does not know every cursor yet, so the primary decides which have expired.
    readForPage: (projectId, after, extent) =>
      readPart(projectId, after, extent, readLagging).catch((error) => {
        if (db.replica === null || (error as Partial<AppError>).code !== 'CURSOR_EXPIRED') throw error;
        return readPart(projectId, after, extent, readNow);
      }),

    async readAfter(projectId, place, { types, limit }) {
      const extent = { types, limit, scan: types === null ? limit : SCANNED_AT_ONCE };
      const rows = await readNow({ projectId, after: place.id, ...extent });
      const feed = rows[0] as sql.ChangeRow;
      requirePlaceKept(place, feed, retentionMs);
      const cursorOf = cursorsOf(feed);
      const changes = wantedOf(rows, extent).map((row) => ({ change: toChange(row, cursorOf(row.id)), id: row.id }));
      const isFull = isFullOf(rows, extent);
      const end = isFull ? (rows.at(-1)?.id as number) : Math.max(place.id, feed.published);
      return { changes, end, isFull, timeline: feed.timeline };
    },
  };
}

function partOf(rows: sql.ChangeRow[], after: ChangeCursor | null, extent: Extent): FeedPart {
  const feed = rows[0] as sql.ChangeRow;
  const cursorOf = cursorsOf(feed);
  const changes = wantedOf(rows, extent).map((row) => toChange(row, cursorOf(row.id)));
  const isFull = isFullOf(rows, extent);
  // A cursor that is ahead, because another server has published less so far, stays where it is.
  const endId = isFull ? (rows.at(-1)?.id as number) : feed.published;
  const end = after !== null && after.id >= endId ? after : cursorOf(endId);
  return {
    changes,
    end,
    isFull,
    published: feed.published,
    newest: feed.newest ?? 0,
  };
}

/** The changes that were asked for. The last one that was looked at may be of another type. */
function wantedOf(rows: sql.ChangeRow[], { types }: Extent): (sql.ChangeRow & { readonly id: number })[] {
  const isWanted = (row: sql.ChangeRow): row is sql.ChangeRow & { readonly id: number } =>
    row.id !== null && (types === null || types.includes(row.type));
  return rows.filter(isWanted);
}

function isFullOf(rows: sql.ChangeRow[], { limit, scan }: Extent): boolean {
  const last = rows.at(-1) as sql.ChangeRow;
  return last.id !== null && (rows.length === limit || last.place === scan);
}

export function toChange(
  { type, at, userId, fields }: Pick<sql.ChangeRow, 'type' | 'at' | 'userId' | 'fields'>,
  cursor: ChangeCursor,
): Change {
  const change = { id: encodeChangeCursor(cursor), type, at, userId };
  if (type === 'user.merged') return { ...change, fields: [], mergedInto: Number(fields) };
  return { ...change, fields: fields?.split(' ') ?? [], mergedInto: null };
}
