import { type Database, Network, WalletType } from '../db/client.js';
import { type Account, toAccounts } from '../sql/columns.js';
import { findAccountsByUser } from '../sql/find-accounts.js';
import { createBatchedRead } from '../db/batched-read.js';
import type { ProjectScope } from './projects.js';
import { userWeight } from './searches.js';

export { type Account, Network, WalletType };
export type Accounts = ReturnType<typeof createAccounts>;

/** The public accounts linked to users. */
export function createAccounts(db: Database) {
  const byUser = createBatchedRead({
    name: 'accounts by user',
    read: (keys: readonly { projectId: number; userId: number }[]) => findAccountsByUser(db, keys),
    answer: ([row]) => toAccounts(row?.linked ?? ''),
    weigh: () => userWeight(true),
  });
  return {
    /** The accounts of one user, oldest first; none for a user of another project. For users who came without them. */
    async listAccounts(scope: ProjectScope, userId: number): Promise<Account[]> {
      // The user came from a read, or from a write that answers with the user.
      return byUser({ projectId: scope.idFor('read', 'write'), userId });
    },
  };
}
