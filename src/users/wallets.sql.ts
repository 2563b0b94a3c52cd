import type { KeyedRow } from '../db/batched-read.js';
import { type KeyColumns, keyedStatement, Prisma, type Queryable, THIS_INSTANT } from '../db/statements.js';
import type { WalletOwner } from '../domain/users.js';
import { userById } from './find-users.sql.js';

export interface WalletKey {
  readonly projectId: number;
  readonly addressKey: string;
  /** The user to whom the address must belong; null for any. */
  readonly userId: bigint | null;
  /** The last link that was read before; 0 for none. */
  readonly afterLink: number;
  /** The most links to read. */
  readonly links: number;
}

const COLUMNS = {
  project_id: ['int', (key) => key.projectId],
  address_key: ['text', (key) => key.addressKey],
  user_id: ['bigint', (key) => key.userId],
  after_link: ['bigint', (key) => key.afterLink],
  links: ['bigint', (key) => key.links],
} satisfies KeyColumns<WalletKey>;

/** The owner, or nulls. Without an owner, `lastLink` is the last link that was read if there may be more. */
export type VerdictRow = { [Column in keyof WalletOwner]: WalletOwner[Column] | null } & { lastLink: number | null };

/** The row of the first key has the instant before which the statement saw all that was committed. */
export type WalletRow = VerdictRow & { asOf: string | null };

/** Account `a` with its current user `u`. */
const OWNER = Prisma.sql`
  SELECT a.id AS link, a.user_id AS "userId", a.network::text AS network, a.wallet_type::text AS "walletType",
         u.auth_method AS "authMethod"`;
const LINKED_USER = Prisma.sql`CROSS JOIN LATERAL (${userById('a', 'user_id')}) AS u`;
const CURRENT_USER = Prisma.sql`${LINKED_USER} WHERE u.deleted_at IS NULL`;

/** The links of the address of key `k`, oldest first. */
const LINKS = Prisma.sql`
  FROM accounts a
  WHERE k.user_id IS NULL AND a.project_id = k.project_id AND a.address_key = k.address_key AND a.id > k.after_link
  ORDER BY a.id`;

/**
 * The current user to whom an address belongs. Without `userId` it is the first who linked it, so another link does not change the answer.
 * Links of removed users remain and are skipped: there may be thousands, so a key limits how many are read.
 * With `userId` the accounts of that user are read, which are few, and not the users of the address.
 */
export const findWalletOwners = keyedStatement<WalletKey, WalletRow>(
  COLUMNS,
  (keys) => Prisma.sql`
    SELECT k.key_index::int AS "keyIndex", owner."userId", owner.network, owner."walletType", owner."authMethod",
           CASE WHEN owner.link IS NULL THEN (SELECT a.id ${LINKS} OFFSET k.links - 1 LIMIT 1) END AS "lastLink",
           CASE WHEN k.key_index = 1 THEN ${THIS_INSTANT} END AS "asOf"
    FROM ${keys}
    LEFT JOIN LATERAL (
      ${OWNER}
      FROM (
        SELECT * FROM accounts a
        WHERE k.user_id IS NOT NULL AND a.project_id = k.project_id AND a.user_id = k.user_id OFFSET 0
      ) AS a
      ${CURRENT_USER} AND a.address_key = k.address_key
      UNION ALL
      (${OWNER} FROM (SELECT * ${LINKS} LIMIT k.links) AS a ${CURRENT_USER} ORDER BY a.id LIMIT 1)
    ) AS owner ON true`,
);

/** A link of the address of a lone key, oldest first, whether its user is current or not. */
type LinkRow = KeyedRow<WalletOwner & { link: number; isCurrent: boolean }>;

const LINK = Prisma.sql`${OWNER}, u.deleted_at IS NULL AS "isCurrent", k.key_index AS "keyIndex"`;

/** Reads the links of `accounts`, which end with `rest`. */
function linksOf(columns: KeyColumns<WalletKey>, accounts: Prisma.Sql, rest: Prisma.Sql) {
  return keyedStatement<WalletKey, LinkRow>(
    { project_id: COLUMNS.project_id, address_key: COLUMNS.address_key, ...columns },
    (keys) => Prisma.sql`
      ${LINK}
      FROM ${keys}
      CROSS JOIN LATERAL (SELECT * FROM accounts a WHERE a.project_id = k.project_id AND ${accounts}) AS a
      ${LINKED_USER} ${rest}`,
  );
}

const linksOfAddress = linksOf(
  { after_link: COLUMNS.after_link, links: COLUMNS.links },
  Prisma.sql`a.address_key = k.address_key AND a.id > k.after_link ORDER BY a.id LIMIT k.links`,
  Prisma.sql`ORDER BY a.id`,
);

const linkOfUser = linksOf(
  { user_id: COLUMNS.user_id },
  Prisma.sql`a.user_id = k.user_id OFFSET 0`,
  Prisma.sql`WHERE a.address_key = k.address_key`,
);

/** As `findWalletOwners`, without `asOf`. A lone key, the most frequent question, has statements that leave work to us, which saves PostgreSQL a third of its time. */
export async function findOwnersOfBatch(db: Queryable, keys: readonly WalletKey[]): Promise<KeyedRow<VerdictRow>[]> {
  const [key] = keys;
  if (key === undefined || keys.length > 1) return findWalletOwners(db, keys);
  const links = await (key.userId === null ? linksOfAddress : linkOfUser)(db, keys);
  const owner = links.find(({ isCurrent }) => isCurrent);
  if (owner !== undefined) return [{ ...owner, lastLink: null }];
  const hasMore = key.userId === null && links.length === key.links;
  return [{ ...NO_OWNER, lastLink: hasMore ? (links.at(-1) as LinkRow).link : null }];
}

const NO_OWNER = { keyIndex: 1, userId: null, network: null, walletType: null, authMethod: null };
