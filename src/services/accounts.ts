import { createBatchedRead } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import type { ProjectScope } from '../domain/projects.js';
import type { Account } from '../domain/users.js';
import { findAccountsByUser, toAccounts } from '../sql/linked-accounts.js';
import { userWeight } from './searches.js';

/** The public accounts linked to users. */
export function createAccounts(db: Database) {
  const byUser = createBatchedRead({
    name: 'accounts by user',
    read: (keys: readonly { projectId: number; userId: number }[]) => findAccountsByUser(db, keys),
    answer: ([row]) => toAccounts(row?.linked ?? ''),
    weigh: () => userWeight(true),
  });
  return {
    /** The accounts of a user who was read without them, oldest first; none for a user of another project. */
    async listAccounts(scope: ProjectScope, userId: number): Promise<Account[]> {
      // The user came from a read, or from a write that returns the user.
      return byUser({ projectId: scope.projectIdFor('read', 'write'), userId });
    },
  };
}
