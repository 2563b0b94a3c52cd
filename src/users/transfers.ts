import { setImmediate as nextTick } from 'node:timers/promises';
import type { Database } from '../db/database.js';
import { createTurns } from '../db/one-at-a-time.js';
import type { UserRecord } from '../domain/identities.js';
import type { UserFormat } from '../domain/import-format.js';
import type { MovedReport } from '../domain/import-results.js';
import { readAhead } from '../domain/lines.js';
import type { AuditEntry, ProjectScope } from '../domain/projects.js';
import type { SpoolFile, Stored } from '../domain/stored.js';
import type { ExportTarget } from '../domain/systems.js';
import { AppError, afterwards } from '../errors.js';
import { recordAction } from '../projects/audit.sql.js';
import {
  describeFilter,
  EVERYONE,
  type Exported,
  type ExportOptions,
  isEveryone,
  writeExport,
} from './export-users.js';
import { BATCH_SIZE } from './import-input.js';
import { checkImport, type ImportOptions, importUsers } from './import-users.js';
import { hasImport, type UndonePart, undoPart } from './imports.sql.js';
import type { GivenMove, Move } from './moving/move.js';
import type { Spool } from './spool.js';
import { createPart, readUntil } from './synthetic-users.js';
import type { Totals } from './totals.js';
import { addUsers, toImportRows } from './transfers.sql.js';

/* Users of a project, many at once: imported, exported, made up. */

/** The users and accounts that were added. */
export interface AddedUsers {
  users: number;
  accounts: number;
}

/** A part of the made-up users of a seed. */
export interface SyntheticPart extends AddedUsers {
  /** The users who are made so far. */
  readonly done: number;
  /** The cursor of the next part; null after the last. */
  readonly next: string | null;
}

/** Which made-up users are added: `count` of a seed, after the cursor of an earlier part, until a day or today. */
export interface SyntheticOptions {
  readonly count: number;
  readonly seed: number;
  readonly after: string | null;
  readonly until: string | null;
}

/** Imports and exports of a project's users. */
export interface Transfers {
  /**
   * Imports NDJSON and reports invalid lines by number. With `skipInvalid`, the valid lines are written as they come. Without, one invalid line
   * (or the signal) undoes all: lines are checked, and kept in a file if the input is not stored, before the transaction begins.
   * Memory does not grow with the input. UNAVAILABLE if another import of the project runs for longer than `waitMs`.
   */
  importUsers(scope: ProjectScope, input: AsyncIterable<Buffer> | Stored, options: ImportOptions): Promise<MovedReport>;
  /** What an import would do, as far as one can tell without doing it: it only reads. */
  checkImport(scope: ProjectScope, input: AsyncIterable<Buffer>, options: ImportOptions): Promise<MovedReport>;
  /** Removes the users whom an import has created and nothing else has touched since, a part at a time. NOT_FOUND. */
  undoImport(scope: ProjectScope, importId: AuditEntry['id'], requestId?: string | null): Promise<UndoneImport>;
  /** Checks the options for files of another system. What reads them is loaded only for this, because it takes time. BAD_USER_INPUT. */
  moveOf(given: GivenMove): Promise<Move>;
  /** Writes valid records with their accounts. Users who exist are not changed. */
  addUsers(scope: ProjectScope, records: Iterable<UserRecord>): Promise<AddedUsers>;
  /** Adds the next part of the made-up users of a seed. BAD_USER_INPUT. */
  addSyntheticUsers(scope: ProjectScope, options: SyntheticOptions): Promise<SyntheticPart>;
  /**
   * Writes the users that a filter selects, from one snapshot, in chunks, and returns their number. All users as NDJSON are followed by the bans.
   * It is recorded before it begins: a written part cannot be undone. A file takes what is read, so that the transaction does not wait for `write`.
   */
  exportUsers(scope: ProjectScope, options: ExportOptions): Promise<Exported>;
}

/** A part of an import that is undone. */
export interface UndoneImport extends UndonePart {
  /** True once nothing of the import is left to undo. */
  readonly isDone: boolean;
}

/** The imports and exports that have a transaction of this process at the same time. Others wait. */
const TRANSACTIONS = 2;
/** The records that are made in one tick of the event loop. */
const ITEMS_PER_TICK = 100;

export function createTransfers(db: Database, totals: Totals, spool: Spool): Transfers {
  const turns = createTurns(TRANSACTIONS);
  const inTurn = (signal: AbortSignal): Pick<Database, 'transaction'> => ({
    transaction: (isolation, work) => turns.run(() => db.transaction(isolation, work), signal),
  });

  /** Folds and vacuums after many new rows, so that the next reads are fast. */
  async function tidy(scope: ProjectScope, rows: number): Promise<void> {
    if (rows <= BATCH_SIZE) return;
    await totals.fold(scope);
    await db.vacuum();
  }

  async function add(scope: ProjectScope, records: Iterable<UserRecord>): Promise<AddedUsers> {
    const projectId = scope.projectIdFor('operate');
    const added = { users: 0, accounts: 0 };
    for await (const batch of readAhead(inBatches(records))) {
      const ids = await addUsers(db, projectId, toImportRows(batch));
      const written = batch.filter((_, place) => ids[place] !== null);
      added.users += written.length;
      added.accounts += written.reduce((sum, { accounts }) => sum + accounts.length, 0);
    }
    return added;
  }

  return {
    async importUsers(scope, input, options) {
      const actor = scope.actorFor('operate', options.requestId ?? null);
      const report = await importUsers({ db, inTurn: inTurn(options.signal), spool }, actor, input, options);
      await afterwards(tidy(scope, report.imported - report.unchanged + (report.bans ?? 0)));
      return report;
    },

    async checkImport(scope, input, options) {
      return checkImport(db, scope.projectIdFor('operate'), input, options);
    },

    async undoImport(scope, importId, requestId = null) {
      const actor = scope.actorFor('operate', requestId);
      const part = await undoPart(db, actor, importId);
      if (part === null) {
        if (await hasImport(db, actor.projectId, importId)) return { removed: 0, kept: 0, isDone: true };
        throw new AppError('NOT_FOUND', `The project has no import ${importId}.`);
      }
      if (part.removed > 0) totals.countChange(actor.projectId, part.removed);
      return { ...part, isDone: false };
    },

    async moveOf(given) {
      return (await import('./moving/move.js')).moveOf(given);
    },

    addUsers: add,

    async addSyntheticUsers(scope, { count, seed, after, until }) {
      scope.projectIdFor('operate');
      const part = createPart(count, seed, after, readUntil(until));
      const added = await add(scope, part.users());
      const next = part.next();
      if (next === null) await tidy(scope, count);
      return { ...added, done: part.done, next };
    },

    async exportUsers(scope, { write: take, requestId = null, ...how }) {
      const actor = scope.actorFor('inspect', requestId);
      const { filter = EVERYONE, format = 'ndjson', signal } = how;
      const restriction = isEveryone(filter) ? {} : { filter: describeFilter(filter) };
      await recordAction(db, actor, 'export', { format, ...restriction });
      // Loaded only for this: most exports are for an import.
      const leave = isTarget(format) ? (await import('./moving/leave.js')).createLeave(format) : null;
      const readAll = (write: SpoolFile['write']) =>
        db.replicaReads.transaction('REPEATABLE READ', (tx) =>
          writeExport(tx, actor.projectId, { ...how, filter, format, leave, write }),
        );
      return spool.through(
        (write) => turns.run(() => readAll(write), signal),
        async (text) => {
          signal.throwIfAborted();
          await take(text);
        },
      );
    },
  };
}

const isTarget = (format: UserFormat): format is ExportTarget => format !== 'ndjson' && format !== 'csv';

async function* inBatches<Item>(items: Iterable<Item>): AsyncGenerator<Item[]> {
  let batch: Item[] = [];
  for (const item of items) {
    batch.push(item);
    if (batch.length % ITEMS_PER_TICK === 0) await nextTick();
    if (batch.length < BATCH_SIZE) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
