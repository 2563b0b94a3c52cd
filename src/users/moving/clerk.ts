import type { Declaration, LoginForm } from './declaration.js';
import { isSame } from './person.js';
import { type Fields, objectOf, objectsOf, textOf, textsOf, truthOf, wordsOf } from './values.js';

/** The login by an account at a provider. */
const ACCOUNT: LoginForm = {
  if: canLogIn,
  methodIn: ({ enterprise_connection: connection, provider }) => textOf(objectOf(connection)['id']) || provider,
  value: 'provider_user_id',
  email: 'email_address',
  verified: ({ email_address: email }, user) => {
    const contact = emailsOf(user).find(({ email_address: own }) => isSame(own, email));
    return contact === undefined ? null : isContactVerified(contact);
  },
};

/** Clerk: users of the Backend API, and the CSV of the dashboard. */
export const clerk: Declaration = {
  idFields: ['id'],
  needs: ['email_addresses', 'primary_email_address'],
  lists: ['data', 'users'],
  otherFields: wordsOf(`primary_email_address primary_email_address_id verified_email_addresses
    unverified_email_addresses primary_phone_number primary_phone_number_id verified_phone_numbers
    unverified_phone_numbers primary_web3_wallet_id banned deprovisioned password_enabled password_digest
    password_hasher two_factor_enabled object has_image locked lockout_expires_in_seconds
    verification_attempts_remaining create_organization_enabled delete_self_enabled`),
  reshape: (record) => ({
    ...record,
    email_addresses: contactsOf(record, 'email_address', 'email_addresses'),
    phone_numbers: contactsOf(record, 'phone_number', 'phone_numbers'),
  }),
  logins: [
    {
      each: 'email_addresses',
      if: logsInByEmail,
      method: 'email',
      value: 'email_address',
      verified: isContactVerified,
    },
    {
      each: 'phone_numbers',
      if: (phone) => !isSecondFactor(phone),
      method: 'phone',
      value: 'phone_number',
      verified: isContactVerified,
    },
    { each: 'web3_wallets', if: canLogIn, method: 'wallet', value: 'web3_wallet' },
    { each: 'external_accounts', ...ACCOUNT },
    { each: 'enterprise_accounts', ...ACCOUNT },
    { method: 'username', value: 'username' },
  ],
  email: {
    address: (user) => emailsOf(user)[0]?.['email_address'],
    verified: (user) => isContactVerified(emailsOf(user)[0] ?? {}),
  },
  createdAt: 'created_at',
  lastLogin: 'last_sign_in_at',
  blocked: { if: ({ banned, deprovisioned }) => truthOf(banned) === true || truthOf(deprovisioned) === true },
  metadataIn: 'public_metadata',
  metadataObjects: { private_metadata: 'private_metadata', unsafe_metadata: 'unsafe_metadata' },
  metadata: { external_id: 'external_id' },
  notKept: [
    { what: 'passwords', if: hasPassword },
    // Their IDs are not exported.
    { what: 'passkeys', each: 'passkeys' },
    { what: 'second factors', if: 'totp_enabled' },
    { what: 'second factors', if: 'backup_code_enabled' },
    { what: 'second factors', each: 'phone_numbers', if: isSecondFactor },
    { what: 'unverified logins', each: 'external_accounts', if: (account) => !canLogIn(account) },
    { what: 'unverified logins', each: 'enterprise_accounts', if: (account) => !canLogIn(account) },
    { what: 'unverified logins', each: 'web3_wallets', if: (wallet) => !canLogIn(wallet) },
  ],
};

/** The emails or the phones in the form of the API, the primary one first. The CSV of the dashboard has them as texts. */
function contactsOf(record: Fields, kind: 'email_address' | 'phone_number', list: string): Fields[] {
  const cells = (['verified', 'unverified'] as const).flatMap((status) =>
    textsOf(record[`${status}_${list}`]).map((value) => ({ id: value, [kind]: value, verification: { status } })),
  );
  const primary = record[`primary_${kind}_id`] ?? record[`primary_${kind}`];
  const isPrimary = ({ id }: Fields) => isSame(id, primary);
  return [...objectsOf(record[list]), ...cells].sort((a, b) => Number(isPrimary(b)) - Number(isPrimary(a)));
}

const emailsOf = (user: Fields) => objectsOf(user['email_addresses']);

function isContactVerified({ verification }: Fields): boolean {
  return objectOf(verification)['status'] === 'verified';
}

function isSecondFactor(phone: Fields): boolean {
  return truthOf(phone['reserved_for_second_factor']) === true;
}

function hasPassword({ password_enabled, password_digest }: Fields): boolean {
  return truthOf(password_enabled) ?? textOf(password_digest) !== '';
}

/** Without a password, an address of a provider is not one by which the person logs in. */
function logsInByEmail({ email_address, linked_to }: Fields, user: Fields): boolean {
  if (hasPassword(user)) return true;
  const accounts = [...objectsOf(user['external_accounts']), ...objectsOf(user['enterprise_accounts'])];
  const isOfProvider = accounts.some((account) => canLogIn(account) && isSame(account['email_address'], email_address));
  return objectsOf(linked_to).length === 0 && !isOfProvider;
}

/** Old accounts and wallets say nothing of a verification. */
function canLogIn({ verification }: Fields): boolean {
  return verification == null || isContactVerified({ verification });
}
