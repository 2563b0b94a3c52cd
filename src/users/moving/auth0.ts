import { idOf, type Login, type SourceRecord, type System } from './person.js';
import { objectOf, objectsOf, textOf, truthOf, wordsOf } from './values.js';

/** Auth0: the export of users (NDJSON or CSV), the Management API, and the JSON by which users are imported there. */
export const auth0: System = {
  name: 'auth0',
  title: 'Auth0',
  idFields: ['user_id', 'id'],
  lists: ['users'],
  fields: wordsOf(`user_id id email email_verified phone_number phone_verified username identities connection created_at
    last_login logins_count blocked app_metadata user_metadata`),
  toPerson(record) {
    const id = idOf(record, auth0.idFields);
    const logins = loginsOf(record, id);
    return {
      id,
      logins,
      email: { address: record['email'], verified: truthOf(record['email_verified']) ?? false },
      createdAt: record['created_at'],
      lastLogin: record['last_login'],
      columns: { login_count: record['logins_count'] },
      blocked: truthOf(record['blocked']),
      metadata: {
        ...objectOf(record['app_metadata']),
        user_metadata: objectOf(record['user_metadata']),
        ...(logins.every(({ by }) => by !== 'phone') && { phone_number: record['phone_number'] }),
      },
    };
  },
};

/** CSV has no list of identities: the ID names the first one. In a file for an import it is of the database there, and is bare. */
function loginsOf(record: SourceRecord, id: string): Login[] {
  const [, provider = 'auth0', userId = id] = /^([^|]+)\|(.+)$/.exec(id) ?? [];
  const identities = objectsOf(record['identities']);
  const own = { provider, user_id: userId, connection: record['connection'] };
  return (identities.length > 0 ? identities : [own]).flatMap((identity) => loginOf(identity, record));
}

const ENTERPRISE = /^(samlp|waad|adfs|ad|okta|pingfederate|oidc|office365|google-apps|oauth2|custom)$/;

/** The profile of a linked identity is beside it, and that of the first one is the record. */
function loginOf(identity: SourceRecord, record: SourceRecord): Login[] {
  const [provider, value] = [textOf(identity['provider']), textOf(identity['user_id'])];
  const profile = 'profileData' in identity ? objectOf(identity['profileData']) : record;
  const verified = truthOf(profile['email_verified']);
  const phone = { by: 'phone', value: profile['phone_number'], verified: truthOf(profile['phone_verified']) };
  if (provider === 'sms') return [phone];
  if (provider === 'auth0' || provider === 'email')
    return [
      { by: 'email', value: profile['email'], verified: verified ?? false },
      { ...phone, verified: phone.verified ?? false },
      { by: 'username', value: profile['username'] },
    ];
  // A wallet, of which the ID is `siwe|eip155:1:0x…`.
  if (/\|eip155:\d+:0x/.test(`|${value}`)) return [{ by: 'wallet', value }];
  const connection = textOf(identity['connection']);
  if (!ENTERPRISE.test(provider) || connection === '')
    return [{ by: provider, value, email: profile['email'], verified }];
  // The ID that the provider knows stands after the connection.
  const own = value.startsWith(`${connection}|`) ? value.slice(connection.length + 1) : value;
  return [{ by: connection, value: own, email: profile['email'], verified }];
}
