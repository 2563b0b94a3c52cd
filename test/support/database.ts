import { parseConfig } from '#dist/config/config.js';
import { createDatabase, type Database } from '#dist/db/database.js';
import { copyTemplate } from './engines.js';

export interface OpenDatabase extends Database {
  /** Another one on the same database, as another process would have it; not on the embedded engine. */
  another(): Database;
  /** Closes it and destroys the database. */
  drop(): Promise<void>;
}

/** A migrated database without a project, and without services over it. */
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
