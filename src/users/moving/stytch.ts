import { idOf, repeated, type System } from './person.js';
import { isEmpty, objectOf, objectsOf, textOf, truthOf, wordsOf } from './values.js';

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
    const list = (...names: string[]) => names.flatMap((name) => objectsOf(record[name]));
    const wallets = list('crypto_wallets').filter(({ verified }) => truthOf(verified) === true);
    const emails = [...list('emails'), { email: record['email_address'], verified: record['email_address_verified'] }];
    const passwords = [objectOf(record['password'])['password_id'], record['member_password_id']];
    const factors = [...list('totps'), record['totp_registration_id'], record['mfa_phone_number']];
    return {
      id: idOf(record, stytch.idFields),
      logins: [
        ...emails.map(({ email: value, verified }) => ({ by: 'email', value, verified: truthOf(verified) })),
        ...list('phone_numbers').map(({ phone_number: value, verified }) => ({
          by: 'phone',
          value,
          verified: truthOf(verified),
        })),
        ...wallets.map(({ crypto_wallet_address: value }) => ({ by: 'wallet', value })),
        ...list('providers', 'oauth_registrations').map(({ provider_type, provider_subject: value }) => ({
          by: textOf(provider_type),
          value,
        })),
        ...list('sso_registrations').map(({ connection_id, external_id: value }) => ({
          by: textOf(connection_id),
          value,
        })),
      ],
      createdAt: record['created_at'],
      metadata: {
        ...objectOf(record['trusted_metadata']),
        untrusted_metadata: objectOf(record['untrusted_metadata']),
        external_id: record['external_id'],
      },
      notKept: [
        ...repeated(
          'passwords',
          passwords.some((id) => !isEmpty(id)),
        ),
        ...repeated('passkeys', list('webauthn_registrations').length),
        ...repeated('biometric registrations', list('biometric_registrations').length),
        ...repeated('unverified wallets', list('crypto_wallets').length - wallets.length),
        ...repeated('second factors', factors.filter((factor) => !isEmpty(factor)).length),
      ],
    };
  },
};
