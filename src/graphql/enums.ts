import type { SchemaTypes } from '@pothos/core';
import { CHANGE_TYPES, type ChangeType } from '../domain/changes.js';
import { LoginMethod, Network, WalletType } from '../domain/users.js';

type ChangeTypeName<Type> = Uppercase<Type extends `${infer Noun}.${infer Verb}` ? `${Noun}_${Verb}` : never>;

const CHANGES: Record<ChangeType, string> = {
  'user.created': 'A user registered or was imported.',
  'user.updated': 'Fields of a user were changed. A login is not a change.',
  'user.removed': 'A user was removed.',
  'user.restored': 'A removed user came back.',
  'account.added': 'An account was linked to a user.',
  'identity.banned': 'An identity was banned.',
  'identity.unbanned': 'The ban of an identity was lifted.',
};

/** The enums that the public schema and that of the operators have in common, on one of the two. */
export function addEnums<Types extends SchemaTypes>(builder: PothosSchemaTypes.SchemaBuilder<Types>) {
  return {
    loginMethodEnum: builder.enumType('LoginMethod', {
      description: 'The kind of login that a user has. All social providers are one kind.',
      values: {
        EMAIL: { value: LoginMethod.email, description: 'Signs in with an email address.' },
        PASSKEY: { value: LoginMethod.passkey, description: 'Signs in with a passkey (WebAuthn).' },
        WALLET: { value: LoginMethod.wallet, description: 'Signs in with a wallet of their own.' },
        SOCIALS: { value: LoginMethod.socials, description: 'Signs in through a social provider, whichever it is.' },
      },
    }),
    networkEnum: builder.enumType('Network', {
      description: 'The blockchain network to which an address belongs.',
      values: {
        STELLAR: { value: Network.stellar, description: 'Stellar. Addresses have 56 characters and start with `G`.' },
        ETHEREUM: { value: Network.ethereum, description: 'Ethereum. Addresses are `0x` and 40 hexadecimal digits.' },
      },
    }),
    walletTypeEnum: builder.enumType('WalletType', {
      description: 'Who holds the private key of an account.',
      values: {
        CUSTODIAL: {
          value: WalletType.custodial,
          description: 'The service provisioned the account and holds its key.',
        },
        EXTERNAL: {
          value: WalletType.external,
          description: "The account is the user's own wallet, with which they log in.",
        },
      },
    }),
    changeTypeEnum: builder.enumType('ChangeType', {
      description: 'What has changed.',
      values: Object.fromEntries(
        CHANGE_TYPES.map((value) => [value.replace('.', '_').toUpperCase(), { value, description: CHANGES[value] }]),
      ) as { [Type in ChangeType as ChangeTypeName<Type>]: { value: Type; description: string } },
    }),
  };
}
