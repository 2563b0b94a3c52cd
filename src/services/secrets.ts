import { type Database, Prisma, type Queryable, SecretScope } from '../db/client.js';
import { AppError, badInput } from '../errors.js';
import { isTooLong } from '../input-limits.js';
import { recordActs } from '../sql/audit.js';
import { OPERATOR, type ProjectScope } from './projects.js';
import { hashSecret, makeSecret } from '../domain/secret-format.js';

export interface Secret {
  readonly id: number;
  readonly label: string;
  readonly scopes: SecretScope[];
  /** Instants are ISO 8601 text. */
  readonly createdAt: string;
  readonly lastUsedAt: string | null;
  readonly expiresAt: string | null;
  readonly isLive: boolean;
}

/** A secret as it is shown, this once. */
export interface NewSecret {
  readonly id: number;
  readonly appSecret: string;
  readonly scopes: SecretScope[];
  readonly expiresAt: string | null;
}

export interface Rotation extends NewSecret {
  /** When those end that were replaced. */
  readonly previousExpiresAt: string;
  /** Labels of secrets that stay as they are. */
  readonly otherLabels: string[];
}

export const SECRET_SCOPES = Object.values(SecretScope);
export const MAIN_LABEL = 'main';
const LABEL = /^(?=\S)[^\p{C}\p{Zl}\p{Zp}]{1,64}(?<=\S)$/u;

const IS_LIVE = Prisma.sql`(expires_at IS NULL OR expires_at > now())`;
const NEW_SECRET = Prisma.sql`id, scopes::text[] AS scopes, expires_at AS "expiresAt"`;

/**
 * The secrets of a project, for the operator. Several may live at a time; those that do and have the same label are one secret
 * and its predecessors, of the same scopes. `onEnded` is told when some have ended.
 */
export function createSecrets(db: Database, randomBytes: (size: number) => Buffer, onEnded: () => void) {
  /** One change at a time in a project: of two rotations the later replaces what the earlier has made. */
  function exclusively<Result>(projectId: number, change: (tx: Queryable) => Promise<Result>): Promise<Result> {
    return db.transaction('READ COMMITTED', async (tx) => {
      await tx.query(Prisma.sql`SELECT FROM projects WHERE id = ${projectId} FOR NO KEY UPDATE`);
      return change(tx);
    });
  }

  return {
    /** Every secret that the project ever had, oldest first. */
    listSecrets(scope: ProjectScope): Promise<Secret[]> {
      return db.query(Prisma.sql`
        SELECT id, label, scopes::text[] AS scopes, created_at AS "createdAt", last_used_at AS "lastUsedAt",
               expires_at AS "expiresAt", ${IS_LIVE} AS "isLive"
        FROM app_secrets
        WHERE project_id = ${scope.idFor('operate')}
        ORDER BY id`);
    },

    /** One more secret, which ends `expiresInMs` from now (null: never). BAD_USER_INPUT; CONFLICT where one of this label lives. */
    async addSecret(
      scope: ProjectScope,
      { label, scopes, expiresInMs }: { label: string; scopes: readonly SecretScope[]; expiresInMs: number | null },
    ): Promise<NewSecret> {
      const actor = scope.actorFor('operate', null);
      requireLabel(label);
      const appSecret = makeSecret(randomBytes);
      const [added] = await exclusively(actor.projectId, (tx) =>
        tx.query<Omit<NewSecret, 'appSecret'>>(Prisma.sql`
          WITH added AS (
            INSERT INTO app_secrets (project_id, secret_hash, label, scopes, expires_at)
            SELECT ${actor.projectId}::int, ${hashSecret(appSecret)}::bytea, ${label}::text, ${scopes}::secret_scope[],
                   now() + ${expiresInMs}::float8 * interval '1 millisecond'
            WHERE NOT EXISTS (
              SELECT FROM app_secrets WHERE project_id = ${actor.projectId}::int AND label = ${label}::text AND ${IS_LIVE}
            )
            RETURNING *
          ), audited AS (
            ${recordActs(actor, 'add_secret', Prisma.sql`SELECT NULL::bigint, jsonb_build_object('secret', id, 'label', label, 'scopes', scopes) FROM added`)}
          )
          SELECT ${NEW_SECRET} FROM added`),
      );
      if (added === undefined) {
        throw new AppError('CONFLICT', `A secret labelled ${label} lives: rotate it, or choose another label.`);
      }
      return { ...added, appSecret };
    },

    /**
     * A new secret in the place of the live ones of a label, which end `overlapMs` from now (0: at once) unless they end
     * before that. It has their scopes, and their end where they were to have one. NOT_FOUND where there never was one.
     */
    async rotateSecret(
      scope: ProjectScope,
      { label = MAIN_LABEL, overlapMs }: { label?: string; overlapMs: number },
    ): Promise<Rotation> {
      const actor = scope.actorFor('operate', null);
      const { projectId } = actor;
      const appSecret = makeSecret(randomBytes);
      const overlapEnd = Prisma.sql`(now() + ${overlapMs}::float8 * interval '1 millisecond')::timestamptz(3)`;
      // One statement and one clock: at no instant has the project no valid secret.
      const [made] = await exclusively(projectId, (tx) =>
        tx.query<Omit<Rotation, 'appSecret'>>(Prisma.sql`
          WITH newest AS (
            SELECT scopes, CASE WHEN expires_at > now() THEN expires_at END AS expires_at
            FROM app_secrets
            WHERE project_id = ${projectId}::int AND label = ${label}::text
            ORDER BY id DESC
            LIMIT 1
          ), made AS (
            INSERT INTO app_secrets (project_id, secret_hash, label, scopes, expires_at)
            SELECT ${projectId}::int, ${hashSecret(appSecret)}::bytea, ${label}::text, scopes, expires_at FROM newest
            RETURNING *
          ), ended AS (
            UPDATE app_secrets SET expires_at = least(expires_at, ${overlapEnd})
            WHERE project_id = ${projectId}::int AND label = ${label}::text AND ${IS_LIVE}
            RETURNING id
          ), audited AS (
            ${recordActs(
              actor,
              'rotate',
              Prisma.sql`
                SELECT NULL::bigint, jsonb_build_object('secret', id, 'label', label, 'ended', ARRAY(SELECT id FROM ended ORDER BY id), 'ended_at', ${overlapEnd})
                FROM made`,
            )}
          )
          SELECT ${NEW_SECRET}, ${overlapEnd} AS "previousExpiresAt",
                 ARRAY(
                   SELECT DISTINCT label FROM app_secrets
                   WHERE project_id = ${projectId}::int AND label <> ${label}::text AND ${IS_LIVE}
                   ORDER BY label
                 ) AS "otherLabels"
          FROM made`),
      );
      if (made === undefined) {
        throw new AppError('NOT_FOUND', `The project has no secret labelled ${JSON.stringify(label)}.`);
      }
      onEnded();
      return { ...made, appSecret };
    },

    /** Ends a secret at once; twice is as once. Returns its label. NOT_FOUND. */
    async revokeSecret(scope: ProjectScope, id: number): Promise<string> {
      const actor = scope.actorFor('operate', null);
      const [secret] = await db.query<{ label: string }>(Prisma.sql`
        WITH revoked AS (
          UPDATE app_secrets SET expires_at = now()
          WHERE project_id = ${actor.projectId}::int AND id = ${id}::int AND ${IS_LIVE}
          RETURNING id, label
        ), audited AS (
          ${recordActs(actor, 'revoke', Prisma.sql`SELECT NULL::bigint, jsonb_build_object('secret', id, 'label', label) FROM revoked`)}
        )
        SELECT label FROM app_secrets WHERE project_id = ${actor.projectId}::int AND id = ${id}::int`);
      if (secret === undefined) throw new AppError('NOT_FOUND', `The project has no secret ${id}.`);
      onEnded();
      return secret.label;
    },
  };
}

function requireLabel(label: string): void {
  if (!isTooLong('secretLabel', label) && LABEL.test(label) && label !== OPERATOR) return;
  throw badInput('label', label, `1 to 64 printable characters on one line, and not ${OPERATOR}`);
}
