import type { ErrorKind, ImportReport, LineOutcome } from '../domain/import-results.js';
import { INPUT_LIMITS } from '../domain/input-limits.js';
import { splitLines, textOf } from '../domain/lines.js';
import type { Spool } from './spool.js';

/* What became of the lines of an import. */

/** A report while lines are written. */
export interface RunningReport extends ImportReport {
  /** The failed lines that are not yet in the report by line, of a batch or two; null without such a report. */
  failures: LineOutcome[] | null;
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

/** The lines that have failed since they were taken last. */
export const takeFailures = (report: RunningReport): LineOutcome[] => report.failures?.splice(0) ?? [];

/** Tells which lines have failed since it was told last. A file of wrong lines alone is told in parts, too. */
export async function tellFailures(report: RunningReport, tell: Tell | null): Promise<void> {
  const failures = takeFailures(report);
  if (failures.length > 0) await tell?.(failures);
}

/** The fields of a report from its first line of a ban on. */
export const NO_BANS = { bans: 0, bans_kept: 0, bans_ended: 0 } as const;

/** Enough to correct a file, and few enough to limit the memory. */
const MAX_REPORTED_ERRORS = 1_000;
const MAX_REASON_LENGTH = 500;
const MAX_ERROR_KINDS = 20;
const OTHER_ERRORS = 'Other errors.';
const MAX_EXAMPLES = 5;

/** The place of a line in its file, and the person's ID in the system that the file is from. */
export interface LinePlace {
  readonly line: number;
  readonly sourceId: string | null;
}

export function fail(report: RunningReport, { line, sourceId }: LinePlace, reason: string): void {
  report.failed += 1;
  const shown = reason.length <= MAX_REASON_LENGTH ? reason : `${reason.slice(0, MAX_REASON_LENGTH)}…`;
  const id = sourceId?.slice(0, INPUT_LIMITS.externalId.max) ?? null;
  report.failures?.push({ line, source_id: id, user_id: null, outcome: 'failed', error: kept(shown) });
  const kind = kindOf(report.error_kinds, shown);
  kind.lines += 1;
  kind.first.push(line);
  keepLowest(kind.first, MAX_EXAMPLES, (line) => line);
  report.errors.push({ line, error: kept(shown) });
  // Lines do not fail in their order: those that are read wrongly come before those that the database refuses.
  if (report.errors.length >= 2 * MAX_REPORTED_ERRORS) keepLowest(report.errors, MAX_REPORTED_ERRORS, lineOf);
}

export const lineOf = ({ line }: { line: number }) => line;

function keepLowest<Item>(items: Item[], count: number, of: (item: Item) => number): void {
  items.sort((one, other) => of(one) - of(other));
  items.splice(count);
}

export function newReport(isTold: boolean): RunningReport {
  return {
    imported: 0,
    created: 0,
    updated: 0,
    unchanged: 0,
    skipped: 0,
    failed: 0,
    errors: [],
    error_kinds: [],
    failures: isTold ? [] : null,
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
