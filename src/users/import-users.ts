import type { Database } from '../db/database.js';
import type { Queryable } from '../db/statements.js';
import type { OnConflict } from '../domain/import-format.js';
import type { MovedReport } from '../domain/import-results.js';
import { readAhead } from '../domain/lines.js';
import type { Actor, AuditEntry } from '../domain/projects.js';
import { isStored, type Stored } from '../domain/stored.js';
import { recordProgress } from '../projects/audit.sql.js';
import {
  CHECKING,
  kept,
  type Pass,
  parsedBatches,
  preparedBatches,
  type ReadOptions,
  WHOLE,
  WRITING,
} from './import-input.js';
import { checkBatch, isEmptyBatch, type ParsedLine, type PreparedBatch, writeBatch } from './import-lines.js';
import {
  finishReport,
  NO_BANS,
  newReport,
  type RunningReport,
  type Tell,
  tellAtEnd,
  tellFailures,
} from './import-report.js';
import { beginImport, keepCreated } from './imports.sql.js';
import { type Waiting, withoutImport } from './one-import.js';
import type { Spool } from './spool.js';
import { throwProjectError } from './transfers.sql.js';

/*
 * An import, and its dry run. Files of this service and of other systems are read in one way (import-input.ts), and each batch of their lines
 * goes through `takeBatches`: a dry run compares it with the users, and an import writes it.
 */

export interface ImportOptions extends Waiting, ReadOptions {
  readonly onConflict: OnConflict;
  /** Import the valid lines and report the others, in transactions of bounded size. Without it, all lines or none. */
  readonly skipInvalid: boolean;
  readonly requestId?: string | null;
  /** Takes what became of each line, in order of the batches, once it is certain. */
  readonly tell?: Tell | null;
}

/** What an import acts by. */
export interface ImportTools {
  readonly db: Database;
  /** Transactions that wait for their turn in this process. */
  readonly inTurn: Pick<Database, 'transaction'>;
  readonly spool: Spool;
}

/** An import or a dry run while its input is read. */
interface Reading {
  readonly options: ImportOptions;
  readonly report: RunningReport;
  readonly tell: Tell | null;
}

/** An import while it writes. */
interface Import extends Reading, ImportTools {
  readonly actor: Actor;
  /** Its entry in the audit trail, once it has one. */
  entry: AuditEntry['id'] | null;
}

function beginReading(options: ImportOptions): Reading {
  const tell = options.tell ?? null;
  return { options, tell, report: newReport(tell !== null) };
}

function endReading({ report, options }: Reading, importId: AuditEntry['id'] | null): MovedReport {
  return { ...finishReport(report), import_id: importId, ...options.move?.summary() };
}

const linesOf = ({ report, options }: Reading, input: AsyncIterable<Buffer>, pass: Pass) =>
  parsedBatches(input, report, options, pass);

const batchesOf = (reading: Reading, input: AsyncIterable<Buffer>, pass: Pass) =>
  readAhead(preparedBatches(linesOf(reading, input, pass)));

/** Gives one batch after another to `take`, and tells which lines have failed, also after the last batch. */
async function takeBatches<Batch>(
  { report, tell }: Reading,
  batches: AsyncIterable<Batch>,
  take: (batch: Batch) => Promise<void> | void,
): Promise<void> {
  for await (const batch of batches) {
    await take(batch);
    await tellFailures(report, tell);
  }
  await tellFailures(report, tell);
}

/** What an import would do, as far as one can tell without doing it: it only reads. */
export async function checkImport(
  db: Queryable,
  projectId: number,
  input: AsyncIterable<Buffer>,
  options: ImportOptions,
): Promise<MovedReport> {
  const reading = beginReading(options);
  await takeBatches(reading, batchesOf(reading, input, WHOLE), (batch) =>
    checkBatch({ db, projectId, report: reading.report }, batch, options.onConflict),
  );
  return endReading(reading, null);
}

/** Imports the lines of an input, and reports those that are invalid by number. */
export async function importUsers(
  tools: ImportTools,
  actor: Actor,
  input: AsyncIterable<Buffer> | Stored,
  options: ImportOptions,
): Promise<MovedReport> {
  const run: Import = { ...tools, ...beginReading(options), actor, entry: null };
  if (options.skipInvalid) await importValid(run, input);
  else if (isStored(input)) await importAll(run, input, input);
  else await tools.spool.withFile((file) => importAll(run, file, kept(input, file)));
  // Also if nothing was written: the report has told who exists.
  if (run.entry === null || run.report.failed > 0) await recordImport(run, tools.db);
  return endReading(run, run.report.created > 0 ? run.entry : null);
}

/** Imports the valid lines as they come, a batch a transaction. */
async function importValid(run: Import, input: AsyncIterable<Buffer>): Promise<void> {
  await takeBatches(run, batchesOf(run, input, WHOLE), async (batch) => {
    if (!isEmptyBatch(batch)) await alone(run, (tx) => writeBatches(run, tx, [batch], run.tell));
  });
}

/** Imports all of `stored` or nothing, once `checked`, which has the same bytes, has been read without a fault. */
async function importAll(run: Import, stored: Stored, checked: AsyncIterable<Buffer>): Promise<void> {
  const { report, spool, tell } = run;
  await takeBatches(run, linesOf(run, checked, CHECKING), (lines) => expectBans(report, lines));
  if (report.failed > 0) return;
  await tellAtEnd(spool, tell, (told) =>
    alone(run, async (tx) => {
      await writeBatches(run, tx, batchesOf(run, stored, WRITING), told);
      if (report.failed > 0) throw new Undone();
    }).catch((error: unknown) => forgetUndone(run, error)),
  );
}

/** The report has bans as soon as a line has one. */
function expectBans(report: RunningReport, lines: readonly ParsedLine[]): void {
  if (lines.some(({ record }) => 'ban' in record)) Object.assign(report, NO_BANS);
}

/** Runs a transaction of an import, beside no other one of the project. */
function alone({ inTurn, actor, options }: Import, work: (tx: Queryable) => Promise<void>): Promise<void> {
  return withoutImport(inTurn, actor.projectId, options, work);
}

/** Imports the batches of one transaction, and records them in it. */
async function writeBatches(
  run: Import,
  tx: Queryable,
  batches: Iterable<PreparedBatch> | AsyncIterable<PreparedBatch>,
  told: Tell | null,
): Promise<void> {
  const { report, options } = run;
  const { projectId } = run.actor;
  let begun: AuditEntry['id'] | null = null;
  for await (const batch of batches) {
    if (run.entry === null) await recordImport(run, tx);
    if (run.entry !== begun) await beginImport(tx, run.entry ?? 0);
    begun = run.entry;
    const created = await writeBatch({ db: tx, projectId, report }, batch, options.onConflict, told);
    await keepCreated(tx, projectId, run.entry ?? 0, created);
  }
  await recordImport(run, tx);
}

/** Adds the audit entry of the import, or brings it up to date. */
async function recordImport(run: Import, tx: Queryable): Promise<void> {
  const { imported, skipped, failed, bans, bans_kept, bans_ended } = run.report;
  const { move = null } = run.options;
  const others = Object.entries({ failed, bans, bans_kept, bans_ended }).filter(([, count]) => count);
  const details = { imported, skipped, ...Object.fromEntries(others), ...(move && { from: move.system }) };
  run.entry = await recordProgress(tx, run.actor, 'import', run.entry, details).catch(throwProjectError);
}

/** Thrown to undo an import whose report has the reason. */
class Undone extends Error {}

/** The import has written nothing, and its report says so. */
function forgetUndone(run: Import, error: unknown): void {
  if (!(error instanceof Undone)) throw error;
  run.entry = null;
  Object.assign(run.report, { imported: 0, created: 0, updated: 0, unchanged: 0, skipped: 0 });
  if (run.report.bans !== undefined) Object.assign(run.report, NO_BANS);
}
