import { type Ban, type BanInput, type ListedBan, parseBanTerms } from '../domain/bans.js';
import { PAGE_SIZE } from '../domain/bounds.js';
import { banCursor, banCursorOf } from '../domain/cursors.js';
import { type Identity, parseIdentity } from '../domain/identities.js';
import { INPUT_LIMITS } from '../domain/input-limits.js';
import { parse, readAll, readNumber, userId } from '../domain/parse.js';
import { camelCase } from '../domain/spelling.js';
import type { User } from '../domain/users.js';
import { costs } from '../engine/cost.js';
import { selects } from '../engine/nodes.js';
import { builder, type GraphQLContext, SURCHARGES } from './builder.js';
import { connectionType } from './connections.js';
import { BAN_FIELDS } from './fields.js';
import { KEY, readChange, USER_ID, userPayload, WRITE } from './identities.js';
import { orNull, required, withDefault } from './shared.js';
import { identityInput, userType } from './users.js';

const NEEDS_READ = 'The App Secret needs the scope `read`.';

/** The current user with an identity. FORBIDDEN. */
function holderOf(identity: Identity, { scope, services }: GraphQLContext): Promise<User | null> {
  return services.users.findIdentity(scope, identity, { withAccounts: false });
}

/** A ban with its user, where they were read with it. */
interface ShownBan extends Ban {
  readonly user?: User | null;
}

const banType = builder.objectRef<ShownBan>('Ban').implement({
  description:
    'An identity that can neither log in nor register until the ban ends. A ban outlives the removal of its user.',
  fields: (t) => ({
    authMethod: t.exposeString('authMethod', BAN_FIELDS.authMethod),
    authValue: t.exposeString('authValue', BAN_FIELDS.authValue),
    createdAt: t.expose('createdAt', BAN_FIELDS.createdAt),
    reason: t.exposeString('reason', BAN_FIELDS.reason),
    expiresAt: t.expose('expiresAt', BAN_FIELDS.expiresAt),
    isOfUser: t.exposeBoolean('isOfUser', BAN_FIELDS.isOfUser),
    user: t.field({
      type: userType,
      nullable: true,
      description: `The current user with this identity; null where the project has none. ${NEEDS_READ}`,
      extensions: costs({ surcharge: SURCHARGES.id }),
      resolve: ({ user, ...identity }, _args, context) => (user === undefined ? holderOf(identity, context) : user),
    }),
  }),
});

// The bans of a list have a place in it.
const banConnectionType = connectionType<ShownBan>(banType, (ban) => banCursorOf(ban as ListedBan), {
  connection: 'A page of bans, newest first (Relay).',
  edges: 'The bans of this page, each with a cursor.',
  nodes: 'The bans of this page, without cursors.',
  pageInfo: 'What is before and after this page.',
  edge: 'A ban in a connection, with its cursor.',
  cursor: 'The place of this ban in the list, for `after`. It stays valid when the ban is lifted. Opaque.',
  node: 'The ban at this place.',
});

const afterCursor = banCursor('after');

builder.queryField('bans', (t) =>
  t.field({
    type: banConnectionType,
    description:
      'The banned identities of the project, newest ban first, by cursor. The ban of a user is there once for each of their identities, also of a removed user. Bans that come and go meanwhile never make others appear twice or go missing. They are not counted.',
    args: {
      first: t.arg.int(withDefault(PAGE_SIZE.default, `The number of bans, 1 to ${PAGE_SIZE.max}.`)),
      after: t.arg.string({ description: 'A cursor: only bans after it in the list, which are older.' }),
    },
    extensions: costs({
      surcharge: SURCHARGES.search,
      rows: { of: ['first'], otherwise: PAGE_SIZE.default, atMost: PAGE_SIZE.max },
    }),
    resolve: async (_root, { first, after }, { scope, services }, info) => {
      const [limit, place] = readAll(
        () => readNumber('first', first, PAGE_SIZE.max),
        () => (after == null ? null : parse(afterCursor, after)),
      );
      const { bans, hasMore } = await services.bans.readBans(scope, { after: place, limit });
      const page = { nodes: bans, hasNextPage: hasMore, hasPreviousPage: after != null };
      if (!selects(info, 'Ban.user')) return page;
      const parts = { withAccounts: selects(info, 'User.accounts') };
      const withUser = async (ban: ListedBan) => ({
        ...ban,
        user: await services.users.findIdentity(scope, ban, parts),
      });
      return { ...page, nodes: await Promise.all(bans.map(withUser)) };
    },
  }),
);

builder.prismaObjectField('User', 'ban', (t) =>
  t.field({
    type: banType,
    nullable: true,
    description:
      'The ban of the user, which names the primary identity; else, of the bans of their identities, the one that ends last: then they still log in by the others, and `isOfUser` is false. Null where none is banned.',
    extensions: costs({ surcharge: SURCHARGES.id }),
    resolve: async (user, _args, { scope, services }) => {
      const ban = await services.bans.banOfUser(scope, user.id);
      return ban && { ...ban, user };
    },
  }),
);

const CHANGED = 'Whether it was another way before. The answer to a retry says what the first one said.';

const banPayload = builder.objectRef<{ ban: ShownBan | null; changed: boolean }>('BanIdentityPayload').implement({
  description: 'The result of `banIdentity`.',
  fields: (t) => ({
    ban: t.expose('ban', {
      type: banType,
      ...orNull('The ban; null only in the answer to a retry, where it was lifted since.'),
    }),
    changed: t.exposeBoolean('changed', { description: CHANGED }),
  }),
});

const unbanPayload = builder.objectRef<Identity & { changed: boolean }>('UnbanIdentityPayload').implement({
  description: 'The result of `unbanIdentity`.',
  fields: (t) => ({
    user: t.field({
      type: userType,
      nullable: true,
      description: `The current user with this identity; null where the project has none. ${NEEDS_READ}`,
      resolve: (identity, _args, context) => holderOf(identity, context),
    }),
    ban: t.field({
      type: banType,
      ...orNull('The ban of its user, which still holds for the identity; null where it is not banned.'),
      extensions: costs({ surcharge: SURCHARGES.id }),
      resolve: (identity, _args, { scope, services }) => services.bans.banOfIdentity(scope, identity),
    }),
    changed: t.exposeBoolean('changed', { description: CHANGED }),
  }),
});

/** The options of the arguments that are the terms of a ban. */
export const BAN_TERMS = {
  reason: {
    description: `Why, on one line of at most ${INPUT_LIMITS.banReason.max} characters; "" takes a reason away. Absent or null, it stays as it is, and a new ban has none.`,
  },
  expiresAt: {
    description:
      'When the ban ends by itself: a date, through its last instant in UTC, or an RFC 3339 date-time. Absent or null, the end stays as it is, and a new ban stays until it is lifted.',
  },
  untilLifted: {
    description: 'True takes an end away: the ban stays until it is lifted. Not together with `expiresAt`.',
  },
} as const;
/** The terms among the arguments of a ban. */
export const termsOf = ({ reason, expiresAt, untilLifted }: Omit<BanInput, 'end'> & { expiresAt?: BanInput['end'] }) =>
  parseBanTerms({ reason, end: expiresAt, untilLifted }, 'expiresAt');
const bannedId = userId('id');
const IDENTITY = { type: identityInput, ...required('The identity.') } as const;

builder.mutationFields((t) => ({
  banUser: t.field({
    type: userPayload,
    description:
      'Bans a user: none of their identities can log in, nor any that is linked later, and a removed one cannot register again. Bans of single identities stay as they are. Again, it changes the terms that are given. Fails with `NOT_FOUND` without the user.',
    args: {
      id: t.arg.id(USER_ID),
      reason: t.arg.string(BAN_TERMS.reason),
      expiresAt: t.arg.string(BAN_TERMS.expiresAt),
      untilLifted: t.arg.boolean(BAN_TERMS.untilLifted),
      idempotencyKey: t.arg.string(KEY),
    },
    extensions: WRITE,
    resolve: async (_root, args, { scope, services, requestId }) => {
      const change = readChange(
        requestId,
        args.idempotencyKey,
        () => parse(bannedId, args.id),
        () => termsOf(args),
      );
      return { user: await services.identities.ban(scope, ...change) };
    },
  }),
  unbanUser: t.field({
    type: userPayload,
    description:
      'Lifts the ban of a user. Bans of single identities stay: `user { ban }` tells what still holds. Fails with `NOT_FOUND` without the user.',
    args: { id: t.arg.id(USER_ID), idempotencyKey: t.arg.string(KEY) },
    extensions: WRITE,
    resolve: async (_root, { id, idempotencyKey }, { scope, services, requestId }) => {
      const change = readChange(requestId, idempotencyKey, () => parse(bannedId, id));
      return { user: await services.identities.unban(scope, ...change) };
    },
  }),
  banIdentity: t.field({
    type: banPayload,
    description:
      'Bans an identity, also one that no user has: it can neither log in, register nor be linked. A user who has others still logs in by them: to ban a person, use `banUser`. Again, it changes the terms that are given.',
    args: {
      identity: t.arg(IDENTITY),
      reason: t.arg.string(BAN_TERMS.reason),
      expiresAt: t.arg.string(BAN_TERMS.expiresAt),
      untilLifted: t.arg.boolean(BAN_TERMS.untilLifted),
      idempotencyKey: t.arg.string(KEY),
    },
    extensions: WRITE,
    resolve: (_root, args, { scope, services, requestId }) => {
      const change = readChange(
        requestId,
        args.idempotencyKey,
        () => parseIdentity(args.identity, camelCase),
        () => termsOf(args),
      );
      return services.bans.ban(scope, ...change);
    },
  }),
  unbanIdentity: t.field({
    type: unbanPayload,
    description:
      'Lifts the ban of an identity. The ban of its user stays: `ban` tells what still holds. Changes nothing where it is not banned.',
    args: { identity: t.arg(IDENTITY), idempotencyKey: t.arg.string(KEY) },
    extensions: WRITE,
    resolve: (_root, { identity, idempotencyKey }, { scope, services, requestId }) => {
      const [parsed, options] = readChange(requestId, idempotencyKey, () => parseIdentity(identity, camelCase));
      return services.bans.unbanIdentity(scope, parsed, options);
    },
  }),
}));
