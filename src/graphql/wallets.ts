import { METHOD_FORM_IN_CODE } from '../domain/auth-methods.js';
import { parse, readAll, userId } from '../domain/parse.js';
import type { WalletOwner } from '../domain/users.js';
import {
  type Address,
  isChecksumValid,
  MAX_WALLETS,
  parseAddress,
  readWallet,
  requireAddress,
  type WalletVerdict,
} from '../domain/wallets.js';
import { costs } from '../engine/cost.js';
import { NEEDS_VALUES } from '../engine/execution.js';
import { AppError } from '../errors.js';
import { builder, networkEnum, SURCHARGES, walletTypeEnum } from './builder.js';
import { orNull, required, valuesOf } from './shared.js';

// As in REST, null is an error and never "not pinned": it is what a caller sends who has lost the id.
const requiredUserId = userId('userId');
const pinnedUserId = userId('userId', 'decimal digits, 1 and up, or to be left out for any user').optional();

/** The fields of the owner of an address; `isOfVerdict`: they say that they are null unless the wallet is verified. */
function ownerFields(
  t: PothosSchemaTypes.ObjectFieldBuilder<typeof builder.$inferSchemaTypes, { readonly owner: WalletOwner | null }>,
  isOfVerdict: boolean,
) {
  const saying = (what: string) => orNull(isOfVerdict ? `${what}; null unless it is verified.` : `${what}.`);
  const method = `How that user authenticates: ${METHOD_FORM_IN_CODE}.`;
  return {
    userId: t.id({ ...saying('The ID of the user who has the address'), resolve: ({ owner }) => owner?.userId }),
    network: t.field({
      type: networkEnum,
      ...saying('The network of the address'),
      resolve: ({ owner }) => owner?.network,
    }),
    walletType: t.field({
      type: walletTypeEnum,
      ...saying('Who holds the private key of the address'),
      resolve: ({ owner }) => owner?.walletType,
    }),
    authMethod: t.string({
      ...orNull(isOfVerdict ? `${method} Null unless it is verified.` : method),
      resolve: ({ owner }) => owner?.authMethod,
    }),
  };
}

const verificationType = builder.objectRef<{ owner: WalletOwner | null }>('WalletVerification').implement({
  description: 'The result of `verifyWallet`. When `exists` is false, every other field is null.',
  fields: (t) => ({
    exists: t.boolean({
      description:
        'The decision: true when the address belongs to a current user of the project and, where `userId` was given, to that user.',
      resolve: ({ owner }) => owner !== null,
    }),
    ...ownerFields(t, false),
  }),
});

const verdictEnum = builder.enumType('WalletVerdictKind', {
  description: 'The decision about a wallet.',
  values: valuesOf<WalletVerdict['verdict']>({
    VERIFIED: 'The address belongs to a current user of the project and, where `userId` was given, to that user.',
    NOT_OWNED: 'It does not.',
    MALFORMED: 'It is no address, or `userId` is no user ID; `reason` says why. Nothing was looked up.',
  }),
});

const verdictType = builder.objectRef<WalletVerdict & { readonly asOf: string }>('WalletVerdict').implement({
  description: 'The decision about one wallet of `verifyWallets`.',
  fields: (t) => ({
    verdict: t.expose('verdict', { type: verdictEnum, description: 'The decision.' }),
    reason: t.exposeString(
      'reason',
      orNull('Why the wallet is malformed, as `parseAddress` says it; null when it is well-formed.'),
    ),
    ...ownerFields(t, true),
    asOf: t.expose('asOf', {
      type: 'DateTime',
      description:
        'The instant of the decision, the same for all of an answer, by the clock of the database: all that was committed before it counts.',
    }),
  }),
});

const walletInput = builder.inputType('WalletInput', {
  description: 'A wallet to verify.',
  fields: (t) => ({
    address: t.string({ required: true, description: 'A Stellar (`G…`) or Ethereum (`0x…`) address.' }),
    userId: t.id({
      description:
        'The user to whom the address must belong. Leave it out to ask about any user; with an explicit null the wallet is malformed, so that a lost ID cannot widen the question. JSON drops `undefined`: send `userId ?? null`.',
    }),
  }),
});

const reportType = builder.objectRef<Address | { reason: string }>('AddressReport').implement({
  description: 'What a text is as an address: either `reason` is null, or all other fields are.',
  fields: (t) => ({
    network: t.field({
      type: networkEnum,
      nullable: true,
      description: 'The network of the address; null when it is malformed.',
      resolve: (report) => ('reason' in report ? null : report.network),
    }),
    canonical: t.string({
      nullable: true,
      description:
        'The address in the one form in which the service compares addresses (Ethereum in lower case); null when it is malformed.',
      resolve: (report) => ('reason' in report ? null : report.key),
    }),
    checksumValid: t.boolean({
      nullable: true,
      description:
        'False when an Ethereum address is in mixed case but not in the case that EIP-55 demands, a sign of a mistyped character; such an address is accepted all the same. True for every other well-formed address. Null when it is malformed, as a Stellar address with a wrong checksum is.',
      resolve: (report) => ('reason' in report ? null : isChecksumValid(report)),
    }),
    reason: t.string({
      nullable: true,
      description: 'Why the text is malformed as an address; null when it is well-formed.',
      resolve: (report) => ('reason' in report ? report.reason : null),
    }),
  }),
});

builder.queryFields((t) => ({
  verifyWallet: t.field({
    type: verificationType,
    description:
      'Decides whether an address belongs to a current user. Without `userId`, a yes means only that it belongs to some user of the project; where several have it, the answer names the one who linked it first, as long as that user and that link exist. A malformed address is `BAD_USER_INPUT`, not a no.',
    args: {
      address: t.arg.string(required('A Stellar (`G…`) or Ethereum (`0x…`) address.')),
      userId: t.arg.id({
        description:
          'The user to whom the address must belong. Leave it out of the document to ask about any user; null, or a variable without a value, is refused, so that a lost ID cannot widen the question.',
      }),
    },
    extensions: { ...NEEDS_VALUES, ...costs({ surcharge: SURCHARGES.search }) },
    resolve: async (_root, args, { scope, services }) => {
      const [address, userId = null] = readAll(
        () => requireAddress('address', args.address),
        () => parse(pinnedUserId, args.userId),
      );
      return { owner: await services.wallets.findOwner(scope, { address, userId }) };
    },
  }),
  verifyWallets: t.field({
    type: [verdictType],
    description:
      'Decides for many wallets at once what `verifyWallet` decides for one, all at the same instant: a verdict for each of the `inputs`, in their order. A malformed wallet is a verdict here, so that the others are answered.',
    args: {
      inputs: t.arg({ type: [walletInput], required: true, description: `The wallets, at most ${MAX_WALLETS}.` }),
    },
    extensions: {
      ...NEEDS_VALUES,
      ...costs({
        surcharge: SURCHARGES.search,
        rows: { of: ['inputs'], otherwise: 0, atMost: MAX_WALLETS },
        items: { of: ['inputs'], each: SURCHARGES.wallet },
      }),
    },
    resolve: async (_root, { inputs }, { scope, services }) => {
      if (inputs.length > MAX_WALLETS)
        throw new AppError('BAD_USER_INPUT', `inputs: got ${inputs.length}, expected at most ${MAX_WALLETS}.`);
      const { asOf, verdicts } = await services.wallets.verifyWallets(
        scope,
        inputs.map(({ address, userId: pinned }) => readWallet(requiredUserId, { address, userId: pinned })),
      );
      return verdicts.map((verdict) => ({ ...verdict, asOf }));
    },
  }),
  parseAddress: t.field({
    type: reportType,
    description:
      'Checks a text by the rules for addresses that `searchUsers`, `verifyWallet` and `recordLogin` go by. It looks up no user, and a malformed address is not an error here.',
    args: { address: t.arg.string(required('The text to check.')) },
    resolve: (_root, { address }) => parseAddress(address),
  }),
}));
