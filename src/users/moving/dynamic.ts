import { idOf, isSame, type Login, type SourceRecord, type System } from './person.js';
import { isEmpty, objectOf, objectsOf, textOf, textsOf, truthOf, wordsOf } from './values.js';

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
    const isHeld = ({ wallet_provider }: SourceRecord) => HELD.test(textOf(wallet_provider));
    const canLogIn = (login: SourceRecord) => truthOf(login['signInEnabled']) !== false && !isHeld(login);
    const held = credentials.filter((login) => login['format'] === 'blockchain' && !canLogIn(login));
    const logins = credentials.filter(canLogIn).map(loginOf);
    const others = credentials.filter(
      (login) => !held.includes(login) && (!canLogIn(login) || loginOf(login).by === ''),
    );
    return {
      id: idOf(record, dynamic.idFields),
      logins: [...logins, { by: 'username', value: record['username'] }],
      accounts: held.map(({ address }) => address),
      // People may write it into their profile.
      email: { address: record['email'], verified: null },
      createdAt: record['createdAt'] ?? record['firstVisit'],
      lastLogin: record['lastVisit'],
      metadata: objectOf(record['metadata']),
      // The email of the record is kept with it.
      notKept: others
        .filter(({ email }) => !isSame(email, record['email']) || isEmpty(email))
        .map(({ format }) => NOUNS[textOf(format)] ?? OTHERS),
    };
  },
};

/** The ID of a passkey is not in its credential. */
const NOUNS: Readonly<Record<string, string>> = { passkey: 'passkeys', totp: 'second factors' };
const OTHERS = 'linked accounts without login';

function loginOf(credential: SourceRecord): Login {
  const { format, verifiedAt: createdAt, lastSelectedAt: lastLogin, public_identifier } = credential;
  const times = { createdAt, lastLogin };
  if (format === 'email') return { by: 'email', value: credential['email'], verified: true, ...times };
  if (format === 'phoneNumber') {
    const number = `+${textOf(credential['phoneCountryCode'])}${textOf(credential['phoneNumber'])}`;
    return { by: 'phone', value: number.replace('++', '+'), verified: true, ...times };
  }
  if (format === 'blockchain') return { by: 'wallet', value: credential['address'], ...times };
  if (format === 'externalUser') return { by: 'external', value: public_identifier, ...times };
  const { oauth_provider, oauth_account_id: value, oauth_emails } = credential;
  return { by: textOf(oauth_provider), value, email: textsOf(oauth_emails)[0], ...times };
}
