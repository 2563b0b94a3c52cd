import { createBatchedWrite } from '../db/batched-write.js';
import type { Database } from '../db/database.js';
import { isUniqueViolation } from '../db/failures.js';
import type { Queryable } from '../db/statements.js';
import { externalIdTaken, identityBanned, identityTaken } from '../domain/identities.js';
import { patchMetadata } from '../domain/metadata.js';
import { LARGEST_ID } from '../domain/parse.js';
import type { ProjectScope } from '../domain/projects.js';
import { emailIsIdentity, type UserChanges } from '../domain/user-changes.js';
import { pickUser } from '../domain/user-columns.js';
import { noUser, type User } from '../domain/users.js';
import type { AppError } from '../errors.js';
import { deleteOldKeys, repeatAnswer, retryOf } from '../projects/idempotency.js';
import { findEarlier, isKeyTaken } from '../projects/idempotency.sql.js';
import type { IdentityKey } from './find-users.sql.js';
import { findRegistered } from './logins.sql.js';
import type { Totals } from './totals.js';
import * as writes from './write-users.sql.js';

/** Changes of users. `requestId` is null for the command. UNAVAILABLE for what has not begun at `until`, by `performance.now()`. */
export interface UserEdits {
  /** Removes the user from the project, once or by retries with its key; else NOT_FOUND. */
  removeUser(
    scope: ProjectScope,
    id: bigint,
    requestId: string | null,
    key?: string | null,
    until?: number,
  ): Promise<void>;
  /**
   * Changes what `updateUser` may change of a user, who is returned without accounts. A retry with the same key changes
   * nothing. BAD_USER_INPUT to take the email from a user who logs in by it, and for metadata that a patch makes too long; NOT_FOUND; BANNED;
   * CONFLICT if another user has what is given.
   */
  updateUser(
    scope: ProjectScope,
    id: bigint,
    changes: UserChanges,
    requestId: string | null,
    key?: string | null,
    until?: number,
  ): Promise<User>;
  /** The number of users that `purgeRemoved` would erase. */
  countRemoved(scope: ProjectScope, olderThanMs: number): Promise<number>;
  /** Erases a bounded number of users removed more than `olderThanMs` ago, and expired keys, for ever. */
  purgeRemoved(scope: ProjectScope, olderThanMs: number, requestId?: string | null): Promise<Purge>;
}

export interface Purge {
  /** The number of users that were erased. */
  readonly users: number;
  /** False if there may be more. */
  readonly isDone: boolean;
}

const PURGE_BATCH = 5_000;

type Outcome = writes.RemovalRow | Error;

/** Removes users by one statement. Where another request with the key has removed the user at this moment, its answer is there now. */
async function writeRemovals(db: Queryable, removals: readonly writes.Removal[], waits: boolean): Promise<Outcome[]> {
  const outcomes = new Array<Outcome>(removals.length);
  for (const row of await writes.removeUsers(db, removals, waits)) outcomes[row.keyIndex - 1] = row;
  for (const [place, removal] of removals.entries()) {
    const { isRemoved, earlier } = outcomes[place] as writes.RemovalRow;
    if (isRemoved || earlier !== null || removal.retry === null) continue;
    // Its failure is no failure of the others, which are removed.
    outcomes[place] = await writes.removeUsers(db, [removal], waits).then(
      ([row]) => row as Outcome,
      (error) => error,
    );
  }
  return outcomes;
}

/** The keys that no two changes of a statement may have in common. */
const changesOf = ({ projectId, id, retry }: writes.Removal | writes.Update) => [
  `${projectId} user ${id}`,
  ...(retry ? [`${projectId} key ${retry.key}`] : []),
];

/** `byIdentity` finds who has an identity. */
export function createUserEdits(
  db: Database,
  totals: Totals,
  byIdentity: (key: IdentityKey) => Promise<User | null>,
): UserEdits {
  const remove = createBatchedWrite<writes.Removal, writes.RemovalRow>({
    db,
    name: 'removals',
    changes: changesOf,
    groupKey: ({ projectId }) => projectId,
    weigh: () => 1,
    write: writeRemovals,
    isCrossed: isKeyTaken,
  });

  /** Each by a statement of its own: they are rare. Those that meet a lock are as few at a time as other writes. */
  const update = createBatchedWrite<writes.Update, writes.UpdateRow>({
    db,
    name: 'updates',
    changes: changesOf,
    groupKey: ({ projectId, id }) => `${projectId} ${id}`,
    weigh: () => 1,
    write: async (on, [one], waits) => [await writes.updateUser(on, one as writes.Update, waits)],
    isCrossed: isKeyTaken,
  });

  return {
    async removeUser(scope, id, requestId, key = null, until = Number.POSITIVE_INFINITY) {
      const actor = scope.actorFor('write', requestId, 'remove');
      if (id > LARGEST_ID) throw noUser(id);
      const retry = key === null ? null : retryOf(key, ['remove', String(id)]);
      const { isRemoved, earlier } = await remove({ projectId: actor.projectId, actor, id, retry }, until);
      if (earlier !== null) repeatAnswer(earlier);
      else if (!isRemoved) throw noUser(id);
      else totals.countChange(actor.projectId);
    },

    async updateUser(scope, id, changes, requestId, key = null, until = Number.POSITIVE_INFINITY) {
      const actor = scope.actorFor('write', requestId, 'edit');
      if (id > LARGEST_ID) throw noUser(id);
      const retry = key === null ? null : retryOf(key, ['update', String(id), changes]);
      const { metadataPatch, ...values } = changes;
      const asked = { projectId: actor.projectId, actor, id, changes: values, retry };
      const row = await (metadataPatch === undefined ? update(asked, until) : updateByPatch(db, asked, metadataPatch))
        .catch(writes.throwExternalIdError)
        .catch(async (error) => {
          if (!isUniqueViolation(error)) throw error;
          const email = changes.saidEmail ?? '';
          const holder = await byIdentity({
            projectId: actor.projectId,
            authMethod: 'email',
            authValueKey: email,
            withAccounts: false,
          });
          throw identityTaken(holder?.id ?? null);
        });
      if (row.earlier !== null) {
        repeatAnswer(row.earlier);
        const user = await findRegistered(db, actor.projectId, Number(id));
        if (user === null) throw noUser(id);
        return user;
      }
      if (row.refusal === null) return pickUser(row);
      throw refusalOf(row, id);
    },

    countRemoved(scope, olderThanMs) {
      return writes.countRemoved(db, scope.projectIdFor('operate'), olderThanMs);
    },

    async purgeRemoved(scope, olderThanMs, requestId = null) {
      const actor = scope.actorFor('operate', requestId);
      await deleteOldKeys(db, actor.projectId);
      const users = await writes.purgeRemoved(db, actor, olderThanMs, PURGE_BATCH);
      return { users, isDone: users < PURGE_BATCH };
    },
  };
}

/** An update that makes the metadata of those that are there. The user is locked: of two who patch, each keeps what the other has changed. */
function updateByPatch(db: Database, asked: writes.Update, patch: string): Promise<writes.UpdateRow> {
  const { projectId, id, retry } = asked;
  const once = () =>
    db.requestTransaction(async (tx) => {
      const user = await writes.lockMetadata(tx, projectId, id);
      const earlier = retry && (await findEarlier(tx, projectId, retry));
      // What was done before is not refused for what became of the user since.
      if (earlier !== null) return writes.updateUser(tx, asked, true);
      if (user === null) throw noUser(id);
      const metadata = patchMetadata('metadataPatch', user.metadata, patch);
      return writes.updateUser(tx, { ...asked, changes: { ...asked.changes, metadata } }, true);
    });
  return once().catch((error) => {
    // Another request with the key has changed another user at this moment.
    if (isKeyTaken(error)) return once();
    throw error;
  });
}

/** Why an update was refused. */
function refusalOf({ refusal, takenBy }: writes.UpdateRow, id: bigint): AppError {
  if (refusal === 'email is identity') return emailIsIdentity();
  if (refusal === 'external id taken') return externalIdTaken(takenBy);
  return refusal === 'email banned' ? identityBanned() : noUser(id);
}
