import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { OnConflict } from '#dist/domain/import-format.js';
import { separated } from '#dist/domain/spelling.js';
import { SYSTEM_TITLES } from '#dist/domain/systems.js';
import { Choices, DialogForm, Field, SelectField, TextField } from './form.js';
import { plural } from './format.js';
import { Failure, refresh, useAction } from './graphql.js';
import { guessColumns, mapOf, Picture, type TableColumn, TableColumns } from './import-look.js';
import { ReportDialog } from './import-report.js';
import { type Answer, type Findings, type Progress, sendFiles } from './import-upload.js';
import { streamPath } from './location.js';
import { Button } from './parts.js';
import { command } from './recipes.js';

const OWN = '';
const TABLE = 'csv';
/** With this mapping of a table, the answer has its titles, and nothing else that is of use. */
const FOR_TITLES = '{"external_id":{"value":"-"}}';

/** What becomes of a user who exists already. */
const CONFLICTS: Readonly<Record<OnConflict, string>> = {
  fail: 'fails the import',
  skip: 'stays as it is',
  update: 'is updated',
  replace: 'is updated, also by fewer or earlier logins',
};

interface Choice {
  readonly files: readonly File[];
  /** The name of the system that the files are from. */
  readonly from: string;
  /** Of a table that was looked into. */
  readonly columns: readonly TableColumn[] | null;
  readonly trustUnverified: boolean;
  readonly onConflict: OnConflict;
  readonly skipInvalid: boolean;
}
const NOTHING: Choice = {
  files: [],
  from: OWN,
  columns: null,
  trustUnverified: false,
  onConflict: 'fail',
  skipInvalid: false,
};
/** The page has the report of each line in memory, which may have more bytes than the files. */
const MOST_REPORTED_BYTES = 2 ** 27;

/** An import of the dialog: what is chosen, what was found in the files, and what became of them. */
function useImport(appId: string) {
  const [choice, setChoice] = useState(NOTHING);
  const texts = { dates: useSignal(''), timeZone: useSignal(''), method: useSignal('') };
  /** What was found, and how the files were read for it. */
  const [look, setLook] = useState<{ way: string; findings: Findings } | null>(null);
  const [answer, setAnswer] = useState<(Answer & { isPart: boolean }) | null>(null);
  const { progress, upload, stop } = useUpload(appId);
  const { files, from, columns, onConflict } = choice;
  const way = wayOf(choice, texts);
  const isLooked = look?.way === JSON.stringify(way);
  const isReady = from === OWN || isLooked;

  async function lookInto(): Promise<void> {
    const find = async (how: object) => (await upload(choice, { ...how, dryRun: true })).report;
    let next = way;
    if (from === TABLE && columns === null) {
      const [first] = (await find({ ...way, map: FOR_TITLES })).files;
      if (!first?.titles) throw new Failure('The first line of a table has to name its columns.', 'BAD_USER_INPUT');
      const named = guessColumns(first.titles);
      setChoice((now) => ({ ...now, columns: named }));
      next = wayOf({ ...choice, columns: named }, texts);
    }
    setLook({ way: JSON.stringify(next), findings: await find(next) });
  }

  async function send(skipInvalid: boolean): Promise<void> {
    setAnswer(null);
    const report = files.reduce((sum, { size }) => sum + size, 0) <= MOST_REPORTED_BYTES;
    try {
      setAnswer({ ...(await upload(choice, { ...way, onConflict, skipInvalid, report })), isPart: skipInvalid });
    } catch (error) {
      // Lines may have been imported before it.
      refresh();
      throw error;
    }
  }

  const action = useAction(async (skipInvalid: boolean) => (isReady ? send(skipInvalid) : lookInto()));
  return {
    ...action,
    choice,
    texts,
    way,
    findings: look?.findings,
    isLooked,
    isReady,
    answer,
    progress,
    stop,
    choose(changes: Partial<Choice>) {
      setChoice((now) => ({ ...now, ...changes }));
      if (changes.files || changes.from !== undefined) setLook(null);
    },
    beginAnew() {
      setAnswer(null);
      setLook(null);
      setChoice({ ...NOTHING, onConflict });
    },
  };
}

/** What is typed of how files are read. */
type Texts = Readonly<Record<'dates' | 'timeZone' | 'method', Signal<string>>>;

/** How the files are read, as options of the command. */
function wayOf({ from, trustUnverified, columns }: Choice, { dates, timeZone, method }: Texts) {
  if (from === OWN) return {};
  return {
    from,
    trustUnverified,
    dates: dates.value.trim() || undefined,
    timeZone: timeZone.value.trim() || undefined,
    map: columns ? mapOf(columns, method.value.trim()) : undefined,
  };
}

/** Imports files: chosen, looked into if they are from another system, sent with progress, and reported line by line. */
export function ImportDialog({ appId, onClose }: { appId: string; onClose: () => void }) {
  const { run, busy, choice, choose, texts, findings, isLooked, isReady, answer, progress, ...one } = useImport(appId);
  const { files, columns, onConflict, skipInvalid } = choice;
  if (answer)
    return (
      <ReportDialog
        key="report"
        appId={appId}
        onClose={onClose}
        {...answer}
        onAnother={one.beginAnew}
        onSkip={answer.isPart ? null : () => run(true)}
      />
    );
  const wrong = isReady ? (findings?.failed ?? 0) : 0;
  const isBlocked = wrong > 0 && !skipInvalid;
  const isEmpty = files.length === 0 || files.some(({ size }) => size === 0);
  const options = {
    ...one.way,
    skipInvalid,
    file: files.length > 0 ? files.map(({ name }) => name) : 'FILE',
    ...(onConflict !== 'fail' && { onConflict: onConflict === 'replace' ? 'update' : onConflict }),
    replace: onConflict === 'replace',
  };
  return (
    <DialogForm
      title="Import users"
      submit={isReady ? submitOf(findings, skipInvalid) : findings ? 'Look again' : 'Look into the file'}
      recipe={{ userdir: command('user import', { project: appId, ...options }) }}
      onSubmit={() => run(skipInvalid)}
      onClose={onClose}
      busy={busy}
      failure={one.failure}
      disabled={isEmpty || (isReady && (findings?.imported === 0 || isBlocked))}
    >
      <ChoiceFields choice={choice} busy={busy} onChange={choose} />
      {(findings || columns) && <ReadingFields texts={texts} choice={choice} onChange={choose} />}
      {columns && (
        <TableColumns
          columns={columns}
          method={texts.method}
          disabled={busy}
          onChange={(changed) => choose({ columns: changed })}
        />
      )}
      {isBlocked && (
        <p class="banner warn">
          {plural(wrong, 'line is', 'lines are')} wrong, so nothing is imported. Correct the file, or choose above to
          skip such lines.
        </p>
      )}
      {findings && <Picture findings={findings} isStale={!isLooked} />}
      {progress && <Sending progress={progress} onStop={one.stop} />}
    </DialogForm>
  );
}

interface ReadingFieldsProps {
  readonly texts: Texts;
  readonly choice: Choice;
  readonly onChange: (changes: Partial<Choice>) => void;
}

/** How the files of another system are read. */
function ReadingFields({ texts, choice, onChange }: ReadingFieldsProps) {
  return (
    <details class="look">
      <summary>How the files are read</summary>
      <div class="fields">
        <TextField label="Format of dates" name="dates" text={texts.dates} hint="if not understood: dd.MM.yyyy HH:mm" />
        <TextField
          label="Time zone of dates"
          name="time_zone"
          text={texts.timeZone}
          hint="that say none: Europe/Berlin"
        />
        <Choices
          legend="Emails and phones that were never verified"
          options={{ keep: 'Are kept as metadata', trust: 'Are trusted, as logins' }}
          chosen={[choice.trustUnverified ? 'trust' : 'keep']}
          isOne
          onChange={([chosen]) => onChange({ trustUnverified: chosen === 'trust' })}
        />
      </div>
    </details>
  );
}

function submitOf(findings: Findings | undefined, skipInvalid: boolean): string {
  if (!findings) return 'Import';
  const people = plural(findings.imported, 'person', 'people');
  const { failed } = findings;
  if (failed === 0) return `Import ${people}`;
  return skipInvalid ? `Skip ${plural(failed, 'line')}, import ${people}` : 'Import nothing';
}

/** Sends the files to the service, of which one request runs at a time. It ends with the dialog. */
function useUpload(appId: string) {
  const [progress, setProgress] = useState<Progress | null>(null);
  const controller = useRef(new AbortController());
  const stop = () => controller.current.abort();
  useEffect(() => stop, []);

  /** `options` are those of the command. */
  async function upload({ from, files }: Choice, options: object): Promise<Answer> {
    controller.current = new AbortController();
    const parameters = new URLSearchParams();
    const sizes = from === OWN ? undefined : files.map(({ size }) => size);
    for (const [key, value] of Object.entries({ ...options, sizes })) {
      if (value) parameters.set(separated(key, '_'), String(value));
    }
    // A file of this service may lack the end of its last line.
    const body = new Blob(files.flatMap((file, place) => (from === OWN && place > 0 ? ['\n', file] : [file])));
    const path = `${streamPath(appId, 'import')}?${parameters}`;
    const phase = 'dryRun' in options ? 'Reading' : 'Importing';
    setProgress({ phase: 'Sending', fraction: 0, lines: 0 });
    try {
      return await sendFiles(path, body, phase, setProgress, controller.current.signal);
    } finally {
      setProgress(null);
    }
  }
  return { progress, upload, stop };
}

interface ChoiceFieldsProps {
  readonly choice: Choice;
  readonly busy: boolean;
  readonly onChange: (changes: Partial<Choice>) => void;
}

function ChoiceFields({ choice: { files, from, ...choice }, busy, onChange }: ChoiceFieldsProps) {
  const names = <bdi>{files.map(({ name }) => name).join(', ')}</bdi>;
  const example = <code>{'{"auth_method": "email", "auth_value": "ada@example.com"}'}</code>;
  const choose = async (chosen: File[]) => {
    const [first] = chosen;
    const head = (await first?.slice(0, 1024).text()) ?? '';
    // Exports of this service may be CSV, too.
    const isOwn = head.includes('auth_method') && head.includes('auth_value');
    const isTable = /\.(csv|tsv)$/i.test(first?.name ?? '') && !isOwn;
    const isSystem = from !== OWN && from !== TABLE;
    onChange({ files: chosen, columns: null, from: isSystem ? from : isTable ? TABLE : OWN });
  };
  return (
    <>
      <Field
        label="File"
        hint={
          files.length > 0 ? names : <>NDJSON, one user a line: {example}; or CSV, or what another system exports</>
        }
      >
        <input
          type="file"
          multiple
          disabled={busy}
          onChange={({ currentTarget }) => choose([...(currentTarget.files ?? [])])}
        />
      </Field>
      {files.some(({ size }) => size === 0) && <p class="banner warn">The file is empty.</p>}
      <fieldset class="fields" disabled={busy}>
        <SelectField
          label="From"
          value={from}
          options={[[OWN, 'this service'], ...Object.entries(SYSTEM_TITLES), [TABLE, 'a table (CSV)']]}
          onChange={(name) => onChange({ from: name, columns: null })}
        />
        <SelectField
          label="A user who exists already"
          value={choice.onConflict}
          options={Object.entries(CONFLICTS) as [OnConflict, string][]}
          onChange={(onConflict) => onChange({ onConflict })}
        />
      </fieldset>
      <Choices
        legend="A line that is wrong"
        options={{ stop: 'Import nothing (all or nothing)', skip: 'Skip it, and import the rest' }}
        chosen={[choice.skipInvalid ? 'skip' : 'stop']}
        isOne
        onChange={([chosen]) => onChange({ skipInvalid: chosen === 'skip' })}
      />
    </>
  );
}

function Sending({ progress, onStop }: { progress: Progress; onStop: () => void }) {
  const { phase, fraction, lines, notice } = progress;
  const text = phase === 'Sending' ? 'Sending the file' : `${phase}: ${plural(lines, 'line')} read`;
  return (
    <div class="progress">
      <progress max={1} value={fraction} aria-label={phase} />
      <p class="quiet" role="status">
        {notice ?? text}
      </p>
      <Button label="Stop" onClick={onStop} />
    </div>
  );
}
