import type { Declaration } from './declaration.js';
import { type Fields, isEmpty, objectOf, objectsOf, textOf, textsOf, wordsOf } from './values.js';

/** Identities of old releases have the ID of the provider as theirs. */
const ID_OF_PROVIDER = ['provider_id', 'identity_data.sub', 'id'];

/** Supabase: `auth.users` with `auth.identities` as a second file or a column, and users of the Admin API. */
export const supabase: Declaration = {
  idFields: ['id'],
  lists: ['users'],
  joined: { fields: ['user_id', 'provider'], key: 'user_id', as: 'identities' },
  otherFields: wordsOf(`encrypted_password confirmed_at raw_app_meta_data app_metadata deleted_at phone is_sso_user
    instance_id aud role confirmation_token recovery_token email_change_token_new email_change_token_current
    email_change_confirm_status phone_change_token reauthentication_token is_super_admin`),
  refuse: (user) => (isEmpty(user['deleted_at']) ? null : 'deleted users'),
  logins: [
    {
      each: 'identities',
      methodIn: 'provider',
      value: ID_OF_PROVIDER,
      email: 'identity_data.email',
      verified: 'identity_data.email_verified',
      createdAt: 'created_at',
      lastLogin: 'last_sign_in_at',
      kinds: {
        email: {
          value: ({ identity_data: data }, user) => user['email'] ?? objectOf(data)['email'],
          verifiedAt: (_identity, user) => user['email_confirmed_at'],
        },
        phone: {
          value: (_identity, user) => phoneOf(user),
          verifiedAt: (_identity, user) => user['phone_confirmed_at'],
        },
        // An address with its network, such as `web3:ethereum:0x…`.
        web3: { value: ID_OF_PROVIDER },
      },
    },
    {
      if: (user) => providersWithoutIdentity(user).includes('email'),
      method: 'email',
      value: 'email',
      verifiedAt: 'email_confirmed_at',
    },
    { method: 'phone', value: phoneOf, verifiedAt: 'phone_confirmed_at' },
  ],
  email: { address: 'email', verifiedAt: 'email_confirmed_at' },
  createdAt: 'created_at',
  lastLogin: 'last_sign_in_at',
  blocked: { until: 'banned_until' },
  isGuest: 'is_anonymous',
  metadataIn(user) {
    const { provider: _, providers: __, ...others } = appMetadataOf(user);
    return others;
  },
  metadataObjects: { user_metadata: ['raw_user_meta_data', 'user_metadata'] },
  notKept: [
    { what: 'passwords', if: ({ encrypted_password: password }) => textOf(password) !== '' },
    {
      what: 'identities without an ID',
      each: (user) => providersWithoutIdentity(user).map((provider) => ({ provider })),
      if: ({ provider }) => provider !== 'email' && provider !== 'phone',
    },
  ],
};

const appMetadataOf = (user: Fields) => objectOf(user['raw_app_meta_data'] ?? user['app_metadata']);

/** The country stands without a plus. */
function phoneOf({ phone }: Fields): string {
  return textOf(phone).replace(/^\+?(?=\d)/, '+');
}

/** A file without identities still names the providers. */
function providersWithoutIdentity(user: Fields): string[] {
  if (objectsOf(user['identities']).length > 0) return [];
  const { provider, providers } = appMetadataOf(user);
  return textsOf(isEmpty(providers) ? provider : providers);
}
