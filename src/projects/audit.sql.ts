import { execute, type ModelTransaction, Prisma, type Queryable } from '../db/statements.js';
import type { Position } from '../domain/cursors.js';
import type { Actor, AuditAction, AuditEntry, AuditFilter } from '../domain/projects.js';

/* Most entries are part of the statement that they record. The trail is read on a standby, and exported from one snapshot: models do neither. */

/** Inserts an audit entry for each row of `entries` (user's id or null, details as JSON that identify no user), in the statement that it records. */
export function insertAuditEntries({ projectId, actor, requestId }: Actor, action: AuditAction, entries: Prisma.Sql) {
  return Prisma.sql`
    INSERT INTO audit_log (project_id, actor, request_id, action, user_id, details)
    SELECT ${projectId}::int, ${actor}::text, ${requestId}::text, ${action}::audit_action, entry.user_id, entry.details
    FROM (${entries}) AS entry (user_id, details)`;
}

const ENTRY = Prisma.sql`id, at, actor, request_id AS "requestId", action::text AS action, user_id AS "userId", details`;

/** The entry before the newest `limit` ones from `since` on; undefined if there are no more. Reads as many entries of the index. */
export async function findAuditEntryBefore(db: Queryable, projectId: number, since: Date | null, limit: number) {
  const [entry] = await db.query<Pick<AuditEntry, 'at' | 'id'>>(Prisma.sql`
    SELECT at, id FROM audit_log
    WHERE project_id = ${projectId}::int AND at >= coalesce(${since}::timestamptz, '-infinity')
    ORDER BY at DESC, id DESC
    OFFSET ${limit}::bigint
    LIMIT 1`);
  return entry;
}

/** The next `limit` entries after a position (null: from the first on), oldest first. */
export function listAuditEntries(db: Queryable, projectId: number, after: Position | null, limit: number) {
  return db.query<AuditEntry>(Prisma.sql`
    SELECT ${ENTRY}
    FROM audit_log
    WHERE project_id = ${projectId}::int
      AND (at, id) > (${after?.createdAt ?? '-infinity'}::timestamptz, ${after?.id ?? 0}::bigint)
    ORDER BY at, id
    LIMIT ${limit}::bigint`);
}

/** The next `limit` entries after a position, newest first. Each condition is in the text only if it is given, so that it has its index. */
export function listAuditPage(
  db: Queryable,
  projectId: number,
  { actor, action, userId, since, until }: AuditFilter,
  after: Position | null,
  limit: number,
): Promise<AuditEntry[]> {
  const conditions = [
    Prisma.sql`project_id = ${projectId}::int`,
    ...(actor === null ? [] : [Prisma.sql`actor = ${actor}::text`]),
    ...(action === null ? [] : [Prisma.sql`action = ${action}::audit_action`]),
    ...(userId === null ? [] : [Prisma.sql`user_id = ${userId}::bigint`]),
    ...(since === null ? [] : [Prisma.sql`at >= ${since}::timestamptz`]),
    ...(until === null ? [] : [Prisma.sql`at <= ${until}::timestamptz`]),
    ...(after === null ? [] : [Prisma.sql`(at, id) < (${after.createdAt}::timestamptz, ${after.id}::bigint)`]),
  ];
  return db.query(Prisma.sql`
    SELECT ${ENTRY}
    FROM audit_log
    WHERE ${Prisma.join(conditions, ' AND ')}
    ORDER BY at DESC, id DESC
    LIMIT ${limit}::bigint`);
}

/** Records an action beside the statement, or in the transaction, that does it. */
export async function recordAction(
  db: Queryable | ModelTransaction,
  actor: Actor,
  action: AuditAction,
  details: Readonly<Record<string, unknown>>,
  userId: bigint | null = null,
): Promise<void> {
  const entry = Prisma.sql`SELECT ${userId}::bigint, ${JSON.stringify(details)}::jsonb`;
  await execute(db, insertAuditEntries(actor, action, entry));
}

/** Adds the entry of an action that goes on (`id` null), or brings it up to date. Returns its id. */
export async function recordProgress(
  tx: Queryable,
  actor: Actor,
  action: AuditAction,
  id: AuditEntry['id'] | null,
  details: Readonly<Record<string, unknown>>,
): Promise<AuditEntry['id'] | null> {
  const text = JSON.stringify(details);
  const statement =
    id === null
      ? insertAuditEntries(actor, action, Prisma.sql`SELECT NULL::bigint, ${text}::jsonb`)
      : Prisma.sql`
          UPDATE audit_log SET details = ${text}::jsonb
          WHERE project_id = ${actor.projectId}::int AND id = ${id}::bigint`;
  const [entry] = await tx.query<Pick<AuditEntry, 'id'>>(Prisma.sql`${statement} RETURNING id`);
  return entry?.id ?? null;
}
