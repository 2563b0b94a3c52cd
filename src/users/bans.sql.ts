import { keyedStatement, Prisma, type Queryable, SHORT_LOCK_LIMIT, THIS_INSTANT } from '../db/statements.js';
import type { Ban, BanRecord, GivenBanTerms, ListedBan } from '../domain/bans.js';
import type { Position } from '../domain/filters.js';
import type { Identity } from '../domain/identities.js';
import type { Actor } from '../domain/projects.js';
import { insertAuditEntries } from '../projects/audit.sql.js';
import { userById } from './find-users.sql.js';
import { BAN_STATE, banOfUser, IN_FORCE } from './user-columns.sql.js';

/* Bans are read in batches, searched for literal texts, and written in one statement with the entry that names their user. */

const BAN = Prisma.sql`
  b.auth_method AS "authMethod", b.auth_value AS "authValue", b.auth_value_key AS "authValueKey", ${BAN_STATE},
  b.user_id IS NOT NULL AS "isOfUser"`;

/** Audit entries for the bans that a statement has `changed`, each with the current user of its identity, if there is one. */
const CHANGED_BANS = Prisma.sql`
  SELECT coalesce(u.id, linked_user(changed.project_id, changed.auth_method, changed.auth_value_key)),
         jsonb_strip_nulls(jsonb_build_object('auth_method', changed.auth_method, 'until', changed.expires_at))
  FROM changed
  LEFT JOIN users u ON u.project_id = changed.project_id AND u.auth_method = changed.auth_method
    AND u.auth_value_key = changed.auth_value_key AND u.deleted_at IS NULL`;

/** A ban `b` whose identity is banned again, with its new reason and end: one that has ended begins again. */
const bannedAgain = (reason: Prisma.Sql, expiresAt: Prisma.Sql) => Prisma.sql`
      ON CONFLICT (project_id, auth_method, auth_value_key) DO UPDATE SET
        reason = ${reason}, expires_at = ${expiresAt},
        created_at = CASE WHEN ${IN_FORCE} THEN b.created_at ELSE excluded.created_at END`;

/** Bans the identities of `rows`, as the ban of the user whom they name, if they do. A banned one keeps absent terms. */
function insertBans(terms: GivenBanTerms, rows: Prisma.Sql): Prisma.Sql {
  const { reason = null, expiresAt = null } = terms;
  const [newReason, newEnd] = [
    Prisma.sql`CASE WHEN ${terms.reason === undefined}::boolean AND ${IN_FORCE} THEN b.reason ELSE excluded.reason END`,
    Prisma.sql`CASE WHEN ${terms.expiresAt === undefined}::boolean AND ${IN_FORCE} THEN b.expires_at ELSE excluded.expires_at END`,
  ];
  return Prisma.sql`
      INSERT INTO bans AS b (project_id, auth_method, auth_value, auth_value_key, user_id, reason, expires_at)
      SELECT identity.*, ${reason}, ${expiresAt}::timestamptz FROM (${rows}) AS identity
      ${bannedAgain(newReason, newEnd)}, user_id = coalesce(excluded.user_id, b.user_id)
      WHERE (b.reason, b.expires_at, b.user_id) IS DISTINCT FROM (${newReason}, ${newEnd}, coalesce(excluded.user_id, b.user_id))
      RETURNING b.*`;
}

/** Bans an identity, with an audit entry. Returns false where nothing is different. */
export async function insertBan(
  db: Queryable,
  actor: Actor,
  identity: Identity,
  terms: GivenBanTerms,
): Promise<boolean> {
  const { authMethod, authValue, authValueKey } = identity;
  const row = Prisma.sql`VALUES (${actor.projectId}::int, ${authMethod}, ${authValue}, ${authValueKey}, NULL::bigint)`;
  const written = await db.query(Prisma.sql`
    WITH changed AS (${insertBans(terms, row)}
    )
    ${insertAuditEntries(actor, 'ban', CHANGED_BANS)} RETURNING id`);
  return written.length > 0;
}

/** The ban of an identity; null where it is not banned. */
export async function findBan(db: Queryable, projectId: number, identity: Identity): Promise<Ban | null> {
  const { authMethod, authValueKey } = identity;
  const [ban] = await db.query<Ban>(Prisma.sql`
    SELECT ${BAN} FROM bans b
    WHERE b.project_id = ${projectId}::int AND b.auth_method = ${authMethod} AND b.auth_value_key = ${authValueKey} AND ${IN_FORCE}`);
  return ban ?? null;
}

/** Lifts the ban of an identity, with an audit entry. Changes nothing, and returns false, if there is none, or if it has ended. */
export async function deleteBan(db: Queryable, actor: Actor, { authMethod, authValueKey }: Identity): Promise<boolean> {
  const lifted = await db.query(Prisma.sql`
    WITH changed AS (
      DELETE FROM bans b
      WHERE b.project_id = ${actor.projectId} AND b.auth_method = ${authMethod} AND b.auth_value_key = ${authValueKey} AND ${IN_FORCE}
      RETURNING b.project_id, b.auth_method, b.auth_value_key, NULL AS expires_at
    )
    ${insertAuditEntries(actor, 'unban', CHANGED_BANS)} RETURNING id`);
  return lifted.length > 0;
}

/** The identities of a user, with which their ban begins or ends. */
const identitiesOf = (projectId: number, userId: bigint) => Prisma.sql`
  SELECT u.project_id, u.auth_method, u.auth_value, u.auth_value_key, u.id AS user_id
  FROM users u WHERE u.project_id = ${projectId}::int AND u.id = ${userId}::bigint
  UNION ALL
  SELECT i.project_id, i.auth_method, i.auth_value, i.auth_value_key, i.user_id
  FROM identities i WHERE i.project_id = ${projectId}::int AND i.user_id = ${userId}::bigint`;

/** An audit entry for a user some of whose bans have changed. */
const changedUser = (userId: bigint) => Prisma.sql`
  SELECT ${userId}::bigint, jsonb_strip_nulls(jsonb_build_object('user', true, 'until', min(changed.expires_at)))
  FROM changed HAVING count(*) > 0`;

/** Bans every identity of a user, who is locked; those that are linked later are banned by the database. */
export async function insertUserBan(tx: Queryable, actor: Actor, userId: bigint, terms: GivenBanTerms): Promise<void> {
  await tx.query(Prisma.sql`
    WITH changed AS (${insertBans(terms, identitiesOf(actor.projectId, userId))}
    )
    ${insertAuditEntries(actor, 'ban', changedUser(userId))}`);
}

/** Lifts the ban of a user, and those of their identities alone. */
export async function deleteUserBan(tx: Queryable, actor: Actor, userId: bigint): Promise<void> {
  await tx.query(Prisma.sql`
    WITH changed AS (
      DELETE FROM bans b
      WHERE b.ctid = ANY (ARRAY(
        SELECT b.ctid FROM bans b WHERE b.project_id = ${actor.projectId}::int AND b.user_id = ${userId}::bigint
        UNION ALL
        SELECT b.ctid FROM (${identitiesOf(actor.projectId, userId)}) AS i CROSS JOIN LATERAL (
          SELECT b.ctid FROM bans b
          WHERE b.project_id = i.project_id AND b.auth_method = i.auth_method AND b.auth_value_key = i.auth_value_key
          OFFSET 0
        ) AS b
      )) AND ${IN_FORCE}
      RETURNING NULL::timestamptz AS expires_at
    )
    ${insertAuditEntries(actor, 'unban', changedUser(userId))}`);
}

export interface BanPageKey {
  /** The end of the page before; null for the first page. */
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
    SELECT b.id, ${BAN} FROM bans b
    WHERE b.project_id = ${projectId}::int AND ${IN_FORCE}
      AND (b.created_at, b.id) ${isAfter} (${createdAt}::timestamptz, ${id}::bigint)
      AND (${contains}::text[] IS NULL OR EXISTS (
        SELECT FROM unnest(${contains}::text[]) AS wanted(part)
        WHERE strpos(b.auth_value, wanted.part) > 0 OR strpos(b.auth_value_key, wanted.part) > 0
      ))
    ORDER BY b.created_at ${direction}, b.id ${direction}
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
    SELECT k.key_index::int AS "keyIndex", ${BAN}, b.id
    FROM ${keys}
    CROSS JOIN LATERAL (
      SELECT b.* FROM bans b
      WHERE b.project_id = k.project_id AND ${IN_FORCE} AND (b.created_at, b.id) < (k.after_at, k.after_id)
      ORDER BY b.created_at DESC, b.id DESC
      LIMIT k.size
    ) AS b
    ORDER BY k.key_index, b.created_at DESC, b.id DESC`,
);

/** The next `limit` bans after one, in the order of their keys; after null the first. */
export function exportBans(db: Queryable, projectId: number, after: Identity | null, limit: number): Promise<Ban[]> {
  return db.query(Prisma.sql`
    SELECT ${BAN} FROM bans b
    WHERE b.project_id = ${projectId}::int AND ${IN_FORCE}
      AND (b.auth_method, b.auth_value_key) > (${after?.authMethod ?? ''}::text COLLATE "C", ${after?.authValueKey ?? ''}::text COLLATE "C")
    ORDER BY b.auth_method, b.auth_value_key
    LIMIT ${limit}::bigint`);
}

/** The number of bans that were added, and of those that had ended by then. The other identities are banned already. */
export interface ImportedBans {
  readonly added: number;
  readonly ended: number;
}

/** Bans the identities that are not banned yet, by the first ban of each that has not ended. */
export async function importBans(db: Queryable, projectId: number, bans: readonly BanRecord[]): Promise<ImportedBans> {
  const [counts] = await db.query<ImportedBans>(Prisma.sql`
    WITH line AS MATERIALIZED (
      SELECT * FROM ROWS FROM (jsonb_to_recordset(${JSON.stringify(bans)}::jsonb) AS (
        "authMethod" text, "authValue" text, "authValueKey" text, "createdAt" timestamptz, reason text, "expiresAt" timestamptz
      )) WITH ORDINALITY
    ), written AS (
      INSERT INTO bans AS b (project_id, auth_method, auth_value, auth_value_key, created_at, reason, expires_at)
      SELECT DISTINCT ON ("authMethod", "authValueKey")
        ${projectId}::int, "authMethod", "authValue", "authValueKey", coalesce("createdAt", ${THIS_INSTANT}), reason, "expiresAt"
      FROM line
      WHERE "expiresAt" IS NULL OR "expiresAt" > now()
      ORDER BY "authMethod", "authValueKey", ordinality
      ${bannedAgain(Prisma.sql`excluded.reason`, Prisma.sql`excluded.expires_at`)}
      WHERE NOT ${IN_FORCE}
      RETURNING b.id
    )
    SELECT (SELECT count(*) FROM written)::int AS added, (SELECT count(*) FROM line WHERE "expiresAt" <= now())::int AS ended`);
  return counts ?? { added: 0, ended: 0 };
}

export interface BannedKey {
  readonly projectId: number;
  readonly userId: number;
}

/** The ban of each user who is banned, or has an identity that is. */
export const findBanned = keyedStatement<BannedKey, Ban>(
  { project_id: ['int', ({ projectId }) => projectId], id: ['bigint', ({ userId }) => userId] },
  (keys) => Prisma.sql`
    SELECT k.key_index::int AS "keyIndex", ${BAN}
    FROM ${keys}
    CROSS JOIN LATERAL (${userById('k', 'id')}) AS u
    CROSS JOIN LATERAL (${banOfUser(Prisma.sql`b.*`)}) AS b`,
);

/** The projects that have bans which have ended. */
export async function listProjectsWithEndedBans(db: Queryable): Promise<number[]> {
  const rows = await db.query<{ projectId: number }>(Prisma.sql`
    WITH RECURSIVE concerned AS (
      SELECT (${projectAfter(Prisma.sql`0`)}) AS project_id
      UNION ALL
      SELECT (${projectAfter(Prisma.sql`c.project_id`)}) FROM concerned c WHERE c.project_id IS NOT NULL
    )
    SELECT c.project_id AS "projectId" FROM concerned c
    WHERE EXISTS (SELECT FROM bans b WHERE b.project_id = c.project_id AND b.expires_at <= now() OFFSET 0)`);
  return rows.map(({ projectId }) => projectId);
}

/** The first project after another one that has bans which end: one step in the index of those bans. */
const projectAfter = (id: Prisma.Sql) => Prisma.sql`
        SELECT b.project_id FROM bans b WHERE b.project_id > ${id} AND b.expires_at IS NOT NULL ORDER BY b.project_id LIMIT 1`;

/** Deletes up to `limit` ended bans, oldest end first, with changes in the feed; returns their number. Waits only a moment for a lock (55P03). */
export async function deleteEndedBans(db: Queryable, projectId: number, limit: number): Promise<number> {
  const deleted = await db.query(Prisma.sql`
    DELETE FROM bans WHERE ctid = ANY (ARRAY(
      SELECT b.ctid FROM ${SHORT_LOCK_LIMIT}, bans b
      WHERE b.project_id = ${projectId}::int AND b.expires_at <= now()
      ORDER BY b.expires_at
      LIMIT ${limit}::bigint
      FOR UPDATE OF b SKIP LOCKED
    ))
    RETURNING project_id`);
  return deleted.length;
}
