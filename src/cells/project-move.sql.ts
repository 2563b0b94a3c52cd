import pg from 'pg';
import { Prisma, type Queryable, readValue } from '../db/statements.js';
import type { Actor } from '../domain/projects.js';
import { publishChanges } from '../feed/changes.sql.js';
import { insertAuditEntries } from '../projects/audit.sql.js';
import { insertLogEntries } from '../projects/operators.sql.js';
import type { MoveStep, ProjectTable } from '../projects/projects.sql.js';

/* Statements for a project on its way from the database of one cell to that of another. */

/** Tables with rows of projects of which each cell has its own. */
export const STAYING_TABLES: readonly string[] = ['operator_projects', 'project_moves'];

/** As in the migration: who writes rows of a project that is copied shares this lock, and who closes the project has it alone. */
const WRITERS_LOCK = 1_968_399_459;

/** An arbitrary constant: the lock of the command that moves a project. */
const COMMAND_LOCK = 1_968_399_460;

/** Makes this session the only one that moves a project, until it ends. False if another one does. */
export async function tryToMoveAlone(session: pg.ClientBase, projectId: number): Promise<boolean> {
  const { rows } = await session.query('SELECT pg_try_advisory_lock($1::int, $2::int) AS alone', [
    COMMAND_LOCK,
    projectId,
  ]);
  return rows[0].alone;
}

/** The publication, the subscription and the slot of a project. */
export const replicationName = (projectId: number) => `userdir_move_${projectId}`;

/** A project on its way to or from another database, and for how long. */
export interface OpenMove {
  readonly projectId: number;
  /** Null for a project of which nothing has arrived yet. */
  readonly appId: string | null;
  readonly step: MoveStep;
  readonly seconds: number;
}

export function listMoves(db: Queryable): Promise<OpenMove[]> {
  return db.query(Prisma.sql`
    SELECT m.project_id AS "projectId", p.app_id AS "appId", m.step::text AS step,
           extract(epoch FROM now() - m.started_at)::float8 AS seconds
    FROM project_moves m LEFT JOIN projects p ON p.id = m.project_id
    ORDER BY m.started_at, m.project_id`);
}

/** Does nothing if the project is on its way already. */
export async function insertMove(db: Queryable, projectId: number, step: MoveStep, other: string): Promise<void> {
  await db.query(Prisma.sql`
    INSERT INTO project_moves (project_id, step, other) VALUES (${projectId}::int, ${step}::move_step, ${other}::text)
    ON CONFLICT DO NOTHING`);
}

/** Throws unless the project is at one of the steps `from`, or at the new one already. */
export async function setStep(db: Queryable, projectId: number, from: readonly MoveStep[], step: MoveStep) {
  const changed = await db.query(Prisma.sql`
    UPDATE project_moves SET step = ${step}::move_step
    WHERE project_id = ${projectId}::int AND step::text = ANY (${[...from, step]}::text[])
    RETURNING 1`);
  if (changed.length === 0) throw new Error(`The project is not at the step ${from.join(' or ')} any more.`);
}

export async function deleteMove(db: Queryable, projectId: number): Promise<void> {
  await db.query(Prisma.sql`DELETE FROM project_moves WHERE project_id = ${projectId}::int`);
}

const hasRows = async (db: Queryable, statement: Prisma.Sql) => (await db.query(statement)).length > 0;

export function hasProject(db: Queryable, projectId: number, appId: string): Promise<boolean> {
  return hasRows(db, Prisma.sql`SELECT FROM projects WHERE id = ${projectId}::int OR app_id = ${appId}::text`);
}

export interface MovedTable extends ProjectTable {
  /** Whether changes of its rows can be told by project: its replica identity has the project. */
  readonly isFiltered: boolean;
}

/** Every table with rows of projects, except those that stay, in the order of their names. */
export function listMovedTables(db: Queryable): Promise<MovedTable[]> {
  return db.query(Prisma.sql`
    SELECT c.relname AS name,
           coalesce((
             SELECT string_agg(quote_ident(k.attname), ', ' ORDER BY array_position(i.indkey::int2[], k.attnum))
             FROM pg_index i JOIN pg_attribute k ON k.attrelid = c.oid AND k.attnum = ANY (i.indkey)
             WHERE i.indrelid = c.oid AND i.indisprimary AND k.attname <> 'project_id'
           ), 'project_id') AS key,
           c.relreplident = 'f' OR EXISTS (
             SELECT FROM pg_index i
             WHERE i.indrelid = c.oid AND a.attnum = ANY (i.indkey)
               AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END
           ) AS "isFiltered"
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid
    WHERE a.attname = 'project_id' AND NOT a.attisdropped AND c.relkind IN ('r', 'p')
      AND c.relnamespace = current_schema()::regnamespace AND c.relname <> ALL (${STAYING_TABLES}::text[])
    ORDER BY c.relname`);
}

export function countRows(db: Queryable, projectId: number, tables: readonly ProjectTable[]): Promise<number> {
  const counts = tables.map(
    ({ name }) =>
      Prisma.sql`(SELECT count(*) FROM ${Prisma.raw(pg.escapeIdentifier(name))} WHERE project_id = ${projectId}::int)`,
  );
  return readValue(db, Prisma.sql`SELECT (${Prisma.join(counts, ' + ')})::bigint`);
}

/* Replication. These statements take no parameters. */

export async function createPublication(db: Queryable, projectId: number, tables: readonly ProjectTable[]) {
  const name = replicationName(projectId);
  if (await hasRows(db, Prisma.sql`SELECT FROM pg_publication WHERE pubname = ${name}`)) return;
  const rows = tables.map((table) => `${pg.escapeIdentifier(table.name)} WHERE (project_id = ${projectId})`);
  // TRUNCATE has no rows to choose from: it would empty the tables of the other cell.
  await db.query(
    Prisma.raw(
      `CREATE PUBLICATION ${name} FOR TABLE projects WHERE (id = ${projectId}), ${rows.join(', ')} WITH (publish = 'insert, update, delete')`,
    ),
  );
}

export async function dropPublication(db: Queryable, projectId: number): Promise<void> {
  await db.query(Prisma.raw(`DROP PUBLICATION IF EXISTS ${replicationName(projectId)}`));
}

/** Waits for the transactions that are open. Made apart from the subscription, whose own transaction would be waited for on one server. */
export async function createSlot(db: Queryable, projectId: number): Promise<void> {
  const name = replicationName(projectId);
  await db.query(Prisma.sql`
    SELECT pg_create_logical_replication_slot(${name}, 'pgoutput')::text
    WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = ${name})`);
}

export function hasSlot(db: Queryable, projectId: number): Promise<boolean> {
  return hasRows(db, Prisma.sql`SELECT FROM pg_replication_slots WHERE slot_name = ${replicationName(projectId)}`);
}

/** Does nothing while the other database still reads from it. */
export async function dropIdleSlot(db: Queryable, projectId: number): Promise<void> {
  const name = replicationName(projectId);
  await db.query(
    Prisma.sql`SELECT pg_drop_replication_slot(slot_name)::text FROM pg_replication_slots WHERE slot_name = ${name} AND NOT active`,
  );
}

/** In the other database, which connects to this one by `from`. Copies the rows, and follows their changes. */
export async function createSubscription(target: Queryable, projectId: number, from: string): Promise<void> {
  const name = replicationName(projectId);
  await target.query(
    Prisma.raw(
      `CREATE SUBSCRIPTION ${name} CONNECTION ${pg.escapeLiteral(from)} PUBLICATION ${name} WITH (create_slot = false, slot_name = ${pg.escapeLiteral(name)})`,
    ),
  );
}

export async function hasSubscription(target: Queryable, projectId: number): Promise<boolean> {
  const name = replicationName(projectId);
  const found = await target.query(Prisma.sql`
    SELECT FROM pg_subscription WHERE subname = ${name}
      AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())`);
  return found.length > 0;
}

/** Ends the subscription, if there is one. Its slot stays: after a failover of the source it may be gone, and to drop both would fail. */
export async function dropSubscription(target: Queryable, projectId: number): Promise<void> {
  if (!(await hasSubscription(target, projectId))) return;
  const name = replicationName(projectId);
  await target.query(Prisma.raw(`ALTER SUBSCRIPTION ${name} DISABLE`));
  await target.query(Prisma.raw(`ALTER SUBSCRIPTION ${name} SET (slot_name = NONE)`));
  await target.query(Prisma.raw(`DROP SUBSCRIPTION ${name}`));
}

export interface CopyProgress {
  /** Tables that are copied and follow, of all. */
  readonly ready: number;
  readonly tables: number;
  /** Rows copied so far, by the number of the table, of the tables that are being copied. */
  readonly copying: Record<string, number>;
  /** How often replication has failed and begun again. */
  readonly failures: number;
}

export async function readCopyProgress(target: Queryable, projectId: number): Promise<CopyProgress> {
  const [row] = await target.query<CopyProgress>(Prisma.sql`
    SELECT count(*) FILTER (WHERE r.srsubstate = 'r') AS ready, count(r.srrelid) AS tables,
           coalesce((
             SELECT jsonb_object_agg(c.relid, c.tuples_processed) FROM pg_stat_progress_copy c
             WHERE c.datname = current_database() AND c.type = 'CALLBACK'
           ), '{}') AS copying,
           coalesce(min(e.apply_error_count + e.sync_error_count), 0) AS failures
    FROM pg_subscription s
    LEFT JOIN pg_subscription_rel r ON r.srsubid = s.oid
    LEFT JOIN pg_stat_subscription_stats e ON e.subid = s.oid
    WHERE s.subname = ${replicationName(projectId)}`);
  return row as CopyProgress;
}

export function currentLsn(db: Queryable): Promise<string> {
  return readValue(db, Prisma.sql`SELECT pg_current_wal_lsn()::text`);
}

/** Whether the subscription has come as far as a place in the log of the source. */
export async function hasReceived(target: Queryable, projectId: number, lsn: string): Promise<boolean> {
  const [row] = await target.query<{ received: boolean }>(Prisma.sql`
    SELECT coalesce(bool_or(received_lsn >= ${lsn}::text::pg_lsn), false) AS received FROM pg_stat_subscription
    WHERE subname = ${replicationName(projectId)} AND relid IS NULL`);
  return row?.received === true;
}

/* The switch. */

/** The open transactions that have written rows of a project that is copied. */
export async function findProjectWriters(db: Queryable, projectId: number): Promise<string[]> {
  const rows = await db.query<{ writer: string }>(Prisma.sql`
    SELECT virtualtransaction AS writer FROM pg_locks
    WHERE locktype = 'advisory' AND classid = ${WRITERS_LOCK}::bigint AND objid = ${projectId}::bigint AND objsubid = 2
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`);
  return rows.map(({ writer }) => writer);
}

/**
 * Refuses every write of a project from now on, in a transaction that comes after all that have written: it waits for those, for `waitMs` at
 * most. Its entry in the audit trail is the last row that the other database will get.
 */
export async function closeProject(tx: Queryable, actor: Actor, to: string, waitMs: number): Promise<void> {
  const { projectId } = actor;
  await tx.query(Prisma.raw(`SET LOCAL lock_timeout = ${Math.round(waitMs)}`));
  await tx.query(Prisma.sql`SELECT pg_advisory_xact_lock(${WRITERS_LOCK}::int, ${projectId}::int)::text`);
  const entry = Prisma.sql`SELECT NULL::bigint, jsonb_build_object('to', ${to}::text)`;
  const [mark] = await tx.query<{ id: number }>(Prisma.sql`${insertAuditEntries(actor, 'move', entry)} RETURNING id`);
  // Another statement: the trigger of the entry runs at the end of its own, and refuses rows of a closed project.
  await tx.query(Prisma.sql`
    UPDATE project_moves SET step = 'switching', mark = ${mark?.id}::bigint
    WHERE project_id = ${projectId}::int AND step = 'copying'`);
}

export function hasEntry(target: Queryable, projectId: number, id: number): Promise<boolean> {
  return hasRows(target, Prisma.sql`SELECT FROM audit_log WHERE project_id = ${projectId}::int AND id = ${id}::bigint`);
}

/** By how much a sequence is set beyond the largest id that came: more than anyone draws between the two halves of the statement. */
const SPARE_IDS = 10_000;

/** Sets the sequences of the tables past the ids that came with a project. Those that are past them stay. */
export async function advanceSequences(target: Queryable, projectId: number, tables: readonly ProjectTable[]) {
  const owned = await target.query<{ sequence: string; table: string; column: string }>(Prisma.sql`
    SELECT d.objid::regclass::text AS sequence, d.refobjid::regclass::text AS table, quote_ident(a.attname) AS column
    FROM pg_depend d
    JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
    JOIN pg_class t ON t.oid = d.refobjid AND t.relnamespace = current_schema()::regnamespace
    JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
    WHERE d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
      AND t.relname = ANY (${tables.map(({ name }) => name)}::text[])`);
  for (const each of owned) {
    const [sequence, table, column] = [each.sequence, each.table, each.column].map((name) => Prisma.raw(name));
    await target.query(Prisma.sql`
      SELECT setval(${each.sequence}::text::regclass, moved.last + ${SPARE_IDS}::bigint) FROM ${sequence} AS drawn, (
        SELECT max(${column}) AS last FROM ${table} WHERE project_id = ${projectId}::int
      ) AS moved
      WHERE moved.last >= drawn.last_value`);
  }
}

/** Places in the feed keep their ids, and belong to the timeline of this database from now on. */
export async function adoptWebhooks(target: Queryable, projectId: number): Promise<void> {
  // Makes the feed where no service has published yet.
  await publishChanges(target, 0);
  await target.query(Prisma.sql`
    UPDATE webhooks SET timeline = f.timeline, leased_by = NULL, leased_until = NULL
    FROM changes_feed f WHERE webhooks.project_id = ${projectId}::int`);
}

/* The end. */

/** The largest id of a change. */
const EVERY_CHANGE = 9_007_199_254_740_991n;

/** The other database serves the project. Here its secrets end, and so do all cursors: no follower is told that users go. */
export async function leaveProject(tx: Queryable, projectId: number): Promise<void> {
  await setStep(tx, projectId, ['mapping'], 'leaving');
  await tx.query(Prisma.sql`DELETE FROM app_secrets WHERE project_id = ${projectId}::int`);
  await tx.query(Prisma.sql`
    INSERT INTO changes_pruned (project_id, through) VALUES (${projectId}::int, ${EVERY_CHANGE}::bigint)
    ON CONFLICT (project_id) DO UPDATE SET through = excluded.through`);
}

/** Deletes what is left of a project that has moved. The log of the operators keeps where it is. */
export async function finishMove(db: Queryable, actor: Actor, to: string): Promise<void> {
  const entry = Prisma.sql`SELECT jsonb_build_object('app_id', app_id, 'name', name, 'to', ${to}::text) FROM deleted`;
  await db.query(Prisma.sql`
    WITH moved AS (
      DELETE FROM project_moves WHERE project_id = ${actor.projectId}::int
    ), deleted AS (
      DELETE FROM projects WHERE id = ${actor.projectId}::int RETURNING app_id, name
    )
    ${insertLogEntries(actor, 'move_project', entry)}`);
}

export async function deleteArrival(target: Queryable, projectId: number): Promise<void> {
  await target.query(Prisma.sql`
    WITH moved AS (
      DELETE FROM project_moves WHERE project_id = ${projectId}::int
    )
    DELETE FROM projects WHERE id = ${projectId}::int`);
}
