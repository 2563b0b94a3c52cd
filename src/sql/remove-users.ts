import { Prisma, type Queryable } from '../db/statements.js';
import type { Actor } from '../domain/projects.js';
import { insertAuditEntries } from './audit.js';

/** Removes a current user, with an audit entry; false if there is no such user. */
export async function removeUser(db: Queryable, actor: Actor, id: bigint): Promise<boolean> {
  // Written so that it fits no index of current users, for the reason that userById has (find-users.ts).
  const isCurrent = Prisma.sql`(deleted_at IS NULL)::int = 1`;
  const removed = await db.query(Prisma.sql`
    WITH removed AS (
      UPDATE users SET deleted_at = now()
      WHERE project_id = ${actor.projectId} AND id = ${id}::bigint AND ${isCurrent}
      RETURNING id
    ), audited AS (
      ${insertAuditEntries(actor, 'remove', Prisma.sql`SELECT id, '{}'::jsonb FROM removed`)}
    )
    SELECT id FROM removed`);
  return removed.length > 0;
}

/** The number of users who were removed more than `olderThanMs` ago. */
export async function countRemoved(db: Queryable, projectId: number, olderThanMs: number): Promise<number> {
  const [row] = await db.query<{ count: number }>(Prisma.sql`
    SELECT count(*) FROM users
    WHERE project_id = ${projectId} AND deleted_at < now() - ${olderThanMs}::float8 * interval '1 millisecond'`);
  return row?.count ?? 0;
}

/** Erases up to `limit` of them with their accounts, the longest removed first, with an audit entry. Returns how many. */
export async function purgeRemoved(db: Queryable, actor: Actor, olderThanMs: number, limit: number): Promise<number> {
  const entry = Prisma.sql`SELECT NULL::bigint, jsonb_build_object('purged', count(*)) FROM purged HAVING count(*) > 0`;
  const [row] = await db.query<{ purged: number }>(Prisma.sql`
    WITH purged AS (
      DELETE FROM users
      WHERE project_id = ${actor.projectId} AND id IN (
        SELECT id FROM users
        WHERE project_id = ${actor.projectId} AND deleted_at < now() - ${olderThanMs}::float8 * interval '1 millisecond'
        ORDER BY deleted_at
        LIMIT ${limit}::bigint
      )
      RETURNING id
    ), audited AS (
      ${insertAuditEntries(actor, 'purge', entry)}
    )
    SELECT count(*)::int AS purged FROM purged`);
  return row?.purged ?? 0;
}
