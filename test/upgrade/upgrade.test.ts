import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliDecompressSync, constants, gunzipSync } from 'node:zlib';
import { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Json } from '../support/app.js';
import { BIN, hasPostgres } from '../support/cluster.js';
import { lookingOn, outcomeOf, type Settings, spawnUserdir, userdirJson } from '../support/command.js';
import { createEmptyDatabase, type Engine, queryPostgres, type TestDatabase } from '../support/engines.js';
import { makeRelease, type Release, shoeSizes } from '../support/release.js';
import { readWholeSchema } from '../support/schema-facts.js';

/** Databases of earlier releases (make-fixture.mjs) become those of this one, and keep every row. */

const FOLDER = import.meta.dirname;
const VERSIONS = readdirSync(FOLDER)
  .flatMap((file) => /^(.+)\.sql\.gz$/.exec(file)?.[1] ?? [])
  .sort();

/** A database while no process has it. */
interface Resting extends TestDatabase {
  query(sql: string): Promise<Json[]>;
}

async function createResting(engine: Engine = inject('engine')): Promise<Resting> {
  const made = await createEmptyDatabase(engine);
  const onPostgres = (sql: string) => queryPostgres(made.env['DATABASE_URL'], sql);
  return { ...made, query: engine === 'postgres' ? onPostgres : queryEmbedded };

  async function queryEmbedded(sql: string): Promise<Json[]> {
    const engine = await PGlite.create(join(made.env['DATA_DIR'] as string, 'pgdata'));
    return (await engine.query<Json>(sql).finally(() => engine.close())).rows;
  }
}

/** The database of a release. */
async function restore(version: string): Promise<Resting> {
  const database = await createResting();
  const read = (name: string) => readFileSync(join(FOLDER, `${version}.${name}`));
  if (inject('engine') === 'postgres') {
    // Lines that begin with a backslash are commands of psql.
    await database.query(
      gunzipSync(read('sql.gz'))
        .toString()
        .replaceAll(/^\\.*$/gm, ''),
    );
    // As if it had always been here: it is upgraded, and not restored.
    await database.query(
      `DO $$ BEGIN
         IF to_regclass('public.changes_feed') IS NOT NULL THEN
           UPDATE public.changes_feed SET incarnation = public.changes_incarnation();
         END IF;
       END $$`,
    );
  } else {
    const params = { [constants.BROTLI_DECODER_PARAM_LARGE_WINDOW]: 1 };
    const archive = brotliDecompressSync(read('data.tar.br'), { params });
    execFileSync('tar', ['--extract', '--directory', database.env['DATA_DIR'] as string], { input: archive });
  }
  return database;
}

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

async function createMigrated(engine?: Engine, release?: Release): Promise<Resting> {
  const database = await createResting(engine);
  expect(await outcomeOf(spawnUserdir(database.env, ['migrate'], release?.command))).toMatchObject({ code: 0 });
  return database;
}

/** New databases of a release, on each engine, with their schemas; made once. */
const news = new Map<Release | undefined, Promise<{ database: Resting; schema: string[] }[]>>();
afterAll(async () => {
  for (const created of news.values()) for (const { database } of await created) await database.drop();
});

async function requireSchemaOfNew(database: Resting, release?: Release): Promise<void> {
  const create = async (engine: Engine) => {
    const created = await createMigrated(engine, release);
    return { database: created, schema: await readSchema(created) };
  };
  const engines = new Set<Engine>(['embedded', inject('engine')]);
  if (!news.has(release)) news.set(release, Promise.all([...engines].map(create)));
  const created = (await news.get(release)) ?? [];
  const schema = await readSchema(database);
  for (const each of created) expect(each.schema).toEqual(schema);
  const [, onServer] = created;
  if (onServer !== undefined && hasPostgres) expect(dumpSchema(database)).toBe(dumpSchema(onServer.database));
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

/** What 2.0.0 has dropped: tables, and columns of others. */
const DROPPED = new Set([
  'user_notes',
  'documents',
  'projects.documents_version',
  'app_secrets.documents_only',
  'project_moves',
  'request_hours',
]);
/** What each database has of its own. */
const OWN = 'changes_feed.incarnation';

/** The rows of the tables and columns that were there before, and are not dropped, in an order of their own. */
function inColumnsOf(before: Rows, rows: Rows): Record<string, string[]> {
  const kept = Object.entries(before).filter(([table]) => !DROPPED.has(table));
  return Object.fromEntries(
    kept.map(([table, [sample = {}]]) => {
      const columns = Object.keys(sample).filter(
        (column) => !DROPPED.has(`${table}.${column}`) && `${table}.${column}` !== OWN,
      );
      const lines = (rows[table] ?? []).map((row) => JSON.stringify(columns.map((column) => row[column])));
      return [table, lines.toSorted()];
    }),
  );
}

/** Runs `migrate` again and again, and kills it at the first step at which it was not killed before. Returns these steps. */
async function killAtEachStep(settings: Settings, { command }: Release): Promise<string[]> {
  const steps = new Set<string>();
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
    if (code === 0) return [...steps];
    expect([code, code === null ? '' : stderr]).toEqual([null, '']);
  }
}

describe.each(VERSIONS)('a database of %s', (version) => {
  let database: Resting;
  let before: Rows;
  beforeAll(async () => {
    database = await restore(version);
    before = await readRows(database);
  });
  afterAll(() => database.drop());

  async function requireEveryRow(): Promise<void> {
    const { _prisma_migrations: history, ...rows } = inColumnsOf(before, before);
    const { _prisma_migrations: newHistory, ...newRows } = inColumnsOf(before, await readRows(database));
    expect(newRows).toEqual({ ...rows, bans: rows['bans']?.map(asOpenTerms) });
    expect(newHistory).toEqual(expect.arrayContaining(history as string[]));
  }

  test('keeps every row, and gets the schema of a new database, on both engines', async () => {
    expect(Object.entries(before).filter(([, rows]) => rows.length === 0)).toEqual([]);
    await userdirJson(database.env, ['migrate']);
    await requireEveryRow();
    expect(await userdirJson(database.env, ['totals', 'check'])).toMatchObject({ differences: [] });
    await requireSchemaOfNew(database);
  });

  // The steps from older releases to the newest one were tried so when they were new, and never change.
  test.runIf(version === VERSIONS.at(-1))(
    'keeps every row when the process is killed at each step of a migration',
    async () => {
      const release = makeRelease('99.0.0', { '20990101000000_shoe_sizes': shoeSizes(500) });
      // On the embedded database, where each start takes long, only at the steps beyond those of the test before.
      if (inject('engine') === 'postgres') {
        await database.drop();
        database = await restore(version);
      }
      const steps = await killAtEachStep(database.env, release);
      expect(steps.length).toBeGreaterThanOrEqual(3);
      await requireEveryRow();
      await requireSchemaOfNew(database, release);
      release.remove();
    },
    // Each of some twenty steps starts the command anew.
    600_000,
  );
});

test.runIf(inject('engine') === 'embedded')(
  'a data directory that PGlite makes itself gets the schema of the packed one',
  async () => {
    const own = await createResting();
    await own.query('SELECT 1');
    await userdirJson(own.env, ['migrate']);
    await requireSchemaOfNew(own);
    await own.drop();
  },
);

/** A ban as this release keeps it: no reason is an empty one, and no end is infinite. */
function asOpenTerms(row: string): string {
  const [id, reason, key, createdAt, expiresAt, ...rest] = JSON.parse(row);
  return JSON.stringify([id, reason ?? '', key, createdAt, expiresAt ?? 'infinity', ...rest]);
}
