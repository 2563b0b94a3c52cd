import type { PoolClient } from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { type Migration, readMigrations, type StepMode } from '#dist/db/migration-files.js';
import { type OpenDatabase, openTestDatabase } from '../support/database.js';
import { cutMigration } from '../support/migrations.js';
import { shoeSizes } from '../support/release.js';

/** Rules for migrations, with which the service goes on while they are applied. A migration of this test keeps them, and others break each. */

const ofPackage = await readMigrations();
const GOOD = await cutMigration('2_shoe_sizes', shoeSizes(100));

/** One statement that can be run twice and keeps nobody waiting, or a part of the rows. */
const RULES: Partial<Record<StepMode, RegExp>> = {
  'without a transaction':
    /^(CREATE (UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS|DROP INDEX CONCURRENTLY IF EXISTS|ALTER TABLE \S+ VALIDATE CONSTRAINT) [^;]+;?$/,
  'in batches': /^(UPDATE|DELETE|INSERT|WITH) [^;]+\bLIMIT\b[^;]+;?$/,
};

/** The steps that break the rule of their kind. */
const faultsOf = (migrations: readonly Migration[]) =>
  migrations.flatMap(({ name, steps }) =>
    steps.filter(({ mode, sql }) => RULES[mode]?.test(sql) === false).map(({ what }) => `${name}: ${what}`),
  );

test('each step keeps the rule of its kind', async () => {
  expect(faultsOf([...ofPackage, GOOD])).toEqual([]);
  const bad = [
    '-- step without a transaction: cannot be run twice\nCREATE INDEX CONCURRENTLY i ON users (wallet);',
    '-- step without a transaction: two statements\nDROP INDEX CONCURRENTLY IF EXISTS i; SELECT 1;',
    '-- step in batches: all rows at once\nUPDATE users SET wallet = NULL;',
  ];
  expect(faultsOf([await cutMigration('3_bad', bad.join('\n'))])).toEqual([
    '3_bad: cannot be run twice',
    '3_bad: two statements',
    '3_bad: all rows at once',
  ]);
});

/** What is dropped, with the oldest release that may be running then. */
function dropsOf(migrations: readonly Migration[]): string[] {
  let oldest = '';
  return migrations.flatMap(({ name, steps }) =>
    steps.flatMap(({ sql }) => {
      oldest = /FUNCTION oldest_release\(\)[^;]*RETURN '([\d.]+)'/.exec(sql)?.[1] ?? oldest;
      return [...sql.matchAll(/DROP (?:TABLE|COLUMN) "?\w+/g)].map(([drop]) => `${name}: ${drop}, from ${oldest} on`);
    }),
  );
}

test('a table or a column is dropped only after the releases that use it are left behind', async () => {
  const dropping = await cutMigration('3_dropping', '-- step: drops a table\nDROP TABLE accounts;');
  // Add here what a migration of this package drops, and from which release on: no older one may use it.
  expect(dropsOf([...ofPackage, GOOD, dropping])).toEqual(['3_dropping: DROP TABLE accounts, from 2.0.0 on']);
});

/** A session of PostgreSQL says what a transaction has locked, scanned and rewritten. */
describe.runIf(inject('engine') === 'postgres')('what a step in one transaction does', () => {
  let db: OpenDatabase;
  let client: PoolClient;
  beforeAll(async () => {
    db = await openTestDatabase();
    await db.pool.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
    client = await db.pool.connect();
  });
  afterAll(async () => {
    client.release();
    await db.drop();
  });

  interface Table {
    readonly name: string;
    readonly file: number;
    readonly scans: number;
    readonly changed: number;
  }
  const TABLES = `
    SELECT c.relname AS name, pg_relation_filenode(c.oid) AS file, pg_stat_get_xact_numscans(c.oid)::int AS scans,
           (pg_stat_get_xact_tuples_updated(c.oid) + pg_stat_get_xact_tuples_deleted(c.oid))::int AS changed
    FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname <> '_prisma_migrations' ORDER BY 1`;
  const LOCKS = `
    SELECT c.relname AS table, array_agg(l.mode) AS modes FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
    WHERE l.pid = pg_backend_pid() AND l.granted AND c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace GROUP BY 1`;
  /** From the weakest. */
  const MODES = [
    'ACCESS SHARE',
    'ROW SHARE',
    'ROW EXCLUSIVE',
    'SHARE UPDATE EXCLUSIVE',
    'SHARE',
    'SHARE ROW EXCLUSIVE',
    'EXCLUSIVE',
    'ACCESS EXCLUSIVE',
  ];
  /** PostgreSQL calls it AccessExclusiveLock. */
  const nameOf = (mode: string) =>
    mode
      .replace(/Lock$/, '')
      .replace(/(?<=.)(?=[A-Z])/g, ' ')
      .toUpperCase();
  /** PostgreSQL counts for a session until it has time to add that up, so a step is what is between two looks. */
  const readTables = async () =>
    new Map((await client.query<Table>(TABLES)).rows.map(({ name, ...counted }) => [name, counted]));

  /** Runs a step, and leaves what it does. */
  async function measure(sql: string) {
    await client.query('BEGIN');
    const before = await readTables();
    await client.query(sql);
    const locked = (await client.query(LOCKS)).rows;
    const after = await readTables();
    await client.query('COMMIT');
    const differing = (what: 'file' | 'scans' | 'changed') =>
      [...before.keys()].filter((name) => after.has(name) && after.get(name)?.[what] !== before.get(name)?.[what]);
    const dropped = [...before.keys()].filter((name) => !after.has(name));
    return {
      // A table that is new in this transaction is nobody else's yet, and what is only read is not worth a word.
      locks: locked
        .filter(({ table }) => before.has(table))
        .map(({ table, modes }) => ({
          table,
          lock: modes.map(nameOf).toSorted((a: string, b: string) => MODES.indexOf(b) - MODES.indexOf(a))[0],
        }))
        .filter(({ lock }) => lock !== 'ACCESS SHARE')
        .concat(dropped.map((table) => ({ table, lock: 'ACCESS EXCLUSIVE' })))
        .toSorted((a, b) => a.table.localeCompare(b.table)),
      scanned: differing('scans'),
      rewritten: differing('file'),
      changed: differing('changed'),
    };
  }

  test('is measured', async () => {
    await client.query('CREATE TABLE measured (id int); INSERT INTO measured VALUES (1)');
    const clean = { locks: [{ table: 'measured', lock: 'ACCESS EXCLUSIVE' }], scanned: [], rewritten: [], changed: [] };
    expect(await measure('ALTER TABLE measured ADD COLUMN a int')).toEqual(clean);
    expect(await measure('ALTER TABLE measured ADD CONSTRAINT c CHECK (id > 0)')).toEqual({
      ...clean,
      scanned: ['measured'],
    });
    expect(await measure('ALTER TABLE measured ALTER id TYPE bigint')).toMatchObject({ rewritten: ['measured'] });
    expect(await measure("DO $$ BEGIN EXECUTE 'UPDATE measured SET id = 2'; END $$")).toMatchObject({
      locks: [{ table: 'measured', lock: 'ROW EXCLUSIVE' }],
      changed: ['measured'],
    });
    await client.query('DROP TABLE measured');
  });

  test('is what its file says, and reads and rewrites no table', async () => {
    const found: object[] = [];
    const wanted: object[] = [];
    for (const { name, steps } of [...ofPackage, GOOD])
      for (const { what, mode, locks, sql } of steps) {
        if (mode !== 'in one transaction') await client.query(sql);
        else {
          found.push({ name, what, ...(await measure(sql)) });
          wanted.push({ name, what, locks, scanned: [], rewritten: [], changed: [] });
        }
      }
    expect(found).toEqual(wanted);
    expect(found.length).toBeGreaterThan(1);
  });
});
