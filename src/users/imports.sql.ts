import { arrayText } from '../db/prepared-statement.js';
import { execute, Prisma, type Queryable, THIS_INSTANT } from '../db/statements.js';
import type { Identity } from '../domain/identities.js';
import type { Actor, AuditEntry } from '../domain/projects.js';
import { insertAuditEntries } from '../projects/audit.sql.js';
import { holderOf } from './transfers.sql.js';

/* The users whom an import has created, in parts of a batch each: to undo it. */

/** Tells the database which import the transaction is of: its users are marked with it, until something else touches them. */
export async function beginImport(tx: Queryable, importId: AuditEntry['id']): Promise<void> {
  await tx.query(Prisma.sql`SELECT set_config('userdir.import', ${String(importId)}::text, true)`);
}

/** Keeps the users that a batch of an import has created. `importId` is the id of its entry in the audit trail. */
export async function keepCreated(
  db: Queryable,
  projectId: number,
  importId: AuditEntry['id'],
  userIds: readonly number[],
): Promise<void> {
  if (userIds.length === 0) return;
  await execute(
    db,
    Prisma.sql`
      INSERT INTO import_parts (project_id, import_id, first_user_id, user_ids)
      VALUES (${projectId}::int, ${importId}::bigint, ${userIds[0]}::bigint, ${arrayText(userIds)}::bigint[])`,
  );
}

/** Whether the project has an import of the id. */
export async function hasImport(db: Queryable, projectId: number, importId: AuditEntry['id']): Promise<boolean> {
  const rows = await db.query(Prisma.sql`
    SELECT FROM audit_log WHERE project_id = ${projectId}::int AND id = ${importId}::bigint AND action = 'import'`);
  return rows.length > 0;
}

/** What a part of an undo has done. */
export interface UndonePart {
  readonly removed: number;
  /** Users who were created by the import, and touched by anything else since. */
  readonly kept: number;
}

/** Removes the users of one part of an import whom nothing else has touched, with an audit entry for each, and forgets the part. Null where no part is left. */
export async function undoPart(db: Queryable, actor: Actor, importId: AuditEntry['id']): Promise<UndonePart | null> {
  const { projectId } = actor;
  const [part] = await db.query<UndonePart>(Prisma.sql`
    WITH part AS (
      DELETE FROM import_parts
      WHERE project_id = ${projectId}::int AND import_id = ${importId}::bigint AND first_user_id = (
        SELECT first_user_id FROM import_parts
        WHERE project_id = ${projectId}::int AND import_id = ${importId}::bigint
        ORDER BY first_user_id LIMIT 1
        FOR UPDATE
      )
      RETURNING user_ids
    ), removed AS (
      UPDATE users u SET deleted_at = ${THIS_INSTANT}
      WHERE project_id = ${projectId}::int AND id = ANY ((SELECT user_ids FROM part)::bigint[]) AND (deleted_at IS NULL)::int = 1
        AND import_id = ${importId}::bigint
      RETURNING id
    ), audited AS (
      ${insertAuditEntries(actor, 'remove', Prisma.sql`SELECT id, jsonb_build_object('import', ${importId}::bigint) FROM removed`)}
    )
    SELECT (SELECT count(*) FROM removed)::int AS removed,
      cardinality(user_ids)::int - (SELECT count(*) FROM removed)::int AS kept
    FROM part`);
  return part ?? null;
}

/** The ids of the current users who have the identities of lines, in their order; null where there is none. */
export async function findUserIds(
  db: Queryable,
  projectId: number,
  identities: readonly Pick<Identity, 'authMethod' | 'authValueKey'>[],
): Promise<(number | null)[]> {
  const arrays = Prisma.join(
    (['authMethod', 'authValueKey'] as const).map(
      (field) => Prisma.sql`${arrayText(identities.map((identity) => identity[field]))}::text[]`,
    ),
  );
  const rows = await db.query<{ id: number | null }>(Prisma.sql`
    SELECT ${holderOf(projectId)} AS id
    FROM unnest(${arrays}) WITH ORDINALITY AS r(auth_method, auth_value_key, place)
    ORDER BY r.place`);
  return rows.map(({ id }) => id);
}
