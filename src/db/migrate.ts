import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client, Pool, PoolClient } from 'pg';
import { COMMAND } from '../errors.js';
import { withConnection } from './connection.js';
import type { Database } from './database.js';
import { isNotPermitted, RefusedError } from './failures.js';
import { type Migration, readMigrations, type Step } from './migration-files.js';
import {
  LOCK_MS,
  LONGEST_WAIT_MS,
  type Run,
  runStep,
  STATEMENT_MS,
  seconds,
  seldom,
  type Tell,
} from './migration-steps.js';
import { UnpublishedError } from './release.js';

/** An arbitrary constant, the same in every version of userdir. */
const ADVISORY_LOCK = 8_327_301_945;
const ADVISORY_RETRY_MS = 500;

/** The history table of Prisma. `applied_steps_count` says how many steps of a migration are done. */
const HISTORY_TABLE = `
  CREATE TABLE _prisma_migrations (
    id VARCHAR(36) PRIMARY KEY NOT NULL,
    checksum VARCHAR(64) NOT NULL,
    finished_at TIMESTAMPTZ,
    migration_name VARCHAR(255) NOT NULL,
    logs TEXT,
    rolled_back_at TIMESTAMPTZ,
    started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    applied_steps_count INTEGER NOT NULL DEFAULT 0
  )`;

type Target = Pick<Database, 'direct' | 'requireSessions' | 'engineUsage'>;

export interface MigrateOptions {
  readonly migrationsDir?: string;
  readonly tell?: Tell;
  /** Ends it after the statement that runs, which is canceled on PostgreSQL. */
  readonly signal?: AbortSignal;
  /** The wait of each step for other transactions. */
  readonly waitMs?: number;
}

/** A migration that is not applied, or in part. */
interface Missing extends Migration {
  /** The number of steps that are done; null before the first one. */
  readonly done: number | null;
}

/**
 * Applies the missing migrations and returns their names. Safe to run twice, by many processes at once, and after it was killed at any moment:
 * it goes on with the step that was not done (docs/decisions/migrations.md). RefusedError, HeldUpError, UnpublishedError.
 * Throws if the history contradicts the files: a migration failed under Prisma, or was changed after it was applied.
 */
export async function migrate(db: Target, options: MigrateOptions = {}): Promise<string[]> {
  const {
    migrationsDir,
    tell = () => undefined,
    signal = new AbortController().signal,
    waitMs = LONGEST_WAIT_MS,
  } = options;
  const migrations = await readMigrations(migrationsDir);
  // No lock where nothing is missing: most starts end here.
  if ((await findMissing(db.direct, migrations)).length === 0) return [];
  await db.requireSessions();
  const client = await db.direct.connect();
  let missing: Missing[] = [];
  try {
    const stop = await cancelable(db, client, signal);
    try {
      await lock(client, { tell, signal });
      missing = await findMissing(client, migrations);
      if (missing.length > 0) await requireRights(client, missing);
      await applyAll({ client, tell, signal, waitMs }, missing);
      await client.query('SELECT pg_advisory_unlock($1)', [ADVISORY_LOCK]);
    } finally {
      stop();
    }
  } catch (error) {
    const explained = isNotPermitted(error)
      ? refusal(await roleOf(client), missing, (error as Error).message, error)
      : error;
    // The lock ends with the session.
    client.release(true);
    throw explained;
  }
  client.release();
  return missing.map(({ name }) => name);
}

/** Cancels, by another connection, the statement that runs when `signal` aborts; the returned function ends that. The embedded engine has one session. */
async function cancelable({ direct, engineUsage }: Target, client: PoolClient, signal: AbortSignal) {
  if (engineUsage() !== null) return () => undefined;
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  const cancel = () =>
    void withConnection(direct.options, (other) => other.query('SELECT pg_cancel_backend($1)', [rows[0]?.pid])).catch(
      () => undefined,
    );
  signal.addEventListener('abort', cancel, { once: true });
  return () => signal.removeEventListener('abort', cancel);
}

/** Takes the lock of migrations by repeated attempts: a waiting statement would have a snapshot, for which CREATE INDEX CONCURRENTLY waits. */
async function lock(client: PoolClient, { tell, signal }: Pick<Run, 'tell' | 'signal'>): Promise<void> {
  const tellSeldom = seldom(tell);
  for (;;) {
    const { rows } = await client.query('SELECT pg_try_advisory_lock($1) AS is_locked', [ADVISORY_LOCK]);
    if (rows[0].is_locked) return;
    tellSeldom('Another process migrates the database. This one waits for it.');
    await sleep(ADVISORY_RETRY_MS, undefined, { signal });
  }
}

const RIGHTS = `
  SELECT CASE
    WHEN NOT has_schema_privilege(current_schema(), 'CREATE') THEN 'permission denied for schema ' || current_schema()
    ELSE (SELECT 'must be owner of table ' || relname FROM pg_class
          WHERE oid = to_regclass('_prisma_migrations') AND NOT pg_has_role(relowner, 'USAGE'))
  END AS lacking`;

/** Asked before, because also a role that may change no table could lock it for others. */
async function requireRights(client: PoolClient, missing: readonly Migration[]): Promise<void> {
  const { rows } = await client.query(RIGHTS);
  if (rows[0].lacking !== null) throw refusal(await roleOf(client), missing, rows[0].lacking);
}

async function roleOf(client: PoolClient): Promise<string> {
  return (await client.query('SELECT current_user AS role')).rows[0].role;
}

/** Says which role may not apply which migration, or may not read which ones are applied. */
function refusal(role: string, [next, ...others]: readonly Migration[], reason: string, cause?: unknown): RefusedError {
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  const lacking = next === undefined ? '' : `the migration ${next.name}${more}`;
  const what = next === undefined ? 'read which migrations are applied' : `apply ${lacking}`;
  const sentence = `The role ${role} may not ${what}: ${reason}. Run ${COMMAND} migrate as the owner of the tables.`;
  return new RefusedError(sentence, lacking, cause);
}

/** A new database has no rows that a migration could change, so its migrations are not told one by one. */
async function applyAll(run: Run, missing: readonly Missing[]): Promise<void> {
  const isNew = !(await hasHistory(run.client));
  const startedAt = performance.now();
  if (isNew) {
    run.tell('Creating the tables.', true);
    await run.client.query(HISTORY_TABLE);
  }
  const { tell } = run;
  for (const migration of missing) await applySteps({ ...run, tell: isNew ? () => undefined : tell }, migration);
  if (isNew) run.tell(`Created the tables in ${seconds(startedAt)}.`);
}

async function applySteps(run: Run, migration: Missing): Promise<void> {
  const { client, tell } = run;
  const { name, checksum, steps } = migration;
  const startedAt = performance.now();
  if (migration.done === null)
    await client.query('INSERT INTO _prisma_migrations (id, checksum, migration_name) VALUES ($1, $2, $3)', [
      randomUUID(),
      checksum,
      name,
    ]);
  for (const [index, step] of steps.entries()) {
    const number = index + 1;
    if (number <= (migration.done ?? 0)) continue;
    tell(`${name}, step ${number} of ${steps.length}: ${step.what}`, true);
    await runStep(run, migration, step, () => noteDone(client, name, number, number === steps.length));
  }
  tell(`Applied ${name} in ${seconds(startedAt)}.`);
}

async function noteDone(client: PoolClient, name: string, steps: number, isLast: boolean): Promise<void> {
  await client.query(
    `UPDATE _prisma_migrations SET applied_steps_count = $2, finished_at = CASE WHEN $3 THEN clock_timestamp() END
     WHERE migration_name = $1 AND rolled_back_at IS NULL`,
    [name, steps, isLast],
  );
}

/** The migrations that `migrate` would apply, and those that it does not know. Changes nothing; throws where `migrate` would. */
export async function inspectMigrations(pool: Pool): Promise<{ missing: string[]; unknown: string[] }> {
  const migrations = await readMigrations();
  const missing = await findMissing(pool, migrations);
  if (!(await hasHistory(pool))) return { missing: missing.map(({ name }) => name), unknown: [] };
  const { rows } = await pool.query<{ name: string }>(
    'SELECT migration_name AS name FROM _prisma_migrations WHERE rolled_back_at IS NULL AND migration_name <> ALL($1) ORDER BY 1',
    [migrations.map(({ name }) => name)],
  );
  return { missing: missing.map(({ name }) => name), unknown: rows.map(({ name }) => name) };
}

export interface PlannedStep extends Omit<Step, 'sql'> {
  /** The bound of waiting for its locks, and of holding them. */
  readonly bound: string;
}

export interface PlannedMigration {
  readonly name: string;
  /** The number of steps that are done already. */
  readonly steps_done: number;
  /** The steps that are missing. */
  readonly steps: readonly PlannedStep[];
}

export interface Plan {
  /** Null on the embedded database. */
  readonly target: { readonly host: string; readonly database: string; readonly role: string } | null;
  readonly planned: readonly PlannedMigration[];
  /** The oldest release that may serve afterwards; null if that stays as it is. */
  readonly oldest_release: string | null;
}

const BOUNDS: Record<Step['mode'], string> = {
  'in one transaction': `waits at most ${LOCK_MS} ms for a lock, and holds it for at most ${STATEMENT_MS} ms a statement`,
  'in batches': `waits at most ${LOCK_MS} ms for a row, and holds it for at most ${STATEMENT_MS} ms; again, after as long a pause, until no row is left`,
  'without a transaction': 'takes as long as the table is large; reads and writes go on',
};

/** The plan of `migrate`, and its place. Changes nothing; throws where `migrate` would. */
export async function planMigrations({ direct, engineUsage }: Target): Promise<Plan> {
  const missing = await findMissing(direct, await readMigrations());
  const client = await direct.connect();
  try {
    if (missing.length > 0) await requireRights(client, missing);
    const isNew = !(await hasHistory(client));
    return {
      target: engineUsage() === null ? targetOf(client) : null,
      planned: missing.map((migration) => planSteps(migration, isNew)),
      oldest_release: isNew ? null : oldestAfter(missing),
    };
  } finally {
    client.release();
  }
}

/** As node-postgres has read the URL. */
function targetOf(client: PoolClient) {
  const { host, port, database = '', user = '' } = client as PoolClient & Client;
  return { host: `${host}:${port}`, database, role: user };
}

/** Of a migration, the steps that are missing. No request waits for those of a new database. */
function planSteps({ name, steps, done }: Missing, isNew: boolean): PlannedMigration {
  const bound = (mode: Step['mode']) => (isNew ? 'the database is new, so nobody waits' : BOUNDS[mode]);
  return {
    name,
    steps_done: done ?? 0,
    steps: steps.slice(done ?? 0).map(({ sql, ...step }) => ({ ...step, bound: bound(step.mode) })),
  };
}

/** The function in which a schema names the oldest release, as every migration makes it (docs/decisions/migrations.md). */
const OLDEST_RELEASE = /FUNCTION oldest_release\(\)[^;]*RETURN '([\d.]+)'/g;

function oldestAfter(missing: readonly Missing[]): string | null {
  const steps = missing.flatMap(({ steps, done }) => steps.slice(done ?? 0));
  return (
    [
      ...steps
        .map(({ sql }) => sql)
        .join('\n')
        .matchAll(OLDEST_RELEASE),
    ].at(-1)?.[1] ?? null
  );
}

async function hasHistory(client: Pool | PoolClient): Promise<boolean> {
  const { rows } = await client.query("SELECT to_regclass('_prisma_migrations') IS NOT NULL AS exists");
  return rows[0].exists;
}

async function findMissing(client: Pool | PoolClient, migrations: readonly Migration[]): Promise<Missing[]> {
  // Not CREATE TABLE IF NOT EXISTS, which needs the right to create tables even if the table exists.
  const isNew = !(await hasHistory(client));
  const { rows } = isNew
    ? { rows: [] }
    : await client.query(
        `SELECT migration_name AS name, checksum, finished_at IS NOT NULL AS "isFinished", applied_steps_count AS done, logs
     FROM _prisma_migrations WHERE rolled_back_at IS NULL`,
      );
  const history = new Map(rows.map((row) => [row.name, row]));
  // Every database of a published release has the first migration as it is here.
  const [first] = migrations;
  if (history.size > 0 && history.get(first?.name)?.checksum !== first?.checksum) throw new UnpublishedError();
  return migrations.flatMap((migration) => {
    const { name, checksum } = migration;
    const applied = history.get(name);
    if (applied === undefined) return [{ ...migration, done: null }];
    // Prisma keeps why it failed.
    if (!applied.isFinished && applied.logs !== null)
      throw new Error(`Migration ${name} failed earlier and is half applied; mend it with "prisma migrate resolve".`);
    if (applied.checksum !== checksum)
      throw new Error(`Migration ${name} was changed after it was applied to this database; restore its file.`);
    return applied.isFinished ? [] : [{ ...migration, done: applied.done }];
  });
}
