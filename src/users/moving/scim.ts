import { idOf, isSame, repeated, type System } from './person.js';
import { objectOf, objectsOf, textOf, truthOf, wordsOf } from './values.js';

/** SCIM 2.0 (RFC 7643): the answer to a list of users of any provider. */
export const scim: System = {
  name: 'scim',
  title: 'SCIM',
  idFields: ['id'],
  lists: ['Resources'],
  fields: wordsOf('schemas id externalId userName emails active meta'),
  toPerson(record) {
    const meta = objectOf(record['meta']);
    if (meta['resourceType'] === 'Group') return 'groups';
    const emails = objectsOf(record['emails']);
    const email = (emails.find(({ primary }) => truthOf(primary)) ?? emails[0])?.['value'];
    const userName = textOf(record['userName']);
    return {
      id: idOf(record, scim.idFields),
      // A person logs in by the user name, which most providers make an email.
      logins: [{ by: userName.includes('@') ? 'email' : 'username', value: userName }],
      email: { address: email, verified: null },
      createdAt: meta['created'],
      blocked: truthOf(record['active']) === false,
      metadata: { externalId: record['externalId'] },
      notKept: repeated(
        'further emails',
        emails.filter(({ value }) => !isSame(value, email) && !isSame(value, userName)).length,
      ),
    };
  },
};
