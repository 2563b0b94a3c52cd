import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { type Migration, readMigrations } from '#dist/db/migration-files.js';
import { type OpenDatabase, openTestDatabase } from './database.js';

/** An empty database for the tests of a file, and for each test a folder of migrations. Both are there when a test begins. */
export function useMigrations() {
  const own = {
    db: undefined as unknown as OpenDatabase,
    folder: '',
    async write(name: string, sql: string): Promise<void> {
      await mkdir(join(own.folder, name), { recursive: true });
      await writeFile(join(own.folder, name, 'migration.sql'), sql);
    },
  };
  beforeAll(async () => {
    own.db = await openTestDatabase();
  });
  afterAll(() => own.db.drop());
  beforeEach(async () => {
    // The template of test databases is migrated already.
    await own.db.pool.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
    own.folder = await mkdtemp(join(tmpdir(), 'userdir-migrations-'));
  });
  afterEach(() => rm(own.folder, { recursive: true }));
  return own;
}

/** A migration of one step in one transaction. */
export const oneStep = (sql: string) => `-- step: all\n${sql}`;

/** A migration that is not applied anywhere, as its file is read. */
export async function cutMigration(name: string, sql: string): Promise<Migration> {
  const folder = await mkdtemp(join(tmpdir(), 'userdir-migrations-'));
  await mkdir(join(folder, name));
  await writeFile(join(folder, name, 'migration.sql'), sql);
  const [migration] = await readMigrations(folder).finally(() => rm(folder, { recursive: true }));
  return migration as Migration;
}
