import type { GraphQLError } from 'graphql';
import type { ChangeType } from '../domain/change-types.js';
import {
  CHANGES_PAGE,
  type Change,
  changeCursor,
  encodeChangeCursor,
  type FollowedChanges,
} from '../domain/changes.js';
import { parse, readAll, readNumber } from '../domain/parse.js';
import { camelCase } from '../domain/spelling.js';
import { FEED_FIELDS } from '../domain/user-columns.js';
import type { User } from '../domain/users.js';
import { COST_PER_UNIT, costs } from '../engine/cost.js';
import { selects } from '../engine/nodes.js';
import { badInput } from '../errors.js';
import { builder, changeTypeEnum, type Follower, type GraphQLContext, SURCHARGES } from './builder.js';
import { connectionType } from './connections.js';
import { orNull, withDefault } from './shared.js';
import { userType } from './users.js';

/** A change whose user was read with it, if that was wanted and is permitted; or an error, if it cannot be answered. */
export interface ShownChange extends Change {
  readonly user?: User | GraphQLError | null;
}

const changeType = builder.objectRef<ShownChange>('Change').implement({
  description:
    'A change of a user, an account or a ban. It names the user and has no personal data; `user` is as they are now, not as they were then.',
  fields: (t) => ({
    id: t.exposeID('id', {
      description: 'The place of the change in the feed. Give the last one that you have handled as `after`. Opaque.',
    }),
    type: t.field({ type: changeTypeEnum, description: 'What has changed.', resolve: ({ type }) => type }),
    at: t.expose('at', { type: 'DateTime', description: 'When the transaction of the change began.' }),
    userId: t.exposeID('userId', orNull('The ID of the user; null for a ban of an identity that no current user has.')),
    fields: t.stringList({
      description: `Of \`USER_UPDATED\`: the fields that have changed, of ${FEED_FIELDS.map((field) => `\`${camelCase(field)}\``).join(', ')}. Otherwise empty.`,
      resolve: ({ fields }) => fields.map(camelCase),
    }),
    mergedInto: t.exposeID(
      'mergedInto',
      orNull('Of `USER_MERGED`: the ID of the user who has taken over what this one had.'),
    ),
    user: t.field({
      type: userType,
      nullable: true,
      description:
        'The user as they are now. Null without an error means that they are removed, or that the change has no `userId`. The App Secret needs the scope `read` as well.',
      extensions: costs({ surcharge: SURCHARGES.id }),
      // Read with the change, in `withUsers`; here only where that is not permitted.
      resolve: (change, _args, { scope, services }) =>
        change.user !== undefined ? (change.user as User | null) : findUser(change, scope, services, false),
    }),
  }),
});

function findUser(
  { userId }: Change,
  scope: GraphQLContext['scope'],
  services: GraphQLContext['services'],
  withAccounts: boolean,
): Promise<User | null> | null {
  if (userId === null) return null;
  scope.projectIdFor('read');
  return services.users.findUser(scope, BigInt(userId), { withAccounts });
}

/** The changes with their users, read in one batch. Without the scope for it, the field `user` fails. */
async function withUsers(
  changes: readonly Change[],
  parts: { user: boolean; accounts: boolean },
  { scope, services }: GraphQLContext,
): Promise<ShownChange[]> {
  if (!parts.user || !scope.permits('read')) return [...changes];
  return Promise.all(
    changes.map(async (change) => ({ ...change, user: await findUser(change, scope, services, parts.accounts) })),
  );
}

const changeConnectionType = connectionType<ShownChange>(changeType, ({ id }) => id, {
  connection: 'A page of the feed, in the order in which the changes were committed.',
  edges: 'The changes of this page, each with its cursor.',
  nodes: 'The changes of this page.',
  pageInfo: 'Where the next page begins. `endCursor` is there even if this page is empty.',
  edge: 'A change in a connection, with its cursor.',
  cursor: 'The place of the change: the same as its `id`.',
  node: 'The change.',
});

const afterCursor = changeCursor('after');
const AFTER =
  'The `id` of a change, the `endCursor` of a page, the cursor of an export, or `now`: only changes after it. Fails with `CURSOR_EXPIRED` where some changes after it, of whatever type, are no longer kept.';
const TYPES =
  'Only changes of these types; without it, all. An empty list is refused. A cursor expires also when only changes of other types after it are deleted: if yours are rare, ask the query `changes` from time to time, with the same `after` and `types`. If the page is empty, go on with its `endCursor`.';

export function requireTypes(types: readonly ChangeType[] | null | undefined): readonly ChangeType[] | null {
  if (types?.length === 0) throw badInput('types', [], 'at least one type, or null for all');
  return types ?? null;
}

builder.queryField('changes', (t) =>
  t.field({
    type: changeConnectionType,
    description:
      'What has changed, oldest first, at least all that was committed before the request; a transaction that stays open for long holds up what comes after it. No change is skipped or comes twice. With `types`, a page may have fewer than `first` although `hasNextPage` is true. Needs the scope `changes`.',
    args: {
      after: t.arg.string({ description: `${AFTER} Without it, from the oldest change that is kept.` }),
      first: t.arg.int(withDefault(CHANGES_PAGE.default, `The number of changes, 1 to ${CHANGES_PAGE.max}.`)),
      types: t.arg({ type: [changeTypeEnum], description: TYPES }),
    },
    extensions: costs({
      surcharge: SURCHARGES.search,
      rows: { of: ['first'], otherwise: CHANGES_PAGE.default, atMost: CHANGES_PAGE.max },
    }),
    resolve: async (_root, { after, first, types }, context, info) => {
      const { scope, services } = context;
      const [place, selectedTypes] = readAll(
        () => (after == null ? null : parse(afterCursor, after)),
        () => requireTypes(types),
        () => readNumber('first', first, CHANGES_PAGE.max),
      );
      const page = await services.changes.listChanges(scope, { after: place, types: selectedTypes, first }, (units) =>
        context.charge(units * COST_PER_UNIT),
      );
      const parts = { user: selects(info, 'Change.user'), accounts: selects(info, 'User.accounts') };
      const nodes = await withUsers(page.changes, parts, context);
      return { nodes, hasNextPage: page.hasMore, hasPreviousPage: after != null, endCursor: page.end };
    },
  }),
);

/** An event of a subscription. */
export interface ChangeEvent {
  readonly cursor: string;
  /** Null where the event only tells the cursor. */
  readonly change: ShownChange | null;
}

const changeEventType = builder.objectRef<ChangeEvent>('ChangeEvent').implement({
  description: 'An event of a subscription: a change, or only how far the subscription has come.',
  fields: (t) => ({
    cursor: t.exposeString('cursor', {
      description: 'Give the last one whose event you have handled as `after`. Of a change, it is its `id`. Opaque.',
    }),
    change: t.field({
      type: changeType,
      nullable: true,
      description:
        'Null in the first event, and where the cursor moved without a change: because of changes of other types, for example.',
      resolve: ({ change }) => change,
    }),
  }),
});

builder.subscriptionType({
  description:
    'Streams over Server-Sent Events: `Accept: text/event-stream`, one stream a request (graphql-sse, distinct connections).',
});

builder.subscriptionField('changes', (t) =>
  t.field({
    type: changeEventType,
    description:
      'The changes after a cursor, oldest first, and then each that comes. No change is skipped or comes twice. The first event has the cursor from which the subscription goes on. After a break, subscribe again with the last `cursor` as `after`. Needs the scope `changes`.',
    args: {
      after: t.arg.string({ description: `${AFTER} Without it, only changes to come.` }),
      types: t.arg({ type: [changeTypeEnum], description: TYPES }),
    },
    subscribe: async (_root, { after, types }, { scope, services, follower }) => {
      if (follower === null) throw new Error('A subscription is executed as a stream only.');
      const [given, selectedTypes] = readAll(
        () => (after == null ? null : parse(afterCursor, after)),
        () => requireTypes(types),
      );
      const place = await services.changes.findStart(scope, given);
      const query = { after: place, types: selectedTypes };
      const followed = services.changes.follow(scope, query, follower.signal, follower.admit);
      return eventsOf(encodeChangeCursor(place), followed, follower);
    },
    resolve: async ({ cursor, change }: ChangeEvent, _args, context, info) => {
      if (change === null || change.user !== undefined) return { cursor, change };
      const parts = { user: selects(info, 'Change.user'), accounts: selects(info, 'User.accounts') };
      const [shown] = await withUsers([change], parts, context);
      return { cursor, change: shown as ShownChange };
    },
  }),
);

async function* eventsOf(
  start: string,
  followed: AsyncIterable<FollowedChanges>,
  follower: Follower,
): AsyncGenerator<ChangeEvent, void> {
  yield { cursor: start, change: null };
  for await (const { changes, end } of followed) {
    for (const change of changes) yield { cursor: change.id, change };
    follower.tellLater(end);
  }
}
