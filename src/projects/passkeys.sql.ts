import { execute, type ModelTransaction, Prisma, type Queryable, readValue } from '../db/statements.js';
import { ADDING_MS, CHALLENGE_MS, MAX_CHALLENGES } from '../domain/passkeys.js';
import { milliseconds } from './operators.sql.js';

/* What is decided by the clock of the database, and what several requests must not do at a time. All else of passkeys is in passkeys.ts, by models. */

/**
 * Keeps a challenge: of a session that adds a passkey, in the place of its earlier one, or (null) of a sign-in. False if the session may add
 * none: it was begun by a passkey, or too long ago. Deletes of the oldest those that are late or too many.
 */
export async function insertChallenge(db: Queryable, hash: Uint8Array, sessionId: number | null): Promise<boolean> {
  const isKept = await readValue<boolean | undefined>(
    db,
    Prisma.sql`
    WITH late AS (
      DELETE FROM passkey_challenges WHERE id = ANY (ARRAY(
        SELECT id FROM (SELECT id, expires_at FROM passkey_challenges ORDER BY id LIMIT 20) AS oldest
        WHERE expires_at <= now() OR id <= (SELECT max(id) FROM passkey_challenges) - ${MAX_CHALLENGES}::bigint
      ))
    )
    INSERT INTO passkey_challenges (challenge_hash, session_id, expires_at)
    SELECT ${hash}::bytea, ${sessionId}::int, now() + ${milliseconds(CHALLENGE_MS)}
    WHERE ${sessionId}::int IS NULL OR EXISTS (
      SELECT FROM operator_sessions
      WHERE id = ${sessionId}::int AND passkey_id IS NULL AND created_at > now() - ${milliseconds(ADDING_MS)}
    )
    ON CONFLICT (session_id) DO UPDATE SET challenge_hash = EXCLUDED.challenge_hash, expires_at = EXCLUDED.expires_at
    RETURNING true`,
  );
  return isKept === true;
}

/** Uses a challenge up. False if it is used, late or unknown, or of another purpose. */
export async function takeChallenge(db: Queryable, hash: Uint8Array, sessionId: number | null): Promise<boolean> {
  const isInTime = await readValue<boolean | undefined>(
    db,
    Prisma.sql`
    DELETE FROM passkey_challenges
    WHERE challenge_hash = ${hash}::bytea AND session_id IS NOT DISTINCT FROM ${sessionId}::int
    RETURNING expires_at > now()`,
  );
  return isInTime === true;
}

/** Locks the operator of a session: of each one passkey is added at a time, so that they are counted right. */
export async function lockOperator(tx: Queryable | ModelTransaction, sessionId: number): Promise<void> {
  await execute(
    tx,
    Prisma.sql`
    SELECT FROM operators WHERE id = (SELECT operator_id FROM operator_sessions WHERE id = ${sessionId}::int) FOR NO KEY UPDATE`,
  );
}
