import { MAX_LISTED } from '../domain/bounds.js';
import { inWords } from '../domain/figures.js';
import { readId } from '../domain/parse.js';
import { ADDING_MS, CHALLENGE_MS, MAX_PASSKEYS, type Passkey } from '../domain/passkeys.js';
import { instantOrNull, required } from '../graphql/shared.js';
import { browserOf, builder } from './builder.js';

const passkeyType = builder.objectRef<Passkey>('Passkey').implement({
  description: 'A passkey with which an operator signs in.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'Its id.' }),
    operator: t.exposeString('operator', { description: 'The name of its operator.' }),
    name: t.exposeString('name', { description: 'What the operator calls it.' }),
    host: t.exposeString('host', { description: 'The host to which browsers bind it: it works there only.' }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When it was added.' }),
    lastUsedAt: t.expose('lastUsedAt', instantOrNull('When it was used last; null if it never was.')),
  }),
});

builder.queryFields((t) => ({
  passkeys: t.field({
    type: [passkeyType],
    description: `The passkeys of this operator, or for an ADMIN of all projects all or those of one operator, the newest first; at most ${MAX_LISTED}. NOT_FOUND.`,
    args: {
      operator: t.arg.string({
        description: 'Only those of the operator of this name. Needs an ADMIN of all projects.',
      }),
    },
    resolve: (_root, { operator: name }, { services, operator }) =>
      name == null ? services.passkeys.listPasskeys(operator) : services.passkeys.listPasskeysOf(operator, name),
  }),
}));

const part = (description: string) => required(`${description}, as base64url.`);

builder.mutationFields((t) => ({
  beginPasskey: t.string({
    description: `What the browser needs to make a passkey for this operator, as JSON; it is good for ${inWords(CHALLENGE_MS)}. CONFLICT if the session was begun by a passkey or more than ${inWords(ADDING_MS)} ago, or if the operator is of the single sign-on or has ${MAX_PASSKEYS}.`,
    resolve: async (_root, _args, context) => {
      const { session, passkeySite } = browserOf(context);
      return JSON.stringify(await context.services.passkeys.beginAdding(session, passkeySite()));
    },
  }),
  addPasskey: t.field({
    type: passkeyType,
    description: 'Adds the passkey that the browser has made. CONFLICT if it is known.',
    args: {
      name: t.arg.string(required('What to call it.')),
      id: t.arg.string(part('The ID of the credential')),
      clientDataJSON: t.arg.string(part('What the browser has signed')),
      attestationObject: t.arg.string(part('What the authenticator says')),
    },
    resolve: (_root, { name, ...credential }, context) => {
      const { services, operator, requestId } = context;
      const { session, passkeySite } = browserOf(context);
      return services.passkeys.add(operator, session, passkeySite(), { name, credential }, requestId);
    },
  }),
  removePasskey: t.field({
    type: passkeyType,
    description:
      'Removes a passkey, whose sessions end at once: one’s own, or for an ADMIN of all projects any. NOT_FOUND.',
    args: { id: t.arg.id(required('The id of the passkey.')) },
    resolve: (_root, { id }, { services, operator, requestId }) =>
      services.passkeys.removePasskey(operator, readId('id', id), requestId),
  }),
}));
