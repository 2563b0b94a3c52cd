import { createHash, randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Pool, PoolClient } from 'pg';
import { isNotPermitted } from './failures.js';

/** The migrations of this package in Prisma's layout: one folder for each, applied in the order of their names. */
const MIGRATIONS_DIR = fileURLToPath(new URL('../../prisma/migrations/', import.meta.url));

/** An arbitrary constant, the same in every version of userdir. */
const ADVISORY_LOCK = 8_327_301_945;

/** The history table of Prisma, so that `prisma migrate deploy` and this runner have the same history. */
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

type Migration = Awaited<ReturnType<typeof readMigrations>>[number];

/**
 * Applies the missing migrations, all or none, and returns their names. Safe to run twice and by many processes at once: they
 * wait for an advisory lock, and the later ones find nothing to do.
 *
 * Throws if the history contradicts the files: a migration failed under Prisma, or was changed after it was applied.
 */
export async function migrate(pool: Pool, migrationsDir = MIGRATIONS_DIR): Promise<string[]> {
  const migrations = await readMigrations(migrationsDir);
  const client = await pool.connect();
  let missing: Migration[] = [];
  try {
    await client.query('BEGIN');
    await client.query('SET LOCAL statement_timeout = 0');
    await client.query('SELECT pg_advisory_xact_lock($1)', [ADVISORY_LOCK]);
    // Not IF NOT EXISTS, which needs the right to create tables even if the table exists.
    const isNew = !(await hasHistory(client));
    missing = isNew ? migrations : await findMissing(client, migrations);
    if (isNew) await client.query(HISTORY_TABLE);
    for (const migration of missing) await apply(client, migration);
    await client.query('COMMIT');
    return missing.map(({ name }) => name);
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw isNotPermitted(error) ? await explainRefusal(client, missing, error as Error) : error;
  } finally {
    client.release();
  }
}

/** Says which role may not apply which migration, or may not read which ones are applied. */
async function explainRefusal(client: PoolClient, [next, ...others]: Migration[], cause: Error): Promise<Error> {
  const { rows } = await client.query<{ role: string }>('SELECT current_user AS role');
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  const what = next === undefined ? 'read which migrations are applied' : `apply the migration ${next.name}${more}`;
  return new Error(
    `The role ${rows[0]?.role} may not ${what}: ${cause.message}. Run userdir migrate as the owner of the tables.`,
    { cause },
  );
}

/** The migrations that `migrate` would apply, and those that it does not know. Changes nothing; throws where `migrate` would. */
export async function inspectMigrations(pool: Pool): Promise<{ missing: string[]; unknown: string[] }> {
  const migrations = await readMigrations(MIGRATIONS_DIR);
  const names = migrations.map(({ name }) => name);
  if (!(await hasHistory(pool))) return { missing: names, unknown: [] };
  const missing = await findMissing(pool, migrations);
  const { rows } = await pool.query<{ name: string }>(
    'SELECT migration_name AS name FROM _prisma_migrations WHERE rolled_back_at IS NULL AND migration_name <> ALL($1)',
    [names],
  );
  return { missing: missing.map(({ name }) => name), unknown: rows.map(({ name }) => name) };
}

async function readMigrations(migrationsDir: string) {
  const entries = await readdir(migrationsDir, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  return Promise.all(
    names.sort().map(async (name) => {
      const sql = await readFile(join(migrationsDir, name, 'migration.sql'), 'utf8');
      return { name, sql, checksum: createHash('sha256').update(sql).digest('hex') };
    }),
  );
}

async function hasHistory(client: Pool | PoolClient): Promise<boolean> {
  const { rows } = await client.query("SELECT to_regclass('_prisma_migrations') IS NOT NULL AS exists");
  return rows[0].exists;
}

async function findMissing(client: Pool | PoolClient, migrations: Migration[]): Promise<Migration[]> {
  const { rows } = await client.query<{ migration_name: string; checksum: string; finished_at: Date | null }>(
    'SELECT migration_name, checksum, finished_at FROM _prisma_migrations WHERE rolled_back_at IS NULL',
  );
  const history = new Map(rows.map((row) => [row.migration_name, row]));
  return migrations.filter((migration) => {
    const applied = history.get(migration.name);
    if (applied === undefined) return true;
    if (applied.finished_at === null) {
      throw new Error(
        `Migration ${migration.name} failed earlier and is half applied; mend it with "prisma migrate resolve".`,
      );
    }
    if (applied.checksum !== migration.checksum) {
      throw new Error(
        `Migration ${migration.name} was changed after it was applied to this database; restore its file.`,
      );
    }
    return false;
  });
}

async function apply(client: PoolClient, migration: Migration): Promise<void> {
  await client.query(migration.sql);
  await client.query(
    `INSERT INTO _prisma_migrations (id, checksum, finished_at, migration_name, applied_steps_count)
     VALUES ($1, $2, clock_timestamp(), $3, 1)`,
    [randomUUID(), migration.checksum, migration.name],
  );
}
