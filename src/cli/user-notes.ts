import type { Command } from 'commander';
import { MAX_NOTES, type UserNote } from '../domain/notes.js';
import { jsonOption, option, parseLimit, projectOption, userIdArgument } from './arguments.js';
import type { OperationContext } from './operation.js';
import type { CommandContext } from './run.js';
import { listTable } from './terminal.js';

interface OneUser {
  readonly project: string;
  readonly userId: string;
}

interface NoteParams extends OneUser {
  /** The text of a new note, or the ID of the one that goes. */
  readonly add?: string;
  readonly remove?: number;
}

/** Notes of operators on a user. */
export function addNoteCommands(user: Command, { define }: CommandContext): void {
  define(user, {
    name: 'user note',
    description: 'add a note on a user for other operators, or remove one; also of a removed user',
    examples: [
      'user note --project app_1 42 --add "Called about the invoice."',
      'user note --project app_1 42 --remove 7',
    ],
    takes: [
      userIdArgument(),
      projectOption(),
      option('--add <TEXT>', `the text; a user has at most ${MAX_NOTES} notes`),
      option('--remove <NOTE_ID>', 'the ID of a note, as `user notes` shows it', parseLimit),
      jsonOption(),
    ],
    params: (userId: string, { project, add, remove }, command: Command): NoteParams => {
      if ((add === undefined) === (remove === undefined)) command.error('error: give either --add or --remove');
      return { project, userId, add, remove };
    },
    run: writeNote,
    print: (done, { userId }) =>
      'note' in done ? `User ${userId} has the note ${done.id}.` : `Removed the note ${done.id} of user ${userId}.`,
  });
  define(user, {
    name: 'user notes',
    description: 'list the notes of operators on a user, newest first',
    examples: ['user notes --project app_1 42'],
    takes: [userIdArgument(), projectOption(), jsonOption()],
    run: async ({ services, operator }, { project, userId }: OneUser) => {
      const scope = await services.projects.getScope(project, operator);
      return (await services.notes.listNotes(scope, BigInt(userId))).map(toJson);
    },
    print: (notes) =>
      listTable(notes, {
        head: ['ID', 'At', 'Who', 'Note'],
        cells: ({ id, at, actor, note }) => [id, at, actor, note.replaceAll(/\s+/g, ' ')],
        none: 'The user has no notes.',
      }),
  });
}

async function writeNote({ services, operator }: OperationContext, { project, userId, add, remove }: NoteParams) {
  const scope = await services.projects.getScope(project, operator);
  if (add !== undefined) return toJson(await services.notes.addNote(scope, BigInt(userId), add));
  await services.notes.removeNote(scope, BigInt(userId), BigInt(remove as number));
  return { id: remove as number };
}

const toJson = ({ id, at, actor, note }: UserNote) => ({ id, at, actor, note });
