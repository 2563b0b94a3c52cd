import { createChanges } from './changes.js';
import type {
  IdentityInput,
  LinkIdentityInput,
  Operations,
  RecordLoginInput,
  UpdateUserInput,
  User,
  UserFilter,
  UserPayload,
  UserSearch,
} from './generated/schema.js';
import { createReads, type Id, ownerOf, type WalletOwner } from './reads.js';
import { type CallOptions, type ClientOptions, createTransport, type WriteOptions } from './transport.js';
import { verifyWebhook } from './webhooks.js';

export type { CopyOptions, FollowOptions, Removal } from './changes.js';
export { UserdirError } from './errors.js';
export type * from './generated/schema.js';
export type { Id, ListedUsers, ListOptions, UserList, WalletOwner, WalletQuestion } from './reads.js';
export type { CallOptions, ClientOptions, WriteOptions } from './transport.js';
export { verifyWebhook, type WebhookHeaders, type WebhookMessage } from './webhooks.js';

type UserChange = {
  [Name in keyof Operations]: Operations[Name]['answer'] extends UserPayload ? Name : never;
}[keyof Operations];

/** Why, on one line; and when the ban ends by itself. */
export type BanTerms = { reason?: string; expiresAt?: string };

/** A client of one project. It has no state but its options, and no function gives the secret away. */
export function createClient(options: ClientOptions) {
  const ask = createTransport(options);
  const reads = createReads(ask);

  async function change<Name extends UserChange>(name: Name, given: Operations[Name]['given'], options?: WriteOptions) {
    const { user }: UserPayload = await ask(name, { ...given, ...keyOf(options) }, options);
    return user;
  }

  return {
    /** The project and the secret of this client. */
    caller: (call?: CallOptions) => ask('caller', {}, call),

    logins: {
      /** Records a login, which you have checked. The first one of an identity registers a user. BANNED, CONFLICT. */
      record: (input: RecordLoginInput, options?: WriteOptions) =>
        ask('recordLogin', { input, ...keyOf(options) }, options),
    },

    users: {
      get: (id: Id, call?: CallOptions) => ask('user', { id }, call),
      getByExternalId: (externalId: string, call?: CallOptions) => ask('userByExternalId', { externalId }, call),
      getByIdentity: ({ authMethod, authValue }: IdentityInput, call?: CallOptions) =>
        ask('userByIdentity', { authMethod, authValue }, call),
      getMany: reads.getMany,
      /** The exact number of users. */
      count: (filter?: UserFilter, call?: CallOptions) => ask('userCount', { filter }, call),
      /** A page by its number, with the exact total. */
      page: (given: { filter?: UserFilter; page?: number; limit?: number } = {}, call?: CallOptions) =>
        ask('userPage', given, call),
      list: reads.list,
      /** Every user who has an email or an address. For a security decision, use `wallets.verify`. */
      search: (by: UserSearch, call?: CallOptions) => ask('searchUsers', { by }, call),
      /** Changes what is given; null takes a value away. NOT_FOUND, CONFLICT. */
      update: (id: Id, input: UpdateUserInput, options?: WriteOptions): Promise<User> =>
        change('updateUser', { id, input }, options),
      /** NOT_FOUND where the project has no such user, also at a second call. */
      remove: async (id: Id, options?: WriteOptions): Promise<void> => {
        await ask('deleteUser', { id, ...keyOf(options) }, options);
      },
      /** Takes a removal back. NOT_FOUND, CONFLICT. */
      restore: (id: Id, options?: WriteOptions) => change('restoreUser', { id }, options),
      /** No identity of the user can log in, until the ban ends or `unban`. NOT_FOUND. */
      ban: (id: Id, terms: BanTerms = {}, options?: WriteOptions) => change('banUser', { id, ...terms }, options),
      unban: (id: Id, options?: WriteOptions) => change('unbanUser', { id }, options),
      /** Makes two users one: `from` goes, `into` has everything. It cannot be undone. NOT_FOUND. */
      merge: ({ from, into }: { from: Id; into: Id }, options?: WriteOptions) =>
        change('mergeUsers', { from, into }, options),
    },

    identities: {
      /** Links an identity, which the person has proved to be theirs. CONFLICT, BANNED, NOT_FOUND. */
      link: (userId: Id, input: LinkIdentityInput, options?: WriteOptions) =>
        change('linkIdentity', { userId, input }, options),
      /** Takes an identity from a user; the last one stays. NOT_FOUND, CONFLICT. */
      unlink: (userId: Id, identity: IdentityInput, options?: WriteOptions) =>
        change('unlinkIdentity', { userId, identity }, options),
      /** The identity cannot log in, register or be linked, until the ban ends or `unban`. A user who has others still logs in by them. */
      ban: async (identity: IdentityInput, terms: BanTerms = {}, options?: WriteOptions): Promise<void> => {
        await ask('banIdentity', { identity, ...terms, ...keyOf(options) }, options);
      },
      unban: async (identity: IdentityInput, options?: WriteOptions): Promise<void> => {
        await ask('unbanIdentity', { identity, ...keyOf(options) }, options);
      },
    },

    wallets: {
      /** Decides whether an address belongs to a user. A malformed address is BAD_USER_INPUT, not a no. */
      verify: async (address: string, owner: WalletOwner, call?: CallOptions) =>
        ask('verifyWallet', { address, ...ownerOf(owner) }, call),
      verifyMany: reads.verifyMany,
      /** Takes an account or a wallet from a user: `verify` says no from then on. NOT_FOUND, CONFLICT. */
      unlink: (userId: Id, address: string, options?: WriteOptions) =>
        change('unlinkAccount', { userId, address }, options),
    },

    changes: createChanges(ask, reads),
    webhooks: { verify: verifyWebhook },
  };
}

export type Client = ReturnType<typeof createClient>;

/** One key for all attempts of a call. */
function keyOf({ idempotencyKey = crypto.randomUUID() }: WriteOptions = {}) {
  return { idempotencyKey };
}
