import { parse, userId } from '../domain/filters.js';
import { INPUT_LIMITS } from '../domain/input-limits.js';
import { MAX_NOTES, type UserNote } from '../domain/notes.js';
import { required, withDefault } from '../graphql/shared.js';
import { APP_ID, builder } from './builder.js';
import { DEFAULT_PAGE, readLimit } from './paging.js';
import { userType } from './users.js';

const noteType = builder.objectRef<UserNote>('UserNote').implement({
  description: 'What an operator has written of a user.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'Its id.' }),
    at: t.expose('at', { type: 'DateTime', description: 'When it was written.' }),
    actor: t.exposeString('actor', {
      description: 'Who wrote it: `operator:NAME`, or `operator` for one without a name.',
    }),
    note: t.exposeString('note', { description: 'Its text, which may have several lines.' }),
    removable: t.exposeBoolean('isRemovable', { description: 'Whether you may remove it.' }),
  }),
});

builder.objectField(userType, 'notes', (t) =>
  t.field({
    type: [noteType],
    description: `The notes of operators on the user, newest first. A user has at most ${MAX_NOTES}.`,
    args: { first: t.arg.int(withDefault(DEFAULT_PAGE, `How many, 1 to ${MAX_NOTES}.`)) },
    resolve: ({ id, project }, { first }, { services }) =>
      services.notes.listNotes(project.scope, BigInt(id), readLimit('first', first)),
  }),
);

const userArgument = userId('userId');
const noteArgument = userId('noteId');
const USER_ID = required('The user ID, also of a removed user.');

builder.mutationFields((t) => ({
  addUserNote: t.field({
    type: noteType,
    description: `Adds a note on a user. Needs SUPPORT. NOT_FOUND; BAD_USER_INPUT; CONFLICT if the user has ${MAX_NOTES}.`,
    args: {
      appId: t.arg.id(APP_ID),
      userId: t.arg.id(USER_ID),
      note: t.arg.string(
        required(`Text of 1 to ${INPUT_LIMITS.userNote.max} characters. White space around it is dropped.`),
      ),
    },
    resolve: async (_root, { appId, userId: id, note }, { services, scopeOf, requestId }) => {
      const scope = await scopeOf(appId);
      scope.projectIdFor('edit');
      return services.notes.addNote(scope, parse(userArgument, id), note, requestId);
    },
  }),
  removeUserNote: t.boolean({
    description:
      'Removes a note on a user, for ever. Needs SUPPORT for your own, ADMIN for those of others. NOT_FOUND.',
    args: { appId: t.arg.id(APP_ID), userId: t.arg.id(USER_ID), noteId: t.arg.id(required('The id of the note.')) },
    resolve: async (_root, { appId, userId: id, noteId }, { services, scopeOf, requestId }) => {
      const scope = await scopeOf(appId);
      scope.projectIdFor('edit');
      await services.notes.removeNote(scope, parse(userArgument, id), parse(noteArgument, noteId), requestId);
      return true;
    },
  }),
}));
