import type { Queryable } from '../db/statements.js';
import type { BanRecord } from '../domain/bans.js';
import {
  externalIdTaken,
  MAX_ACCOUNTS,
  MAX_IDENTITIES,
  tooManyAccounts,
  tooManyIdentities,
  type UserRecord,
} from '../domain/identities.js';
import type { LineRecord, OnConflict } from '../domain/import-format.js';
import { splitLines, textOf } from '../domain/lines.js';
import { show } from '../errors.js';
import { type ImportedBans, importBans } from './bans.sql.js';
import { findLinkStates, type Link, linkIdentities } from './import-links.sql.js';
import { findUserIds } from './imports.sql.js';
import type { Spool } from './spool.js';
import {
  addOrUpdateUsers,
  addUsers,
  type Difference,
  findDifferences,
  findOverfull,
  findTaken,
  type ImportRows,
  toImportRows,
} from './transfers.sql.js';
import type { ImportChange } from './user-columns.sql.js';

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
  /** Of lines of bans, absent without one: how many identities were banned, were banned already, and bans that have ended. */
  bans?: number;
  bans_kept?: number;
  bans_ended?: number;
}

/** A report while lines are written. */
export interface RunningReport extends ImportReport {
  /** The failed lines that are not yet in the report by line; null without such a report. */
  failures: LineOutcome[] | null;
}

/** What became of a line with a user. */
export interface LineOutcome {
  readonly line: number;
  readonly source_id: string | null;
  readonly user_id: number | null;
  readonly outcome: 'created' | 'updated' | 'unchanged' | 'skipped' | 'failed';
  readonly error?: string;
}

/** Takes what became of lines. */
export type Tell = (outcomes: readonly LineOutcome[]) => Promise<void>;

/** Does `work`, and tells what became of the lines when it has ended: only of those that failed, if there is one. */
export async function tellAtEnd(
  spool: Spool,
  tell: Tell | null,
  work: (told: Tell | null) => Promise<unknown>,
): Promise<void> {
  if (tell === null) return void (await work(null));
  await spool.withFile(async (file) => {
    let hasFailed = false;
    await work(async (outcomes) => {
      hasFailed ||= outcomes.some(({ outcome }) => outcome === 'failed');
      await file.write(outcomes.map((outcome) => `${JSON.stringify(outcome)}\n`).join(''));
    });
    for await (const lines of splitLines(file)) {
      const outcomes = lines.map((line): LineOutcome => JSON.parse(textOf(line)));
      await tell(outcomes.filter(({ outcome }) => !hasFailed || outcome === 'failed'));
    }
  });
}

/** The fields of a report from its first line of a ban on. */
export const NO_BANS = { bans: 0, bans_kept: 0, bans_ended: 0 } as const;

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

/** The place of a line in its file, and the person's ID in the system that the file is from. */
export interface LinePlace {
  readonly line: number;
  readonly sourceId: string | null;
}

export interface ParsedLine extends LinePlace {
  readonly record: LineRecord;
}

/** A line with a user. */
interface UserLine extends LinePlace {
  readonly record: UserRecord;
}

export function fail(report: RunningReport, { line, sourceId }: LinePlace, reason: string): void {
  report.failed += 1;
  report.failures?.push({ line, source_id: sourceId, user_id: null, outcome: 'failed', error: reason });
  const shown = reason.length <= MAX_REASON_LENGTH ? reason : `${reason.slice(0, MAX_REASON_LENGTH)}…`;
  const kind = kindOf(report.error_kinds, shown);
  kind.lines += 1;
  kind.first.push(line);
  keepLowest(kind.first, MAX_EXAMPLES, (line) => line);
  report.errors.push({ line, error: kept(shown) });
  // Lines do not fail in their order: those that are read wrongly come before those that the database refuses.
  if (report.errors.length >= 2 * MAX_REPORTED_ERRORS) keepLowest(report.errors, MAX_REPORTED_ERRORS, lineOf);
}

const lineOf = ({ line }: { line: number }) => line;

function keepLowest<Item>(items: Item[], count: number, of: (item: Item) => number): void {
  items.sort((one, other) => of(one) - of(other));
  items.splice(count);
}

export function newReport(isTold: boolean): RunningReport {
  return {
    ...{ imported: 0, created: 0, updated: 0, unchanged: 0 },
    ...{ skipped: 0, failed: 0, errors: [], error_kinds: [], failures: isTold ? [] : null },
  };
}

/** The report at its end, in the order of the lines. */
export function finishReport({ failures: _, ...report }: RunningReport): ImportReport {
  const { errors, error_kinds } = report;
  keepLowest(errors, MAX_REPORTED_ERRORS, lineOf);
  const isRest = ({ error }: ErrorKind) => Number(error === OTHER_ERRORS);
  error_kinds.sort((one, other) => isRest(one) - isRest(other) || (one.first[0] ?? 0) - (other.first[0] ?? 0));
  return report;
}

function kindOf(kinds: ErrorKind[], error: string): ErrorKind {
  const isFull = kinds.length >= MAX_ERROR_KINDS;
  const existing = kinds.find((kind) => kind.error === error) ?? (isFull ? kinds[MAX_ERROR_KINDS] : undefined);
  if (existing !== undefined) return existing;
  const kind = { error: isFull ? OTHER_ERRORS : kept(error), lines: 0, first: [] };
  kinds.push(kind);
  return kind;
}

/** Copied through bytes, because a slice of a string keeps the whole string in memory. */
function kept(text: string): string {
  return Buffer.from(text).toString();
}

/** Lines of different users. */
interface PreparedUsers {
  readonly lines: readonly UserLine[];
  readonly rows: ImportRows;
}

/** A batch in the form of the statements that write it, which takes the time of a fifth of them. */
export interface PreparedBatch {
  readonly bans: readonly BanRecord[];
  readonly users: PreparedUsers;
}

export function prepareBatch(batch: readonly ParsedLine[]): PreparedBatch {
  const bans = batch.flatMap(({ record }) => ('ban' in record ? [record.ban] : []));
  const users = batch.flatMap(({ record, ...place }) => ('user' in record ? [{ ...place, record: record.user }] : []));
  return { bans, users: prepareUsers(users) };
}

function prepareUsers(lines: readonly UserLine[]): PreparedUsers {
  return { lines, rows: toImportRows(lines.map(({ record }) => record)) };
}

/** Writes the lines of a batch, in a transaction. Returns the ids of the users who are new, and tells what became of each line where that is wanted. */
export async function writeBatch(
  db: Queryable,
  projectId: number,
  { bans, users }: PreparedBatch,
  report: RunningReport,
  onConflict: OnConflict,
  tell: Tell | null,
): Promise<readonly number[]> {
  const created: number[] = [];
  const updated = new Set<number>();
  if (bans.length > 0) countBans(report, bans.length, await importBans(db, projectId, bans));
  if (users.lines.length === 0) return created;
  if (onConflict === 'skip' || onConflict === 'fail') await addLines(db, projectId, users, report, onConflict, created);
  else await updateByHalves(users, onConflict);
  await tell?.(await outcomesOf());
  return created;

  async function outcomesOf(): Promise<LineOutcome[]> {
    const failures = report.failures?.splice(0) ?? [];
    const failed = new Set(failures.map(lineOf));
    const lines = users.lines.filter(({ line }) => !failed.has(line));
    const ids = await findUserIds(
      db,
      projectId,
      lines.map(({ record }) => record),
    );
    const isNew = new Set(created);
    const rest = onConflict === 'skip' ? 'skipped' : 'unchanged';
    const outcomes = lines.map(({ line, sourceId }, place): LineOutcome => {
      const id = ids[place] ?? null;
      const outcome = id !== null && isNew.has(id) ? 'created' : updated.has(line) ? 'updated' : rest;
      return { line, source_id: sourceId, user_id: id, outcome };
    });
    return [...failures, ...outcomes].sort((one, other) => one.line - other.line);
  }

  /** Writes lines by halves while one of them may have the external id of another user, as if they were written one after another. */
  async function updateByHalves(part: PreparedUsers, how: ImportChange): Promise<void> {
    const left = hasRepeatedExternalId(part)
      ? part.lines
      : await updateLines(db, projectId, part, report, how, { created, updated });
    if (left.length === 1) return fail(report, left[0] as UserLine, externalIdTaken().message);
    const middle = left.length >> 1;
    for (const half of [left.slice(0, middle), left.slice(middle)])
      if (half.length > 0) await updateByHalves(prepareUsers(half), how);
  }
}

function countBans(report: ImportReport, lines: number, { added, ended }: ImportedBans): void {
  report.bans = (report.bans ?? 0) + added;
  report.bans_ended = (report.bans_ended ?? 0) + ended;
  report.bans_kept = (report.bans_kept ?? 0) + lines - added - ended;
}

/** Adds the users of lines. The database decides of each line whether it is one. */
async function addLines(
  tx: Queryable,
  projectId: number,
  part: PreparedUsers,
  report: RunningReport,
  onConflict: 'skip' | 'fail',
  created: number[],
): Promise<void> {
  const { prepared, links } = await withLinks(tx, projectId, part, report, onConflict);
  const { lines, rows } = prepared;
  const ids = await addUsers(tx, projectId, rows);
  const left = lines.filter((_, place) => ids[place] === null);
  created.push(...ids.filter((id) => id !== null));
  await linkIdentities(tx, projectId, without(left, links));
  report.imported += lines.length - left.length;
  report.created += lines.length - left.length;
  const records = left.map(({ record }) => record);
  const taken = new Set(await findTaken(tx, projectId, records));
  for (const [index, line] of left.entries()) {
    const identity = `auth_method ${show(line.record.authMethod)} and this auth_value`;
    if (taken.has(index + 1)) fail(report, line, externalIdTaken().message);
    else if (onConflict === 'skip') report.skipped += 1;
    else fail(report, line, `A user with ${identity} exists already.`);
  }
}

const without = (lines: readonly { line: number }[], links: readonly Link[]) => {
  const numbers = new Set(lines.map(lineOf));
  return links.filter(({ line }) => !numbers.has(line));
};

/**
 * The lines with the identities that they link, but for lines with an identity of another user, or that would give a user too many: these go
 * into the report. Where users who exist are to stay as they are, nothing is said of theirs.
 */
async function withLinks(
  tx: Queryable,
  projectId: number,
  part: PreparedUsers,
  report: RunningReport,
  onConflict: OnConflict,
): Promise<{ readonly prepared: PreparedUsers; readonly links: readonly Link[] }> {
  const links = part.lines.flatMap(({ line, record }) =>
    (record.linked ?? []).map((identity) => ({ line, user: record, identity })),
  );
  if (links.length === 0) return { prepared: part, links };
  const updates = onConflict === 'update' || onConflict === 'replace';
  const present = new Set<Link>();
  const failed = new Map<number, string>();
  const counts = new Map<number, number>();
  for (const { place, own, holder, count } of await findLinkStates(tx, projectId, links)) {
    const link = links[place - 1] as Link;
    if (own !== null && !updates) continue;
    const total = (counts.get(link.line) ?? count) + (holder === null ? 1 : 0);
    counts.set(link.line, total);
    if (holder === own) present.add(link);
    else if (holder !== null) failed.set(link.line, linkTaken(link));
    else if (total > MAX_IDENTITIES) failed.set(link.line, tooManyIdentities(total).message);
  }
  for (const line of part.lines) if (failed.has(line.line)) fail(report, line, failed.get(line.line) as string);
  const lines = part.lines.filter(({ line }) => !failed.has(line));
  return {
    prepared: failed.size === 0 ? part : prepareUsers(lines),
    links: links.filter((link) => !present.has(link) && !failed.has(link.line)),
  };
}

const linkTaken = ({ identity }: Link) =>
  `identities: another user of this project has the one by ${show(identity.authMethod)}.`;

function hasRepeatedExternalId({ lines }: PreparedUsers): boolean {
  const ids = lines.flatMap(({ record }) => record.externalId ?? []);
  return new Set(ids).size < ids.length;
}

/** Adds or updates the users of lines, but none who has all that the line gives. Returns lines of which one may have another user's external id. */
async function updateLines(
  tx: Queryable,
  projectId: number,
  part: PreparedUsers,
  report: RunningReport,
  how: ImportChange,
  written: { readonly created: number[]; readonly updated: Set<number> },
): Promise<readonly UserLine[]> {
  const { prepared, links } = await withLinks(tx, projectId, part, report, how);
  const differences = await findDifferences(tx, projectId, prepared.rows, how);
  const different = differences.map((difference) => ({
    ...(prepared.lines[difference.place - 1] as UserLine),
    ...difference,
  }));
  const onlyLinked = without(different, links);
  await linkIdentities(tx, projectId, onlyLinked);
  const updated = new Set(onlyLinked.map(lineOf));
  for (const line of updated) written.updated.add(line);
  report.imported += prepared.lines.length - different.length;
  report.updated += updated.size;
  report.unchanged += prepared.lines.length - different.length - updated.size;
  const linked = different.filter(({ linkedTo }) => linkedTo !== null);
  for (const line of linked) fail(report, line, linkedElsewhere(line.linkedTo));
  const own = linked.length === 0 ? different : different.filter(({ linkedTo }) => linkedTo === null);
  const lines = await withoutOverfull(tx, projectId, own, report);
  if (lines.length === 0 || lines.some(({ isTaken }) => isTaken)) return lines;
  const { rows } = lines.length === prepared.lines.length ? prepared : prepareUsers(lines);
  const complete = lines.map(({ id, addsAccounts }) => (addsAccounts ? 0 : (id ?? 0)));
  const created = await addOrUpdateUsers(tx, projectId, rows, complete, how);
  const numbers = new Set(lines.map(lineOf));
  await linkIdentities(
    tx,
    projectId,
    links.filter(({ line }) => numbers.has(line)),
  );
  written.created.push(...created);
  for (const line of numbers) written.updated.add(line);
  report.imported += lines.length;
  report.created += created.length;
  report.updated += lines.length - created.length;
  return [];
}

const linkedElsewhere = (id: number | null) =>
  `This identity is linked to user ${id}: an update of that user needs a line with the primary identity.`;

/** The lines except those that would give a user too many accounts, which go into the report. */
async function withoutOverfull<Line extends UserLine & Difference>(
  tx: Queryable,
  projectId: number,
  lines: readonly Line[],
  report: RunningReport,
): Promise<readonly Line[]> {
  const adding = lines.filter(({ id, addsAccounts }) => id !== null && addsAccounts);
  const records = adding.map(({ record }) => record);
  const overfull = new Set<UserLine>();
  for (const { recordIndex, accounts } of await findOverfull(tx, projectId, records, MAX_ACCOUNTS)) {
    const line = adding[recordIndex] as Line;
    overfull.add(line);
    fail(report, line, tooManyAccounts(accounts).message);
  }
  return overfull.size === 0 ? lines : lines.filter((line) => !overfull.has(line));
}
