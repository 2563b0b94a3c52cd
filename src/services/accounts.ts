import { type Account, type Database, Network, WalletType } from '../db/client.js';
import { findAccountsByUser } from '../sql/find-accounts.js';
import { createBatchedRead } from './batching.js';
import type { ProjectScope } from './projects.js';

export { type Account, Network, WalletType };
export type Accounts = ReturnType<typeof createAccounts>;

/** The public accounts linked to users. */
export function createAccounts(db: Database) {
  const byUser = createBatchedRead((keys: readonly { projectId: number; userId: bigint }[]) =>
    findAccountsByUser(db, keys),
  );
  return {
    /** The accounts of one user, oldest first; none for a user of another project. Batched over everybody who asks. */
    listAccounts({ projectId }: ProjectScope, userId: bigint): Promise<Account[]> {
      return byUser({ projectId, userId });
    },
  };
}
