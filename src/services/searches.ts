import type { Database } from '../db/client.js';
import { AppError } from '../errors.js';
import { LARGEST_ANSWER_BYTES } from '../input-limits.js';
import type { User } from '../sql/columns.js';
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
import { usersOf } from '../sql/list-users.js';
import { createBatchedRead, MAX_WEIGHT } from '../db/batched-read.js';
import { oneAtATime } from '../db/one-at-a-time.js';

/** A search that finds more of them takes statements of its own. */
const FEW = 8;
/** Every match is returned or none: as many users are at most an answer. */
const MOST_MATCHES = 10_000;
/** As many links of an address are looked at in one statement: those of removed users are passed over, and may be any number. */
const LINKS_AT_ONCE = 2_000;

/** What a user weighs in a batch (`weigh`): accounts are more rows. */
export function userWeight(withAccounts: boolean): number {
  return withAccounts ? 4 : 1;
}

/** All users who match, newest first, or BAD_USER_INPUT where they are more than one answer holds. */
export function createSearch(db: Database, by: SearchedBy): (key: SearchKey) => Promise<User[]> {
  const findFew = createBatchedRead({
    name: `users by ${by}`,
    read: (keys: readonly SearchKey[]) => findFewUsers(db, by, keys, FEW + 1),
    answer: (rows: FewRow[]) => ({ users: usersOf(rows as Parameters<typeof usersOf>[0]), isAll: rows.length <= FEW }),
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
 * Measures before it reads, and does both in parts, so that the statements of others get their turn between them. Who is removed
 * after they were measured is left out.
 */
async function findManyUsers(db: Database, by: SearchedBy, key: SearchKey): Promise<User[]> {
  const measured = await MEASURE[by](db, key);
  if (measured.length > MOST_MATCHES) throw tooMuch(by, 'more than 10,000 users match');
  if (measured.reduce((total, { bytes }) => total + bytes, 0) > LARGEST_ANSWER_BYTES) {
    throw tooMuch(by, `the ${measured.length.toLocaleString('en')} users who match take more than 8 MiB`);
  }
  const newestFirst = measured.sort((a, b) =>
    a.createdAt === b.createdAt ? b.id - a.id : a.createdAt < b.createdAt ? 1 : -1,
  );
  const { projectId, withAccounts } = key;
  const users: User[] = [];
  const atOnce = MAX_WEIGHT / userWeight(withAccounts);
  for (let start = 0; start < newestFirst.length; start += atOnce) {
    const part = newestFirst.slice(start, start + atOnce);
    const rows = await findUsersById(
      db,
      part.map(({ id }) => ({ projectId, id: BigInt(id), withAccounts })),
    );
    users.push(...usersOf(rows.sort((a, b) => a.place - b.place)));
  }
  return users;
}

/** The current users who match, in no order; where they are too many, one more than that at least. */
const MEASURE: Record<SearchedBy, (db: Database, key: SearchKey) => Promise<MeasuredUser[]>> = {
  email: (db, key) => measureByEmail(db, key, MOST_MATCHES + 1),
  async address(db, key) {
    const measured: MeasuredUser[] = [];
    for (let afterLink: number | undefined = 0; afterLink !== undefined && measured.length <= MOST_MATCHES; ) {
      const links = await measureByAddress(db, key, afterLink, LINKS_AT_ONCE);
      for (const link of links) if (link.id !== null) measured.push(link);
      afterLink = links[LINKS_AT_ONCE - 1]?.link;
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
