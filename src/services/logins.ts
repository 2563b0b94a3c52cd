import { createBatchedRead } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import type { Queryable } from '../db/statements.js';
import { type Ban, type Identity, type Profile, requireFewAccounts } from '../domain/identities.js';
import type { ProjectScope } from '../domain/projects.js';
import type { User } from '../domain/users.js';
import { AppError } from '../errors.js';
import { type BannedKey, deleteBan, findBanned, insertBan, listBans } from '../sql/bans.js';
import { findRegistered, recordLogin } from '../sql/record-login.js';
import { withIdempotencyKey } from './idempotency.js';

export type Logins = ReturnType<typeof createLogins>;

async function login(db: Queryable, projectId: number, profile: Profile) {
  requireFewAccounts(profile);
  const user = await recordLogin(db, projectId, profile);
  if (user !== null) return user;
  throw new AppError('BANNED', 'This identity is banned from the project and cannot log in or register.');
}

/** Logins, registration, and the bans that refuse both. */
export function createLogins(db: Database) {
  const banOf = createBatchedRead({
    name: 'bans of users',
    read: (keys: readonly BannedKey[]) => findBanned(db, keys),
    answer: ([ban]) => ban !== undefined,
  });

  return {
    /**
     * Registers the identity, or counts a login of it and adds accounts. BANNED; BAD_USER_INPUT if the user would have too
     * many accounts. With a key, a retry is not counted again. It is answered with the user as they are by then, or with
     * NOT_FOUND if they were erased.
     */
    async recordLogin(
      scope: ProjectScope,
      profile: Profile,
      key: string | null = null,
    ): Promise<{ user: User; created: boolean }> {
      const projectId = scope.projectIdFor('write');
      if (key === null) {
        const { created, ...user } = await login(db, projectId, profile);
        return { user, created };
      }
      const retryable = { key, request: ['login', profile] };
      const { id, created } = await withIdempotencyKey(db, projectId, retryable, async (tx) => {
        const user = await login(tx, projectId, profile);
        return { id: user.id, created: user.created };
      });
      const user = await findRegistered(db, projectId, id);
      if (user === null) throw new AppError('NOT_FOUND', 'The user of this login has been erased since.');
      return { user, created };
    },

    /** Bans an identity from logging in and registering, also after its user is removed. Idempotent. */
    async ban(scope: ProjectScope, identity: Identity, requestId: string | null = null): Promise<void> {
      await insertBan(db, scope.actorFor('ban', requestId), identity);
    },

    /** Whether the identity of a user is banned. */
    async isBanned(scope: ProjectScope, userId: number): Promise<boolean> {
      return banOf({ projectId: scope.projectIdFor('inspect'), userId });
    },

    /** Every ban of the project, oldest first. */
    listBans(scope: ProjectScope): Promise<Ban[]> {
      return listBans(db, scope.projectIdFor('inspect'));
    },

    /** Lifts a ban. Idempotent. */
    async unban(scope: ProjectScope, identity: Identity, requestId: string | null = null): Promise<void> {
      await deleteBan(db, scope.actorFor('ban', requestId), identity);
    },
  };
}
