import type { Database } from '../db/client.js';
import { findWalletOwners, type WalletOwner } from '../sql/find-wallet-owner.js';
import type { Address } from './addresses.js';
import { createBatchedRead } from './batching.js';
import { LARGEST_ID } from './filters.js';
import type { ProjectScope } from './projects.js';

export type { WalletOwner };
export type Wallets = ReturnType<typeof createWallets>;

/** Whether an address belongs to a current user: a decision on which callers let money move. */
export function createWallets(db: Database) {
  const owners = createBatchedRead({
    name: 'wallet owners',
    read: (keys: readonly { projectId: number; addressKey: string; userId: bigint | null }[]) =>
      findWalletOwners(db, keys),
    identify: ({ projectId, addressKey, userId }) => `${projectId} ${addressKey} ${userId}`,
  });
  return {
    /** The current user to whom the address belongs, that user being `userId` where one is given; else null (spec, "POST /server/wallets/verify"). */
    async findOwner(scope: ProjectScope, address: Address, userId: bigint | null): Promise<WalletOwner | null> {
      const projectId = scope.idFor('verify');
      if (userId !== null && userId > LARGEST_ID) return null;
      const [owner] = await owners({ projectId, addressKey: address.key, userId });
      return owner ?? null;
    },
  };
}
