import type { Database } from '../db/database.js';
import type { Queryable } from '../db/statements.js';
import type { GivenBanTerms } from '../domain/bans.js';
import { LARGEST_ID } from '../domain/parse.js';
import type { Actor, Permission, ProjectScope } from '../domain/projects.js';
import { noUser } from '../domain/users.js';
import type { AppError } from '../errors.js';
import { type ChangeOptions, changeOnce, retryOf } from '../projects/idempotency.js';
import { insertUserBan } from './bans.sql.js';
import { lockUsers } from './identities.sql.js';
import type { Totals } from './totals.js';
import { removeUsers } from './write-users.sql.js';

/** Changes of several users at once, in one transaction: those whom the project has are changed, and the others are told. */
export interface ManyUsers {
  /** Removes users. NOT_FOUND for each whom the project does not have. A retry with the same key removes no user, and has the same outcomes. */
  remove(scope: ProjectScope, ids: readonly bigint[], options?: ChangeOptions): Promise<Failures>;
  /** Bans users, each as `banUser` does, with the same terms. Operators may ban removed users. */
  ban(scope: ProjectScope, ids: readonly bigint[], terms: GivenBanTerms, options?: ChangeOptions): Promise<Failures>;
}

/** Why each of several users was not changed, in their order; null for one who was. */
export type Failures = (AppError | null)[];

interface ManyAct {
  readonly name: string;
  readonly permission: Permission;
  /** True if users who were removed are as good, but those who were merged. */
  readonly ofRemoved?: boolean;
  /** The request beside the users, for the key. */
  readonly asked?: readonly unknown[];
}

type ManyWork = (tx: Queryable, actor: Actor, ids: readonly bigint[]) => Promise<void>;

export function createManyUsers(db: Database, totals: Totals): ManyUsers {
  async function actOnMany(
    scope: ProjectScope,
    ids: readonly bigint[],
    { name, permission, ofRemoved = false, asked = [] }: ManyAct,
    { requestId = null, key = null }: ChangeOptions,
    work: ManyWork,
  ): Promise<Failures> {
    const actor = scope.actorFor('write', requestId, permission);
    const retry = retryOf(key, [name, ids.map(String), ...asked]);
    // The answer that is kept says of each place whether it was done.
    const done = await changeOnce(db.requestTransaction, actor.projectId, retry, async (tx: Queryable) => {
      const possible = [...new Set(ids)].filter((id) => id <= LARGEST_ID);
      const locked = await lockUsers(tx, actor.projectId, possible, ofRemoved ? 'not merged' : 'current');
      if (locked.length > 0) await work(tx, actor, locked);
      return ids.map((id) => locked.includes(id));
    });
    return ids.map((id, place) => (done[place] ? null : noUser(id, ['ids'])));
  }

  return {
    async remove(scope, ids, options = {}) {
      const removal: ManyAct = { name: 'remove users', permission: 'remove' };
      const failures = await actOnMany(scope, ids, removal, options, async (tx, actor, locked) => {
        const { projectId } = actor;
        await removeUsers(
          tx,
          locked.map((id) => ({ projectId, actor, id, retry: null })),
          true,
        );
      });
      totals.countChange(scope.projectIdFor('write', 'remove'), failures.filter((failure) => failure === null).length);
      return failures;
    },

    async ban(scope, ids, terms, options = {}) {
      const ban: ManyAct = {
        name: 'ban users',
        permission: 'ban',
        ofRemoved: scope.permits('inspect'),
        asked: [terms],
      };
      return actOnMany(scope, ids, ban, options, async (tx, actor, locked) => {
        for (const id of locked) await insertUserBan(tx, actor, id, terms);
      });
    },
  };
}
