import { type Database, Prisma, type Queryable } from '../db/client.js';
import { AppError, show } from '../errors.js';
import { type Placed, toUser, type User, type UserRow } from '../sql/columns.js';
import { findUsersById, type UserKey } from '../sql/find-users.js';
import {
  type Beyond,
  type CountKey,
  countShape,
  countUsers,
  type ListRow,
  listUserPages,
  listUserWindows,
  type PageKey,
  pageShape,
  usersOf,
  type WindowKey,
  windowShape,
} from '../sql/list-users.js';
import { type Actor, recordActs } from '../sql/audit.js';
import type { Total } from '../sql/totals/totals.js';
import type { Address } from '../domain/addresses.js';
import { createBatchedRead } from '../db/batched-read.js';
import { LARGEST_ID, type UserFilter } from '../domain/filters.js';
import { once } from './idempotency.js';
import type { ProjectScope } from './projects.js';
import { createSearch, userWeight } from './searches.js';
import type { Totals } from './totals.js';

export type { User };
export type Users = ReturnType<typeof createUsers>;

const PURGE_BATCH = 5_000;

type Page = Omit<PageKey, keyof CountKey>;
type Window = Omit<WindowKey, keyof CountKey>;

/** What is read of users; REST shows everything. */
export interface Wanted {
  readonly withAccounts: boolean;
}
const EVERYTHING: Wanted = { withAccounts: true };

/** The current users of a project: those who have not been removed. Users come with their accounts unless they are said not to. */
export function createUsers(db: Database, totals: Totals) {
  const byId = createBatchedRead({
    name: 'users by id',
    read: (keys: readonly UserKey[]) => findUsersById(db, keys),
    answer: ([row]: Placed<UserRow>[]) => (row === undefined ? null : toUser(row)),
    weigh: ({ withAccounts }) => userWeight(withAccounts),
  });
  const byEmail = createSearch(db, 'email');
  const byAddress = createSearch(db, 'address');
  const counts = createBatchedRead({
    name: 'counts of users',
    read: (keys: readonly CountKey[]) => countUsers(db, keys),
    answer: ([total]) => total as Total,
    shape: countShape,
  });
  const pages = createBatchedRead({
    name: 'pages of users',
    read: (keys: readonly PageKey[]) => listUserPages(db, keys),
    answer: (rows: ListRow<Total>[]) => ({ users: usersOf(rows), whole: rows[0] as ListRow<Total> }),
    shape: pageShape,
    weigh: listWeight,
  });
  const windows = createBatchedRead({
    name: 'windows of users',
    read: (keys: readonly WindowKey[]) => listUserWindows(db, keys),
    answer: (rows: ListRow<Beyond>[]) => ({ users: usersOf(rows), beyond: rows[0] as ListRow<Beyond> }),
    shape: windowShape,
    weigh: listWeight,
  });
  const notFound = (id: bigint) => new AppError('NOT_FOUND', `There is no user ${show(id)} in this project.`);

  async function findUser(scope: ProjectScope, id: bigint, { withAccounts } = EVERYTHING): Promise<User | null> {
    const projectId = scope.idFor('read');
    // PostgreSQL would refuse a number beyond its bigint, and no id is larger than this.
    return id > LARGEST_ID ? null : byId({ projectId, id, withAccounts });
  }

  async function remove(on: Queryable, actor: Actor, id: bigint): Promise<void> {
    if (id > LARGEST_ID) throw notFound(id);
    // Asked in a way that fits no index of current users, for the reason that userById has (sql/find-users.ts).
    const isCurrent = Prisma.sql`(deleted_at IS NULL)::int = 1`;
    const removed = await on.query(Prisma.sql`
      WITH removed AS (
        UPDATE users SET deleted_at = now()
        WHERE project_id = ${actor.projectId} AND id = ${id}::bigint AND ${isCurrent}
        RETURNING id
      ), audited AS (
        ${recordActs(actor, 'remove', Prisma.sql`SELECT id, '{}'::jsonb FROM removed`)}
      )
      SELECT id FROM removed`);
    if (removed.length === 0) throw notFound(id);
  }

  return {
    findUser,

    /** The user, or NOT_FOUND (spec, "GET /server/users/{user_id}"). */
    async getUser(scope: ProjectScope, id: bigint): Promise<User> {
      const user = await findUser(scope, id);
      if (user === null) throw notFound(id);
      return user;
    },

    /** A page and the exact total, from one snapshot (spec, "GET /server/users"). */
    async listPage(scope: ProjectScope, filter: UserFilter, page: Page) {
      const projectId = scope.idFor('read');
      const { users, whole } = await pages({ projectId, filter, ...page });
      return { users, total: totals.read(projectId, whole) };
    },

    /** The users between two positions, what lies beyond them, and the exact total where it is wanted; one snapshot. */
    async listWindow(scope: ProjectScope, filter: UserFilter, window: Window) {
      const projectId = scope.idFor('read');
      const { users, beyond } = await windows({ projectId, filter, ...window });
      const { newer, older, total, pending } = beyond;
      const { from, limit } = window;
      const hasMore = users.length > limit;
      return {
        users: from === 'newest' ? users.slice(0, limit) : users.slice(-limit),
        hasNewer: newer || (hasMore && from === 'oldest'),
        hasOlder: older || (hasMore && from === 'newest'),
        total: total === null ? null : totals.read(projectId, { total, pending }),
      };
    },

    /** The exact number of matching users (spec, "GET /server/users/count"). */
    async countUsers(scope: ProjectScope, filter: UserFilter): Promise<number> {
      const projectId = scope.idFor('read');
      return totals.read(projectId, await counts({ projectId, filter }));
    },

    /**
     * Every user with this folded login email, newest first (spec, "GET /server/users/search"). BAD_USER_INPUT where they are more
     * than one answer holds.
     */
    async searchByEmail(scope: ProjectScope, email: string, { withAccounts } = EVERYTHING): Promise<User[]> {
      return byEmail({ projectId: scope.idFor('read'), value: email, withAccounts });
    },

    /** Every user with this address among their accounts, as `searchByEmail`. */
    async searchByAddress(scope: ProjectScope, address: Address, { withAccounts } = EVERYTHING): Promise<User[]> {
      return byAddress({ projectId: scope.idFor('read'), value: address.key, withAccounts });
    },

    /**
     * Removes the user from the project, or NOT_FOUND. Of several at once exactly one succeeds, but that with a key a retry
     * succeeds as the first did; the identity may register again. `requestId` is null for the operator.
     */
    async removeUser(
      scope: ProjectScope,
      id: bigint,
      requestId: string | null,
      key: string | null = null,
    ): Promise<void> {
      const actor = scope.actorFor('write', requestId);
      if (key === null) await remove(db, actor, id);
      else await once(db, actor.projectId, { key, request: ['remove', String(id)] }, (tx) => remove(tx, actor, id));
    },

    /** How many `purgeRemoved` would erase. */
    async countRemoved(scope: ProjectScope, olderThanMs: number): Promise<number> {
      const [row] = await db.query<{ count: number }>(Prisma.sql`
        SELECT count(*) FROM users
        WHERE project_id = ${scope.idFor('operate')}
          AND deleted_at < now() - ${olderThanMs}::float8 * interval '1 millisecond'`);
      return row?.count ?? 0;
    },

    /**
     * Erases for good the users of one project who were removed more than `olderThanMs` ago, with their accounts, in
     * transactions of bounded size. Returns how many.
     */
    async purgeRemoved(scope: ProjectScope, olderThanMs: number, progress: (purged: number) => void): Promise<number> {
      const actor = scope.actorFor('operate', null);
      for (let purged = 0; ; ) {
        const [{ batch }] = (await db.query<{ batch: number }>(Prisma.sql`
          WITH purged AS (
            DELETE FROM users
            WHERE project_id = ${actor.projectId} AND id IN (
              SELECT id FROM users
              WHERE project_id = ${actor.projectId} AND deleted_at < now() - ${olderThanMs}::float8 * interval '1 millisecond'
              ORDER BY deleted_at
              LIMIT ${PURGE_BATCH}::bigint
            )
            RETURNING id
          ), audited AS (
            ${recordActs(
              actor,
              'purge',
              Prisma.sql`SELECT NULL::bigint, jsonb_build_object('purged', count(*)) FROM purged HAVING count(*) > 0`,
            )}
          )
          SELECT count(*)::int AS batch FROM purged`)) as [{ batch: number }];
        purged += batch;
        progress(purged);
        if (batch < PURGE_BATCH) return purged;
      }
    },
  };
}

function listWeight({ limit, withAccounts }: { limit: number; withAccounts: boolean }): number {
  return limit * userWeight(withAccounts);
}
