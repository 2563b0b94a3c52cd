import { idOf, type Login, repeated, type System } from './person.js';
import { isEmpty, objectOf, objectsOf, textOf, truthOf, wordsOf } from './values.js';

/** Where the ID of a login stands. That of every other type is `subject`. */
const ID_FIELDS: Readonly<Record<string, string>> = {
  email: 'address',
  wallet: 'address',
  phone: 'number',
  farcaster: 'fid',
  telegram: 'telegram_user_id',
  custom_auth: 'custom_user_id',
  passkey: 'credential_id',
};

/** Privy: users of the API. */
export const privy: System = {
  name: 'privy',
  title: 'Privy',
  idFields: ['id'],
  needs: ['linked_accounts'],
  lists: ['data', 'users'],
  fields: wordsOf('id created_at linked_accounts is_guest custom_metadata mfa_methods has_accepted_terms'),
  toPerson(record) {
    const linked = objectsOf(record['linked_accounts']);
    const isHeld = ({ type, connector_type }: (typeof linked)[number]) =>
      type === 'smart_wallet' || (type === 'wallet' && connector_type === 'embedded');
    const others = linked.filter(({ type }) => type === 'cross_app' || type === 'authorization_key');
    const logins = linked.filter((account) => !isHeld(account) && !others.includes(account));
    return {
      id: idOf(record, privy.idFields),
      logins: logins.map((account): Login => {
        const type = textOf(account['type']);
        return {
          by: type.replace(/^custom:/, ''),
          value: account[ID_FIELDS[type] ?? 'subject'] ?? account['phoneNumber'],
          email: account['email'],
          ...((type === 'email' || type === 'phone') && { verified: !isEmpty(account['verified_at']) }),
          createdAt: account['first_verified_at'] ?? account['verified_at'],
          lastLogin: account['latest_verified_at'],
        };
      }),
      accounts: linked.filter(isHeld).map(({ address }) => address),
      createdAt: record['created_at'],
      // The last use of anything of the person: Privy does not list logins.
      lastLogin: Math.max(...linked.map(({ latest_verified_at }) => Number(latest_verified_at ?? 0)), 0) || null,
      metadata: objectOf(record['custom_metadata']),
      isGuest: truthOf(record['is_guest']) === true,
      notKept: [
        ...repeated('accounts in other apps and authorization keys', others.length),
        ...repeated('second factors', objectsOf(record['mfa_methods']).length),
        ...repeated('accepted terms', truthOf(record['has_accepted_terms']) === true),
      ],
    };
  },
};
