import type { Declaration } from './declaration.js';
import { type Fields, isEmpty, objectsOf, textOf, truthOf, wordsOf } from './values.js';

/** The attributes that are read, by their names in the list of attributes and in CSV. */
const READ = wordsOf(`sub identities email email_verified phone_number phone_number_verified cognito:username
  cognito:user_status cognito:mfa_enabled`);

const CUSTOM = /^(dev:)?custom:/;

/** Amazon Cognito: the answer of ListUsers, and the CSV by which users are imported there. */
export const cognito: Declaration = {
  // Tokens name a person by the `sub` among the attributes. It is the user name of those who have chosen none.
  idFields: ['Username', 'cognito:username'],
  lists: ['Users'],
  otherFields: [...READ, ...wordsOf('Attributes UserAttributes UserStatus custom:* dev:custom:*')],
  reshape: withAttributes,
  refuse: (user) => (isLinkedProfile(user) ? 'profiles that are linked to another user' : null),
  id: (user) => (hasChosenName(user) ? textOf(user['sub']) || usernameOf(user) : usernameOf(user)),
  logins: [
    { if: isOfPool, method: 'email', value: 'email', verified: 'email_verified', verifiedIfUnsaid: false },
    {
      if: isOfPool,
      method: 'phone',
      value: 'phone_number',
      verified: 'phone_number_verified',
      verifiedIfUnsaid: false,
    },
    { if: (user) => isOfPool(user) && hasChosenName(user), method: 'username', value: usernameOf },
    { each: 'identities', methodIn: 'providerName', value: 'userId', createdAt: 'dateCreated' },
  ],
  email: { address: 'email', verified: 'email_verified', verifiedIfUnsaid: false },
  createdAt: 'UserCreateDate',
  blocked: { unless: 'Enabled' },
  metadataIn: (user) =>
    Object.fromEntries(
      Object.entries(user)
        .filter(([name]) => CUSTOM.test(name))
        .map(([name, value]) => [name.replace(CUSTOM, ''), value]),
    ),
  notKept: [
    { what: ({ Name }) => textOf(Name), each: 'Attributes', if: isUnknownAttribute },
    { what: 'second factors', if: 'cognito:mfa_enabled' },
  ],
};

/** The attributes of the API are a list; in CSV they are columns. */
function withAttributes(record: Fields): Fields {
  const list = objectsOf(record['Attributes'] ?? record['UserAttributes']);
  if (list.length === 0) return record;
  return {
    ...Object.fromEntries(list.map(({ Name, Value }) => [textOf(Name), Value])),
    Attributes: list,
    Username: record['Username'],
    UserCreateDate: record['UserCreateDate'],
    UserStatus: record['UserStatus'],
    Enabled: record['Enabled'],
  };
}

function isUnknownAttribute({ Name, Value }: Fields): boolean {
  const name = textOf(Name);
  return !isEmpty(Value) && !READ.includes(name) && !CUSTOM.test(name);
}

/** True for a person who logs in by the pool itself, and not only by other providers. */
function isOfPool({ UserStatus }: Fields): boolean {
  return UserStatus !== 'EXTERNAL_PROVIDER';
}

/** The person whose login this is lists it, too. */
function isLinkedProfile(user: Fields): boolean {
  const linked = objectsOf(user['identities']);
  return !isOfPool(user) && linked.length > 0 && linked.every(({ primary }) => truthOf(primary) === false);
}

function usernameOf(user: Fields): string {
  return textOf(user['Username'] ?? user['cognito:username']);
}

/** Cognito gives a UUID to a person who has chosen no user name. */
function hasChosenName(user: Fields): boolean {
  return !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(usernameOf(user));
}
