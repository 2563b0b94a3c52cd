import type { Declaration } from './declaration.js';
import { isSame } from './person.js';
import { type Fields, objectOf, objectsOf, textOf, textsOf, truthOf, wordsOf } from './values.js';

/** Ory Kratos: identities of the Admin API, with their credentials where these were asked for. */
export const kratos: Declaration = {
  idFields: ['id'],
  otherFields: wordsOf(`credentials metadata_admin state traits verifiable_addresses recovery_addresses schema_id
    schema_url`),
  logins: [
    {
      each: (user) => identifiersOf(user, 'password', 'code').map((identifier) => ({ identifier })),
      methodIn: contactOf,
      value: 'identifier',
      verified: isContactVerified,
    },
    {
      each: (user) => identifiersOf(user, 'oidc', 'saml').map(ofProvider),
      methodIn: 'provider',
      value: 'id',
    },
    { each: 'credentials.passkey.config.credentials', method: 'passkey', value: 'id', createdAt: 'added_at' },
    {
      each: 'credentials.webauthn.config.credentials',
      if: 'is_passwordless',
      method: 'passkey',
      value: 'id',
      createdAt: 'added_at',
    },
    { method: 'username', value: 'traits.username' },
  ],
  email: { address: emailOf, verified: (user) => isVerified(emailOf(user), user) },
  createdAt: 'created_at',
  blocked: { if: ({ state }) => state === 'inactive' },
  metadataIn: 'metadata_public',
  metadataObjects: { metadata_admin: 'metadata_admin' },
  metadata: { traits: traitsOf, external_id: 'external_id' },
  notKept: [
    { what: 'passwords', if: has('password') },
    { what: 'passkeys', if: hasUnknownPasskeys },
    { what: 'second factors', if: has('totp') },
    { what: 'second factors', if: has('lookup_secret') },
    {
      what: 'second factors',
      each: 'credentials.webauthn.config.credentials',
      if: ({ is_passwordless: isPasswordless }) => truthOf(isPasswordless) !== true,
    },
  ],
};

/** The texts by which a person logs in with credentials of some types. */
function identifiersOf({ credentials }: Fields, ...types: string[]): string[] {
  return types.flatMap((type) => textsOf(objectOf(objectOf(credentials)[type])['identifiers'], /\n/));
}

/** An identifier such as `google:1048…`. */
function ofProvider(identifier: string): Fields {
  const [, provider, id] = /^([^:]+):(.+)$/.exec(identifier) ?? [];
  return { provider, id };
}

function contactOf({ identifier }: Fields): string {
  const text = textOf(identifier);
  return text.includes('@') ? 'email' : text.startsWith('+') ? 'phone' : 'username';
}

function isContactVerified(contact: Fields, user: Fields): boolean | null {
  return contactOf(contact) === 'username' ? null : isVerified(contact['identifier'], user);
}

function isVerified(value: unknown, { verifiable_addresses: addresses }: Fields): boolean {
  return objectsOf(addresses).some((address) => isSame(address['value'], value) && truthOf(address['verified']));
}

/** The trait `email` may be a list. */
function emailsOf({ traits }: Fields): unknown[] {
  return [objectOf(traits)['email']].flat();
}

function emailOf(user: Fields): unknown {
  return emailsOf(user)[0];
}

/** The traits that are kept in no other way. */
function traitsOf(user: Fields): Fields {
  const { email, username: _, ...traits } = objectOf(user['traits']);
  return emailsOf(user).length > 1 ? { ...traits, email } : traits;
}

function has(type: string): (user: Fields) => boolean {
  return ({ credentials }) => type in objectOf(credentials);
}

/** True where the credentials of passkeys were not asked for. */
function hasUnknownPasskeys({ credentials }: Fields): boolean {
  const { passkey } = objectOf(credentials);
  const keys = objectsOf(objectOf(objectOf(passkey)['config'])['credentials']);
  return 'passkey' in objectOf(credentials) && keys.length === 0;
}
