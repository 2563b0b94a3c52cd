import { keyedStatement, Prisma, type Queryable } from '../db/statements.js';
import type { Position } from '../domain/filters.js';
import type { Ban, BanRecord, Identity, ListedBan } from '../domain/identities.js';
import type { Actor } from '../domain/projects.js';
import { insertAuditEntries } from '../projects/audit.sql.js';
import { userById } from './find-users.sql.js';

/* Bans are read in batches, searched for literal texts, and written in one statement with the entry that names their user. */

const BAN = Prisma.sql`
  auth_method AS "authMethod", auth_value AS "authValue", auth_value_key AS "authValueKey", created_at AS "createdAt"`;

/** Audit entries for the bans that a statement has `changed`, each with the current user of its identity, if there is one. */
const CHANGED_BANS = Prisma.sql`
  SELECT u.id, jsonb_build_object('auth_method', changed.auth_method)
  FROM changed
  LEFT JOIN users u ON u.project_id = changed.project_id AND u.auth_method = changed.auth_method
    AND u.auth_value_key = changed.auth_value_key AND u.deleted_at IS NULL`;

/** Bans an identity, with an audit entry, and returns the ban. Changes nothing if it is banned already. */
export async function insertBan(db: Queryable, actor: Actor, identity: Identity): Promise<Ban> {
  const { authMethod, authValue, authValueKey } = identity;
  const inserted = await db.query<Ban>(Prisma.sql`
    WITH changed AS (
      INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key)
      VALUES (${actor.projectId}, ${authMethod}, ${authValue}, ${authValueKey})
      ON CONFLICT DO NOTHING
      RETURNING *
    ), audited AS (
      ${insertAuditEntries(actor, 'ban', CHANGED_BANS)}
    )
    SELECT ${BAN} FROM changed
    UNION ALL
    SELECT ${BAN} FROM bans
    WHERE project_id = ${actor.projectId} AND auth_method = ${authMethod} AND auth_value_key = ${authValueKey}`);
  // Nothing only if another request has inserted it at this moment.
  return inserted[0] ?? { ...identity, createdAt: new Date().toISOString() };
}

/** Lifts the ban of an identity, with an audit entry. Changes nothing if there is none. */
export async function deleteBan(db: Queryable, actor: Actor, { authMethod, authValueKey }: Identity): Promise<void> {
  await db.query(Prisma.sql`
    WITH changed AS (
      DELETE FROM bans
      WHERE project_id = ${actor.projectId} AND auth_method = ${authMethod} AND auth_value_key = ${authValueKey}
      RETURNING project_id, auth_method, auth_value_key
    )
    ${insertAuditEntries(actor, 'unban', CHANGED_BANS)}`);
}

export interface BanPageKey {
  /** Where the page before ended; null for the first page. */
  readonly after: Position | null;
  readonly limit: number;
  readonly order: 'newest first' | 'oldest first';
  /** Texts of which a listed identity contains one, as it was written or as it is compared; null for all bans. */
  readonly contains: readonly string[] | null;
}

/** At most `limit` bans after a position, each with its id. */
export function listBanPage(db: Queryable, projectId: number, { after, limit, order, contains }: BanPageKey) {
  const [isAfter, direction, start] =
    order === 'newest first'
      ? [Prisma.sql`<`, Prisma.sql`DESC`, 'infinity']
      : [Prisma.sql`>`, Prisma.empty, '-infinity'];
  const { createdAt, id } = after ?? { createdAt: start, id: 0 };
  return db.query<ListedBan>(Prisma.sql`
    SELECT id, ${BAN} FROM bans
    WHERE project_id = ${projectId}::int
      AND (created_at, id) ${isAfter} (${createdAt}::timestamptz, ${id}::bigint)
      AND (${contains}::text[] IS NULL OR EXISTS (
        SELECT FROM unnest(${contains}::text[]) AS wanted(part)
        WHERE strpos(auth_value, wanted.part) > 0 OR strpos(auth_value_key, wanted.part) > 0
      ))
    ORDER BY created_at ${direction}, id ${direction}
    LIMIT ${limit}::bigint`);
}

export interface BanWindowKey extends Pick<BanPageKey, 'after' | 'limit'> {
  readonly projectId: number;
}

/** Pages of bans, newest first, each with one ban more than its limit if there are more. */
export const findBanWindows = keyedStatement<BanWindowKey, ListedBan>(
  {
    project_id: ['int', (key) => key.projectId],
    after_at: ['timestamptz', ({ after }) => after?.createdAt ?? 'infinity'],
    after_id: ['bigint', ({ after }) => after?.id ?? 0],
    size: ['bigint', ({ limit }) => limit + 1],
  },
  (keys) => Prisma.sql`
    SELECT k.key_index::int AS "keyIndex", ${BAN}, id
    FROM ${keys}
    CROSS JOIN LATERAL (
      SELECT b.* FROM bans b
      WHERE b.project_id = k.project_id AND (b.created_at, b.id) < (k.after_at, k.after_id)
      ORDER BY b.created_at DESC, b.id DESC
      LIMIT k.size
    ) AS b
    ORDER BY k.key_index, created_at DESC, id DESC`,
);

/** The next `limit` bans after one, in the order of their keys; after null the first. */
export function exportBans(db: Queryable, projectId: number, after: Identity | null, limit: number): Promise<Ban[]> {
  return db.query(Prisma.sql`
    SELECT ${BAN} FROM bans
    WHERE project_id = ${projectId}::int
      AND (auth_method, auth_value_key) > (${after?.authMethod ?? ''}::text COLLATE "C", ${after?.authValueKey ?? ''}::text COLLATE "C")
    ORDER BY auth_method, auth_value_key
    LIMIT ${limit}::bigint`);
}

/** Bans the identities that are not banned yet, and returns their number. */
export async function importBans(db: Queryable, projectId: number, bans: readonly BanRecord[]): Promise<number> {
  const written = await db.query(Prisma.sql`
    INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key, created_at)
    SELECT ${projectId}::int, "authMethod", "authValue", "authValueKey", coalesce("createdAt", now())
    FROM jsonb_to_recordset(${JSON.stringify(bans)}::jsonb) AS r(
      "authMethod" text, "authValue" text, "authValueKey" text, "createdAt" timestamptz
    )
    ON CONFLICT DO NOTHING
    RETURNING auth_method`);
  return written.length;
}

export interface BannedKey {
  readonly projectId: number;
  readonly userId: number;
}

/** A row for each user whose identity is banned. */
export const findBanned = keyedStatement<BannedKey, { createdAt: string }>(
  { project_id: ['int', ({ projectId }) => projectId], id: ['bigint', ({ userId }) => userId] },
  (keys) => Prisma.sql`
    SELECT k.key_index::int AS "keyIndex", b.created_at AS "createdAt"
    FROM ${keys}
    CROSS JOIN LATERAL (${userById('k', 'id')}) AS u
    JOIN bans b ON b.project_id = u.project_id AND b.auth_method = u.auth_method AND b.auth_value_key = u.auth_value_key`,
);
