import type { ImportFrame } from '#dist/dashboard/uploads.js';
import { formatCsvLine } from '#dist/domain/csv-cells.js';
import { type MovedReport, type MoveSummary, OUTCOME_COLUMNS } from '#dist/domain/import-results.js';
import { Failure } from './graphql.js';

/* Sends the files of an import to the service, and reads its answer. */

/** The report with what is in the files of another system. */
export type Findings = MovedReport & MoveSummary;

/** The files are sent as a whole before their lines are read, and imported unless it is a look. */
export interface Progress extends NonNullable<ImportFrame['progress']> {
  readonly phase: 'Sending' | 'Reading' | 'Importing';
  /** A sentence that says why it takes time. */
  readonly notice?: string;
}

export interface Answer {
  readonly report: Findings;
  /** What became of each line, as CSV; null if it was not asked for, or there is none. */
  readonly outcomes: Blob | null;
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
      if (report)
        resolve({
          report: report as Findings,
          outcomes: outcomes.length > 1 ? new Blob(outcomes, { type: 'text/csv' }) : null,
        });
      else fail(error?.message ?? `The service answered with status ${request.status}.`, error?.code);
    };
    const advice = phase === 'Reading' ? 'Nothing was imported.' : 'Look at the total before you repeat it.';
    request.onerror = () => fail(`The connection was lost. ${advice}`);
    request.onabort = () => fail(`You stopped the import. ${advice}`);
    request.send(body);
  });
}

/** Reads the lines of an answer that were not read before, whenever there are more of them. */
function createReader(onProgress: (progress: Omit<Progress, 'phase'>) => void) {
  const outcomes = [formatCsvLine(OUTCOME_COLUMNS)];
  const answer: Pick<ImportFrame, 'report' | 'error'> = {};
  let start = 0;
  return (text: string) => {
    const end = text.lastIndexOf('\n') + 1;
    for (const line of text.slice(start, end).split('\n')) {
      const { progress, notice, rows = [], ...rest } = parseFrame(line);
      Object.assign(answer, rest);
      for (const row of rows) outcomes.push(formatCsvLine(OUTCOME_COLUMNS.map((column) => row[column])));
      if (progress) onProgress(progress);
      if (notice) onProgress({ fraction: 0, lines: 0, notice });
    }
    start = Math.max(start, end);
    return { ...answer, outcomes };
  };
}

/** Something else than the service may have answered. */
function parseFrame(line: string): ImportFrame {
  try {
    return JSON.parse(line);
  } catch {
    return {};
  }
}
