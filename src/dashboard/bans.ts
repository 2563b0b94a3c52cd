import { type Ban, camelCase, type ListedBan, parseBanTerms, parseIdentity } from '../domain/identities.js';
import { atMost } from '../domain/input-limits.js';
import type { OpenProject } from '../domain/projects.js';
import { instantOrNull, orNull, required, withDefault } from '../graphql/shared.js';
import { APP_ID, builder } from './builder.js';
import { connectionType, readLimit } from './paging.js';
import { projectType } from './projects.js';

interface ProjectBan extends Ban {
  readonly project: Pick<OpenProject, 'scope'>;
}

const banType = builder.objectRef<ProjectBan>('Ban').implement({
  description: 'An identity that can neither log in nor register.',
  fields: (t) => ({
    authMethod: t.exposeString('authMethod', { description: 'The method of the identity.' }),
    authValue: t.exposeString('authValue', { description: 'Its value.' }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'Since when it is banned.' }),
    reason: t.exposeString('reason', orNull('Why; null where no reason was given.')),
    expiresAt: t.expose(
      'expiresAt',
      instantOrNull('When the ban ends by itself; null where it stays until it is lifted.'),
    ),
    userId: t.id({
      nullable: true,
      description: 'The current user with this identity; null if there is none.',
      resolve: async ({ project, ...identity }, _args, { services }) =>
        (await services.users.findIdentity(project.scope, identity, { withAccounts: false }))?.id,
    }),
  }),
});

const banConnectionType = connectionType<ProjectBan & ListedBan>('BanConnection', banType, {
  description: 'A page of bans, newest first.',
});

builder.objectField(projectType, 'bans', (t) =>
  t.field({
    type: banConnectionType,
    description: 'The banned identities, newest ban first.',
    args: {
      search: t.arg.string({ description: 'Only those whose value contains this, whatever its case.' }),
      first: t.arg.int(withDefault(50, 'How many, 1 to 100.')),
      after: t.arg.string({ description: 'A cursor: only bans after it, which are older.' }),
    },
    resolve: async (project, { search, first, after }, { services }) => {
      const { bans, next } = await services.bans.listBans(project.scope, {
        search: search ?? null,
        after: after ?? null,
        limit: readLimit('first', first),
      });
      const nodes = bans.map((ban) => ({ ...ban, project }));
      return { nodes, hasNextPage: next !== null, hasPreviousPage: after != null };
    },
  }),
);

/** What an operator says of a ban. */
export const BAN_TERMS = {
  reason: { description: `Why, on one line of ${atMost('banReason')}.` },
  expiresAt: { description: 'When the ban ends: a date (through its last instant, UTC) or an RFC 3339 date-time.' },
};

const METHOD = required('The method: `email`, `passkey`, `wallet`, or the name of a provider.');
const VALUE = required('The login email, the address, or the ID at the provider.');

builder.mutationFields((t) => ({
  banIdentity: t.field({
    type: banType,
    description:
      'Bans an identity, also one without a user. One that is banned keeps the reason or the end that is left out, and loses what is null. Needs SUPPORT. NOT_FOUND; BAD_USER_INPUT.',
    args: {
      appId: t.arg.id(APP_ID),
      authMethod: t.arg.string(METHOD),
      authValue: t.arg.string(VALUE),
      reason: t.arg.string(BAN_TERMS.reason),
      expiresAt: t.arg.string(BAN_TERMS.expiresAt),
    },
    resolve: async (_root, { appId, reason, expiresAt, ...given }, { services, scopeOf, requestId }) => {
      const scope = await scopeOf(appId);
      scope.projectIdFor('ban');
      const terms = parseBanTerms({ reason, end: expiresAt }, 'expiresAt');
      const ban = await services.bans.ban(scope, parseIdentity(given, camelCase), terms, requestId);
      return { ...ban, project: { scope } };
    },
  }),
  unbanIdentity: t.boolean({
    description: 'Lifts the ban of an identity. Idempotent. Needs SUPPORT. NOT_FOUND; BAD_USER_INPUT.',
    args: { appId: t.arg.id(APP_ID), authMethod: t.arg.string(METHOD), authValue: t.arg.string(VALUE) },
    resolve: async (_root, { appId, ...given }, { services, scopeOf, requestId }) => {
      const scope = await scopeOf(appId);
      scope.projectIdFor('ban');
      await services.bans.unbanIdentity(scope, given, camelCase, requestId);
      return true;
    },
  }),
}));
