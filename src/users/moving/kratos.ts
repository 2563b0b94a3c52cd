import { idOf, isSame, type Login, repeated, type System } from './person.js';
import { objectOf, objectsOf, textsOf, truthOf, wordsOf } from './values.js';

/** Ory Kratos: identities of the Admin API, with their credentials where these were asked for. */
export const kratos: System = {
  name: 'kratos',
  title: 'Ory Kratos',
  idFields: ['id'],
  fields:
    wordsOf(`id credentials external_id metadata_admin metadata_public state traits verifiable_addresses created_at
    recovery_addresses schema_id schema_url`),
  toPerson(record) {
    const { email, username, ...traits } = objectOf(record['traits']);
    const credentials = objectOf(record['credentials']);
    const credential = (type: string) => objectOf(credentials[type]);
    const keysOf = (type: string) => objectsOf(objectOf(credential(type)['config'])['credentials']);
    const named = (type: string) => textsOf(credential(type)['identifiers'], /\n/);
    const isVerified = (value: unknown) =>
      objectsOf(record['verifiable_addresses']).some(
        (address) => isSame(address['value'], value) && truthOf(address['verified']),
      );
    const contactOf = (value: string): Login => {
      const by = value.includes('@') ? 'email' : value.startsWith('+') ? 'phone' : 'username';
      return { by, value, verified: by === 'username' ? null : isVerified(value) };
    };
    const [first, ...further] = [email].flat();
    const passkeys = [...keysOf('passkey'), ...keysOf('webauthn').filter((key) => truthOf(key['is_passwordless']))];
    return {
      id: idOf(record, kratos.idFields),
      logins: [
        ...['password', 'code'].flatMap(named).map(contactOf),
        ...['oidc', 'saml'].flatMap(named).map(ofProvider),
        ...passkeys.map(({ id, added_at }) => ({ by: 'passkey', value: id, createdAt: added_at })),
        { by: 'username', value: username },
      ],
      email: { address: first, verified: isVerified(first) },
      createdAt: record['created_at'],
      blocked: record['state'] === 'inactive',
      metadata: {
        ...objectOf(record['metadata_public']),
        metadata_admin: objectOf(record['metadata_admin']),
        traits: { ...traits, ...(further.length > 0 && { email }) },
        external_id: record['external_id'],
      },
      notKept: [
        ...repeated('passwords', 'password' in credentials),
        ...repeated('passkeys', 'passkey' in credentials && keysOf('passkey').length === 0),
        ...repeated('second factors', ['totp', 'lookup_secret'].filter((type) => type in credentials).length),
        ...repeated('second factors', keysOf('webauthn').filter((key) => !truthOf(key['is_passwordless'])).length),
      ],
    };
  },
};

/** An identifier such as `google:1048…`. */
function ofProvider(identifier: string): Login {
  const [, by = '', value = ''] = /^([^:]+):(.+)$/.exec(identifier) ?? [];
  return { by, value };
}
