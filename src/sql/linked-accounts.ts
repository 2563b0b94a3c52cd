import { Prisma } from '../db/statements.js';
import { tooManyAccounts } from '../domain/identities.js';
import type { Account, Network, WalletType } from '../domain/users.js';
import { keyedStatement } from './keyed-statement.js';

/**
 * The accounts of user `u` as one text, four words an account, in no order. This is the cheapest way to return them with
 * their user. No word contains a space: a check of the database ensures it for public keys.
 */
const LINKED = Prisma.sql`
  coalesce((
    SELECT string_agg(concat_ws(' ', a.id, a.network, a.wallet_type, a.public_key), ' ')
    FROM accounts a
    WHERE a.project_id = u.project_id AND a.user_id = u.id
  ), '')`;
export const LINKED_ACCOUNTS = Prisma.sql`${LINKED} AS linked`;

/** The same for those keys `k` of a statement that want accounts. */
export const LINKED_ACCOUNTS_IF_WANTED = Prisma.sql`CASE WHEN k.with_accounts THEN ${LINKED} END AS linked`;

export const NO_ACCOUNTS = Prisma.sql`NULL::text AS linked`;

/** The accounts of a text of LINKED_ACCOUNTS, oldest first. */
export function toAccounts(linked: string): Account[] {
  if (linked === '') return [];
  const words = linked.split(' ');
  const accounts: Account[] = [];
  for (let index = 0; index < words.length; index += 4) {
    accounts.push({
      id: Number(words[index]),
      network: words[index + 1] as Network,
      walletType: words[index + 2] as WalletType,
      publicKey: words[index + 3] as string,
    });
  }
  return accounts.length === 1 ? accounts : accounts.sort((a, b) => a.id - b.id);
}

/** The accounts of users, as one text each (`toAccounts`). */
export const findAccountsByUser = keyedStatement<{ projectId: number; userId: number }, { linked: string }>(
  { project_id: ['int', (key) => key.projectId], id: ['bigint', (key) => key.userId] },
  (keys) => Prisma.sql`
    SELECT u."keyIndex", ${LINKED_ACCOUNTS}
    FROM (SELECT k.key_index::int AS "keyIndex", k.project_id, k.id FROM ${keys}) AS u`,
);

/**
 * What user `u` has linked of the accounts with `key`, as a column of it, or null. As in findUsersByIdentity, the order leaves one index: the
 * others begin with what many users may share.
 */
export function linkedAccount(column: string, key: string, user: string): Prisma.Sql {
  const [name, wanted, u] = [column, key, user].map((text) => Prisma.raw(text)) as [Prisma.Sql, Prisma.Sql, Prisma.Sql];
  return Prisma.sql`(
      SELECT known.${name} FROM accounts known
      WHERE known.project_id = ${u}.project_id AND known.user_id >= ${u}.id AND known.user_id <= ${u}.id AND known.address_key = ${wanted}
      ORDER BY known.user_id
      LIMIT 1
    )`;
}

/**
 * Whether account `a` is to be written for user `u`: it is new and the user has room for it, or it becomes external. An account
 * that stays as it is does not even get its row locked. A subquery, because every plan for it is good; a new user needs none.
 */
export function isToBeLinked(isNewUser: Prisma.Sql, addressKeys: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    (${isNewUser} OR CASE ${linkedAccount('wallet_type', 'a.address_key', 'u')}
      WHEN 'external' THEN false
      WHEN 'custodial' THEN a.wallet_type::text = 'external'
      ELSE require_account_room(u.project_id, u.id, ${addressKeys})
    END)`;
}

/** Throws the error of a statement that links accounts: BAD_USER_INPUT if `require_account_room` refused, else as it is. */
export function throwLinkingError(error: unknown): never {
  const { constraint, detail } = error as { constraint?: unknown; detail?: unknown };
  throw constraint === 'accounts_are_at_most_100' ? tooManyAccounts(String(detail)) : error;
}
