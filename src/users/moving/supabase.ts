import { idOf, type Login, repeated, type System } from './person.js';
import { isEmpty, objectOf, objectsOf, textOf, textsOf, truthOf, wordsOf } from './values.js';

/** Supabase: `auth.users` with `auth.identities` as a second file or a column, and users of the Admin API. */
export const supabase: System = {
  name: 'supabase',
  title: 'Supabase Auth',
  idFields: ['id'],
  lists: ['users'],
  joined: { fields: ['user_id', 'provider'], key: 'user_id', as: 'identities' },
  fields: wordsOf(`id email phone encrypted_password email_confirmed_at phone_confirmed_at confirmed_at last_sign_in_at
    raw_app_meta_data raw_user_meta_data app_metadata user_metadata identities created_at banned_until deleted_at
    is_anonymous is_sso_user instance_id aud role confirmation_token recovery_token email_change_token_new
    email_change_token_current email_change_confirm_status phone_change_token reauthentication_token is_super_admin`),
  toPerson(record) {
    if (!isEmpty(record['deleted_at'])) return 'deleted users';
    const { provider, providers, ...app } = objectOf(record['raw_app_meta_data'] ?? record['app_metadata']);
    const isConfirmed = !isEmpty(record['email_confirmed_at']);
    const phone = textOf(record['phone']).replace(/^\+?(?=\d)/, '+');
    const identities = objectsOf(record['identities']).map((identity): Login => {
      const data = objectOf(identity['identity_data']);
      const times = { createdAt: identity['created_at'], lastLogin: identity['last_sign_in_at'] };
      const by = textOf(identity['provider']);
      if (by === 'email') return { by, value: record['email'] ?? data['email'], verified: isConfirmed, ...times };
      if (by === 'phone') return { by, value: phone, verified: !isEmpty(record['phone_confirmed_at']), ...times };
      // Identities of old releases have the ID of the provider as theirs.
      const value = identity['provider_id'] ?? data['sub'] ?? identity['id'];
      // An address with its network, such as `web3:ethereum:0x…`.
      if (by === 'web3') return { by, value, ...times };
      return { by, value, email: data['email'], verified: truthOf(data['email_verified']), ...times };
    });
    // A file without identities still names the providers.
    const named = identities.length > 0 ? [] : textsOf(isEmpty(providers) ? provider : providers);
    return {
      id: idOf(record, supabase.idFields),
      logins: [
        ...identities,
        ...(named.includes('email') ? [{ by: 'email', value: record['email'], verified: isConfirmed }] : []),
        { by: 'phone', value: phone, verified: !isEmpty(record['phone_confirmed_at']) },
      ],
      email: { address: record['email'], verified: isConfirmed },
      createdAt: record['created_at'],
      lastLogin: record['last_sign_in_at'],
      blocked: record['banned_until'],
      metadata: { ...app, user_metadata: objectOf(record['raw_user_meta_data'] ?? record['user_metadata']) },
      isGuest: truthOf(record['is_anonymous']) === true,
      notKept: [
        ...repeated('passwords', textOf(record['encrypted_password']) !== ''),
        ...repeated('identities without an ID', named.filter((name) => name !== 'email' && name !== 'phone').length),
      ],
    };
  },
};
