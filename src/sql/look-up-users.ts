import { Prisma, type Queryable } from '../db/statements.js';
import type { Identity } from '../domain/identities.js';
import type { UserDetails } from '../domain/users.js';
import { userById } from './find-users.js';
import { LINKED_ACCOUNTS } from './linked-accounts.js';
import { SHOWN_COLUMNS, toUser, type UserRow } from './user-columns.js';

/* What an operator looks up: any user by any mark, also a removed one. */

type DetailsRow = UserRow & Pick<UserDetails, 'removedAt' | 'bannedAt'>;

/** The users with these ids, current or removed, newest first. */
export async function describeUsers(db: Queryable, projectId: number, ids: readonly bigint[]): Promise<UserDetails[]> {
  const rows = await db.query<DetailsRow>(Prisma.sql`
    SELECT ${SHOWN_COLUMNS}, ${LINKED_ACCOUNTS}, u.deleted_at AS "removedAt", (
      SELECT b.created_at FROM bans b
      WHERE b.project_id = u.project_id AND b.auth_method = u.auth_method AND b.auth_value_key = u.auth_value_key
    ) AS "bannedAt"
    FROM (SELECT DISTINCT ${projectId}::int AS project_id, unnest(${ids}::bigint[]) AS id) AS k
    CROSS JOIN LATERAL (${userById('k', 'id')}) AS u
    ORDER BY u.created_at DESC, u.id DESC`);
  return rows.map((row) => {
    const { accounts = [], ...user } = toUser(row);
    return { ...user, accounts, removedAt: row.removedAt, bannedAt: row.bannedAt };
  });
}

/** The ids of the current users with this compared value, under whatever method: it looks under each that the project has. */
export async function findIdsByValue(db: Queryable, projectId: number, authValueKey: string): Promise<bigint[]> {
  const current = Prisma.sql`u.project_id = ${projectId}::int AND u.deleted_at IS NULL`;
  const rows = await db.query<{ id: number }>(Prisma.sql`
    WITH RECURSIVE methods AS (
      (SELECT u.auth_method FROM users u WHERE ${current} ORDER BY u.auth_method LIMIT 1)
      UNION ALL
      SELECT (SELECT u.auth_method FROM users u WHERE ${current} AND u.auth_method > methods.auth_method ORDER BY u.auth_method LIMIT 1)
      FROM methods WHERE methods.auth_method IS NOT NULL
    )
    SELECT found.id FROM methods CROSS JOIN LATERAL (
      -- Found as in findUsersByIdentity.
      SELECT u.id FROM users u
      WHERE ${current} AND u.auth_method = methods.auth_method
        AND u.auth_value_key >= ${authValueKey}::text AND u.auth_value_key <= ${authValueKey}::text
      ORDER BY u.auth_value_key
      LIMIT 1
    ) AS found`);
  return rows.map(({ id }) => BigInt(id));
}

/** A mark of users: an identity, a compared value under any method, a folded email, the key of an address, or an external id. */
export interface Mark {
  readonly identity?: Identity;
  readonly value?: string;
  readonly email?: string;
  readonly addressKey?: string;
  readonly externalId?: string;
}

/** The ids of at most `limit` removed users with one of the marks, the last removed first. It reads all removed users. */
export async function findRemovedIds(
  db: Queryable,
  projectId: number,
  { identity, value, email, addressKey, externalId }: Mark,
  limit: number,
): Promise<bigint[]> {
  const rows = await db.query<{ id: number }>(Prisma.sql`
    SELECT u.id FROM users u
    WHERE u.project_id = ${projectId}::int AND u.deleted_at IS NOT NULL AND (
      (u.auth_method = ${identity?.authMethod ?? null}::text AND u.auth_value_key = ${identity?.authValueKey ?? null}::text)
      OR u.auth_value_key = ${value ?? null}::text
      OR u.login_email = ${email ?? null}::text
      OR u.external_id = ${externalId ?? null}::text
      OR u.id IN (
        SELECT a.user_id FROM accounts a WHERE a.project_id = ${projectId}::int AND a.address_key = ${addressKey ?? null}::text
      )
    )
    ORDER BY u.deleted_at DESC, u.id DESC
    LIMIT ${limit}::bigint`);
  return rows.map(({ id }) => BigInt(id));
}
