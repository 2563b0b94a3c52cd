import { badInput, UserdirError } from './errors.js';
import type { Operations, User, UserConnection, UserFilter, WalletVerdict } from './generated/schema.js';
import type { Ask, CallOptions } from './transport.js';

/* Reads that ask several times. */

export type Id = string | number;

export interface ListOptions extends CallOptions {
  readonly filter?: UserFilter | undefined;
  /** Only users after this place: the `cursor` of a page. */
  readonly after?: string | undefined;
}

/** Some users of a list, the newest first. */
export interface ListedUsers {
  readonly users: readonly User[];
  /** The exact number of users on all pages together, of the same instant. Null where the filter is by last login or ban. */
  readonly totalUser: number | null;
  /** The place after these users; null where there are none. */
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

/** What one request may ask for. */
const MOST_USERS = 100;
const MOST_WALLETS = 500;
const MOST_TEXT = 64_000;
/** So many users never cost too much, however many accounts they have. */
const FEW_USERS = 10;

export type UserReader = Pick<ReturnType<typeof createReads>, 'readPages' | 'getMany'>;

export function createReads(ask: Ask) {
  async function* readPages({ filter, after, ...call }: ListOptions, isCounted: boolean) {
    for (let [cursor, first]: [string | null | undefined, number] = [after, MOST_USERS]; ; ) {
      const given: Operations['users']['given'] = { filter, after: cursor, first };
      const page: Page | null = await ask(isCounted ? 'users' : 'uncountedUsers', given, call).catch(
        nullIfTooMuch(first),
      );
      if (page === null) first = FEW_USERS;
      else {
        cursor = page.pageInfo.endCursor;
        yield { users: page.nodes, totalUser: page.totalCount ?? null, cursor };
        if (!page.pageInfo.hasNextPage) return;
      }
    }
  }

  return {
    readPages,

    /** Any number of users in the order of `ids`, with null for each whom the project does not have. */
    async getMany(ids: readonly Id[], call?: CallOptions): Promise<(User | null)[]> {
      const users: (User | null)[] = [];
      for (let size = MOST_USERS; users.length < ids.length; ) {
        const some = { ids: ids.slice(users.length, users.length + size) };
        const read = await ask('usersByIds', some, call).catch(nullIfTooMuch(size));
        if (read === null) size = FEW_USERS;
        else users.push(...read);
      }
      return users;
    },

    list(options: ListOptions = {}): UserList {
      const { lastLoginAfter, lastLoginBefore, banned } = options.filter ?? {};
      const isCounted = (lastLoginAfter ?? lastLoginBefore ?? banned ?? null) === null;
      return {
        pages: () => readPages(options, isCounted),
        async *[Symbol.asyncIterator]() {
          for await (const { users } of readPages(options, false)) yield* users;
        },
      };
    },

    /** A verdict for each wallet, in their order. Wallets are taken as they are needed, so any number takes the same memory. */
    async *verifyMany(
      wallets: Iterable<WalletQuestion> | AsyncIterable<WalletQuestion>,
      call?: CallOptions,
    ): AsyncGenerator<WalletVerdict, void> {
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
  const { userId, anyUser } = (owner ?? {}) as { userId?: Id; anyUser?: boolean };
  if (anyUser === true && userId === undefined) return {};
  if (anyUser !== undefined || !/^[\w-]+$/.test(String(userId ?? '')))
    throw badInput('userId', 'a user ID, or { anyUser: true } to ask about any user');
  return { userId: userId as Id };
}

/** Null where a request for some users is refused because of its cost or its size, and fewer users can be asked for. */
function nullIfTooMuch(count: number): (error: unknown) => null {
  return (error) => {
    const isTooMuch = error instanceof UserdirError && error.code === 'BAD_USER_INPUT' && error.argument === null;
    if (isTooMuch && count > FEW_USERS) return null;
    throw error;
  };
}
