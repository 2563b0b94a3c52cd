import { idOf, isSame, type Login, repeated, type SourceRecord, type System } from './person.js';
import { objectOf, objectsOf, textOf, textsOf, truthOf, wordsOf } from './values.js';

/** Clerk: users of the Backend API, and the CSV of the dashboard. */
export const clerk: System = {
  name: 'clerk',
  title: 'Clerk',
  idFields: ['id'],
  needs: ['email_addresses', 'primary_email_address'],
  lists: ['data', 'users'],
  fields: wordsOf(`id username email_addresses phone_numbers web3_wallets external_accounts enterprise_accounts passkeys
    password_enabled created_at last_sign_in_at banned deprovisioned external_id public_metadata private_metadata
    unsafe_metadata totp_enabled backup_code_enabled two_factor_enabled primary_email_address_id primary_phone_number_id
    primary_web3_wallet_id object has_image locked lockout_expires_in_seconds verification_attempts_remaining
    create_organization_enabled delete_self_enabled primary_email_address primary_phone_number verified_email_addresses
    unverified_email_addresses verified_phone_numbers unverified_phone_numbers password_digest password_hasher`),
  toPerson(record) {
    const hasPassword = truthOf(record['password_enabled']) ?? textOf(record['password_digest']) !== '';
    const [emails, phones] = [contactsOf(record, 'email_address'), contactsOf(record, 'phone_number')];
    const [wallets, accounts] = [
      objectsOf(record['web3_wallets']),
      [...objectsOf(record['external_accounts']), ...objectsOf(record['enterprise_accounts'])],
    ];
    const providers = accounts.filter(isVerified).map((account): Login => {
      const { provider, provider_user_id: value, email_address: email, enterprise_connection: connection } = account;
      const verified = emails.find((contact) => isSame(contact.value, email))?.verified ?? null;
      return { by: textOf(objectOf(connection)['id']) || textOf(provider), value, email, verified };
    });
    // Without a password, an address of a provider is not one by which the person logs in.
    const ofProviders = hasPassword ? [] : providers.map(({ email }) => email);
    const isOfProvider = (value: unknown) => ofProviders.some((email) => isSame(email, value));
    return {
      id: idOf(record, clerk.idFields),
      logins: [
        ...emails.filter(({ value, isLinked }) => hasPassword || !(isLinked || isOfProvider(value))),
        ...phones.filter(({ isFactor }) => !isFactor),
        ...wallets.filter(isVerified).map(({ web3_wallet }) => ({ by: 'wallet', value: web3_wallet })),
        ...providers,
        { by: 'username', value: record['username'] },
      ],
      ...(emails[0] !== undefined && { email: { address: emails[0].value, verified: emails[0].verified } }),
      createdAt: record['created_at'],
      lastLogin: record['last_sign_in_at'],
      blocked: truthOf(record['banned']) === true || truthOf(record['deprovisioned']) === true,
      metadata: {
        ...objectOf(record['public_metadata']),
        private_metadata: objectOf(record['private_metadata']),
        unsafe_metadata: objectOf(record['unsafe_metadata']),
        external_id: record['external_id'],
      },
      notKept: [
        ...repeated('passwords', hasPassword),
        // Their IDs are not exported.
        ...repeated('passkeys', objectsOf(record['passkeys']).length),
        ...repeated(
          'second factors',
          ['totp_enabled', 'backup_code_enabled'].filter((name) => truthOf(record[name])).length,
        ),
        ...repeated('second factors', phones.filter(({ isFactor }) => isFactor).length),
        ...repeated('unverified logins', [...accounts, ...wallets].filter((login) => !isVerified(login)).length),
      ],
    };
  },
};

/** Old accounts say nothing of a verification. */
function isVerified({ verification }: SourceRecord): boolean {
  return verification == null || objectOf(verification)['status'] === 'verified';
}

/** The emails or the phones, the primary one first. */
function contactsOf(record: SourceRecord, kind: 'email_address' | 'phone_number') {
  const [by, many] = kind === 'email_address' ? ['email', 'email_addresses'] : ['phone', 'phone_numbers'];
  const cells = (['verified', 'unverified'] as const).flatMap((status) =>
    textsOf(record[`${status}_${many}`]).map((value) => ({ id: value, [kind]: value, verification: { status } })),
  );
  const primary = record[`primary_${kind}_id`] ?? record[`primary_${kind}`];
  const isPrimary = ({ id }: SourceRecord) => isSame(id, primary);
  return [...objectsOf(record[many]), ...cells]
    .sort((a, b) => Number(isPrimary(b)) - Number(isPrimary(a)))
    .map((contact: SourceRecord) => ({
      by,
      value: contact[kind],
      verified: objectOf(contact['verification'])['status'] === 'verified',
      isLinked: objectsOf(contact['linked_to']).length > 0,
      isFactor: truthOf(contact['reserved_for_second_factor']) === true,
    }));
}
