import type { Declaration } from './declaration.js';
import { isSame } from './person.js';
import { type Fields, isEmpty, textOf, textsOf, truthOf, wordsOf } from './values.js';

/** Dynamic: users of the API, with their verified credentials. */
export const dynamic: Declaration = {
  idFields: ['id'],
  lists: ['users'],
  otherFields: wordsOf('projectEnvironmentId newUser scope sessionId'),
  logins: [
    {
      each: 'verifiedCredentials',
      if: canLogIn,
      methodIn: 'oauth_provider',
      value: 'oauth_account_id',
      email: ({ oauth_emails: emails }) => textsOf(emails)[0],
      createdAt: 'verifiedAt',
      lastLogin: 'lastSelectedAt',
      kindIn: 'format',
      kinds: {
        email: { method: 'email', value: 'email', verified: true },
        phoneNumber: { method: 'phone', value: phoneOf, verified: true },
        blockchain: { method: 'wallet', value: 'address' },
        externalUser: { method: 'external', value: 'public_identifier' },
      },
    },
    { method: 'username', value: 'username' },
  ],
  // People may write it into their profile.
  email: { address: 'email' },
  accounts: [{ each: 'verifiedCredentials', if: isHeldWallet, address: 'address' }],
  createdAt: ['createdAt', 'firstVisit'],
  lastLogin: 'lastVisit',
  metadataIn: 'metadata',
  notKept: [
    {
      what: ({ format }) => NOUNS[textOf(format)] ?? 'linked accounts without login',
      each: 'verifiedCredentials',
      // The email of the record is kept with it.
      if: (credential, { email }) =>
        isWithoutLogin(credential) && (isEmpty(credential['email']) || !isSame(credential['email'], email)),
    },
  ],
};

/** The ID of a passkey is not in its credential. */
const NOUNS: Readonly<Record<string, string>> = { passkey: 'passkeys', totp: 'second factors' };

/** The providers of wallets that Dynamic or another service holds for the person. */
const HELD = /embedded|smartContract|custodial/i;

function canLogIn({ signInEnabled, wallet_provider: provider }: Fields): boolean {
  return truthOf(signInEnabled) !== false && !HELD.test(textOf(provider));
}

function isHeldWallet(credential: Fields): boolean {
  return credential['format'] === 'blockchain' && !canLogIn(credential);
}

function isWithoutLogin(credential: Fields): boolean {
  if (!canLogIn(credential)) return credential['format'] !== 'blockchain';
  const isOfProvider = !['email', 'phoneNumber', 'blockchain', 'externalUser'].includes(textOf(credential['format']));
  return isOfProvider && textOf(credential['oauth_provider']) === '';
}

function phoneOf({ phoneCountryCode: country, phoneNumber: number }: Fields): string {
  return `+${textOf(country)}${textOf(number)}`.replace('++', '+');
}
