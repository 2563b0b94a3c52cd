import type { Declaration } from './declaration.js';
import { type Fields, objectsOf, textOf, wordsOf } from './values.js';

/** FusionAuth: users of the search, with links of identity providers as a second file or a list. */
export const fusionauth: Declaration = {
  idFields: ['id'],
  lists: ['users', 'identityProviderLinks'],
  joined: { fields: ['identityProviderId', 'userId'], key: 'userId', as: 'identityProviderLinks' },
  otherFields: wordsOf(`uniqueUsername phoneNumber password salt encryptionScheme factor usernameStatus tenantId
    connectorId passwordChangeRequired passwordLastUpdateInstant verifiedInstant`),
  logins: [
    {
      each: 'identities',
      // The type is a text, or an object with a name.
      methodIn: ['type.name', 'type'],
      value: 'value',
      verified: 'verified',
      createdAt: 'insertInstant',
      lastLogin: 'lastLoginInstant',
    },
    { if: hasNoIdentities, method: 'email', value: 'email', verified: 'verified', verifiedIfUnsaid: false },
    { if: hasNoIdentities, method: 'username', value: 'username' },
    {
      each: 'identityProviderLinks',
      methodIn: providerOf,
      value: 'identityProviderUserId',
      createdAt: 'insertInstant',
      lastLogin: 'lastLoginInstant',
    },
  ],
  email: { address: 'email', verified: 'verified', verifiedIfUnsaid: false },
  createdAt: 'insertInstant',
  lastLogin: 'lastLoginInstant',
  blocked: { unless: 'active' },
  metadataIn: 'data',
  notKept: [
    { what: 'passwords', if: ({ password }) => textOf(password) !== '' },
    { what: 'second factors', each: 'twoFactor.methods' },
  ],
};

/** Older releases list no identities: the user has an email, a user name, or both. */
function hasNoIdentities({ identities }: Fields): boolean {
  return objectsOf(identities).length === 0;
}

/** Providers of the standards have a name of their own; of the others, the type is the name. */
function providerOf({ identityProviderType, identityProviderName }: Fields): string {
  const type = textOf(identityProviderType);
  const name = textOf(identityProviderName);
  return /^(OpenIDConnect|SAML|ExternalJWT)/i.test(type) ? name : type || name;
}
