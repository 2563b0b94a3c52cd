import { closeAll } from './closers.js';
import type { Config } from './config/config.js';
import { createDatabase, type Database, type DatabaseOptions } from './db/client.js';
import { type DataDirLock, type DataDirLostError, type LockOptions, lockDataDir } from './db/lock.js';
import { migrate } from './db/migrate.js';
import type { OnFailure } from './services/background.js';
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
  readonly onBackgroundFailure?: OnFailure;
  /** Is told that the data directory is no longer held. The database is shut off by then. */
  readonly onLost?: (error: DataDirLostError) => void;
  readonly onDoubt?: LockOptions['onDoubt'];
}

export function createDirectory({ db: dbConfig }: Config, options: DirectoryOptions): Directory {
  const { command, controlSocket, lockWaitMs: waitMs = 0, onDoubt } = options;
  const db = createDatabase(dbConfig, options);
  const services = createServices(db, options.onBackgroundFailure);
  let lock: DataDirLock | null = null;
  let open = false;

  async function hold() {
    if (dbConfig.engine !== 'embedded' || lock !== null) return;
    const self = { command, ...(controlSocket && { controlSocket }) };
    lock = await lockDataDir(dbConfig.dataDir, self, { waitMs, onLost, ...(onDoubt && { onDoubt }) });
  }

  /**
   * Another process may have the database by now. What was acknowledged is on its way to the disk already; what is under way
   * fails. A clean close would write a checkpoint over files that are no longer ours, so there is none.
   */
  function onLost(error: DataDirLostError) {
    open = false;
    db.abandon();
    options.onLost?.(error);
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
      // The lock goes last: whoever takes it may open the database at once.
      await closeAll([
        () => lock?.release(),
        () => db.close(),
        () => services.totals.settle(),
        () => services.projects.settle(),
      ]);
    },
  };
}
