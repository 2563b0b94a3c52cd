import type { Database } from '../db/client.js';
import type { Placed } from '../sql/columns.js';
import { findWalletOwners, type WalletKey, type WalletOwner, type WalletRow } from '../sql/find-wallet-owner.js';
import type { Address } from '../domain/addresses.js';
import { createBatchedRead } from '../db/batched-read.js';
import { LARGEST_ID } from '../domain/filters.js';
import { oneAtATime } from '../db/one-at-a-time.js';
import type { ProjectScope } from './projects.js';

export type { WalletOwner };
export type Wallets = ReturnType<typeof createWallets>;

/** As many links of an address are looked at in a statement that others share, and then in each of those for this address alone. */
const FEW_LINKS = 8;
const MANY_LINKS = 2_000;

/** Whether an address belongs to a current user: a decision on which callers let money move. */
export function createWallets(db: Database) {
  const owners = createBatchedRead({
    name: 'wallet owners',
    read: (keys: readonly WalletKey[]) => findWalletOwners(db, keys),
    answer: ([row]) => row as Placed<WalletRow>,
  });

  /** The first owner beyond the link at which the search for one has stopped. */
  const findLaterOwner = oneAtATime(async (key: WalletKey): Promise<WalletRow | undefined> => {
    let [found] = await findWalletOwners(db, [key]);
    while (typeof found?.lastLink === 'number') {
      [found] = await findWalletOwners(db, [{ ...key, afterLink: found.lastLink }]);
    }
    return found;
  });

  return {
    /** The current user to whom the address belongs, that user being `userId` where one is given; else null (spec, "POST /server/wallets/verify"). */
    async findOwner(scope: ProjectScope, address: Address, userId: bigint | null): Promise<WalletOwner | null> {
      const asked = { projectId: scope.idFor('verify'), addressKey: address.key, userId };
      if (userId !== null && userId > LARGEST_ID) return null;
      const found = await owners({ ...asked, afterLink: 0, links: FEW_LINKS });
      if (found.lastLink === null) return ownerOf(found);
      return ownerOf(await findLaterOwner({ ...asked, afterLink: found.lastLink, links: MANY_LINKS }));
    },
  };
}

function ownerOf(row: WalletRow | undefined): WalletOwner | null {
  return row === undefined || row.userId === null ? null : (row as WalletOwner);
}
