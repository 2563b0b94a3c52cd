import { type Network, Prisma, type Queryable, type WalletType } from '../db/client.js';
import type { Placed } from './columns.js';
import { userById } from './find-users.js';

export interface WalletOwner {
  userId: number;
  network: Network;
  walletType: WalletType;
  authMethod: string;
}

export interface WalletKey {
  readonly projectId: number;
  readonly addressKey: string;
  /** The user to whom it must belong; null for any. */
  readonly userId: bigint | null;
  /** Links up to this one have been looked at. */
  readonly afterLink: number;
  /** At most as many links are looked at. */
  readonly links: number;
}

/** The owner, or nulls; then `lastLink` is the last that was looked at where there may be more. */
export type WalletRow = { [Column in keyof WalletOwner]: WalletOwner[Column] | null } & { lastLink: number | null };

/** Account `a` with its user `u`, who is current. */
const OWNER = Prisma.sql`
  SELECT a.id AS link, a.user_id AS "userId", a.network::text AS network, a.wallet_type::text AS "walletType",
         u.auth_method AS "authMethod"`;
const CURRENT_USER = Prisma.sql`
  CROSS JOIN LATERAL (${userById('a', 'user_id')}) AS u
  WHERE u.deleted_at IS NULL`;

/** The links of the address of key `k`, in the order in which they were made. */
const LINKS = Prisma.sql`
  FROM accounts a
  WHERE k.user_id IS NULL AND a.project_id = k.project_id AND a.address_key = k.address_key AND a.id > k.after_link
  ORDER BY a.id`;

/**
 * The current user to whom an address belongs, if any: the given one where `userId` is not null, else the one who linked it first,
 * so that the answer stays the same as long as that user and that link do, whichever other user links the address.
 *
 * Links of removed users stay and are passed over. There may be thousands, so a key says how many it looks at. A given user is asked for
 * their accounts, of which there are few, and not the address for its users.
 */
export function findWalletOwners(db: Queryable, keys: readonly WalletKey[]): Promise<Placed<WalletRow>[]> {
  return db.query(Prisma.sql`
    SELECT k.place::int AS place, owner."userId", owner.network, owner."walletType", owner."authMethod",
           CASE WHEN owner.link IS NULL THEN (SELECT a.id ${LINKS} OFFSET k.links - 1 LIMIT 1) END AS "lastLink"
    FROM unnest(
      ${keys.map((key) => key.projectId)}::int[],
      ${keys.map((key) => key.addressKey)}::text[],
      ${keys.map((key) => key.userId)}::bigint[],
      ${keys.map((key) => key.afterLink)}::bigint[],
      ${keys.map((key) => key.links)}::bigint[]
    ) WITH ORDINALITY AS k(project_id, address_key, user_id, after_link, links, place)
    LEFT JOIN LATERAL (
      ${OWNER}
      FROM (
        SELECT * FROM accounts a
        WHERE k.user_id IS NOT NULL AND a.project_id = k.project_id AND a.user_id = k.user_id OFFSET 0
      ) AS a
      ${CURRENT_USER} AND a.address_key = k.address_key
      UNION ALL
      (${OWNER} FROM (SELECT * ${LINKS} LIMIT k.links) AS a ${CURRENT_USER} ORDER BY a.id LIMIT 1)
    ) AS owner ON true`);
}
