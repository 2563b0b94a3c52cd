import { keyedStatement, Prisma, type Queryable, SHORT_LOCK_LIMIT, THIS_INSTANT } from '../db/statements.js';
import type { Ban, BanRecord, GivenBanTerms, ListedBan, OwnedBan } from '../domain/bans.js';
import type { Position } from '../domain/cursors.js';
import type { Identity } from '../domain/identities.js';
import type { Actor } from '../domain/projects.js';
import { insertAuditEntries } from '../projects/audit.sql.js';
import { CURRENT_USER_OF_IDENTITY, userById } from './find-users.sql.js';
import { BAN_STATE, banOfUser, IN_FORCE } from './user-columns.sql.js';

/* Bans are read in batches, searched for literal texts, and written in one statement with the entry that names their user. */

const BAN_OF_IDENTITY = Prisma.sql`
  b.auth_method AS "authMethod", b.auth_value AS "authValue", b.auth_value_key AS "authValueKey", ${BAN_STATE}`;
const BAN = Prisma.sql`${BAN_OF_IDENTITY}, b.user_id IS NOT NULL AS "isOfUser"`;

/** What an audit entry says of bans that a statement has `changed`. */
const detailsOf = (named: Prisma.Sql) =>
  Prisma.sql`jsonb_strip_nulls(jsonb_build_object(${named}, 'until', nullif(changed.expires_at, 'infinity')))`;

/** Audit entries for the bans of identities that a statement has `changed`, each with the current user of its identity, if there is one. */
const CHANGED_BANS = Prisma.sql`
  SELECT coalesce(u.id, linked_user(changed.project_id, changed.auth_method, changed.auth_value_key)),
         ${detailsOf(Prisma.sql`'auth_method', changed.auth_method`)}
  FROM changed
  LEFT JOIN users u ON u.project_id = changed.project_id AND u.auth_method = changed.auth_method
    AND u.auth_value_key = changed.auth_value_key AND u.deleted_at IS NULL`;

const CHANGED_USER = Prisma.sql`SELECT changed.user_id, ${detailsOf(Prisma.sql`'user', true`)} FROM changed`;

/** Of a ban `b` that stands: one that has ended begins again. */
const BEGINNING = Prisma.sql`CASE WHEN ${IN_FORCE} THEN b.created_at ELSE excluded.created_at END`;

const KEY_OF_IDENTITY = Prisma.sql`(project_id, auth_method, auth_value_key, user_id)`;
const KEY_OF_USER = Prisma.sql`(project_id, user_id)`;

/** A ban of an identity that begins again is in the spelling of that time, as if the sweeper had deleted the one that has ended. */
const spelledAgain = (key: Prisma.Sql) =>
  key === KEY_OF_IDENTITY
    ? Prisma.sql`, auth_value = CASE WHEN ${IN_FORCE} THEN b.auth_value ELSE excluded.auth_value END`
    : Prisma.empty;

/** Bans again, where a ban `b` of `key` stands: absent terms stay, but not those of one that has ended. Changes nothing where nothing is different. */
function orChange(key: Prisma.Sql, terms: GivenBanTerms): Prisma.Sql {
  const [reason, end] = [
    Prisma.sql`CASE WHEN ${terms.reason === undefined}::boolean AND ${IN_FORCE} THEN b.reason ELSE excluded.reason END`,
    Prisma.sql`CASE WHEN ${terms.expiresAt === undefined}::boolean AND ${IN_FORCE} THEN b.expires_at ELSE excluded.expires_at END`,
  ];
  return Prisma.sql`
      ON CONFLICT ${key} DO UPDATE SET reason = ${reason}, expires_at = ${end}, created_at = ${BEGINNING} ${spelledAgain(key)}
      WHERE (b.reason, b.expires_at) IS DISTINCT FROM (${reason}, ${end})
      RETURNING b.*`;
}

/** The reason and the end of a ban as they are stored. */
const storedTerms = ({ reason, expiresAt }: GivenBanTerms) =>
  Prisma.sql`${reason ?? ''}::text, coalesce(${expiresAt ?? null}::timestamptz, 'infinity')`;

/** Bans an identity, with an audit entry. Returns false where nothing is different. */
export async function insertBan(
  db: Queryable,
  actor: Actor,
  identity: Identity,
  terms: GivenBanTerms,
): Promise<boolean> {
  const { authMethod, authValue, authValueKey } = identity;
  const written = await db.query(Prisma.sql`
    WITH changed AS (
      INSERT INTO bans AS b (project_id, auth_method, auth_value, auth_value_key, reason, expires_at)
      VALUES (${actor.projectId}::int, ${authMethod}, ${authValue}, ${authValueKey}, ${storedTerms(terms)})
      ${orChange(KEY_OF_IDENTITY, terms)}
    )
    ${insertAuditEntries(actor, 'ban', CHANGED_BANS)} RETURNING id`);
  return written.length > 0;
}

/** The bans of an identity that hold, that of the identity first. Those of users cover it. */
export async function findBans(db: Queryable, projectId: number, identity: Identity): Promise<Ban[]> {
  const { authMethod, authValueKey } = identity;
  return db.query<Ban>(Prisma.sql`
    SELECT ${BAN} FROM bans b
    WHERE b.project_id = ${projectId}::int AND b.auth_method = ${authMethod} AND b.auth_value_key = ${authValueKey} AND ${IN_FORCE}
    ORDER BY b.user_id IS NOT NULL, b.expires_at DESC`);
}

/** Lifts the ban of an identity, with an audit entry. Changes nothing, and returns false, if there is none, or if it has ended. */
export async function deleteBan(db: Queryable, actor: Actor, { authMethod, authValueKey }: Identity): Promise<boolean> {
  const lifted = await db.query(Prisma.sql`
    WITH changed AS (
      DELETE FROM bans b
      WHERE b.project_id = ${actor.projectId} AND b.auth_method = ${authMethod} AND b.auth_value_key = ${authValueKey}
        AND b.user_id IS NULL AND ${IN_FORCE}
      RETURNING b.project_id, b.auth_method, b.auth_value_key, NULL::timestamptz AS expires_at
    )
    ${insertAuditEntries(actor, 'unban', CHANGED_BANS)} RETURNING id`);
  return lifted.length > 0;
}

/** Bans a user who is locked. The database covers each of their identities, those of now and those that are linked later. */
export async function insertUserBan(tx: Queryable, actor: Actor, userId: bigint, terms: GivenBanTerms): Promise<void> {
  await tx.query(Prisma.sql`
    WITH changed AS (
      INSERT INTO user_bans AS b (project_id, user_id, reason, expires_at)
      VALUES (${actor.projectId}::int, ${userId}::bigint, ${storedTerms(terms)})
      ${orChange(KEY_OF_USER, terms)}
    )
    ${insertAuditEntries(actor, 'ban', CHANGED_USER)}`);
}

/** Lifts the ban of a user, not those of their identities. */
export async function deleteUserBan(tx: Queryable, actor: Actor, userId: bigint): Promise<void> {
  await tx.query(Prisma.sql`
    WITH changed AS (
      DELETE FROM user_bans b
      WHERE b.project_id = ${actor.projectId}::int AND b.user_id = ${userId}::bigint AND ${IN_FORCE}
      RETURNING b.user_id, NULL::timestamptz AS expires_at
    )
    ${insertAuditEntries(actor, 'unban', CHANGED_USER)}`);
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
  return db.query<OwnedBan>(Prisma.sql`
    SELECT b.id, b.user_id AS "bannedUserId", ${BAN} FROM bans b
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

/** An identity, as bans are compared by. */
export type BannedIdentity = Pick<Ban, 'authMethod' | 'authValueKey'>;

export interface BanPage {
  readonly bans: readonly Ban[];
  /** The last identity that was looked at; null after the last page. */
  readonly last: BannedIdentity | null;
}

/**
 * The bans of at least `limit` rows of identities after one, in the order of the identities; after null the first. The ban of a current user is one,
 * under the primary identity; that of a removed one is a ban of each identity, because an export has no removed users. Of two of one identity, the ban
 * that ends last is written, and of two that end at once the identity's own: an erasure keeps the same one.
 */
export async function exportBans(
  db: Queryable,
  projectId: number,
  after: BannedIdentity | null,
  limit: number,
): Promise<BanPage> {
  const { authMethod = '', authValueKey = '' } = after ?? {};
  const rows = await db.query<Ban & { isWritten: boolean }>(Prisma.sql`
    WITH b AS MATERIALIZED (
      SELECT * FROM bans b
      WHERE b.project_id = ${projectId}::int AND ${IN_FORCE}
        AND (b.auth_method, b.auth_value_key) > (${authMethod}::text COLLATE "C", ${authValueKey}::text COLLATE "C")
      ORDER BY b.auth_method, b.auth_value_key
      FETCH FIRST (${limit}::bigint) ROWS WITH TIES
    )
    SELECT DISTINCT ON (b.auth_method, b.auth_value_key, "isOfUser", "isWritten")
      ${BAN_OF_IDENTITY}, u.id IS NOT NULL AS "isOfUser",
      u.id IS NULL OR (u.auth_method = b.auth_method AND u.auth_value_key = b.auth_value_key) AS "isWritten"
    FROM b LEFT JOIN LATERAL (
      SELECT * FROM users WHERE users.project_id = b.project_id AND users.id = b.user_id OFFSET 0
    ) AS u ON u.deleted_at IS NULL
    ORDER BY b.auth_method, b.auth_value_key, "isOfUser", "isWritten", b.expires_at DESC, b.user_id NULLS FIRST`);
  return { bans: rows.filter(({ isWritten }) => isWritten), last: rows.at(-1) ?? null };
}

/** The number of bans that were added, and of those that had ended by then. The other identities and users are banned already. */
export interface ImportedBans {
  readonly added: number;
  readonly ended: number;
}

/** Bans that stand and have ended begin again, with the terms of the line. */
const orBeginAgain = (key: Prisma.Sql) => Prisma.sql`
      ON CONFLICT ${key} DO UPDATE SET reason = excluded.reason, expires_at = excluded.expires_at, created_at = excluded.created_at ${spelledAgain(key)}
      WHERE NOT ${IN_FORCE}
      RETURNING 1`;

/** Bans the identities and users who are not banned yet, by the first ban of each that has not ended. A ban of a user is of the identity where no current user has it. */
export async function importBans(db: Queryable, projectId: number, bans: readonly BanRecord[]): Promise<ImportedBans> {
  const terms = Prisma.sql`coalesce("createdAt", ${THIS_INSTANT}), coalesce(reason, ''), coalesce("expiresAt", 'infinity')`;
  const [counts] = await db.query<ImportedBans>(Prisma.sql`
    WITH given AS MATERIALIZED (
      SELECT * FROM ROWS FROM (jsonb_to_recordset(${JSON.stringify(bans)}::jsonb) AS (
        "authMethod" text, "authValue" text, "authValueKey" text, "createdAt" timestamptz, reason text, "expiresAt" timestamptz, "isOfUser" boolean
      )) WITH ORDINALITY
    ), line AS MATERIALIZED (
      SELECT given.*, CASE WHEN "isOfUser" THEN coalesce(
        (SELECT u.id FROM (${CURRENT_USER_OF_IDENTITY}) AS u),
        linked_user(${projectId}::int, "authMethod", "authValueKey")
      ) END AS user_id
      FROM given CROSS JOIN LATERAL (
        SELECT ${projectId}::int AS project_id, given."authMethod" AS auth_method, given."authValueKey" AS auth_value_key
      ) AS k
      WHERE "expiresAt" IS NULL OR "expiresAt" > now()
    ), of_users AS (
      INSERT INTO user_bans AS b (project_id, user_id, created_at, reason, expires_at)
      SELECT DISTINCT ON (user_id) ${projectId}::int, user_id, ${terms}
      FROM line
      WHERE user_id IS NOT NULL
      ORDER BY user_id, ordinality
      ${orBeginAgain(KEY_OF_USER)}
    ), of_identities AS (
      INSERT INTO bans AS b (project_id, auth_method, auth_value, auth_value_key, created_at, reason, expires_at)
      SELECT DISTINCT ON ("authMethod", "authValueKey") ${projectId}::int, "authMethod", "authValue", "authValueKey", ${terms}
      FROM line
      WHERE user_id IS NULL
      ORDER BY "authMethod", "authValueKey", ordinality
      ${orBeginAgain(KEY_OF_IDENTITY)}
    )
    SELECT ((SELECT count(*) FROM of_users) + (SELECT count(*) FROM of_identities))::int AS added,
      (SELECT count(*) FROM given WHERE "expiresAt" <= now())::int AS ended`);
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
    SELECT k.key_index::int AS "keyIndex", ${BAN_OF_IDENTITY}, b.user_id IS NOT DISTINCT FROM u.id AS "isOfUser"
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
        SELECT b.project_id FROM bans b WHERE b.project_id > ${id} AND b.expires_at < 'infinity' ORDER BY b.project_id LIMIT 1`;

/**
 * Deletes up to `limit` ended bans of identities, those by which users cover theirs counted, oldest end first, with changes in the feed; returns their
 * number. Waits only a moment for a lock (55P03).
 */
export async function deleteEndedBans(db: Queryable, projectId: number, limit: number): Promise<number> {
  const [counts] = await db.query<{ ended: number }>(Prisma.sql`
    WITH ended AS MATERIALIZED (
      SELECT b.ctid AS place, b.user_id FROM ${SHORT_LOCK_LIMIT}, bans b
      WHERE b.project_id = ${projectId}::int AND b.expires_at <= now() AND b.expires_at < 'infinity'
      ORDER BY b.expires_at
      LIMIT ${limit}::bigint
      FOR UPDATE OF b SKIP LOCKED
    ), of_users AS (
      DELETE FROM user_bans WHERE project_id = ${projectId}::int AND user_id = ANY (ARRAY(SELECT DISTINCT user_id FROM ended)) AND expires_at <= now()
    ), of_identities AS (
      DELETE FROM bans b WHERE b.ctid = ANY (ARRAY(SELECT place FROM ended WHERE user_id IS NULL))
    )
    SELECT count(*)::int AS ended FROM ended`);
  return counts?.ended ?? 0;
}
