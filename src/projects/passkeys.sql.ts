import { execute, type ModelTransaction, Prisma, type Queryable, readValue } from '../db/statements.js';
import { ADDING_MS, CHALLENGE_MS } from '../domain/passkeys.js';
import { milliseconds } from './operators.sql.js';

/** For how long a challenge is remembered as used. Its end is by the clock of a process, which may be late. */
const KEPT_MS = 12 * CHALLENGE_MS;

/* Reads by the clock of the database, and writes that exclude each other. All else of passkeys is in passkeys.ts, by models. */

/** True for a session that was begun by no passkey, and not too long ago. */
export function mayAdd(db: Queryable, sessionId: number): Promise<boolean> {
  return readValue(
    db,
    Prisma.sql`
    SELECT EXISTS (
      SELECT FROM operator_sessions
      WHERE id = ${sessionId}::int AND passkey_id IS NULL AND created_at > now() - ${milliseconds(ADDING_MS)}
    )`,
  );
}

/** Uses up a challenge that a passkey has signed. False if it was used before. Deletes some of what is no longer good in any case. */
export async function useChallenge(db: Queryable, hash: Uint8Array): Promise<boolean> {
  const isNew = await readValue<boolean | undefined>(
    db,
    Prisma.sql`
    WITH late AS (
      DELETE FROM passkey_challenges WHERE id = ANY (ARRAY(
        SELECT id FROM (SELECT id, expires_at FROM passkey_challenges ORDER BY id LIMIT 20) AS oldest WHERE expires_at <= now()
      ))
    )
    INSERT INTO passkey_challenges (challenge_hash, expires_at)
    VALUES (${hash}::bytea, now() + ${milliseconds(KEPT_MS)})
    ON CONFLICT (challenge_hash) DO NOTHING
    RETURNING true`,
  );
  return isNew === true;
}

/** Locks the operator of a session: of each one passkey is added at a time, so that they are counted right. */
export async function lockOperator(tx: Queryable | ModelTransaction, sessionId: number): Promise<void> {
  await execute(
    tx,
    Prisma.sql`
    SELECT FROM operators WHERE id = (SELECT operator_id FROM operator_sessions WHERE id = ${sessionId}::int) FOR NO KEY UPDATE`,
  );
}
