import { setTimeout as sleep } from 'node:timers/promises';
import type { PoolClient } from 'pg';
import { COMMAND } from '../errors.js';
import { HeldUpError, isConflict, isHeldBack } from './failures.js';
import type { Migration, Step } from './migration-files.js';

/* Changes tables that are being used: each lock is asked for a moment only, and again later. */

/** The wait for a lock. Everybody who wants the table waits in line behind it. */
export const LOCK_MS = 300;
/** The limit of a step's statement with its locks. With LOCK_MS, no request waits half a second for a step. */
export const STATEMENT_MS = 450;
/** A step is tried again for so long, or one without a transaction waits so long for the transactions before it. */
export const LONGEST_WAIT_MS = 300_000;
/** The largest that PostgreSQL takes. */
const MAX_LOCK_TIMEOUT_MS = 2 ** 31 - 1;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
const TELL_MS = 10_000;

/** Told to the operator: one sentence. A detail is for a terminal. */
export type Tell = (sentence: string, isDetail?: boolean) => void;

/** The session that migrates. */
export interface Run {
  readonly client: PoolClient;
  readonly tell: Tell;
  readonly signal: AbortSignal;
  /** The wait of each step for other transactions. */
  readonly waitMs: number;
}

export const seconds = (startedAt: number) => `${((performance.now() - startedAt) / 1_000).toFixed(1)} s`;

/** Calls `tell` at once, and then at most every TELL_MS. */
export function seldom(tell: Tell): Tell {
  let toldAt = Number.NEGATIVE_INFINITY;
  return (...told) => {
    if (performance.now() - toldAt < TELL_MS) return;
    toldAt = performance.now();
    tell(...told);
  };
}

/** Work in one transaction of short statements. The schema asks whether a migration writes: it touches no user of an import. */
async function inTransaction(run: Run, what: string, work: () => Promise<void>): Promise<void> {
  const { client } = run;
  await untilFree(run, what, async () => {
    await client.query(
      `BEGIN; SET LOCAL lock_timeout = ${LOCK_MS}; SET LOCAL statement_timeout = ${STATEMENT_MS}; SET LOCAL userdir.migrates = 'on'`,
    );
    await work();
    await client.query('COMMIT');
  });
}

/** Does a step from its beginning. `done` notes in the transaction of the step, or after it, that it is done. */
export async function runStep(run: Run, { name }: Migration, step: Step, done: () => Promise<void>): Promise<void> {
  const what = `${name}, ${step.what}`;
  const { client } = run;
  if (step.mode === 'in one transaction') {
    await inTransaction(run, what, async () => {
      await client.query(step.sql);
      await done();
    });
  } else if (step.mode === 'in batches') {
    await runBatches(run, what, step.sql);
    await done();
  } else {
    await untilFree(run, what, async () => {
      // No statement waits in line behind such a step.
      await client.query(`SET lock_timeout = ${Math.min(run.waitMs, MAX_LOCK_TIMEOUT_MS)}`);
      await dropBrokenIndex(run, step.sql);
      await client.query(step.sql).finally(() => client.query('SET lock_timeout = 0'));
    });
    await done();
  }
}

async function runBatches(run: Run, what: string, sql: string): Promise<void> {
  const startedAt = performance.now();
  const tell = seldom(run.tell);
  let [rows, changed, tookMs] = [0, 0, 0];
  do {
    // For as long as it worked, PostgreSQL is left to the requests.
    await sleep(tookMs, undefined, { signal: run.signal });
    await inTransaction(run, what, async () => {
      const begunAt = performance.now();
      changed = (await run.client.query(sql)).rowCount ?? 0;
      tookMs = performance.now() - begunAt;
    });
    rows += changed;
    tell(`${what}: ${rows} rows, ${seconds(startedAt)}`, true);
  } while (changed > 0);
}

const CREATE_INDEX = /^CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+) /i;

/** Drops the index that an interrupted CREATE INDEX CONCURRENTLY has left: it is written at each change, and never read. */
async function dropBrokenIndex({ client }: Run, sql: string): Promise<void> {
  const [, name] = CREATE_INDEX.exec(sql) ?? [];
  if (name === undefined) return;
  const { rows } = await client.query(
    'SELECT FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT (indisvalid AND indisready)',
    [name],
  );
  if (rows.length > 0) await client.query(`DROP INDEX CONCURRENTLY ${name}`);
}

/** Runs `attempt` until no other transaction holds it back. It waits longer each time, and never the same time as another process. */
async function untilFree(run: Run, what: string, attempt: () => Promise<void>): Promise<void> {
  const startedAt = performance.now();
  const tell = seldom(run.tell);
  for (let tries = 0; ; tries += 1) {
    run.signal.throwIfAborted();
    try {
      await attempt();
      return;
    } catch (error) {
      await run.client.query('ROLLBACK').catch(() => undefined);
      run.signal.throwIfAborted();
      if (!isHeldBack(error) && !isConflict(error)) throw error;
      const holder = await findHolder(run.client);
      if (performance.now() - startedAt >= run.waitMs)
        throw new HeldUpError(
          `${what}: other transactions left no moment for it in ${seconds(startedAt)}${holder}. What is done stays done. Run ${COMMAND} migrate again when they have ended, or with a longer --wait.`,
          { cause: error },
        );
      tell(`${what}: waits for other transactions${holder}.`);
    }
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** tries, LONGEST_PAUSE_MS) * (0.5 + Math.random());
    await sleep(pauseMs, undefined, { signal: run.signal });
  }
}

/** The oldest transaction of another session that uses a table. */
const HOLDER = `
  SELECT a.pid, a.usename::text AS role, extract(epoch FROM clock_timestamp() - min(a.xact_start))::int AS seconds,
         string_agg(DISTINCT c.relname, ', ' ORDER BY c.relname) AS tables
  FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_stat_activity a ON a.pid = l.pid
  WHERE l.locktype = 'relation' AND l.granted AND l.pid <> pg_backend_pid() AND a.datname = current_database()
    AND c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace
  GROUP BY a.pid, a.usename ORDER BY min(a.xact_start) LIMIT 1`;

async function findHolder(client: PoolClient): Promise<string> {
  const [holder] = (await client.query(HOLDER)).rows;
  if (holder === undefined) return '';
  const age = holder.seconds === null ? '' : `, open for ${holder.seconds} s,`;
  return `; the oldest, of PostgreSQL's process ${holder.pid} and role ${holder.role}${age} uses ${holder.tables}`;
}
