import { idOf, isSame, repeated, type System } from './person.js';
import { type Fields, isEmpty, objectOf, objectsOf, textOf, truthOf, wordsOf } from './values.js';

/** Each provider has four cells in CSV: the later ones are after the columns of the first release. */
const columnsOf = (provider: string) =>
  wordsOf(`rawId email displayName photoUrl`).map((name) => `${provider} ${name}`);
const FIRST = wordsOf('google.com facebook.com twitter.com github.com');
const LATER = wordsOf('apple.com microsoft.com gc.apple.com playgames.google.com linkedin.com yahoo.com');

/** Firebase Authentication: `firebase auth:export`, and users of the Admin SDK. */
export const firebase: System = {
  name: 'firebase',
  title: 'Firebase Authentication',
  idFields: ['localId', 'uid'],
  lists: ['users'],
  columns: [
    ...wordsOf('localId email emailVerified passwordHash salt displayName photoUrl'),
    ...FIRST.flatMap(columnsOf),
    ...wordsOf('createdAt lastSignedInAt phoneNumber disabled customAttributes'),
    ...LATER.flatMap(columnsOf),
  ],
  fields: [
    ...wordsOf(`localId uid email emailVerified passwordHash salt passwordSalt createdAt lastSignedInAt lastLoginAt
      phoneNumber disabled customAttributes customClaims providerUserInfo providerData metadata`),
    ...[...FIRST, ...LATER].flatMap(columnsOf),
  ],
  toPerson(record) {
    const times = objectOf(record['metadata']);
    const email = { address: record['email'], verified: truthOf(record['emailVerified']) ?? false };
    const cells = [...FIRST, ...LATER].map((providerId) => {
      const [rawId, email] = columnsOf(providerId).map((column) => record[column]);
      return { providerId, rawId, email };
    });
    const listed = [...objectsOf(record['providerUserInfo'] ?? record['providerData']), ...cells].map((login) => ({
      by: textOf(login.providerId),
      value: textOf(login.rawId ?? (login as Fields)['uid']),
      email: login.email,
      verified: isSame(login.email, email.address) ? email.verified : null,
    }));
    const providers = listed.filter(({ by, value }) => value !== '' && by !== 'password' && by !== 'phone');
    const hasPassword = textOf(record['passwordHash']) !== '';
    // A link by email leaves no trace in an export, so it is the login of a person who has no other.
    const hasEmail = hasPassword || providers.length === 0 || listed.some(({ by }) => by === 'password');
    const claims = objectOf(record['customAttributes'] ?? record['customClaims']);
    const says = ['email', 'phoneNumber', 'displayName'].some((field) => textOf(record[field]) !== '');
    return {
      id: idOf(record, firebase.idFields),
      logins: [
        ...(hasEmail ? [{ by: 'email', value: email.address, verified: email.verified }] : []),
        ...providers,
        { by: 'phone', value: record['phoneNumber'] },
      ],
      email,
      createdAt: record['createdAt'] ?? times['creationTime'],
      lastLogin: record['lastSignedInAt'] ?? record['lastLoginAt'] ?? times['lastSignInTime'],
      blocked: truthOf(record['disabled']),
      metadata: claims,
      isGuest: !says && providers.length === 0 && isEmpty(claims),
      notKept: repeated('passwords', hasPassword),
    };
  },
};
