import { Prisma, type Queryable } from '../db/client.js';
import type { Profile } from '../domain/identities.js';
import { isToBeLinked } from './record-login.js';

/** A user as an import writes it; what is null is left to the database (or, in an update, as it is). */
export interface UserRecord extends Profile {
  readonly createdAt: Date | null;
  readonly lastLogin: Date | null;
  readonly loginCount: number | null;
}

/** What to do with an identity that is a user already. */
export type OnConflict = 'skip' | 'update' | 'fail';

export interface WrittenUser {
  /** Index of its record. */
  place: number;
  /** Accounts that were added. */
  accounts: number;
}

/**
 * Writes users with their accounts in one statement and returns those written; a record that is missing there met a user
 * who exists. With 'update', fields that a record gives replace the user's, and accounts are added but never taken away.
 * No two records may be of the same identity.
 */
export function writeUsers(
  db: Queryable,
  projectId: number,
  records: readonly UserRecord[],
  onConflict: OnConflict,
): Promise<WrittenUser[]> {
  const resolution =
    onConflict === 'update'
      ? Prisma.sql`DO UPDATE SET
          auth_value = excluded.auth_value,
          login_email = coalesce(excluded.login_email, existing.login_email),
          wallet = coalesce(excluded.wallet, existing.wallet),
          created_at = coalesce((SELECT r.created_at FROM record r WHERE r.id = excluded.id), existing.created_at),
          last_login = coalesce(excluded.last_login, existing.last_login),
          login_count = coalesce((SELECT r.login_count FROM record r WHERE r.id = excluded.id), existing.login_count)`
      : Prisma.sql`DO NOTHING`;
  // Of a user who is new no account can exist. The login wallet of one who is not may be linked as custodial.
  const accountResolution =
    onConflict === 'update'
      ? Prisma.sql`ON CONFLICT (project_id, user_id, address_key) DO UPDATE SET wallet_type = 'external'
          WHERE linked.wallet_type = 'custodial' AND excluded.wallet_type = 'external'`
      : Prisma.empty;
  const addressKeys = Prisma.sql`ARRAY(SELECT given ->> 'address_key' FROM jsonb_array_elements(record.accounts) AS given)`;
  const accountCondition =
    onConflict === 'update' ? Prisma.sql`WHERE ${isToBeLinked(Prisma.sql`u.is_new`, addressKeys)}` : Prisma.empty;
  return db.query(Prisma.sql`
    WITH record AS MATERIALIZED (
      SELECT r.*, nextval('users_id_seq') AS id
      FROM jsonb_to_recordset(${JSON.stringify(records.map(toRow))}::jsonb) AS r(
        place int, auth_method text, auth_value text, auth_value_key text, login_email text, wallet text,
        created_at timestamptz, last_login timestamptz, login_count int, accounts jsonb
      )
    ), written AS (
      INSERT INTO users AS existing
        (project_id, id, auth_method, auth_value, auth_value_key, login_email, wallet, created_at, last_login, login_count)
      SELECT ${projectId}::int, id, auth_method, auth_value, auth_value_key, login_email, wallet,
             coalesce(created_at, now()), last_login, coalesce(login_count, 0)
      FROM record
      ORDER BY place
      ON CONFLICT (project_id, auth_method, auth_value_key) WHERE deleted_at IS NULL ${resolution}
      RETURNING existing.project_id, existing.id, existing.auth_method, existing.auth_value_key, xmax = 0 AS is_new
    ), added AS (
      INSERT INTO accounts AS linked (project_id, user_id, network, public_key, address_key, wallet_type)
      SELECT u.project_id, u.id, a.network, a.public_key, a.address_key, a.wallet_type
      FROM record
      JOIN written u USING (auth_method, auth_value_key)
      CROSS JOIN LATERAL ROWS FROM (
        jsonb_to_recordset(record.accounts) AS (network network, public_key text, address_key text, wallet_type wallet_type)
      ) WITH ORDINALITY AS a(network, public_key, address_key, wallet_type, ordinal)
      ${accountCondition}
      ORDER BY record.place, a.ordinal
      ${accountResolution}
      RETURNING user_id, xmax = 0 AS is_new
    )
    SELECT record.place, coalesce(linked.accounts, 0) AS accounts
    FROM record
    JOIN written USING (auth_method, auth_value_key)
    LEFT JOIN (SELECT user_id, count(*)::int AS accounts FROM added WHERE is_new GROUP BY user_id) AS linked ON linked.user_id = written.id`);
}

/**
 * Which of the records would give a user who exists more than `most` accounts, and how many that would be. Locks those users
 * until the transaction ends, so that it stays so; the count is a second statement, which sees what was added before the lock.
 */
export async function findOverfull(
  tx: Queryable,
  projectId: number,
  records: readonly UserRecord[],
  most: number,
): Promise<{ place: number; accounts: number }[]> {
  const linking = records.map(toRow).filter(({ accounts }) => accounts.length > 0);
  if (linking.length === 0) return [];
  const rows = linking.map(({ accounts, ...row }) => ({ ...row, keys: accounts.map((each) => each.address_key) }));
  const existing = await tx.query<{ place: number; id: number; keys: string[] }>(Prisma.sql`
    SELECT r.place, u.id, r.keys
    FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) AS r(place int, auth_method text, auth_value_key text, keys jsonb)
    CROSS JOIN LATERAL (
      SELECT id FROM users
      WHERE project_id = ${projectId}::int AND auth_method = r.auth_method AND auth_value_key = r.auth_value_key AND deleted_at IS NULL
      FOR NO KEY UPDATE
    ) AS u`);
  if (existing.length === 0) return [];
  return tx.query(Prisma.sql`
    SELECT r.place, (has.accounts + adds.accounts)::int AS accounts
    FROM jsonb_to_recordset(${JSON.stringify(existing)}::jsonb) AS r(place int, id bigint, keys jsonb)
    CROSS JOIN LATERAL (
      SELECT count(*) AS accounts FROM accounts a WHERE a.project_id = ${projectId}::int AND a.user_id = r.id
    ) AS has
    CROSS JOIN LATERAL (
      SELECT count(*) AS accounts
      FROM jsonb_array_elements_text(r.keys) AS given(key)
      WHERE (
        SELECT a.id FROM accounts a WHERE a.project_id = ${projectId}::int AND a.user_id = r.id AND a.address_key = given.key
      ) IS NULL
    ) AS adds
    WHERE adds.accounts > 0 AND has.accounts + adds.accounts > ${most}::int
    ORDER BY r.place`);
}

function toRow(record: UserRecord, place: number) {
  return {
    place,
    auth_method: record.authMethod,
    auth_value: record.authValue,
    auth_value_key: record.authValueKey,
    login_email: record.loginEmail,
    wallet: record.wallet,
    created_at: record.createdAt,
    last_login: record.lastLogin,
    login_count: record.loginCount,
    accounts: record.accounts.map((account) => ({
      network: account.network,
      public_key: account.publicKey,
      address_key: account.addressKey,
      wallet_type: account.walletType,
    })),
  };
}
