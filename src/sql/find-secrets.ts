import { Prisma, type Reader } from '../db/client.js';
import type { Placed } from './columns.js';

export interface SecretRow {
  projectId: number;
  /** SHA-256 of the secret. */
  secretHash: Uint8Array;
}

/** The secrets of projects that have not expired, by the database's clock, which all processes share. */
export function findSecrets(db: Reader, appIds: readonly string[]): Promise<Placed<SecretRow>[]> {
  return db.read(Prisma.sql`
    SELECT k.place::int AS place, p.id AS "projectId", s.secret_hash AS "secretHash"
    FROM unnest(${appIds}::text[]) WITH ORDINALITY AS k(app_id, place)
    JOIN projects p ON p.app_id = k.app_id
    JOIN app_secrets s ON s.project_id = p.id
    WHERE s.expires_at IS NULL OR s.expires_at > now()`);
}
