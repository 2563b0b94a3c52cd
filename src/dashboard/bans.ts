import { type Ban, type ListedBan, parseBanTerms } from '../domain/bans.js';
import { type GivenIdentity, parseIdentity } from '../domain/identities.js';
import { atMost } from '../domain/input-limits.js';
import { readAll } from '../domain/parse.js';
import type { OpenProject } from '../domain/projects.js';
import type { BanState } from '../domain/users.js';
import { instantOrNull, orNull, required, withDefault } from '../graphql/shared.js';
import { APP_ID, builder } from './builder.js';
import { connectionType, readLimit } from './paging.js';
import { projectType } from './projects.js';
import { banOfUserType } from './users.js';

interface ProjectBan extends Ban {
  readonly project: OpenProject;
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
  description: 'A page of bans.',
});

builder.objectField(projectType, 'bans', (t) =>
  t.field({
    type: banConnectionType,
    description: 'The banned identities, the newest ban first unless asked otherwise.',
    args: {
      search: t.arg.string({ description: 'Only those whose value contains this, whatever its case.' }),
      first: t.arg.int(withDefault(50, 'How many, 1 to 100.')),
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

/** What an operator says of a ban. */
export const BAN_TERMS = {
  reason: { description: `Why, on one line of ${atMost('banReason')}.` },
  expiresAt: { description: 'When the ban ends: a date (through its last instant, UTC) or an RFC 3339 date-time.' },
};

interface IdentityChange extends GivenIdentity {
  readonly ban: BanState | null;
  readonly changed: boolean;
}

const identityChangeType = builder.objectRef<IdentityChange>('IdentityChange').implement({
  description: 'An identity after it was banned, or its ban was lifted.',
  fields: (t) => ({
    authMethod: t.exposeString('authMethod', { description: 'The method of the identity.' }),
    authValue: t.exposeString('authValue', { description: 'Its value.' }),
    banned: t.boolean({ description: 'Whether it is banned.', resolve: ({ ban }) => ban !== null }),
    ban: t.field({
      type: banOfUserType,
      nullable: true,
      description: 'Its ban; null where it is not banned.',
      resolve: ({ ban }) => ban,
    }),
    changed: t.exposeBoolean('changed', { description: 'Whether it was another way before.' }),
  }),
});

const METHOD = required('The method: `email`, `passkey`, `wallet`, or the name of a provider.');
const VALUE = required('The login email, the address, or the ID at the provider.');

builder.mutationFields((t) => ({
  banIdentity: t.field({
    type: identityChangeType,
    description:
      'Bans an identity, also one without a user. One that is banned keeps the reason or the end that is left out, and loses what is null. Needs SUPPORT. NOT_FOUND; BAD_USER_INPUT.',
    args: {
      appId: t.arg.id(APP_ID),
      authMethod: t.arg.string(METHOD),
      authValue: t.arg.string(VALUE),
      reason: t.arg.string(BAN_TERMS.reason),
      expiresAt: t.arg.string(BAN_TERMS.expiresAt),
    },
    resolve: async (_root, { appId, reason, expiresAt, ...given }, { services, scopeOf, spelling, requestId }) => {
      const scope = await scopeOf(appId);
      scope.projectIdFor('ban');
      const [identity, terms] = readAll(
        () => parseIdentity(given, spelling),
        () => parseBanTerms({ reason, end: expiresAt }, 'expiresAt'),
      );
      const ban = await services.bans.ban(scope, identity, terms, { requestId });
      return { ...identity, ban, changed: ban?.changed ?? false };
    },
  }),
  unbanIdentity: t.field({
    type: identityChangeType,
    description: 'Lifts the ban of an identity. Idempotent. Needs SUPPORT. NOT_FOUND; BAD_USER_INPUT.',
    args: { appId: t.arg.id(APP_ID), authMethod: t.arg.string(METHOD), authValue: t.arg.string(VALUE) },
    resolve: async (_root, { appId, ...given }, { services, scopeOf, spelling, requestId }) => {
      const scope = await scopeOf(appId);
      scope.projectIdFor('ban');
      return { ...(await services.bans.unbanIdentity(scope, given, spelling, { requestId })), ban: null };
    },
  }),
}));
