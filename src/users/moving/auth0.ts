import { idOf, type Login, type SourceRecord, type System } from './person.js';
import { objectOf, objectsOf, textOf, truthOf } from './values.js';

/** Auth0: the export of users (NDJSON or CSV), and the Management API. */
export const auth0: System = {
  name: 'auth0',
  title: 'Auth0',
  idFields: ['user_id', 'id'],
  lists: ['users'],
  fields: [
    ...[
      'user_id',
      'id',
      'email',
      'email_verified',
      'phone_number',
      'phone_verified',
      'username',
      'identities',
      'connection',
    ],
    ...['created_at', 'last_login', 'logins_count', 'blocked', 'app_metadata', 'user_metadata'],
    // What says nothing of a person.
    ...['updated_at', 'last_ip', 'last_password_reset'],
  ],
  toPerson(record) {
    const id = idOf(record, auth0.idFields);
    const userMetadata = objectOf(record['user_metadata']);
    return {
      id,
      logins: loginsOf(record, id),
      email: { address: record['email'], verified: truthOf(record['email_verified']) ?? false },
      createdAt: record['created_at'],
      lastLogin: record['last_login'],
      loginCount: record['logins_count'],
      blocked: truthOf(record['blocked']),
      metadata: { ...objectOf(record['app_metadata']), user_metadata: userMetadata },
    };
  },
};

/** CSV has no list of identities: the ID names the first one. */
function loginsOf(record: SourceRecord, id: string): Login[] {
  const [, provider = '', userId = id] = /^([^|]+)\|(.+)$/.exec(id) ?? [];
  const identities = objectsOf(record['identities']);
  const own = { provider, user_id: userId, connection: record['connection'] };
  return (identities.length > 0 ? identities : [own]).flatMap((identity) => loginOf(identity, record));
}

const ENTERPRISE = /^(samlp|waad|adfs|ad|okta|pingfederate|oidc|office365|google-apps|oauth2|custom)$/;

function loginOf(identity: SourceRecord, record: SourceRecord): Login[] {
  const provider = textOf(identity['provider']);
  const value = textOf(identity['user_id']);
  const profile = objectOf(identity['profileData']);
  if (provider === 'sms')
    return [{ by: 'phone', value: record['phone_number'], verified: truthOf(record['phone_verified']) }];
  if (provider === 'auth0' || provider === 'email') {
    const verified = truthOf(profile['email_verified'] ?? record['email_verified']) ?? false;
    return [
      { by: 'email', value: profile['email'] ?? record['email'], verified },
      { by: 'username', value: profile['username'] ?? record['username'] },
    ];
  }
  // A wallet, of which the ID is `siwe|eip155:1:0x…`.
  if (/\|eip155:\d+:0x/.test(`|${value}`)) return [{ by: 'wallet', value }];
  const by = ENTERPRISE.test(provider) ? textOf(identity['connection']) || provider : provider;
  return [{ by, value, email: profile['email'], verified: truthOf(profile['email_verified']) }];
}
