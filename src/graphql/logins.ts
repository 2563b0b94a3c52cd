import { parse, userId } from '../services/filters.js';
import { camelCase, parseProfile } from '../services/identities.js';
import type { User } from '../services/users.js';
import { builder, networkEnum } from './builder.js';
import { userType } from './users.js';

const removedId = userId('id');

const deletePayload = builder.objectRef<{ id: string }>('DeleteUserPayload').implement({
  description: 'The user who was removed.',
  fields: (t) => ({ id: t.exposeID('id', { description: 'The ID that the user had.' }) }),
});

builder.mutationField('deleteUser', (t) =>
  t.field({
    type: deletePayload,
    description:
      'Removes a user from the project, or fails with `NOT_FOUND`. It is no ban: the user may register again, under a new ID.',
    args: { id: t.arg.id({ required: true, description: 'The user ID.' }) },
    resolve: async (_root, args, { scope, services }) => {
      const id = parse(removedId, args.id);
      await services.users.removeUser(scope, id);
      return { id: String(id) };
    },
  }),
);

const accountInput = builder.inputType('AccountInput', {
  description: 'A public account to link.',
  fields: (t) => ({
    network: t.field({ type: networkEnum, required: true, description: 'The network, which the address must be of.' }),
    publicKey: t.string({ required: true, description: 'The public address.' }),
  }),
});

const loginInput = builder.inputType('RecordLoginInput', {
  description: 'Who has logged in, and what is known of that user.',
  fields: (t) => ({
    authMethod: t.string({
      required: true,
      description: '`email`, `passkey`, `wallet`, or the name of a social provider in lower case.',
    }),
    authValue: t.string({
      required: true,
      description:
        'Who the user is to that method: the login email, the address of the wallet, the id at the provider.',
    }),
    email: t.string({ description: 'For a social login, the email that the provider gave.' }),
    wallet: t.string({ description: 'The external address used to log in; for a wallet login it is `authValue`.' }),
    accounts: t.field({
      type: [accountInput],
      description: 'Custodial accounts of the user. Those that are new are linked; none is ever unlinked.',
    }),
  }),
});

const loginPayload = builder.objectRef<{ user: User; created: boolean }>('RecordLoginPayload').implement({
  description: 'The user who logged in.',
  fields: (t) => ({
    user: t.expose('user', { type: userType, description: 'The user, with this login counted.' }),
    created: t.exposeBoolean('created', { description: 'Whether this login registered the user.' }),
  }),
});

builder.mutationField('recordLogin', (t) =>
  t.field({
    type: loginPayload,
    description:
      'Records a login: the first one of an identity registers it, every later one counts and may link accounts. A banned identity fails with `BANNED`.',
    args: { input: t.arg({ type: loginInput, required: true, description: 'Who has logged in.' }) },
    resolve: (_root, { input }, { scope, services }) =>
      services.logins.recordLogin(scope, parseProfile(input, camelCase)),
  }),
);
