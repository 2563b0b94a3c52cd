import { useSignal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Choices, DialogForm, Field, SelectField } from './form.js';
import { plural } from './format.js';
import { Failure, graphql, refresh, useAction, useQuery } from './graphql.js';
import { guessColumns, LookDialog, mapOf, type Reading } from './import-look.js';
import { ReportDialog } from './import-report.js';
import { type Answer, type Findings, type Progress, sendFiles } from './import-upload.js';
import { streamPath } from './location.js';
import { Button } from './parts.js';
import { command } from './recipes.js';

const SYSTEMS = graphql(`query ImportSystems { importSystems { name title } }`);
const OWN = ['', 'this service (NDJSON)'] as const;
const TABLE = ['csv', 'a table (CSV)'] as const;

/** Treatments of a user who exists already. */
const CONFLICTS = [
  ['fail', 'fails the import'],
  ['skip', 'stays as it is'],
  ['update', 'is updated'],
  ['replace', 'is updated, also by fewer or earlier logins'],
] as const;

interface Choice extends Reading {
  readonly files: readonly File[];
  /** The system that the files are from; empty for this service. */
  readonly from: string;
  readonly onConflict: (typeof CONFLICTS)[number][0];
  readonly skipInvalid: boolean;
}

const NOTHING: Choice = {
  ...{ files: [], from: '', onConflict: 'fail', skipInvalid: false },
  ...{ trustUnverified: false, columns: null },
};

/** What was found, and in which way the files were read. */
interface Look {
  readonly way: string;
  readonly findings: Findings | null;
}

type Options = Readonly<Record<'from' | 'dates' | 'timeZone' | 'map', string | undefined>> &
  Pick<Reading, 'trustUnverified'>;

/** How the service is to read the files, as options of the command; undefined for its own. */
function optionsOf({ from, columns, trustUnverified }: Choice, texts: Record<'dates' | 'timeZone' | 'method', string>) {
  const { dates, timeZone, method } = texts;
  if (from === '') return undefined;
  const map = from === TABLE[0] ? mapOf(columns ?? [], method) : undefined;
  return { from, trustUnverified, dates: dates || undefined, timeZone: timeZone || undefined, map } satisfies Options;
}

/** A file of this service has one user a line, and may lack the end of the last one. */
const bodyOf = ({ from, files }: Choice) => new Blob(from === '' ? files.flatMap((file) => [file, '\n']) : [...files]);

/** Imports files: chosen, looked into where another system has made them, sent with progress, and reported line by line. */
export function ImportDialog({ appId, onClose }: { appId: string; onClose: () => void }) {
  const [choice, setChoice] = useState(NOTHING);
  const texts = { dates: useSignal(''), timeZone: useSignal(''), method: useSignal('') };
  const [look, setLook] = useState<Look | null>(null);
  const [answer, setAnswer] = useState<(Answer & { isPart: boolean }) | null>(null);
  const { progress, upload, stop } = useUpload(appId);
  const { files, from, onConflict, skipInvalid } = choice;
  const change = (changes: Partial<Choice>) => setChoice({ ...choice, ...changes });
  const asText = ({ value }: { value: string }) => value.trim();
  const optionsFor = (of: Choice) =>
    optionsOf(of, {
      ...{ dates: asText(texts.dates), timeZone: asText(texts.timeZone), method: asText(texts.method) },
    });
  const options = optionsFor(choice);
  const way = JSON.stringify(options);

  const looking = useAction(async () => {
    const find = async (of: Choice) => (await upload(of, optionsFor(of), { dry_run: 'true' })).report as Findings;
    let { columns } = choice;
    if (from === TABLE[0] && columns === null) {
      const [titled] = (await find(choice)).files;
      if (!titled?.titles)
        throw new Failure('This is no table: its first line has to name its columns.', 'BAD_USER_INPUT');
      columns = guessColumns(titled.titles);
    }
    const chosen = { ...choice, columns };
    const isKnown = columns === null || columns.some(({ field }) => field !== '');
    setLook({ way: JSON.stringify(optionsFor(chosen)), findings: isKnown ? await find(chosen) : null });
    setChoice(chosen);
  });
  const importing = useAction(async (skip: boolean) => {
    setAnswer(null);
    try {
      const how = { on_conflict: onConflict, report: 'true', ...(skip && { skip_invalid: 'true' }) };
      setAnswer({ ...(await upload(choice, options, how)), isPart: skip });
    } catch (error) {
      // Lines may have been imported before it.
      refresh();
      throw error;
    }
  });

  const query = useQuery(SYSTEMS, {});
  const systems = [OWN, ...(query.data?.importSystems ?? []).map(({ name, title }) => [name, title] as const), TABLE];
  const recipe = {
    userdir: command('user import', {
      ...{ project: appId, file: files.length > 0 ? files.map(({ name }) => name) : 'FILE', ...options, skipInvalid },
      ...(onConflict !== 'fail' && { onConflict: onConflict === 'replace' ? 'update' : onConflict }),
      replace: onConflict === 'replace',
    }),
  };
  const busy = looking.busy || importing.busy;
  const failure = query.failure ?? looking.failure ?? importing.failure;
  const form = { recipe, busy, failure, onClose };
  const shown = progress && <Sending progress={progress} onStop={stop} />;
  const findings = look?.findings ?? null;

  if (answer)
    return (
      <ReportDialog
        key="report"
        {...{ appId, ...answer, onClose }}
        onAnother={() => {
          setAnswer(null);
          setLook(null);
          setChoice({ ...NOTHING, onConflict });
        }}
        onSkip={answer.isPart ? null : () => importing.run(true)}
      />
    );
  if (look)
    return (
      <LookDialog
        key="look"
        {...{ ...form, ...choice, ...texts, findings, progress: shown }}
        files={files.map(({ name }) => name).join(', ')}
        system={systems.find(([name]) => name === from)?.[1] ?? from}
        isStale={look.way !== way}
        onRead={change}
        onBack={() => setLook(null)}
        onSubmit={() =>
          findings === null || look.way !== way ? looking.run() : importing.run(skipInvalid || findings.failed > 0)
        }
      />
    );
  return (
    <DialogForm
      {...form}
      key="choice"
      title="Import users"
      submit={from === '' ? 'Import' : 'Look into the file'}
      onSubmit={() => (from === '' ? importing.run(skipInvalid) : looking.run())}
      disabled={files.length === 0 || files.some(({ size }) => size === 0)}
    >
      <ChoiceFields choice={choice} systems={systems} busy={busy} onChange={change} />
      {shown}
    </DialogForm>
  );
}

/** Sends the files to the service, of which one request runs at a time. It ends with the dialog. */
function useUpload(appId: string) {
  const [progress, setProgress] = useState<Progress | null>(null);
  const controller = useRef(new AbortController());
  const stop = () => controller.current.abort();
  useEffect(() => stop, []);

  async function upload(choice: Choice, options: Options | undefined, how: Record<string, string>): Promise<Answer> {
    controller.current = new AbortController();
    const { from, dates, timeZone, map, trustUnverified = false } = options ?? {};
    const given = { from, dates, map, time_zone: timeZone, trust_unverified: trustUnverified ? 'true' : undefined };
    const sizes = options && choice.files.length > 1 ? String(choice.files.map(({ size }) => size)) : undefined;
    const set = Object.entries({ ...given, sizes, ...how }).flatMap(([name, value]) => (value ? [[name, value]] : []));
    try {
      return await sendFiles(`${streamPath(appId, 'import')}?${new URLSearchParams(set)}`, bodyOf(choice), {
        signal: controller.current.signal,
        phase: 'dry_run' in how ? 'Reading' : 'Importing',
        onProgress: setProgress,
      });
    } finally {
      setProgress(null);
    }
  }
  return { progress, upload, stop };
}

interface ChoiceFieldsProps {
  readonly choice: Choice;
  readonly systems: readonly (readonly [name: string, title: string])[];
  readonly busy: boolean;
  readonly onChange: (changes: Partial<Choice>) => void;
}

function ChoiceFields({ choice, systems, busy, onChange }: ChoiceFieldsProps) {
  const { files, from, onConflict, skipInvalid } = choice;
  const choose = (list: FileList | null) => {
    const chosen = [...(list ?? [])];
    const isTable = chosen.some(({ name }) => /\.(csv|tsv)(\.gz)?$/i.test(name));
    // A file of another system may be CSV, too.
    const other = from === TABLE[0] && !isTable ? OWN[0] : from;
    onChange({ files: chosen, columns: null, from: from === OWN[0] && isTable ? TABLE[0] : other });
  };
  return (
    <>
      <Field
        label="Files"
        hint={
          busy || files.length > 1 ? (
            <bdi>{files.map(({ name }) => name).join(', ')}</bdi>
          ) : (
            <>
              NDJSON as the export writes it, one user a line:{' '}
              <code>{'{"auth_method": "email", "auth_value": "ada@example.com"}'}</code>. Or a table, or files of
              another system as they are
            </>
          )
        }
      >
        <input type="file" multiple disabled={busy} onChange={(event) => choose(event.currentTarget.files)} />
      </Field>
      {files.some(({ size }) => size === 0) && <p class="banner warn">The file is empty.</p>}
      <SelectField
        label="From"
        value={from}
        options={systems}
        onChange={(name) => onChange({ from: name, columns: null })}
      />
      <SelectField
        label="A user who exists already"
        value={onConflict}
        options={CONFLICTS}
        onChange={(chosen) => onChange({ onConflict: chosen })}
      />
      <Choices
        legend="A line that is wrong"
        options={{ stop: 'Import nothing (all or nothing)', skip: 'Skip it, and import the rest' }}
        chosen={[skipInvalid ? 'skip' : 'stop']}
        isOne
        onChange={([chosen]) => onChange({ skipInvalid: chosen === 'skip' })}
      />
    </>
  );
}

function Sending({ progress, onStop }: { progress: Progress; onStop: () => void }) {
  const { phase, fraction, lines, notice } = progress;
  const text = phase === 'Sending' ? 'Sending the files' : `${phase}: ${plural(lines, 'line')} read`;
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
