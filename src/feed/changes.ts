import { setTimeout as sleep } from 'node:timers/promises';
import type { OnFailure } from '../db/background.js';
import { createBatchedRead, type KeyedRow } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import { patiently } from '../db/failures.js';
import { inBatches, type Queryable } from '../db/statements.js';
import {
  type Admit,
  type Change,
  type ChangeCursor,
  type ChangesQuery,
  cursorExpired,
  decodeChangeCursor,
  encodeChangeCursor,
  type FollowedChanges,
  type Place,
} from '../domain/changes.js';
import type { ProjectScope } from '../domain/projects.js';
import type { AppError } from '../errors.js';
import * as sql from './changes.sql.js';
import { createChangePublisher, createNews } from './publisher.js';

export type Changes = ReturnType<typeof createChanges>;

/** A page looks at about so many changes at most for those of its types, and at so many in one statement. */
const MAX_SCANNED = 10_000;
const SCANNED_AT_ONCE = 1_000;
/** To look at so many for their type is one unit of work (http/admission.ts). */
const SCANNED_PER_UNIT = 200;
/** Changes that a follower reads at once: one unit of work. */
const FOLLOWED_AT_ONCE = 50;

/** Adds units of work that a request turned out to cost. False where the work is to end, because the request is refused or its client has gone. */
type Charge = (units: number) => boolean;

/** The extent of one read: the most changes, their types, and the most that are looked at. */
type Extent = Pick<sql.ChangesKey, 'types' | 'limit' | 'scan'>;

/** One read, for which a request has paid with its weight. */
const extentOf = (types: sql.ChangesKey['types'], limit: number): Extent => ({
  types,
  limit,
  scan: types === null ? limit : Math.max(limit, SCANNED_PER_UNIT),
});
const ONE = extentOf(null, 1);

/** Deletes expired rows of all projects, in short statements. */
type DeleteExpired = (db: Queryable, signal: AbortSignal) => Promise<void>;

export async function deleteOldChanges(db: Queryable, retentionMs: number, signal: AbortSignal): Promise<void> {
  for (const projectId of await sql.listProjectsWithOldChanges(db, retentionMs))
    await inBatches((limit) => sql.pruneChanges(db, projectId, retentionMs, limit), signal);
}

/** The feed of changes of a project. It keeps what is not older than `retentionMs`. The process that publishes it also deletes other rows. */
export function createChanges(
  db: Database,
  retentionMs: number,
  deletions: readonly DeleteExpired[],
  onFailure: OnFailure,
) {
  const deleteExpired = async (signal: AbortSignal) => {
    await deleteOldChanges(db, retentionMs, signal);
    for (const deleteOthers of deletions) await deleteOthers(db, signal);
  };
  const publisher = createChangePublisher(db, deleteExpired, onFailure);
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
  const news = createNews(db, publisher.listen);

  /** A part of the feed. A full one has as many changes as asked for, or as may be looked at. The newest one is committed, perhaps not published yet. */
  async function readPart(projectId: number, after: ChangeCursor | null, extent: Extent, read = readNow) {
    const rows = await read({ projectId, after: after?.id ?? 0, ...extent });
    const feed = rows[0] as sql.ChangeRow;
    const cursorOf = cursorsOf(feed);
    if (after !== null) requireKept(after, feed, retentionMs);
    const changes = wantedOf(rows, extent).map((row) => toChange(row, cursorOf(row.id)));
    const isFull = isFullOf(rows, extent);
    // A cursor that is ahead, because another server has published less so far, stays where it is.
    const endId = isFull ? (rows.at(-1)?.id as number) : feed.published;
    const end = after !== null && after.id >= endId ? after : cursorOf(endId);
    return { changes, end, isFull, published: feed.published, newest: feed.newest ?? 0 };
  }

  /** Of a page. A standby does not know every cursor yet, so the primary decides which have expired. */
  function readPagePart(projectId: number, after: ChangeCursor | null, extent: Extent) {
    return readPart(projectId, after, extent, readLagging).catch((error) => {
      if (db.replica === null || (error as Partial<AppError>).code !== 'CURSOR_EXPIRED') throw error;
      return readPart(projectId, after, extent);
    });
  }

  async function findEnd(): Promise<ChangeCursor> {
    let feed = await sql.readFeed(db);
    if (feed.last > feed.published) {
      await publisher.waitFor(feed.last);
      feed = await sql.readFeed(db);
    }
    // A caller who takes a cursor and then reads lists must not miss what is before the cursor and not yet in the lists of a standby.
    if (db.replica !== null) await sleep(db.replica.maxAgeMs);
    return cursorsOf(feed)(feed.published);
  }

  return {
    /** Begins to publish. To be called when a server has opened the database; otherwise the first reader does. */
    start: publisher.start,

    /**
     * The next changes in the order of commit, at least those committed before the call, unless an open transaction holds them up.
     * A page for few types may have fewer than `first` although there are more: it looks at a bounded number of changes. Each read after the
     * first is charged before it is made. The next page begins at `end`, also if this one is empty. CURSOR_EXPIRED.
     */
    async listChanges(
      scope: ProjectScope,
      { after, types, first }: ChangesQuery & { readonly first: number },
      charge: Charge = () => true,
    ) {
      const projectId = scope.projectIdFor('changes');
      publisher.start();
      const changes: Change[] = [];
      let isWaiting = true;
      let place = after === 'now' ? await findEnd() : after;
      let extent = extentOf(types, first);
      for (let scanned = 0; ; ) {
        const part = await readPagePart(projectId, place, extent);
        place = part.end;
        scanned += extent.scan;
        changes.push(...part.changes);
        const hasMore = part.isFull && place.id < part.newest;
        const limit = first - changes.length;
        if (!part.isFull && part.newest > part.published && isWaiting) {
          isWaiting = false;
          await publisher.waitFor(part.newest);
          extent = extentOf(types, limit);
        } else if (hasMore && limit > 0 && scanned < MAX_SCANNED && charge(SCANNED_AT_ONCE / SCANNED_PER_UNIT)) {
          extent = { types, limit, scan: SCANNED_AT_ONCE };
        } else return { changes, end: encodeChangeCursor(place), hasMore };
      }
    },

    /** The changes after a cursor, then new ones, read on demand, until `signal` aborts. The cursor also moves by other types. CURSOR_EXPIRED. */
    async *follow(
      scope: ProjectScope,
      { after, types }: ChangesQuery & { readonly after: ChangeCursor },
      signal: AbortSignal,
      admit: Admit,
    ): AsyncGenerator<FollowedChanges, void> {
      const projectId = scope.projectIdFor('changes');
      publisher.start();
      for (let place = after; !signal.aborted; ) {
        // Before the read, so that nothing is published unnoticed after it.
        const newer = news.of(projectId, signal);
        try {
          const from = place;
          const read = () => admit(() => readPart(projectId, from, extentOf(types, FOLLOWED_AT_ONCE)));
          const part = await patiently(read, signal);
          const hasMoved = part.end.id > place.id;
          place = part.end;
          if (hasMoved) yield { changes: part.changes, end: encodeChangeCursor(place) };
          if (!part.isFull) await newer.wait();
        } catch (error) {
          if (error !== signal.reason) throw error;
        } finally {
          newer.forget();
        }
      }
    },

    /** Tells that the project may have new changes, not which: at once, because its reader may have read before, and each time. Until `signal` aborts. */
    async *watch(scope: ProjectScope, signal: AbortSignal): AsyncGenerator<void, void> {
      const projectId = scope.projectIdFor('inspect');
      publisher.start();
      let newer = news.of(projectId, signal);
      try {
        while (!signal.aborted) {
          yield;
          await newer.wait();
          // Before it is told, so that nothing is published unnoticed meanwhile.
          const next = news.of(projectId, signal);
          newer.forget();
          newer = next;
        }
      } finally {
        newer.forget();
      }
    },

    /** From where a stream begins: the cursor that it gives, which has to be valid, or else the present end. CURSOR_EXPIRED. */
    async findStart(scope: ProjectScope, after: Place): Promise<ChangeCursor> {
      const projectId = scope.projectIdFor('changes');
      publisher.start();
      if (after === null || after === 'now') return findEnd();
      await readPart(projectId, after, ONE);
      return after;
    },

    /** The next changes after a place, such as a webhook's, each with its own, the end, whether more may come, and the timeline. CURSOR_EXPIRED. */
    async readAfter(projectId: number, place: ChangeCursor, { types, limit }: Pick<Extent, 'types' | 'limit'>) {
      const extent = { types, limit, scan: types === null ? limit : SCANNED_AT_ONCE };
      const rows = await readNow({ projectId, after: place.id, ...extent });
      const feed = rows[0] as sql.ChangeRow;
      // A place that is never moved may be older than the timelines that are kept.
      if (isKnown(place, feed) || timelinesOf(feed).length < MAX_TIMELINES) requireKept(place, feed, retentionMs);
      else requireNotPruned(place.id, feed, retentionMs);
      const cursorOf = cursorsOf(feed);
      const changes = wantedOf(rows, extent).map((row) => ({ change: toChange(row, cursorOf(row.id)), id: row.id }));
      const isFull = isFullOf(rows, extent);
      const end = isFull ? (rows.at(-1)?.id as number) : Math.max(place.id, feed.published);
      return { changes, end, isFull, timeline: feed.timeline };
    },

    /** The place of a cursor, or the present end, for what is kept in this database. Every change that is not committed yet comes after it. CURSOR_EXPIRED. */
    async findPlace(scope: ProjectScope, after: Exclude<Place, null>): Promise<ChangeCursor> {
      const projectId = scope.projectIdFor('changes', 'webhooks');
      const end = await findEnd();
      if (after === 'now') return end;
      await readPart(projectId, after, ONE);
      return after;
    },

    /** Changes with these ids (cursors), as far as they are kept, by their ids. */
    async findChanges(projectId: number, ids: readonly string[]): Promise<ReadonlyMap<string, Change>> {
      const places = new Set(ids.flatMap((id) => decodeChangeCursor(id)?.id ?? []));
      if (places.size === 0) return new Map();
      const [feed, rows] = await Promise.all([sql.readFeed(db), sql.findChanges(db, projectId, [...places])]);
      const cursorOf = cursorsOf(feed);
      const changes = rows.map((row) => toChange(row, cursorOf(row.id)));
      // Of another timeline, the same place is another change.
      return new Map(changes.filter(({ id }) => ids.includes(id)).map((change) => [change.id, change]));
    },

    /** The cursors of places, as they are now. */
    async cursorsOfPlaces(): Promise<(place: number) => string> {
      const cursorOf = cursorsOf(await sql.readFeed(db));
      return (place) => encodeChangeCursor(cursorOf(place));
    },

    /** Calls back after each publication. Changes are published without a delay as long as there is a listener. Returns what ends it. */
    listen: (listener: () => void): (() => void) => publisher.listen(listener),

    /** Tells whether the database is where it ran, or was restored. It is asked before the database is used. */
    recognise: async (asked: sql.Recognition) => sql.recogniseDatabase(db, await db.identifyFiles(), asked),
    findRestore: () => sql.findRestore(db),
    findRevived: () => sql.findRevived(db),

    lagSeconds: publisher.lagSeconds,
    findOldestWriter: () => sql.findOldestWriter(db),
    findLeader: () => sql.findLeader(db),
    prune: publisher.prune,
    close: publisher.close,
  };
}

/** The cursor of a transaction's snapshot: every change up to it is in the snapshot. It must be the first statement of the transaction. */
export async function findSnapshotCursor(tx: Queryable): Promise<string> {
  const feed = await sql.readFeed(tx);
  return encodeChangeCursor(cursorsOf(feed)(feed.published));
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

function toChange(
  { type, at, userId, fields }: Pick<sql.ChangeRow, 'type' | 'at' | 'userId' | 'fields'>,
  cursor: ChangeCursor,
): Change {
  const change = { id: encodeChangeCursor(cursor), type, at, userId };
  if (type === 'user.merged') return { ...change, fields: [], mergedInto: Number(fields) };
  return { ...change, fields: fields?.split(' ') ?? [], mergedInto: null };
}

/** The timeline of cursors before the first change, which are the same in every database. */
const BEGINNING = { timeline: '00000000', published: 1 };

/** As many earlier timelines are kept: see the migration. */
const MAX_TIMELINES = 200;

const isKnown = ({ timeline }: ChangeCursor, feed: sql.FeedRow) =>
  timeline === feed.timeline || timelinesOf(feed).some((one) => one.timeline === timeline);

function timelinesOf({ timelines }: sql.FeedRow): { timeline: string; published: number }[] {
  const words = timelines?.split(' ') ?? [];
  return words.flatMap((word, index) =>
    index % 2 === 0 ? [{ timeline: word, published: Number(words[index + 1]) }] : [],
  );
}

/** The cursor of an id, in the timeline in which it was published, so that a change always has the same. */
function cursorsOf(feed: sql.FeedRow): (id: number) => ChangeCursor {
  const timelines = [BEGINNING, ...timelinesOf(feed)];
  return (id) => ({ timeline: timelines.find(({ published }) => published >= id)?.timeline ?? feed.timeline, id });
}

/** Throws CURSOR_EXPIRED where changes after the cursor are missing, or where it has seen changes that this database lost. */
function requireKept({ timeline, id }: ChangeCursor, feed: sql.ChangeRow, retentionMs: number): void {
  if (timeline !== feed.timeline) {
    const place = [BEGINNING, ...timelinesOf(feed)].find((one) => one.timeline === timeline);
    if (place === undefined || id > place.published)
      throw cursorExpired('this database has not all of the changes before it');
  }
  requireNotPruned(id, feed, retentionMs);
}

/** Throws CURSOR_EXPIRED where changes after the place have been deleted. */
function requireNotPruned(place: number, { prunedThrough }: sql.ChangeRow, retentionMs: number): void {
  if (prunedThrough !== null && place < prunedThrough)
    throw cursorExpired(`changes are kept for ${inWords(retentionMs)}, and some after it are gone`);
}

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const;

/** The duration of a setting, such as "30 days". */
function inWords(ms: number): string {
  const [name, unit] = UNITS.find(([, length]) => ms % length === 0) ?? UNITS[2];
  const count = ms / unit;
  return `${count} ${name}${count === 1 ? '' : 's'}`;
}
