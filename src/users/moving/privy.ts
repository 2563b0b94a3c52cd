import type { Declaration } from './declaration.js';
import { type Fields, objectsOf, textOf } from './values.js';

/** Privy: users of the API. */
export const privy: Declaration = {
  idFields: ['id'],
  needs: ['linked_accounts'],
  lists: ['data', 'users'],
  logins: [
    {
      each: 'linked_accounts',
      if: (account) => !isHeld(account) && !isOther(account),
      methodIn: ({ type }) => textOf(type).replace(/^custom:/, ''),
      value: ['subject', 'phoneNumber'],
      email: 'email',
      createdAt: ['first_verified_at', 'verified_at'],
      lastLogin: 'latest_verified_at',
      kindIn: 'type',
      kinds: {
        email: { value: 'address', verifiedAt: 'verified_at' },
        phone: { value: ['number', 'phoneNumber'], verifiedAt: 'verified_at' },
        wallet: { value: 'address' },
        passkey: { value: 'credential_id' },
        farcaster: { value: 'fid' },
        telegram: { value: 'telegram_user_id' },
        custom_auth: { value: 'custom_user_id' },
      },
    },
  ],
  accounts: [{ each: 'linked_accounts', if: isHeld, address: 'address' }],
  createdAt: 'created_at',
  lastLogin: lastUseOf,
  isGuest: 'is_guest',
  metadataIn: 'custom_metadata',
  notKept: [
    { what: 'accounts in other apps and authorization keys', each: 'linked_accounts', if: isOther },
    { what: 'second factors', each: 'mfa_methods' },
    { what: 'accepted terms', if: 'has_accepted_terms' },
  ],
};

/** True for a wallet that Privy holds for the person. */
function isHeld({ type, connector_type: connector }: Fields): boolean {
  return type === 'smart_wallet' || (type === 'wallet' && connector === 'embedded');
}

function isOther({ type }: Fields): boolean {
  return type === 'cross_app' || type === 'authorization_key';
}

/** The last use of anything of the person: Privy does not list logins. */
function lastUseOf({ linked_accounts: accounts }: Fields): number | null {
  const uses = objectsOf(accounts).map(({ latest_verified_at: used }) => Number(used ?? 0));
  return Math.max(...uses, 0) || null;
}
