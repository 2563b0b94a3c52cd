import { Prisma, type Queryable } from '../db/client.js';
import { LINKED_ACCOUNTS, type Placed, USER_COLUMNS, type UserRow } from './columns.js';

/*
 * Each key is looked up by itself (LATERAL, and OFFSET 0 keeps the planner from undoing it): whatever the statistics say, a
 * batch is so many index look-ups, never a scan of everybody.
 */

const PLACED_USER = Prisma.sql`SELECT k.place::int AS place, ${USER_COLUMNS}, ${LINKED_ACCOUNTS}`;
const NEWEST_FIRST = Prisma.sql`ORDER BY u.created_at DESC, u.id DESC`;

/** Current users by id: at most one for each key. */
export function findUsersById(
  db: Queryable,
  keys: readonly { projectId: number; id: bigint }[],
): Promise<Placed<UserRow>[]> {
  return db.query(Prisma.sql`
    ${PLACED_USER}
    FROM unnest(${keys.map((key) => key.projectId)}::int[], ${keys.map((key) => key.id)}::bigint[])
      WITH ORDINALITY AS k(project_id, id, place)
    CROSS JOIN LATERAL (
      SELECT * FROM users u WHERE u.project_id = k.project_id AND u.id = k.id AND u.deleted_at IS NULL OFFSET 0
    ) AS u`);
}

/** Current users by folded login email, newest first within each key. */
export function findUsersByEmail(
  db: Queryable,
  keys: readonly { projectId: number; email: string }[],
): Promise<Placed<UserRow>[]> {
  return db.query(Prisma.sql`
    ${PLACED_USER}
    FROM unnest(${keys.map((key) => key.projectId)}::int[], ${keys.map((key) => key.email)}::text[])
      WITH ORDINALITY AS k(project_id, email, place)
    CROSS JOIN LATERAL (
      SELECT * FROM users u WHERE u.project_id = k.project_id AND u.login_email = k.email AND u.deleted_at IS NULL OFFSET 0
    ) AS u
    ${NEWEST_FIRST}`);
}

/** Current users by the address of any of their accounts, newest first within each key. */
export function findUsersByAddress(
  db: Queryable,
  keys: readonly { projectId: number; addressKey: string }[],
): Promise<Placed<UserRow>[]> {
  return db.query(Prisma.sql`
    ${PLACED_USER}
    FROM unnest(${keys.map((key) => key.projectId)}::int[], ${keys.map((key) => key.addressKey)}::text[])
      WITH ORDINALITY AS k(project_id, address_key, place)
    CROSS JOIN LATERAL (
      SELECT u.*
      FROM accounts a
      JOIN users u ON u.project_id = a.project_id AND u.id = a.user_id
      WHERE a.project_id = k.project_id AND a.address_key = k.address_key AND u.deleted_at IS NULL
      OFFSET 0
    ) AS u
    ${NEWEST_FIRST}`);
}
