import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, expect, inject, test } from 'vitest';
import type { Json } from '../support/app.js';
import { BIN, hasPostgres } from '../support/cluster.js';
import { lookingOn, outcomeOf, type Settings, spawnUserdir, userdirJson } from '../support/command.js';
import type { Engine } from '../support/engines.js';
import { isNightly } from '../support/nightly.js';
import { makeRelease, type Release, shoeSizes } from '../support/release.js';
import { readWholeSchema } from '../support/schema-facts.js';
import { fill } from './fill.js';
import { createMigrated, createResting, type Resting } from './resting.js';

/** A database of this release becomes one of the next, which is a copy of this build with one more migration, and keeps every row. */

const next = makeRelease('99.0.0', { '20990101000000_shoe_sizes': shoeSizes(500) });
afterAll(() => next.remove());

/** A dump and its restore keep no parentheses around those of several conditions that come first. */
const withoutParentheses = (text: string) => text.replaceAll(/[()]/g, '');

async function readSchema({ query }: Resting): Promise<string[]> {
  const facts = await readWholeSchema({ query: async (sql) => ({ rows: await query(sql) }) });
  return [...facts].map(withoutParentheses).toSorted();
}

/** The dump of the schema, without the commands of psql, which have a random word. */
function dumpSchema({ env }: Resting): string {
  const args = ['--schema-only', '--no-owner', '--no-privileges', env['DATABASE_URL'] as string];
  const dump = execFileSync(join(BIN, 'pg_dump'), args, { encoding: 'utf8' });
  return withoutParentheses(dump.replaceAll(/^\\.*$/gm, ''));
}

/** A new database of a release has the same schema, on each engine. */
async function requireSchemaOfNew(database: Resting, release?: Release): Promise<void> {
  const schema = await readSchema(database);
  for (const engine of new Set<Engine>(['embedded', inject('engine')])) {
    await using created = await createMigrated(engine, release);
    expect(await readSchema(created)).toEqual(schema);
    if (engine === 'postgres' && hasPostgres) expect(dumpSchema(database)).toBe(dumpSchema(created));
  }
}

type Rows = Record<string, Json[]>;

async function readRows({ query }: Resting): Promise<Rows> {
  const tables = await query(
    "SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1",
  );
  const all = tables.map(
    ({ name }) => `SELECT '${name}' AS name, coalesce(jsonb_agg(to_jsonb(t)), '[]') AS rows FROM public."${name}" t`,
  );
  return Object.fromEntries((await query(all.join(' UNION ALL '))).map(({ name, rows }) => [name, rows]));
}

/** The rows in the columns that were there before, in an order of their own. */
function inColumnsOf(before: Rows, rows: Rows): Record<string, string[]> {
  return Object.fromEntries(
    Object.entries(before).map(([table, [sample = {}]]) => {
      const columns = Object.keys(sample);
      const lines = (rows[table] ?? []).map((row) => JSON.stringify(columns.map((column) => row[column])));
      return [table, lines.toSorted()];
    }),
  );
}

/** Runs `migrate` again and again, and kills it at the first step that is not among `steps`, where it was killed before. Adds these steps. */
async function killAtEachStep(settings: Settings, { command }: Release, steps: Set<string>): Promise<void> {
  for (;;) {
    const child = spawnUserdir(settings, ['migrate'], lookingOn(command));
    let told = '';
    child.stderr.on('data', (text) => {
      told += text;
      const step = [...told.matchAll(/\w+, step \d+ of \d+/g)].map(([each]) => each).find((each) => !steps.has(each));
      if (step === undefined || child.killed) return;
      steps.add(step);
      child.kill('SIGKILL');
    });
    const { code, stderr } = await outcomeOf(child);
    if (code === 0) return;
    expect([code, code === null ? '' : stderr]).toEqual([null, '']);
  }
}

/** Upgrades a database of this release, which has some of everything, and is killed at steps on the way. */
async function upgradeKilled(steps: Set<string>): Promise<void> {
  await using database = await createMigrated();
  await fill(database);
  const before = await readRows(database);
  expect(Object.entries(before).filter(([, rows]) => rows.length === 0)).toEqual([]);
  await killAtEachStep(database.env, next, steps);
  const { _prisma_migrations: history, ...rows } = inColumnsOf(before, before);
  const { _prisma_migrations: newHistory, ...newRows } = inColumnsOf(before, await readRows(database));
  expect(newRows).toEqual(rows);
  expect(newHistory).toEqual(expect.arrayContaining(history as string[]));
  expect(await database.query('SELECT FROM users WHERE shoe_size IS NULL')).toEqual([]);
  expect(await userdirJson(database.env, ['totals', 'check'])).toMatchObject({ differences: [] });
  await requireSchemaOfNew(database, next);
}

test('an upgrade keeps every row, also when it is killed at each step, and gives the schema of a new database', async () => {
  const steps = [1, 2, 3].map((step) => `20990101000000_shoe_sizes, step ${step} of 3`);
  const killed = new Set<string>();
  // On a busy machine the next step may have ended, too, before a kill arrives. Another database is killed there.
  for (let upgrades = 0; upgrades < steps.length && killed.size < steps.length; upgrades += 1)
    await upgradeKilled(killed);
  expect([...killed].sort()).toEqual(steps);
});

test.runIf(isNightly && inject('engine') === 'embedded')(
  'a data directory that PGlite makes itself gets the schema of the packed one',
  async () => {
    await using own = await createResting();
    await own.query('SELECT 1');
    await userdirJson(own.env, ['migrate']);
    await requireSchemaOfNew(own);
  },
);
