/* What an import tells when it has ended, as `user import --json` prints it. The pages of the dashboard have it too, so this file imports nothing. */

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
  /** The first failed lines (`MAX_REPORTED_ERRORS` in users/import-report.ts), in order. */
  errors: { line: number; error: string }[];
  /** All failed lines by their error, in the order of the first: at most `MAX_ERROR_KINDS` kinds, then all others as one. */
  error_kinds: ErrorKind[];
  /** Of lines of bans, absent without one: how many identities were banned, were banned already, and bans that have ended. */
  bans?: number;
  bans_kept?: number;
  bans_ended?: number;
}

export interface ErrorKind {
  readonly error: string;
  lines: number;
  /** The numbers of the first lines. */
  readonly first: number[];
}

/** What is in the files of another system. */
export interface MoveSummary {
  people: number;
  /** By login method. */
  identities: Record<string, number>;
  without_email: number;
  blocked: number;
  /** What is kept in another way, and what is not kept, with how often. */
  kept_otherwise: Record<string, number>;
  not_kept: Record<string, number>;
  time_zone: string;
  files: FileForm[];
  /** The first lines that were made. */
  sample: Record<string, unknown>[];
}

export interface FileForm {
  readonly kind: 'CSV' | 'JSON' | 'NDJSON';
  readonly encoding: string;
  /** The titles of CSV as they stand in the file; null where there are none. */
  readonly titles: readonly string[] | null;
}

/** The report of an import, with what is in the files where another system has made them. */
export interface MovedReport extends ImportReport, Partial<MoveSummary> {
  /** By which it can be undone; null if it has created no user. */
  readonly import_id: number | null;
}

/** What became of a line with a user. */
export interface LineOutcome {
  readonly line: number;
  readonly source_id: string | null;
  readonly user_id: number | null;
  readonly outcome: 'created' | 'updated' | 'unchanged' | 'skipped' | 'failed';
  readonly error?: string;
}

/** The columns of the CSV that says it of each line. */
export const OUTCOME_COLUMNS = [
  'line',
  'source_id',
  'user_id',
  'outcome',
  'error',
] as const satisfies readonly (keyof LineOutcome)[];

/** What is told where something waits for an import, and where it has waited too long. */
export const IMPORT_RUNS = {
  waiting: 'An import of this project is running. Waiting for its end.',
  tooLong: 'An import of this project is running. Try again when it has ended.',
} as const;
