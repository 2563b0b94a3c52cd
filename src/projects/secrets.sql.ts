import { keyedStatement, Prisma, type Queryable } from '../db/statements.js';
import type { Actor, Caller, NewSecret, ProjectScope, Rotation, Secret, SecretScope } from '../domain/projects.js';
import { insertAuditEntries } from './audit.sql.js';

/* The look-up of credentials is hot, and the clock of the database alone decides which secrets are live. So no statement here is a model's. */

export interface SecretRow extends Pick<ProjectScope, 'requestsPerMinute'>, Pick<Caller, 'projectName' | 'expiresAt'> {
  projectId: number;
  id: number;
  /** SHA-256 of the secret. */
  secretHash: Uint8Array;
  label: string;
  /** Separated by spaces. */
  scopes: string;
  /** True if its recorded use is less than a minute old. */
  isMarked: boolean;
  /** Milliseconds until it expires, by the database's clock at the start of the statement; null if it never does. */
  leftMs: number | null;
  /** True if the project refuses all its credentials. */
  isDisabled: boolean;
}

/** An App ID without secrets takes the same path as one with a secret, so that both take the same time. */
type NoSecretRow = { [Column in Exclude<keyof SecretRow, ProjectColumn>]: null } & Pick<SecretRow, ProjectColumn>;
type ProjectColumn = 'isDisabled' | 'requestsPerMinute' | 'projectName';

const IS_LIVE = Prisma.sql`(expires_at IS NULL OR expires_at > now())`;
const NEW_SECRET = Prisma.sql`id, scopes::text[] AS scopes, expires_at AS "expiresAt"`;

/** The live secrets of projects, by the database's clock, which all processes share. */
export const findSecrets = keyedStatement<string, SecretRow | NoSecretRow>(
  { app_id: ['text', (appId) => appId] },
  (appIds) => Prisma.sql`
    SELECT k.key_index::int AS "keyIndex", s.project_id AS "projectId", s.id, s.secret_hash AS "secretHash", s.label,
           array_to_string(s.scopes, ' ') AS scopes, s.last_used_at > now() - interval '1 minute' AS "isMarked",
           ((extract(epoch FROM s.expires_at) - extract(epoch FROM now())) * 1000)::float8 AS "leftMs",
           p.disabled_at IS NOT NULL AS "isDisabled",
           s.expires_at AS "expiresAt", p.requests_per_minute AS "requestsPerMinute", p.name AS "projectName"
    FROM ${appIds}
    LEFT JOIN projects p ON p.app_id = k.app_id
    LEFT JOIN app_secrets s ON s.project_id = p.id AND (s.expires_at IS NULL OR s.expires_at > now())`,
);

/** Records that a secret is used now, at most once a minute, however many processes see it. */
export async function markSecretUsed(db: Queryable, projectId: number, id: number): Promise<void> {
  await db.query(Prisma.sql`
    UPDATE app_secrets SET last_used_at = now()
    WHERE project_id = ${projectId} AND id = ${id}
      AND (last_used_at IS NULL OR last_used_at <= now() - interval '1 minute')`);
}

/** Every secret that the project ever had, oldest first. */
export function listSecrets(db: Queryable, projectId: number): Promise<Secret[]> {
  return db.query(Prisma.sql`
    SELECT id, label, scopes::text[] AS scopes, created_at AS "createdAt", last_used_at AS "lastUsedAt",
           expires_at AS "expiresAt", ${IS_LIVE} AS "isLive"
    FROM app_secrets
    WHERE project_id = ${projectId}
    ORDER BY id`);
}

export interface AddedSecret extends Pick<SecretRow, 'secretHash' | 'label'> {
  readonly scopes: readonly SecretScope[];
  /** From now; null for a secret that never expires. */
  readonly expiresInMs: number | null;
}

/** Adds a secret, with an audit entry; nothing if a secret of this label is live. */
export async function insertSecret(
  tx: Queryable,
  actor: Actor,
  { secretHash, label, scopes, expiresInMs }: AddedSecret,
): Promise<Omit<NewSecret, 'appSecret'> | undefined> {
  const entry = Prisma.sql`
    SELECT NULL::bigint, jsonb_build_object('secret', id, 'label', label, 'scopes', scopes) FROM added`;
  const [added] = await tx.query<Omit<NewSecret, 'appSecret'>>(Prisma.sql`
    WITH added AS (
      INSERT INTO app_secrets (project_id, secret_hash, label, scopes, expires_at)
      SELECT ${actor.projectId}::int, ${secretHash}::bytea, ${label}::text, ${scopes}::secret_scope[],
             now() + ${expiresInMs}::float8 * interval '1 millisecond'
      WHERE NOT EXISTS (
        SELECT FROM app_secrets WHERE project_id = ${actor.projectId}::int AND label = ${label}::text AND ${IS_LIVE}
      )
      RETURNING *
    ), audited AS (
      ${insertAuditEntries(actor, 'add_secret', entry)}
    )
    SELECT ${NEW_SECRET} FROM added`);
  return added;
}

export interface ReplacingSecret {
  readonly secretHash: Uint8Array;
  readonly label: string;
  readonly overlapMs: number;
}

/**
 * Replaces the live secret of a label by a new one, with an audit entry. Returns nothing if the label never had a secret.
 * The old one ends `overlapMs` from now, or earlier if it was to; those before it keep their end, unless all end at once.
 * One statement has one clock, so the project always has a live secret.
 */
export async function replaceSecret(
  tx: Queryable,
  actor: Actor,
  { secretHash, label, overlapMs }: ReplacingSecret,
): Promise<Omit<Rotation, 'appSecret'> | undefined> {
  const { projectId } = actor;
  const overlapEnd = Prisma.sql`(now() + ${overlapMs}::float8 * interval '1 millisecond')::timestamptz(3)`;
  const entry = Prisma.sql`
    SELECT NULL::bigint, jsonb_build_object('secret', id, 'label', label, 'ended', ARRAY(SELECT id FROM ended ORDER BY id), 'ended_at', ${overlapEnd})
    FROM made`;
  const [rotation] = await tx.query<Omit<Rotation, 'appSecret'>>(Prisma.sql`
    WITH newest AS (
      SELECT id, scopes, CASE WHEN expires_at > now() THEN expires_at END AS expires_at
      FROM app_secrets
      WHERE project_id = ${projectId}::int AND label = ${label}::text
      ORDER BY id DESC
      LIMIT 1
    ), made AS (
      INSERT INTO app_secrets (project_id, secret_hash, label, scopes, expires_at)
      SELECT ${projectId}::int, ${secretHash}::bytea, ${label}::text, scopes, expires_at
      FROM newest
      RETURNING *
    ), ended AS (
      UPDATE app_secrets SET expires_at = least(expires_at, ${overlapEnd})
      WHERE project_id = ${projectId}::int AND label = ${label}::text AND ${IS_LIVE}
        AND (${overlapMs}::float8 = 0 OR id = (SELECT id FROM newest))
      RETURNING id
    ), audited AS (
      ${insertAuditEntries(actor, 'rotate', entry)}
    )
    SELECT ${NEW_SECRET}, ${overlapEnd} AS "previousExpiresAt",
           ARRAY(
             SELECT DISTINCT label FROM app_secrets
             WHERE project_id = ${projectId}::int AND label <> ${label}::text AND ${IS_LIVE}
             ORDER BY label
           ) AS "otherLabels"
    FROM made`);
  return rotation;
}

/** Ends a secret now, with an audit entry if it was live. Returns its label; nothing if the project has no such secret. */
export async function endSecret(db: Queryable, actor: Actor, id: number): Promise<string | undefined> {
  const entry = Prisma.sql`SELECT NULL::bigint, jsonb_build_object('secret', id, 'label', label) FROM revoked`;
  const [secret] = await db.query<{ label: string }>(Prisma.sql`
    WITH revoked AS (
      UPDATE app_secrets SET expires_at = now()
      WHERE project_id = ${actor.projectId}::int AND id = ${id}::int AND ${IS_LIVE}
      RETURNING id, label
    ), audited AS (
      ${insertAuditEntries(actor, 'revoke', entry)}
    )
    SELECT label FROM app_secrets WHERE project_id = ${actor.projectId}::int AND id = ${id}::int`);
  return secret?.label;
}
