import type pg from 'pg';
import { vi } from 'vitest';

/** How long a test waits for what must come, also on a machine that runs much else: `vi.waitUntil(isThere, PATIENCE)`. */
export const PATIENCE = { timeout: 60_000, interval: 20 } as const;

/**
 * Until a statement that begins with `prefix` waits for a lock. Only the database of this session counts: beside it other
 * tests wait for locks in theirs. A transaction sees the sessions as they were when it first looked, unless it forgets them.
 */
export async function untilLocked(session: Pick<pg.Client, 'query'>, prefix = ''): Promise<void> {
  await vi.waitUntil(async () => {
    await session.query('SELECT pg_stat_clear_snapshot()');
    const { rows } = await session.query(
      `SELECT FROM pg_stat_activity
       WHERE datname = current_database() AND wait_event_type = 'Lock' AND starts_with(query, $1)`,
      [prefix],
    );
    return rows.length > 0;
  }, PATIENCE);
}
