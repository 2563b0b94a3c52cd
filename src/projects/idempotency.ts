import { hash } from 'node:crypto';
import type { Database } from '../db/database.js';
import { inBatches, type Queryable } from '../db/statements.js';
import { AppError } from '../errors.js';
import { claimKey, deleteExpiredKeys, findAnswer, storeAnswer } from './idempotency.sql.js';

/** A request that may be retried: the caller's key, and the request itself, so that another request with the key is noticed. */
export interface Retryable {
  readonly key: string;
  readonly request: readonly unknown[];
}

/**
 * Runs `work`, or answers as the first request with this key was answered. Work and answer are one transaction. Of several
 * requests at once one does the work while the others wait. A failure is undone and not stored, so a retry runs again.
 *
 * Answers are kept for 24 hours, as JSON. IDEMPOTENCY_KEY_REUSED if the key was used for another request.
 */
export function withIdempotencyKey<Answer>(
  db: Database,
  projectId: number,
  { key, request }: Retryable,
  work: (tx: Queryable) => Promise<Answer>,
): Promise<Answer> {
  const requestHash = hash('sha256', JSON.stringify(request), 'buffer');
  return db.requestTransaction(async (tx) => {
    if (await claimKey(tx, projectId, key, requestHash)) {
      const answer = await work(tx);
      await storeAnswer(tx, projectId, key, answer);
      return answer;
    }
    const first = await findAnswer<Answer>(tx, projectId, key, requestHash);
    if (!first.isSame)
      throw new AppError('IDEMPOTENCY_KEY_REUSED', 'The idempotency key was used for another request.');
    return first.answer;
  });
}

/** Deletes the expired idempotency keys of a project. */
export function deleteOldKeys(db: Queryable, projectId: number): Promise<void> {
  return inBatches((limit) => deleteExpiredKeys(db, projectId, limit));
}
