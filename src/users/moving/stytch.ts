import { counted, idOf, type System } from './person.js';
import { objectOf, objectsOf, textOf, truthOf, wordsOf } from './values.js';

/** Stytch: users of Consumer projects, and members of B2B projects. */
export const stytch: System = {
  name: 'stytch',
  title: 'Stytch',
  idFields: ['user_id', 'member_id'],
  lists: ['results', 'users', 'members'],
  fields: wordsOf(`user_id member_id emails phone_numbers providers webauthn_registrations crypto_wallets totps
    biometric_registrations password member_password_id trusted_metadata untrusted_metadata external_id created_at status
    email_address email_address_verified oauth_registrations sso_registrations mfa_phone_number mfa_phone_number_verified
    totp_registration_id mfa_enrolled default_mfa_method is_locked lock_created_at lock_expires_at is_breakglass`),
  toPerson(record) {
    if (record['status'] === 'deleted') return 'deleted users';
    const list = (name: string) => objectsOf(record[name]);
    const providers = [...list('providers'), ...list('oauth_registrations')];
    const wallets = list('crypto_wallets').filter(({ verified }) => truthOf(verified) === true);
    return {
      id: idOf(record, stytch.idFields),
      logins: [
        ...list('emails').map(({ email, verified }) => ({ by: 'email', value: email, verified: truthOf(verified) })),
        { by: 'email', value: record['email_address'], verified: truthOf(record['email_address_verified']) },
        ...list('phone_numbers').map(({ phone_number, verified }) => ({
          ...{ by: 'phone', value: phone_number, verified: truthOf(verified) },
        })),
        ...wallets.map(({ crypto_wallet_address }) => ({ by: 'wallet', value: crypto_wallet_address })),
        ...providers.map(({ provider_type, provider_subject }) => ({
          by: textOf(provider_type),
          value: provider_subject,
        })),
        ...list('sso_registrations').map(({ connection_id, external_id }) => ({
          by: textOf(connection_id),
          value: external_id,
        })),
      ],
      createdAt: record['created_at'],
      metadata: {
        ...objectOf(record['trusted_metadata']),
        untrusted_metadata: objectOf(record['untrusted_metadata']),
        external_id: record['external_id'],
      },
      notKept: [
        ...counted(
          'passwords',
          textOf(objectOf(record['password'])['password_id'] ?? record['member_password_id']) !== '',
        ),
        ...counted('passkeys', list('webauthn_registrations').length),
        ...counted('biometric registrations', list('biometric_registrations').length),
        ...counted('unverified wallets', list('crypto_wallets').length - wallets.length),
        ...counted('second factors', list('totps').length),
        ...counted(
          'second factors',
          [record['totp_registration_id'], record['mfa_phone_number']].map(textOf).filter(Boolean).length,
        ),
      ],
    };
  },
};
