import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, inject, test } from 'vitest';
import { migrate } from '#dist/db/migrate.js';
import { oneStep, useMigrations } from '../support/migrations.js';
import { readDatabaseFacts } from '../support/schema-facts.js';

const MIGRATIONS_DIR = fileURLToPath(new URL('../../prisma/migrations', import.meta.url));
const MIGRATIONS = (await readdir(MIGRATIONS_DIR, { withFileTypes: true }))
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .toSorted();

const own = useMigrations();

/** What the steps of a migration of this package do. */
async function readStepsOf(name: string): Promise<string[]> {
  const sql = await readFile(join(MIGRATIONS_DIR, name, 'migration.sql'), 'utf8');
  return sql.split('\n').filter((line) => line.startsWith('-- step'));
}

const sha256 = (text: string | Buffer) => createHash('sha256').update(text).digest('hex');

interface HistoryRow {
  id: string;
  checksum: string;
  finished_at: Date | null;
  migration_name: string;
  logs: string | null;
  rolled_back_at: Date | null;
  started_at: Date;
  applied_steps_count: number;
}

async function readHistory(): Promise<HistoryRow[]> {
  const { rows } = await own.db.pool.query<HistoryRow>('SELECT * FROM _prisma_migrations ORDER BY migration_name');
  return rows;
}

async function readFacts(): Promise<string[]> {
  const client = await own.db.pool.connect();
  try {
    return [...(await readDatabaseFacts(client))];
  } finally {
    client.release();
  }
}

async function readTables(): Promise<string[]> {
  return (await readFacts())
    .filter((fact) => /^table (?!_prisma)/.test(fact))
    .map((fact) => fact.slice('table '.length))
    .toSorted();
}

describe('the migrations of this package', () => {
  test('are applied to an empty database in the order of their names; a second run applies none', async () => {
    expect(await migrate(own.db)).toEqual(MIGRATIONS);
    const [facts, history] = [await readFacts(), await readHistory()];
    expect(await migrate(own.db)).toEqual([]);
    expect(await readFacts()).toEqual(facts);
    expect(await readHistory()).toEqual(history);
  });

  test('are applied once when ten processes start at the same time', async () => {
    // The embedded engine has one session, so ten callers share it.
    const others = inject('engine') === 'postgres' ? Array.from({ length: 10 }, () => own.db.another()) : [];
    const targets = others.length > 0 ? others : Array.from({ length: 10 }, () => own.db);
    const applied = await Promise.all(targets.map((target) => migrate(target))).finally(() =>
      Promise.all(others.map((other) => other.close())),
    );
    expect(applied.flat()).toEqual(MIGRATIONS);
    expect((await readHistory()).map((row) => row.migration_name)).toEqual(MIGRATIONS);
  });

  test('are recorded in the history of prisma migrate, each with the SHA-256 of its file', async () => {
    await migrate(own.db);
    expect(await readHistory()).toEqual(
      await Promise.all(
        MIGRATIONS.map(async (name) => ({
          id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          checksum: sha256(await readFile(join(MIGRATIONS_DIR, name, 'migration.sql'))),
          finished_at: expect.any(Date),
          migration_name: name,
          logs: null,
          rolled_back_at: null,
          started_at: expect.any(Date),
          applied_steps_count: (await readStepsOf(name)).length,
        })),
      ),
    );
  });
});

// As Prisma's schema engine creates it (sql-schema-connector, PostgreSQL).
test("the history table has the same columns as Prisma's", async () => {
  await migrate(own.db);
  const facts = (await readFacts()).filter((fact) => fact.includes('_prisma_migrations'));
  expect(facts.map((fact) => fact.replaceAll('_prisma_migrations', 'h')).toSorted()).toEqual([
    'column h.applied_steps_count: integer not null',
    'column h.checksum: character varying(64) not null',
    'column h.finished_at: timestamp with time zone null',
    'column h.id: character varying(36) not null',
    'column h.logs: text null',
    'column h.migration_name: character varying(255) not null',
    'column h.rolled_back_at: timestamp with time zone null',
    'column h.started_at: timestamp with time zone not null',
    'default h.applied_steps_count: 0',
    'default h.started_at: now()',
    'primary key h_pkey of h (id)',
    'table h',
  ]);
});

test('a new migration is applied, and earlier migrations are not applied again', async () => {
  await own.write('1_first', oneStep('CREATE TABLE first (id int)'));
  expect(await migrate(own.db, { migrationsDir: own.folder })).toEqual(['1_first']);
  await own.write('3_third', oneStep('ALTER TABLE second ADD third int'));
  await own.write('2_second', oneStep('CREATE TABLE second (id int)'));
  expect(await migrate(own.db, { migrationsDir: own.folder })).toEqual(['2_second', '3_third']);
  expect(await readTables()).toEqual(['first', 'second']);
});

test('an applied migration that was edited is refused by name, and no later migration is applied', async () => {
  await own.write('1_first', oneStep('CREATE TABLE first (id int)'));
  await own.write('2_second', oneStep('CREATE TABLE second (id int)'));
  await migrate(own.db, { migrationsDir: own.folder });
  await own.write('2_second', oneStep('CREATE TABLE second (id bigint)'));
  await own.write('3_third', oneStep('CREATE TABLE third (id int)'));
  await expect(migrate(own.db, { migrationsDir: own.folder })).rejects.toThrow(
    'Migration 2_second was changed after it was applied',
  );
  expect(await readTables()).toEqual(['first', 'second']);
  await own.write('2_second', oneStep('CREATE TABLE second (id int)'));
  expect(await migrate(own.db, { migrationsDir: own.folder })).toEqual(['3_third']);
});

test('a database whose first migration is another one was made before the first release', async () => {
  await own.write('1_first', oneStep('CREATE TABLE first (id int)'));
  await migrate(own.db, { migrationsDir: own.folder });
  await own.write('1_first', oneStep('CREATE TABLE first (id bigint)'));
  await expect(migrate(own.db, { migrationsDir: own.folder })).rejects.toThrow('that was not published');
  expect(await readTables()).toEqual(['first']);
});

describe('a migration that failed under Prisma', () => {
  beforeEach(async () => {
    await own.write('0_before', oneStep('SELECT 1'));
    await migrate(own.db, { migrationsDir: own.folder });
    await own.write('1_first', oneStep('CREATE TABLE first (id int)'));
    await own.db.pool.query(
      `INSERT INTO _prisma_migrations (id, checksum, migration_name, logs) VALUES ('1', $1, '1_first', 'It failed.')`,
      [sha256(oneStep('CREATE TABLE first (id int)'))],
    );
  });

  test('is refused by name, with the command that resolves it', async () => {
    await expect(migrate(own.db, { migrationsDir: own.folder })).rejects.toThrow(
      'Migration 1_first failed earlier and is half applied; mend it with "prisma migrate resolve".',
    );
    expect(await readTables()).toEqual([]);
  });

  test('is applied after it is resolved as rolled back', async () => {
    await own.db.pool.query("UPDATE _prisma_migrations SET rolled_back_at = now() WHERE migration_name = '1_first'");
    expect(await migrate(own.db, { migrationsDir: own.folder })).toEqual(['1_first']);
    expect(await migrate(own.db, { migrationsDir: own.folder })).toEqual([]);
    expect(await readTables()).toEqual(['first']);
  });

  test('counts as applied after it is resolved as applied', async () => {
    await own.db.pool.query('UPDATE _prisma_migrations SET finished_at = now()');
    expect(await migrate(own.db, { migrationsDir: own.folder })).toEqual([]);
    expect(await readTables()).toEqual([]);
  });
});

describe('a migration that fails', () => {
  test('rolls back its step, keeps the migrations before it, and is applied after it is fixed', async () => {
    await own.write('1_first', oneStep('CREATE TABLE first (id int)'));
    await own.write('2_second', oneStep('CREATE TABLE second (id int); SELECT nonsense; CREATE TABLE third (id int)'));
    await expect(migrate(own.db, { migrationsDir: own.folder })).rejects.toThrow('column "nonsense" does not exist');
    expect(await readTables()).toEqual(['first']);
    await own.write('2_second', oneStep('CREATE TABLE second (id int)'));
    await own.db.pool.query("UPDATE _prisma_migrations SET rolled_back_at = now() WHERE migration_name = '2_second'");
    expect(await migrate(own.db, { migrationsDir: own.folder })).toEqual(['2_second']);
    expect(await readTables()).toEqual(['first', 'second']);
  });
});
