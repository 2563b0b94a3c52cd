import { createBatchedWrite } from '../db/batched-write.js';
import type { Database } from '../db/database.js';
import { isUniqueViolation } from '../db/failures.js';
import {
  externalIdTaken,
  identityBanned,
  identityTaken,
  type Profile,
  requireFewAccounts,
} from '../domain/identities.js';
import type { ProjectScope } from '../domain/projects.js';
import { pickUser } from '../domain/user-columns.js';
import type { User } from '../domain/users.js';
import { AppError } from '../errors.js';
import { repeatAnswer, retryOf } from '../projects/idempotency.js';
import { findUsersByIdentity } from './find-users.sql.js';
import { askedOf, changesOf, type WriteOptions } from './logins.js';
import { findRegistered, type Login } from './logins.sql.js';
import { insertUsers, type NewUserRow } from './new-users.sql.js';
import type { Totals } from './totals.js';
import { isExternalIdTaken } from './write-users.sql.js';

/** Users who are created before they log in. */
export interface NewUsers {
  /**
   * Creates a user who has not logged in. BANNED; CONFLICT where another user has the identity or the external ID; BAD_USER_INPUT for too many
   * accounts. With a key, a retry creates none: it is answered with the user as they are by then, or with NOT_FOUND if they were erased.
   */
  createUser(scope: ProjectScope, profile: Profile, options?: WriteOptions): Promise<User>;
}

export function createNewUsers(db: Database, totals: Totals): NewUsers {
  const insert = createBatchedWrite<Login, NewUserRow>({
    db,
    name: 'new users',
    changes: changesOf,
    weigh: ({ profile }) => 1 + profile.accounts.length,
    write: insertUsers,
    // Others have registered the identity, or used the key, at this moment: their user, or their answer, is there now.
    isCrossed: isUniqueViolation,
  });

  /** The error of a user who was refused by an index. */
  async function toTaken(error: unknown, { projectId, profile }: Login): Promise<unknown> {
    if (!isUniqueViolation(error)) return error;
    if (isExternalIdTaken(error)) return externalIdTaken();
    const [holder] = await findUsersByIdentity(db, [{ ...profile, projectId, withAccounts: false }]);
    return identityTaken(holder?.id ?? null);
  }

  return {
    async createUser(scope, profile, { key = null, until = Number.POSITIVE_INFINITY } = {}) {
      const projectId = scope.projectIdFor('write');
      requireFewAccounts(profile);
      const creation = { projectId, profile, retry: retryOf(key, ['create', askedOf(profile)]) };
      const row = await insert(creation, until).catch(async (error) => {
        throw await toTaken(error, creation);
      });
      if (row.earlier !== null) {
        const { id } = repeatAnswer(row.earlier);
        const user = await findRegistered(db, projectId, id);
        if (user === null) throw new AppError('NOT_FOUND', 'The user who was created has been erased since.');
        return user;
      }
      if (row.refusal === 'banned') throw identityBanned();
      if (row.refusal === 'identity taken') throw identityTaken(row.takenBy);
      if (row.refusal === 'external id taken') throw externalIdTaken(row.takenBy);
      totals.countChange(projectId);
      return pickUser(row);
    },
  };
}
