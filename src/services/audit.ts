import { type AuditAction, type Database, Prisma } from '../db/client.js';
import type { ProjectScope } from './projects.js';

export interface AuditEntry {
  readonly id: number;
  /** ISO 8601. */
  readonly at: string;
  readonly actor: string;
  readonly requestId: string | null;
  readonly action: AuditAction;
  readonly userId: number | null;
  readonly details: Record<string, unknown>;
}

/** The audit trail: written by the statements that act (sql/record-act.ts), and read here. */
export function createAudit(db: Database) {
  return {
    /** The newest `limit` entries of a project from `since` on, oldest first. */
    listEntries(scope: ProjectScope, since: Date | null, limit: number): Promise<AuditEntry[]> {
      return db.query(Prisma.sql`
        SELECT * FROM (
          SELECT id, at, actor, request_id AS "requestId", action::text AS action, user_id AS "userId", details
          FROM audit_log
          WHERE project_id = ${scope.idFor('operate')} AND at >= coalesce(${since}::timestamptz, '-infinity')
          ORDER BY at DESC, id DESC
          LIMIT ${limit}::bigint
        ) AS newest
        ORDER BY at, id`);
    },
  };
}
