import type { Address } from '../services/addresses.js';
import { parseAddress, requireAddress } from '../services/addresses.js';
import { parse, userId } from '../services/filters.js';
import type { WalletOwner } from '../services/wallets.js';
import { builder, networkEnum, walletTypeEnum } from './builder.js';

// As in REST, null is an error and never "not pinned": it is what a caller sends who has lost the id.
const pinnedUserId = userId('userId').optional();

const verificationType = builder.objectRef<{ owner: WalletOwner | null }>('WalletVerification').implement({
  description:
    'Whether an address belongs to a current user of the project. The other fields are null where it does not.',
  fields: (t) => ({
    exists: t.boolean({
      description:
        'The decision: true when the address belongs to a current user, and to the pinned one where one was given.',
      resolve: ({ owner }) => owner !== null,
    }),
    userId: t.id({
      nullable: true,
      description: 'The user to whom the address belongs.',
      resolve: ({ owner }) => owner && String(owner.userId),
    }),
    network: t.field({
      type: networkEnum,
      nullable: true,
      description: 'The network of the address.',
      resolve: ({ owner }) => owner?.network,
    }),
    walletType: t.field({
      type: walletTypeEnum,
      nullable: true,
      description: 'Who holds the keys of the account.',
      resolve: ({ owner }) => owner?.walletType,
    }),
    authMethod: t.string({
      nullable: true,
      description: 'How the user authenticates.',
      resolve: ({ owner }) => owner?.authMethod,
    }),
  }),
});

builder.queryField('verifyWallet', (t) =>
  t.field({
    type: verificationType,
    description:
      'Decides whether an address belongs to a current user. Without `userId`, yes only means that it belongs to some user of the project. A malformed address is an error, not a no.',
    args: {
      address: t.arg.string({ required: true, description: 'A Stellar (`G…`) or Ethereum (`0x…`) address.' }),
      userId: t.arg.id({
        description:
          'The one user to whom the address must belong. To ask about any user leave it out; null is refused.',
      }),
    },
    resolve: async (_root, args, { scope, services }) => {
      const address = requireAddress('address', args.address);
      const pinned = parse(pinnedUserId, args.userId) ?? null;
      return { owner: await services.wallets.findOwner(scope, address, pinned) };
    },
  }),
);

const reportType = builder.objectRef<Address | { reason: string }>('AddressReport').implement({
  description: 'What an address is, or why it is none.',
  fields: (t) => ({
    network: t.field({
      type: networkEnum,
      nullable: true,
      description: 'The network of the address; null where it is malformed.',
      resolve: (report) => ('reason' in report ? null : report.network),
    }),
    canonical: t.string({
      nullable: true,
      description:
        'The form in which addresses are compared; null where it is malformed. For Ethereum it is in lower case.',
      resolve: (report) => ('reason' in report ? null : report.key),
    }),
    checksumValid: t.boolean({
      nullable: true,
      description:
        'Whether the checksum holds; null where the address is malformed. False only for an Ethereum address in mixed case that contradicts EIP-55, which is accepted all the same: in one case it carries no checksum, and a Stellar address with a wrong one is malformed.',
      resolve: (report) => ('reason' in report ? null : report.checksumValid),
    }),
    reason: t.string({
      nullable: true,
      description: 'Why the text is no address; null where it is one.',
      resolve: (report) => ('reason' in report ? report.reason : null),
    }),
  }),
});

builder.queryField('parseAddress', (t) =>
  t.field({
    type: reportType,
    description: 'Reads a text by the parser that search, verification and import use, without looking anybody up.',
    args: { address: t.arg.string({ required: true, description: 'Any text.' }) },
    resolve: (_root, { address }) => parseAddress(address),
  }),
);
