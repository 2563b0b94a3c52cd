import SchemaBuilder from '@pothos/core';
import DirectivesPlugin from '@pothos/plugin-directives';
import PrismaPlugin from '@pothos/plugin-prisma';
import type PrismaTypes from '../db/generated/pothos.js';
import { getDatamodel } from '../db/generated/pothos.js';
import type { AppError } from '../errors.js';
import { type Account, LoginMethod, Network, type User, WalletType } from '../domain/users.js';
import type { ProjectScope } from '../domain/projects.js';
import type { Admit } from '../services/changes.js';
import type { Services } from '../services/services.js';

/** What a resolver gets: the project of the request's credentials, the services, and the request's id for the audit trail. */
export interface GraphQLContext {
  readonly scope: ProjectScope;
  readonly services: Services;
  readonly requestId: string;
  /** Whether it may take long: its fields begin in several turns of the event loop then. */
  readonly isLarge: boolean;
  /** Adds to the cost of the operation (rows.ts); false where it cannot be answered for that. */
  readonly charge: (cost: number) => boolean;
  /** The context of a second execution for the same answer: it is charged only for what it costs beyond the first. */
  readonly again: () => GraphQLContext;
  /** How long a subscription goes on, and how it reads. Null for any other operation. */
  readonly follower: { readonly signal: AbortSignal; readonly admit: Admit } | null;
  /** Is told of an error of a resolver as an operator should know of it. */
  readonly report: (failure: AppError) => void;
}

/** The models with the rows that services return: what is public of them. */
type Models = Omit<PrismaTypes, 'User' | 'Account'> & {
  User: Omit<PrismaTypes['User'], 'Shape'> & { Shape: User };
  Account: Omit<PrismaTypes['Account'], 'Shape'> & { Shape: Account };
};

export const builder = new SchemaBuilder<{
  Context: GraphQLContext;
  PrismaTypes: Models;
  DefaultFieldNullability: false;
  /** Those of Apollo Federation. They stand in subgraph.graphql only. */
  Directives: {
    key: { locations: 'OBJECT'; args: { fields: string } };
    shareable: { locations: 'OBJECT' };
  };
  Scalars: {
    ID: { Input: string; Output: string | number };
    DateTime: { Input: never; Output: string };
    /** See federation.ts. */
    _Any: { Input: unknown; Output: never };
  };
}>({
  defaultFieldNullability: false,
  plugins: [PrismaPlugin, DirectivesPlugin],
  prisma: {
    dmmf: getDatamodel(),
    // Resolvers ask services, which batch and keep to the project; a field that wants its own query is a mistake.
    client: () => {
      throw new Error('A resolver may not query the database; ask a service.');
    },
  },
});

builder.queryType({
  description:
    'Every field reads the project whose App ID and App Secret come with the request, and nothing else. A failed field has a code in `extensions.code`: `BAD_USER_INPUT` for a value that is not accepted, with the argument in `extensions.argument`, `NOT_FOUND`, `BANNED`, `CONFLICT`, `IDEMPOTENCY_KEY_REUSED`, `CURSOR_EXPIRED`, `FORBIDDEN` where the App Secret lacks a scope, `UNAVAILABLE` while the database is away, or `INTERNAL_SERVER_ERROR`.',
});
builder.mutationType({
  description:
    'Every field changes the project whose App ID and App Secret come with the request, and nothing else. The App Secret needs the scope `write`.',
});

builder.scalarType('DateTime', {
  description: 'An instant as an RFC 3339 string, always in UTC and with milliseconds: `2026-01-31T12:00:00.000Z`.',
  serialize: (instant) => instant,
});

export const loginMethodEnum = builder.enumType('LoginMethod', {
  description: 'The kind of login that a user has. All social providers are one kind.',
  values: {
    EMAIL: { value: LoginMethod.email, description: 'Signs in with an email address.' },
    PASSKEY: { value: LoginMethod.passkey, description: 'Signs in with a passkey (WebAuthn).' },
    WALLET: { value: LoginMethod.wallet, description: 'Signs in with a wallet of their own.' },
    SOCIALS: { value: LoginMethod.socials, description: 'Signs in through a social provider, whichever it is.' },
  },
});

export const networkEnum = builder.enumType('Network', {
  description: 'The blockchain network to which an address belongs.',
  values: {
    STELLAR: { value: Network.stellar, description: 'Stellar. Addresses have 56 characters and start with `G`.' },
    ETHEREUM: { value: Network.ethereum, description: 'Ethereum. Addresses are `0x` and 40 hexadecimal digits.' },
  },
});

export const walletTypeEnum = builder.enumType('WalletType', {
  description: 'Who holds the private key of an account.',
  values: {
    CUSTODIAL: { value: WalletType.custodial, description: 'The service provisioned the account and holds its key.' },
    EXTERNAL: {
      value: WalletType.external,
      description: "The account is the user's own wallet, with which they log in.",
    },
  },
});
