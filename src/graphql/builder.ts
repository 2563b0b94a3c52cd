import SchemaBuilder from '@pothos/core';
import PrismaPlugin from '@pothos/plugin-prisma';
import type PrismaTypes from '../db/generated/pothos.js';
import { getDatamodel } from '../db/generated/pothos.js';
import { Network, WalletType } from '../services/accounts.js';
import { LoginMethod } from '../services/filters.js';
import type { ProjectScope } from '../services/projects.js';
import type { Services } from '../services/services.js';

/** What a resolver gets: the project of the request's credentials, and the services. */
export interface GraphQLContext {
  readonly scope: ProjectScope;
  readonly services: Services;
}

export const builder = new SchemaBuilder<{
  Context: GraphQLContext;
  PrismaTypes: PrismaTypes;
  DefaultFieldNullability: false;
  Scalars: {
    ID: { Input: string; Output: string };
    DateTime: { Input: never; Output: Date };
  };
}>({
  defaultFieldNullability: false,
  plugins: [PrismaPlugin],
  prisma: {
    dmmf: getDatamodel(),
    // Resolvers ask services, which batch and keep to the project; a field that wants its own query is a mistake.
    client: () => {
      throw new Error('A resolver may not query the database; ask a service.');
    },
  },
});

builder.queryType({ description: 'Questions about the users of the project whose credentials come with the request.' });
builder.mutationType({ description: 'Changes to the users of the project whose credentials come with the request.' });

builder.scalarType('DateTime', {
  description: 'An instant in RFC 3339, in UTC with milliseconds: `2026-01-31T12:00:00.000Z`.',
  serialize: (instant) => instant.toISOString(),
});

export const loginMethodEnum = builder.enumType('LoginMethod', {
  description: 'The ways to sign in that a filter tells apart.',
  values: {
    EMAIL: { value: LoginMethod.email, description: 'By a login email.' },
    PASSKEY: { value: LoginMethod.passkey, description: 'By a passkey (WebAuthn).' },
    WALLET: { value: LoginMethod.wallet, description: "By the user's own external wallet." },
    SOCIALS: { value: LoginMethod.socials, description: 'By any social provider.' },
  },
});

export const networkEnum = builder.enumType('Network', {
  description: 'The network of an address.',
  values: {
    STELLAR: { value: Network.stellar, description: 'Stellar: addresses start with `G`.' },
    ETHEREUM: { value: Network.ethereum, description: 'Ethereum: addresses start with `0x`.' },
  },
});

export const walletTypeEnum = builder.enumType('WalletType', {
  description: 'Who holds the keys of an account.',
  values: {
    CUSTODIAL: { value: WalletType.custodial, description: 'The account was provisioned by the service.' },
    EXTERNAL: { value: WalletType.external, description: "The account is the user's own login wallet." },
  },
});
