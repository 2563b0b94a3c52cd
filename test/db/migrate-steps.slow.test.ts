import pg from 'pg';
import { afterEach, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import { type MigrateOptions, migrate } from '#dist/db/migrate.js';
import { oneStep, useMigrations } from '../support/migrations.js';
import { PATIENCE, untilLocked } from '../support/waiting.js';

/** A migration that is cut into steps (docs/decisions/migrations.md). */

const own = useMigrations();
beforeEach(async () => {
  await own.write('1_things', oneStep('CREATE TABLE things (id int PRIMARY KEY, name text, size int)'));
  await migrate(own.db, { migrationsDir: own.folder });
  await own.db.pool.query("INSERT INTO things SELECT n, 'thing ' || n FROM generate_series(1, 2500) n");
});

/** Applies what is in the folder; returns what was told. */
async function run(options: MigrateOptions = {}): Promise<string[]> {
  const told: string[] = [];
  await migrate(own.db, { migrationsDir: own.folder, tell: (sentence) => told.push(sentence), ...options });
  return told;
}

async function historyOf(name: string) {
  const { rows } = await own.db.pool.query(
    `SELECT applied_steps_count AS steps, finished_at IS NOT NULL AS "isFinished" FROM _prisma_migrations WHERE migration_name = $1`,
    [name],
  );
  return rows[0];
}

const readRow = async (sql: string) => (await own.db.pool.query(sql)).rows[0];

/** Fails until the table `gate` is there. */
const GATE = 'SELECT count(*) FROM gate;';

const STEPS = [
  ['-- step: adds a column', 'ALTER TABLE things ADD COLUMN color text;'],
  [
    '-- step without a transaction: makes an index',
    'CREATE INDEX CONCURRENTLY IF NOT EXISTS things_size ON things (size);',
  ],
  [
    '-- step in batches: gives each thing a size',
    'UPDATE things SET size = length(name) WHERE id IN (SELECT id FROM things WHERE size IS NULL ORDER BY id LIMIT 1000);',
  ],
  ['-- step: demands a size', 'ALTER TABLE things ADD CONSTRAINT has_size CHECK (size IS NOT NULL) NOT VALID;'],
  ['-- step without a transaction: checks the sizes', 'ALTER TABLE things VALIDATE CONSTRAINT has_size;'],
];
const fileOf = (steps: string[][]) => `-- What it is for.\n\n${steps.map((step) => step.join('\n')).join('\n\n')}\n`;

async function requireResult(): Promise<void> {
  expect(
    await readRow('SELECT count(*)::int AS things, sum(size)::int AS size, count(color)::int AS colors FROM things'),
  ).toEqual({
    things: 2500,
    size: 2500 * 'thing '.length + 9 + 90 * 2 + 900 * 3 + 1501 * 4,
    colors: 0,
  });
  expect(await readRow("SELECT indisvalid FROM pg_index WHERE indexrelid = 'things_size'::regclass")).toEqual({
    indisvalid: true,
  });
  expect(await readRow("SELECT convalidated FROM pg_constraint WHERE conname = 'has_size'")).toEqual({
    convalidated: true,
  });
}

test('each step is done in its order, and the history has their number', async () => {
  await own.write('2_sizes', fileOf(STEPS));
  const told = await run();
  await requireResult();
  expect(await historyOf('2_sizes')).toEqual({ steps: 5, isFinished: true });
  expect(told.filter((sentence) => sentence.startsWith('2_sizes, step'))).toEqual(
    STEPS.map(([line = ''], index) => `2_sizes, step ${index + 1} of 5: ${line.slice(line.indexOf(': ') + 2)}`),
  );
  expect(told.at(-1)).toMatch(/^Applied 2_sizes in \d+\.\d s\.$/);
  expect(await run()).toEqual([]);
});

test.each(STEPS.map((_, index) => index))(
  'a migration that failed after step %i goes on with the next one, and does none twice',
  async (done) => {
    const gated = STEPS.toSpliced(done, 0, ['-- step: fails at first', GATE]);
    await own.write('2_sizes', fileOf(gated));
    await expect(run()).rejects.toThrow('relation "gate" does not exist');
    expect(await historyOf('2_sizes')).toEqual({ steps: done, isFinished: false });
    await own.db.pool.query('CREATE TABLE gate ()');
    const told = await run();
    expect(told.filter((sentence) => sentence.includes(', step '))).toHaveLength(6 - done);
    await requireResult();
    expect(await historyOf('2_sizes')).toEqual({ steps: 6, isFinished: true });
  },
);

test('a step in batches commits each of them', async () => {
  const batch =
    'UPDATE things SET size = id / (2200 - id) WHERE id IN (SELECT id FROM things WHERE size IS NULL ORDER BY id LIMIT 1000);';
  await own.write('2_sizes', `-- step in batches: fails in the third\n${batch}`);
  await expect(run()).rejects.toThrow('division by zero');
  expect(
    await readRow('SELECT count(size)::int AS done, count(DISTINCT xmin::text)::int AS commits FROM things'),
  ).toEqual({
    done: 2000,
    // With that of the rows without a size.
    commits: 3,
  });
  await own.db.pool.query('DELETE FROM things WHERE id = 2200');
  await run();
  expect(await readRow('SELECT count(*)::int AS things FROM things WHERE size IS NULL')).toEqual({ things: 0 });
});

test('between its batches a step leaves the database alone for as long as each took', async () => {
  const began = 'ALTER TABLE things ADD COLUMN began timestamptz, ADD COLUMN ended timestamptz;';
  const batch = `UPDATE things SET size = 1, began = statement_timestamp(), ended = clock_timestamp()
    WHERE id IN (SELECT id FROM things, (SELECT pg_sleep(0.1)) AS waited WHERE size IS NULL ORDER BY id LIMIT 1000);`;
  await own.write('2_sizes', `-- step: adds columns\n${began}\n\n-- step in batches: slowly\n${batch}`);
  await run();
  const { rows } = await own.db.pool.query(`
    SELECT began - lag(max(ended)) OVER (ORDER BY began) >= 0.9 * lag(max(ended) - began) OVER (ORDER BY began) AS "isFree"
    FROM things GROUP BY began ORDER BY began`);
  expect(rows).toEqual([{ isFree: null }, { isFree: true }, { isFree: true }]);
});

test('a broken index, which an interrupted step has left, is dropped and made again', async () => {
  await own.db.pool.query("UPDATE things SET name = 'thing 1' WHERE id = 2");
  await own.write(
    '2_names',
    '-- step without a transaction: names are unique\nCREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS things_name ON things (name);',
  );
  await expect(run()).rejects.toThrow('could not create unique index');
  expect(await readRow("SELECT indisvalid FROM pg_index WHERE indexrelid = 'things_name'::regclass")).toEqual({
    indisvalid: false,
  });
  await own.db.pool.query("UPDATE things SET name = 'thing 2' WHERE id = 2");
  await run();
  expect(await readRow("SELECT indisvalid FROM pg_index WHERE indexrelid = 'things_name'::regclass")).toEqual({
    indisvalid: true,
  });
});

test('a migration that was changed after a part of it was applied is refused by name', async () => {
  await own.write('2_sizes', fileOf([...STEPS, ['-- step: fails', GATE]]));
  await expect(run()).rejects.toThrow('relation "gate" does not exist');
  await own.write('2_sizes', fileOf(STEPS));
  await expect(run()).rejects.toThrow('Migration 2_sizes was changed after it was applied to this database');
});

test.each([
  ['SELECT 1;\n-- step: something\nSELECT 1;', 'has statements before its first step'],
  ['SELECT 1;', 'has no step: begin it with "-- step: what it does"'],
  ['-- step: something\n-- locks: things\nSELECT 1;', 'has a malformed lock: "things"'],
])('a malformed file is refused: %j', async (sql, message) => {
  await own.write('2_wrong', sql);
  await expect(run()).rejects.toThrow(message);
});

describe.runIf(inject('engine') === 'postgres')('while others use the tables', () => {
  const clients: pg.Client[] = [];
  async function connect(): Promise<pg.Client & { pid: number }> {
    const client = new pg.Client(own.db.pool.options);
    await client.connect();
    clients.push(client);
    const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
    return Object.assign(client, rows[0]);
  }
  afterEach(() => Promise.all(clients.splice(0).map((client) => client.end())));

  test('a step waits for a transaction, says for which, and lets others go on meanwhile', async () => {
    await own.write('2_sizes', fileOf(STEPS));
    const [holder, writer] = [await connect(), await connect()];
    await holder.query('BEGIN; SELECT count(*) FROM things');
    const told: string[] = [];
    const migrating = run({ tell: (sentence) => told.push(sentence) });
    await vi.waitUntil(() => told.some((sentence) => sentence.includes('waits for other transactions')), PATIENCE);
    expect(told.join('\n')).toContain(
      `the oldest, of PostgreSQL's process ${holder.pid} and role ${holder.user}, open for`,
    );
    expect(told.join('\n')).toContain('uses things');
    // They would wait for the holder in line behind the step.
    for (let round = 0; round < 5; round += 1) await writer.query('UPDATE things SET size = NULL WHERE id = 1');
    await holder.query('COMMIT');
    await migrating;
    await requireResult();
  });

  test('a step that finds no moment in time says so, and how to go on', async () => {
    await own.write('2_sizes', fileOf(STEPS));
    const holder = await connect();
    await holder.query('BEGIN; SELECT count(*) FROM things');
    await expect(run({ waitMs: 500 })).rejects.toMatchObject({
      exitCode: 4,
      message: expect.stringMatching(
        /^2_sizes, adds a column: other transactions left no moment for it in \d\.\d s; the oldest, of PostgreSQL's process \d+ and role \w+, open for \d+ s, uses things\. What is done stays done\. Run npm run -s userdir -- migrate again/,
      ),
    });
    await holder.query('COMMIT');
    await run();
    await requireResult();
  });

  test('a step without a transaction waits for a snapshot without holding up anybody, and ends when it is interrupted', async () => {
    await own.write('2_sizes', fileOf(STEPS.slice(0, 3)));
    const [holder, writer] = [await connect(), await connect()];
    await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
    const interruption = new AbortController();
    const migrating = run({ signal: interruption.signal }).catch((error) => error.message);
    await untilLocked(writer, 'CREATE INDEX CONC');
    await writer.query('UPDATE things SET size = NULL WHERE id = 1');
    interruption.abort(new Error('Interrupted.'));
    expect(await migrating).toBe('Interrupted.');
    expect(await historyOf('2_sizes')).toEqual({ steps: 1, isFinished: false });
    await holder.query('COMMIT');
    await run();
    expect(await historyOf('2_sizes')).toEqual({ steps: 3, isFinished: true });
  });

  test('processes that migrate at once do not wait for each other in a circle', async () => {
    await own.write('2_sizes', fileOf(STEPS));
    const others = [own.db.another(), own.db.another(), own.db.another()];
    const applied = await Promise.all(others.map((other) => migrate(other, { migrationsDir: own.folder }))).finally(
      () => Promise.all(others.map((other) => other.close())),
    );
    expect(applied.flat()).toEqual(['2_sizes']);
    await requireResult();
  });
});
