import type { Queryable } from '../db/statements.js';
import { listProjectsWithOldChanges, pruneChanges } from '../sql/changes.js';
import { deleteExpiredKeys, listProjectsWithExpiredKeys } from '../sql/idempotency-keys.js';

const AT_ONCE = 1_000;

/** Deletes what has expired, of all projects, in short statements: changes that are older than `retentionMs`, and expired idempotency keys. */
export async function deleteOldRows(db: Queryable, retentionMs: number, signal: AbortSignal): Promise<void> {
  for (const projectId of await listProjectsWithOldChanges(db, retentionMs))
    await inBatches((limit) => pruneChanges(db, projectId, retentionMs, limit), signal);
  for (const projectId of await listProjectsWithExpiredKeys(db))
    await inBatches((limit) => deleteExpiredKeys(db, projectId, limit), signal);
}

/** Deletes the expired idempotency keys of a project. */
export function deleteOldKeys(db: Queryable, projectId: number): Promise<void> {
  return inBatches((limit) => deleteExpiredKeys(db, projectId, limit));
}

/** Runs a statement that deletes up to `limit` rows, until there are no more. */
export async function inBatches(deleteSome: (limit: number) => Promise<number>, signal?: AbortSignal): Promise<void> {
  while (!signal?.aborted && (await deleteSome(AT_ONCE)) >= AT_ONCE);
}
