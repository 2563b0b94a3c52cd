import { hash } from 'node:crypto';
import { isUniqueViolation } from '../db/failures.js';
import { inBatches, type ModelTransaction, type Queryable } from '../db/statements.js';
import { AppError, type ErrorCode } from '../errors.js';
import * as sql from './idempotency.sql.js';

/* Writes with a key for retries. Write and answer are one statement; simultaneous requests wait for one. A failure is not stored. */

/** The request for which the caller's key stands. */
export function retryOf(key: string, request: readonly unknown[]): sql.Retry;
export function retryOf(key: string | null, request: readonly unknown[]): sql.Retry | null;
export function retryOf(key: string | null, request: readonly unknown[]): sql.Retry | null {
  return key === null ? null : { key, requestHash: hash('sha256', JSON.stringify(request)) };
}

/** The answer to the first request with the key. IDEMPOTENCY_KEY_REUSED if that was another request. */
export function repeatAnswer<Answer>({ answer, isSame }: sql.Earlier<Answer>): Answer {
  if (isSame) return answer;
  throw new AppError('IDEMPOTENCY_KEY_REUSED', 'The idempotency key was used for another request.');
}

/** Of a request that changes something. */
export interface ChangeOptions {
  readonly requestId?: string | null;
  /** For retries, which change nothing. */
  readonly key?: string | null;
}

/** Makes a change in one transaction that `begin` begins, and stores its answer; a retry changes nothing and gets this answer. IDEMPOTENCY_KEY_REUSED. */
export async function changeOnce<Tx extends Queryable | ModelTransaction, Answer>(
  begin: <Result>(work: (tx: Tx) => Promise<Result>) => Promise<Result>,
  projectId: number,
  retry: sql.Retry | null,
  change: (tx: Tx) => Promise<Answer>,
): Promise<Answer> {
  const once = () =>
    begin(async (tx) => {
      const earlier = retry && (await sql.findEarlier<Answer>(tx, projectId, retry));
      if (earlier !== null) return repeatAnswer(earlier);
      const answer = await change(tx);
      if (retry !== null) await sql.storeKey(tx, projectId, retry, answer);
      return answer;
    });
  // Another request has changed the same rows meanwhile, perhaps with the same key: its answer is there now.
  return once().catch((error) => {
    if (isUniqueViolation(error) || (retry !== null && MAY_BE_DONE.includes(error.code))) return once();
    throw error;
  });
}

/** Codes of a change that another request has made. */
const MAY_BE_DONE: readonly unknown[] = ['CONFLICT', 'NOT_FOUND'] satisfies ErrorCode[];

/** Deletes the expired idempotency keys of a project. */
export function deleteOldKeys(db: Queryable, projectId: number, signal?: AbortSignal): Promise<void> {
  return inBatches((limit) => sql.deleteExpiredKeys(db, projectId, limit), signal);
}

/** Deletes the expired idempotency keys of all projects, in short statements. */
export async function deleteOldKeysOfAll(db: Queryable, signal: AbortSignal): Promise<void> {
  for (const projectId of await sql.listProjectsWithExpiredKeys(db)) await deleteOldKeys(db, projectId, signal);
}
