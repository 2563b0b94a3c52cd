import { type Database, Prisma, type User } from '../db/client.js';
import { AppError, show } from '../errors.js';
import { findUsersByAddress, findUsersByEmail, findUsersById } from '../sql/find-users.js';
import { countUsers, listUserPage, listUserWindow, type UserWindow } from '../sql/list-users.js';
import type { Address } from './addresses.js';
import { createBatchedRead } from './batching.js';
import { LARGEST_ID, type UserFilter } from './filters.js';
import type { ProjectScope } from './projects.js';
import type { Totals } from './totals.js';

export type { User };
export type Users = ReturnType<typeof createUsers>;

const PURGE_BATCH = 5_000;

/** The current users of a project: those who have not been removed. */
export function createUsers(db: Database, totals: Totals) {
  const { prisma } = db;
  const byId = createBatchedRead((keys: readonly { projectId: number; id: bigint }[]) => findUsersById(db, keys));
  const byEmail = createBatchedRead((keys: readonly { projectId: number; email: string }[]) =>
    findUsersByEmail(db, keys),
  );
  const byAddress = createBatchedRead((keys: readonly { projectId: number; addressKey: string }[]) =>
    findUsersByAddress(db, keys),
  );
  const notFound = (id: bigint) => new AppError('NOT_FOUND', `There is no user ${show(id)} in this project.`);

  async function findUser({ projectId }: ProjectScope, id: bigint): Promise<User | null> {
    // PostgreSQL would refuse a number beyond its bigint, and no id is larger than this.
    if (id > LARGEST_ID) return null;
    const [user] = await byId({ projectId, id });
    return user ?? null;
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
    async listPage(scope: ProjectScope, filter: UserFilter, page: { page: number; limit: number }) {
      const { users, ...total } = await listUserPage(db, scope.projectId, filter, page);
      return { users, total: totals.read(scope, total) };
    },

    /** The users between two positions, what lies beyond them, and the exact total where it is wanted; one snapshot. */
    async listWindow(scope: ProjectScope, filter: UserFilter, window: UserWindow, withTotal: boolean) {
      const { total, ...rows } = await listUserWindow(db, scope.projectId, filter, window, withTotal);
      return { ...rows, total: total && totals.read(scope, total) };
    },

    /** The exact number of matching users (spec, "GET /server/users/count"). */
    async countUsers(scope: ProjectScope, filter: UserFilter): Promise<number> {
      return totals.read(scope, await countUsers(db, scope.projectId, filter));
    },

    /** Every user with this folded login email, newest first (spec, "GET /server/users/search"). */
    searchByEmail({ projectId }: ProjectScope, email: string): Promise<User[]> {
      return byEmail({ projectId, email });
    },

    /** Every user with this address among their accounts, newest first. */
    searchByAddress({ projectId }: ProjectScope, address: Address): Promise<User[]> {
      return byAddress({ projectId, addressKey: address.key });
    },

    /** Removes the user from the project, or NOT_FOUND. Of several at once exactly one succeeds; the identity may register again. */
    async removeUser({ projectId }: ProjectScope, id: bigint): Promise<void> {
      if (id > LARGEST_ID) throw notFound(id);
      const removed = await prisma.$executeRaw(Prisma.sql`
        UPDATE users SET deleted_at = now()
        WHERE project_id = ${projectId} AND id = ${id}::bigint AND deleted_at IS NULL`);
      if (removed === 0) throw notFound(id);
    },

    /**
     * Erases for good the users of one project who were removed more than `olderThanMs` ago, with their accounts, in
     * transactions of bounded size. Returns how many.
     */
    async purgeRemoved(
      { projectId }: ProjectScope,
      olderThanMs: number,
      progress: (purged: number) => void,
    ): Promise<number> {
      for (let purged = 0; ; ) {
        const batch = await prisma.$executeRaw(Prisma.sql`
          DELETE FROM users
          WHERE project_id = ${projectId} AND id IN (
            SELECT id FROM users
            WHERE project_id = ${projectId} AND deleted_at < now() - ${olderThanMs} * interval '1 millisecond'
            ORDER BY deleted_at
            LIMIT ${PURGE_BATCH}::bigint
          )`);
        purged += batch;
        progress(purged);
        if (batch < PURGE_BATCH) return purged;
      }
    },
  };
}
