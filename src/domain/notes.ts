import type * as models from '../db/generated/prisma/client.js';
import { AppError } from '../errors.js';
import { INPUT_LIMITS, isTooLong } from './input-limits.js';
import type { AsRead } from './users.js';

/** Notes of a user. */
export const MAX_NOTES = 100;

/** What an operator has written of a user. It is personal data: no feed, log, trail or export has its text. */
export interface UserNote extends Readonly<AsRead<Omit<models.UserNote, 'projectId' | 'userId'>>> {
  /** Whether the one who asks may remove it. */
  readonly isRemovable: boolean;
}

/** A note as it is stored, or BAD_USER_INPUT, which does not repeat it. */
export function requireNote(name: string, text: string): string {
  const note = isTooLong('userNote', text) ? '' : text.replaceAll('\r\n', '\n').trim();
  // Line breaks and tabs are the only control characters.
  if (note !== '' && !/[^\P{Cc}\n\t]|\p{Cs}/u.test(note)) return note;
  throw new AppError(
    'BAD_USER_INPUT',
    `${name}: got ${note.length || text.length} characters, expected 1 to ${INPUT_LIMITS.userNote.max} that are not all blank, and no control characters.`,
  );
}
