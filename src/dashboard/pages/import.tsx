import { useEffect, useRef, useState } from 'preact/hooks';
import { Dialog } from './dialog.js';
import { Choices, DialogForm, Field, SelectField } from './form.js';
import { formatNumber, plural } from './format.js';
import { Failure, refresh, useAction } from './graphql.js';
import { CsvColumns, useImportFile } from './import-csv.js';
import { streamPath } from './location.js';
import { Button, Fact } from './parts.js';
import { command } from './recipes.js';
import { Table } from './table.js';

/** Treatments of a user who exists already. */
const CONFLICTS = [
  ['fail', 'fails the import'],
  ['skip', 'stays as it is'],
  ['update', 'is updated'],
  ['replace', 'is updated, also by fewer or earlier logins'],
] as const;

/** Imports a file: chosen, sent with progress, and reported line by line. */
export function ImportDialog({ appId, onClose }: { appId: string; onClose: () => void }) {
  const chosen = useImportFile();
  const { file, sheet, choose } = chosen;
  const [onConflict, setOnConflict] = useState<(typeof CONFLICTS)[number][0]>('fail');
  const [skipInvalid, setSkipInvalid] = useState(false);
  const [progress, setProgress] = useState<Progress | null>(null);
  const [report, setReport] = useState<ImportReport | null>(null);
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);

  const { run, busy, failure } = useAction(async (skip: boolean) => {
    setReport(null);
    stop.current = new AbortController();
    const { signal } = stop.current;
    const parameters = new URLSearchParams({ on_conflict: onConflict, ...(skip && { skip_invalid: 'true' }) });
    const show = (phase: Progress['phase']) => (fraction: number) => setProgress({ phase, fraction, lines: 0 });
    try {
      show('Reading')(0);
      const { body, faults } = await chosen.convert(signal, show('Reading'));
      show('Sending')(0);
      const path = `${streamPath(appId, 'import')}?${parameters}`;
      const { errors, ...counts } = await uploadUsers(path, body, signal, setProgress);
      setReport({
        ...counts,
        isPart: skip,
        errors: errors.map(({ line, error }) => ({ line, error: faults.get(line) ?? error })),
      });
    } catch (error) {
      // Lines may have been imported before it.
      refresh();
      throw error;
    } finally {
      setProgress(null);
    }
  });

  if (report)
    return (
      <Dialog
        key="report"
        title={outcome(report)}
        onClose={onClose}
        actions={
          <>
            <Button
              label="Import another file"
              onClick={() => {
                setReport(null);
                setSkipInvalid(false);
                void choose(null);
              }}
            />
            {canSkip(report) && <Button label="Skip these lines, import the rest" onClick={() => run(true)} />}
            <Button label="Done" class="primary" onClick={onClose} />
          </>
        }
      >
        <Report report={report} />
      </Dialog>
    );
  const options = {
    ...(onConflict !== 'fail' && { onConflict: onConflict === 'replace' ? 'update' : onConflict }),
    ...{ replace: onConflict === 'replace', skipInvalid, file: file && !sheet ? file.name : 'FILE' },
  };
  return (
    <DialogForm
      title="Import users"
      submit="Import"
      recipe={{ userdir: command('user import', { project: appId, ...options }) }}
      onSubmit={() => run(skipInvalid)}
      onClose={onClose}
      busy={busy}
      failure={chosen.failure ?? failure}
      disabled={!chosen.isReady}
    >
      <Field
        label="File"
        hint={
          busy && file ? (
            <bdi>{file.name}</bdi>
          ) : (
            <>
              CSV, or NDJSON as the export writes it: one user a line,{' '}
              <code>{'{"auth_method": "email", "auth_value": "ada@example.com"}'}</code>
            </>
          )
        }
      >
        <input
          type="file"
          accept=".ndjson,.jsonl,.json,.csv,.tsv,application/x-ndjson,text/csv"
          disabled={busy}
          onChange={(event) => choose(event.currentTarget.files?.[0] ?? null)}
        />
      </Field>
      {file?.size === 0 && <p class="banner warn">The file is empty.</p>}
      <CsvColumns of={chosen} disabled={busy} />
      <SelectField label="A user who exists already" value={onConflict} options={CONFLICTS} onChange={setOnConflict} />
      <Choices
        legend="A line that is wrong"
        options={{ stop: 'Import nothing (all or nothing)', skip: 'Skip it, and import the rest' }}
        chosen={[skipInvalid ? 'skip' : 'stop']}
        isOne
        onChange={([choice]) => setSkipInvalid(choice === 'skip')}
      />
      {progress && (
        <div class="progress">
          <progress max={1} value={progress.fraction} aria-label={progress.phase} />
          <p class="quiet" role="status">
            {progress.phase === 'Importing'
              ? `Importing: ${plural(progress.lines, 'line')} read`
              : `${progress.phase} the file`}
          </p>
          <Button label="Stop" onClick={() => stop.current.abort()} />
        </div>
      )}
    </DialogForm>
  );
}

/** Equal errors are one row. */
const MOST_GROUPS = 100;

/** In every report the first thing to know. */
function outcome({ imported, skipped, failed, bans }: ImportReport): string {
  if (imported > 0 || bans) return 'Import finished';
  if (failed > 0) return 'Nothing was imported';
  return skipped > 0 || bans === 0 ? 'Nothing was to be imported' : 'The file has no users';
}

/** Not one line was read as a user: it is another kind of file. */
const isOtherFormat = ({ imported, skipped, errors }: ImportReport) =>
  imported + skipped === 0 &&
  errors.length > 0 &&
  errors.every(({ error }) => /not valid (JSON|UTF-8)|expected a JSON object/.test(error));

/** True if the rest can be imported without the lines that failed. */
const canSkip = (report: ImportReport) => !report.isPart && report.failed > 0 && !isOtherFormat(report);

const MOST_LINES = 5;

/** Counts in their order; those with false are shown only if there are some. */
const COUNTS = [
  ['created', 'created', true],
  ['updated', 'updated', false],
  ['unchanged', 'unchanged', false],
  ['skipped', 'skipped', true],
  ['bans', 'bans', false],
  ['bans_kept', 'banned already', false],
  ['bans_ended', 'bans that have ended', false],
  ['failed', 'failed', true],
] as const;

function Report({ report }: { report: ImportReport }) {
  const { imported, skipped, failed, errors } = report;
  const groups = new Map<string, number[]>();
  for (const { line, error } of errors) groups.set(error, [...(groups.get(error) ?? []), line]);
  const nothing = failed > 0 && imported === 0 && skipped === 0;
  return (
    <div role="status">
      <dl class="facts">
        {COUNTS.map(([key, name, isAlways]) => {
          const count = report[key] ?? 0;
          return (isAlways || count > 0) && <Fact name={name}>{formatNumber(count)}</Fact>;
        })}
      </dl>
      {nothing && (
        <p class="problem">
          {isOtherFormat(report)
            ? 'This is not NDJSON: each line has to be one user, as a JSON object of its own.'
            : `Correct the lines below and import the file again${canSkip(report) ? ', or skip them' : ''}. Only when each line is right by itself, it is looked at whether users and external IDs exist already.`}
        </p>
      )}
      {errors.length > 0 && (
        <div class="dialog-list">
          <Table
            caption="Lines that failed"
            rows={[...groups].slice(0, MOST_GROUPS)}
            rowKey={([error]) => error}
            columns={[
              {
                title: 'Line',
                class: 'number',
                cell: ([, lines]) => (
                  <>
                    {lines.slice(0, MOST_LINES).map(formatNumber).join(', ')}
                    {lines.length > MOST_LINES && (
                      <span class="second-line">and {formatNumber(lines.length - MOST_LINES)} more</span>
                    )}
                  </>
                ),
              },
              { title: 'What is wrong', cell: ([error]) => <bdi>{error}</bdi> },
            ]}
          />
        </div>
      )}
      {failed > errors.length && <p class="quiet">These are the first {formatNumber(errors.length)} failed lines.</p>}
    </div>
  );
}

/** The report of an import, as of `userdir user import --json`. */
interface ImportReport {
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
  /** True if wrong lines were to be skipped. */
  readonly isPart?: boolean;
  readonly errors: readonly { line: number; error: string }[];
}

interface Line {
  readonly progress?: { readonly lines: number; readonly fraction: number };
  readonly report?: ImportReport;
  readonly error?: { readonly code: string; readonly message: string };
}

/** The phase, and its fraction. A file is read and sent as a whole before its lines are imported. */
type Progress = NonNullable<Line['progress']> & { readonly phase: 'Reading' | 'Sending' | 'Importing' };

/** Sends a file of users by XMLHttpRequest, because `fetch` does not tell how much was sent. The answer is NDJSON: progress, and the report last. Throws a Failure. */
function uploadUsers(
  path: string,
  body: Blob,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void,
): Promise<ImportReport> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', path);
    signal.addEventListener('abort', () => request.abort());
    const fail = (message: string, code = '') => reject(new Failure(message, code));
    request.setRequestHeader('content-type', 'application/x-ndjson');
    request.upload.onprogress = ({ loaded, total }) =>
      onProgress({ phase: 'Sending', fraction: total === 0 ? 1 : loaded / total, lines: 0 });
    request.onprogress = () => {
      const { progress } = readAnswer(request.responseText);
      if (progress) onProgress({ phase: 'Importing', ...progress });
    };
    request.onload = () => {
      const { report, error } = readAnswer(request.responseText);
      if (report) resolve(report);
      else fail(error?.message ?? `The service answered with status ${request.status}.`, error?.code);
    };
    request.onerror = () => fail('The connection was lost. Look at the total before you repeat this.');
    request.onabort = () => fail('You stopped the import. Look at the total before you repeat it.');
    request.send(body);
  });
}

/** The newest line of each kind so far. The last line may still be under way. */
function readAnswer(text: string): Line {
  const answer: Line = {};
  for (const line of text.split('\n').filter((one) => one !== '')) {
    try {
      Object.assign(answer, JSON.parse(line));
    } catch {}
  }
  return answer;
}
