import type { Config } from './config.js';
import { createDatabase, type Database, type DatabaseOptions } from './db/client.js';
import { type DataDirLock, lockDataDir } from './db/lock.js';
import { migrate } from './db/migrate.js';
import { createServices, type Services } from './services/services.js';

/** A user directory without an interface: a database and the services over it. */
export interface Directory {
  readonly db: Database;
  readonly services: Services;
  /** Takes the data directory for this process, where the database is the embedded one; throws DataDirLockedError. */
  hold(): Promise<void>;
  /** Holds the directory, opens the database and applies the migrations that are missing; returns their names. */
  open(): Promise<string[]>;
  /** Whether it has been opened and not closed. */
  isOpen(): boolean;
  close(): Promise<void>;
}

export interface DirectoryOptions extends DatabaseOptions {
  /** What the lock of the data directory says of this process. */
  readonly command: string;
  readonly controlSocket?: string;
  /** How long to wait for another process to leave the data directory. */
  readonly lockWaitMs?: number;
}

export function createDirectory({ db: dbConfig }: Config, options: DirectoryOptions): Directory {
  const { command, controlSocket, lockWaitMs = 0 } = options;
  const db = createDatabase(dbConfig, options);
  const services = createServices(db);
  let lock: DataDirLock | null = null;
  let open = false;

  async function hold() {
    if (dbConfig.engine !== 'embedded' || lock !== null) return;
    lock = await lockDataDir(dbConfig.dataDir, { command, ...(controlSocket && { controlSocket }) }, lockWaitMs);
  }

  return {
    db,
    services,
    hold,
    isOpen: () => open,
    async open() {
      await hold();
      await db.start();
      await db.check();
      const applied = await migrate(db.pool);
      open = true;
      return applied;
    },
    async close() {
      open = false;
      await Promise.all([services.totals.settle(), services.projects.settle()]);
      // The lock goes last: whoever takes it may open the database at once.
      await db.close().finally(() => lock?.release());
    },
  };
}
