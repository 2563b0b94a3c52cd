import type { OwnedBan } from '../domain/bans.js';
import type { OpenProject } from '../domain/projects.js';
import { BAN_FIELDS } from '../graphql/fields.js';
import { orNull, withDefault } from '../graphql/shared.js';
import { builder } from './builder.js';
import { connectionType, firstArgument, readLimit } from './paging.js';
import { projectType } from './projects.js';

interface ProjectBan extends OwnedBan {
  readonly project: OpenProject;
}

const banType = builder.objectRef<ProjectBan>('Ban').implement({
  description: 'An identity that can neither log in nor register.',
  fields: (t) => ({
    authMethod: t.exposeString('authMethod', BAN_FIELDS.authMethod),
    authValue: t.exposeString('authValue', BAN_FIELDS.authValue),
    createdAt: t.expose('createdAt', BAN_FIELDS.createdAt),
    reason: t.exposeString('reason', BAN_FIELDS.reason),
    expiresAt: t.expose('expiresAt', BAN_FIELDS.expiresAt),
    isOfUser: t.exposeBoolean('isOfUser', BAN_FIELDS.isOfUser),
    bannedUserId: t.exposeID(
      'bannedUserId',
      orNull('The user whose ban it is, current or removed; null for the ban of an identity.'),
    ),
    userId: t.id({
      nullable: true,
      description: 'The current user with this identity; null if there is none.',
      resolve: async ({ project, ...identity }, _args, { services }) =>
        (await services.users.findIdentity(project.scope, identity, { withAccounts: false }))?.id,
    }),
  }),
});

const banConnectionType = connectionType<ProjectBan>('BanConnection', banType, {
  description: 'A page of bans.',
});

builder.objectField(projectType, 'bans', (t) =>
  t.field({
    type: banConnectionType,
    description:
      'The banned identities, the newest ban first unless asked otherwise. The ban of a user is there once for each of their identities.',
    args: {
      search: t.arg.string({ description: 'Only those whose value contains this, whatever its case.' }),
      first: t.arg.int(firstArgument(50)),
      after: t.arg.string({ description: 'A cursor: only bans after it in this order.' }),
      oldestFirst: t.arg.boolean(withDefault(false, 'The oldest bans first instead of the newest.')),
    },
    resolve: async (project, { search, first, after, oldestFirst }, { services }) => {
      const { bans, next } = await services.bans.listBans(project.scope, {
        search: search ?? null,
        after: after ?? null,
        limit: readLimit('first', first),
        order: oldestFirst ? 'oldest first' : 'newest first',
      });
      const nodes = bans.map((ban) => ({ ...ban, project }));
      return { nodes, hasNextPage: next !== null, hasPreviousPage: after != null };
    },
  }),
);
