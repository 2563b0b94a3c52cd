import { createBatchedRead, type KeyedRow } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import type { KeyedRead } from '../db/statements.js';
import type { Identity } from '../domain/identities.js';
import { LARGEST_ID } from '../domain/parse.js';
import type { ProjectScope } from '../domain/projects.js';
import { type Account, noUser, type User, userWeight } from '../domain/users.js';
import type { Address } from '../domain/wallets.js';
import { findUsersByExternalId, findUsersById, findUsersByIdentity } from './find-users.sql.js';
import { createLookups, createPrefixSearch, createSearch, type Lookups, type Wanted } from './searches.js';
import type { Totals } from './totals.js';
import { findAccountsByUser, toAccounts, toUser, type UserRow } from './user-columns.sql.js';
import { createUserEdits, type UserEdits } from './user-edits.js';
import { createUserLists, type UserLists } from './user-lists.js';

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

/** REST shows all of a user. */
const EVERYTHING: Wanted = { withAccounts: true };

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

  async function findUser(scope: ProjectScope, id: bigint, { withAccounts } = EVERYTHING): Promise<User | null> {
    const projectId = scope.projectIdFor('read');
    // No id is larger, and PostgreSQL would refuse a number beyond its bigint.
    return id > LARGEST_ID ? null : byId({ projectId, id, withAccounts });
  }

  return {
    findUser,

    ...createLookups(db, {
      byEmail: emails.find,
      byAddress: addresses.find,
      byId,
      byExternalId,
      byPrefix: createPrefixSearch(db),
    }),
    ...createUserLists(db, totals),
    ...createUserEdits(db, totals, byIdentity),

    async findIdentity(scope, { authMethod, authValueKey }, { withAccounts } = EVERYTHING) {
      return byIdentity({ projectId: scope.projectIdFor('read'), authMethod, authValueKey, withAccounts });
    },

    async findByExternalId(scope, externalId, { withAccounts } = EVERYTHING) {
      return byExternalId({ projectId: scope.projectIdFor('read'), externalId, withAccounts });
    },

    async getUser(scope, id) {
      const user = await findUser(scope, id);
      if (user === null) throw noUser(id);
      return user;
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
  };
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
