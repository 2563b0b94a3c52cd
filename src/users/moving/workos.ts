import { idOf, type System } from './person.js';
import { objectOf, objectsOf, textOf, truthOf, wordsOf } from './values.js';

/** WorkOS AuthKit: users of the API, with their identities where those were asked for and put beside them. */
export const workos: System = {
  name: 'workos',
  title: 'WorkOS',
  idFields: ['id'],
  lists: ['data', 'users'],
  fields: wordsOf('object id email email_verified identities created_at last_sign_in_at external_id metadata'),
  toPerson(record) {
    return {
      id: idOf(record, workos.idFields),
      logins: [
        // Anybody may log in by a code to their email.
        { by: 'email', value: record['email'], verified: truthOf(record['email_verified']) ?? false },
        ...objectsOf(record['identities']).map(({ provider, idp_id }) => ({ by: textOf(provider), value: idp_id })),
      ],
      createdAt: record['created_at'],
      lastLogin: record['last_sign_in_at'],
      metadata: { ...objectOf(record['metadata']), external_id: record['external_id'] },
    };
  },
};
