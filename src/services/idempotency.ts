import { hash } from 'node:crypto';
import { type Database, Prisma, type Queryable } from '../db/client.js';
import { AppError, badInput } from '../errors.js';
import { INPUT_LIMITS, isTooLong } from '../input-limits.js';

/** A request that may be retried: the caller's key for it, and what it asks, so that a key that is used again is noticed. */
export interface Retryable {
  readonly key: string;
  readonly request: readonly unknown[];
}

const KEY = /^[\x21-\x7e]+$/;
const KEY_FORM = `1 to ${INPUT_LIMITS.idempotencyKey.max} printable ASCII characters without spaces`;
/** For how long retries get the first answer. */
const KEPT = Prisma.sql`interval '24 hours'`;
const FORGOTTEN_AT_ONCE = 100;

/** The key, or BAD_USER_INPUT; null is none. */
export function requireKey(name: string, key: string | null | undefined): string | null {
  if (key === null || key === undefined) return null;
  if (isTooLong('idempotencyKey', key) || !KEY.test(key)) throw badInput(name, key, KEY_FORM);
  return key;
}

/**
 * Acts, or answers as the first request with this key did. One transaction: there is no answer without its act, and of several
 * requests at once one acts while the others wait for it. What fails is undone and not kept, so its retry acts.
 *
 * Answers are kept for a day, as JSON. BAD_USER_INPUT where the key was used for another request.
 */
export function once<Answer>(
  db: Database,
  projectId: number,
  { key, request }: Retryable,
  act: (tx: Queryable) => Promise<Answer>,
): Promise<Answer> {
  const requestHash = hash('sha256', JSON.stringify(request), 'buffer');
  return db.requestTransaction(async (tx) => {
    await forgetOld(tx, projectId);
    const claimed = await tx.query(Prisma.sql`
      INSERT INTO idempotency_keys (project_id, key, request_hash)
      VALUES (${projectId}::int, ${key}::text, ${requestHash}::bytea)
      ON CONFLICT DO NOTHING
      RETURNING key`);
    if (claimed.length === 0) return readAnswer<Answer>(tx, projectId, key, requestHash);
    const answer = await act(tx);
    await tx.query(Prisma.sql`
      UPDATE idempotency_keys SET answer = ${JSON.stringify(answer ?? null)}::jsonb
      WHERE project_id = ${projectId}::int AND key = ${key}::text`);
    return answer;
  });
}

async function readAnswer<Answer>(tx: Queryable, projectId: number, key: string, requestHash: Buffer): Promise<Answer> {
  const [first] = await tx.query<{ answer: Answer; isSame: boolean }>(Prisma.sql`
    SELECT answer, request_hash = ${requestHash}::bytea AS "isSame" FROM idempotency_keys
    WHERE project_id = ${projectId}::int AND key = ${key}::text`);
  // Forgotten between the two statements: to the caller it is as a request that came a moment later.
  if (first === undefined) throw new AppError('UNAVAILABLE', 'Try again.', { headers: { 'retry-after': '0' } });
  if (!first.isSame) throw new AppError('BAD_USER_INPUT', 'The idempotency key was used for another request.');
  return first.answer;
}

/** Whoever uses a key forgets some that are old enough; those that somebody else is at are left to him. */
async function forgetOld(tx: Queryable, projectId: number): Promise<void> {
  await tx.query(Prisma.sql`
    DELETE FROM idempotency_keys
    WHERE project_id = ${projectId}::int AND key IN (
      SELECT key FROM idempotency_keys
      WHERE project_id = ${projectId}::int AND created_at < now() - ${KEPT}
      ORDER BY created_at
      LIMIT ${FORGOTTEN_AT_ONCE}::bigint
      FOR UPDATE SKIP LOCKED
    )`);
}
