import { type OwnedBan, parseBanTerms } from '../domain/bans.js';
import { type GivenIdentity, parseIdentity } from '../domain/identities.js';
import { atMost } from '../domain/input-limits.js';
import { readAll } from '../domain/parse.js';
import type { OpenProject } from '../domain/projects.js';
import type { BanOfUser } from '../domain/users.js';
import { instantOrNull, orNull, required, withDefault } from '../graphql/shared.js';
import { APP_ID, builder } from './builder.js';
import { connectionType, readLimit } from './paging.js';
import { projectType } from './projects.js';
import { banOfUserType } from './users.js';

interface ProjectBan extends OwnedBan {
  readonly project: OpenProject;
}

const banType = builder.objectRef<ProjectBan>('Ban').implement({
  description: 'An identity that can neither log in nor register.',
  fields: (t) => ({
    authMethod: t.exposeString('authMethod', { description: 'The method of the identity.' }),
    authValue: t.exposeString('authValue', { description: 'Its value.' }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When the ban began.' }),
    reason: t.exposeString('reason', orNull('Why; null where no reason was given.')),
    expiresAt: t.expose(
      'expiresAt',
      instantOrNull('When the ban ends by itself; null where it stays until it is lifted.'),
    ),
    isOfUser: t.exposeBoolean('isOfUser', {
      description: 'True for the ban of a user, which covers each of their identities; false for the ban of this one.',
    }),
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
  reason: { description: `Why, on one line of ${atMost('banReason')}; "" takes a reason away.` },
  expiresAt: { description: 'When the ban ends: a date (through its last instant, UTC) or an RFC 3339 date-time.' },
  untilLifted: {
    description: 'True takes an end away: the ban stays until it is lifted. Not together with `expiresAt`.',
  },
};

interface IdentityChange extends GivenIdentity {
  readonly ban: BanOfUser | null;
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
      description: 'The ban that holds for it, its own or that of its user; null where it is not banned.',
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
      'Bans an identity, also one without a user. One that is banned keeps the reason or the end that is left out or null. Needs SUPPORT. NOT_FOUND; BAD_USER_INPUT.',
    args: {
      appId: t.arg.id(APP_ID),
      authMethod: t.arg.string(METHOD),
      authValue: t.arg.string(VALUE),
      reason: t.arg.string(BAN_TERMS.reason),
      expiresAt: t.arg.string(BAN_TERMS.expiresAt),
      untilLifted: t.arg.boolean(BAN_TERMS.untilLifted),
    },
    resolve: async (
      _root,
      { appId, reason, expiresAt, untilLifted, ...given },
      { services, scopeOf, spelling, requestId },
    ) => {
      const scope = await scopeOf(appId);
      scope.projectIdFor('ban');
      const [identity, terms] = readAll(
        () => parseIdentity(given, spelling),
        () => parseBanTerms({ reason, end: expiresAt, untilLifted }, 'expiresAt'),
      );
      const ban = await services.bans.ban(scope, identity, terms, { requestId });
      return { ...identity, ban, changed: ban?.changed ?? false };
    },
  }),
  unbanIdentity: t.field({
    type: identityChangeType,
    description:
      'Lifts the ban of an identity. That of its user stays. Idempotent. Needs SUPPORT. NOT_FOUND; BAD_USER_INPUT.',
    args: { appId: t.arg.id(APP_ID), authMethod: t.arg.string(METHOD), authValue: t.arg.string(VALUE) },
    resolve: async (_root, { appId, ...given }, { services, scopeOf, spelling, requestId }) => {
      const scope = await scopeOf(appId);
      scope.projectIdFor('ban');
      const lifted = await services.bans.unbanIdentity(scope, parseIdentity(given, spelling), { requestId });
      return { ...lifted, ban: await services.bans.banOfIdentity(scope, lifted) };
    },
  }),
}));
