import { idOf, type Login, repeated, type System } from './person.js';
import { objectOf, objectsOf, textOf, truthOf, wordsOf } from './values.js';

/** FusionAuth: users of the search, with links of identity providers as a second file or a list. */
export const fusionauth: System = {
  name: 'fusionauth',
  title: 'FusionAuth',
  idFields: ['id'],
  lists: ['users', 'identityProviderLinks'],
  joined: { fields: ['identityProviderId', 'userId'], key: 'userId', as: 'identityProviderLinks' },
  fields: wordsOf(`id email username uniqueUsername phoneNumber verified identities identityProviderLinks active data
    insertInstant lastLoginInstant twoFactor password salt encryptionScheme factor usernameStatus tenantId connectorId
    passwordChangeRequired passwordLastUpdateInstant verifiedInstant`),
  toPerson(record) {
    const isVerified = truthOf(record['verified']) ?? false;
    const listed = objectsOf(record['identities']).map(
      ({ type, value, verified, insertInstant, lastLoginInstant }): Login => ({
        // The type is a text, or an object with a name.
        by: textOf(objectOf(type)['name'] ?? type),
        value,
        verified: truthOf(verified),
        createdAt: insertInstant,
        lastLogin: lastLoginInstant,
      }),
    );
    const links = objectsOf(record['identityProviderLinks']).map((link): Login => {
      const type = textOf(link['identityProviderType']);
      const name = textOf(link['identityProviderName']);
      const by = /^(OpenIDConnect|SAML|ExternalJWT)/i.test(type) ? name : type || name;
      const { identityProviderUserId: value, insertInstant: createdAt, lastLoginInstant: lastLogin } = link;
      return { by, value, createdAt, lastLogin };
    });
    const own = [
      { by: 'email', value: record['email'], verified: isVerified },
      { by: 'username', value: record['username'] },
    ];
    return {
      id: idOf(record, fusionauth.idFields),
      logins: [...(listed.length > 0 ? listed : own), ...links],
      email: { address: record['email'], verified: isVerified },
      createdAt: record['insertInstant'],
      lastLogin: record['lastLoginInstant'],
      blocked: truthOf(record['active']) === false,
      metadata: objectOf(record['data']),
      notKept: [
        ...repeated('passwords', textOf(record['password']) !== ''),
        ...repeated('second factors', objectsOf(objectOf(record['twoFactor'])['methods']).length),
      ],
    };
  },
};
