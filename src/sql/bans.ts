import { Prisma, type Queryable } from '../db/client.js';
import type { Identity } from '../domain/identities.js';

/** A ban as an import writes it; without an instant it begins now. */
export interface BanRecord extends Identity {
  readonly createdAt: Date | null;
}

export interface Ban extends Identity {
  /** ISO 8601. */
  readonly createdAt: string;
}

const BAN = Prisma.sql`
  auth_method AS "authMethod", auth_value AS "authValue", auth_value_key AS "authValueKey", created_at AS "createdAt"`;

/** All bans of a project, oldest first. */
export function listBans(db: Queryable, projectId: number): Promise<Ban[]> {
  return db.query(Prisma.sql`
    SELECT ${BAN} FROM bans
    WHERE project_id = ${projectId}::int
    ORDER BY created_at, auth_method, auth_value_key`);
}

/** The next `limit` bans after one, in the order of their keys; after null the first. */
export function exportBans(db: Queryable, projectId: number, after: Identity | null, limit: number): Promise<Ban[]> {
  return db.query(Prisma.sql`
    SELECT ${BAN} FROM bans
    WHERE project_id = ${projectId}::int
      AND (auth_method, auth_value_key) > (${after?.authMethod ?? ''}::text COLLATE "C", ${after?.authValueKey ?? ''}::text COLLATE "C")
    ORDER BY auth_method, auth_value_key
    LIMIT ${limit}::bigint`);
}

/** Bans those who are not banned yet and returns how many they are. */
export async function writeBans(db: Queryable, projectId: number, bans: readonly BanRecord[]): Promise<number> {
  const rows = bans.map(({ authMethod, authValue, authValueKey, createdAt }) => ({
    auth_method: authMethod,
    auth_value: authValue,
    auth_value_key: authValueKey,
    created_at: createdAt,
  }));
  const written = await db.query(Prisma.sql`
    INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key, created_at)
    SELECT ${projectId}::int, auth_method, auth_value, auth_value_key, coalesce(created_at, now())
    FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) AS r(
      auth_method text, auth_value text, auth_value_key text, created_at timestamptz
    )
    ON CONFLICT DO NOTHING
    RETURNING auth_method`);
  return written.length;
}
