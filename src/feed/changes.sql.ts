import type { KeyedRow } from '../db/batched-read.js';
import { Prisma, type Queryable, readValue } from '../db/statements.js';
import type { ChangeType } from '../domain/change-types.js';

export interface ChangesKey {
  readonly projectId: number;
  /** Changes with a larger id. */
  readonly after: number;
  /** Null: all. */
  readonly types: readonly ChangeType[] | null;
  readonly limit: number;
  /** The number of changes among which those of the types are read; without types, as many as `limit`. */
  readonly scan: number;
}

export interface FeedRow {
  /** The timeline of the changes that are published now. */
  readonly timeline: string;
  /** Every change up to this id is committed or undone. */
  readonly published: number;
  /** The id that was given out last. */
  readonly last: number;
  /** Earlier timelines, each with the last id of it that this database has: words, by id. Only in the first of several rows. */
  readonly timelines: string | null;
}

/** A change, or nulls where there is none. */
export interface ChangeRow extends FeedRow {
  /** The newest change of the project, published or not; null if there is none. */
  readonly newest: number | null;
  /** The changes of the project up to this id have been deleted; null if none has. */
  readonly prunedThrough: number | null;
  readonly id: number | null;
  /** It is the how manieth that was looked at. */
  readonly place: number | null;
  readonly type: ChangeType;
  readonly userId: number | null;
  /** Separated by spaces; of `user.merged` the ID of the other user. */
  readonly fields: string | null;
  readonly at: string;
}

/** The id that was given out last. By the function, because a role that only serves may use the sequence and not read it. */
const LAST_ID = Prisma.sql`coalesce(pg_sequence_last_value('changes_id_seq'), 0)`;

/** Before the first publication there is no row, and nothing is published. */
const FEED = Prisma.sql`
  SELECT coalesce(f.timeline, '') AS timeline, coalesce(f.published, 1) AS published,
         ${LAST_ID} AS last,
         (SELECT string_agg(t.timeline || ' ' || t.published, ' ' ORDER BY t.published) FROM changes_timelines t) AS timelines
  FROM (VALUES (1)) AS one (id)
  LEFT JOIN changes_feed f USING (id)`;

/**
 * The next published changes of projects, in the order of their ids; the keys have the same types. Each key has at least one row, with the
 * state of the feed. The last change that may be looked at is returned whatever its type, because the next read begins after it.
 */
export function readChanges(db: Queryable, keys: readonly ChangesKey[]): Promise<KeyedRow<ChangeRow>[]> {
  const types = keys[0]?.types ?? null;
  return db.query(Prisma.sql`
    SELECT k.key_index::int AS "keyIndex", f.timeline, f.published, f.last,
           CASE WHEN c.nth IS NULL OR c.nth = 1 THEN f.timelines END AS timelines, p.through AS "prunedThrough",
           (SELECT max(n.id) FROM changes n WHERE n.project_id = k.project_id) AS newest,
           c.id, c.place::int AS place, c.type::text AS type, c.user_id AS "userId", c.fields, c.at
    FROM unnest(
      ${keys.map(({ projectId }) => projectId)}::int[],
      ${keys.map(({ after }) => after)}::bigint[],
      ${keys.map(({ limit }) => limit)}::bigint[],
      ${keys.map(({ scan }) => scan)}::bigint[]
    ) WITH ORDINALITY AS k(project_id, after, most, scan, key_index)
    CROSS JOIN (${FEED}) AS f
    LEFT JOIN changes_pruned p ON p.project_id = k.project_id
    LEFT JOIN LATERAL (
      SELECT scanned.*, row_number() OVER (ORDER BY scanned.id) AS nth
      FROM (
        SELECT *, row_number() OVER (ORDER BY changes.id) AS place FROM changes
        WHERE changes.project_id = k.project_id AND changes.id > k.after AND changes.id <= f.published
        ORDER BY changes.id
        LIMIT k.scan
      ) AS scanned
      WHERE ${types}::text[] IS NULL OR scanned.place = k.scan
        OR scanned.type = ANY (ARRAY(SELECT wanted::change_type FROM unnest(${types}::text[]) AS wanted))
      ORDER BY scanned.id
      LIMIT k.most
    ) AS c ON true
    ORDER BY k.key_index, c.id`);
}

/** Changes with these ids, as far as they are kept. */
export function findChanges(db: Queryable, projectId: number, ids: readonly number[]) {
  return db.query<Pick<ChangeRow, 'type' | 'userId' | 'fields' | 'at'> & { id: number }>(Prisma.sql`
    SELECT c.id, c.type::text AS type, c.user_id AS "userId", c.fields, c.at
    FROM unnest(${ids}::bigint[]) AS wanted(id)
    CROSS JOIN LATERAL (SELECT * FROM changes c WHERE c.project_id = ${projectId}::int AND c.id = wanted.id LIMIT 1) AS c`);
}

/** The state of the feed. In a transaction, every change up to `published` is in its snapshot. */
export async function readFeed(db: Queryable): Promise<FeedRow> {
  const [feed] = await db.query<FeedRow>(FEED);
  return feed as FeedRow;
}

/** Projects that have changes from after one id through another. */
export async function findChangedProjects(
  db: Queryable,
  projectIds: readonly number[],
  after: number,
  through: number,
): Promise<number[]> {
  const rows = await db.query<{ projectId: number }>(Prisma.sql`
    SELECT k.project_id AS "projectId" FROM unnest(${projectIds}::int[]) AS k(project_id)
    WHERE EXISTS (
      SELECT FROM changes c WHERE c.project_id = k.project_id AND c.id > ${after}::bigint AND c.id <= ${through}::bigint
    )`);
  return rows.map(({ projectId }) => projectId);
}

/** An arbitrary constant: the lock of the session that publishes. */
const PUBLISHER_LOCK = 1_968_399_458;
export const PUBLISHED_CHANNEL = 'userdir_changes';

/** Makes this session the only one that publishes, until it ends. False if another session is. */
export function tryToLead(session: Queryable): Promise<boolean> {
  return readValue(session, Prisma.sql`SELECT pg_try_advisory_lock(${PUBLISHER_LOCK}::bigint)`);
}

/** The name of a leader's session, before the id of its process. Only a session that no pooler can lend to others may have it. */
const LEADER_NAME = 'userdir leads the feed: ';

/** Lets other processes end this session, which leads, when it gives no sign of life. */
export async function nameLeader(session: Queryable): Promise<void> {
  await session.query(
    Prisma.sql`SELECT set_config('application_name', ${LEADER_NAME}::text || pg_backend_pid(), false) AS name`,
  );
}

export interface Leader {
  readonly pid: number;
  readonly role: string;
  /** Of its process; null where it is on the machine of the database, or where this role may not see it. */
  readonly address: string | null;
  /** The age of the session; null where this role may not see it. */
  readonly seconds: number | null;
  /** Since its last statement, by the clock of PostgreSQL: a leader asks several times a second. Null where this role may not see it. */
  readonly silentSeconds: number | null;
  /** True for the session of the leader alone. */
  readonly isNamed: boolean;
}

const LEADER = Prisma.sql`
  SELECT a.pid, a.usename::text AS role, host(a.client_addr) AS address,
         extract(epoch FROM clock_timestamp() - a.backend_start)::float8 AS seconds,
         CASE WHEN a.state = 'idle' THEN extract(epoch FROM clock_timestamp() - a.state_change)::float8
              WHEN a.state IS NOT NULL THEN 0 END AS "silentSeconds",
         a.application_name = ${LEADER_NAME}::text || a.pid AS "isNamed"
  FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
  WHERE l.locktype = 'advisory' AND l.classid = 0 AND l.objid = ${PUBLISHER_LOCK}::bigint AND l.objsubid = 1 AND l.granted
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())`;

/** The session that publishes; null if none does. The embedded database, which has one session, needs none. */
export async function findLeader(db: Queryable): Promise<Leader | null> {
  const [leader] = await db.query<Leader>(LEADER);
  return leader ?? null;
}

/** Ends the session of a frozen leader, which is silent for so long; false if there is none. Without the name, it may be another client's. */
export async function endSilentLeader(session: Queryable, silentSeconds: number): Promise<boolean> {
  const [ended] = await session.query<{ isEnded: boolean }>(Prisma.sql`
    SELECT pg_terminate_backend(leader.pid) AS "isEnded" FROM (${LEADER}) AS leader
    WHERE leader."isNamed" AND leader."silentSeconds" > ${silentSeconds}::float8`);
  return ended?.isEnded === true;
}

/** True once every transaction up to this one has ended. */
export function haveEnded(session: Queryable, xid: string): Promise<boolean> {
  return readValue(session, Prisma.sql`SELECT pg_snapshot_xmin(pg_current_snapshot()) > ${xid}::text::xid8`);
}

/** The locks of transactions that have written changes and are still open. */
const WRITERS = Prisma.sql`
  pg_locks l WHERE l.locktype = 'relation' AND l.relation = 'changes'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())`;

/** The open transactions that have written changes: a lock, taken before an id and kept until the commit is visible, shows all of them. */
export async function findWriters(session: Queryable): Promise<string[]> {
  const rows = await session.query<{ writer: string }>(
    Prisma.sql`SELECT DISTINCT l.virtualtransaction AS writer FROM ${WRITERS}`,
  );
  return rows.map(({ writer }) => writer);
}

export interface Look {
  /** The id of a change that was given out last. Not transactional: it may belong to a transaction that is still open. */
  readonly last: number;
  /** Up to where is published now; null if this look published nothing. */
  readonly published: number | null;
  /** Null unless transactions up to this one are open, and may commit a change up to the last. */
  readonly unsettled: string | null;
}

/** Publishes the changes after an id at once, if no transaction may still commit one of them (see the migration), and tells every process. */
export async function publishSettled(db: Queryable, known: number): Promise<Look> {
  const [look] = await db.query<Look>(Prisma.sql`
    WITH look AS MATERIALIZED (SELECT last, published, unsettled::text FROM publish_settled(${known}::bigint))
    SELECT last, published, unsettled, CASE WHEN published IS NOT NULL THEN pg_notify(${PUBLISHED_CHANNEL}, published::text)::text END FROM look`);
  return look as Look;
}

/** Publishes the changes up to an id (see the migration), and tells every process. Returns up to where is published now. */
export async function publishChanges(db: Queryable, upto: number): Promise<number> {
  const [row] = await db.query<{ published: number }>(Prisma.sql`
    WITH now AS MATERIALIZED (SELECT publish_changes(${upto}::bigint) AS published)
    SELECT published, pg_notify(${PUBLISHED_CHANNEL}, published::text)::text FROM now`);
  return (row as { published: number }).published;
}

/** The projects that have changes older than `olderThanMs`. */
export async function listProjectsWithOldChanges(db: Queryable, olderThanMs: number): Promise<number[]> {
  const rows = await db.query<{ id: number }>(Prisma.sql`
    SELECT p.id FROM projects p, LATERAL (SELECT at FROM changes WHERE project_id = p.id ORDER BY id LIMIT 1) AS oldest
    WHERE oldest.at < now() - ${olderThanMs}::float8 * interval '1 millisecond'`);
  return rows.map(({ id }) => id);
}

/** Deletes up to `limit` of the oldest changes of a project, up to the first that is not older than `olderThanMs`. Returns their number. */
export async function pruneChanges(db: Queryable, projectId: number, olderThanMs: number, limit: number) {
  const [row] = await db.query<{ pruned: number }>(Prisma.sql`
    WITH oldest AS (
      SELECT id, at < now() - ${olderThanMs}::float8 * interval '1 millisecond' AS is_old FROM changes
      WHERE project_id = ${projectId}::int AND id <= (SELECT published FROM changes_feed)
      ORDER BY id
      LIMIT ${limit}::bigint
    ), pruned AS (
      DELETE FROM changes
      WHERE project_id = ${projectId}::int
        AND id < (SELECT coalesce(min(id) FILTER (WHERE NOT is_old), max(id) + 1) FROM oldest)
      RETURNING id
    ), marked AS (
      INSERT INTO changes_pruned AS known (project_id, through)
      SELECT ${projectId}::int, max(id) FROM pruned HAVING count(*) > 0
      ON CONFLICT (project_id) DO UPDATE SET through = greatest(known.through, excluded.through)
    )
    SELECT count(*)::int AS pruned FROM pruned`);
  return row?.pruned ?? 0;
}

/** The occasion of asking a database where it runs: an operator only looks, something opens it, or it was restored. */
export type Recognition = 'look' | 'command' | 'server' | 'restored';

/** What a database is, compared with the one that was used last: a promoted one was a standby. */
export type Recognised = 'same' | 'restored' | 'promoted';

/** Tells which database it is. Unless only looked at, ids of a restored or promoted one then go on far beyond (see the migration). */
export function recogniseDatabase(db: Queryable, files: string, asked: Recognition): Promise<Recognised> {
  return readValue(db, Prisma.sql`SELECT recognise_database(${files}::text, ${asked}::text)`);
}

/** When the database was restored last, in ISO 8601; null if it never was. */
export async function findRestore(db: Queryable): Promise<string | null> {
  const [row] = await db.query<{ at: string | null }>(Prisma.sql`SELECT restored_at AS at FROM database_identity`);
  return row?.at ?? null;
}

/** What a restore may have brought back: of before it, as names of some and their number. */
export interface Revived {
  /** The last act of an operator or of a backend that the database knows from before, as a sentence's end. Null if there is none. */
  readonly lastAct: string | null;
  readonly secrets: number;
  readonly secretNames: readonly string[];
  readonly operators: number;
  readonly operatorNames: readonly string[];
  readonly bans: number;
}

/** So many are named. */
const NAMED = 5;

export async function findRevived(db: Queryable): Promise<Revived> {
  const [row] = await db.query<Revived>(Prisma.sql`
    WITH restore AS (
      SELECT restored_at AS at FROM database_identity
    ), acts AS (
      SELECT a.at, a.actor, a.action::text, ' of ' || p.app_id AS place
      FROM restore CROSS JOIN projects p CROSS JOIN LATERAL (
        SELECT at, actor, action FROM audit_log l WHERE l.project_id = p.id AND l.at <= restore.at ORDER BY at DESC, id DESC LIMIT 1
      ) a
      UNION ALL
      SELECT l.at, l.actor, l.action, '' FROM restore CROSS JOIN LATERAL (
        SELECT at, actor, action FROM operator_log WHERE at <= restore.at ORDER BY at DESC, id DESC LIMIT 1
      ) l
    ), secrets AS (
      SELECT format('%s (%s) of %s', s.id, s.label, p.app_id) AS name, s.created_at
      FROM restore CROSS JOIN app_secrets s JOIN projects p ON p.id = s.project_id
      WHERE s.created_at <= restore.at AND coalesce(s.expires_at > now(), true)
    ), people AS (
      SELECT o.name, o.created_at FROM restore JOIN operators o ON o.created_at <= restore.at
    )
    SELECT
      (SELECT format('%s by %s%s at %s', action, actor, place, to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) FROM acts ORDER BY at DESC LIMIT 1) AS "lastAct",
      (SELECT count(*)::int FROM secrets) AS secrets,
      ARRAY(SELECT name FROM secrets ORDER BY created_at DESC LIMIT ${NAMED}::int) AS "secretNames",
      (SELECT count(*)::int FROM people) AS operators,
      ARRAY(SELECT name FROM people ORDER BY created_at DESC LIMIT ${NAMED}::int) AS "operatorNames",
      (SELECT count(*)::int FROM restore JOIN bans b ON b.created_at <= restore.at) AS bans`);
  return row as Revived;
}

export interface OpenTransaction {
  /** Null for a prepared transaction, which has no process. */
  readonly pid: number | null;
  readonly name: string;
  readonly role: string | null;
  readonly state: string;
  readonly seconds: number;
}

/** The transaction that holds up the feed for longest. Null if none is open that has written changes. */
export async function findOldestWriter(db: Queryable): Promise<OpenTransaction | null> {
  const [oldest] = await db.query<OpenTransaction>(Prisma.sql`
    SELECT held.pid, coalesce(a.application_name, p.gid, '') AS name, coalesce(a.usename, p.owner)::text AS role,
           CASE WHEN held.pid IS NULL THEN 'prepared' ELSE coalesce(a.state, 'unknown') END AS state,
           coalesce(extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, p.prepared)), 0)::float8 AS seconds
    FROM (SELECT DISTINCT l.pid, l.virtualtransaction FROM ${WRITERS}) AS held
    LEFT JOIN pg_stat_activity a ON a.pid = held.pid
    -- A prepared transaction keeps the virtual id of its session until the next restart, and has the lock of its own id.
    LEFT JOIN pg_locks t ON held.pid IS NULL AND t.pid IS NULL AND t.locktype = 'transactionid' AND t.virtualtransaction = held.virtualtransaction
    LEFT JOIN pg_prepared_xacts p ON p.transaction = t.transactionid
    WHERE held.pid IS DISTINCT FROM pg_backend_pid()
    ORDER BY seconds DESC
    LIMIT 1`);
  return oldest ?? null;
}
