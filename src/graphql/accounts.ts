import { builder, networkEnum, walletTypeEnum } from './builder.js';

export const accountType = builder.prismaObject('Account', {
  description: 'A blockchain account linked to a user. The service knows its public address only, never a private key.',
  fields: (t) => ({
    id: t.exposeID('id', {
      description: 'The account ID: the integer of the REST interface, as a string of digits.',
    }),
    network: t.expose('network', { type: networkEnum, description: 'The network of the account.' }),
    publicKey: t.exposeString('publicKey', { description: 'The public address, spelled as it was registered.' }),
    walletType: t.expose('walletType', {
      type: walletTypeEnum,
      description: 'Who holds the private key of the account.',
    }),
  }),
});
