import type { Database } from '../db/database.js';
import { isForeignKeyViolation } from '../db/failures.js';
import type { UserNote as NoteRow } from '../db/generated/prisma/client.js';
import { LARGEST_ID } from '../domain/filters.js';
import { MAX_NOTES, requireNote, type UserNote } from '../domain/notes.js';
import type { ProjectScope } from '../domain/projects.js';
import { noUser } from '../domain/users.js';
import { AppError } from '../errors.js';
import { recordAction } from '../projects/audit.sql.js';
import { lockUser } from './notes.sql.js';

/** Notes of operators on users, current and removed. They stay when a user is removed, and are erased with the user. */
export function createNotes(db: Database) {
  return {
    /** At most `limit` notes of a user, newest first. NOT_FOUND. */
    async listNotes(scope: ProjectScope, userId: bigint, limit: number = MAX_NOTES): Promise<UserNote[]> {
      const projectId = scope.projectIdFor('inspect');
      if (userId > LARGEST_ID) throw noUser(userId);
      const found = await db.models(({ user }) =>
        user.findUnique({
          where: { projectId_id: { projectId, id: userId } },
          select: { notes: { orderBy: { id: 'desc' }, take: limit } },
        }),
      );
      if (found === null) throw noUser(userId);
      return found.notes.map((row) => toNote(scope, row));
    },

    /** NOT_FOUND; BAD_USER_INPUT; CONFLICT if the user has too many. */
    async addNote(
      scope: ProjectScope,
      userId: bigint,
      text: string,
      requestId: string | null = null,
    ): Promise<UserNote> {
      const actor = scope.actorFor('edit', requestId);
      const note = requireNote('note', text);
      if (userId > LARGEST_ID) throw noUser(userId);
      const of = { projectId: actor.projectId, userId };
      const added = await db
        .change(async (tx) => {
          await lockUser(tx, of.projectId, userId);
          if ((await tx.userNote.count({ where: of })) >= MAX_NOTES)
            throw new AppError(
              'CONFLICT',
              `A user can have ${MAX_NOTES} notes, and this one has so many. Remove some.`,
            );
          const row = await tx.userNote.create({ data: { ...of, actor: actor.actor, note } });
          await recordAction(tx, actor, 'add_note', { note: Number(row.id) }, userId);
          return row;
        })
        .catch((error) => {
          throw isForeignKeyViolation(error) ? noUser(userId) : error;
        });
      return toNote(scope, added);
    },

    /** Removes a note of one's own; a note of others if the scope permits all changes. NOT_FOUND; FORBIDDEN. */
    async removeNote(scope: ProjectScope, userId: bigint, id: bigint, requestId: string | null = null): Promise<void> {
      const actor = scope.actorFor('edit', requestId);
      const noNote = () => new AppError('NOT_FOUND', `The user has no note ${id}.`);
      if (userId > LARGEST_ID || id > LARGEST_ID) throw noNote();
      const where = { projectId: actor.projectId, userId, id };
      await db.change(async (tx) => {
        const note = await tx.userNote.findFirst({ where, select: { actor: true } });
        if (note === null) throw noNote();
        if (note.actor !== actor.actor) scope.projectIdFor('operate');
        if ((await tx.userNote.deleteMany({ where })).count === 0) throw noNote();
        await recordAction(tx, actor, 'remove_note', { note: Number(id) }, userId);
      });
    },
  };
}

function toNote(scope: ProjectScope, { id, at, actor, note }: NoteRow): UserNote {
  const isRemovable = scope.permits('operate') || (scope.permits('edit') && actor === scope.actor);
  return { id: Number(id), at: at.toISOString(), actor, note, isRemovable };
}
