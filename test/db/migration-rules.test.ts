import type { PoolClient } from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { type Migration, readMigrations, type Step } from '#dist/db/migration-files.js';
import { type OpenDatabase, openTestDatabase } from '../support/database.js';
import { findFaults } from '../support/migration-rules.js';

/** Rules for the migrations that are cut into steps, with which the service goes on while they are applied. */

/** The last one from before. */
const LAST_TOGETHER = '20261124070000_room_for_logins';
const all = await readMigrations();
const stepped = all.filter(({ name }) => name > LAST_TOGETHER);

const step = (sql: string, mode: Step['mode'] = 'in one transaction'): Step => ({ what: 'test', mode, locks: [], sql });
const faultsOf = (...steps: Step[]) => findFaults({ name: '1_test', steps });
const NEEDED = 'ALTER TABLE users ADD CONSTRAINT needed CHECK (a IS NOT NULL) NOT VALID';
const VALIDATE = step('ALTER TABLE users VALIDATE CONSTRAINT needed', 'without a transaction');

describe('statements', () => {
  test.each<[string, Step[]]>([
    ['a column', [step('ALTER TABLE users ADD COLUMN a int')]],
    [
      'a column with a constant default',
      [step("ALTER TABLE users ADD COLUMN a int NOT NULL DEFAULT 1, ADD b text DEFAULT 'x'::text")],
    ],
    ['a constraint in two steps', [step(NEEDED), VALIDATE]],
    [
      'NOT NULL after a validated constraint',
      [step(NEEDED), VALIDATE, step('ALTER TABLE users ALTER a SET NOT NULL, DROP CONSTRAINT needed')],
    ],
    ['an index', [step('CREATE INDEX CONCURRENTLY IF NOT EXISTS i ON users (a)', 'without a transaction')]],
    ['a constraint with the index', [step('ALTER TABLE users ADD CONSTRAINT i UNIQUE USING INDEX i')]],
    ['dropping an index', [step('DROP INDEX CONCURRENTLY IF EXISTS i', 'without a transaction')]],
    [
      'batches',
      [step('UPDATE users SET a = 1 WHERE id IN (SELECT id FROM users WHERE a IS NULL LIMIT 100)', 'in batches')],
    ],
    [
      'a table with an index and rows',
      [step('CREATE TABLE t (a int); CREATE INDEX i ON t (a); INSERT INTO t VALUES (1); UPDATE t SET a = 2')],
    ],
    [
      'functions and triggers',
      [step('CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql RETURN 1; DROP TRIGGER t ON users; SELECT f()')],
    ],
  ])('%s is allowed', async (_, steps) => {
    expect(await faultsOf(...steps)).toEqual([]);
  });

  test.each<[string, Step, string]>([
    ['an index', step('CREATE INDEX i ON users (a)'), 'an index of users is made by CREATE INDEX CONCURRENTLY'],
    [
      'an index that cannot be made twice',
      step('CREATE INDEX CONCURRENTLY i ON users (a)', 'without a transaction'),
      'expected CREATE INDEX CONCURRENTLY IF NOT EXISTS',
    ],
    ['dropping an index', step('DROP INDEX i'), 'an index is dropped by DROP INDEX CONCURRENTLY'],
    [
      'a constraint that is validated',
      step('ALTER TABLE users ADD CONSTRAINT c CHECK (a > 1)'),
      'the constraint c of users must be NOT VALID',
    ],
    [
      'a foreign key that is validated',
      step('ALTER TABLE users ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES bans (id)'),
      'the constraint c of users must be NOT VALID',
    ],
    [
      'a unique constraint',
      step('ALTER TABLE users ADD CONSTRAINT c UNIQUE (a)'),
      'needs an index that was made before',
    ],
    [
      'validation under the lock',
      step('ALTER TABLE users VALIDATE CONSTRAINT c'),
      'AT_ValidateConstraint of users is not known to be short',
    ],
    ['NOT NULL', step('ALTER TABLE users ALTER a SET NOT NULL'), 'SET NOT NULL reads all of users'],
    [
      'another type',
      step('ALTER TABLE users ALTER a TYPE text'),
      'AT_AlterColumnType of users is not known to be short',
    ],
    [
      'a column with a default of each row',
      step('ALTER TABLE users ADD COLUMN a int DEFAULT random()'),
      'is not a constant',
    ],
    [
      'a column with a sequence',
      step('ALTER TABLE users ADD COLUMN a int GENERATED ALWAYS AS IDENTITY'),
      'CONSTR_IDENTITY of the new column users.a',
    ],
    [
      'a computed column',
      step('ALTER TABLE users ADD COLUMN a int GENERATED ALWAYS AS (id) STORED'),
      'CONSTR_GENERATED of the new column users.a',
    ],
    [
      'a column with a key',
      step('ALTER TABLE users ADD COLUMN a int REFERENCES bans (id)'),
      'CONSTR_FOREIGN of the new column users.a',
    ],
    ['an update of all rows', step('UPDATE users SET a = 1'), 'rows of users are changed in batches'],
    ['a removal', step('DELETE FROM users WHERE a = 1'), 'rows of users are changed in batches'],
    ['a batch of all rows', step('UPDATE users SET a = 1 WHERE a IS NULL', 'in batches'), 'a batch must have a LIMIT'],
    ['two batches', step('DELETE FROM users; DELETE FROM bans', 'in batches'), 'it must be one statement'],
    ['a copy', step('CREATE TABLE t (a int); INSERT INTO t SELECT id FROM users'), 'a statement that reads tables'],
    [
      'a copy into a new table',
      step('CREATE TABLE t AS SELECT id FROM users'),
      'CreateTableAsStmt is not known to be short',
    ],
    ['TRUNCATE', step('TRUNCATE users'), 'TruncateStmt is not known to be short'],
    ['LOCK', step('LOCK TABLE users'), 'LockStmt is not known to be short'],
    ['CLUSTER', step('CLUSTER users USING i', 'without a transaction'), 'expected CREATE INDEX CONCURRENTLY'],
  ])('%s is refused', async (_, given, fault) => {
    expect((await faultsOf(given)).join('\n')).toContain(fault);
  });

  test('of the migrations before, which were written without these rules, most are refused', async () => {
    const before = all.filter(({ name }) => name <= LAST_TOGETHER);
    expect(await findFaults(before[0] as Migration)).toEqual([`${before[0]?.name} is not cut into steps.`]);
    const asSteps = await Promise.all(before.map(({ name, sql }) => findFaults({ name, steps: [step(sql)] })));
    expect(asSteps.filter((faults) => faults.length > 0).length).toBeGreaterThan(before.length / 3);
  });
});

test('every migration from now on keeps the rules', async () => {
  expect(stepped.length).toBeGreaterThan(0);
  expect((await Promise.all(stepped.map(findFaults))).flat()).toEqual([]);
});

test('a table or a column is dropped only after the releases that use it are left behind', () => {
  let oldest = '';
  const drops = stepped.flatMap(({ name, steps }) =>
    (steps ?? []).flatMap(({ sql }) => {
      oldest = /FUNCTION oldest_release\(\)[^;]*RETURN '([\d.]+)'/.exec(sql)?.[1] ?? oldest;
      return [...sql.matchAll(/DROP (?:TABLE|COLUMN) "?\w+/g)].map(([drop]) => `${name}: ${drop}, from ${oldest} on`);
    }),
  );
  expect(drops).toEqual([
    '20261128060000_no_notes: DROP TABLE "user_notes, from 2.0.0 on',
    '20261128070000_no_documents: DROP TABLE "documents, from 2.0.0 on',
    '20261128070000_no_documents: DROP COLUMN "documents_version, from 2.0.0 on',
    '20261128070000_no_documents: DROP COLUMN "documents_only, from 2.0.0 on',
    '20261128112000_no_moves: DROP TABLE project_moves, from 2.0.0 on',
  ]);
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
    for (const { name, sql, steps } of all) {
      if (steps === null) await client.query(sql);
      for (const { what, mode, locks, sql: statements } of steps ?? []) {
        if (mode !== 'in one transaction') await client.query(statements);
        else {
          found.push({ name, what, ...(await measure(statements)) });
          wanted.push({ name, what, locks, scanned: [], rewritten: [], changed: [] });
        }
      }
    }
    expect(found).toEqual(wanted);
    expect(found.length).toBeGreaterThan(0);
  });
});
