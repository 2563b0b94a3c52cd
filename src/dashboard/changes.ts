import type { Services } from '../context.js';
import { CHANGES_PAGE, type Change, changeCursor } from '../domain/changes.js';
import { requirePermission } from '../domain/operators.js';
import { parse, readNumber } from '../domain/parse.js';
import { orNull, withDefault } from '../graphql/shared.js';
import { builder, changeTypeEnum } from './builder.js';
import { projectType } from './projects.js';

const changeType = builder.objectRef<Change>('Change').implement({
  description: 'A change of a user, an account or a ban. It names the user and has no personal data.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'Its place in the feed: a cursor.' }),
    type: t.expose('type', { type: changeTypeEnum, description: 'What has changed.' }),
    at: t.expose('at', { type: 'DateTime', description: 'When its transaction began.' }),
    userId: t.exposeID('userId', orNull('The user ID; null for a ban of an identity that no current user has.')),
    mergedInto: t.exposeID(
      'mergedInto',
      orNull('Of `USER_MERGED`: the ID of the user who has taken over what this one had.'),
    ),
    fields: t.stringList({
      description: 'Of `USER_UPDATED`: the fields that have changed. Otherwise empty.',
      resolve: ({ fields }, _args, { spelling }) => fields.map(spelling),
    }),
  }),
});

type ChangesPage = Awaited<ReturnType<Services['changes']['listChanges']>>;

const changesPageType = builder.objectRef<ChangesPage>('ChangesPage').implement({
  description: 'A page of the feed, in the order in which the changes were committed.',
  fields: (t) => ({
    nodes: t.expose('changes', { type: [changeType], description: 'The changes.' }),
    end: t.exposeString('end', { description: 'The cursor of the next page, also where this one is empty.' }),
    hasMore: t.exposeBoolean('hasMore', { description: 'Whether there are more changes now.' }),
  }),
});

const afterArgument = changeCursor('after');

builder.objectField(projectType, 'changes', (t) =>
  t.field({
    type: changesPageType,
    description:
      'What has changed among its users, oldest first. A page for few types may have fewer than asked for although there are more. Needs ADMIN. CURSOR_EXPIRED.',
    args: {
      after: t.arg.string({
        description: 'A cursor of the feed, or `now`: only changes after it. Without it, from the oldest that is kept.',
      }),
      types: t.arg({ type: [changeTypeEnum], description: 'Only changes of these types; without it all.' }),
      first: t.arg.int(withDefault(CHANGES_PAGE.default, `How many, 1 to ${CHANGES_PAGE.max}.`)),
    },
    resolve: ({ scope }, { after, types, first }, { services }) => {
      const place = after == null ? null : parse(afterArgument, after);
      const query = { after: place, types: types ?? null, first: readNumber('first', first, CHANGES_PAGE.max) };
      return services.changes.listChanges(scope, query);
    },
  }),
);

builder.mutationField('noteRestore', (t) =>
  t.field({
    type: 'DateTime',
    description:
      'Notes that the database was restored, and returns when: new IDs begin far beyond the known ones, and webhooks are paused. Needs an ADMIN of all projects.',
    resolve: async (_root, _args, { services: { changes }, operator }) => {
      requirePermission(operator, 'govern');
      await changes.recognise('restored');
      return (await changes.findRestore()) as string;
    },
  }),
);
