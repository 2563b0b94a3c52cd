import type { UserIdentity } from '../domain/users.js';
import { IDENTITY_FIELDS } from '../graphql/fields.js';
import { builder, loginMethodEnum } from './builder.js';
import { userType } from './users.js';

/* The identities by which users log in, and what is kept with a user. */

const identityType = builder.objectRef<UserIdentity>('Identity').implement({
  description: 'What a user logs in with.',
  fields: (t) => ({
    authMethod: t.exposeString('authMethod', IDENTITY_FIELDS.authMethod),
    authValue: t.exposeString('authValue', IDENTITY_FIELDS.authValue),
    loginMethod: t.expose('loginMethod', { type: loginMethodEnum, ...IDENTITY_FIELDS.loginMethod }),
    email: t.exposeString('loginEmail', IDENTITY_FIELDS.email),
    emailVerified: t.exposeBoolean('emailVerified', IDENTITY_FIELDS.emailVerified),
    createdAt: t.expose('createdAt', IDENTITY_FIELDS.createdAt),
    lastLogin: t.expose('lastLogin', IDENTITY_FIELDS.lastLogin),
    isPrimary: t.exposeBoolean('isPrimary', IDENTITY_FIELDS.isPrimary),
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
