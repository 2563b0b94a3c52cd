import type { Database } from '../db/database.js';
import type { AuditEntry, ProjectScope } from '../domain/projects.js';
import { listAuditEntries } from '../sql/audit.js';

/** The audit trail. The statements that change something write its entries. */
export function createAudit(db: Database) {
  return {
    /** The newest `limit` entries of a project from `since` on, oldest first. */
    listEntries(scope: ProjectScope, since: Date | null, limit: number): Promise<AuditEntry[]> {
      return listAuditEntries(db, scope.projectIdFor('operate'), since, limit);
    },
  };
}
