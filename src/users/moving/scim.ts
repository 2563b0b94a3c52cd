import type { Declaration } from './declaration.js';
import { isSame } from './person.js';
import { type Fields, objectOf, objectsOf, textOf, truthOf } from './values.js';

/** SCIM 2.0 (RFC 7643): the answer to a list of users of any provider. */
export const scim: Declaration = {
  idFields: ['id'],
  lists: ['Resources'],
  otherFields: ['schemas'],
  refuse: ({ meta }) => (objectOf(meta)['resourceType'] === 'Group' ? 'groups' : null),
  logins: [
    // A person logs in by the user name, which most providers make an email.
    { methodIn: ({ userName }) => (textOf(userName).includes('@') ? 'email' : 'username'), value: 'userName' },
  ],
  email: { address: mainEmailOf },
  createdAt: 'meta.created',
  blocked: { unless: 'active' },
  metadata: { externalId: 'externalId' },
  notKept: [
    {
      what: 'further emails',
      each: 'emails',
      if: ({ value }, user) => !isSame(value, mainEmailOf(user)) && !isSame(value, user['userName']),
    },
  ],
};

function mainEmailOf({ emails }: Fields): unknown {
  const all = objectsOf(emails);
  return (all.find(({ primary }) => truthOf(primary)) ?? all[0])?.['value'];
}
