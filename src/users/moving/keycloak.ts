import { idOf, type Login, repeated, type System } from './person.js';
import { objectOf, objectsOf, textOf, truthOf, wordsOf } from './values.js';

/** Keycloak: the export of a realm, and users of the Admin API. */
export const keycloak: System = {
  name: 'keycloak',
  title: 'Keycloak',
  idFields: ['id'],
  lists: ['users'],
  fields: wordsOf(`id username email emailVerified enabled createdTimestamp attributes credentials federatedIdentities
    serviceAccountClientId totp notBefore disableableCredentialTypes access`),
  toPerson(record) {
    if (textOf(record['serviceAccountClientId']) !== '') return 'service accounts';
    const credentials = objectsOf(record['credentials']);
    const typed = (...types: string[]) => credentials.filter(({ type }) => types.includes(textOf(type)));
    const identities = objectsOf(record['federatedIdentities']);
    // The Admin API lists no credentials.
    const hasPassword = identities.length === 0 || typed('password').length > 0;
    const email = { address: record['email'], verified: truthOf(record['emailVerified']) ?? false };
    // Extensions for text messages keep the number so.
    const { phoneNumber, phoneNumberVerified, ...attributes } = objectOf(record['attributes']);
    const phone = { phoneNumber: singleOf(phoneNumber), isVerified: truthOf(singleOf(phoneNumberVerified)) };
    const passkeys = typed('webauthn-passwordless').map(({ credentialData, createdDate }): Login => {
      return { by: 'passkey', value: objectOf(credentialData)['credentialId'], createdAt: createdDate };
    });
    const others = Object.entries(attributes).map(([name, value]) => [name, singleOf(value)]);
    return {
      id: idOf(record, keycloak.idFields),
      logins: [
        ...(hasPassword ? [{ by: 'email', value: email.address, verified: email.verified }] : []),
        ...identities.map(({ identityProvider, userId }) => ({ by: textOf(identityProvider), value: userId })),
        ...passkeys,
        ...(phone.isVerified === null ? [] : [{ by: 'phone', value: phone.phoneNumber, verified: phone.isVerified }]),
        { by: 'username', value: record['username'] },
      ],
      email,
      createdAt: record['createdTimestamp'],
      blocked: truthOf(record['enabled']) === false,
      metadata: { ...Object.fromEntries(others), ...(phone.isVerified === null && { phoneNumber: phone.phoneNumber }) },
      notKept: [
        ...repeated('passwords', typed('password').length),
        ...repeated('second factors', typed('otp', 'webauthn', 'recovery-authn-codes').length),
        ...repeated('second factors', truthOf(record['totp']) === true && typed('otp').length === 0),
      ],
    };
  },
};

/** An attribute is a list, also where it has one value. */
const singleOf = (value: unknown) => (Array.isArray(value) && value.length === 1 ? value[0] : value);
