import { Prisma, type Queryable } from '../db/statements.js';

/** How long retries get the first answer. */
const KEPT = Prisma.sql`interval '24 hours'`;
const MAX_EXPIRED_DELETED = 100;

/** Claims a key for a request; false if an earlier request has it. Waits for a transaction that has claimed it and not ended. */
export async function claimKey(tx: Queryable, projectId: number, key: string, requestHash: Buffer): Promise<boolean> {
  const claimed = await tx.query(Prisma.sql`
    INSERT INTO idempotency_keys (project_id, key, request_hash)
    VALUES (${projectId}::int, ${key}::text, ${requestHash}::bytea)
    ON CONFLICT DO NOTHING
    RETURNING key`);
  return claimed.length > 0;
}

/** Stores the answer to the request that claimed the key, as JSON. */
export async function storeAnswer(tx: Queryable, projectId: number, key: string, answer: unknown): Promise<void> {
  await tx.query(Prisma.sql`
    UPDATE idempotency_keys SET answer = ${JSON.stringify(answer ?? null)}::jsonb
    WHERE project_id = ${projectId}::int AND key = ${key}::text`);
}

/** The answer of a key, and whether its request was the same. */
export async function findAnswer<Answer>(
  tx: Queryable,
  projectId: number,
  key: string,
  requestHash: Buffer,
): Promise<{ answer: Answer; isSame: boolean } | undefined> {
  const [found] = await tx.query<{ answer: Answer; isSame: boolean }>(Prisma.sql`
    SELECT answer, request_hash = ${requestHash}::bytea AS "isSame" FROM idempotency_keys
    WHERE project_id = ${projectId}::int AND key = ${key}::text`);
  return found;
}

/** Deletes some expired keys of a project, without waiting for those that another transaction has locked. */
export async function deleteExpiredKeys(tx: Queryable, projectId: number): Promise<void> {
  await tx.query(Prisma.sql`
    DELETE FROM idempotency_keys
    WHERE project_id = ${projectId}::int AND key IN (
      SELECT key FROM idempotency_keys
      WHERE project_id = ${projectId}::int AND created_at < now() - ${KEPT}
      ORDER BY created_at
      LIMIT ${MAX_EXPIRED_DELETED}::bigint
      FOR UPDATE SKIP LOCKED
    )`);
}
