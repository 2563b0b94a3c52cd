import { createBatchedRead, MAX_WEIGHT } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import { oneAtATime } from '../db/one-at-a-time.js';
import { MAX_REMOVED } from '../domain/bounds.js';
import { cursor, cursorOf } from '../domain/cursors.js';
import { inFigures } from '../domain/figures.js';
import { foldEmail, type Identity, type Prefix, parseValueKey } from '../domain/identities.js';
import { isTooLong, LARGEST_ANSWER_BYTES } from '../domain/input-limits.js';
import { isExternalId } from '../domain/kept-texts.js';
import { parse, parseUserId } from '../domain/parse.js';
import type { ProjectScope } from '../domain/projects.js';
import { type Beginning, byNewest, type User, type UserDetails, userWeight } from '../domain/users.js';
import { parseAddress } from '../domain/wallets.js';
import { AppError, badInput } from '../errors.js';
import * as described from './describe-users.sql.js';
import * as sql from './find-users.sql.js';
import { toUser, type UserRow, usersOf } from './user-columns.sql.js';

/** A search with more matches leaves the shared statement and uses its own. */
const MAX_SHARED_MATCHES = 8;
/** An answer has all matches or none, and at most this many. */
const MAX_MATCHES = 10_000;
/** The users that many emails may match together. Each user beyond the emails is charged once all are found. */
const MAX_MATCHES_TOGETHER = 1_000;
/** The links of an address that one statement reads. Links of removed users are skipped, and there may be any number. */
const MAX_LINKS_READ = 2_000;

/** The parts of users to read. */
export interface Wanted {
  readonly withAccounts: boolean;
}

/** Finds all users who match, newest first. BAD_USER_INPUT if they are too many for one answer. */
export interface Search {
  find(key: sql.SearchKey): Promise<User[]>;
  /** Users for each key. Those with many matches are read one after the other, so that no more are in memory than one search may find. */
  findEach(keys: readonly sql.SearchKey[]): Promise<User[][]>;
}

export function createSearch(db: Database, by: sql.SearchedBy): Search {
  const read = sql.findFewUsers(by, MAX_SHARED_MATCHES + 1);
  const findFew = createBatchedRead({
    name: `users by ${by}`,
    read: (keys: readonly sql.SearchKey[]) => read(db, keys),
    answer: (rows: sql.FewRow[]) => ({
      users: usersOf(rows).filter(isFirst),
      isAll: rows.length <= MAX_SHARED_MATCHES,
    }),
    // Most searches find one user.
    weigh: ({ withAccounts }) => 4 * userWeight(withAccounts),
  });
  const findMany = oneAtATime((key: sql.SearchKey) => findManyUsers(db, by, key));

  return {
    async find(key) {
      const { users, isAll } = await findFew(key);
      return isAll ? users : findMany(key);
    },

    async findEach(keys) {
      const results = await Promise.all(keys.map(findFew));
      const lists: User[][] = [];
      let matches = 0;
      for (const [place, { users, isAll }] of results.entries()) {
        const list = isAll ? users : await findMany(keys[place] as sql.SearchKey);
        matches += list.length;
        if (matches > MAX_MATCHES_TOGETHER)
          throw tooMuch(`${by}s`, `more than ${inFigures(MAX_MATCHES_TOGETHER)} users match`);
        lists.push(list);
      }
      return lists;
    },
  };
}

/** Of users in order. */
const isFirst = ({ id }: { id: number }, place: number, users: readonly { id: number }[]) =>
  users[place - 1]?.id !== id;

/** Measures the users before it reads them, both in parts, so that other statements run in between. A user removed after it is left out. */
async function findManyUsers(db: Database, by: sql.SearchedBy, key: sql.SearchKey): Promise<User[]> {
  const rows = await MEASURE[by](db, key);
  if (rows.length > MAX_MATCHES) throw tooMuch(by, `more than ${inFigures(MAX_MATCHES)} users match`);
  const measured = rows
    .filter((row) => row.id !== null)
    .sort(byNewest)
    .filter(isFirst);
  if (measured.reduce((total, { bytes }) => total + bytes, 0) > LARGEST_ANSWER_BYTES) {
    throw tooMuch(
      by,
      `the ${inFigures(measured.length)} users who match take more than ${LARGEST_ANSWER_BYTES / 2 ** 20} MiB`,
    );
  }
  const { projectId, withAccounts } = key;
  const users: User[] = [];
  const partSize = MAX_WEIGHT / userWeight(withAccounts);
  for (let start = 0; start < measured.length; start += partSize) {
    const part = measured.slice(start, start + partSize);
    const rows = await sql.findUsersById(
      db,
      part.map(({ id }) => ({ projectId, id: BigInt(id), withAccounts })),
    );
    users.push(...usersOf(rows));
  }
  return users;
}

/** Rows for the current users who match, in no order. If they are too many, at least one more than MAX_MATCHES. */
const MEASURE: Record<sql.SearchedBy, (db: Database, key: sql.SearchKey) => Promise<sql.MeasuredRow[]>> = {
  email: (db, key) => sql.measureByEmail(db, key, MAX_MATCHES + 1),
  async address(db, key) {
    const measured: sql.MeasuredUser[] = [];
    for (let afterLink: number | undefined = 0; afterLink !== undefined && measured.length <= MAX_MATCHES; ) {
      const links = await sql.measureByAddress(db, key, afterLink, MAX_LINKS_READ);
      for (const link of links) if (link.id !== null) measured.push(link);
      afterLink = links[MAX_LINKS_READ - 1]?.link;
    }
    return measured;
  },
};

function tooMuch(by: string, what: string): AppError {
  return new AppError(
    'BAD_USER_INPUT',
    `${by}: ${what}, which one answer cannot hold; list them with GET /server/users or users(...).`,
  );
}

/** Finds at most `limit` users by the beginning of their login email, the value of their identity or their external id. */
export type PrefixSearch = (key: sql.PrefixKey) => Promise<Beginning<User>>;

export function createPrefixSearch(db: Database): PrefixSearch {
  const read = createBatchedRead({
    name: 'users by prefix',
    read: (keys: readonly sql.PrefixKey[]) => sql.findUsersByPrefix(db, keys),
    answer: (rows: sql.PrefixRow[]) => {
      const users = rows.filter((row) => row.id !== null).sort((a, b) => a.place - b.place);
      return { users: users.map((row) => toUser(row as UserRow)), isPartial: users.length < rows.length };
    },
    weigh: ({ limit, withAccounts }) => limit * userWeight(withAccounts),
  });
  return async ({ limit, ...key }) => {
    // One more tells whether there are more.
    const { users, isPartial } = await read({ ...key, limit: limit + 1 });
    return { users: users.slice(0, limit), hasMore: isPartial || users.length > limit };
  };
}

/** The users that one statement reads with all that is known of them. */
const BATCH_SIZE = 500;
/** A search among removed users answers this many, the last removed ones. */

export type RemovedUser = UserDetails & { readonly removedAt: string };
const isRemoved = (user: UserDetails): user is RemovedUser => user.removedAt !== null;

/** The reads of users.ts that a search is made of. */
export interface Reads {
  readonly byEmail: (key: sql.SearchKey) => Promise<User[]>;
  readonly byAddress: (key: sql.SearchKey) => Promise<User[]>;
  readonly byId: (key: sql.UserKey) => Promise<User | null>;
  readonly byExternalId: (key: sql.ExternalIdKey) => Promise<User | null>;
  readonly byPrefix: PrefixSearch;
}

/** Finds users for people, who have an id from a log or from another system, an email, an address or an identity. */
export interface Lookups {
  /** Everything that is known of a user, also of a removed one; null if the project has no such user, or erased them. */
  describeUser(scope: ProjectScope, id: bigint): Promise<UserDetails | null>;
  /**
   * The users whom a text means, newest first: by a user id, also of a removed user, a login email, an address, the value of an identity under
   * any method, or an external id. With `removed`, at most 100 removed users instead of current ones. BAD_USER_INPUT.
   */
  searchAny(scope: ProjectScope, text: string, removed?: boolean): Promise<UserDetails[]>;
  /** The current users whom a text means, newest first. The value of an identity would be looked up under every method. BAD_USER_INPUT, which names the text as `name`. */
  findAny(scope: ProjectScope, name: string, text: string, wanted: Wanted): Promise<User[]>;
  /**
   * At most `limit` current users whose login email, identity or external id begins with a text, in alphabetical order.
   * Emails and addresses of Ethereum begin so in any case, other values exactly. Identities of at most METHODS_BY_PREFIX login methods.
   */
  findPrefix(scope: ProjectScope, prefix: Prefix, wanted: WantedBeginning): Promise<Beginning<User>>;
  /** At most `limit` removed users who are not erased yet, by the time of their removal. BAD_USER_INPUT. */
  listRemoved(scope: ProjectScope, page: RemovedPage): Promise<RemovedUsers>;
  /** At most 100 removed users who had an identity, newest first. */
  findRemovedByIdentity(scope: ProjectScope, identity: Identity): Promise<UserDetails[]>;
}

export interface WantedBeginning extends Wanted {
  readonly limit: number;
}

export interface RemovedPage extends Omit<described.RemovedPage, 'after'> {
  /** The `next` of the page before; null for the first one. */
  readonly after: string | null;
}

export interface RemovedUsers {
  readonly users: RemovedUser[];
  /** The cursor of the page after; null at the end. */
  readonly next: string | null;
}

export function createLookups(db: Database, { byId, byEmail, byAddress, byExternalId, byPrefix }: Reads): Lookups {
  async function describe(projectId: number, ids: readonly bigint[]): Promise<UserDetails[]> {
    const users: UserDetails[] = [];
    for (let start = 0; start < ids.length; start += BATCH_SIZE)
      users.push(...(await described.describeUsers(db, projectId, ids.slice(start, start + BATCH_SIZE))));
    return users;
  }

  /** Details of users in the order of the ids. */
  async function describeInOrder(projectId: number, ids: readonly bigint[]): Promise<UserDetails[]> {
    const users = new Map((await describe(projectId, ids)).map((user) => [user.id, user]));
    return ids.flatMap((id) => users.get(Number(id)) ?? []);
  }

  async function idsOf(projectId: number, { value, email, addressKey, externalId }: described.Mark) {
    const key = (text: string) => ({ projectId, value: text, withAccounts: false });
    const matches = await Promise.all([
      email === undefined ? [] : byEmail(key(email)),
      addressKey === undefined ? [] : byAddress(key(addressKey)),
      externalId === undefined ? null : byExternalId({ projectId, externalId, withAccounts: false }),
    ]);
    const ids = matches.flat().flatMap((user) => (user === null ? [] : BigInt(user.id)));
    return value === undefined ? ids : [...ids, ...(await sql.findIdsByValue(db, projectId, value))];
  }

  return {
    async describeUser(scope, id) {
      return described.describeUser(db, scope.projectIdFor('inspect'), id);
    },

    async searchAny(scope, text, removed = false) {
      const projectId = scope.projectIdFor('inspect');
      const { id, ...mark } = parseAny(text);
      const ids = removed
        ? await described.findRemovedIds(db, projectId, mark, MAX_REMOVED)
        : await idsOf(projectId, mark);
      const users = await describe(projectId, id === null ? ids : [id, ...ids]);
      return users.filter(({ removedAt }) => !removed || removedAt !== null);
    },

    async findAny(scope, name, text, { withAccounts }) {
      const projectId = scope.projectIdFor('read');
      const { id, email, addressKey, externalId } = parseMarks(text);
      if (id === null && email === undefined && addressKey === undefined && externalId === undefined)
        throw badInput(name, text, 'a user ID, a login email, an address or an external ID');
      const matches = await Promise.all([
        id === null ? null : byId({ projectId, id, withAccounts }),
        email === undefined ? [] : byEmail({ projectId, value: email, withAccounts }),
        addressKey === undefined ? [] : byAddress({ projectId, value: addressKey, withAccounts }),
        externalId === undefined ? null : byExternalId({ projectId, externalId, withAccounts }),
      ]);
      const users = new Map(matches.flat().flatMap((user) => (user === null ? [] : [[user.id, user] as const])));
      return [...users.values()].sort(byNewest);
    },

    async findPrefix(scope, prefix, { limit, withAccounts }) {
      const projectId = scope.projectIdFor('read');
      return byPrefix({ projectId, ...prefix, limit, withAccounts });
    },

    async listRemoved(scope, { after, limit, order }) {
      const projectId = scope.projectIdFor('inspect');
      const position = after === null ? null : parse(cursor('after', 'removed users'), after);
      const ids = await described.listRemovedIds(db, projectId, { after: position, limit: limit + 1, order });
      // One may have been restored at this moment.
      const removed = (await describeInOrder(projectId, ids)).filter(isRemoved);
      const users = removed.slice(0, limit);
      const last = users.at(-1);
      const next = ids.length > limit && last ? cursorOf({ id: last.id, createdAt: last.removedAt }) : null;
      return { users, next };
    },

    async findRemovedByIdentity(scope, identity) {
      const projectId = scope.projectIdFor('inspect');
      return describe(projectId, await described.findRemovedIds(db, projectId, { identity }, MAX_REMOVED));
    },
  };
}

/** The meanings of a text from a log, a mail or a wallet. */
function parseAny(text: string): Marks {
  const marks = parseMarks(text);
  const isValue = marks.email === undefined && marks.addressKey === undefined;
  // An ID at a social provider may be digits, too.
  return isValue ? { ...marks, value: parseValueKey('search', text) } : marks;
}

type Marks = described.Mark & { readonly id: bigint | null };

/** The meanings of a text without the value of an identity. */
function parseMarks(text: string): Marks {
  if (isTooLong('authValue', text)) return { id: null };
  // The caller chooses external ids, which may be anything.
  const externalId = isExternalId(text.trim()) ? { externalId: text.trim() } : {};
  const email = foldEmail(text);
  if (email !== null) return { id: null, email, ...externalId };
  const address = parseAddress(text.trim());
  if (!('reason' in address)) return { id: null, addressKey: address.key, ...externalId };
  return { id: parseUserId(text.trim()), ...externalId };
}
