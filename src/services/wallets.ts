import { createBatchedRead, type KeyedRow } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import { oneAtATime } from '../db/one-at-a-time.js';
import type { Address } from '../domain/addresses.js';
import { LARGEST_ID } from '../domain/filters.js';
import type { ProjectScope } from '../domain/projects.js';
import type { WalletOwner } from '../domain/users.js';
import { findWalletOwners, type WalletKey, type WalletRow } from '../sql/find-wallet-owner.js';

/** How many links of an address a shared statement reads. */
const MAX_SHARED_LINKS = 8;
/** How many links each later statement reads, for this address alone. */
const MAX_LINKS_READ = 2_000;

/** Whether an address belongs to a current user. Callers decide by it whether to transfer money. */
export function createWallets(db: Database) {
  const owners = createBatchedRead({
    name: 'wallet owners',
    read: (keys: readonly WalletKey[]) => findWalletOwners(db, keys),
    answer: ([row]) => row as KeyedRow<WalletRow>,
  });

  /** The first owner after the last link that was read. */
  const findLaterOwner = oneAtATime(async (key: WalletKey): Promise<WalletRow | undefined> => {
    let [found] = await findWalletOwners(db, [key]);
    while (typeof found?.lastLink === 'number') {
      [found] = await findWalletOwners(db, [{ ...key, afterLink: found.lastLink }]);
    }
    return found;
  });

  return {
    /** The current user to whom the address belongs, or null; only `userId` where given (spec, "POST /server/wallets/verify"). */
    async findOwner(scope: ProjectScope, address: Address, userId: bigint | null): Promise<WalletOwner | null> {
      const question = { projectId: scope.projectIdFor('verify'), addressKey: address.key, userId };
      if (userId !== null && userId > LARGEST_ID) return null;
      const found = await owners({ ...question, afterLink: 0, links: MAX_SHARED_LINKS });
      if (found.lastLink === null) return ownerOf(found);
      return ownerOf(await findLaterOwner({ ...question, afterLink: found.lastLink, links: MAX_LINKS_READ }));
    },
  };
}

function ownerOf(row: WalletRow | undefined): WalletOwner | null {
  return row === undefined || row.userId === null ? null : (row as WalletOwner);
}
