import { idOf, type Login, type System } from './person.js';
import { isEmpty, objectOf, objectsOf, textOf, truthOf, wordsOf } from './values.js';

const FIELDS =
  wordsOf(`id mail userPrincipalName identities accountEnabled createdDateTime signInActivity deletedDateTime
  isResourceAccount userType creationType`);
const EXTENSION = /^extension_[0-9a-f]{32}_/;

/** Microsoft Entra, also External ID and B2C: users of Microsoft Graph, and the CSV of the portal. */
export const entra: System = {
  name: 'entra',
  title: 'Microsoft Entra',
  idFields: ['id'],
  lists: ['value'],
  // Titles of CSV have become lower-case.
  fields: [...FIELDS, ...FIELDS.map((field) => field.toLowerCase()), '@odata*', 'extension_*'],
  toPerson(record) {
    const get = (field: string) => record[field] ?? record[field.toLowerCase()];
    if (!isEmpty(get('deletedDateTime'))) return 'deleted users';
    if (truthOf(get('isResourceAccount')) === true) return 'resource accounts';
    const activity = objectOf(get('signInActivity'));
    const identities = objectsOf(get('identities'));
    const logins = identities.flatMap(({ signInType, issuer, issuerAssignedId: value }): Login[] => {
      const type = textOf(signInType);
      if (type.startsWith('emailAddress')) return [{ by: 'email', value }];
      if (type.startsWith('phoneNumber')) return [{ by: 'phone', value }];
      if (type === 'userName') return [{ by: 'username', value }];
      return type === 'federated' ? [{ by: textOf(issuer), value }] : [];
    });
    const id = idOf(record, entra.idFields);
    const hasPrincipal =
      identities.length === 0 || identities.some(({ signInType }) => signInType === 'userPrincipalName');
    const isOwn = logins.length === 0 && hasPrincipal;
    const extensions = Object.entries(record).filter(([field]) => EXTENSION.test(field));
    const unnamed = identities.filter(
      ({ signInType, issuerAssignedId }) => signInType === 'federated' && isEmpty(issuerAssignedId),
    );
    return {
      id,
      // Tokens name a person of the directory by the same ID, as the `oid`.
      logins: isOwn ? [{ by: entra.name, value: id }] : logins,
      email: { address: get('mail') ?? (isOwn ? get('userPrincipalName') : null), verified: null },
      createdAt: get('createdDateTime'),
      lastLogin: activity['lastSuccessfulSignInDateTime'] ?? activity['lastSignInDateTime'],
      blocked: truthOf(get('accountEnabled')) === false,
      metadata: Object.fromEntries(extensions.map(([field, value]) => [field.replace(EXTENSION, ''), value])),
      notKept: unnamed.map(({ issuer }) => `logins by ${textOf(issuer)} without an ID`),
    };
  },
};
