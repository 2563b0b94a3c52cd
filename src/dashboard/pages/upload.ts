import { Failure } from './graphql.js';

/** What an import did, as `userdir user import --json` reports it. */
export interface ImportReport {
  readonly imported: number;
  readonly skipped: number;
  readonly failed: number;
  readonly bans?: number;
  readonly errors: readonly { line: number; error: string }[];
}

interface Upload {
  readonly appId: string;
  readonly file: File;
  readonly onConflict: 'fail' | 'skip' | 'update';
  readonly skipInvalid: boolean;
  readonly signal: AbortSignal;
}

/** How far it is. A file is sent as a whole before its lines are imported. */
export interface Progress {
  readonly phase: 'Sending' | 'Importing';
  /** Of the phase, 0 to 1. */
  readonly fraction: number;
  readonly lines: number;
}

interface Line {
  readonly progress?: { lines: number; fraction: number };
  readonly report?: ImportReport;
  readonly error?: { code: string; message: string };
}

/**
 * Sends a file of users. `fetch` does not tell how much was sent, so this is an XMLHttpRequest. The answer is NDJSON: lines of
 * progress, and the report last. Throws a Failure.
 */
export function uploadUsers(
  { appId, file, onConflict, skipInvalid, signal }: Upload,
  onProgress: (progress: Progress) => void,
): Promise<ImportReport> {
  const request = new XMLHttpRequest();
  const parameters = new URLSearchParams({ on_conflict: onConflict, ...(skipInvalid && { skip_invalid: 'true' }) });
  const lines = () => readLines(request.responseText);
  return new Promise((resolve, reject) => {
    request.open('POST', `/dashboard/projects/${encodeURIComponent(appId)}/import?${parameters}`);
    request.setRequestHeader('content-type', 'application/x-ndjson');
    request.upload.onprogress = ({ loaded, total }) =>
      onProgress({ phase: 'Sending', fraction: total === 0 ? 1 : loaded / total, lines: 0 });
    request.onprogress = () => {
      const newest = lines().findLast(({ progress }) => progress)?.progress;
      if (newest) onProgress({ phase: 'Importing', ...newest });
    };
    request.onload = () => {
      const found = lines();
      const error = found.find((line) => line.error)?.error;
      const done = found.findLast((line) => line.report)?.report;
      if (done) resolve(done);
      else
        reject(new Failure(error?.message ?? `The service answered with status ${request.status}.`, error?.code ?? ''));
    };
    request.onerror = () =>
      reject(new Failure('The connection was lost. Look at the total before you repeat this.', ''));
    request.onabort = () => reject(new Failure('You stopped the import. Look at the total before you repeat it.', ''));
    signal.addEventListener('abort', () => request.abort());
    request.send(file);
  });
}

/** The whole lines so far. The last one may still be under way. */
function readLines(text: string): Line[] {
  return text.split('\n').flatMap((line) => {
    try {
      return line === '' ? [] : [JSON.parse(line) as Line];
    } catch {
      return [];
    }
  });
}
