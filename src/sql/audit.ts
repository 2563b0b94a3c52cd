import { Prisma, type Queryable } from '../db/statements.js';
import type { Actor, AuditAction, AuditEntry } from '../domain/projects.js';

/**
 * An insert of an audit entry for each row of `entries` (a user's id or null, details as JSON). It must be part of the statement
 * that it records, so that neither exists without the other. Details must not identify a user.
 */
export function insertAuditEntries(
  { projectId, actor, requestId }: Actor,
  action: AuditAction,
  entries: Prisma.Sql,
): Prisma.Sql {
  return Prisma.sql`
    INSERT INTO audit_log (project_id, actor, request_id, action, user_id, details)
    SELECT ${projectId}::int, ${actor}::text, ${requestId}::text, ${action}::audit_action, entry.user_id, entry.details
    FROM (${entries}) AS entry (user_id, details)`;
}

/** The entry of an import, in the transaction that writes the users. */
export async function recordImport(
  tx: Queryable,
  actor: Actor,
  details: Readonly<Record<string, number>>,
): Promise<void> {
  await tx.query(
    insertAuditEntries(actor, 'import', Prisma.sql`SELECT NULL::bigint, ${JSON.stringify(details)}::jsonb`),
  );
}

/** The newest `limit` entries of a project from `since` on, oldest first. */
export function listAuditEntries(
  db: Queryable,
  projectId: number,
  since: Date | null,
  limit: number,
): Promise<AuditEntry[]> {
  return db.query(Prisma.sql`
    SELECT * FROM (
      SELECT id, at, actor, request_id AS "requestId", action::text AS action, user_id AS "userId", details
      FROM audit_log
      WHERE project_id = ${projectId} AND at >= coalesce(${since}::timestamptz, '-infinity')
      ORDER BY at DESC, id DESC
      LIMIT ${limit}::bigint
    ) AS newest
    ORDER BY at, id`);
}
