import type { Declaration } from './declaration.js';
import { idOf, type Login } from './person.js';
import { type Fields, objectOf, objectsOf, textOf, truthOf, wordsOf } from './values.js';

const ID_FIELDS = ['user_id', 'id'];

/** Auth0: the export of users (NDJSON or CSV), the Management API, and the JSON by which users are imported there. */
export const auth0: Declaration = {
  idFields: ID_FIELDS,
  lists: ['users'],
  otherFields: wordsOf('identities connection username phone_number phone_verified'),
  logins: [loginsOf],
  email: { address: 'email', verified: 'email_verified', verifiedIfUnsaid: false },
  createdAt: 'created_at',
  lastLogin: 'last_login',
  loginCount: 'logins_count',
  blocked: { if: 'blocked' },
  metadataIn: 'app_metadata',
  metadataObjects: { user_metadata: 'user_metadata' },
  metadata: { phone_number: (user) => (loginsOf(user).some(({ by }) => by === 'phone') ? null : user['phone_number']) },
};

/** CSV has no list of identities: the ID names the first one. In a file for an import it is of the database there, and is bare. */
function loginsOf(user: Fields): Login[] {
  const id = idOf(user, ID_FIELDS);
  const [, provider = 'auth0', userId = id] = /^([^|]+)\|(.+)$/.exec(id) ?? [];
  const identities = objectsOf(user['identities']);
  const own = { provider, user_id: userId, connection: user['connection'] };
  return (identities.length > 0 ? identities : [own]).flatMap((identity) => loginsOfIdentity(identity, user));
}

const ENTERPRISE = /^(samlp|waad|adfs|ad|okta|pingfederate|oidc|office365|google-apps|oauth2|custom)$/;

/** The profile of a linked identity is beside it, and that of the first one is the record. */
function loginsOfIdentity(identity: Fields, user: Fields): Login[] {
  const provider = textOf(identity['provider']);
  const value = textOf(identity['user_id']);
  const profile = 'profileData' in identity ? objectOf(identity['profileData']) : user;
  const email = profile['email'];
  const verified = truthOf(profile['email_verified']);
  const phone = { by: 'phone', value: profile['phone_number'], verified: truthOf(profile['phone_verified']) };
  if (provider === 'sms') return [phone];
  if (provider === 'auth0' || provider === 'email')
    return [
      { by: 'email', value: email, verified: verified ?? false },
      { ...phone, verified: phone.verified ?? false },
      { by: 'username', value: profile['username'] },
    ];
  // A wallet, of which the ID is `siwe|eip155:1:0x…`.
  if (/\|eip155:\d+:0x/.test(`|${value}`)) return [{ by: 'wallet', value }];
  const connection = textOf(identity['connection']);
  if (!ENTERPRISE.test(provider) || connection === '') return [{ by: provider, value, email, verified }];
  // The ID that the provider knows stands after the connection.
  const own = value.startsWith(`${connection}|`) ? value.slice(connection.length + 1) : value;
  return [{ by: connection, value: own, email, verified }];
}
