import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import { isOlder, VERSION } from '../config/build.js';
import { COMMAND } from '../errors.js';

/** The release of a schema, which names the oldest one that may use the database (docs/decisions/migrations.md). */

export interface Release {
  /** Null in a new database, and in one of an unpublished release that does not tell. */
  readonly oldest: string | null;
  /** The last migration that is applied as a whole; null in a new database. */
  readonly schema: string | null;
}

/** The exit code of a release that cannot use its database. */
export const OUTDATED = 3;

/** The database has been migrated to a schema that this release must not use. */
export class OutdatedError extends Error {
  override name = 'OutdatedError';
  readonly exitCode = OUTDATED;

  constructor(oldest: string) {
    super(
      `This is userdir ${VERSION}, and its database may only be used by userdir ${oldest} or newer: upgrade this one, or restore a dump from before the upgrade of the database.`,
    );
  }
}

/** The database was made by a release or a build from before the first one that was published. Its users come along by an export and an import. */
export class UnpublishedError extends Error {
  override name = 'UnpublishedError';
  readonly exitCode = OUTDATED;
  static readonly FOUND = 'it is of a release, or of a build of 2.0.0, that was not published';
  static readonly ADVICE =
    `Export the users of each project with what made it (user export), and import them into a new database with this one (${COMMAND} user import).`;

  constructor() {
    super(`This database cannot be used: ${UnpublishedError.FOUND}. ${UnpublishedError.ADVICE}`);
  }
}

/** node-postgres has this option; its types lack it. */
const QUERY_TIMEOUT = { query_timeout: 5_000 };

export async function readRelease(pool: Pool): Promise<Release> {
  const ask = async (text: string) => (await pool.query({ text, ...QUERY_TIMEOUT })).rows[0];
  const { isMigrated, tells } = await ask(
    `SELECT to_regclass('_prisma_migrations') IS NOT NULL AS "isMigrated", to_regprocedure('oldest_release()') IS NOT NULL AS tells`,
  );
  if (!isMigrated) return { oldest: null, schema: null };
  return ask(
    `SELECT max(migration_name) AS schema, ${tells ? 'oldest_release()' : 'NULL'} AS oldest
     FROM _prisma_migrations WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL`,
  );
}

/** Throws OutdatedError if this release must not use the database. */
export function requireUsable({ oldest }: Release): void {
  if (oldest !== null && isOlder(VERSION, oldest)) throw new OutdatedError(oldest);
}

const LOOK_MS = 2_000;

/** Looks at the release while this process serves, and calls `onRelease` with it: another process may migrate. Returns a function that ends it. */
export function watchRelease(pool: Pool, onRelease: (release: Release) => void): () => Promise<void> {
  const ended = new AbortController();
  const { signal } = ended;
  async function look(): Promise<void> {
    for (;;) {
      await sleep(LOOK_MS, undefined, { signal, ref: false });
      const release = await readRelease(pool).catch(() => null);
      if (release !== null && !signal.aborted) onRelease(release);
    }
  }
  const looking = look().catch(() => undefined);
  return () => {
    ended.abort();
    return looking;
  };
}
