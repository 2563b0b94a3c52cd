import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Database, Prisma, type Queryable } from '../db/client.js';
import { fromUnknown } from '../errors.js';
import { redact } from '../telemetry/redact.js';
import { type Ban, exportBans, writeBans } from '../sql/bans.js';
import { exportUsers } from '../sql/export-users.js';
import { findOverfull, type OnConflict, type UserRecord, writeUsers } from '../sql/import-users.js';
import { recordActs } from '../sql/audit.js';
import { explainAccounts, tooManyAccounts } from '../domain/account-limit.js';
import { MAX_ACCOUNTS } from '../domain/identities.js';
import { formatBan, formatLine, type Line, type LineRecord, parseLine, splitLines } from '../domain/import-format.js';
import type { ProjectScope } from './projects.js';
import type { Totals } from './totals.js';

export interface ImportOptions {
  readonly onConflict: OnConflict;
  /** Import the good lines and report the bad ones, in transactions of bounded size; else all or nothing. */
  readonly skipInvalid: boolean;
  readonly progress: (lines: number) => void;
  readonly signal: AbortSignal;
}

export interface ExportOptions {
  readonly write: (chunk: string) => Promise<void>;
  readonly progress: (users: number) => void;
  readonly signal: AbortSignal;
}

export interface ImportReport {
  imported: number;
  /** Lines left out because their user exists, as `onConflict` asked. */
  skipped: number;
  failed: number;
  /** The first MAX_REPORTED_ERRORS of the failed lines, in order. */
  errors: { line: number; error: string }[];
  /** Identities that are banned now and were not; only where there were lines of bans. The rest counts users. */
  bans?: number;
}

export interface Exported {
  users: number;
  bans: number;
}

export type Transfers = ReturnType<typeof createTransfers>;

/** Enough to mend a file by, few enough for the memory to stay flat. */
export const MAX_REPORTED_ERRORS = 1_000;
const MAX_REASON_LENGTH = 500;
const BATCH_SIZE = 1_000;
/** Records that are made between two turns of the event loop. */
const ITEMS_A_TURN = 100;

export function createTransfers(db: Database, totals: Totals) {
  /** After many users came at once, so that the next reads are as fast as ever. */
  async function tidy(scope: ProjectScope, users: number): Promise<void> {
    if (users <= BATCH_SIZE) return;
    await totals.fold(scope);
    await db.vacuum();
  }

  return {
    /**
     * Imports NDJSON. Reports bad lines by number; unless `skipInvalid`, one of them (or a signal) undoes everything.
     * Memory stays flat: lines are read, checked and written in batches.
     */
    async importUsers(
      scope: ProjectScope,
      input: AsyncIterable<Buffer>,
      options: ImportOptions,
    ): Promise<ImportReport> {
      const report: ImportReport = { imported: 0, skipped: 0, failed: 0, errors: [] };
      const actor = scope.actorFor('operate', null);
      const batches = readAhead(parsedBatches(input, report, options));
      if (options.skipInvalid) {
        for await (const batch of batches) {
          await db.transaction('READ COMMITTED', (tx) => write(tx, [batch]));
        }
      } else {
        // However long the file; the caller's signal ends it sooner.
        await db.transaction('READ COMMITTED', undoIfFailed).catch(ignoreUndone);
      }
      await tidy(scope, report.imported);
      report.errors.sort((a, b) => a.line - b.line);
      return report;

      /** What a transaction imports, with its entry in the audit trail. */
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
        await tx.query(recordActs(actor, 'import', Prisma.sql`SELECT NULL::bigint, ${JSON.stringify(details)}::jsonb`));
      }
      async function undoIfFailed(tx: Queryable) {
        await write(tx, batches);
        if (report.failed > 0) throw new Undone();
      }
      function ignoreUndone(error: unknown) {
        if (!(error instanceof Undone)) throw error;
        report.imported = 0;
        report.skipped = 0;
        if (report.bans !== undefined) report.bans = 0;
      }
    },

    /** Writes records that are known to be good, each with its accounts; those who exist are left as they are. */
    async addUsers(scope: ProjectScope, records: Iterable<UserRecord>, progress: (done: number) => void) {
      const projectId = scope.idFor('operate');
      const added = { users: 0, accounts: 0 };
      let done = 0;
      for await (const batch of readAhead(batches(records))) {
        const written = await writeUsers(db, projectId, batch, 'skip');
        added.users += written.length;
        added.accounts += written.reduce((sum, user) => sum + user.accounts, 0);
        done += batch.length;
        progress(done);
      }
      await tidy(scope, added.users);
      return added;
    },

    /** Writes the project's current users, and then its bans, as lines of NDJSON, all from one snapshot, in chunks; returns how many. */
    async exportUsers(scope: ProjectScope, { write, progress, signal }: ExportOptions): Promise<Exported> {
      const projectId = scope.idFor('operate');
      return db.transaction('REPEATABLE READ', async (tx) => {
        const exported = { users: 0, bans: 0 };
        for (let afterId = 0; ; ) {
          const users = await exportUsers(tx, projectId, afterId, BATCH_SIZE);
          signal.throwIfAborted();
          const last = users.at(-1);
          if (last === undefined) break;
          await write(users.map(formatLine).join(''));
          exported.users += users.length;
          afterId = last.id;
          progress(exported.users);
        }
        for (let after: Ban | null = null; ; ) {
          const bans: Ban[] = await exportBans(tx, projectId, after, BATCH_SIZE);
          signal.throwIfAborted();
          after = bans.at(-1) ?? null;
          if (after === null) return exported;
          await write(bans.map(formatBan).join(''));
          exported.bans += bans.length;
        }
      });
    },
  };
}

/** Thrown to roll an import back whose report already says why. */
class Undone extends Error {}

interface ParsedLine {
  line: number;
  record: LineRecord;
}

/** One that is a user. */
interface UserLine {
  line: number;
  record: UserRecord;
}

function fail(report: ImportReport, line: number, reason: string): void {
  report.failed += 1;
  if (report.errors.length === MAX_REPORTED_ERRORS) return;
  // The parser of JSON repeats what it does not understand.
  const redacted = redact(reason);
  const shown = redacted.length <= MAX_REASON_LENGTH ? redacted : `${redacted.slice(0, MAX_REASON_LENGTH)}…`;
  // Through bytes, because a slice of a line's text would keep the whole of it in memory.
  report.errors.push({ line, error: Buffer.from(shown).toString() });
}

/** The good lines of the input, in batches; the bad ones go into the report. */
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
    // The batch before is still on its way to the database: what the socket did not take at once goes out here.
    await nextTurn();
  }
  if (batch.length > 0) yield batch;
}

/** The record of a line; null for an empty one, and for a bad one, which is reported. */
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

async function* batches<Item>(items: Iterable<Item>): AsyncGenerator<Item[]> {
  let batch: Item[] = [];
  for (const item of items) {
    batch.push(item);
    if (batch.length % ITEMS_A_TURN === 0) await nextTurn();
    if (batch.length < BATCH_SIZE) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

/** The same items, each made ready while its predecessor is worked on: the database writes one batch as the next is checked. */
async function* readAhead<Item>(items: AsyncGenerator<Item>): AsyncGenerator<Item> {
  try {
    for (let next = items.next(); ; ) {
      const { done, value } = await next;
      if (done) return;
      next = items.next();
      // Whoever stops before he comes to it has a better reason than this one.
      next.catch(() => undefined);
      yield value;
    }
  } finally {
    // Not awaited: it comes to its end only when the item under way does, and that may wait for a terminal.
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
  if (bans.length > 0) report.bans = (report.bans ?? 0) + (await writeBans(db, projectId, bans));
  const users = batch.flatMap(({ line, record }) => ('user' in record ? [{ line, record: record.user }] : []));
  for (const part of byDistinctIdentity(users)) {
    const distinct = onConflict === 'update' ? await withoutOverfull(db, projectId, part, report) : part;
    const records = distinct.map(({ record }) => record);
    const rows = await writeUsers(db, projectId, records, onConflict).catch((error) => {
      throw explainAccounts(error);
    });
    const written = new Set(rows.map(({ place }) => place));
    report.imported += written.size;
    for (const [place, { line, record }] of distinct.entries()) {
      if (written.has(place)) continue;
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

/** The lines without those that would give a user too many accounts, which go into the report. */
async function withoutOverfull(
  tx: Queryable,
  projectId: number,
  lines: UserLine[],
  report: ImportReport,
): Promise<UserLine[]> {
  const records = lines.map(({ record }) => record);
  const overfull = new Map(
    (await findOverfull(tx, projectId, records, MAX_ACCOUNTS)).map(({ place, accounts }) => [place, accounts]),
  );
  for (const [place, accounts] of overfull) fail(report, lines[place]?.line ?? 0, tooManyAccounts(accounts).message);
  return lines.filter((_, place) => !overfull.has(place));
}

/**
 * The batch in parts within which no identity occurs twice, in the order of the lines: a statement cannot write one row
 * twice, and the second of two equal lines must meet the first as a user who exists.
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
