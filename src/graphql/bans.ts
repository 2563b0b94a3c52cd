import type { Services } from '../context.js';
import type { ListedBan } from '../domain/bans.js';
import { banCursor, banCursorOf, cursorForm, PAGE_SIZE, type Position } from '../domain/filters.js';
import { parse } from '../domain/parse.js';
import type { ProjectScope } from '../domain/projects.js';
import type { User } from '../domain/users.js';
import { costs } from '../engine/cost.js';
import { selects } from '../engine/nodes.js';
import { badInput } from '../errors.js';
import { builder, SURCHARGES } from './builder.js';
import { connectionType } from './connections.js';
import { instantOrNull, orNull, withDefault } from './shared.js';
import { userType } from './users.js';

/** A ban with its user, if that was asked for. */
interface ShownBan extends ListedBan {
  readonly user?: User | null;
}

const banType = builder.objectRef<ShownBan>('Ban').implement({
  description:
    'An identity that can neither log in nor register until the ban ends. A ban outlives the removal of its user.',
  fields: (t) => ({
    authMethod: t.exposeString('authMethod', { description: 'The method of the identity.' }),
    authValue: t.exposeString('authValue', { description: 'The value of the identity, spelled as it was banned.' }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'Since when the identity is banned.' }),
    reason: t.exposeString('reason', orNull('Why, in the words of an operator; null where no reason was given.')),
    expiresAt: t.expose(
      'expiresAt',
      instantOrNull('When the ban ends by itself; null where it stays until it is lifted.'),
    ),
    user: t.field({
      type: userType,
      nullable: true,
      description: 'The current user with this identity; null where the project has none.',
      extensions: costs({ surcharge: SURCHARGES.id }),
      resolve: ({ user = null }) => user,
    }),
  }),
});

const banConnectionType = connectionType<ShownBan>(banType, banCursorOf, {
  connection: 'A page of bans, newest first (Relay).',
  edges: 'The bans of this page, each with a cursor.',
  nodes: 'The bans of this page, without cursors.',
  pageInfo: 'What is before and after this page.',
  edge: 'A ban in a connection, with its cursor.',
  cursor: 'The place of this ban in the list, for `after`. It stays valid when the ban is lifted. Opaque.',
  node: 'The ban at this place.',
});

const afterCursor = banCursor('after');

/** The place that a cursor names. One that does not name its list may be of users: then it is refused. BAD_USER_INPUT. */
async function readPlace(after: string, scope: ProjectScope, { users }: Pick<Services, 'users'>): Promise<Position> {
  const { list, ...place } = parse(afterCursor, after);
  if (list !== null) return place;
  const user = await users.findUser(scope, BigInt(place.id), { withAccounts: false });
  if (user === null || Date.parse(user.createdAt) !== place.createdAt.getTime()) return place;
  throw badInput('after', after, cursorForm('bans'));
}

builder.queryField('bans', (t) =>
  t.field({
    type: banConnectionType,
    description:
      'The banned identities of the project, newest ban first, by cursor. Bans that come and go meanwhile never make others appear twice or go missing. They are not counted.',
    args: {
      first: t.arg.int(withDefault(PAGE_SIZE.default, `The number of bans, 1 to ${PAGE_SIZE.max}.`)),
      after: t.arg.string({ description: 'A cursor: only bans after it in the list, which are older.' }),
    },
    extensions: costs({
      surcharge: SURCHARGES.search,
      rows: { of: ['first'], otherwise: PAGE_SIZE.default, atMost: PAGE_SIZE.max },
    }),
    resolve: async (_root, { first, after }, { scope, services }, info) => {
      if (first < 1 || first > PAGE_SIZE.max)
        throw badInput('first', first, `a whole number from 1 to ${PAGE_SIZE.max}`);
      const { bans, hasMore } = await services.bans.readBans(scope, {
        after: after == null ? null : await readPlace(after, scope, services),
        limit: first,
      });
      const page = { nodes: bans, hasNextPage: hasMore, hasPreviousPage: after != null };
      if (!selects(info, 'Ban.user')) return page;
      const parts = { withAccounts: selects(info, 'User.accounts') };
      const withUser = async (ban: ListedBan) => ({
        ...ban,
        user: await services.users.findIdentity(scope, ban, parts),
      });
      return { ...page, nodes: await Promise.all(bans.map(withUser)) };
    },
  }),
);
