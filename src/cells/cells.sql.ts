import pg from 'pg';
import { Prisma, type Queryable, readValue } from '../db/statements.js';

/* Statements that look at a database as a cell: what it is, what its roles may do, from where its projects get their ids. */

/** Which database this is, on whatever address. */
export function identify(db: Queryable): Promise<string> {
  return readValue(
    db,
    Prisma.sql`SELECT system_identifier::text || '/' || current_database() FROM pg_control_system()`,
  );
}

/** What decides whether two databases can be cells. */
export interface CellFacts {
  readonly version: number;
  readonly walLevel: string;
  readonly freeSlots: number;
  readonly freeSenders: number;
  readonly freeWorkers: number;
  /** Names and checksums of the migrations. */
  readonly migrations: string[];
  /** The range from which ids of new projects are drawn. */
  readonly firstId: number;
  readonly lastId: number;
  /** The id that was drawn last. */
  readonly drawnId: number;
}

export async function readCellFacts(db: Queryable): Promise<CellFacts> {
  const [facts] = await db.query<CellFacts>(Prisma.sql`
    SELECT current_setting('server_version_num')::int AS version, current_setting('wal_level') AS "walLevel",
           current_setting('max_replication_slots')::int - (SELECT count(*)::int FROM pg_replication_slots) AS "freeSlots",
           current_setting('max_wal_senders')::int - (SELECT count(*)::int FROM pg_stat_replication) AS "freeSenders",
           current_setting('max_logical_replication_workers')::int
             - (SELECT count(pid)::int FROM pg_stat_subscription) AS "freeWorkers",
           ARRAY(
             SELECT migration_name || ' ' || checksum FROM _prisma_migrations WHERE rolled_back_at IS NULL
             ORDER BY migration_name
           ) AS migrations,
           ids.seqmin AS "firstId", ids.seqmax AS "lastId", drawn.last_value AS "drawnId"
    FROM pg_sequence ids, projects_id_seq drawn WHERE ids.seqrelid = 'projects_id_seq'::regclass`);
  return facts as CellFacts;
}

/** What the role of a connection may do. Names are quoted. */
export interface CellRights {
  readonly version: number;
  readonly role: string;
  readonly database: string;
  /** The role that owns the tables. */
  readonly owner: string;
  readonly isOwner: boolean;
  readonly mayCreate: boolean;
  readonly mayReplicate: boolean;
  readonly maySubscribe: boolean;
}

/** Reads nothing that needs a right. */
export async function readCellRights(db: Queryable): Promise<CellRights> {
  const [rights] = await db.query<CellRights>(Prisma.sql`
    SELECT current_setting('server_version_num')::int AS version, quote_ident(role.rolname) AS role,
           quote_ident(current_database()) AS database, projects.relowner::regrole::text AS owner,
           pg_has_role(projects.relowner, 'USAGE') AS "isOwner",
           has_database_privilege(current_database(), 'CREATE') AS "mayCreate",
           role.rolsuper OR role.rolreplication AS "mayReplicate",
           role.rolsuper OR EXISTS (
             SELECT FROM pg_roles r WHERE r.rolname = 'pg_create_subscription' AND pg_has_role(r.oid, 'USAGE')
           ) AS "maySubscribe"
    FROM pg_roles role, pg_class projects
    WHERE role.rolname = current_user AND projects.oid = 'projects'::regclass`);
  return rights as CellRights;
}

/* Whether one database can subscribe to another. */

/** Of a project that may be about to move. */
const probeName = (projectId: number) => `userdir_probe_${projectId}`;

/** Something that a subscription to this database finds, and one to another database, which would wait forever, does not. */
export async function createProbe(db: Queryable, projectId: number): Promise<void> {
  await db.query(Prisma.raw(`CREATE PUBLICATION ${probeName(projectId)} FOR TABLE projects`));
}

export async function dropProbe(db: Queryable, projectId: number): Promise<void> {
  await db.query(Prisma.raw(`DROP PUBLICATION IF EXISTS ${probeName(projectId)}`));
}

/** Whether a subscription by `from` finds the probe. Throws if there can be none. Replicates nothing; to be undone. */
export async function findProbe(tx: Queryable, projectId: number, from: string, waitMs: number): Promise<boolean> {
  const name = probeName(projectId);
  await tx.query(Prisma.raw(`SET LOCAL statement_timeout = ${Math.round(waitMs)}`));
  await tx.query(
    Prisma.raw(
      `CREATE SUBSCRIPTION ${name} CONNECTION ${pg.escapeLiteral(from)} PUBLICATION ${name} WITH (enabled = false, create_slot = false, slot_name = NONE)`,
    ),
  );
  const found = await tx.query(Prisma.sql`
    SELECT FROM pg_subscription s JOIN pg_subscription_rel r ON r.srsubid = s.oid WHERE s.subname = ${name}`);
  return found.length > 0;
}

/* Ids of projects. */

export interface ProjectIds {
  readonly first: number;
  readonly last: number;
  /** The next id that is drawn. */
  readonly next: number;
}

export async function readProjectIds(db: Queryable): Promise<ProjectIds> {
  const [ids] = await db.query<ProjectIds>(Prisma.sql`
    SELECT s.seqmin AS first, s.seqmax AS last, drawn.last_value + drawn.is_called::int AS next
    FROM pg_sequence s, projects_id_seq drawn WHERE s.seqrelid = 'projects_id_seq'::regclass`);
  return ids as ProjectIds;
}

/** From now on ids of new projects are drawn from this range, after those that projects have. Writers of projects wait. */
export async function setProjectIds(tx: Queryable, first: number, last: number): Promise<ProjectIds> {
  await tx.query(Prisma.raw('LOCK TABLE projects IN SHARE ROW EXCLUSIVE MODE'));
  const { next } = await readProjectIds(tx);
  const [taken] = await tx.query<{ next: number }>(Prisma.sql`
    SELECT coalesce(max(id), 0)::bigint + 1 AS next FROM projects WHERE id BETWEEN ${first}::int AND ${last}::int`);
  const start = Math.max(first, taken?.next ?? first, next <= last ? next : first);
  await tx.query(
    Prisma.raw(`ALTER SEQUENCE projects_id_seq MINVALUE ${first} MAXVALUE ${last} START ${first} RESTART ${start}`),
  );
  return { first, last, next: start };
}
