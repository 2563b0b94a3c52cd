import { setTimeout as sleep } from 'node:timers/promises';
import type { OnFailure } from '../db/background.js';
import type { Database } from '../db/database.js';
import { patiently } from '../db/failures.js';
import { inBatches, type Queryable } from '../db/statements.js';
import {
  type Admit,
  type Change,
  type ChangeCursor,
  type ChangesQuery,
  decodeChangeCursor,
  encodeChangeCursor,
  type FollowedChanges,
  type Place,
} from '../domain/changes.js';
import type { ProjectScope } from '../domain/projects.js';
import * as sql from './changes.sql.js';
import { cursorsOf } from './cursors.js';
import {
  createFeedParts,
  extentOf,
  type FeedParts,
  SCANNED_AT_ONCE,
  SCANNED_PER_UNIT,
  toChange,
} from './feed-parts.js';
import { createNews, type News } from './news.js';
import { type ChangePublisher, createChangePublisher } from './publisher.js';

/** The feed of changes of a project. */
export interface Changes {
  /** Begins to publish. To be called when a server has opened the database; otherwise the first reader does. */
  readonly start: ChangePublisher['start'];
  /**
   * The next changes in the order of commit, at least those committed before the call, unless an open transaction holds them up.
   * A page for few types may have fewer than `first` although there are more: it looks at a bounded number of changes. Each read after the
   * first is charged before it is made. The next page begins at `end`, also if this one is empty. CURSOR_EXPIRED.
   */
  listChanges(scope: ProjectScope, query: PageQuery, charge?: Charge): Promise<ChangesPage>;
  /** The changes after a cursor, then new ones, read on demand, until `signal` aborts. The cursor also moves by other types. CURSOR_EXPIRED. */
  follow(
    scope: ProjectScope,
    query: FollowQuery,
    signal: AbortSignal,
    admit: Admit,
  ): AsyncGenerator<FollowedChanges, void>;
  /** Tells that the project may have new changes, not which: at once, because its reader may have read before, and each time. Until `signal` aborts. */
  watch(scope: ProjectScope, signal: AbortSignal): AsyncGenerator<void, void>;
  /** From where a stream begins: the cursor that it gives, which has to be valid, or else the present end. CURSOR_EXPIRED. */
  findStart(scope: ProjectScope, after: Place): Promise<ChangeCursor>;
  /** The next changes after a place, such as a webhook's. CURSOR_EXPIRED. */
  readonly readAfter: FeedParts['readAfter'];
  /** The place of a cursor, or the present end, for what is kept in this database. Every change that is not committed yet comes after it. CURSOR_EXPIRED. */
  findPlace(scope: ProjectScope, after: Exclude<Place, null>): Promise<ChangeCursor>;
  /** Changes with these ids (cursors), as far as they are kept, by their ids. */
  findChanges(projectId: number, ids: readonly string[]): Promise<ReadonlyMap<string, Change>>;
  /** The cursors of places, as they are now. */
  cursorsOfPlaces(): Promise<(place: number) => string>;
  /** Calls back after each publication. Changes are published without a delay as long as there is a listener. Returns what ends it. */
  listen(listener: () => void): () => void;
  /** Tells whether the database is where it ran, or was restored. It is asked before the database is used. */
  recognise(asked: sql.Recognition): Promise<sql.Recognised>;
  /** When the database was restored last, in ISO 8601; null if it never was. */
  findRestore(): Promise<string | null>;
  /** What the last restore may have brought back. */
  findRevived(): Promise<sql.Revived>;
  readonly lagSeconds: ChangePublisher['lagSeconds'];
  /** The transaction that holds up the feed for longest; null if none does. */
  findOldestWriter(): Promise<sql.OpenTransaction | null>;
  /** The session that publishes; null if none does. */
  findLeader(): Promise<sql.Leader | null>;
  readonly prune: ChangePublisher['prune'];
  readonly close: ChangePublisher['close'];
}

export interface PageQuery extends ChangesQuery {
  /** The most changes of the page. */
  readonly first: number;
}

export interface ChangesPage {
  readonly changes: Change[];
  /** The cursor at which the next page begins. */
  readonly end: string;
  readonly hasMore: boolean;
}

export interface FollowQuery extends ChangesQuery {
  readonly after: ChangeCursor;
}

/** Adds units of work that a request turned out to cost. False where the work is to end, because the request is refused or its client has gone. */
type Charge = (units: number) => boolean;

/** A page looks at about so many changes at most for those of its types. */
const MAX_SCANNED = 10_000;
/** Changes that a follower reads at once: one unit of work. */
const FOLLOWED_AT_ONCE = 50;
const ONE = extentOf(null, 1);

/** Deletes expired rows of all projects, in short statements. */
type DeleteExpired = (db: Queryable, signal: AbortSignal) => Promise<void>;

export async function deleteOldChanges(db: Queryable, retentionMs: number, signal: AbortSignal): Promise<void> {
  for (const projectId of await sql.listProjectsWithOldChanges(db, retentionMs))
    await inBatches((limit) => sql.pruneChanges(db, projectId, retentionMs, limit), signal);
}

/** The feed keeps what is not older than `retentionMs`. The process that publishes it also deletes other rows. */
export function createChanges(
  db: Database,
  retentionMs: number,
  deletions: readonly DeleteExpired[],
  onFailure: OnFailure,
): Changes {
  const deleteExpired = async (signal: AbortSignal) => {
    await deleteOldChanges(db, retentionMs, signal);
    for (const deleteOthers of deletions) await deleteOthers(db, signal);
  };
  const publisher = createChangePublisher(db, deleteExpired, onFailure);
  const parts = createFeedParts(db, retentionMs);
  const news = createNews(db, publisher.listen);

  /** The cursor, which has to be valid, or the present end. CURSOR_EXPIRED. */
  async function findCursor(projectId: number, after: Place): Promise<ChangeCursor> {
    if (after === null || after === 'now') return findEnd(db, publisher);
    await parts.read(projectId, after, ONE);
    return after;
  }

  return {
    start: publisher.start,
    readAfter: parts.readAfter,

    async listChanges(scope, query, charge = () => true) {
      const projectId = scope.projectIdFor('changes');
      publisher.start();
      const after = query.after === 'now' ? await findEnd(db, publisher) : query.after;
      return readPage({ parts, publisher, charge }, projectId, { ...query, after });
    },

    async *follow(scope, query, signal, admit) {
      const projectId = scope.projectIdFor('changes');
      publisher.start();
      yield* follow({ parts, news, admit }, projectId, query, signal);
    },

    async *watch(scope, signal) {
      const projectId = scope.projectIdFor('inspect');
      publisher.start();
      yield* watch(news, projectId, signal);
    },

    async findStart(scope, after) {
      const projectId = scope.projectIdFor('changes');
      publisher.start();
      return findCursor(projectId, after);
    },

    async findPlace(scope, after) {
      const projectId = scope.projectIdFor('changes', 'webhooks');
      return findCursor(projectId, after);
    },

    async findChanges(projectId, ids) {
      const places = new Set(ids.flatMap((id) => decodeChangeCursor(id)?.id ?? []));
      if (places.size === 0) return new Map();
      const [feed, rows] = await Promise.all([sql.readFeed(db), sql.findChanges(db, projectId, [...places])]);
      const cursorOf = cursorsOf(feed);
      const changes = rows.map((row) => toChange(row, cursorOf(row.id)));
      // Of another timeline, the same place is another change.
      return new Map(changes.filter(({ id }) => ids.includes(id)).map((change) => [change.id, change]));
    },

    async cursorsOfPlaces() {
      const cursorOf = cursorsOf(await sql.readFeed(db));
      return (place) => encodeChangeCursor(cursorOf(place));
    },

    listen: (listener) => publisher.listen(listener),
    recognise: async (asked) => sql.recogniseDatabase(db, await db.identifyFiles(), asked),
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

/** The cursor of the last change that is committed now. */
async function findEnd(db: Database, publisher: Pick<ChangePublisher, 'waitFor'>): Promise<ChangeCursor> {
  let feed = await sql.readFeed(db);
  if (feed.last > feed.published) {
    await publisher.waitFor(feed.last);
    feed = await sql.readFeed(db);
  }
  // A caller who takes a cursor and then reads lists must not miss what is before the cursor and not yet in the lists of a standby.
  if (db.replica !== null) await sleep(db.replica.maxAgeMs);
  return cursorsOf(feed)(feed.published);
}

interface PageContext {
  readonly parts: FeedParts;
  readonly publisher: Pick<ChangePublisher, 'waitFor'>;
  readonly charge: Charge;
}

interface PageExtent extends Pick<PageQuery, 'types' | 'first'> {
  readonly after: ChangeCursor | null;
}

/** Reads parts until the page is full, until there is no more, or until enough has been looked at. */
async function readPage(
  { parts, publisher, charge }: PageContext,
  projectId: number,
  { after, types, first }: PageExtent,
): Promise<ChangesPage> {
  const changes: Change[] = [];
  let isWaiting = true;
  let place = after;
  let extent = extentOf(types, first);
  for (let scanned = 0; ; ) {
    const part = await parts.readForPage(projectId, place, extent);
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
}

interface FollowContext {
  readonly parts: FeedParts;
  readonly news: News;
  readonly admit: Admit;
}

async function* follow(
  { parts, news, admit }: FollowContext,
  projectId: number,
  { after, types }: FollowQuery,
  signal: AbortSignal,
): AsyncGenerator<FollowedChanges, void> {
  for (let place = after; !signal.aborted; ) {
    // Before the read, so that nothing is published unnoticed after it.
    const newer = news.of(projectId, signal);
    try {
      const from = place;
      const read = () => admit(() => parts.read(projectId, from, extentOf(types, FOLLOWED_AT_ONCE)));
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
}

async function* watch(news: News, projectId: number, signal: AbortSignal): AsyncGenerator<void, void> {
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
}
