import { parseConfig } from '#dist/config/config.js';
import { createDatabase, type Database } from '#dist/db/database.js';
import { copyTemplate } from './engines.js';

export interface OpenDatabase extends Database {
  /** A second context on the same database, as in another process; not on the embedded engine. */
  another(): Database;
  /** Closes the context and drops the database. */
  drop(): Promise<void>;
}

/** A migrated database without projects and without services. */
export async function openTestDatabase(): Promise<OpenDatabase> {
  const made = await copyTemplate();
  const config = parseConfig(made.env);
  const db = createDatabase(config.db);
  await db.start();
  return {
    ...db,
    another: () => createDatabase(config.db),
    async drop() {
      await db.close();
      await made.drop();
    },
  };
}
