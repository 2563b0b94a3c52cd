import type { Database } from '../db/database.js';
import { parseAddress } from '../domain/addresses.js';
import { LARGEST_ID, parseUserId } from '../domain/filters.js';
import { foldEmail, type Identity, isExternalId, parseValueKey } from '../domain/identities.js';
import { isTooLong } from '../domain/input-limits.js';
import type { ProjectScope } from '../domain/projects.js';
import { byNewest, type User, type UserDetails } from '../domain/users.js';
import { badInput } from '../errors.js';
import { describeUsers, findIdsByValue, findRemovedIds, type Mark } from '../sql/look-up-users.js';
import type { ExternalIdKey, SearchKey, UserKey } from '../sql/find-users.js';
import type { Wanted } from './searches.js';

/** How many users one statement reads with everything that is known of them. */
const BATCH_SIZE = 500;
/** A search among removed users answers this many, the last removed ones. */
const MAX_REMOVED = 100;

/** The reads of users.ts that a search is made of. */
export interface Reads {
  readonly byEmail: (key: SearchKey) => Promise<User[]>;
  readonly byAddress: (key: SearchKey) => Promise<User[]>;
  readonly byId: (key: UserKey) => Promise<User | null>;
  readonly byIdentity: (projectId: number, identity: Identity) => Promise<User | null>;
  readonly byExternalId: (key: ExternalIdKey) => Promise<User | null>;
}

/** Finds users for people, who have an id from a log or from another system, an email, an address or an identity. */
export function createLookups(db: Database, { byId, byEmail, byAddress, byIdentity, byExternalId }: Reads) {
  async function describe(projectId: number, ids: readonly bigint[]): Promise<UserDetails[]> {
    const users: UserDetails[] = [];
    for (let start = 0; start < ids.length; start += BATCH_SIZE)
      users.push(...(await describeUsers(db, projectId, ids.slice(start, start + BATCH_SIZE))));
    return users;
  }

  async function idsOf(projectId: number, { identity, value, email, addressKey, externalId }: Mark): Promise<bigint[]> {
    const key = (text: string) => ({ projectId, value: text, withAccounts: false });
    const found = await Promise.all([
      identity === undefined ? null : byIdentity(projectId, identity),
      email === undefined ? [] : byEmail(key(email)),
      addressKey === undefined ? [] : byAddress(key(addressKey)),
      externalId === undefined ? null : byExternalId({ projectId, externalId, withAccounts: false }),
    ]);
    const ids = found.flat().flatMap((user) => (user === null ? [] : BigInt(user.id)));
    return value === undefined ? ids : [...ids, ...(await findIdsByValue(db, projectId, value))];
  }

  async function findMarked(projectId: number, mark: Mark, removed: boolean): Promise<bigint[]> {
    return removed ? findRemovedIds(db, projectId, mark, MAX_REMOVED) : idsOf(projectId, mark);
  }

  return {
    /** Everything that is known of a user, also of a removed one; null if the project has no such user, or erased them. */
    async describeUser(scope: ProjectScope, id: bigint): Promise<UserDetails | null> {
      const [user] = id > LARGEST_ID ? [] : await describeUsers(db, scope.projectIdFor('inspect'), [id]);
      return user ?? null;
    },

    /**
     * The users whom a text means, newest first: a user id, also of a removed user; a login email; an address; or else the value of
     * an identity under any method; and in any case an external id. With `removed`, at most 100 removed users instead of current ones. BAD_USER_INPUT.
     */
    async searchAny(scope: ProjectScope, text: string, removed = false): Promise<UserDetails[]> {
      const projectId = scope.projectIdFor('inspect');
      const { id, ...mark } = parseAny(text);
      const ids = await findMarked(projectId, mark, removed);
      const users = await describe(projectId, id === null ? ids : [id, ...ids]);
      return users.filter(({ removedAt }) => !removed || removedAt !== null);
    },

    /**
     * The current users whom a text means, newest first: a user id, a login email, an address or an external id. Not the value of an
     * identity, which is looked up under every method that the project has. BAD_USER_INPUT.
     */
    async findAny(scope: ProjectScope, name: string, text: string, { withAccounts }: Wanted): Promise<User[]> {
      const projectId = scope.projectIdFor('read');
      const { id, email, addressKey, externalId } = parseMarks(text);
      if (id === null && email === undefined && addressKey === undefined && externalId === undefined)
        throw badInput(name, text, 'a user ID, a login email, an address or an external ID');
      const found = await Promise.all([
        id === null ? null : byId({ projectId, id, withAccounts }),
        email === undefined ? [] : byEmail({ projectId, value: email, withAccounts }),
        addressKey === undefined ? [] : byAddress({ projectId, value: addressKey, withAccounts }),
        externalId === undefined ? null : byExternalId({ projectId, externalId, withAccounts }),
      ]);
      const users = new Map(found.flat().flatMap((user) => (user === null ? [] : [[user.id, user] as const])));
      return [...users.values()].sort(byNewest);
    },

    /** The user with an identity, or with `removed` at most 100 removed users who had it, newest first. */
    async searchIdentity(scope: ProjectScope, identity: Identity, removed = false): Promise<UserDetails[]> {
      const projectId = scope.projectIdFor('inspect');
      return describe(projectId, await findMarked(projectId, { identity }, removed));
    },
  };
}

/** What a text from a log, a mail or a wallet may mean. */
function parseAny(text: string): Marks {
  const marks = parseMarks(text);
  const isValue = marks.email === undefined && marks.addressKey === undefined;
  // An ID at a social provider may be digits, too.
  return isValue ? { ...marks, value: parseValueKey('search', text) } : marks;
}

type Marks = Mark & { readonly id: bigint | null };

/** The same without the value of an identity. */
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
