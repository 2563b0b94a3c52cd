import { setImmediate as nextTick, setTimeout as sleep } from 'node:timers/promises';
import { cacheKey } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import { isBusy } from '../db/failures.js';
import { createTurns } from '../db/one-at-a-time.js';
import type { Queryable } from '../db/statements.js';
import { CSV_HEAD, formatBan, formatCsvUser, formatLine } from '../domain/export-format.js';
import { type UserFilter, userFilter } from '../domain/filters.js';
import { foldAuthValue, type UserRecord } from '../domain/identities.js';
import type { OnConflict, UserFormat } from '../domain/import-format.js';
import { readAhead } from '../domain/lines.js';
import type { AuditEntry, ProjectScope } from '../domain/projects.js';
import { isStored, type SpoolFile, type Stored } from '../domain/stored.js';
import type { ExportTarget } from '../domain/systems.js';
import type { BanState, ExportedUser } from '../domain/users.js';
import { AppError, unavailable } from '../errors.js';
import { findSnapshotCursor } from '../feed/changes.js';
import { recordAction, recordProgress } from '../projects/audit.sql.js';
import { type BannedIdentity, type BanPage, exportBans, findBanned } from './bans.sql.js';
import {
  BATCH_SIZE,
  CHECKING,
  kept,
  type Pass,
  parsedBatches,
  preparedBatches,
  type ReadOptions,
  WHOLE,
  WRITING,
} from './import-input.js';
import { checkBatch, isEmptyBatch, type PreparedBatch, writeBatch } from './import-lines.js';
import {
  finishReport,
  type ImportReport,
  NO_BANS,
  newReport,
  type Tell,
  tellAtEnd,
  tellFailures,
} from './import-report.js';
import { beginImport, hasImport, keepCreated, undoPart } from './imports.sql.js';
import type { Leave } from './moving/leave.js';
import type { GivenMove, Move, MoveSummary } from './moving/move.js';
import type { Spool } from './spool.js';
import { createPart, readUntil } from './synthetic-users.js';
import type { Totals } from './totals.js';
import { addUsers, exportUsers, throwProjectError, toImportRows, tryToImportAlone } from './transfers.sql.js';

export interface ImportOptions extends Waiting, ReadOptions {
  readonly onConflict: OnConflict;
  /** Import the valid lines and report the others, in transactions of bounded size. Without it, all lines or none. */
  readonly skipInvalid: boolean;
  readonly requestId?: string | null;
  /** Takes what became of each line, in order of the batches, once it is certain. */
  readonly tell?: Tell | null;
}

/** The report of an import, with what is in the file where another system has made it. */
export interface MovedReport extends ImportReport, Partial<MoveSummary> {
  /** By which it can be undone; null if it has created no user. */
  readonly import_id: AuditEntry['id'] | null;
}

export interface ExportOptions {
  /** By default every current user. */
  readonly filter?: UserFilter;
  /** By default NDJSON, which an import reads. */
  readonly format?: UserFormat;
  readonly requestId?: string | null;
  readonly write: (chunk: string) => Promise<void>;
  readonly signal: AbortSignal;
}

export interface Exported {
  users: number;
  bans: number;
  /** From where to follow the changes: those that the snapshot of the export may not have. */
  cursor: string;
  /** What the system to which they leave cannot hold, as plural nouns, with how often. */
  not_kept?: Readonly<Record<string, number>>;
}

/** The imports and exports that have a transaction of this process at the same time. Others wait. */
const TRANSACTIONS = 2;
/** The records that are made in one tick of the event loop. */
const ITEMS_PER_TICK = 100;

export function createTransfers(db: Database, totals: Totals, spool: Spool) {
  const turns = createTurns(TRANSACTIONS);
  const inTurn: Pick<Database, 'transaction'> = {
    transaction: (isolation, work) => turns.run(() => db.transaction(isolation, work)),
  };

  /** Folds and vacuums after many new rows, so that the next reads are fast. */
  async function tidy(scope: ProjectScope, rows: number): Promise<void> {
    if (rows <= BATCH_SIZE) return;
    await totals.fold(scope);
    await db.vacuum();
  }

  /** Writes valid records with their accounts. Users who exist are not changed. */
  async function add(scope: ProjectScope, records: Iterable<UserRecord>) {
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
    /**
     * Imports NDJSON and reports invalid lines by number. With `skipInvalid`, the valid lines are written as they come. Without, one invalid line
     * (or the signal) undoes all: lines are checked, and kept in a file if the input is not stored, before the transaction begins.
     * Memory does not grow with the input. UNAVAILABLE if another import of the project runs for longer than `waitMs`.
     */
    async importUsers(
      scope: ProjectScope,
      input: AsyncIterable<Buffer> | Stored,
      options: ImportOptions,
    ): Promise<MovedReport> {
      const { move = null, onConflict, tell = null } = options;
      const report = newReport(tell !== null);
      const actor = scope.actorFor('operate', options.requestId ?? null);
      /** The entry of this import in the audit trail, once it has one. */
      let entry: AuditEntry['id'] | null = null;
      const batchesOf = (from: AsyncIterable<Buffer>, pass: Pass) =>
        readAhead(preparedBatches(parsedBatches(from, report, options, pass)));
      const alone = (work: (tx: Queryable) => Promise<void>) => withoutImport(inTurn, actor.projectId, options, work);
      if (options.skipInvalid) {
        for await (const batch of batchesOf(input, WHOLE)) {
          if (!isEmptyBatch(batch)) await alone((tx) => write(tx, [batch], tell));
          await tellFailures(report, tell);
        }
        await tellFailures(report, tell);
      } else if (isStored(input)) await importAll(input, input);
      else await spool.withFile((file) => importAll(file, kept(input, file)));
      // Also if nothing was written: the report has told who exists.
      if (entry === null || report.failed > 0) await record(db);
      await tidy(scope, report.imported - report.unchanged + (report.bans ?? 0));
      return { ...finishReport(report), import_id: report.created > 0 ? entry : null, ...move?.summary() };

      /** Imports the batches of one transaction, and records them in it. */
      async function write(
        tx: Queryable,
        parts: Iterable<PreparedBatch> | AsyncIterable<PreparedBatch>,
        told: Tell | null,
      ) {
        let begun: AuditEntry['id'] | null = null;
        for await (const part of parts) {
          if (entry === null) await record(tx);
          if (entry !== begun) await beginImport(tx, entry ?? 0);
          begun = entry;
          const created = await writeBatch(tx, actor.projectId, part, report, onConflict, told);
          await keepCreated(tx, actor.projectId, entry ?? 0, created);
        }
        await record(tx);
      }
      /** Adds the audit entry of the import, or brings it up to date. */
      async function record(tx: Queryable) {
        const { imported, skipped, failed, bans, bans_kept, bans_ended } = report;
        const others = Object.entries({ failed, bans, bans_kept, bans_ended }).filter(([, count]) => count);
        const details = { imported, skipped, ...Object.fromEntries(others), ...(move && { from: move.system }) };
        entry = await recordProgress(tx, actor, 'import', entry, details).catch(throwProjectError);
      }
      /** Imports all of `stored` or nothing, once `checked`, which has the same bytes, has been read without a fault. */
      async function importAll(stored: Stored, checked: AsyncIterable<Buffer>) {
        for await (const batch of parsedBatches(checked, report, options, CHECKING)) {
          if (batch.some(({ record }) => 'ban' in record)) Object.assign(report, NO_BANS);
          await tellFailures(report, tell);
        }
        await tellFailures(report, tell);
        if (report.failed > 0) return;
        await tellAtEnd(spool, tell, (told) =>
          alone(async (tx) => {
            await write(tx, batchesOf(stored, WRITING), told);
            if (report.failed > 0) throw new Undone();
          }).catch(ignoreUndone),
        );
      }
      function ignoreUndone(error: unknown) {
        if (!(error instanceof Undone)) throw error;
        entry = null;
        Object.assign(report, { imported: 0, created: 0, updated: 0, unchanged: 0, skipped: 0 });
        if (report.bans !== undefined) Object.assign(report, NO_BANS);
      }
    },

    /** What an import would do, as far as one can tell without doing it: it only reads. */
    async checkImport(scope: ProjectScope, input: AsyncIterable<Buffer>, options: ImportOptions): Promise<MovedReport> {
      const projectId = scope.projectIdFor('operate');
      const report = newReport(options.tell != null);
      for await (const batch of readAhead(preparedBatches(parsedBatches(input, report, options, WHOLE)))) {
        await checkBatch(db, projectId, batch, report, options.onConflict);
        await tellFailures(report, options.tell ?? null);
      }
      await tellFailures(report, options.tell ?? null);
      return { ...finishReport(report), import_id: null, ...options.move?.summary() };
    },

    /** Removes the users whom an import has created and nothing else has touched since, a part at a time. NOT_FOUND. */
    async undoImport(scope: ProjectScope, importId: AuditEntry['id'], requestId: string | null = null) {
      const actor = scope.actorFor('operate', requestId);
      const part = await undoPart(db, actor, importId);
      if (part === null) {
        if (await hasImport(db, actor.projectId, importId)) return { removed: 0, kept: 0, isDone: true };
        throw new AppError('NOT_FOUND', `The project has no import ${importId}.`);
      }
      if (part.removed > 0) totals.countChange(actor.projectId);
      return { ...part, isDone: false };
    },

    /** Checks the options for files of another system. What reads them is loaded only for this, because it takes time. BAD_USER_INPUT. */
    async moveOf(given: GivenMove): Promise<Move> {
      return (await import('./moving/move.js')).moveOf(given);
    },

    addUsers: add,

    /** Adds the next part of `count` made-up users of a seed, after the cursor of an earlier part, until a day or today. BAD_USER_INPUT. */
    async addSyntheticUsers(
      scope: ProjectScope,
      { count, seed, after, until }: Record<'count' | 'seed', number> & Record<'after' | 'until', string | null>,
    ) {
      scope.projectIdFor('operate');
      const part = createPart(count, seed, after, readUntil(until));
      const added = await add(scope, part.users());
      const next = part.next();
      if (next === null) await tidy(scope, count);
      return { ...added, done: part.done, next };
    },

    /**
     * Writes the users that a filter selects, from one snapshot, in chunks, and returns their number. All users as NDJSON are followed by the bans.
     * It is recorded before it begins: a written part cannot be undone. A file takes what is read, so that the transaction does not wait for `take`.
     */
    async exportUsers(
      scope: ProjectScope,
      { write: take, requestId = null, ...how }: ExportOptions,
    ): Promise<Exported> {
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
        (write) => turns.run(() => readAll(write)),
        async (text) => {
          signal.throwIfAborted();
          await take(text);
        },
      );
    },
  };
}

interface ExportWork extends Required<Pick<ExportOptions, 'filter' | 'format' | 'signal'>> {
  readonly leave: Leave | null;
  readonly write: SpoolFile['write'];
}

/** Writes the users, and the bans after all users, from the snapshot of a transaction. */
async function writeExport(
  tx: Queryable,
  projectId: number,
  { filter, format, leave, write, signal }: ExportWork,
): Promise<Exported> {
  const exported: Exported = { users: 0, bans: 0, cursor: await findSnapshotCursor(tx) };
  const toText = format === 'csv' ? formatCsvUser : formatLine;
  await write(leave?.head ?? (format === 'csv' ? CSV_HEAD : ''));
  for (let afterId = 0; ; ) {
    const { lastId, users } = await exportUsers(tx, projectId, filter, afterId, BATCH_SIZE);
    signal.throwIfAborted();
    if (lastId === null) break;
    await write(leave ? leave.write(users, await bansOf(tx, projectId, users)) : users.map(toText).join(''));
    exported.users += users.length;
    afterId = lastId;
  }
  const hasBans = isEveryone(filter) && format !== 'csv';
  for (let after: BannedIdentity | null = null; hasBans; ) {
    const { bans, last }: BanPage = await exportBans(tx, projectId, after, BATCH_SIZE);
    signal.throwIfAborted();
    if (last === null) break;
    after = last;
    if (!leave) await write(bans.map(formatBan).join(''));
    exported.bans += bans.length;
  }
  if (!leave) return exported;
  await write(leave.end(hasBans ? exported.bans : null));
  return { ...exported, ...leave.report() };
}

/** The bans of users, by their IDs: that of the user or of the primary identity. */
async function bansOf(tx: Queryable, projectId: number, users: readonly ExportedUser[]) {
  const bans = new Map<number, BanState>();
  if (users.length === 0) return bans;
  const keys = users.map(({ id: userId }) => ({ projectId, userId }));
  for (const ban of await findBanned(tx, keys)) {
    const { id, auth_method, auth_value } = users[ban.keyIndex - 1] as ExportedUser;
    const isPrimary = () =>
      ban.authMethod === auth_method && ban.authValueKey === foldAuthValue(auth_method, auth_value, 'auth_value');
    if (ban.isOfUser || isPrimary()) bans.set(id, ban);
  }
  return bans;
}

const isTarget = (format: UserFormat): format is ExportTarget => format !== 'ndjson' && format !== 'csv';
const isEveryone = (filter: UserFilter) => filter === EVERYONE || cacheKey(filter) === cacheKey(EVERYONE);
const EVERYONE = userFilter({});

/** The parts of a filter that restrict the users. */
function describeFilter({ createdFrom, createdTo, loginMethods }: UserFilter) {
  return {
    ...(createdFrom > EVERYONE.createdFrom && { from: createdFrom }),
    ...(createdTo < EVERYONE.createdTo && { to: createdTo }),
    ...(loginMethods !== null && { login_methods: loginMethods }),
  };
}

/** Thrown to undo an import whose report has the reason. */
class Undone extends Error {}

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

const RETRY_MS = 250;
/** Longer than a million users take. */
const WAIT_MS = 900_000;

export interface Waiting {
  /** The time to wait for an import to end. */
  readonly waitMs?: number;
  /** Called once, with a sentence for people, if it has to wait. */
  readonly onWait?: (sentence: string) => void;
  /** Ends the waiting, too. */
  readonly signal: AbortSignal;
  /** Called at the end of each transaction; what it throws undoes the transaction. Without it, what was allowed at the start stays so. */
  readonly permit?: (tx: Queryable) => Promise<unknown>;
}

/** Runs `work` in a transaction beside no import of the project. It holds no connection while it waits. UNAVAILABLE after too long. */
export async function withoutImport<Result>(
  db: Pick<Database, 'transaction'>,
  projectId: number,
  { waitMs = WAIT_MS, onWait, signal, permit }: Waiting,
  work: (tx: Queryable) => Promise<Result>,
): Promise<Result> {
  const deadline = performance.now() + waitMs;
  for (let hasToldSo = false; ; hasToldSo = true) {
    signal.throwIfAborted();
    const attempt = db.transaction('READ COMMITTED', async (tx) => {
      if (!(await tryToImportAlone(tx, projectId))) return null;
      const result = await work(tx);
      await permit?.(tx);
      return { result };
    });
    // The one session of the embedded database is held by the import itself.
    const done = await attempt.catch((error: unknown) => {
      if (isBusy(error)) return null;
      throw error;
    });
    if (done !== null) return done.result;
    if (!hasToldSo) onWait?.('An import of this project is running. Waiting for its end.');
    if (performance.now() >= deadline)
      throw unavailable('An import of this project is running. Try again when it has ended.');
    await sleep(RETRY_MS, undefined, { signal });
  }
}
