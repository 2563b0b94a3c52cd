import type { Declaration } from './declaration.js';
import { type Fields, objectOf, objectsOf, textOf, truthOf, wordsOf } from './values.js';

/** Keycloak: the export of a realm, and users of the Admin API. */
export const keycloak: Declaration = {
  idFields: ['id'],
  lists: ['users'],
  otherFields: wordsOf('attributes serviceAccountClientId totp notBefore disableableCredentialTypes access'),
  refuse: ({ serviceAccountClientId: client }) => (textOf(client) === '' ? null : 'service accounts'),
  logins: [
    { if: hasPassword, method: 'email', value: 'email', verified: 'emailVerified', verifiedIfUnsaid: false },
    { each: 'federatedIdentities', methodIn: 'identityProvider', value: 'userId' },
    {
      each: 'credentials',
      if: isOf('webauthn-passwordless'),
      method: 'passkey',
      value: 'credentialData.credentialId',
      createdAt: 'createdDate',
    },
    {
      if: (user) => isPhoneVerified(user) !== null,
      method: 'phone',
      value: (user) => attributesOf(user)['phoneNumber'],
      verified: isPhoneVerified,
    },
    { method: 'username', value: 'username' },
  ],
  email: { address: 'email', verified: 'emailVerified', verifiedIfUnsaid: false },
  createdAt: 'createdTimestamp',
  blocked: { unless: 'enabled' },
  metadataIn(user) {
    const { phoneNumber, phoneNumberVerified: _, ...others } = attributesOf(user);
    return isPhoneVerified(user) === null ? { ...others, phoneNumber } : others;
  },
  notKept: [
    { what: 'passwords', each: 'credentials', if: isOf('password') },
    { what: 'second factors', each: 'credentials', if: isOf('otp', 'webauthn', 'recovery-authn-codes') },
    {
      what: 'second factors',
      if: ({ totp, credentials }) => truthOf(totp) === true && !objectsOf(credentials).some(isOf('otp')),
    },
  ],
};

function isOf(...types: string[]): (credential: Fields) => boolean {
  return ({ type }) => types.includes(textOf(type));
}

/** The Admin API lists no credentials. */
function hasPassword({ credentials, federatedIdentities: identities }: Fields): boolean {
  return objectsOf(identities).length === 0 || objectsOf(credentials).some(isOf('password'));
}

/** An attribute is a list, also where it has one value. */
function attributesOf({ attributes }: Fields): Fields {
  const entries = Object.entries(objectOf(attributes));
  const singleOf = (value: unknown) => (Array.isArray(value) && value.length === 1 ? value[0] : value);
  return Object.fromEntries(entries.map(([name, value]) => [name, singleOf(value)]));
}

/** Extensions for text messages keep the number, and whether it is verified, as attributes. */
function isPhoneVerified(user: Fields): boolean | null {
  return truthOf(attributesOf(user)['phoneNumberVerified']);
}
