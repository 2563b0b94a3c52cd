import { idOf, type Login, repeated, type SourceRecord, type System } from './person.js';
import { objectOf, objectsOf, textOf, truthOf, wordsOf } from './values.js';

/** thirdweb: users of in-app wallets, of the API and the SDK. */
export const thirdweb: System = {
  name: 'thirdweb',
  title: 'thirdweb',
  idFields: ['userId'],
  lists: ['wallets', 'users', 'result'],
  fields: wordsOf(`userId address walletAddress smartWalletAddress smartAccountAddress publicKey email phone profiles
    linkedAccounts createdAt`),
  toPerson(record) {
    const profiles = objectsOf(record['profiles'] ?? record['linkedAccounts']);
    const logins = profiles.filter(({ type }) => type !== 'passkey' && type !== 'guest').map(loginOf);
    return {
      id: idOf(record, thirdweb.idFields),
      logins,
      // The wallets that thirdweb holds.
      accounts: wordsOf('address walletAddress smartWalletAddress smartAccountAddress').map((field) => record[field]),
      email: { address: record['email'], verified: null },
      createdAt: record['createdAt'],
      metadata: logins.some(({ by }) => by === 'phone') ? {} : { phone: record['phone'] },
      isGuest: profiles.some(({ type }) => type === 'guest'),
      notKept: [
        // The ID is none of a credential.
        ...repeated('passkeys', profiles.filter(({ type }) => type === 'passkey').length),
        ...repeated('logins without an ID', logins.filter(({ value }) => textOf(value) === '').length),
      ],
    };
  },
};

function loginOf(profile: SourceRecord): Login {
  const {
    email,
    emailVerified,
    phone,
    walletAddress,
    address = walletAddress,
    id,
  } = { ...profile, ...objectOf(profile['details']) };
  const by = textOf(profile['type']);
  if (by === 'email') return { by, value: email, verified: true };
  if (by === 'phone') return { by, value: phone, verified: true };
  if (by === 'siwe' || by === 'wallet') return { by, value: address };
  return { by, value: id, email, verified: truthOf(emailVerified) };
}
