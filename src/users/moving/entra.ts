import type { Declaration } from './declaration.js';
import { type Fields, isEmpty, objectsOf, textOf, truthOf, wordsOf } from './values.js';

const FIELDS =
  wordsOf(`id mail userPrincipalName identities accountEnabled createdDateTime signInActivity deletedDateTime
  isResourceAccount userType creationType`);
const EXTENSION = /^extension_[0-9a-f]{32}_/;

/** Microsoft Entra, also External ID and B2C: users of Microsoft Graph, and the CSV of the portal. */
export const entra: Declaration = {
  idFields: ['id'],
  lists: ['value'],
  otherFields: [...FIELDS, ...FIELDS.map((field) => field.toLowerCase()), '@odata*', 'extension_*'],
  // Titles of CSV have become lower-case.
  reshape: (record) => ({
    ...record,
    ...Object.fromEntries(FIELDS.map((field) => [field, record[field] ?? record[field.toLowerCase()]])),
  }),
  refuse(user) {
    if (!isEmpty(user['deletedDateTime'])) return 'deleted users';
    return truthOf(user['isResourceAccount']) === true ? 'resource accounts' : null;
  },
  logins: [
    {
      each: 'identities',
      kindIn: kindOf,
      kinds: {
        emailAddress: { method: 'email', value: 'issuerAssignedId' },
        phoneNumber: { method: 'phone', value: 'issuerAssignedId' },
        userName: { method: 'username', value: 'issuerAssignedId' },
        federated: { methodIn: 'issuer', value: 'issuerAssignedId' },
      },
    },
    // Tokens name a person of the directory by the same ID, as the `oid`.
    { if: isOfDirectory, method: 'entra', value: 'id' },
  ],
  // The principal name of any other person is none by which they have mail.
  email: { address: (user) => user['mail'] ?? (isOfDirectory(user) ? user['userPrincipalName'] : null) },
  createdAt: 'createdDateTime',
  lastLogin: ['signInActivity.lastSuccessfulSignInDateTime', 'signInActivity.lastSignInDateTime'],
  blocked: { unless: 'accountEnabled' },
  metadataIn: (user) =>
    Object.fromEntries(
      Object.entries(user)
        .filter(([field]) => EXTENSION.test(field))
        .map(([field, value]) => [field.replace(EXTENSION, ''), value]),
    ),
  notKept: [
    {
      what: ({ issuer }) => `logins by ${textOf(issuer)} without an ID`,
      each: 'identities',
      if: ({ signInType, issuerAssignedId: id }) => signInType === 'federated' && isEmpty(id),
    },
  ],
};

/** The kind of an identity, whose type may say more of it, such as `emailAddress.1`. */
function kindOf({ signInType }: Fields): string {
  return textOf(signInType).replace(/^(emailAddress|phoneNumber).*/s, '$1');
}

/** True for a person who logs in by the account in the directory, and by nothing else. */
function isOfDirectory({ identities: list }: Fields): boolean {
  const identities = objectsOf(list);
  const hasPrincipal = identities.some(({ signInType }) => signInType === 'userPrincipalName');
  const others = ['emailAddress', 'phoneNumber', 'userName', 'federated'];
  return (identities.length === 0 || hasPrincipal) && !identities.some((identity) => others.includes(kindOf(identity)));
}
