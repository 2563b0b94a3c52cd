import { type Login, repeated, type System } from './person.js';
import { isEmpty, objectsOf, textOf, truthOf, wordsOf } from './values.js';

const READ = wordsOf(`sub identities email email_verified phone_number phone_number_verified cognito:username
  cognito:user_status cognito:mfa_enabled`);

const CUSTOM = /^(dev:)?custom:/;

/** Amazon Cognito: the answer of ListUsers, and the CSV by which users are imported there. */
export const cognito: System = {
  name: 'cognito',
  title: 'Amazon Cognito',
  // Tokens name a person by the `sub` among the attributes. It is the user name of those who have chosen none.
  idFields: ['Username', 'cognito:username'],
  lists: ['Users'],
  fields: [
    ...READ,
    ...wordsOf('Username Attributes UserAttributes UserCreateDate Enabled UserStatus custom:* dev:custom:*'),
  ],
  toPerson(record) {
    const list = objectsOf(record['Attributes'] ?? record['UserAttributes']);
    const attributes =
      list.length === 0 ? record : Object.fromEntries(list.map(({ Name, Value }) => [textOf(Name), Value]));
    const username = textOf(record['Username'] ?? attributes['cognito:username']);
    const linked = objectsOf(attributes['identities']);
    const isExternal = record['UserStatus'] === 'EXTERNAL_PROVIDER';
    // The person whose login this is lists it, too.
    if (isExternal && linked.length > 0 && linked.every(({ primary }) => truthOf(primary) === false))
      return 'profiles that are linked to another user';
    const isUuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(username);
    const email = { address: attributes['email'], verified: truthOf(attributes['email_verified']) ?? false };
    const isPhoneVerified = truthOf(attributes['phone_number_verified']) ?? false;
    const own: Login[] = [
      { by: 'email', value: email.address, verified: email.verified },
      { by: 'phone', value: attributes['phone_number'], verified: isPhoneVerified },
      { by: 'username', value: isUuid ? '' : username },
    ];
    const ofProviders = linked.map(({ providerName, userId: value, dateCreated: createdAt }): Login => {
      return { by: textOf(providerName), value, createdAt };
    });
    const custom = Object.entries(attributes).filter(([name]) => CUSTOM.test(name));
    const names = list.filter(({ Value }) => !isEmpty(Value)).map(({ Name }) => textOf(Name));
    return {
      id: isUuid ? username : textOf(attributes['sub']) || username,
      logins: [...(isExternal ? [] : own), ...ofProviders],
      email,
      createdAt: record['UserCreateDate'],
      blocked: truthOf(record['Enabled']) === false,
      metadata: Object.fromEntries(custom.map(([name, value]) => [name.replace(CUSTOM, ''), value])),
      notKept: [
        ...names.filter((name) => !READ.includes(name) && !CUSTOM.test(name)),
        ...repeated('second factors', truthOf(attributes['cognito:mfa_enabled']) === true),
      ],
    };
  },
};
