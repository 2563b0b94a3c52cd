import { Prisma, type Queryable } from '../db/statements.js';
import { externalIdKept, externalIdTaken, type UserRecord } from '../domain/identities.js';
import type { OnConflict } from '../domain/import-format.js';

/** Throws the error of a statement that writes external ids: CONFLICT if the database refused one, else as it is. */
export function throwExternalIdError(error: unknown): never {
  const { constraint } = error as { constraint?: unknown };
  if (constraint === 'users_external_id_is_kept') throw externalIdKept();
  throw isExternalIdTaken(error) ? externalIdTaken() : error;
}

/** Whether a statement failed because another current user has an external id. */
export function isExternalIdTaken(error: unknown): boolean {
  return (error as { constraint?: unknown }).constraint === 'users_external_id_key';
}

/**
 * Whether another current user has the external id of one of the records, so that an import of it would fail. A record whose user
 * exists writes none, unless they are updated.
 */
export async function isAnyExternalIdTaken(
  db: Queryable,
  projectId: number,
  records: readonly UserRecord[],
  onConflict: OnConflict,
): Promise<boolean> {
  const rows = records.flatMap(({ authMethod, authValueKey, externalId }) =>
    externalId === null ? [] : { auth_method: authMethod, auth_value_key: authValueKey, external_id: externalId },
  );
  if (rows.length === 0) return false;
  // Both are found as in findUsersByIdentity.
  const found = await db.query(Prisma.sql`
    SELECT holder.id
    FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) AS r(auth_method text, auth_value_key text, external_id text)
    CROSS JOIN LATERAL (
      SELECT u.id, u.auth_method, u.auth_value_key FROM users u
      WHERE u.project_id = ${projectId}::int AND u.external_id >= r.external_id AND u.external_id <= r.external_id AND u.deleted_at IS NULL
      ORDER BY u.external_id
      LIMIT 1
    ) AS holder
    WHERE (holder.auth_method, holder.auth_value_key) IS DISTINCT FROM (r.auth_method, r.auth_value_key)
      AND (${onConflict === 'update'}::boolean OR (
        SELECT u.id FROM users u
        WHERE u.project_id = ${projectId}::int AND u.auth_method = r.auth_method
          AND u.auth_value_key >= r.auth_value_key AND u.auth_value_key <= r.auth_value_key AND u.deleted_at IS NULL
        ORDER BY u.auth_value_key
        LIMIT 1
      ) IS NULL)
    LIMIT 1`);
  return found.length > 0;
}
