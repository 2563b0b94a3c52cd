import type { Queryable } from '../db/statements.js';
import {
  type BanRecord,
  externalIdTaken,
  MAX_ACCOUNTS,
  tooManyAccounts,
  type UserRecord,
} from '../domain/identities.js';
import type { LineRecord, OnConflict } from '../domain/import-format.js';
import { redact } from '../errors.js';
import { importBans } from './bans.sql.js';
import { findOverfull, type ImportRows, toImportRows, type WrittenUser, writeUsers } from './transfers.sql.js';
import { isAnyExternalIdTaken } from './write-users.sql.js';

/* Writes the lines of an import, and reports what became of each (transfers.ts reads them). */

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

/** Enough to correct a file, and few enough to limit the memory. */
export const MAX_REPORTED_ERRORS = 1_000;
const MAX_REASON_LENGTH = 500;
const MAX_ERROR_KINDS = 20;
const OTHER_ERRORS = 'Other errors.';
const MAX_EXAMPLES = 5;

export interface ParsedLine {
  line: number;
  record: LineRecord;
}

/** A line with a user. */
interface UserLine {
  line: number;
  record: UserRecord;
}

export function fail(report: ImportReport, line: number, reason: string): void {
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

/** A part of a batch whose lines have different identities. */
interface PreparedPart {
  readonly lines: readonly UserLine[];
  readonly rows: ImportRows;
}

/** A batch in the form of the statements that write it, which takes the time of a fifth of them. */
export interface PreparedBatch {
  readonly bans: readonly BanRecord[];
  readonly parts: readonly PreparedPart[];
}

export function prepareBatch(batch: readonly ParsedLine[]): PreparedBatch {
  const bans = batch.flatMap(({ record }) => ('ban' in record ? [record.ban] : []));
  const users = batch.flatMap(({ line, record }) => ('user' in record ? [{ line, record: record.user }] : []));
  const hasExternalIds = users.some(({ record }) => record.externalId !== null);
  const parts = hasExternalIds ? runsOfDistinctIdentities(users) : byDistinctIdentity(users);
  return { bans, parts: parts.map(preparePart) };
}

function preparePart(lines: readonly UserLine[]): PreparedPart {
  return { lines, rows: toImportRows(lines.map(({ record }) => record)) };
}

/** Writes the lines of a batch, in a transaction. */
export async function writeBatch(
  db: Queryable,
  projectId: number,
  { bans, parts }: PreparedBatch,
  report: ImportReport,
  onConflict: OnConflict,
): Promise<void> {
  if (bans.length > 0) report.bans = (report.bans ?? 0) + (await importBans(db, projectId, bans));
  for (const part of parts) {
    const distinct = onConflict === 'update' ? await withoutOverfull(db, projectId, part, report) : part;
    await writePart(db, projectId, distinct, report, onConflict);
  }
}

/**
 * Writes lines of different identities. While one of them may have the external id of another user, they are written by halves, so
 * that each line fails or succeeds as if the lines were written one after another.
 */
async function writePart(
  tx: Queryable,
  projectId: number,
  { lines, rows }: PreparedPart,
  report: ImportReport,
  onConflict: OnConflict,
): Promise<void> {
  if (await isContested(tx, projectId, lines, onConflict)) {
    if (lines.length === 1) return fail(report, lines[0]?.line ?? 0, externalIdTaken().message);
    const middle = lines.length >> 1;
    await writePart(tx, projectId, preparePart(lines.slice(0, middle)), report, onConflict);
    return writePart(tx, projectId, preparePart(lines.slice(middle)), report, onConflict);
  }
  const written = await writeUsers(tx, projectId, rows, onConflict);
  report.imported += written.length;
  for (const { outcome } of written) report[outcome] += 1;
  if (written.length < lines.length) reportExisting(lines, written, report, onConflict);
}

/** Whether one of the lines may have the external id of another user. */
async function isContested(tx: Queryable, projectId: number, lines: readonly UserLine[], onConflict: OnConflict) {
  const records = lines.map(({ record }) => record);
  const ids = records.flatMap(({ externalId }) => externalId ?? []);
  return new Set(ids).size < ids.length || (await isAnyExternalIdTaken(tx, projectId, records, onConflict));
}

/** Reports the lines that were not written, whose users exist. */
function reportExisting(
  lines: readonly UserLine[],
  written: readonly WrittenUser[],
  report: ImportReport,
  onConflict: OnConflict,
): void {
  const places = new Set(written.map(({ place }) => place));
  for (const [index, { line, record }] of lines.entries()) {
    if (places.has(index + 1)) continue;
    if (onConflict === 'skip') report.skipped += 1;
    else
      fail(
        report,
        line,
        `A user with auth_method ${JSON.stringify(record.authMethod)} and this auth_value exists already.`,
      );
  }
}

/** The lines except those that would give a user too many accounts, which go into the report. */
async function withoutOverfull(
  tx: Queryable,
  projectId: number,
  part: PreparedPart,
  report: ImportReport,
): Promise<PreparedPart> {
  const records = part.lines.map(({ record }) => record);
  const overfull = await findOverfull(tx, projectId, records, MAX_ACCOUNTS);
  if (overfull.length === 0) return part;
  const indexes = new Set(overfull.map(({ recordIndex }) => recordIndex));
  for (const { recordIndex, accounts } of overfull) {
    fail(report, part.lines[recordIndex]?.line ?? 0, tooManyAccounts(accounts).message);
  }
  return preparePart(part.lines.filter((_, index) => !indexes.has(index)));
}

const identityOf = ({ record }: UserLine) => `${record.authMethod} ${record.authValueKey}`;

/** The batch cut where an identity comes again: no line overtakes another, whose user may have to give up an external id first. */
function runsOfDistinctIdentities(batch: readonly UserLine[]): UserLine[][] {
  const runs: UserLine[][] = [];
  let known = new Set<string>();
  for (const parsed of batch) {
    if (runs.length === 0 || known.has(identityOf(parsed))) {
      runs.push([]);
      known = new Set();
    }
    runs.at(-1)?.push(parsed);
    known.add(identityOf(parsed));
  }
  return runs;
}

/**
 * The batch in parts without repeated identities, in the order of the lines. A statement cannot write one row twice, and the
 * second line of an identity must find the user of the first.
 */
function byDistinctIdentity(batch: readonly UserLine[]): UserLine[][] {
  const parts: UserLine[][] = [];
  const occurrences = new Map<string, number>();
  for (const parsed of batch) {
    const identity = identityOf(parsed);
    const occurrence = occurrences.get(identity) ?? 0;
    occurrences.set(identity, occurrence + 1);
    const part = parts[occurrence];
    if (part === undefined) parts.push([parsed]);
    else part.push(parsed);
  }
  return parts;
}
