import { type LoginMethod, type Network, Prisma, type WalletType } from '../db/client.js';

/** A current user. */
export interface User {
  id: number;
  authMethod: string;
  authValue: string;
  loginMethod: LoginMethod;
  wallet: string | null;
  /** ISO 8601 in UTC with milliseconds, as all instants of a user. */
  createdAt: string;
  lastLogin: string | null;
  loginCount: number;
  /** Oldest first; absent where they were not read with the user. */
  accounts?: Account[];
}

/** A public account linked to a user. */
export interface Account {
  id: number;
  network: Network;
  publicKey: string;
  walletType: WalletType;
}

/** A row of users `u` as a `User` without accounts. */
export const USER_COLUMNS = Prisma.sql`
  u.id, u.auth_method AS "authMethod", u.auth_value AS "authValue", u.login_method::text AS "loginMethod", u.wallet,
  u.created_at AS "createdAt", u.last_login AS "lastLogin", u.login_count AS "loginCount"`;

/**
 * The accounts of user `u` as one text, four words an account, in no order: of all ways to bring them along with their user
 * the cheapest to write and to read. No word has a space in it (a check of the database holds that for public keys).
 */
const LINKED = Prisma.sql`
  coalesce((
    SELECT string_agg(a.id || ' ' || a.network || ' ' || a.wallet_type || ' ' || a.public_key, ' ')
    FROM accounts a
    WHERE a.project_id = u.project_id AND a.user_id = u.id
  ), '')`;
export const LINKED_ACCOUNTS = Prisma.sql`${LINKED} AS linked`;

/** The same for those keys `k` of a statement that ask for them. */
export const LINKED_ACCOUNTS_IF_ASKED = Prisma.sql`CASE WHEN k.with_accounts THEN ${LINKED} END AS linked`;

/** The same where they are not asked for. */
export const NO_ACCOUNTS = Prisma.sql`NULL::text AS linked`;

/** A user as a row has them, with LINKED_ACCOUNTS or NO_ACCOUNTS. */
export type UserRow = Omit<User, 'accounts'> & { linked: string | null };

/** A row as a user, without what else the row has. To be made once: the accounts of a user may be many. */
export function toUser(row: UserRow): User {
  const user: User = {
    id: row.id,
    authMethod: row.authMethod,
    authValue: row.authValue,
    loginMethod: row.loginMethod,
    wallet: row.wallet,
    createdAt: row.createdAt,
    lastLogin: row.lastLogin,
    loginCount: row.loginCount,
  };
  if (row.linked !== null) user.accounts = toAccounts(row.linked);
  return user;
}

export function toAccounts(linked: string): Account[] {
  if (linked === '') return [];
  const words = linked.split(' ');
  const accounts: Account[] = [];
  for (let place = 0; place < words.length; place += 4) {
    accounts.push({
      id: Number(words[place]),
      network: words[place + 1] as Network,
      walletType: words[place + 2] as WalletType,
      publicKey: words[place + 3] as string,
    });
  }
  return accounts.length === 1 ? accounts : accounts.sort((a, b) => a.id - b.id);
}

/**
 * A row of a batched read: `place` is the place of the key that it answers, from 1. Every batched read takes its keys as
 * arrays of equal length, so that one prepared statement serves any number of them.
 */
export type Placed<Row> = Row & { place: number };
