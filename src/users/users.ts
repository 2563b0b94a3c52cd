import { createBatchedRead, type KeyedRow } from '../db/batched-read.js';
import { createBatchedWrite } from '../db/batched-write.js';
import type { Database } from '../db/database.js';
import { isUniqueViolation } from '../db/failures.js';
import type { KeyedRead, Queryable } from '../db/statements.js';
import type { UserFilter, UserPage, UserScan, UserWindow } from '../domain/filters.js';
import { externalIdTaken, type Identity, identityBanned, identityTaken } from '../domain/identities.js';
import { patchMetadata } from '../domain/metadata.js';
import { LARGEST_ID } from '../domain/parse.js';
import type { ProjectScope } from '../domain/projects.js';
import type { StateFilter } from '../domain/state-filters.js';
import { emailIsIdentity, type UserChanges } from '../domain/user-changes.js';
import { pickUser } from '../domain/user-columns.js';
import { type Account, noUser, type User, userWeight } from '../domain/users.js';
import type { Address } from '../domain/wallets.js';
import type { AppError } from '../errors.js';
import { deleteOldKeys, repeatAnswer, retryOf } from '../projects/idempotency.js';
import { findEarlier, isKeyTaken } from '../projects/idempotency.sql.js';
import { findUsersByExternalId, findUsersById, findUsersByIdentity } from './find-users.sql.js';
import * as lists from './list-users.sql.js';
import { findRegistered } from './logins.sql.js';
import { createLookups, createPrefixSearch, createSearch, type Lookups, type Wanted } from './searches.js';
import type { Totals } from './totals.js';
import type { Total } from './totals.sql.js';
import { findAccountsByUser, toAccounts, toUser, type UserRow, usersOf } from './user-columns.sql.js';
import * as writes from './write-users.sql.js';

/** The current users of a project, which are those who were not removed. Users come with their accounts unless not wanted. */
export interface Users extends UserReads, UserLists, UserEdits, Lookups {}

/** Some users, by what tells one from the others. Reads for many callers share statements. */
export interface UserReads {
  /** One user; null if there is none. */
  findUser(scope: ProjectScope, id: bigint, wanted?: Wanted): Promise<User | null>;
  /** The user, or NOT_FOUND (spec, "GET /server/users/{user_id}"). */
  getUser(scope: ProjectScope, id: bigint): Promise<User>;
  /** The user who logs in by an identity, primary or linked; null if there is none. */
  findIdentity(scope: ProjectScope, identity: Identity, wanted?: Wanted): Promise<User | null>;
  /** The user with an ID in the system of the caller; null if there is none. */
  findByExternalId(scope: ProjectScope, externalId: string, wanted?: Wanted): Promise<User | null>;
  /** Every user with this folded login email, newest first (spec, "GET /server/users/search"). BAD_USER_INPUT if they are too many. */
  searchByEmail(scope: ProjectScope, email: string, wanted?: Wanted): Promise<User[]>;
  /** The users with each of some folded emails, as `searchByEmail`. BAD_USER_INPUT if they are too many together. */
  searchByEmails(scope: ProjectScope, folded: readonly string[], wanted: Wanted): Promise<User[][]>;
  /** Every user with this address among their accounts, as `searchByEmail`. */
  searchByAddress(scope: ProjectScope, address: Address, wanted?: Wanted): Promise<User[]>;
}

/** Users in order, newest first, and their numbers. */
export interface UserLists {
  /** A page and the exact total, in one snapshot (spec, "GET /server/users"). */
  listPage(scope: ProjectScope, filter: UserFilter, page: lists.AskedPage): Promise<UserPage>;
  /** The users between two positions, all in one snapshot. */
  listWindow(scope: ProjectScope, filter: UserFilter, window: lists.AskedWindow): Promise<UserWindow>;
  /** Users between two positions by state. It looks at a limited number, so it may return fewer than the limit. */
  scanWindow(
    scope: ProjectScope,
    filter: UserFilter,
    state: StateFilter | null,
    window: lists.AskedScan,
  ): Promise<UserScan>;
  /** The exact number of matching users (spec, "GET /server/users/count"). */
  countUsers(scope: ProjectScope, filter: UserFilter): Promise<number>;
  /** The number of users that `purgeRemoved` would erase. */
  countRemoved(scope: ProjectScope, olderThanMs: number): Promise<number>;
}

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
   * Changes the login email, the external ID or the metadata of a user, who is returned without accounts. A retry with the same key changes
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

/** REST shows all of a user. */
const EVERYTHING: Wanted = { withAccounts: true };

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

export function createUsers(db: Database, totals: Totals): Users {
  const readUser = <Key extends Wanted & { readonly projectId: number }>(name: string, read: KeyedRead<Key, UserRow>) =>
    createBatchedRead({
      name,
      read: (keys: readonly Key[]) => read(db, keys),
      answer: ([row]: KeyedRow<UserRow>[]) => (row === undefined ? null : toUser(row)),
      weigh: ({ withAccounts }) => userWeight(withAccounts),
    });
  const byId = readUser('users by id', findUsersById);
  const byIdentity = readUser('users by identity', findUsersByIdentity);
  const byExternalId = readUser('users by external id', findUsersByExternalId);
  const emails = createSearch(db, 'email');
  const addresses = createSearch(db, 'address');
  const counts = createBatchedRead({
    name: 'counts of users',
    read: (keys: readonly lists.CountKey[]) => lists.countUsers(db.replicaReads, keys),
    answer: ([total]) => total as Total,
    groupKey: lists.countGroupKey,
  });
  const pages = createBatchedRead({
    name: 'pages of users',
    read: (keys: readonly lists.PageKey[]) => lists.listUserPages(db.replicaReads, keys),
    answer: toList<Total>,
    groupKey: lists.pageGroupKey,
    weigh: listWeight,
  });
  const windows = createBatchedRead({
    name: 'windows of users',
    read: (keys: readonly lists.WindowKey[]) => lists.listUserWindows(db.replicaReads, keys),
    answer: toList<lists.Beyond>,
    groupKey: lists.windowGroupKey,
    weigh: listWeight,
  });
  const scans = createBatchedRead({
    name: 'scans of users',
    read: (keys: readonly lists.ScanKey[]) => lists.scanUserWindows(db, keys),
    answer: toList<lists.Reached>,
    groupKey: lists.scanGroupKey,
    weigh: ({ scanned }) => scanned,
  });

  async function findUser(scope: ProjectScope, id: bigint, { withAccounts } = EVERYTHING): Promise<User | null> {
    const projectId = scope.projectIdFor('read');
    // No id is larger, and PostgreSQL would refuse a number beyond its bigint.
    return id > LARGEST_ID ? null : byId({ projectId, id, withAccounts });
  }

  const changesOf = ({ projectId, id, retry }: writes.Removal | writes.Update) => [
    `${projectId} user ${id}`,
    ...(retry ? [`${projectId} key ${retry.key}`] : []),
  ];

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

  function findByIdentity(
    projectId: number,
    { authMethod, authValueKey }: Pick<Identity, 'authMethod' | 'authValueKey'>,
    withAccounts: boolean,
  ) {
    return byIdentity({ projectId, authMethod, authValueKey, withAccounts });
  }

  /** The number of a total, after which its deltas may be folded. */
  function readTotal(projectId: number, total: Total): number {
    totals.scheduleFold(projectId, total);
    return total.total;
  }

  return {
    findUser,

    ...createLookups(db, {
      byEmail: emails.find,
      byAddress: addresses.find,
      byIdentity: (projectId, identity) => findByIdentity(projectId, identity, false),
      byId,
      byExternalId,
      byPrefix: createPrefixSearch(db),
    }),

    async findIdentity(scope, identity, { withAccounts } = EVERYTHING) {
      return findByIdentity(scope.projectIdFor('read'), identity, withAccounts);
    },

    async findByExternalId(scope, externalId, { withAccounts } = EVERYTHING) {
      return byExternalId({ projectId: scope.projectIdFor('read'), externalId, withAccounts });
    },

    async getUser(scope, id) {
      const user = await findUser(scope, id);
      if (user === null) throw noUser(id);
      return user;
    },

    async listPage(scope, filter, page) {
      const projectId = scope.projectIdFor('read');
      const { users, whole } = await pages({ projectId, filter, ...page });
      return { users, total: readTotal(projectId, whole) };
    },

    async listWindow(scope, filter, window) {
      const projectId = scope.projectIdFor('read');
      const { users, whole } = await windows({ projectId, filter, ...window });
      const { newer, older, total, pending } = whole;
      const { from } = window;
      const hasMore = users.length > window.limit;
      return {
        users: nearestOf(users, window),
        hasNewer: newer === true || (hasMore && from === 'oldest'),
        hasOlder: older === true || (hasMore && from === 'newest'),
        total: total === null || pending === null ? null : readTotal(projectId, { total, pending }),
      };
    },

    async scanWindow(scope, filter, state, window) {
      const projectId = scope.projectIdFor('read');
      const { users: rows, whole } = await scans({ projectId, filter, state, scanned: lists.SCANNED, ...window });
      const users = nearestOf(rows, window);
      const last = window.from === 'newest' ? users.at(-1) : users[0];
      const isFull = rows.length > window.limit;
      const { reachedAt, reachedId } = whole;
      if (!isFull && reachedAt !== null && reachedId !== null)
        return { users, hasMore: true, end: { createdAt: new Date(reachedAt), id: reachedId } };
      return { users, hasMore: isFull, end: last ? { createdAt: new Date(last.createdAt), id: last.id } : null };
    },

    async countUsers(scope, filter) {
      const projectId = scope.projectIdFor('read');
      return readTotal(projectId, await counts({ projectId, filter }));
    },

    async searchByEmail(scope, email, { withAccounts } = EVERYTHING) {
      return emails.find({ projectId: scope.projectIdFor('read'), value: email, withAccounts });
    },

    async searchByEmails(scope, folded, { withAccounts }) {
      const projectId = scope.projectIdFor('read');
      return emails.findEach(folded.map((value) => ({ projectId, value, withAccounts })));
    },

    async searchByAddress(scope, address, { withAccounts } = EVERYTHING) {
      return addresses.find({ projectId: scope.projectIdFor('read'), value: address.key, withAccounts });
    },

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
          const holder = await findByIdentity(actor.projectId, { authMethod: 'email', authValueKey: email }, false);
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

/** The users of the rows of a list, and what they say of the whole list. */
function toList<Whole>(rows: lists.ListRow<Whole>[]): { users: User[]; whole: lists.ListRow<Whole> } {
  return { users: usersOf(rows), whole: rows[0] as lists.ListRow<Whole> };
}

/** The users of a window, which may have one more. */
function nearestOf(users: User[], { from, limit }: Pick<lists.AskedWindow, 'from' | 'limit'>): User[] {
  return from === 'newest' ? users.slice(0, limit) : users.slice(-limit);
}

function listWeight({ limit, withAccounts }: { limit: number; withAccounts: boolean }): number {
  return limit * userWeight(withAccounts);
}

/** Accounts for users who were read without them. */
export interface Accounts {
  /** The accounts of a user, oldest first; none for a user of another project. */
  listAccounts(scope: ProjectScope, userId: number): Promise<Account[]>;
}

export function createAccounts(db: Database): Accounts {
  const byUser = createBatchedRead({
    name: 'accounts by user',
    read: (keys: readonly { projectId: number; userId: number }[]) => findAccountsByUser(db, keys),
    answer: ([row]) => toAccounts(row?.linked ?? ''),
    weigh: () => userWeight(true),
  });
  return {
    async listAccounts(scope, userId) {
      // The user came from a read, or from a write that returns the user.
      return byUser({ projectId: scope.projectIdFor('read', 'write'), userId });
    },
  };
}
