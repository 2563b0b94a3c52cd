import { Prisma, type Queryable } from '../db/statements.js';

/* Part of requests, in their transaction. Keys expire by the clock of the database. */

/** How long retries get the first answer. */
const EXPIRED = Prisma.sql`created_at < now() - interval '24 hours'`;

/**
 * Claims a key for a request, also one that has expired; false if an earlier request has it. Waits for a transaction that has claimed it and
 * not ended. Either way the row is locked: its answer is there until this transaction ends.
 */
export async function claimKey(tx: Queryable, projectId: number, key: string, requestHash: Buffer): Promise<boolean> {
  const claimed = await tx.query(Prisma.sql`
    INSERT INTO idempotency_keys AS known (project_id, key, request_hash)
    VALUES (${projectId}::int, ${key}::text, ${requestHash}::bytea)
    ON CONFLICT (project_id, key) DO UPDATE SET request_hash = excluded.request_hash, answer = NULL, created_at = now()
    WHERE known.${EXPIRED}
    RETURNING key`);
  return claimed.length > 0;
}

/** Stores the answer to the request that claimed the key, as JSON. */
export async function storeAnswer(tx: Queryable, projectId: number, key: string, answer: unknown): Promise<void> {
  await tx.query(Prisma.sql`
    UPDATE idempotency_keys SET answer = ${JSON.stringify(answer ?? null)}::jsonb
    WHERE project_id = ${projectId}::int AND key = ${key}::text`);
}

/** The answer of a key that is claimed, and whether its request was the same. */
export async function findAnswer<Answer>(
  tx: Queryable,
  projectId: number,
  key: string,
  requestHash: Buffer,
): Promise<{ answer: Answer; isSame: boolean }> {
  const [found] = await tx.query<{ answer: Answer; isSame: boolean }>(Prisma.sql`
    SELECT answer, request_hash = ${requestHash}::bytea AS "isSame" FROM idempotency_keys
    WHERE project_id = ${projectId}::int AND key = ${key}::text`);
  return found as { answer: Answer; isSame: boolean };
}

/** The projects that have expired keys. */
export async function listProjectsWithExpiredKeys(db: Queryable): Promise<number[]> {
  const rows = await db.query<{ id: number }>(Prisma.sql`
    SELECT p.id FROM projects p, LATERAL (
      SELECT created_at FROM idempotency_keys WHERE project_id = p.id ORDER BY created_at LIMIT 1
    ) AS oldest
    WHERE oldest.${EXPIRED}`);
  return rows.map(({ id }) => id);
}

/** Deletes about `limit` expired keys of a project, the oldest first. Returns their number. */
export async function deleteExpiredKeys(db: Queryable, projectId: number, limit: number): Promise<number> {
  const [row] = await db.query<{ deleted: number }>(Prisma.sql`
    WITH deleted AS (
      DELETE FROM idempotency_keys
      WHERE project_id = ${projectId}::int AND created_at <= (
        SELECT max(created_at) FROM (
          SELECT created_at FROM idempotency_keys WHERE project_id = ${projectId}::int AND ${EXPIRED}
          ORDER BY created_at
          LIMIT ${limit}::bigint
        ) AS oldest
      )
      RETURNING key
    )
    SELECT count(*)::int AS deleted FROM deleted`);
  return row?.deleted ?? 0;
}
