import { badInput, UserdirError } from './errors.js';
import {
  type Ban,
  COUNTED_METHODS,
  type IdentityInput,
  type Operations,
  UNCOUNTED_FILTERS,
  type User,
  type UserConnection,
  type UserFilter,
  type WalletVerdict,
} from './generated/schema.js';
import { type Names, requireKnown } from './options.js';
import { type Ask, CALL_OPTIONS, type CallOptions } from './transport.js';

/* Reads that ask several times. */

export type Id = string | number;

export interface ListOptions extends CallOptions {
  readonly filter?: UserFilter | undefined;
  /** Only users after this place: the `cursor` of a page. Null is the beginning. */
  readonly after?: string | null | undefined;
}

export interface BanListOptions extends CallOptions {
  /** Only bans after this place, of `pageInfo.endCursor` over GraphQL. */
  readonly after?: string | undefined;
}

const BAN_LIST_OPTIONS: Names<BanListOptions> = { ...CALL_OPTIONS, after: true };
const LIST_OPTIONS: Names<ListOptions> = { ...CALL_OPTIONS, filter: true, after: true };

/** Some users of a list, the newest first. */
export interface ListedUsers {
  readonly users: readonly User[];
  /** The exact number of users on all pages together, of the same instant. Null where the filter is one by which no total is known. */
  readonly totalUser: number | null;
  /** The place after these users, to go on there. Of a page without users that at which it began; null is the beginning. */
  readonly cursor: string | null;
}

/** All users one by one, or by pages with the exact total. Users who come or go meanwhile make no other one appear twice or go missing. */
export interface UserList extends AsyncIterable<User> {
  pages(): AsyncIterable<ListedUsers>;
}

/** Whose wallet it must be: a user's, or, if it is said, any user's. A lost ID cannot widen the question. */
export type WalletOwner = { readonly userId: Id } | { readonly anyUser: true };
export type WalletQuestion = WalletOwner & { readonly address: string };

type Page = Omit<UserConnection, 'totalCount'> & { readonly totalCount?: number };

/** The look-ups of many users. Each has one argument, a list. */
type LookUp = 'usersByIds' | 'usersByExternalIds' | 'usersByIdentities' | 'usersByEmails';
type Found<Name extends LookUp> = Operations[Name]['answer'][number];

/** What one request may ask for. */
const MOST_USERS = 100;
const MOST_WALLETS = 500;
const MOST_TEXT = 64_000;
/** So many users never cost too much, however many accounts they have. */
const FEW_USERS = 10;

export type UserReader = Pick<Reads, 'readPages' | 'getMany'>;

export interface Reads {
  /** Users by pages; with the exact total, where it `isCounted`. */
  readPages(options: ListOptions, isCounted: boolean): AsyncGenerator<ListedUsers, void>;
  /** Any number of users in the order of `ids`, with null for each whom the project does not have. */
  getMany(ids: readonly Id[], call?: CallOptions): Promise<(User | null)[]>;
  /** As `getMany`, by their IDs in your own system. */
  getManyByExternalId(externalIds: readonly string[], call?: CallOptions): Promise<(User | null)[]>;
  /** As `getMany`, by one identity of each. */
  getManyByIdentity(identities: readonly IdentityInput[], call?: CallOptions): Promise<(User | null)[]>;
  /** For each email all users who have it, newest first. */
  getManyByEmail(emails: readonly string[], call?: CallOptions): Promise<(readonly User[])[]>;
  /** The bans in force, newest first. */
  listBans(options?: BanListOptions): AsyncGenerator<Ban, void>;
  /** All users, or those of a filter. */
  list(options?: ListOptions): UserList;
  /** A verdict for each wallet, in their order. Wallets are taken as they are needed, so any number takes the same memory. */
  verifyMany(
    wallets: Iterable<WalletQuestion> | AsyncIterable<WalletQuestion>,
    call?: CallOptions,
  ): AsyncGenerator<WalletVerdict, void>;
}

export function createReads(ask: Ask): Reads {
  async function* readPages(
    { filter, after, ...call }: ListOptions,
    isCounted: boolean,
  ): AsyncGenerator<ListedUsers, void> {
    for (let [cursor, first]: [string | null, number] = [after ?? null, MOST_USERS]; ; ) {
      const given: Operations['users']['given'] = { filter, after: cursor, first };
      const page: Page | null = await ask(isCounted ? 'users' : 'uncountedUsers', given, call).catch(
        nullIfTooMuch(first),
      );
      if (page === null) first = FEW_USERS;
      else {
        cursor = page.pageInfo.endCursor ?? cursor;
        yield { users: page.nodes, totalUser: page.totalCount ?? null, cursor };
        if (!page.pageInfo.hasNextPage) return;
      }
    }
  }

  /** An answer for each value, in their order. Asks for less at once where an answer costs too much. */
  async function lookUp<Name extends LookUp, Value>(
    name: Name,
    values: readonly Value[],
    toGiven: (values: readonly Value[]) => Operations[Name]['given'],
    call: CallOptions | undefined,
  ): Promise<Found<Name>[]> {
    const found: Found<Name>[] = [];
    for (let size = MOST_USERS; found.length < values.length; ) {
      const some = values.slice(found.length, found.length + size);
      const read = await ask(name, toGiven(some), call).catch(nullIfTooMuch(size));
      if (read === null) size = FEW_USERS;
      else found.push(...read);
    }
    return found;
  }

  return {
    readPages,

    getMany: (ids, call) => lookUp('usersByIds', ids, (some) => ({ ids: some }), call),
    getManyByExternalId: (externalIds, call) =>
      lookUp('usersByExternalIds', externalIds, (some) => ({ externalIds: some }), call),
    getManyByIdentity: (identities, call) =>
      lookUp('usersByIdentities', identities, (some) => ({ identities: some }), call),
    getManyByEmail: (emails, call) => lookUp('usersByEmails', emails, (some) => ({ emails: some }), call),

    async *listBans(options = {}) {
      requireKnown(options, BAN_LIST_OPTIONS);
      const { after, ...call } = options;
      for (let cursor: string | null | undefined = after; ; ) {
        const given: Operations['bans']['given'] = { after: cursor ?? undefined, first: MOST_USERS };
        const { nodes, pageInfo }: Operations['bans']['answer'] = await ask('bans', given, call);
        yield* nodes;
        if (!pageInfo.hasNextPage) return;
        cursor = pageInfo.endCursor;
      }
    },

    list(options = {}) {
      requireKnown(options, LIST_OPTIONS);
      return {
        pages: () => readPages(options, isCounted(options.filter)),
        async *[Symbol.asyncIterator]() {
          for await (const { users } of readPages(options, false)) yield* users;
        },
      };
    },

    async *verifyMany(wallets, call) {
      let inputs: { address: string; userId?: Id }[] = [];
      let length = 0;
      for await (const { address, ...owner } of wallets) {
        if (typeof address !== 'string') throw badInput('address', 'a text');
        if (inputs.length === MOST_WALLETS || length + address.length > MOST_TEXT) {
          yield* await ask('verifyWallets', { inputs }, call);
          [inputs, length] = [[], 0];
        }
        inputs.push({ address, ...ownerOf(owner) });
        length += address.length;
      }
      if (inputs.length > 0) yield* await ask('verifyWallets', { inputs }, call);
    },
  };
}

/** What is asked of whom: an owner must be said. */
export function ownerOf(owner: WalletOwner): { userId?: Id } {
  const given = (owner ?? {}) as { userId?: Id; anyUser?: boolean };
  requireKnown(given, { userId: true, anyUser: true });
  const { userId, anyUser } = given;
  if (anyUser === true && userId === undefined) return {};
  if (anyUser !== undefined || !/^[\w-]+$/.test(String(userId ?? '')))
    throw badInput('userId', 'a user ID, or { anyUser: true } to ask about any user');
  return { userId: userId as Id };
}

/** Whether the service counts the users of a filter. */
function isCounted(filter: UserFilter = {}): boolean {
  return UNCOUNTED_FILTERS.every((name) => {
    const value = filter[name] ?? null;
    return value === null || (Array.isArray(value) && value.every((method) => COUNTED_METHODS.includes(method)));
  });
}

/** Null where a request for some users is refused because of its cost or its size, and fewer users can be asked for. */
function nullIfTooMuch(count: number): (error: unknown) => null {
  return (error) => {
    const isTooMuch = error instanceof UserdirError && error.code === 'BAD_USER_INPUT' && error.argument === null;
    if (isTooMuch && count > FEW_USERS) return null;
    throw error;
  };
}
