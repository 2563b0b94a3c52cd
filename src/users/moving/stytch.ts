import type { Declaration } from './declaration.js';
import { isEmpty, objectOf, truthOf, wordsOf } from './values.js';

/** Stytch: users of Consumer projects, and members of B2B projects. */
export const stytch: Declaration = {
  idFields: ['user_id', 'member_id'],
  lists: ['results', 'users', 'members'],
  otherFields: wordsOf(`password member_password_id status totp_registration_id mfa_phone_number
    mfa_phone_number_verified mfa_enrolled default_mfa_method is_locked lock_created_at lock_expires_at is_breakglass`),
  refuse: ({ status }) => (status === 'deleted' ? 'deleted users' : null),
  logins: [
    { each: 'emails', method: 'email', value: 'email', verified: 'verified' },
    { method: 'email', value: 'email_address', verified: 'email_address_verified' },
    { each: 'phone_numbers', method: 'phone', value: 'phone_number', verified: 'verified' },
    { each: 'crypto_wallets', if: 'verified', method: 'wallet', value: 'crypto_wallet_address' },
    { each: 'providers', methodIn: 'provider_type', value: 'provider_subject' },
    { each: 'oauth_registrations', methodIn: 'provider_type', value: 'provider_subject' },
    { each: 'sso_registrations', methodIn: 'connection_id', value: 'external_id' },
  ],
  createdAt: 'created_at',
  metadataIn: 'trusted_metadata',
  metadataObjects: { untrusted_metadata: 'untrusted_metadata' },
  metadata: { external_id: 'external_id' },
  notKept: [
    {
      what: 'passwords',
      if: ({ password, member_password_id: id }) => !isEmpty(objectOf(password)['password_id']) || !isEmpty(id),
    },
    { what: 'passkeys', each: 'webauthn_registrations' },
    { what: 'biometric registrations', each: 'biometric_registrations' },
    { what: 'unverified wallets', each: 'crypto_wallets', if: ({ verified }) => truthOf(verified) !== true },
    { what: 'second factors', each: 'totps', if: (factor) => !isEmpty(factor) },
    { what: 'second factors', if: ({ totp_registration_id: id }) => !isEmpty(id) },
    { what: 'second factors', if: ({ mfa_phone_number: number }) => !isEmpty(number) },
  ],
};
