import { createChanges } from './changes.js';
import type {
  CreateUserInput,
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
import { requireGiven } from './options.js';
import { createReads, type Id, ownerOf, type WalletOwner } from './reads.js';
import { type CallOptions, type ClientOptions, createTransport, type WriteOptions } from './transport.js';
import { verifyWebhook } from './webhooks.js';

export type { CopyOptions, FollowOptions, Removal } from './changes.js';
export { UserdirError } from './errors.js';
export type * from './generated/schema.js';
export type { BanListOptions, Id, ListedUsers, ListOptions, UserList, WalletOwner, WalletQuestion } from './reads.js';
export type { CallOptions, ClientOptions, WriteOptions } from './transport.js';
export { verifyWebhook, type WebhookHeaders, type WebhookMessage } from './webhooks.js';

type UserChange = {
  [Name in keyof Operations]: Operations[Name]['answer'] extends UserPayload ? Name : never;
}[keyof Operations];

/** The terms of a ban. Those that are absent or undefined stay as they are. */
export type BanTerms = Omit<Operations['banUser']['given'], 'id' | 'idempotencyKey'>;

/** An endpoint that is to be added. */
export type NewWebhook = Omit<Operations['addWebhook']['given'], 'idempotencyKey'>;

/** A client of one project. It has no state but its options, and no function gives the secret away. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of what it can do
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
      getByIdentity: (identity: IdentityInput, call?: CallOptions) => ask('userByIdentity', identity, call),
      getMany: reads.getMany,
      getManyByExternalId: reads.getManyByExternalId,
      getManyByIdentity: reads.getManyByIdentity,
      getManyByEmail: reads.getManyByEmail,
      /** The exact number of users. */
      count: (filter?: UserFilter, call?: CallOptions) => ask('userCount', { filter }, call),
      /** A page by its number, with the exact total. */
      page: (given: Operations['userPage']['given'] = {}, call?: CallOptions) => ask('userPage', given, call),
      list: reads.list,
      /** Every user who has an email or an address. For a security decision, use `wallets.verify`. */
      search: (by: UserSearch, call?: CallOptions) => ask('searchUsers', { by }, call),
      /** Every user whom a text means: an ID, an email, an address or an external ID. For a search box of people. */
      find: (any: string, call?: CallOptions) => ask('findUser', { any }, call),
      /** The first users one of whose values begins with a text. */
      findByPrefix: (prefix: string, given: { first?: number | undefined } = {}, call?: CallOptions) =>
        ask('usersByPrefix', { ...requireGiven('usersByPrefix', given, ['prefix']), prefix }, call),
      /** Creates a user who has not logged in. CONFLICT, BANNED. */
      create: (input: CreateUserInput, options?: WriteOptions) => change('createUser', { input }, options),
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
      ban: (id: Id, terms: BanTerms = {}, options?: WriteOptions) =>
        change('banUser', { ...requireGiven('banUser', terms, ['id', 'idempotencyKey']), id }, options),
      /** At most 100 users, each as `remove`: what became of each, in order. */
      removeMany: async (ids: readonly Id[], options?: WriteOptions) =>
        (await ask('removeUsers', { ids, ...keyOf(options) }, options)).outcomes,
      /** At most 100 users, each as `ban`: what became of each, in order. */
      banMany: async (ids: readonly Id[], terms: BanTerms = {}, options?: WriteOptions) => {
        const given = requireGiven('banUsers', terms, ['ids', 'idempotencyKey']);
        return (await ask('banUsers', { ...given, ids, ...keyOf(options) }, options)).outcomes;
      },
      unban: (id: Id, options?: WriteOptions) => change('unbanUser', { id }, options),
      /** Makes two users one: `from` goes, `into` has everything. It cannot be undone. NOT_FOUND. */
      merge: (users: { from: Id; into: Id }, options?: WriteOptions) =>
        change('mergeUsers', requireGiven('mergeUsers', users, ['idempotencyKey']), options),
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
        const given = requireGiven('banIdentity', terms, ['identity', 'idempotencyKey']);
        await ask('banIdentity', { ...given, identity, ...keyOf(options) }, options);
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

    bans: {
      /** The bans in force, newest first, by `for await`. */
      list: reads.listBans,
    },

    changes: createChanges(ask, reads),

    /** All but `verify` need a secret with the scope `webhooks`. */
    webhooks: {
      verify: verifyWebhook,
      list: (call?: CallOptions) => ask('webhooks', {}, call),
      /** Adds an endpoint. The secret, which signs what is sent to it, is told only now. */
      add: (webhook: NewWebhook, options?: WriteOptions) =>
        ask('addWebhook', { ...requireGiven('addWebhook', webhook, ['idempotencyKey']), ...keyOf(options) }, options),
      pause: async (id: Id, options?: WriteOptions) =>
        (await ask('pauseWebhook', { id, ...keyOf(options) }, options)).webhook,
      resume: async (id: Id, options?: WriteOptions) =>
        (await ask('resumeWebhook', { id, ...keyOf(options) }, options)).webhook,
      /** Makes a new secret. The old one is good for `overlapSeconds` more. */
      rotateSecret: (id: Id, given: { overlapSeconds?: number | undefined } = {}, options?: WriteOptions) =>
        ask(
          'rotateWebhookSecret',
          { ...requireGiven('rotateWebhookSecret', given, ['id', 'idempotencyKey']), id, ...keyOf(options) },
          options,
        ),
      remove: async (id: Id, options?: WriteOptions): Promise<void> => {
        await ask('removeWebhook', { id, ...keyOf(options) }, options);
      },
    },
  };
}

export type Client = ReturnType<typeof createClient>;

/** One key for all attempts of a call. */
function keyOf({ idempotencyKey = crypto.randomUUID() }: WriteOptions = {}): { idempotencyKey: string } {
  return { idempotencyKey };
}
