import { type Network, Prisma, type Queryable, type WalletType } from '../db/client.js';
import type { Placed } from './columns.js';

export interface WalletOwner {
  userId: number;
  network: Network;
  walletType: WalletType;
  authMethod: string;
}

/**
 * The current user to whom an address belongs, if any: the given one where `userId` is not null, else the one who has
 * been a user for longest, so that the answer does not change when somebody else links the same address.
 */
export function findWalletOwners(
  db: Queryable,
  keys: readonly { projectId: number; addressKey: string; userId: bigint | null }[],
): Promise<Placed<WalletOwner>[]> {
  return db.query(Prisma.sql`
    SELECT k.place::int AS place, owner.*
    FROM unnest(
      ${keys.map((key) => key.projectId)}::int[],
      ${keys.map((key) => key.addressKey)}::text[],
      ${keys.map((key) => key.userId)}::bigint[]
    ) WITH ORDINALITY AS k(project_id, address_key, user_id, place)
    CROSS JOIN LATERAL (
      SELECT a.user_id AS "userId", a.network::text AS network, a.wallet_type::text AS "walletType",
             u.auth_method AS "authMethod"
      FROM accounts a
      JOIN users u ON u.project_id = a.project_id AND u.id = a.user_id
      WHERE a.project_id = k.project_id AND a.address_key = k.address_key
        AND (k.user_id IS NULL OR a.user_id = k.user_id) AND u.deleted_at IS NULL
      ORDER BY a.user_id
      LIMIT 1
    ) AS owner`);
}
