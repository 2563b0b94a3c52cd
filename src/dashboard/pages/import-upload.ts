import { formatCsvLine } from '#dist/domain/csv-cells.js';
import { Failure } from './graphql.js';

/* Sends the files of an import to the service, and reads its answer. */

export type Counts = Readonly<Record<string, number>>;

/** As of `userdir user import --json`. */
export interface ImportReport
  extends Readonly<Record<'imported' | 'created' | 'updated' | 'unchanged' | 'skipped' | 'failed', number>>,
    Readonly<Partial<Record<'bans' | 'bans_kept' | 'bans_ended', number>>> {
  /** The failed lines by what is wrong with them, and the numbers of the first ones. */
  readonly error_kinds: readonly {
    readonly error: string;
    readonly lines: number;
    readonly first: readonly number[];
  }[];
  /** By which it can be undone; null if it has created no user. */
  readonly import_id: number | null;
}

/** What is in the files of another system. */
export interface Findings
  extends ImportReport,
    Readonly<Record<'people' | 'blocked' | 'without_email', number>>,
    Readonly<Record<'identities' | 'kept_otherwise' | 'not_kept', Counts>> {
  readonly time_zone: string;
  readonly files: readonly { readonly kind: string; readonly encoding: string; readonly titles: string[] | null }[];
  /** The first lines that were made. */
  readonly sample: readonly Readonly<Record<string, unknown>>[];
}

/** The files are sent as a whole before their lines are read, and imported unless it is a look. */
export interface Progress {
  readonly phase: 'Sending' | 'Reading' | 'Importing';
  readonly fraction: number;
  readonly lines: number;
  /** A sentence that says why it takes time. */
  readonly notice?: string;
}

export interface Answer {
  readonly report: Findings;
  /** What became of each line, as CSV; null if it was not asked for, or there is none. */
  readonly outcomes: Blob | null;
}

interface Frame {
  readonly progress?: Omit<Progress, 'phase'>;
  readonly notice?: string;
  readonly rows?: readonly Readonly<Record<string, string | number | null>>[];
  readonly report?: Findings;
  readonly error?: { readonly code: string; readonly message: string };
}

/** Sends files by XMLHttpRequest, because `fetch` does not tell how much was sent. Throws a Failure. */
export function sendFiles(
  path: string,
  body: Blob,
  phase: 'Reading' | 'Importing',
  onProgress: (progress: Progress) => void,
  signal: AbortSignal,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', path);
    signal.addEventListener('abort', () => request.abort());
    const fail = (message: string, code = '') => reject(new Failure(message, code));
    const read = createReader((progress) => onProgress({ phase, ...progress }));
    request.setRequestHeader('content-type', 'application/octet-stream');
    request.upload.onprogress = ({ loaded, total }) =>
      onProgress({ phase: 'Sending', fraction: total === 0 ? 1 : loaded / total, lines: 0 });
    request.onprogress = () => read(request.responseText);
    request.onload = () => {
      const { report, error, outcomes } = read(`${request.responseText}\n`);
      if (report) resolve({ report, outcomes: outcomes.length > 1 ? new Blob(outcomes, { type: 'text/csv' }) : null });
      else fail(error?.message ?? `The service answered with status ${request.status}.`, error?.code);
    };
    const advice = phase === 'Reading' ? 'Nothing was imported.' : 'Look at the total before you repeat it.';
    request.onerror = () => fail(`The connection was lost. ${advice}`);
    request.onabort = () => fail(`You stopped the import. ${advice}`);
    request.send(body);
  });
}

const COLUMNS = ['line', 'source_id', 'user_id', 'outcome', 'error'];

/** Reads the lines of an answer that were not read before, whenever there are more of them. */
function createReader(onProgress: (progress: Omit<Progress, 'phase'>) => void) {
  const outcomes = [formatCsvLine(COLUMNS)];
  const answer: Pick<Frame, 'report' | 'error'> = {};
  let start = 0;
  return (text: string) => {
    const end = text.lastIndexOf('\n') + 1;
    for (const line of text.slice(start, end).split('\n')) {
      const { progress, notice, rows = [], ...rest } = parseFrame(line);
      Object.assign(answer, rest);
      for (const row of rows) outcomes.push(formatCsvLine(COLUMNS.map((column) => row[column])));
      if (progress) onProgress(progress);
      if (notice) onProgress({ fraction: 0, lines: 0, notice });
    }
    start = Math.max(start, end);
    return { ...answer, outcomes };
  };
}

/** Something else than the service may have answered. */
function parseFrame(line: string): Frame {
  try {
    return JSON.parse(line);
  } catch {
    return {};
  }
}
