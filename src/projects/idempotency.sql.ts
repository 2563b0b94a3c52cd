import { execute, type KeyColumns, type ModelTransaction, Prisma, type Queryable, rowsOf } from '../db/statements.js';
import { KEY_KEPT_HOURS } from '../domain/parse.js';

/* Parts of the statements of writes that may be retried. Keys expire by the clock of the database. */

/** Retries get the first answer until then. */
const EXPIRED = Prisma.sql`created_at < now() - interval '${Prisma.raw(String(KEY_KEPT_HOURS))} hours'`;

/** A key of the caller's choice, and the hash of the request, so that another request with the key is noticed. */
export interface Retry {
  readonly key: string;
  /** SHA-256 in hexadecimal. */
  readonly requestHash: string;
}

/** A write that may have a key. */
export interface MaybeRetried {
  readonly retry: Retry | null;
}

/** The answer to the first request with a key, and whether that was the same request. */
export interface Earlier<Answer> {
  readonly answer: Answer;
  readonly isSame: boolean;
}

/** Columns of the keys `k` of a statement. */
export const KEY_COLUMNS: KeyColumns<MaybeRetried> = {
  idempotency_key: ['text', ({ retry }) => retry?.key],
  request_hash: ['text', ({ retry }) => retry?.requestHash],
};

/** An `Earlier`, or null where `k` has no key, or a new or an expired one. */
export const EARLIER = Prisma.sql`
  CASE WHEN k.idempotency_key IS NOT NULL
    THEN earlier_answer(k.project_id, k.idempotency_key, decode(k.request_hash, 'hex'))
  END`;

/** For a statement whose keys have none. */
export const NO_ANSWER = Prisma.sql`NULL::jsonb`;

/** Stores the `answer` to each key of `source`. If another one is stored first, it undoes the statement (`isKeyTaken`), which is run again. */
export function storeAnswers(answer: Prisma.Sql, source: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    INSERT INTO idempotency_keys AS known (project_id, key, request_hash, answer)
    SELECT k.project_id, k.idempotency_key, decode(k.request_hash, 'hex'), ${answer}
    FROM ${source}
    WHERE k.idempotency_key IS NOT NULL
    ORDER BY k.project_id, k.idempotency_key
    ON CONFLICT (project_id, key) DO UPDATE SET request_hash = excluded.request_hash, answer = excluded.answer,
      created_at = take_expired_key(known.${EXPIRED})`;
}

const keyOf = (projectId: number, { key, requestHash }: Retry) => Prisma.sql`
  (SELECT ${projectId}::int AS project_id, ${key}::text AS idempotency_key, ${requestHash}::text AS request_hash) AS k`;

/** An earlier change with the same key. */
export async function findEarlier<Answer>(
  tx: Queryable | ModelTransaction,
  projectId: number,
  retry: Retry,
): Promise<Earlier<Answer> | null> {
  const statement = Prisma.sql`SELECT ${EARLIER} AS earlier FROM ${keyOf(projectId, retry)}`;
  const [row] = await rowsOf<{ earlier: Earlier<Answer> | null }>(tx, statement);
  return row?.earlier ?? null;
}

/** Stores the answer to a change with a key, which may be no secret and no personal data. */
export async function storeKey(
  tx: Queryable | ModelTransaction,
  projectId: number,
  retry: Retry,
  answer: unknown,
): Promise<void> {
  await execute(tx, storeAnswers(Prisma.sql`${JSON.stringify(answer)}::jsonb`, keyOf(projectId, retry)));
}

/** True if a statement failed because another request has stored an answer to the same key at this moment. */
export function isKeyTaken(error: unknown): boolean {
  return (error as { constraint?: unknown }).constraint === 'idempotency_key_is_taken';
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
