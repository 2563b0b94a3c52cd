import { Prisma, type Queryable } from '../db/client.js';
import { LINKED_ACCOUNTS_IF_ASKED, type Placed, USER_COLUMNS, type UserRow } from './columns.js';

/*
 * Each key is looked up by itself (LATERAL, and OFFSET 0 keeps the planner from undoing it): whatever the statistics say, a
 * batch is so many index look-ups, never a scan of everybody. Keys that want accounts and keys that do not share a statement.
 */

const PLACED_USER = Prisma.sql`SELECT k.place::int AS place, ${USER_COLUMNS}, ${LINKED_ACCOUNTS_IF_ASKED}`;

export interface UserKey {
  readonly projectId: number;
  readonly id: bigint;
  readonly withAccounts: boolean;
}

/** Current users by id: at most one for each key. */
export function findUsersById(db: Queryable, keys: readonly UserKey[]): Promise<Placed<UserRow>[]> {
  return db.query(Prisma.sql`
    ${PLACED_USER}
    FROM unnest(
      ${keys.map((key) => key.projectId)}::int[],
      ${keys.map((key) => key.id)}::bigint[],
      ${keys.map((key) => key.withAccounts)}::boolean[]
    ) WITH ORDINALITY AS k(project_id, id, with_accounts, place)
    CROSS JOIN LATERAL (${userById('k', 'id')}) AS u
    WHERE u.deleted_at IS NULL`);
}

/**
 * The user, current or not, whose id is in a column of `source`. Who is current is asked outside of it: a plan made while the table
 * was empty would else take one of the indexes of current users, and read a whole project for each id for as long as it lives.
 */
export function userById(source: string, column: string): Prisma.Sql {
  const [from, id] = [Prisma.raw(source), Prisma.raw(column)];
  return Prisma.sql`SELECT * FROM users u WHERE u.project_id = ${from}.project_id AND u.id = ${from}.${id} OFFSET 0`;
}

/** What users are searched by: a folded login email, or the key of an address among their accounts. */
export type SearchedBy = 'email' | 'address';

export interface SearchKey {
  readonly projectId: number;
  readonly value: string;
  readonly withAccounts: boolean;
}

/**
 * At most `limit` users `u` who match the key `k`, in no order. An address that was linked to a removed user counts as well, as a row of
 * nulls, so that a search looks at no more links than it says.
 */
const MATCHING: Record<SearchedBy, (limit: number) => Prisma.Sql> = {
  email: (limit) => Prisma.sql`
    SELECT u.* FROM users u
    WHERE u.project_id = k.project_id AND u.login_email = k.value AND u.deleted_at IS NULL
    LIMIT ${limit}::bigint`,
  address: (limit) => Prisma.sql`
    SELECT u.*
    FROM (
      SELECT a.project_id, a.user_id FROM accounts a
      WHERE a.project_id = k.project_id AND a.address_key = k.value
      LIMIT ${limit}::bigint
    ) AS a
    LEFT JOIN LATERAL (${userById('a', 'user_id')}) AS u ON u.deleted_at IS NULL`,
};

/** Rows of a search for a few: of those with the id null the user was removed. */
export type FewRow = Placed<{ [Column in keyof UserRow]: UserRow[Column] | null }>;

/** Current users for each key, newest first; a key with `limit` rows may have more. */
export function findFewUsers(
  db: Queryable,
  by: SearchedBy,
  keys: readonly SearchKey[],
  limit: number,
): Promise<FewRow[]> {
  return db.query(Prisma.sql`
    ${PLACED_USER}
    FROM unnest(
      ${keys.map((key) => key.projectId)}::int[],
      ${keys.map((key) => key.value)}::text[],
      ${keys.map((key) => key.withAccounts)}::boolean[]
    ) WITH ORDINALITY AS k(project_id, value, with_accounts, place)
    CROSS JOIN LATERAL (${MATCHING[by](limit)}) AS u
    ORDER BY u.created_at DESC, u.id DESC`);
}

/** A user who matches, by what is needed to decide on the whole answer. */
export interface MeasuredUser {
  id: number;
  createdAt: string;
  /** As JSON the user takes no more than this in an answer of the REST interface, which has everything of a user. */
  bytes: number;
}

/** What a user takes without texts, and an account with them: names, numbers and instants at their longest. */
const USER_BYTES = 250;
const ACCOUNT_BYTES = 130;

/** User `u` as a MeasuredUser. Neither texts nor accounts are read out. */
function measured(withAccounts: boolean): Prisma.Sql {
  const accounts = Prisma.sql`(SELECT count(*) FROM accounts a WHERE a.project_id = u.project_id AND a.user_id = u.id)`;
  return Prisma.sql`
    u.id, u.created_at AS "createdAt",
    (${USER_BYTES}::int + octet_length(to_json(u.auth_value)::text) + coalesce(octet_length(u.wallet), 0)
      + ${withAccounts ? Prisma.sql`${ACCOUNT_BYTES}::int * ${accounts}` : Prisma.sql`0`})::int AS bytes`;
}

/** The current users with an email, at most `limit`. */
export function measureByEmail(
  db: Queryable,
  { projectId, value, withAccounts }: SearchKey,
  limit: number,
): Promise<MeasuredUser[]> {
  return db.query(Prisma.sql`
    SELECT ${measured(withAccounts)}
    FROM users u
    WHERE u.project_id = ${projectId}::int AND u.login_email = ${value} AND u.deleted_at IS NULL
    LIMIT ${limit}::bigint`);
}

/** The users of the next `limit` links of an address after one link, with nulls for each who was removed. */
export function measureByAddress(
  db: Queryable,
  { projectId, value, withAccounts }: SearchKey,
  afterLink: number,
  limit: number,
): Promise<({ link: number } & (MeasuredUser | { id: null }))[]> {
  return db.query(Prisma.sql`
    SELECT a.link, ${measured(withAccounts)}
    FROM (
      SELECT a.id AS link, a.project_id, a.user_id FROM accounts a
      WHERE a.project_id = ${projectId}::int AND a.address_key = ${value} AND a.id > ${afterLink}::bigint
      ORDER BY a.id
      LIMIT ${limit}::bigint
    ) AS a
    LEFT JOIN LATERAL (${userById('a', 'user_id')}) AS u ON u.deleted_at IS NULL
    ORDER BY a.link`);
}
