import { builder, networkEnum, walletTypeEnum } from './builder.js';

export const accountType = builder.prismaObject('Account', {
  description: 'A public account linked to a user. Only its address is known here, never a key.',
  fields: (t) => ({
    id: t.id({ description: 'The account ID.', resolve: (account) => String(account.id) }),
    network: t.expose('network', { type: networkEnum, description: 'The network of the account.' }),
    publicKey: t.exposeString('publicKey', { description: 'The public address, as it was registered.' }),
    walletType: t.expose('walletType', { type: walletTypeEnum, description: 'Who holds its keys.' }),
  }),
});
