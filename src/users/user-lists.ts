import { createBatchedRead } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import { SCANNED } from '../domain/bounds.js';
import type { CountedFilter } from '../domain/filters.js';
import type { UserPage, UserScan, UserWindow } from '../domain/pages.js';
import type { ProjectScope } from '../domain/projects.js';
import type { StateFilter } from '../domain/state-filters.js';
import { type User, userWeight } from '../domain/users.js';
import * as lists from './list-users.sql.js';
import type { Totals } from './totals.js';
import type { Total } from './totals.sql.js';
import { usersOf } from './user-columns.sql.js';

/** Users in order, newest first, and their numbers. */
export interface UserLists {
  /** A page and the exact total, in one snapshot (spec, "GET /server/users"). */
  listPage(scope: ProjectScope, filter: CountedFilter, page: lists.AskedPage): Promise<UserPage>;
  /** The users between two positions, all in one snapshot. */
  listWindow(scope: ProjectScope, filter: CountedFilter, window: lists.AskedWindow): Promise<UserWindow>;
  /** Users between two positions by state. It looks at a limited number, so it may return fewer than the limit. */
  scanWindow(
    scope: ProjectScope,
    filter: CountedFilter,
    state: StateFilter | null,
    window: lists.AskedScan,
  ): Promise<UserScan>;
  /** The exact number of matching users (spec, "GET /server/users/count"). */
  countUsers(scope: ProjectScope, filter: CountedFilter): Promise<number>;
}

export function createUserLists(db: Database, totals: Totals): UserLists {
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
    weigh: () => SCANNED,
  });

  /** The number of a total, after which its deltas may be folded. */
  function readTotal(projectId: number, total: Total): number {
    totals.scheduleFold(projectId, total);
    return total.total;
  }

  return {
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
      const { users: rows, whole } = await scans({ projectId, filter, state, ...window });
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
  };
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
