import { AppError } from '../errors.js';
import { type ProfileInput, requireEmail, requireExternalId, type Spelling } from './identities.js';
import { parseMetadata } from './metadata.js';
import { readAll } from './parse.js';

/** Changes of a user: an absent field stays, and null takes it away. */
export interface UserChanges {
  readonly loginEmail?: string | null;
  readonly externalId?: string | null;
  /** As JSON text. */
  readonly metadata?: string | null;
}

/** Changes as they arrive. BAD_USER_INPUT names the field of the caller. */
export function parseUserChanges(
  input: Pick<ProfileInput, 'email' | 'externalId' | 'metadata'>,
  spelling: Spelling,
): UserChanges {
  const { email, externalId, metadata } = input;
  if (email === undefined && externalId === undefined && metadata === undefined)
    throw new AppError('BAD_USER_INPUT', `Nothing to change: expected email, ${spelling('external_id')} or metadata.`);
  const [loginEmail, id, json] = readAll(
    () => (email == null ? email : requireEmail('email', email)),
    () => (externalId == null ? externalId : requireExternalId(spelling('external_id'), externalId)),
    () => (metadata == null ? null : parseMetadata('metadata', metadata)),
  );
  return {
    ...(loginEmail !== undefined && { loginEmail }),
    ...(id !== undefined && { externalId: id }),
    ...(metadata !== undefined && { metadata: json }),
  };
}

export function emailIsIdentity(): AppError {
  return new AppError(
    'BAD_USER_INPUT',
    'email: this user logs in by email, so it can be changed, but not taken away. Unlink the identity, or remove the user.',
  );
}
