import { formatCsvLine } from '#dist/domain/csv-cells.js';
import { Failure } from './graphql.js';

/* Sends the files of an import to the service, and reads its answer. */

/** The counts of an import, or of a look into its files, as of `userdir user import --json`. */
export interface ImportReport {
  /** The sum of the next three. */
  readonly imported: number;
  readonly created: number;
  readonly updated: number;
  readonly unchanged: number;
  readonly skipped: number;
  readonly failed: number;
  readonly bans?: number;
  readonly bans_kept?: number;
  readonly bans_ended?: number;
  /** The failed lines by what is wrong with them, and the numbers of the first ones. */
  readonly error_kinds: readonly {
    readonly error: string;
    readonly lines: number;
    readonly first: readonly number[];
  }[];
  /** By which it can be undone; null if it has created no user. */
  readonly import_id: number | null;
}

export type Counts = Readonly<Record<string, number>>;

/** What is in the files of another system. */
export interface Findings extends ImportReport {
  readonly people: number;
  /** By login method. */
  readonly identities: Counts;
  readonly without_email: number;
  readonly blocked: number;
  readonly kept_otherwise: Counts;
  readonly not_kept: Counts;
  readonly time_zone: string;
  readonly files: readonly {
    readonly kind: string;
    readonly encoding: string;
    readonly titles: readonly string[] | null;
  }[];
  /** The first lines that were made. */
  readonly sample: readonly SampleLine[];
}

export interface SampleLine {
  readonly auth_method: string;
  readonly auth_value: string;
  readonly external_id?: string;
  readonly created_at: string | null;
  readonly last_login: string | null;
  readonly login_count?: number;
  readonly metadata?: object;
  readonly identities?: readonly { readonly auth_method: string; readonly primary: boolean }[];
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
  readonly report: Findings | ImportReport;
  /** What became of each line, as CSV. */
  readonly outcomes: Blob;
}

interface Frame {
  readonly progress?: { readonly lines: number; readonly fraction: number };
  readonly notice?: string;
  readonly rows?: readonly Readonly<Record<string, string | number | null>>[];
  readonly report?: Answer['report'];
  readonly error?: { readonly code: string; readonly message: string };
}

interface Sending {
  readonly signal: AbortSignal;
  /** The phase after the sending. */
  readonly phase: 'Reading' | 'Importing';
  readonly onProgress: (progress: Progress) => void;
}

/** Sends files by XMLHttpRequest, because `fetch` does not tell how much was sent. Throws a Failure. */
export function sendFiles(path: string, body: Blob, { signal, phase, onProgress }: Sending): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', path);
    signal.addEventListener('abort', () => request.abort());
    const fail = (message: string, code = '') => reject(new Failure(message, code));
    const read = createAnswerReader((progress) => onProgress({ phase, ...progress }));
    request.setRequestHeader('content-type', 'application/octet-stream');
    request.upload.onprogress = ({ loaded, total }) =>
      onProgress({ phase: 'Sending', fraction: total === 0 ? 1 : loaded / total, lines: 0 });
    request.onprogress = () => void read(request.responseText);
    request.onload = () => {
      const { report, error, outcomes } = read(`${request.responseText}\n`);
      if (report) resolve({ report, outcomes: new Blob(outcomes, { type: 'text/csv' }) });
      else fail(error?.message ?? `The service answered with status ${request.status}.`, error?.code);
    };
    const isLook = phase === 'Reading';
    const advice = isLook ? 'Nothing was imported.' : 'Look at the total before you repeat this.';
    request.onerror = () => fail(`The connection was lost. ${advice}`);
    request.onabort = () => fail(`You stopped ${isLook ? 'it' : 'the import'}. ${advice}`);
    request.send(body);
  });
}

const COLUMNS = ['line', 'source_id', 'user_id', 'outcome', 'error'];

/** Reads the lines of an answer that have not been read yet, whenever there are more of them. */
function createAnswerReader(onProgress: (progress: Omit<Progress, 'phase'>) => void) {
  const outcomes = [formatCsvLine(COLUMNS)];
  const answer: Pick<Frame, 'report' | 'error'> = {};
  let start = 0;
  return (text: string) => {
    const end = text.lastIndexOf('\n') + 1;
    for (const line of text.slice(start, end).split('\n')) {
      const { progress, notice, rows = [], ...rest } = parseFrame(line);
      Object.assign(answer, rest);
      outcomes.push(rows.map((row) => formatCsvLine(COLUMNS.map((column) => row[column]))).join(''));
      if (progress) onProgress(progress);
      if (notice !== undefined) onProgress({ fraction: 0, lines: 0, notice });
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
