import { Prisma, type Queryable } from '../db/statements.js';
import type { Actor } from '../domain/projects.js';
import { insertAuditEntries } from './audit.js';
import { insertLogEntries } from './operators.js';

/* Changes of a project as a whole, each with its audit entry. A change that changes nothing is not recorded. */

/** Gives a project another name. */
export async function renameProject(db: Queryable, actor: Actor, name: string): Promise<void> {
  await db.query(Prisma.sql`
    WITH before AS (
      SELECT id, name FROM projects WHERE id = ${actor.projectId}::int AND name <> ${name}::text FOR NO KEY UPDATE
    ), renamed AS (
      UPDATE projects SET name = ${name}::text FROM before WHERE projects.id = before.id
      RETURNING jsonb_build_object('from', before.name, 'to', projects.name) AS details
    )
    ${insertAuditEntries(actor, 'rename', Prisma.sql`SELECT NULL::bigint, details FROM renamed`)}`);
}

/** Refuses the credentials of a project from now on. */
export async function disableProject(db: Queryable, actor: Actor): Promise<void> {
  await db.query(Prisma.sql`
    WITH disabled AS (
      UPDATE projects SET disabled_at = now() WHERE id = ${actor.projectId}::int AND disabled_at IS NULL RETURNING id
    )
    ${insertAuditEntries(actor, 'disable', Prisma.sql`SELECT NULL::bigint, '{}'::jsonb FROM disabled`)}`);
}

/** Accepts the credentials of a project again. */
export async function enableProject(db: Queryable, actor: Actor): Promise<void> {
  await db.query(Prisma.sql`
    WITH enabled AS (
      UPDATE projects SET disabled_at = NULL WHERE id = ${actor.projectId}::int AND disabled_at IS NOT NULL RETURNING id
    )
    ${insertAuditEntries(actor, 'enable', Prisma.sql`SELECT NULL::bigint, '{}'::jsonb FROM enabled`)}`);
}

/** Gives a project its own rate limit; null takes it away. */
export async function limitProject(db: Queryable, actor: Actor, requestsPerMinute: number | null): Promise<void> {
  const entry = Prisma.sql`SELECT NULL::bigint, jsonb_build_object('requests_per_minute', requests_per_minute) FROM limited`;
  await db.query(Prisma.sql`
    WITH limited AS (
      UPDATE projects SET requests_per_minute = ${requestsPerMinute}::int
      WHERE id = ${actor.projectId}::int AND requests_per_minute IS DISTINCT FROM ${requestsPerMinute}::int
      RETURNING requests_per_minute
    )
    ${insertAuditEntries(actor, 'limit', entry)}`);
}

/** Disables a project that is to be deleted. Its audit trail tells so until the trail itself is deleted. */
export async function beginDeletion(db: Queryable, actor: Actor): Promise<void> {
  await db.query(Prisma.sql`
    WITH disabled AS (
      UPDATE projects SET disabled_at = coalesce(disabled_at, now()) WHERE id = ${actor.projectId}::int RETURNING id
    )
    ${insertAuditEntries(actor, 'delete', Prisma.sql`SELECT NULL::bigint, '{}'::jsonb FROM disabled`)}`);
}

/** A table with rows of projects. */
export interface ProjectTable {
  readonly name: string;
  /** The columns of its primary key after the project, separated by commas. */
  readonly key: string;
}

/**
 * The tables in which a project may have many rows. The rest goes by foreign keys. The trail comes last, so that it tells of a deletion
 * that was interrupted.
 */
export const LARGE_TABLES: readonly ProjectTable[] = [
  { name: 'users', key: 'id' },
  { name: 'bans', key: 'auth_method, auth_value_key' },
  { name: 'idempotency_keys', key: 'key' },
  { name: 'audit_log', key: 'id' },
];

/** Deletes up to `limit` rows that a project has in a table, and what belongs to them. Returns how many rows. */
export async function deleteRows(
  db: Queryable,
  projectId: number,
  table: ProjectTable,
  limit: number,
): Promise<number> {
  const [name, key] = [Prisma.raw(table.name), Prisma.raw(table.key)];
  // In the order of the key: a scan of the table would pass over what earlier batches have deleted each time. By their places in the table
  // (ctid), for which there is one plan. A row that is changed meanwhile has another place, and is left to a later batch.
  const [row] = await db.query<{ deleted: number }>(Prisma.sql`
    WITH deleted AS (
      DELETE FROM ${name} WHERE project_id = ${projectId}::int AND ctid = ANY (ARRAY(
        SELECT ctid FROM ${name} WHERE project_id = ${projectId}::int ORDER BY ${key} LIMIT ${limit}::bigint
      ))
      RETURNING 1
    )
    SELECT count(*) AS deleted FROM deleted`);
  return row?.deleted ?? 0;
}

/** Deletes a project with everything that it has left, also what was added meanwhile. The log of the operators keeps the name. */
export async function deleteProject(db: Queryable, actor: Actor): Promise<void> {
  const entry = Prisma.sql`SELECT jsonb_build_object('app_id', app_id, 'name', name) FROM deleted`;
  await db.query(Prisma.sql`
    WITH deleted AS (
      DELETE FROM projects WHERE id = ${actor.projectId}::int RETURNING app_id, name
    )
    ${insertLogEntries(actor, 'delete_project', entry)}`);
}
