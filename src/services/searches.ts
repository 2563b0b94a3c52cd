import { createBatchedRead, MAX_WEIGHT } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import { oneAtATime } from '../db/one-at-a-time.js';
import { LARGEST_ANSWER_BYTES } from '../domain/input-limits.js';
import { byNewest, type User } from '../domain/users.js';
import { AppError } from '../errors.js';
import {
  type FewRow,
  findFewUsers,
  findUsersById,
  type MeasuredUser,
  measureByAddress,
  measureByEmail,
  type SearchedBy,
  type SearchKey,
} from '../sql/find-users.js';
import { usersOf } from '../sql/user-columns.js';

/** A search with more matches leaves the shared statement and uses its own. */
const MAX_SHARED_MATCHES = 8;
/** An answer has all matches or none, and at most this many. */
const MAX_MATCHES = 10_000;
/** How many links of an address one statement reads. Links of removed users are skipped, and there may be any number. */
const MAX_LINKS_READ = 2_000;

/** Which parts of users are read. */
export interface Wanted {
  readonly withAccounts: boolean;
}

/** The weight of a user in a batch (`weigh`): with accounts a user is more rows. */
export function userWeight(withAccounts: boolean): number {
  return withAccounts ? 4 : 1;
}

/** All users who match, newest first. BAD_USER_INPUT if they are too many for one answer. */
export function createSearch(db: Database, by: SearchedBy): (key: SearchKey) => Promise<User[]> {
  const read = findFewUsers(by, MAX_SHARED_MATCHES + 1);
  const findFew = createBatchedRead({
    name: `users by ${by}`,
    read: (keys: readonly SearchKey[]) => read(db, keys),
    answer: (rows: FewRow[]) => ({ users: usersOf(rows), isAll: rows.length <= MAX_SHARED_MATCHES }),
    // Most searches find one user.
    weigh: ({ withAccounts }) => 4 * userWeight(withAccounts),
  });
  const findMany = oneAtATime((key: SearchKey) => findManyUsers(db, by, key));

  return async (key) => {
    const { users, isAll } = await findFew(key);
    return isAll ? users : findMany(key);
  };
}

/**
 * Measures the users before it reads them, and does both in parts, so that statements of other requests run in between. A user
 * who is removed after the measurement is left out.
 */
async function findManyUsers(db: Database, by: SearchedBy, key: SearchKey): Promise<User[]> {
  const measured = await MEASURE[by](db, key);
  if (measured.length > MAX_MATCHES) throw tooMuch(by, 'more than 10,000 users match');
  if (measured.reduce((total, { bytes }) => total + bytes, 0) > LARGEST_ANSWER_BYTES) {
    throw tooMuch(by, `the ${measured.length.toLocaleString('en')} users who match take more than 8 MiB`);
  }
  const newestFirst = measured.sort(byNewest);
  const { projectId, withAccounts } = key;
  const users: User[] = [];
  const partSize = MAX_WEIGHT / userWeight(withAccounts);
  for (let start = 0; start < newestFirst.length; start += partSize) {
    const part = newestFirst.slice(start, start + partSize);
    const rows = await findUsersById(
      db,
      part.map(({ id }) => ({ projectId, id: BigInt(id), withAccounts })),
    );
    users.push(...usersOf(rows));
  }
  return users;
}

/** The current users who match, in no order. If they are too many, at least one more than MAX_MATCHES. */
const MEASURE: Record<SearchedBy, (db: Database, key: SearchKey) => Promise<MeasuredUser[]>> = {
  email: (db, key) => measureByEmail(db, key, MAX_MATCHES + 1),
  async address(db, key) {
    const measured: MeasuredUser[] = [];
    for (let afterLink: number | undefined = 0; afterLink !== undefined && measured.length <= MAX_MATCHES; ) {
      const links = await measureByAddress(db, key, afterLink, MAX_LINKS_READ);
      for (const link of links) if (link.id !== null) measured.push(link);
      afterLink = links[MAX_LINKS_READ - 1]?.link;
    }
    return measured;
  },
};

function tooMuch(by: SearchedBy, what: string): AppError {
  return new AppError(
    'BAD_USER_INPUT',
    `${by}: ${what}, which one answer cannot hold; list them with GET /server/users or users(...).`,
  );
}
