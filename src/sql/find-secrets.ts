import { Prisma, type Queryable } from '../db/client.js';
import type { Placed } from './columns.js';

export interface SecretRow {
  projectId: number;
  id: number;
  /** SHA-256 of the secret. */
  secretHash: Uint8Array;
  label: string;
  /** Separated by spaces. */
  scopes: string;
  /** Whether it was used in the last minute, as far as is written down. */
  isMarked: boolean;
  /** Milliseconds until it expires, by the database's clock when the statement began; null where it never does. */
  leftMs: number | null;
}

/** In the place of a secret, so that an App ID without any comes back by the same way as one with a secret. */
type NoSecretRow = { [Column in keyof SecretRow]: null };

/** The secrets of projects that have not expired, by the database's clock, which all processes share. */
export function findSecrets(db: Queryable, appIds: readonly string[]): Promise<Placed<SecretRow | NoSecretRow>[]> {
  return db.query(Prisma.sql`
    SELECT k.place::int AS place, s.project_id AS "projectId", s.id, s.secret_hash AS "secretHash", s.label,
           array_to_string(s.scopes, ' ') AS scopes, s.last_used_at > now() - interval '1 minute' AS "isMarked",
           ((extract(epoch FROM s.expires_at) - extract(epoch FROM now())) * 1000)::float8 AS "leftMs"
    FROM unnest(${appIds}::text[]) WITH ORDINALITY AS k(app_id, place)
    LEFT JOIN projects p ON p.app_id = k.app_id
    LEFT JOIN app_secrets s ON s.project_id = p.id AND (s.expires_at IS NULL OR s.expires_at > now())`);
}

/** Writes down that a secret is used now, once a minute however many processes see it. */
export async function markSecretUsed(db: Queryable, projectId: number, id: number): Promise<void> {
  await db.query(Prisma.sql`
    UPDATE app_secrets SET last_used_at = now()
    WHERE project_id = ${projectId} AND id = ${id}
      AND (last_used_at IS NULL OR last_used_at <= now() - interval '1 minute')`);
}
