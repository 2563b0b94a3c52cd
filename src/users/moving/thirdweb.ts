import type { Declaration } from './declaration.js';
import { type Fields, objectOf, objectsOf, textOf } from './values.js';

/** Where the value of a login by a profile stands. That of every other type is `id`. */
const VALUE_FIELDS: Readonly<Record<string, string>> = {
  email: 'email',
  phone: 'phone',
  siwe: 'address',
  wallet: 'address',
};

/** thirdweb: users of in-app wallets, of the API and the SDK. */
export const thirdweb: Declaration = {
  idFields: ['userId'],
  lists: ['wallets', 'users', 'result'],
  otherFields: ['publicKey', 'linkedAccounts', 'phone'],
  reshape: (record) => ({
    ...record,
    profiles: objectsOf(record['profiles'] ?? record['linkedAccounts']).map(profileOf),
  }),
  logins: [
    {
      each: 'profiles',
      if: isLogin,
      methodIn: 'type',
      value: 'value',
      email: 'email',
      verified: 'emailVerified',
      kinds: {
        email: { value: 'value', verified: true },
        phone: { value: 'value', verified: true },
        siwe: { value: 'value' },
        wallet: { value: 'value' },
      },
    },
  ],
  email: { address: 'email' },
  // The wallets that thirdweb holds.
  accounts: [
    { address: 'address' },
    { address: 'walletAddress' },
    { address: 'smartWalletAddress' },
    { address: 'smartAccountAddress' },
  ],
  createdAt: 'createdAt',
  isGuest: ({ profiles }) => objectsOf(profiles).some(({ type }) => type === 'guest'),
  metadata: {
    phone: ({ phone, profiles }) => (objectsOf(profiles).some(({ type }) => type === 'phone') ? null : phone),
  },
  notKept: [
    // The ID is none of a credential.
    { what: 'passkeys', each: 'profiles', if: ({ type }) => type === 'passkey' },
    {
      what: 'logins without an ID',
      each: 'profiles',
      if: (profile) => isLogin(profile) && textOf(profile['value']) === '',
    },
  ],
};

/** A profile with what tells the person apart there as `value`. The SDK puts what it knows of a profile into an object of it. */
function profileOf(profile: Fields): Fields {
  const type = profile['type'];
  const all: Fields = { ...profile, ...objectOf(profile['details']) };
  const { walletAddress, address = walletAddress } = all;
  return { ...all, type, value: { ...all, address }[VALUE_FIELDS[textOf(type)] ?? 'id'] };
}

function isLogin({ type }: Fields): boolean {
  return type !== 'passkey' && type !== 'guest';
}
