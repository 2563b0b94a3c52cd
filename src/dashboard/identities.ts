import type { UserIdentity } from '../domain/users.js';
import { instantOrNull, orNull } from '../graphql/shared.js';
import { builder, loginMethodEnum } from './builder.js';
import { userType } from './users.js';

/* The identities by which users log in, and what is kept with a user. */

const identityType = builder.objectRef<UserIdentity>('Identity').implement({
  description: 'What a user logs in with.',
  fields: (t) => ({
    authMethod: t.exposeString('authMethod', { description: 'The method.' }),
    authValue: t.exposeString('authValue', { description: 'The value, spelled as it was registered.' }),
    loginMethod: t.expose('loginMethod', { type: loginMethodEnum, description: 'The kind of login.' }),
    email: t.exposeString('loginEmail', orNull('The email that came with it; null where none did.')),
    emailVerified: t.exposeBoolean('emailVerified', orNull('Whether that email was verified; null where unknown.')),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'Since when it is that of the user.' }),
    lastLogin: t.expose('lastLogin', instantOrNull('The most recent login by it; null when none was recorded.')),
    isPrimary: t.exposeBoolean('isPrimary', { description: 'Whether it is the one in `User.authMethod`.' }),
  }),
});

builder.objectFields(userType, (t) => ({
  identities: t.field({
    type: [identityType],
    description: 'What the user logs in with: the primary identity first, then the oldest.',
    resolve: async ({ id, project }, _args, { services }) => [
      ...(await services.identities.detailsOf(project.scope, id)).identities,
    ],
  }),
  metadata: t.field({
    type: 'JSON',
    nullable: true,
    description: 'What a backend keeps with the user: a JSON object; null where there is none.',
    resolve: async ({ id, project }, _args, { services }) =>
      (await services.identities.detailsOf(project.scope, id)).metadata,
  }),
  mergedInto: t.id({
    nullable: true,
    description: 'The user whom a removed one has become by a merge; null for any other.',
    resolve: ({ mergedInto }) => mergedInto,
  }),
}));
