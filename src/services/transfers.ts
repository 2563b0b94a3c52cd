import { setImmediate as nextTick } from 'node:timers/promises';
import type { Database } from '../db/database.js';
import { cacheKey } from '../db/batched-read.js';
import type { Queryable } from '../db/statements.js';
import { type UserFilter, userFilter } from '../domain/filters.js';
import { type Ban, MAX_ACCOUNTS, tooManyAccounts, type UserRecord } from '../domain/identities.js';
import {
  CSV_HEAD,
  formatBan,
  formatCsvUser,
  formatLine,
  type LineRecord,
  type OnConflict,
  parseLine,
} from '../domain/import-format.js';
import { type Line, splitLines } from '../domain/ndjson.js';
import type { ProjectScope } from '../domain/projects.js';
import { fromUnknown } from '../errors.js';
import { recordAction } from '../sql/audit.js';
import { exportBans, importBans } from '../sql/bans.js';
import { exportUsers } from '../sql/export-users.js';
import { findOverfull, writeUsers } from '../sql/import-users.js';
import { redact } from '../telemetry/redact.js';
import { findSnapshotCursor } from './changes.js';
import type { Totals } from './totals.js';

export interface ImportOptions {
  readonly onConflict: OnConflict;
  /** Import the valid lines and report the others, in transactions of bounded size. Without it, all lines or none. */
  readonly skipInvalid: boolean;
  readonly requestId?: string | null;
  readonly progress: (lines: number) => void;
  readonly signal: AbortSignal;
}

export const EXPORT_FORMATS = ['ndjson', 'csv'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

export interface ExportOptions {
  /** By default every current user. */
  readonly filter?: UserFilter;
  /** By default NDJSON, which an import reads. */
  readonly format?: ExportFormat;
  readonly requestId?: string | null;
  readonly write: (chunk: string) => Promise<void>;
  readonly progress: (users: number) => void;
  readonly signal: AbortSignal;
}

export interface ImportReport {
  /** Users who were written: the sum of the next three. */
  imported: number;
  created: number;
  updated: number;
  /** Users who had all that their lines give, with `onConflict: 'update'`. */
  unchanged: number;
  /** Lines whose user exists, with `onConflict: 'skip'`. */
  skipped: number;
  failed: number;
  /** The first MAX_REPORTED_ERRORS failed lines, in order. */
  errors: { line: number; error: string }[];
  /** All failed lines by their error, in the order of the first: at most MAX_ERROR_KINDS kinds, then all others as one. */
  error_kinds: ErrorKind[];
  /** How many identities were banned; absent without lines of bans. The other numbers count users. */
  bans?: number;
}

export interface ErrorKind {
  readonly error: string;
  lines: number;
  /** The numbers of the first MAX_EXAMPLES lines. */
  readonly first: number[];
}

export interface Exported {
  users: number;
  bans: number;
  /** From where to follow the changes: those that the snapshot of the export may not have. */
  cursor: string;
}

/** Enough to correct a file, and few enough to limit the memory. */
export const MAX_REPORTED_ERRORS = 1_000;
const MAX_REASON_LENGTH = 500;
const MAX_ERROR_KINDS = 20;
const OTHER_ERRORS = 'Other errors.';
const MAX_EXAMPLES = 5;
const BATCH_SIZE = 1_000;
/** How many records are made in one tick of the event loop. */
const ITEMS_PER_TICK = 100;

export function createTransfers(db: Database, totals: Totals) {
  /** After many new users, so that the next reads are fast. */
  async function foldAndVacuum(scope: ProjectScope, users: number): Promise<void> {
    if (users <= BATCH_SIZE) return;
    await totals.fold(scope);
    await db.vacuum();
  }

  return {
    /**
     * Imports NDJSON and reports invalid lines by number. Without `skipInvalid`, one invalid line (or the signal) undoes the whole
     * import. Lines are read, checked and written in batches, so memory does not grow with the file.
     */
    async importUsers(
      scope: ProjectScope,
      input: AsyncIterable<Buffer>,
      options: ImportOptions,
    ): Promise<ImportReport> {
      const report: ImportReport = {
        ...{ imported: 0, created: 0, updated: 0, unchanged: 0 },
        ...{ skipped: 0, failed: 0, errors: [], error_kinds: [] },
      };
      const actor = scope.actorFor('operate', options.requestId ?? null);
      const batches = readAhead(parsedBatches(input, report, options));
      if (options.skipInvalid) {
        for await (const batch of batches) {
          await db.transaction('READ COMMITTED', (tx) => write(tx, [batch]));
        }
      } else {
        // Without a time limit, because the file may be long; the signal can end it.
        await db.transaction('READ COMMITTED', undoIfFailed).catch(ignoreUndone);
      }
      await foldAndVacuum(scope, report.imported);
      report.errors.sort((a, b) => a.line - b.line);
      for (const { first } of report.error_kinds) first.sort((a, b) => a - b);
      return report;

      /** Imports the batches of one transaction, with its audit entry. */
      async function write(tx: Queryable, parts: Iterable<ParsedLine[]> | AsyncIterable<ParsedLine[]>) {
        const { imported, skipped, bans = 0 } = report;
        for await (const part of parts) await writeBatch(tx, actor.projectId, part, report, options);
        const banned = (report.bans ?? 0) - bans;
        if (report.imported === imported && banned === 0) return;
        const details = {
          imported: report.imported - imported,
          skipped: report.skipped - skipped,
          ...(banned > 0 && { bans: banned }),
        };
        await recordAction(tx, actor, 'import', details);
      }
      async function undoIfFailed(tx: Queryable) {
        await write(tx, batches);
        if (report.failed > 0) throw new Undone();
      }
      function ignoreUndone(error: unknown) {
        if (!(error instanceof Undone)) throw error;
        Object.assign(report, { imported: 0, created: 0, updated: 0, unchanged: 0, skipped: 0 });
        if (report.bans !== undefined) report.bans = 0;
      }
    },

    /** Writes valid records with their accounts. Users who exist are not changed. */
    async addUsers(scope: ProjectScope, records: Iterable<UserRecord>, progress: (done: number) => void) {
      const projectId = scope.projectIdFor('operate');
      const added = { users: 0, accounts: 0 };
      let done = 0;
      for await (const batch of readAhead(inBatches(records))) {
        const written = await writeUsers(db, projectId, batch, 'skip');
        added.users += written.length;
        added.accounts += written.reduce((sum, user) => sum + user.accounts, 0);
        done += batch.length;
        progress(done);
      }
      await foldAndVacuum(scope, added.users);
      return added;
    },

    /**
     * Writes the users that a filter selects, from one snapshot, in chunks. Returns their number. All users of a project as NDJSON
     * are followed by the bans. It is recorded before it begins, because what was written cannot be undone.
     */
    async exportUsers(
      scope: ProjectScope,
      { filter = EVERYONE, format = 'ndjson', requestId = null, write, progress, signal }: ExportOptions,
    ): Promise<Exported> {
      const actor = scope.actorFor('inspect', requestId);
      const isWhole = filter === EVERYONE || cacheKey(filter) === cacheKey(EVERYONE);
      await recordAction(db, actor, 'export', { format, ...(isWhole ? {} : { filter: describeFilter(filter) }) });
      return db.lagging.transaction('REPEATABLE READ', async (tx) => {
        const exported = { users: 0, bans: 0, cursor: await findSnapshotCursor(tx) };
        if (format === 'csv') await write(CSV_HEAD);
        for (let afterId = 0; ; ) {
          const users = await exportUsers(tx, actor.projectId, filter, afterId, BATCH_SIZE);
          signal.throwIfAborted();
          const last = users.at(-1);
          if (last === undefined) break;
          await write(users.map(format === 'csv' ? formatCsvUser : formatLine).join(''));
          exported.users += users.length;
          afterId = last.id;
          progress(exported.users);
        }
        for (let after: Ban | null = null; isWhole && format === 'ndjson'; ) {
          const bans: Ban[] = await exportBans(tx, actor.projectId, after, BATCH_SIZE);
          signal.throwIfAborted();
          after = bans.at(-1) ?? null;
          if (after === null) break;
          await write(bans.map(formatBan).join(''));
          exported.bans += bans.length;
        }
        return exported;
      });
    },
  };
}

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

interface ParsedLine {
  line: number;
  record: LineRecord;
}

/** A line with a user. */
interface UserLine {
  line: number;
  record: UserRecord;
}

function fail(report: ImportReport, line: number, reason: string): void {
  report.failed += 1;
  // The message of a JSON parser repeats the text.
  const redacted = redact(reason);
  const shown = redacted.length <= MAX_REASON_LENGTH ? redacted : `${redacted.slice(0, MAX_REASON_LENGTH)}…`;
  const kind = kindOf(report.error_kinds, shown);
  kind.lines += 1;
  if (kind.first.length < MAX_EXAMPLES) kind.first.push(line);
  if (report.errors.length < MAX_REPORTED_ERRORS) report.errors.push({ line, error: kept(shown) });
}

function kindOf(kinds: ErrorKind[], error: string): ErrorKind {
  const isFull = kinds.length >= MAX_ERROR_KINDS;
  const known = kinds.find((kind) => kind.error === error) ?? (isFull ? kinds[MAX_ERROR_KINDS] : undefined);
  if (known !== undefined) return known;
  const kind = { error: isFull ? OTHER_ERRORS : kept(error), lines: 0, first: [] };
  kinds.push(kind);
  return kind;
}

/** Copied through bytes, because a slice of a string keeps the whole string in memory. */
function kept(text: string): string {
  return Buffer.from(text).toString();
}

/** The valid lines of the input, in batches. The others go into the report. */
async function* parsedBatches(
  input: AsyncIterable<Buffer>,
  report: ImportReport,
  { progress, signal }: ImportOptions,
): AsyncGenerator<ParsedLine[]> {
  let number = 0;
  let batch: ParsedLine[] = [];
  for await (const lines of splitLines(input)) {
    signal.throwIfAborted();
    for (const bytes of lines) {
      number += 1;
      const record = parseOrReport(bytes, number, report);
      if (record !== null) batch.push({ line: number, record });
      if (batch.length < BATCH_SIZE) continue;
      yield batch;
      batch = [];
    }
    progress(number);
    // Gives the socket time to send the rest of the previous batch.
    await nextTick();
  }
  if (batch.length > 0) yield batch;
}

/** The record of a line; null if the line is empty, or invalid and so reported. */
function parseOrReport(bytes: Line, number: number, report: ImportReport): LineRecord | null {
  try {
    return parseLine(bytes);
  } catch (error) {
    const known = fromUnknown(error);
    if (known.code !== 'BAD_USER_INPUT') throw error;
    fail(report, number, known.message);
    return null;
  }
}

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

/** The same items, each prepared while the one before is in use: the database writes a batch while the next is checked. */
async function* readAhead<Item>(items: AsyncGenerator<Item>): AsyncGenerator<Item> {
  try {
    for (let next = items.next(); ; ) {
      const { done, value } = await next;
      if (done) return;
      next = items.next();
      // If the consumer stops first, its own error matters and not this one.
      next.catch(() => undefined);
      yield value;
    }
  } finally {
    // Not awaited: it ends only after the item in preparation, which may wait for input from a terminal.
    items.return(undefined).catch(() => undefined);
  }
}

async function writeBatch(
  db: Queryable,
  projectId: number,
  batch: ParsedLine[],
  report: ImportReport,
  { onConflict }: ImportOptions,
): Promise<void> {
  const bans = batch.flatMap(({ record }) => ('ban' in record ? [record.ban] : []));
  if (bans.length > 0) report.bans = (report.bans ?? 0) + (await importBans(db, projectId, bans));
  const users = batch.flatMap(({ line, record }) => ('user' in record ? [{ line, record: record.user }] : []));
  for (const part of byDistinctIdentity(users)) {
    const distinct = onConflict === 'update' ? await withoutOverfull(db, projectId, part, report) : part;
    const records = distinct.map(({ record }) => record);
    const rows = await writeUsers(db, projectId, records, onConflict);
    const written = new Set(rows.map(({ recordIndex }) => recordIndex));
    report.imported += written.size;
    for (const { outcome } of rows) report[outcome] += 1;
    for (const [index, { line, record }] of distinct.entries()) {
      if (written.has(index)) continue;
      if (onConflict === 'skip') report.skipped += 1;
      else
        fail(
          report,
          line,
          `A user with auth_method ${JSON.stringify(record.authMethod)} and this auth_value exists already.`,
        );
    }
  }
}

/** The lines except those that would give a user too many accounts, which go into the report. */
async function withoutOverfull(
  tx: Queryable,
  projectId: number,
  lines: UserLine[],
  report: ImportReport,
): Promise<UserLine[]> {
  const records = lines.map(({ record }) => record);
  const overfull = new Map(
    (await findOverfull(tx, projectId, records, MAX_ACCOUNTS)).map(({ recordIndex, accounts }) => [
      recordIndex,
      accounts,
    ]),
  );
  for (const [index, accounts] of overfull) fail(report, lines[index]?.line ?? 0, tooManyAccounts(accounts).message);
  return lines.filter((_, index) => !overfull.has(index));
}

/**
 * The batch in parts without repeated identities, in the order of the lines. A statement cannot write one row twice, and the
 * second line of an identity must find the user of the first.
 */
function byDistinctIdentity(batch: UserLine[]): UserLine[][] {
  const parts: UserLine[][] = [];
  const occurrences = new Map<string, number>();
  for (const parsed of batch) {
    const identity = `${parsed.record.authMethod} ${parsed.record.authValueKey}`;
    const occurrence = occurrences.get(identity) ?? 0;
    occurrences.set(identity, occurrence + 1);
    const part = parts[occurrence];
    if (part === undefined) parts.push([parsed]);
    else part.push(parsed);
  }
  return parts;
}
