import { useRef, useState } from 'preact/hooks';
import { Dialog, DialogForm } from './dialog.js';
import { formatNumber, plural } from './format.js';
import { Failure } from './graphql.js';
import { Table } from './parts.js';
import { refresh } from './query.js';
import { SameByApiDetails } from './recipes.js';
import { type ImportReport, type Progress, uploadUsers } from './upload.js';

const CONFLICTS = {
  fail: 'fails the import',
  skip: 'stays as it is',
  update: 'is updated',
} as const;
type Conflict = keyof typeof CONFLICTS;

/** Imports a file: chosen, sent with progress, and reported line by line. */
export function ImportDialog({ appId, onClose }: { appId: string; onClose: () => void }) {
  const [file, setFile] = useState<File | null>(null);
  const [onConflict, setOnConflict] = useState<Conflict>('fail');
  const [skipInvalid, setSkipInvalid] = useState(false);
  const [progress, setProgress] = useState<Progress | null>(null);
  const [failure, setFailure] = useState<Failure | undefined>();
  const [report, setReport] = useState<ImportReport | null>(null);
  const upload = useRef<AbortController | null>(null);
  const busy = progress !== null;

  const start = async (skip: boolean) => {
    if (!file) return;
    setReport(null);
    setSkipInvalid(skip);
    setFailure(undefined);
    setProgress({ phase: 'Sending', fraction: 0, lines: 0 });
    upload.current = new AbortController();
    try {
      const options = { appId, file, onConflict, skipInvalid: skip, signal: upload.current.signal };
      setReport(await uploadUsers(options, setProgress));
    } catch (error) {
      setFailure(error instanceof Failure ? error : new Failure(String(error), 'INTERNAL_SERVER_ERROR'));
    }
    setProgress(null);
    refresh();
  };

  if (report)
    return (
      <Dialog key="report" title={outcome(report)} onClose={onClose}>
        <Report report={report} />
        <div class="dialog-actions">
          <button
            type="button"
            onClick={() => {
              setReport(null);
              setFile(null);
            }}
          >
            Import another file
          </button>
          {!skipInvalid && report.failed > 0 && !isOtherFormat(report) && (
            <button type="button" onClick={() => start(true)}>
              Skip these lines, import the rest
            </button>
          )}
          <button type="button" class="primary" onClick={onClose}>
            Done
          </button>
        </div>
      </Dialog>
    );
  const options = [
    ...(onConflict === 'fail' ? [] : ['--on-conflict', onConflict]),
    ...(skipInvalid ? ['--skip-invalid'] : []),
  ];
  return (
    <Dialog title="Import users" onClose={onClose} busy={busy}>
      <DialogForm
        submit="Import"
        onSubmit={() => start(skipInvalid)}
        onCancel={onClose}
        busy={busy}
        failure={failure}
        disabled={!file || file.size === 0}
      >
        <label class="field">
          <span>File</span>
          <input
            type="file"
            accept=".ndjson,.jsonl,.json,application/x-ndjson"
            disabled={busy}
            onChange={(event) => setFile(event.currentTarget.files?.[0] ?? null)}
          />
          <small class="quiet">
            {busy && file ? (
              <bdi>{file.name}</bdi>
            ) : (
              <>
                NDJSON, as the export writes it: one user a line,{' '}
                <code>{'{"auth_method": "email", "auth_value": "ada@example.com"}'}</code>
              </>
            )}
          </small>
        </label>
        {file?.size === 0 && <p class="banner warn">The file is empty.</p>}
        {file && /\.csv$/i.test(file.name) && (
          <p class="banner warn">This is a CSV file by its name. The import reads NDJSON only.</p>
        )}
        <label class="field">
          <span>A user who exists already</span>
          <select value={onConflict} onChange={(event) => setOnConflict(event.currentTarget.value as Conflict)}>
            {Object.entries(CONFLICTS).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <fieldset class="choices">
          <legend>A line that is wrong</legend>
          <label>
            <input type="radio" name="invalid" checked={!skipInvalid} onChange={() => setSkipInvalid(false)} /> Import
            nothing (all or nothing)
          </label>
          <label>
            <input type="radio" name="invalid" checked={skipInvalid} onChange={() => setSkipInvalid(true)} /> Skip it,
            and import the rest
          </label>
        </fieldset>
        {progress && (
          <div class="progress">
            <progress max={1} value={progress.fraction} aria-label={progress.phase} />
            <p class="quiet" role="status">
              {progress.phase === 'Sending' ? 'Sending the file' : `Importing: ${plural(progress.lines, 'line')} read`}
            </p>
            <button type="button" onClick={() => upload.current?.abort()}>
              Stop
            </button>
          </div>
        )}
        <SameByApiDetails
          recipe={{ userdir: ['user', 'import', '--project', appId, ...options, file?.name ?? 'FILE'] }}
        />
      </DialogForm>
    </Dialog>
  );
}

/** Equal errors are one row. */
const MOST_GROUPS = 100;

/** In every report the first thing to know. */
function outcome({ imported, skipped, failed }: ImportReport): string {
  if (imported > 0) return 'Import finished';
  if (failed > 0) return 'Nothing was imported';
  return skipped > 0 ? 'Nothing was to be imported' : 'The file has no users';
}

/** Not one line was read as a user: it is another kind of file. */
const isOtherFormat = ({ imported, skipped, errors }: ImportReport) =>
  imported + skipped === 0 &&
  errors.length > 0 &&
  errors.every(({ error }) => /not valid (JSON|UTF-8)|expected a JSON object/.test(error));

const MOST_LINES = 5;

function Report({ report }: { report: ImportReport }) {
  const { imported, skipped, failed, errors, bans = 0 } = report;
  const groups = new Map<string, number[]>();
  for (const { line, error } of errors) groups.set(error, [...(groups.get(error) ?? []), line]);
  const nothing = failed > 0 && imported === 0 && skipped === 0;
  return (
    <div role="status">
      <dl class="facts">
        <dt>Imported</dt>
        <dd>{formatNumber(imported)}</dd>
        <dt>Skipped</dt>
        <dd>{formatNumber(skipped)}</dd>
        {bans > 0 && (
          <>
            <dt>Bans</dt>
            <dd>{formatNumber(bans)}</dd>
          </>
        )}
        <dt>Failed</dt>
        <dd>{formatNumber(failed)}</dd>
      </dl>
      {nothing && (
        <p class="problem">
          {isOtherFormat(report)
            ? 'This is not NDJSON: each line has to be one user, as a JSON object of its own.'
            : 'Mend the lines below and import the file again, or skip them.'}
        </p>
      )}
      {errors.length > 0 && (
        <div class="dialog-list">
          <Table caption="Lines that failed">
            <thead>
              <tr>
                <th scope="col" class="number">
                  Line
                </th>
                <th scope="col">What is wrong</th>
              </tr>
            </thead>
            <tbody>
              {[...groups].slice(0, MOST_GROUPS).map(([error, lines]) => (
                <tr key={error}>
                  <td class="number">
                    {lines.slice(0, MOST_LINES).map(formatNumber).join(', ')}
                    {lines.length > MOST_LINES && (
                      <span class="second-line">and {formatNumber(lines.length - MOST_LINES)} more</span>
                    )}
                  </td>
                  <td>
                    <bdi>{error}</bdi>
                  </td>
                </tr>
              ))}
            </tbody>
          </Table>
        </div>
      )}
      {failed > errors.length && <p class="quiet">These are the first {formatNumber(errors.length)} failed lines.</p>}
    </div>
  );
}
