import { counted, idOf, type Login, type System } from './person.js';
import { objectOf, objectsOf, textOf, textsOf, truthOf, wordsOf } from './values.js';

const HELD = /embedded|smartContract|custodial/i;

/** Dynamic: users of the API, with their verified credentials. */
export const dynamic: System = {
  name: 'dynamic',
  title: 'Dynamic',
  idFields: ['id'],
  lists: ['users'],
  fields: wordsOf(`id email username verifiedCredentials createdAt firstVisit lastVisit metadata projectEnvironmentId
    newUser scope sessionId`),
  toPerson(record) {
    const credentials = objectsOf(record['verifiedCredentials']);
    const isHeld = ({ format, wallet_provider }: (typeof credentials)[number]) =>
      format === 'blockchain' && HELD.test(textOf(wallet_provider));
    const canLogIn = (credential: (typeof credentials)[number]) =>
      truthOf(credential['signInEnabled']) !== false && !isHeld(credential);
    const addresses = credentials.filter(
      (credential) => credential['format'] === 'blockchain' && !canLogIn(credential),
    );
    const logins = credentials.filter(canLogIn).flatMap((credential): Login[] => {
      const times = { createdAt: credential['verifiedAt'], lastLogin: credential['lastSelectedAt'] };
      switch (credential['format']) {
        case 'email':
          return [{ by: 'email', value: credential['email'], verified: true, ...times }];
        case 'phoneNumber': {
          const number = `+${textOf(credential['phoneCountryCode'])}${textOf(credential['phoneNumber'])}`;
          return [{ by: 'phone', value: number.replace('++', '+'), verified: true, ...times }];
        }
        case 'blockchain':
          return [{ by: 'wallet', value: credential['address'], ...times }];
        case 'oauth': {
          const { oauth_provider, oauth_account_id: value, oauth_emails } = credential;
          return [{ by: textOf(oauth_provider), value, email: textsOf(oauth_emails)[0], ...times }];
        }
        case 'externalUser':
          return [{ by: 'external', value: credential['public_identifier'], ...times }];
        default:
          return [];
      }
    });
    const unread = credentials.filter((credential) => /passkey|totp/.test(textOf(credential['format'])));
    return {
      id: idOf(record, dynamic.idFields),
      logins: [...logins, { by: 'username', value: record['username'] }],
      accounts: addresses.map(({ address }) => address),
      // People may write it into their profile.
      email: { address: record['email'], verified: null },
      createdAt: record['createdAt'] ?? record['firstVisit'],
      lastLogin: record['lastVisit'],
      metadata: objectOf(record['metadata']),
      notKept: [
        ...unread.map(({ format }) => (format === 'totp' ? 'second factors' : 'passkeys')),
        ...counted(
          'linked accounts without login',
          credentials.filter((each) => !canLogIn(each)).length - addresses.length,
        ),
      ],
    };
  },
};
