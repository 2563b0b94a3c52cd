import { METHOD_FORM_IN_CODE } from '../domain/auth-methods.js';
import { MAX_ACCOUNTS, parseProfile } from '../domain/identities.js';
import { atMost } from '../domain/input-limits.js';
import { CHANGEABLE, KEPT_TEXTS, ofKeptTexts } from '../domain/kept-texts.js';
import { parse, readAll, requireKey, userId } from '../domain/parse.js';
import { camelCase } from '../domain/spelling.js';
import { parseUserChanges } from '../domain/user-changes.js';
import type { User } from '../domain/users.js';
import { costs } from '../engine/cost.js';
import { builder, KEY_DESCRIPTION, networkEnum, SURCHARGES } from './builder.js';
import { userPayload } from './identities.js';
import { userType } from './users.js';

const idArgument = userId('id');

const deletePayload = builder.objectRef<{ id: string }>('DeleteUserPayload').implement({
  description: 'The result of `deleteUser`.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'The ID of the removed user.' }),
    deletedUserId: t.exposeID('id', {
      description: 'The same, under the name by which Relay removes the user from its store.',
    }),
  }),
});

builder.mutationField('deleteUser', (t) =>
  t.field({
    type: deletePayload,
    description:
      'Removes a user from the project. Fails with `NOT_FOUND` where the project has no such user, so a second removal fails. Removal is not a ban: the same person can register again and gets a new ID.',
    args: {
      id: t.arg.id({ required: true, description: 'The user ID.' }),
      idempotencyKey: t.arg.string({ description: KEY_DESCRIPTION }),
    },
    extensions: costs({ surcharge: SURCHARGES.write }),
    resolve: async (_root, args, { scope, services, requestId, until }) => {
      const [id, key] = readAll(
        () => parse(idArgument, args.id),
        () => requireKey('idempotencyKey', args.idempotencyKey),
      );
      await services.users.removeUser(scope, id, requestId, key, until);
      return { id: String(id) };
    },
  }),
);

const METADATA = `A JSON object of ${atMost('metadata')}, which replaces the one before. It is kept and shown, and neither read nor logged here.`;

const updateInput = builder.inputType('UpdateUserInput', {
  description:
    'What to change of a user. An absent field stays as it is; null takes the value away. One field at least.',
  fields: (t) => ({
    email: t.string({
      description:
        'The login email. Of a user who logs in by email it is the identity: a new address takes its place in one step, fails with `CONFLICT` where another user has it, and cannot be taken away. Null says that the person has none, which stays so until something else is said. A later login that brings an email replaces it.',
    }),
    metadata: t.field({ type: 'JSON', description: METADATA }),
    metadataPatch: t.field({
      type: 'JSON',
      description: `A JSON merge patch (RFC 7396) of the metadata: a key takes the value that it has here, null removes it, objects are merged, and what is not named stays. Two who change different keys at once lose nothing. They have ${atMost('metadata')}, also after the patch. Not together with \`metadata\`.`,
    }),
    ...ofKeptTexts((field) => t.string({ description: KEPT_TEXTS[field].inUpdate })),
  }),
});

const updatePayload = builder.objectRef<{ user: User }>('UpdateUserPayload').implement({
  description: 'The result of `updateUser`.',
  fields: (t) => ({ user: t.expose('user', { type: userType, description: 'The user after the change.' }) }),
});

builder.mutationField('updateUser', (t) =>
  t.field({
    type: updatePayload,
    description: `Changes ${CHANGEABLE} of a user. Recorded in the audit trail, and in the feed as \`USER_UPDATED\`. Fails with \`NOT_FOUND\` where the project has no such user.`,
    args: {
      id: t.arg.id({ required: true, description: 'The user ID.' }),
      input: t.arg({ type: updateInput, required: true, description: 'What to change.' }),
      idempotencyKey: t.arg.string({ description: KEY_DESCRIPTION }),
    },
    extensions: costs({ surcharge: SURCHARGES.write }),
    resolve: async (_root, args, { scope, services, requestId, until }) => {
      const [id, changes, key] = readAll(
        () => parse(idArgument, args.id),
        () => parseUserChanges(args.input, camelCase),
        () => requireKey('idempotencyKey', args.idempotencyKey),
      );
      return { user: await services.users.updateUser(scope, id, changes, requestId, key, until) };
    },
  }),
);

const accountInput = builder.inputType('AccountInput', {
  description: 'A blockchain account to link to a user.',
  fields: (t) => ({
    network: t.field({
      type: networkEnum,
      required: true,
      description: 'The network. The address must be one of this network.',
    }),
    publicKey: t.string({ required: true, description: 'The public address: Stellar (`G…`) or Ethereum (`0x…`).' }),
  }),
});

type InputFields = PothosSchemaTypes.InputFieldBuilder<typeof builder.$inferSchemaTypes, 'InputObject'>;

/** What a login says of a user, and a creation too. */
const profileFields = (t: InputFields) => ({
  authMethod: t.string({
    required: true,
    description: `How the user authenticates: ${METHOD_FORM_IN_CODE} in lower case, such as \`google\`. It has one spelling: \`google.com\` and \`e-mail\` are refused.`,
  }),
  authValue: t.string({
    required: true,
    description:
      'The identifier of the user under that method: for `email` the email address, for `wallet` the wallet address, otherwise the ID at the provider or of the passkey.',
  }),
  email: t.string({
    description:
      'The email address that the social provider reported. It becomes `User.email` and that of the identity. Without it both stay as they are; that of a new user is `authValue` where this is an email.',
  }),
  emailVerified: t.boolean({
    description:
      'Whether that email was verified to be the person’s, by the provider or by you. It is shown, and never used to link.',
  }),
  metadata: t.field({ type: 'JSON', description: METADATA }),
  wallet: t.string({
    description:
      'The external wallet address used to log in. Not needed for `authMethod: "wallet"`, where it is `authValue`. Another spelling of the same address changes nothing.',
  }),
  ...ofKeptTexts((field) => t.string({ description: KEPT_TEXTS[field].inLogin })),
  accounts: t.field({
    type: [accountInput],
    description: `Custodial accounts of the user, at most ${MAX_ACCOUNTS}. New ones are linked; accounts that are linked already stay, named here or not.`,
  }),
});

const loginInput = builder.inputType('RecordLoginInput', {
  description: 'A login. `authMethod` and `authValue` together identify the user within the project.',
  fields: (t) => ({
    ...profileFields(t),
    linkByExternalId: t.boolean({
      description:
        'True to link an identity that is new to the user with `externalId`, instead of failing with `CONFLICT`: for a person who comes from another system, of whom you know the ID there.',
    }),
  }),
});

const newUserInput = builder.inputType('CreateUserInput', {
  description: 'A user who has not logged in. `authMethod` and `authValue` are the identity of the first login.',
  fields: profileFields,
});

/** Of the write of a profile, with its accounts. */
const WRITE_OF_PROFILE = costs({
  surcharge: SURCHARGES.write,
  items: { of: ['input', 'accounts'], each: SURCHARGES.account },
});

const loginPayload = builder.objectRef<{ user: User; created: boolean }>('RecordLoginPayload').implement({
  description: 'The result of `recordLogin`.',
  fields: (t) => ({
    user: t.expose('user', {
      type: userType,
      description: 'The user who logged in. `loginCount` and `lastLogin` include this login.',
    }),
    created: t.exposeBoolean('created', {
      description: 'True when this login registered the user, false when the user existed.',
    }),
  }),
});

builder.mutationField('recordLogin', (t) =>
  t.field({
    type: loginPayload,
    description:
      'Records a login, which you have checked: the signature, the password or the passkey is not looked at here. The first login of an identity registers a user; each later one, by whatever identity of the user, is counted and can link more accounts. Fails with `BANNED` where the identity is banned, and with `CONFLICT` where the external ID is not that of this user.',
    args: {
      input: t.arg({ type: loginInput, required: true, description: 'Who logged in, and how.' }),
      idempotencyKey: t.arg.string({ description: KEY_DESCRIPTION }),
    },
    extensions: WRITE_OF_PROFILE,
    resolve: (_root, { input, idempotencyKey }, { scope, services, requestId, until }) => {
      const [profile, key] = readAll(
        () => parseProfile(input, camelCase),
        () => requireKey('idempotencyKey', idempotencyKey),
      );
      const linkByExternalId = input.linkByExternalId === true;
      return services.logins.recordLogin(scope, profile, { linkByExternalId, key, requestId, until });
    },
  }),
);

builder.mutationField('createUser', (t) =>
  t.field({
    type: userPayload,
    description:
      'Creates a user who has not logged in: `loginCount` is 0, and `lastLogin` null. A later `recordLogin` of the identity is a login of this user. Recorded in the feed as `USER_CREATED`. Fails with `CONFLICT` where another user has the identity, also as a linked one, or the external ID, and with `BANNED` where the identity is banned.',
    args: {
      input: t.arg({ type: newUserInput, required: true, description: 'Who is created.' }),
      idempotencyKey: t.arg.string({ description: KEY_DESCRIPTION }),
    },
    extensions: WRITE_OF_PROFILE,
    resolve: async (_root, { input, idempotencyKey }, { scope, services, until }) => {
      const [profile, key] = readAll(
        () => parseProfile(input, camelCase),
        () => requireKey('idempotencyKey', idempotencyKey),
      );
      return { user: await services.newUsers.createUser(scope, profile, { key, until }) };
    },
  }),
);
