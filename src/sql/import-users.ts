import { Prisma, type Queryable } from '../db/client.js';
import type { Profile } from '../services/identities.js';

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
  // Of a user who is new no account can exist.
  const accountResolution =
    onConflict === 'update' ? Prisma.sql`ON CONFLICT (project_id, user_id, address_key) DO NOTHING` : Prisma.empty;
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
      RETURNING existing.id, existing.auth_method, existing.auth_value_key
    ), added AS (
      INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
      SELECT ${projectId}::int, written.id, a.network, a.public_key, a.address_key, a.wallet_type
      FROM record
      JOIN written USING (auth_method, auth_value_key)
      CROSS JOIN LATERAL ROWS FROM (
        jsonb_to_recordset(record.accounts) AS (network network, public_key text, address_key text, wallet_type wallet_type)
      ) WITH ORDINALITY AS a(network, public_key, address_key, wallet_type, ordinal)
      ORDER BY record.place, a.ordinal
      ${accountResolution}
      RETURNING user_id
    )
    SELECT record.place, coalesce(linked.accounts, 0) AS accounts
    FROM record
    JOIN written USING (auth_method, auth_value_key)
    LEFT JOIN (SELECT user_id, count(*)::int AS accounts FROM added GROUP BY user_id) AS linked ON linked.user_id = written.id`);
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
