import type { Declaration } from './declaration.js';
import { isSame } from './person.js';
import { type Fields, isEmpty, objectOf, objectsOf, textOf, wordsOf } from './values.js';

/** The attributes that Okta gives every profile. Each other one is of the organisation. */
const BASE = new Set(
  wordsOf(`city costCenter countryCode department displayName division employeeNumber firstName honorificPrefix
    honorificSuffix lastName locale manager managerId middleName mobilePhone nickName organization postalAddress
    preferredLanguage primaryPhone profileUrl secondEmail state streetAddress timezone title userType zipCode`),
);

/** Okta: users of the API. */
export const okta: Declaration = {
  idFields: ['id'],
  needs: ['profile'],
  otherFields: wordsOf('credentials status type realmId _links _embedded'),
  logins: [
    {
      if: (user) => !isForeign(user) && hasEmailAsLogin(user),
      method: 'email',
      value: 'profile.email',
      verified: isEmailVerified,
    },
    { if: (user) => !isForeign(user), method: 'username', value: 'profile.login' },
  ],
  email: { address: 'profile.email', verified: isEmailVerified },
  createdAt: 'created',
  lastLogin: 'lastLogin',
  blocked: { if: ({ status }) => ['SUSPENDED', 'DEPROVISIONED'].includes(textOf(status)) },
  metadataIn: (user) => Object.fromEntries(attributesOf(user).filter(([name]) => !BASE.has(name))),
  notKept: [
    {
      what: ({ name }) => textOf(name),
      each: (user) => attributesOf(user).flatMap(([name]) => (BASE.has(name) ? [{ name }] : [])),
    },
    { what: (user) => `logins by ${providerOf(user)} without an ID`, if: isForeign },
    { what: 'passwords', if: ({ credentials }) => 'password' in objectOf(credentials) },
  ],
};

/** What the profile says beside the login and the email. */
function attributesOf({ profile }: Fields): [name: string, value: unknown][] {
  const { login: _, email: __, ...attributes } = objectOf(profile);
  return Object.entries(attributes).filter(([, value]) => !isEmpty(value));
}

/** True for a person who logs in at another provider. */
function isForeign({ credentials }: Fields): boolean {
  const { type } = objectOf(objectOf(credentials)['provider']);
  return type === 'SOCIAL' || type === 'FEDERATION';
}

function providerOf({ credentials }: Fields): string {
  return textOf(objectOf(objectOf(credentials)['provider'])['name']) || 'a provider';
}

function hasEmailAsLogin({ profile }: Fields): boolean {
  const { login, email } = objectOf(profile);
  return isSame(login, email);
}

function isEmailVerified({ profile, credentials, status }: Fields): boolean | null {
  const { email } = objectOf(profile);
  const said = objectsOf(objectOf(credentials)['emails']).find(({ value }) => isSame(value, email));
  if (said !== undefined) return said['status'] === 'VERIFIED';
  // A person proves the email by activating the account.
  return ['STAGED', 'PROVISIONED'].includes(textOf(status)) ? false : null;
}
