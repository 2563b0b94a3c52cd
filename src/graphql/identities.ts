import { MAX_IDENTITIES, parseIdentity, parseProfile } from '../domain/identities.js';
import { atMost } from '../domain/input-limits.js';
import { parse, readAll, requireKey, userId } from '../domain/parse.js';
import { camelCase } from '../domain/spelling.js';
import type { User } from '../domain/users.js';
import { requireAddress } from '../domain/wallets.js';
import { costs, type Rows } from '../engine/cost.js';
import { builder, KEY_DESCRIPTION, loginMethodEnum, SURCHARGES } from './builder.js';
import { IDENTITY_FIELDS } from './fields.js';
import { required } from './shared.js';
import { AUTH_METHOD, AUTH_VALUE, identityInput, userType } from './users.js';

/** Most users have one identity. */
const IDENTITIES_PER_USER: Rows = { otherwise: 2, atMost: MAX_IDENTITIES };

const identityType = builder.prismaObject('Identity', {
  description: 'What a user logs in with. An identity belongs to one current user of the project.',
  fields: (t) => ({
    authMethod: t.exposeString('authMethod', IDENTITY_FIELDS.authMethod),
    authValue: t.exposeString('authValue', IDENTITY_FIELDS.authValue),
    loginMethod: t.expose('loginMethod', { type: loginMethodEnum, ...IDENTITY_FIELDS.loginMethod }),
    email: t.exposeString('loginEmail', IDENTITY_FIELDS.email),
    emailVerified: t.exposeBoolean('emailVerified', IDENTITY_FIELDS.emailVerified),
    createdAt: t.expose('createdAt', IDENTITY_FIELDS.createdAt),
    lastLogin: t.expose('lastLogin', IDENTITY_FIELDS.lastLogin),
    isPrimary: t.exposeBoolean('isPrimary', IDENTITY_FIELDS.isPrimary),
  }),
});

builder.prismaObjectFields('User', (t) => ({
  identities: t.field({
    type: [identityType],
    description: `The identities by which the user logs in, at most ${MAX_IDENTITIES}: the primary one first, then the oldest.`,
    extensions: costs({ rows: IDENTITIES_PER_USER, surcharge: SURCHARGES.id }),
    resolve: async (user, _args, { scope, services }) => [
      ...(await services.identities.detailsOf(scope, user.id)).identities,
    ],
  }),
  metadata: t.field({
    type: 'JSON',
    nullable: true,
    description: `What your application keeps with the user: a JSON object of ${atMost('metadata')}, set by \`updateUser\` or \`recordLogin\`. No search reads it.`,
    extensions: costs({ surcharge: SURCHARGES.id }),
    resolve: async (user, _args, { scope, services }) => (await services.identities.detailsOf(scope, user.id)).metadata,
  }),
}));

export const userPayload = builder.objectRef<{ user: User }>('UserPayload').implement({
  description: 'The result of a change of a user.',
  fields: (t) => ({ user: t.expose('user', { type: userType, description: 'The user after the change.' }) }),
});

const linkInput = builder.inputType('LinkIdentityInput', {
  description: 'An identity to link, which the person has proved to you to be theirs.',
  fields: (t) => ({
    authMethod: t.string(AUTH_METHOD),
    authValue: t.string(AUTH_VALUE),
    email: t.string({ description: 'The email that the provider reported.' }),
    emailVerified: t.boolean({ description: 'Whether that email was verified, by the provider or by you.' }),
    primary: t.boolean({ description: 'True to make it the primary identity. The one before stays linked.' }),
  }),
});

const id = userId('userId');
const ownId = userId('id');
export const USER_ID = required('The user ID.');
export const KEY = { description: KEY_DESCRIPTION } as const;
/** Of a change in a transaction of several statements. */
export const WRITE = costs({ surcharge: 2 * SURCHARGES.write });

/** What a change is asked for with, and its options. BAD_USER_INPUT with all faults. */
export function readChange<Values extends unknown[]>(
  requestId: string | null,
  idempotencyKey: string | null | undefined,
  ...readers: { [At in keyof Values]: () => Values[At] }
): [...Values, { requestId: string | null; key: string | null }] {
  const options = () => ({ requestId, key: requireKey('idempotencyKey', idempotencyKey) });
  return readAll<unknown[]>(...readers, options) as never;
}

builder.mutationFields((t) => ({
  linkIdentity: t.field({
    type: userPayload,
    description: `Links an identity to a user who is signed in and has proved both: from then on \`recordLogin\` counts its logins for the user. Never link because two emails are equal. A wallet becomes an external account too. Again for an identity that the user has, it sets the email. Fails with \`CONFLICT\` where another user has the identity, with \`BANNED\` where it is banned, with \`NOT_FOUND\` without the user, and with \`BAD_USER_INPUT\` beyond ${MAX_IDENTITIES} identities.`,
    args: {
      userId: t.arg.id(USER_ID),
      input: t.arg({ type: linkInput, ...required('The identity.') }),
      idempotencyKey: t.arg.string(KEY),
    },
    extensions: WRITE,
    resolve: async (_root, args, { scope, services, requestId }) => {
      const { primary, ...input } = args.input;
      const [user, profile, options] = readChange(
        requestId,
        args.idempotencyKey,
        () => parse(id, args.userId),
        () => parseProfile(input, camelCase),
      );
      const link = { ...options, isPrimary: primary === true };
      return { user: await services.identities.link(scope, user, profile, link) };
    },
  }),
  unlinkIdentity: t.field({
    type: userPayload,
    description:
      'Takes an identity from a user; it may register anew then. If it was the primary one, the oldest other one becomes primary. The account of a wallet goes with it. Fails with `NOT_FOUND` where the user does not have it, and with `CONFLICT` for the last one.',
    args: {
      userId: t.arg.id(USER_ID),
      identity: t.arg({ type: identityInput, ...required('The identity.') }),
      idempotencyKey: t.arg.string(KEY),
    },
    extensions: WRITE,
    resolve: async (_root, { userId, identity, idempotencyKey }, { scope, services, requestId }) => {
      const change = readChange(
        requestId,
        idempotencyKey,
        () => parse(id, userId),
        () => parseIdentity(identity, camelCase),
      );
      return { user: await services.identities.unlink(scope, ...change) };
    },
  }),
  unlinkAccount: t.field({
    type: userPayload,
    description:
      'Takes an account from a user, custodial or a wallet, and the identity that logs in by its address: `verifyWallet` says no from then on. Fails with `NOT_FOUND` where the user does not have it, and with `CONFLICT` where the user could not log in any more.',
    args: {
      userId: t.arg.id(USER_ID),
      address: t.arg.string(required('The address: Stellar (`G…`) or Ethereum (`0x…`).')),
      idempotencyKey: t.arg.string(KEY),
    },
    extensions: WRITE,
    resolve: async (_root, { userId, address, idempotencyKey }, { scope, services, requestId }) => {
      const change = readChange(
        requestId,
        idempotencyKey,
        () => parse(id, userId),
        () => requireAddress('address', address),
      );
      return { user: await services.identities.unlinkAccount(scope, ...change) };
    },
  }),
  restoreUser: t.field({
    type: userPayload,
    description:
      'Makes a removed user current again, with the ID, the identities and the accounts that they had. It works until an operator erases removed users. Fails with `NOT_FOUND` where the project has no such user, and with `CONFLICT` where they are not removed, were merged, or another user has one of their identities or the external ID by now.',
    args: { id: t.arg.id(USER_ID), idempotencyKey: t.arg.string(KEY) },
    extensions: WRITE,
    resolve: async (_root, { id, idempotencyKey }, { scope, services, requestId }) => {
      const change = readChange(requestId, idempotencyKey, () => parse(ownId, id));
      return { user: await services.identities.restore(scope, ...change) };
    },
  }),
  mergeUsers: t.field({
    type: userPayload,
    description:
      'Makes two users one, who have turned out to be one person: the identities, accounts and logins of `from` go to `into`, with the earlier `createdAt` and the later `lastLogin`. What only one can have, such as the external ID, is that of `into` unless it has none. Where one is banned, the whole user is. `from` is gone, in the feed as `USER_MERGED`. It cannot be undone. Fails with `NOT_FOUND` without one of the users, and with `BAD_USER_INPUT` for too many identities or accounts.',
    args: {
      from: t.arg.id(required('The ID of the user who goes.')),
      into: t.arg.id(required('The ID of the user who stays.')),
      idempotencyKey: t.arg.string(KEY),
    },
    extensions: WRITE,
    resolve: async (_root, { from, into, idempotencyKey }, { scope, services, requestId }) => {
      const change = readChange(
        requestId,
        idempotencyKey,
        () => parse(userId('from'), from),
        () => parse(userId('into'), into),
      );
      return { user: await services.identities.merge(scope, ...change) };
    },
  }),
}));
