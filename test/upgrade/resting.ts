import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { expect, inject } from 'vitest';
import type { Json } from '../support/app.js';
import { outcomeOf, spawnUserdir } from '../support/command.js';
import { createEmptyDatabase, type Engine, queryPostgres, type TestDatabase } from '../support/engines.js';
import type { Release } from '../support/release.js';

/** A database while no process has it. */
export interface Resting extends TestDatabase {
  /** Runs statements; returns the rows of the last one. */
  query(sql: string): Promise<Json[]>;
}

export async function createResting(engine: Engine = inject('engine')): Promise<Resting> {
  const made = await createEmptyDatabase(engine);
  const onPostgres = (sql: string) => queryPostgres(made.env['DATABASE_URL'], sql);
  return { ...made, query: engine === 'postgres' ? onPostgres : queryEmbedded };

  async function queryEmbedded(sql: string): Promise<Json[]> {
    const database = await PGlite.create(join(made.env['DATA_DIR'] as string, 'pgdata'));
    const results = await database.exec(sql).finally(() => database.close());
    return (results.at(-1)?.rows ?? []) as Json[];
  }
}

/** A new database of a release; without one, of this build. */
export async function createMigrated(engine?: Engine, release?: Release): Promise<Resting> {
  const database = await createResting(engine);
  expect(await outcomeOf(spawnUserdir(database.env, ['migrate'], release?.command))).toMatchObject({ code: 0 });
  return database;
}
