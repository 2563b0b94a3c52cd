import { hash } from 'node:crypto';
import { inBatches, type Queryable } from '../db/statements.js';
import { AppError } from '../errors.js';
import { deleteExpiredKeys, type Earlier, listProjectsWithExpiredKeys, type Retry } from './idempotency.sql.js';

/* Writes with a key for retries. Write and answer are one statement; simultaneous requests wait for one. A failure is not stored. */

/** The request for which the caller's key stands. */
export function retryOf(key: string, request: readonly unknown[]): Retry {
  return { key, requestHash: hash('sha256', JSON.stringify(request)) };
}

/** The answer to the first request with the key. IDEMPOTENCY_KEY_REUSED if that was another request. */
export function repeatAnswer<Answer>({ answer, isSame }: Earlier<Answer>): Answer {
  if (isSame) return answer;
  throw new AppError('IDEMPOTENCY_KEY_REUSED', 'The idempotency key was used for another request.');
}

/** Deletes the expired idempotency keys of a project. */
export function deleteOldKeys(db: Queryable, projectId: number, signal?: AbortSignal): Promise<void> {
  return inBatches((limit) => deleteExpiredKeys(db, projectId, limit), signal);
}

/** Deletes the expired idempotency keys of all projects, in short statements. */
export async function deleteOldKeysOfAll(db: Queryable, signal: AbortSignal): Promise<void> {
  for (const projectId of await listProjectsWithExpiredKeys(db)) await deleteOldKeys(db, projectId, signal);
}
