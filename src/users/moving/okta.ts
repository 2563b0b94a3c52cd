import { idOf, isSame, type System } from './person.js';
import { isEmpty, objectOf, objectsOf, textOf, wordsOf } from './values.js';

/** The attributes that Okta gives every profile. Each other one is of the organisation. */
const BASE = new Set(
  wordsOf(`city costCenter countryCode department displayName division employeeNumber firstName honorificPrefix
    honorificSuffix lastName locale manager managerId middleName mobilePhone nickName organization postalAddress
    preferredLanguage primaryPhone profileUrl secondEmail state streetAddress timezone title userType zipCode`),
);

/** Okta: users of the API. */
export const okta: System = {
  name: 'okta',
  title: 'Okta',
  idFields: ['id'],
  needs: ['profile'],
  fields: wordsOf('id profile credentials status created lastLogin type realmId _links _embedded'),
  toPerson(record) {
    const { login, email, ...profile } = objectOf(record['profile']);
    const credentials = objectOf(record['credentials']);
    const { type, name } = objectOf(credentials['provider']);
    const said = objectsOf(credentials['emails']).find(({ value }) => isSame(value, email));
    const status = textOf(record['status']);
    // A person proves the email by activating the account.
    const isNew = status === 'STAGED' || status === 'PROVISIONED';
    const verified = said === undefined ? (isNew ? false : null) : said['status'] === 'VERIFIED';
    const isForeign = type === 'SOCIAL' || type === 'FEDERATION';
    const entries = Object.entries(profile).filter(([, value]) => !isEmpty(value));
    return {
      id: idOf(record, okta.idFields),
      logins: [
        ...(isForeign || !isSame(login, email) ? [] : [{ by: 'email', value: email, verified }]),
        ...(isForeign ? [] : [{ by: 'username', value: login }]),
      ],
      email: { address: email, verified },
      createdAt: record['created'],
      lastLogin: record['lastLogin'],
      blocked: status === 'SUSPENDED' || status === 'DEPROVISIONED',
      metadata: Object.fromEntries(entries.filter(([attribute]) => !BASE.has(attribute))),
      notKept: [
        ...entries.map(([attribute]) => attribute).filter((attribute) => BASE.has(attribute)),
        ...(isForeign ? [`logins by ${textOf(name) || 'a provider'} without an ID`] : []),
        ...('password' in credentials ? ['passwords'] : []),
      ],
    };
  },
};
