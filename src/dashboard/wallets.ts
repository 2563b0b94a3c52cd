import { parse, userId } from '../domain/parse.js';
import type { WalletOwner } from '../domain/users.js';
import { MAX_WALLETS, requireAddress } from '../domain/wallets.js';
import { costs } from '../engine/cost.js';
import { badInput } from '../errors.js';
import { required } from '../graphql/shared.js';
import { builder, networkEnum, walletTypeEnum } from './builder.js';
import { projectType } from './projects.js';

const walletOwnerType = builder.objectRef<WalletOwner>('WalletOwner').implement({
  description: 'To whom the address of a wallet belongs.',
  fields: (t) => ({
    userId: t.exposeID('userId', { description: 'The ID of the user.' }),
    network: t.expose('network', { type: networkEnum, description: 'The network of the address.' }),
    walletType: t.expose('walletType', { type: walletTypeEnum, description: 'Who holds the private key.' }),
    authMethod: t.exposeString('authMethod', { description: 'How the user authenticates.' }),
  }),
});

const walletInput = builder.inputType('WalletQuestion', {
  description: 'A question about a wallet.',
  fields: (t) => ({
    address: t.string(required('A Stellar account or an Ethereum address.')),
    userId: t.id({ description: 'Whether the address belongs to this user; without it, to any.' }),
  }),
});

const idArgument = userId('userId');

builder.objectField(projectType, 'walletOwners', (t) =>
  t.field({
    type: [walletOwnerType],
    nullable: { list: false, items: true },
    description: 'The owner of each wallet, in order and as of one instant; null where the address does not belong so.',
    args: { wallets: t.arg({ type: [walletInput], ...required(`The questions, at most ${MAX_WALLETS}.`) }) },
    extensions: costs({ surcharge: MAX_WALLETS }),
    resolve: async (project, { wallets }, { services }) => {
      if (wallets.length > MAX_WALLETS) throw badInput('wallets', wallets.length, `at most ${MAX_WALLETS}`);
      const questions = wallets.map(({ address, userId: id }) => ({
        address: requireAddress('address', address),
        userId: id == null ? null : parse(idArgument, id),
      }));
      const { verdicts } = await services.wallets.verifyWallets(project.scope, questions);
      return verdicts.map(({ owner }) => owner);
    },
  }),
);
