import { Prisma, type Queryable } from '../db/statements.js';
import type { Position } from '../domain/cursors.js';
import type { Identity } from '../domain/identities.js';
import { LARGEST_ID } from '../domain/parse.js';
import type { UserDetails } from '../domain/users.js';
import { userById } from './find-users.sql.js';
import { banOfUser, LINKED_ACCOUNTS, SHOWN_COLUMNS, toUser, type UserRow } from './user-columns.sql.js';

/* Users as operators see them, removed ones too, whom they look up by any mark. */

type DetailsRow = UserRow &
  Pick<UserDetails, 'removedAt' | 'mergedInto'> & {
    bannedAt: string | null;
    bannedMethod: string;
    bannedValue: string;
    isOfUser: boolean;
    reason: string | null;
    expiresAt: string | null;
  };

/** The users with these ids, current or removed, newest first. */
export async function describeUsers(db: Queryable, projectId: number, ids: readonly bigint[]): Promise<UserDetails[]> {
  const rows = await db.query<DetailsRow>(Prisma.sql`
    SELECT ${SHOWN_COLUMNS}, ${LINKED_ACCOUNTS}, u.deleted_at AS "removedAt",
           u.merged_into AS "mergedInto", b.created_at AS "bannedAt", nullif(b.reason, '') AS reason, nullif(b.expires_at, 'infinity') AS "expiresAt",
           b.auth_method AS "bannedMethod", b.auth_value AS "bannedValue", b.user_id IS NOT DISTINCT FROM u.id AS "isOfUser"
    FROM (SELECT DISTINCT ${projectId}::int AS project_id, unnest(${ids}::bigint[]) AS id) AS k
    CROSS JOIN LATERAL (${userById('k', 'id')}) AS u
    LEFT JOIN LATERAL (${banOfUser(Prisma.sql`b.*`)}) AS b ON true
    ORDER BY u.created_at DESC, u.id DESC`);
  return rows.map((row) => {
    const { accounts = [], ...user } = toUser(row);
    const { removedAt, mergedInto } = row;
    return {
      ...user,
      accounts,
      removedAt,
      mergedInto,
      ban: banOfRow(row),
    };
  });
}

function banOfRow({ bannedAt, bannedMethod, bannedValue, ...row }: DetailsRow): UserDetails['ban'] {
  if (bannedAt === null) return null;
  return {
    authMethod: bannedMethod,
    authValue: bannedValue,
    createdAt: bannedAt,
    reason: row.reason,
    expiresAt: row.expiresAt,
    isOfUser: row.isOfUser,
  };
}

/** A user with this id, current or removed; null if the project has none. */
export async function describeUser(db: Queryable, projectId: number, id: bigint): Promise<UserDetails | null> {
  const [user] = id > LARGEST_ID ? [] : await describeUsers(db, projectId, [id]);
  return user ?? null;
}

/** A mark of users: an identity, a compared value under any method, a folded email, the key of an address, or an external id. */
export interface Mark {
  readonly identity?: Identity;
  readonly value?: string;
  readonly email?: string;
  readonly addressKey?: string;
  readonly externalId?: string;
}

/** Asks for a page of removed users by the time of the removal, after the place of a user who may be gone. */
export interface RemovedPage {
  readonly after: Position | null;
  readonly limit: number;
  readonly order: 'newest first' | 'oldest first';
}

/** The ids of a page of removed users. */
export async function listRemovedIds(db: Queryable, projectId: number, page: RemovedPage): Promise<bigint[]> {
  const [isAfter, direction, start] =
    page.order === 'newest first'
      ? [Prisma.sql`<`, Prisma.sql`DESC`, 'infinity']
      : [Prisma.sql`>`, Prisma.empty, '-infinity'];
  const { createdAt, id } = page.after ?? { createdAt: start, id: 0 };
  const rows = await db.query<{ id: number }>(Prisma.sql`
    SELECT u.id FROM users u
    WHERE u.project_id = ${projectId}::int AND u.deleted_at IS NOT NULL
      AND (u.deleted_at, u.id) ${isAfter} (${createdAt}::timestamptz, ${id}::bigint)
    ORDER BY u.deleted_at ${direction}, u.id ${direction}
    LIMIT ${page.limit}::bigint`);
  return rows.map((row) => BigInt(row.id));
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
      OR u.login_email = ${email ?? null}::text OR u.identity_email = ${email ?? null}::text
      OR u.external_id = ${externalId ?? null}::text
      OR u.id IN (
        SELECT i.user_id FROM identities i
        WHERE i.project_id = ${projectId}::int AND i.removed AND (
          (i.auth_method = ${identity?.authMethod ?? null}::text AND i.auth_value_key = ${identity?.authValueKey ?? null}::text)
          OR i.auth_value_key = ${value ?? null}::text OR i.login_email = ${email ?? null}::text
        )
      )
      OR u.id IN (
        SELECT a.user_id FROM accounts a WHERE a.project_id = ${projectId}::int AND a.address_key = ${addressKey ?? null}::text
      )
    )
    ORDER BY u.deleted_at DESC, u.id DESC
    LIMIT ${limit}::bigint`);
  return rows.map(({ id }) => BigInt(id));
}
