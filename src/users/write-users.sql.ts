import { isUniqueViolation } from '../db/failures.js';
import { type KeyColumns, keyedWrite, Prisma, type Queryable, THIS_INSTANT } from '../db/statements.js';
import { externalIdKept, externalIdTaken } from '../domain/identities.js';
import type { Actor } from '../domain/projects.js';
import type { NewValues } from '../domain/user-changes.js';
import type { User } from '../domain/users.js';
import { insertAuditEntries } from '../projects/audit.sql.js';
import { EARLIER, type Earlier, KEY_COLUMNS, type MaybeRetried, storeAnswers } from '../projects/idempotency.sql.js';
import { currentUserBy, userById } from './find-users.sql.js';
import { CHANGEABLE_COLUMNS, isBanned, SHOWN_COLUMNS } from './user-columns.sql.js';

/** A removal of a user. */
export interface Removal extends MaybeRetried {
  readonly projectId: number;
  readonly actor: Actor;
  readonly id: bigint;
}

/** The outcome of a removal. */
export interface RemovalRow {
  readonly isRemoved: boolean;
  /** Of an earlier removal with the same key, which has no other answer. */
  readonly earlier: Earlier<null> | null;
}

const NEW_IDS = Prisma.sql`SELECT id FROM k WHERE earlier IS NULL`;

/** Removes current users of one project, with audit entries, except by a key with an answer. Without `waits`, a lock fails soon (55P03). */
export const removeUsers = keyedWrite<Removal, RemovalRow>(
  {
    project_id: ['int', ({ projectId }) => projectId],
    id: ['bigint', ({ id }) => id],
    actor: ['text', ({ actor }) => actor.actor],
    request_id: ['text', ({ actor }) => actor.requestId],
    ...KEY_COLUMNS,
  },
  // Written so that it fits no index of current users, for the reason that userById has (find-users.sql.ts).
  (keys, isLone) => Prisma.sql`
    WITH k AS MATERIALIZED (
      SELECT k.*, ${EARLIER} AS earlier FROM ${keys}
    ), removed AS (
      UPDATE users SET deleted_at = ${THIS_INSTANT}
      WHERE project_id = (SELECT project_id FROM k LIMIT 1)
        AND id = ${isLone ? Prisma.sql`(${NEW_IDS})` : Prisma.sql`ANY (ARRAY(${NEW_IDS}))`}
        AND (deleted_at IS NULL)::int = 1
      RETURNING id
    ), audited AS (
      INSERT INTO audit_log (project_id, actor, request_id, action, user_id, details)
      SELECT project_id, actor, request_id, 'remove', id, '{}' FROM k JOIN removed USING (id)
    ), stored AS (
      ${storeAnswers(Prisma.sql`'null'::jsonb`, Prisma.sql`k JOIN removed USING (id)`)}
    )
    SELECT k.key_index::int AS "keyIndex", removed.id IS NOT NULL AS "isRemoved", k.earlier FROM k LEFT JOIN removed USING (id)`,
);

/** A change of a user by a backend or an operator. */
export interface Update extends MaybeRetried {
  readonly projectId: number;
  readonly actor: Actor;
  readonly id: bigint;
  readonly changes: NewValues;
}

/** The reason why nothing was written, or the user as they are now. */
export interface UpdateRow extends User {
  readonly refusal: 'no user' | 'email is identity' | 'email banned' | 'external id taken' | null;
  readonly takenBy: number | null;
  /** Of an earlier update with the same key, which has no other answer. */
  readonly earlier: Earlier<null> | null;
}

/** The values that an update gives, each with whether it gives it. */
const CHANGE_COLUMNS: KeyColumns<Update> = Object.fromEntries(
  CHANGEABLE_COLUMNS.flatMap(({ name, type, field }) => {
    const changeIn = ({ changes }: Update) => changes[field as keyof NewValues];
    return [
      [`sets_${name}`, ['boolean', (update) => changeIn(update) !== undefined]],
      [name, [type, changeIn]],
    ] satisfies [string, KeyColumns<Update>[string]][];
  }),
);

/** The names of the fields that an update `k` changes of the user `had`. */
const CHANGED_FIELDS = Prisma.raw(
  CHANGEABLE_COLUMNS.map(
    ({ name, line }) => `CASE WHEN k.sets_${name} AND k.${name} IS DISTINCT FROM had.${name} THEN '${line}' END`,
  ).join(', '),
);

/** The changes of the user `u` by the update `judged`. */
const CHANGED_VALUES = Prisma.raw(
  CHANGEABLE_COLUMNS.map(
    ({ name }) => `${name} = CASE WHEN judged.sets_${name} THEN judged.${name} ELSE u.${name} END`,
  ).join(', '),
);

const updateUsers = keyedWrite<Update, UpdateRow>(
  {
    project_id: ['int', ({ projectId }) => projectId],
    id: ['bigint', ({ id }) => id],
    actor: ['text', ({ actor }) => actor.actor],
    request_id: ['text', ({ actor }) => actor.requestId],
    sets_email: ['boolean', ({ changes }) => changes.saidEmail !== undefined],
    login_email: ['text', ({ changes }) => changes.saidEmail],
    ...CHANGE_COLUMNS,
    ...KEY_COLUMNS,
  },
  (keys) => Prisma.sql`
    WITH k AS MATERIALIZED (
      SELECT k.*, ${EARLIER} AS earlier FROM ${keys}
    ), had AS MATERIALIZED (
      SELECT u.* FROM k CROSS JOIN LATERAL (${userById('k', 'id')} FOR NO KEY UPDATE) AS u WHERE u.deleted_at IS NULL
    ), other AS (
      SELECT other.id FROM k CROSS JOIN LATERAL (${currentUserBy('external_id')}) AS other WHERE other.id <> k.id
    ), judged AS (
      SELECT k.*, (SELECT id FROM other) AS taken_by, CASE
        WHEN had.id IS NULL THEN 'no user'
        WHEN had.changes_email AND had.auth_method = 'email' AND k.login_email IS NULL THEN 'email is identity'
        WHEN EXISTS (SELECT FROM other) THEN 'external id taken'
        WHEN had.sets_identity AND ${isBanned('e')} THEN 'email banned'
      END AS refusal,
      had.changes_email, had.sets_identity,
      k.sets_email AND had.said_email IS DISTINCT FROM coalesce(k.login_email, '') AS says_email,
      concat_ws(' ',
        CASE WHEN had.changes_email THEN 'email' END,
        ${CHANGED_FIELDS}
      ) AS fields
      FROM k LEFT JOIN LATERAL (
        SELECT had.*, k.sets_email AND k.login_email IS DISTINCT FROM had.login_email AS changes_email,
          k.sets_email AND k.login_email IS DISTINCT FROM had.login_email AND had.auth_method = 'email'
            AND k.login_email <> had.auth_value_key AS sets_identity
        FROM had
      ) AS had ON true
      CROSS JOIN LATERAL (SELECT k.project_id, 'email' AS auth_method, k.login_email AS auth_value_key) AS e
    ), updated AS (
      -- The address of a user who logs in by email is the identity, which changes with it.
      UPDATE users u SET
        auth_value = CASE WHEN judged.sets_identity THEN judged.login_email ELSE u.auth_value END,
        auth_value_key = CASE WHEN judged.sets_identity THEN judged.login_email ELSE u.auth_value_key END,
        identity_at = CASE WHEN judged.sets_identity THEN ${THIS_INSTANT} ELSE u.identity_at END,
        identity_login = CASE WHEN judged.sets_identity THEN '-infinity' ELSE u.identity_login END,
        identity_email = CASE WHEN judged.changes_email AND (judged.sets_identity OR u.auth_method <> 'email') THEN judged.login_email ELSE u.identity_email END,
        email_verified = CASE WHEN judged.changes_email AND (judged.sets_identity OR u.auth_method <> 'email')
          AND judged.login_email IS DISTINCT FROM u.identity_email THEN NULL ELSE u.email_verified END,
        said_email = CASE WHEN judged.sets_email THEN coalesce(judged.login_email, '') ELSE u.said_email END,
        ${CHANGED_VALUES}
      FROM judged
      WHERE u.project_id = judged.project_id AND u.id = judged.id
        AND judged.refusal IS NULL AND judged.earlier IS NULL AND (judged.fields <> '' OR judged.says_email)
      RETURNING u.*
    ), audited AS (
      INSERT INTO audit_log (project_id, actor, request_id, action, user_id, details)
      SELECT judged.project_id, actor, request_id, 'update', updated.id, jsonb_build_object('fields', string_to_array(judged.fields, ' '))
      FROM judged JOIN updated USING (id) WHERE judged.fields <> ''
    ), stored AS (
      ${storeAnswers(Prisma.sql`'null'::jsonb`, Prisma.sql`(SELECT * FROM judged WHERE refusal IS NULL AND earlier IS NULL) AS k`)}
    )
    SELECT k.key_index::int AS "keyIndex", k.refusal, k.taken_by AS "takenBy", k.earlier, ${SHOWN_COLUMNS}
    FROM judged k LEFT JOIN (
      SELECT * FROM updated UNION ALL SELECT * FROM had WHERE NOT EXISTS (SELECT FROM updated)
    ) AS u ON true`,
);

/** Changes a current user, with an audit entry, unless nothing is different or the key has an answer. Without `waits`, a lock fails soon (55P03). */
export async function updateUser(db: Queryable, update: Update, waits: boolean): Promise<UpdateRow> {
  const [row] = await updateUsers(db, [update], waits);
  return row as UpdateRow;
}

/** Locks a current user, and reads the metadata. Null if there is none. */
export async function lockMetadata(tx: Queryable, projectId: number, id: bigint) {
  const [row] = await tx.query<{ metadata: object | null }>(Prisma.sql`
    SELECT u.metadata FROM users u
    WHERE u.project_id = ${projectId}::int AND u.id = ${id}::bigint AND (u.deleted_at IS NULL)::int = 1
    FOR NO KEY UPDATE`);
  return row ?? null;
}

/** The outcome of a restoration. `takenBy` is the user who has an identity or the external id now, or all of a merged one, if that user is known. */
export interface Restoration {
  readonly outcome: 'restored' | 'current' | 'unknown' | 'merged' | 'identity taken' | 'external id taken';
  readonly takenBy: number | null;
  /** The method of the identity that is taken. */
  readonly method: string | null;
}

/** Makes a removed user current again, with an audit entry, unless another user has what the user had by now. */
export async function restoreUser(db: Queryable, actor: Actor, id: bigint): Promise<Restoration> {
  const { projectId } = actor;
  const statement = Prisma.sql`
    WITH before AS (
      SELECT u.id, u.deleted_at IS NOT NULL AS removed, u.merged_into, taken.id AS taken_by, taken.auth_method, (
        SELECT other.id FROM users other
        WHERE other.project_id = u.project_id AND other.external_id = u.external_id AND other.deleted_at IS NULL
      ) AS external_id_taken_by
      FROM users u LEFT JOIN LATERAL (
        SELECT coalesce(
          (SELECT other.id FROM users other WHERE other.project_id = k.project_id AND other.auth_method = k.auth_method
            AND other.auth_value_key = k.auth_value_key AND other.deleted_at IS NULL),
          linked_user(k.project_id, k.auth_method, k.auth_value_key)
        ) AS id, k.auth_method
        FROM (
          SELECT u.project_id, u.auth_method, u.auth_value_key
          UNION ALL
          SELECT i.project_id, i.auth_method, i.auth_value_key FROM identities i WHERE i.project_id = u.project_id AND i.user_id = u.id
        ) AS k
        ORDER BY 1 LIMIT 1
      ) AS taken ON true
      WHERE u.project_id = ${projectId}::int AND u.id = ${id}::bigint
    ), restored AS (
      UPDATE users u SET deleted_at = NULL FROM before
      WHERE u.project_id = ${projectId}::int AND u.id = before.id AND u.deleted_at IS NOT NULL AND before.merged_into IS NULL
        AND before.taken_by IS NULL AND before.external_id_taken_by IS NULL
      RETURNING u.id
    ), audited AS (
      ${insertAuditEntries(actor, 'restore', Prisma.sql`SELECT id, '{}'::jsonb FROM restored`)}
    )
    SELECT CASE
        WHEN EXISTS (SELECT FROM restored) THEN 'restored'
        WHEN merged_into IS NOT NULL THEN 'merged'
        WHEN removed AND taken_by IS NOT NULL THEN 'identity taken'
        WHEN removed AND external_id_taken_by IS NOT NULL THEN 'external id taken'
        ELSE 'current'
      END AS outcome, coalesce(merged_into, taken_by, external_id_taken_by) AS "takenBy", auth_method AS method
    FROM before`;
  const [restoration] = await db.query<Restoration>(statement).catch((error): Restoration[] => {
    // Another user has got the external id, or the identity has registered, while this statement ran.
    if (isExternalIdTaken(error)) return [{ outcome: 'external id taken', takenBy: null, method: null }];
    if (isUniqueViolation(error)) return [{ outcome: 'identity taken', takenBy: null, method: null }];
    throw error;
  });
  return restoration ?? { outcome: 'unknown', takenBy: null, method: null };
}

/** Of users: removed more than `olderThanMs` ago. */
const removedBefore = (olderThanMs: number) =>
  Prisma.sql`deleted_at < now() - ${olderThanMs}::float8 * interval '1 millisecond'`;

/** The number of users who were removed more than `olderThanMs` ago. */
export async function countRemoved(db: Queryable, projectId: number, olderThanMs: number): Promise<number> {
  const [row] = await db.query<{ count: number }>(Prisma.sql`
    SELECT count(*) FROM users
    WHERE project_id = ${projectId} AND ${removedBefore(olderThanMs)}`);
  return row?.count ?? 0;
}

/** Erases up to `limit` of them with their accounts, the longest removed first, with an audit entry. Returns how many. */
export async function purgeRemoved(db: Queryable, actor: Actor, olderThanMs: number, limit: number): Promise<number> {
  const entry = Prisma.sql`SELECT NULL::bigint, jsonb_build_object('purged', count(*)) FROM purged HAVING count(*) > 0`;
  const [row] = await db.query<{ purged: number }>(Prisma.sql`
    WITH purged AS (
      DELETE FROM users
      WHERE project_id = ${actor.projectId} AND id = ANY (ARRAY(
        SELECT id FROM users
        WHERE project_id = ${actor.projectId} AND ${removedBefore(olderThanMs)}
        ORDER BY deleted_at
        LIMIT ${limit}::bigint
      ))
      RETURNING id
    ), audited AS (
      ${insertAuditEntries(actor, 'purge', entry)}
    )
    SELECT count(*)::int AS purged FROM purged`);
  return row?.purged ?? 0;
}

/** Throws the error of a statement that writes external ids: CONFLICT if the database refused one, else as it is. */
export function throwExternalIdError(error: unknown): never {
  const { constraint } = error as { constraint?: unknown };
  if (constraint === 'users_external_id_is_kept') throw externalIdKept();
  throw isExternalIdTaken(error) ? externalIdTaken() : error;
}

/** True if a statement failed because another current user has an external id. */
export function isExternalIdTaken(error: unknown): boolean {
  return (error as { constraint?: unknown }).constraint === 'users_external_id_key';
}
