import { type AuditAction, Prisma } from '../db/client.js';

/** Who acts on a project: `actor` is the label of a secret, or `operator`, who has no request. */
export interface Actor {
  readonly projectId: number;
  readonly actor: string;
  readonly requestId: string | null;
}

/**
 * Writes an entry of the audit trail for each row of `acts` (a user's id or null, details as JSON). It is to be a part of the
 * statement that acts, so that there is no act without its entry; no details may say who a user is.
 */
export function recordActs({ projectId, actor, requestId }: Actor, action: AuditAction, acts: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    INSERT INTO audit_log (project_id, actor, request_id, action, user_id, details)
    SELECT ${projectId}::int, ${actor}::text, ${requestId}::text, ${action}::audit_action, act.user_id, act.details
    FROM (${acts}) AS act (user_id, details)`;
}
