import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { closeAll } from './closers.js';
import type { Config } from './config/config.js';
import type { OnFailure } from './db/background.js';
import { createDatabase, type Database, type DatabaseOptions } from './db/database.js';
import { RefusedError } from './db/failures.js';
import { type DataDirLock, type DataDirLostError, type LockOptions, lockDataDir } from './db/lock.js';
import { type MigrateOptions, migrate } from './db/migrate.js';
import type { Tell } from './db/migration-steps.js';
import { type OutdatedError, type Release, readRelease, requireUsable, watchRelease } from './db/release.js';
import { RESTORED } from './domain/changes.js';
import { docsAt } from './errors.js';
import { createChanges } from './feed/changes.js';
import { createWebhooks } from './feed/webhooks.js';
import { createAudit } from './projects/audit.js';
import { deleteOldKeysOfAll } from './projects/idempotency.js';
import { createOperators } from './projects/operators.js';
import { createPasskeys } from './projects/passkeys.js';
import { createProjects } from './projects/projects.js';
import { createSecrets } from './projects/secrets.js';
import { createBans } from './users/bans.js';
import { createEndedBans } from './users/ended-bans.js';
import { createIdentities } from './users/identities.js';
import { createLogins } from './users/logins.js';
import { createManyUsers } from './users/many-users.js';
import { createNewUsers } from './users/new-users.js';
import { createProjectLifecycle } from './users/project-lifecycle.js';
import { createSpool } from './users/spool.js';
import { createStatistics, createTotals } from './users/totals.js';
import { createTransfers } from './users/transfers.js';
import { createAccounts, createUsers } from './users/users.js';
import { createWallets } from './users/wallets.js';

/** The database and its services, without GraphQL and REST. The server and the commands share it. */
export interface Context {
  readonly db: Database;
  readonly services: Services;
  /** Locks the data directory of an embedded database for this process; throws DataDirLockedError. */
  lockDataDirectory(): Promise<void>;
  /** Locks the data directory, opens the database and applies missing migrations, unless told otherwise; returns their names. */
  open(options?: OpenOptions): Promise<string[]>;
  /** True while the database is open. */
  readonly isOpen: boolean;
  /** The database's last answer on the releases that may use it. */
  readonly release: Release;
  /** Why the database cannot be used now, as a sentence for anybody; null while there is no such reason. */
  readonly fault: string | null;
  close(): Promise<void>;
}

export interface OpenOptions extends Pick<MigrateOptions, 'signal' | 'waitMs'> {
  readonly migrates?: boolean;
}

export interface ContextOptions extends DatabaseOptions {
  /** The name of this process in the lock of the data directory. */
  readonly command: string;
  /** The wait for another process to release the data directory. */
  readonly lockWaitMs?: number;
  readonly onBackgroundFailure?: OnFailure;
  /** Called when the lock of the data directory was lost. The database is stopped by then. */
  readonly onLost?: (error: DataDirLostError) => void;
  /** Called with a sentence for the operator when it takes long to find out whether another holder is alive. */
  readonly onDoubt?: LockOptions['onDoubt'];
  /** Called with what the migrations are doing. */
  readonly onMigrating?: Tell;
  /** Called when the database was restored since it was used last. */
  readonly onRestored?: (sentence: string) => void;
  /** Called when the database was migrated to a schema that this release must not use. */
  readonly onOutdated?: (error: OutdatedError) => void;
}

export function createContext(config: Config, options: ContextOptions): Context {
  const { command, serving, lockWaitMs: waitMs = 0, onDoubt } = options;
  const { db: dbConfig } = config;
  const db = createDatabase(dbConfig, options);
  const services = createServices(db, config, options.onBackgroundFailure);
  let lock: DataDirLock | null = null;

  async function lockDataDirectory() {
    if (dbConfig.engine !== 'embedded' || lock !== null) return;
    const self = { command, ...(serving && { takesCommands: true as const }) };
    lock = await lockDataDir(dbConfig.dataDir, self, { waitMs, onLost, ...(onDoubt && { onDoubt }) });
  }

  /** Another process may have the database open by now: a clean close would write over its files. Acknowledged changes are written; other work fails. */
  function onLost(error: DataDirLostError) {
    context.isOpen = false;
    db.abandon();
    options.onLost?.(error);
  }

  let stopWatching = async () => {};

  /** Another process may have migrated the database. */
  function takeNotice(release: Release) {
    context.release = release;
    if (context.fault !== null) return;
    try {
      requireUsable(release);
    } catch (error) {
      context.fault = (error as OutdatedError).message;
      options.onOutdated?.(error as OutdatedError);
    }
  }

  /** Applies the missing migrations. Until they are applied, whoever asks is told what is missing. */
  async function applyMigrations(limits: OpenOptions): Promise<string[]> {
    const { onMigrating } = options;
    const tell: Tell = (sentence, isDetail) => {
      context.fault = 'The database is being migrated.';
      onMigrating?.(sentence, isDetail);
    };
    try {
      const applied = await migrate(db, { ...limits, tell });
      context.fault = null;
      return applied;
    } catch (error) {
      // The error itself is for the operator: it has names of roles and tables.
      if (error instanceof RefusedError) context.fault = `The database lacks ${error.missing}.`;
      throw error;
    }
  }

  const context = {
    db,
    services,
    lockDataDirectory,
    isOpen: false,
    release: { oldest: null, schema: null } as Release,
    fault: null as string | null,
    async open({ migrates = true, ...limits }: OpenOptions = {}) {
      await lockDataDirectory();
      await db.start();
      await db.check();
      if (serving) await db.requireSessions();
      if (serving) await db.requireStatements();
      requireUsable(await readRelease(db.direct));
      const applied = migrates ? await applyMigrations(limits) : [];
      context.release = await readRelease(db.direct);
      if (migrates && (await services.changes.recognise(serving ? 'server' : 'command')) === 'restored')
        options.onRestored?.(RESTORED);
      context.isOpen = true;
      if (serving) {
        services.changes.start();
        // Not earlier: a standby is read only when it has what was on the primary by now, with the migrations.
        db.replica?.start();
        services.webhooks.start();
        services.endedBans.start();
        // No other process can open an embedded database.
        if (dbConfig.engine === 'postgres') stopWatching = watchRelease(db.pool, takeNotice);
      }
      return applied;
    },
    async close() {
      context.isOpen = false;
      // Closers run in reverse. The lock is released last: the next holder may open the database at once.
      await closeAll([
        () => lock?.release(),
        () => db.close(),
        () => services.totals.flush(),
        () => services.projects.flush(),
        () => services.changes.close(),
        () => services.webhooks.close(),
        () => services.endedBans.close(),
        () => stopWatching(),
      ]);
    },
  };
  return context;
}

export type Services = ReturnType<typeof createServices>;

/** Everything that the two interfaces and the command can do with one database. */
function createServices(db: Database, config: Config, onFailure: OnFailure = () => undefined) {
  const { changesRetentionMs, publicUrl, webhooksAllowPrivate: allowPrivate } = config;
  // PostgreSQL needs no data directory.
  const spool = createSpool(config.db.engine === 'embedded' ? join(config.db.dataDir, 'spool') : tmpdir());
  const totals = createTotals(db, onFailure);
  const projects = createProjects(db, randomBytes, onFailure);
  const changes = createChanges(db, changesRetentionMs, [deleteOldKeysOfAll], onFailure);
  const operators = createOperators(db, randomBytes);
  const identities = createIdentities(db, totals);
  return {
    totals,
    projects,
    lifecycle: createProjectLifecycle(db, totals, projects.forgetCredentials),
    secrets: createSecrets(db, randomBytes, projects.forgetCredentials),
    audit: createAudit(db),
    operators,
    passkeys: createPasskeys(db, operators, randomBytes),
    users: createUsers(db, totals),
    statistics: createStatistics(db, totals),
    accounts: createAccounts(db),
    docsOf: docsAt(publicUrl),
    wallets: createWallets(db),
    bans: createBans(db),
    identities,
    logins: createLogins(db, totals, identities),
    manyUsers: createManyUsers(db, totals),
    newUsers: createNewUsers(db, totals),
    endedBans: createEndedBans(db, onFailure),
    transfers: createTransfers(db, totals, spool),
    spool,
    changes,
    webhooks: createWebhooks(db, changes, randomBytes, { allowPrivate, onFailure }),
  };
}
