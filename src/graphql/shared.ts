import type { SchemaTypes } from '@pothos/core';
import { CHANGE_MEANINGS, type ChangeType } from '../domain/change-types.js';
import type { SecretScope } from '../domain/projects.js';
import { type NameOf, nameOf } from '../domain/spelling.js';
import type { LoginMethod, Network, WalletType } from '../domain/users.js';

/* The common part of the public schema and that of the operators. */

/** Options of a field that may be null. */
export const orNull = (description: string) => ({ nullable: true, description }) as const;
/** Options of a field that is an instant or null. */
export const instantOrNull = (description: string) => ({ type: 'DateTime', nullable: true, description }) as const;
/** Options of an argument that must be given. */
export const required = (description: string) => ({ required: true, description }) as const;

/** Options of an argument that has a value where none is given. */
export function withDefault<Value>(defaultValue: Value, description: string) {
  return { required: true, defaultValue, description } as const;
}

/** The values of an enum, from what each of them means. */
export function valuesOf<Value extends string>(meanings: Readonly<Record<Value, string>>) {
  const values = Object.entries<string>(meanings).map(([value, description]) => [
    nameOf(value),
    { value, description },
  ]);
  return Object.fromEntries(values) as { [Each in Value as NameOf<Each>]: { value: Each; description: string } };
}

/** The enums of both, on one of the two. */
export function addEnums<Types extends SchemaTypes>(builder: PothosSchemaTypes.SchemaBuilder<Types>) {
  return {
    loginMethodEnum: builder.enumType('LoginMethod', {
      description: 'The kind of login that a user has. All social providers are one kind.',
      values: valuesOf<LoginMethod>({
        email: 'Signs in with an email address.',
        passkey: 'Signs in with a passkey (WebAuthn).',
        wallet: 'Signs in with a wallet of their own.',
        socials: 'Signs in through a social provider, whichever it is.',
      }),
    }),
    networkEnum: builder.enumType('Network', {
      description: 'The blockchain network to which an address belongs.',
      values: valuesOf<Network>({
        stellar: 'Stellar. Addresses have 56 characters and start with `G`.',
        ethereum: 'Ethereum. Addresses are `0x` and 40 hexadecimal digits.',
      }),
    }),
    walletTypeEnum: builder.enumType('WalletType', {
      description: 'Who holds the private key of an account.',
      values: valuesOf<WalletType>({
        custodial: 'The application made the account for the user and holds its key.',
        external: "The account is the user's own wallet, with which they log in.",
      }),
    }),
    changeTypeEnum: builder.enumType('ChangeType', {
      description: 'What has changed.',
      values: valuesOf<ChangeType>(CHANGE_MEANINGS),
    }),
    secretScopeEnum: builder.enumType('SecretScope', {
      description: 'What a secret permits.',
      values: valuesOf<SecretScope>({
        read: 'To read users and bans.',
        write: 'To record logins, and to change, remove, restore and ban users.',
        verify: 'To verify wallets.',
        changes: 'To read and to follow the feed of changes.',
        webhooks: 'To manage the webhooks of the project.',
      }),
    }),
  };
}

export function addWebhookStatus<Types extends SchemaTypes>(builder: PothosSchemaTypes.SchemaBuilder<Types>) {
  return builder.enumType('WebhookStatus', {
    description: 'Whether changes are sent to a webhook.',
    values: valuesOf({
      enabled: 'They are, or it waits for a retry.',
      paused: 'They are not: it was paused, it has failed for days, or its place in the feed is gone.',
      disabled: 'They are not: the endpoint has answered 410 (gone).',
    }),
  });
}
