import type { Declaration } from './declaration.js';
import { isSame } from './person.js';
import { type Fields, isEmpty, objectOf, objectsOf, textOf, truthOf, wordsOf } from './values.js';

/** Each provider has four cells in CSV: the later ones are after the columns of the first release. */
const columnsOf = (provider: string) =>
  wordsOf(`rawId email displayName photoUrl`).map((name) => `${provider} ${name}`);
const FIRST = wordsOf('google.com facebook.com twitter.com github.com');
const LATER = wordsOf('apple.com microsoft.com gc.apple.com playgames.google.com linkedin.com yahoo.com');

/** Firebase Authentication: `firebase auth:export`, and users of the Admin SDK. */
export const firebase: Declaration = {
  idFields: ['localId', 'uid'],
  lists: ['users'],
  columns: [
    ...wordsOf('localId email emailVerified passwordHash salt displayName photoUrl'),
    ...FIRST.flatMap(columnsOf),
    ...wordsOf('createdAt lastSignedInAt phoneNumber disabled customAttributes'),
    ...LATER.flatMap(columnsOf),
  ],
  otherFields: [...wordsOf('passwordHash salt passwordSalt providerData'), ...[...FIRST, ...LATER].flatMap(columnsOf)],
  reshape: (record) => ({ ...record, providerUserInfo: providersOf(record) }),
  logins: [
    { if: logsInByEmail, method: 'email', value: 'email', verified: 'emailVerified', verifiedIfUnsaid: false },
    {
      each: 'providerUserInfo',
      if: isProvider,
      methodIn: 'providerId',
      value: ['rawId', 'uid'],
      email: 'email',
      verified: ({ email }, user) => (isSame(email, user['email']) ? (truthOf(user['emailVerified']) ?? false) : null),
    },
    { method: 'phone', value: 'phoneNumber' },
  ],
  email: { address: 'email', verified: 'emailVerified', verifiedIfUnsaid: false },
  createdAt: ['createdAt', 'metadata.creationTime'],
  lastLogin: ['lastSignedInAt', 'lastLoginAt', 'metadata.lastSignInTime'],
  blocked: { if: 'disabled' },
  isGuest: saysNothing,
  metadataIn: ['customAttributes', 'customClaims'],
  notKept: [{ what: 'passwords', if: hasPassword }],
};

/** The logins by providers of JSON, and those in the cells of CSV. */
function providersOf(record: Fields): Fields[] {
  const cells = [...FIRST, ...LATER].map((providerId) => {
    const [rawId, email] = columnsOf(providerId).map((column) => record[column]);
    return { providerId, rawId, email };
  });
  return [...objectsOf(record['providerUserInfo'] ?? record['providerData']), ...cells];
}

/** A password and a phone number are listed like providers. */
function isProvider({ providerId, rawId, uid }: Fields): boolean {
  const by = textOf(providerId);
  return textOf(rawId ?? uid) !== '' && by !== 'password' && by !== 'phone';
}

function hasPassword({ passwordHash }: Fields): boolean {
  return textOf(passwordHash) !== '';
}

/** A link by email leaves no trace in an export, so it is the login of a person who has no other. */
function logsInByEmail(user: Fields): boolean {
  const providers = objectsOf(user['providerUserInfo']);
  const listsPassword = providers.some(({ providerId }) => textOf(providerId) === 'password');
  return hasPassword(user) || listsPassword || !providers.some(isProvider);
}

function saysNothing(user: Fields): boolean {
  const says = ['email', 'phoneNumber', 'displayName'].some((field) => textOf(user[field]) !== '');
  const claims = objectOf(user['customAttributes'] ?? user['customClaims']);
  return !says && !objectsOf(user['providerUserInfo']).some(isProvider) && isEmpty(claims);
}
