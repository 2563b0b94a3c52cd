import type { Database } from '../db/database.js';
import type { GivenBanTerms } from '../domain/bans.js';
import { MAX_IDENTITIES, tooManyIdentities } from '../domain/identities.js';
import type { ProjectScope } from '../domain/projects.js';
import { noUser, type User } from '../domain/users.js';
import { AppError } from '../errors.js';
import type { ChangeOptions } from '../projects/idempotency.js';
import { deleteUserBan, insertUserBan } from './bans.sql.js';
import { describeUser } from './describe-users.sql.js';
import * as sql from './identities.sql.js';
import type { Totals } from './totals.js';
import { type ActOnUsers, identitiesOf } from './user-acts.js';
import { type Restoration, restoreUser } from './write-users.sql.js';

/** What a user as a whole is: banned, removed or merged. */
export interface UserStates {
  /** Bans a user: each of their identities, also those linked later. Again, it changes the terms that are given. NOT_FOUND; CONFLICT for one who was merged. */
  ban(scope: ProjectScope, id: bigint, terms: GivenBanTerms, options?: ChangeOptions): Promise<User>;
  /** Lifts the ban of a user. Those of their identities stay. NOT_FOUND. */
  unban(scope: ProjectScope, id: bigint, options?: ChangeOptions): Promise<User>;
  /** Makes a removed user current again, until erased. NOT_FOUND; CONFLICT for a current user, one who was merged, or another with an identity or the external ID. */
  restore(scope: ProjectScope, id: bigint, options?: ChangeOptions): Promise<User>;
  /**
   * Makes two users one: what the first has goes to the second, with the logins, the earlier registration and the later login. The second keeps
   * what only one can have, and is banned if one of both was. The first is removed. NOT_FOUND; BAD_USER_INPUT for too many identities or accounts.
   */
  merge(scope: ProjectScope, from: bigint, into: bigint, options?: ChangeOptions): Promise<User>;
}

export function createUserStates(db: Database, act: ActOnUsers, totals: Totals): UserStates {
  /** CONFLICT that names whom a user was merged into, where the database has refused their ban. */
  const toMerged =
    (scope: ProjectScope, id: bigint) =>
    async (error: unknown): Promise<never> => {
      if ((error as { constraint?: unknown }).constraint !== 'user_bans_user_fkey') throw error;
      const userId = (await describeUser(db, scope.projectIdFor('write', 'ban'), id))?.mergedInto ?? null;
      if (userId === null) throw noUser(id);
      throw new AppError('CONFLICT', `User ${id} was merged into user ${userId}. Ban that user.`, {
        subject: { names: ['id'], userId },
      });
    };

  return {
    async ban(scope, id, terms, options = {}) {
      const banned = { ...banning(scope), action: 'ban', ids: [id], asked: [terms] } as const;
      return act(scope, banned, options, async (tx, actor) => {
        await insertUserBan(tx, actor, id, terms);
        return null;
      }).catch(toMerged(scope, id));
    },

    async unban(scope, id, options = {}) {
      return act(scope, { ...banning(scope), action: 'unban', ids: [id] }, options, async (tx, actor) => {
        await deleteUserBan(tx, actor, id);
        return null;
      });
    },

    async restore(scope, id, options = {}) {
      const restoring = { action: 'restore', ids: [id], permission: 'restore', ofRemoved: true } as const;
      return act(scope, restoring, options, async (tx, actor) => {
        const { outcome, ...taken } = await restoreUser(tx, actor, id);
        if (outcome !== 'restored') throw notRestored(id, outcome, taken);
        return null;
      });
    },

    async merge(scope, from, into, options = {}) {
      if (from === into) throw new AppError('BAD_USER_INPUT', 'into: a user cannot be merged into the same user.');
      const user = await act(scope, { action: 'merge', ids: [from, into] }, options, async (tx, { projectId }) => {
        const rows = await identitiesOf(tx, projectId, from, into);
        if (rows.length > MAX_IDENTITIES) throw tooManyIdentities(rows.length);
        await sql.mergeUsers(tx, projectId, { id: from, primary: rows[0] as sql.IdentityRow }, into);
        return { from: Number(from) };
      });
      totals.countChange(scope.projectIdFor('write', 'edit'));
      return user;
    },
  };
}

/** Operators may ban removed users. */
const banning = (scope: ProjectScope) => ({ permission: 'ban', ofRemoved: scope.permits('inspect') }) as const;

function notRestored(
  id: bigint,
  outcome: string,
  { takenBy, method }: Pick<Restoration, 'takenBy' | 'method'>,
): AppError {
  if (outcome === 'unknown') return noUser(id);
  if (outcome === 'merged')
    return new AppError('CONFLICT', `User ${id} was merged into user ${takenBy}, which cannot be undone.`, {
      subject: { names: ['id'], userId: takenBy },
    });
  if (outcome === 'current')
    return new AppError('CONFLICT', `User ${id} is not removed.`, { subject: { names: ['id'] } });
  const other = takenBy === null ? 'another user' : `user ${takenBy}`;
  const why =
    outcome === 'identity taken'
      ? `an identity${method === null ? '' : ` by ${method}`} is that of ${other} now`
      : `${other} has the external ID now`;
  return new AppError('CONFLICT', `User ${id} cannot be restored: ${why}. Remove that user first.`, {
    subject: { names: ['id'], userId: takenBy },
  });
}
