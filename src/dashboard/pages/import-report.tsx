import { useEffect, useMemo } from 'preact/hooks';
import type { MovedReport } from '#dist/domain/import-results.js';
import { closeDialog, Dialog } from './dialog.js';
import { FormDialog } from './form.js';
import { formatNumber, plural } from './format.js';
import { graphql, send } from './graphql.js';
import type { Answer } from './import-upload.js';
import { announce, Button, Fact } from './parts.js';
import { command } from './recipes.js';
import { Table } from './table.js';

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

interface ReportDialogProps extends Answer {
  readonly appId: string;
  readonly onClose: () => void;
  readonly onAnother: () => void;
  /** Imports the other lines; null where lines were skipped already. */
  readonly onSkip: (() => void) | null;
}

export function ReportDialog({ appId, report, outcomes, onClose, onAnother, onSkip }: ReportDialogProps) {
  const { imported, skipped, failed, error_kinds, import_id } = report;
  const url = useMemo(() => outcomes && URL.createObjectURL(outcomes), [outcomes]);
  useEffect(() => () => URL.revokeObjectURL(url ?? ''), [url]);
  const canSkip = onSkip !== null && failed > 0 && !isOtherFormat(report);
  const undo = <UndoImport appId={appId} importId={String(import_id)} onDone={onClose} />;
  const actions = (
    <>
      {import_id !== null && <Button label="Undo this import" class="danger" opens={undo} />}
      <Button label="Import another file" onClick={onAnother} />
      {canSkip && <Button label="Skip these lines, import the rest" onClick={onSkip} />}
      <Button label="Done" class="primary" onClick={onClose} />
    </>
  );
  return (
    <Dialog title={outcomeOf(report)} onClose={onClose} actions={actions}>
      <div role="status">
        <dl class="facts">
          {COUNTS.map(([key, name, isAlways]) => {
            const count = report[key] ?? 0;
            return (isAlways || count > 0) && <Fact name={name}>{formatNumber(count)}</Fact>;
          })}
        </dl>
        {failed > 0 && imported + skipped === 0 && (
          <p class="problem">
            {isOtherFormat(report)
              ? 'This is not NDJSON: each line has to be one user, as a JSON object of its own. Or is it from another system?'
              : `Correct the lines below and import the file again${canSkip ? ', or skip them' : ''}. Only when each line is right by itself, it is looked at whether users and external IDs exist already.`}
          </p>
        )}
        <Faults kinds={error_kinds} />
      </div>
      {url && (
        <p class="note">
          <a href={url} download={`import-${appId}.csv`}>
            Download the report
          </a>
          : what became of each line, as CSV
        </p>
      )}
    </Dialog>
  );
}

/** In every report the first thing to know. */
function outcomeOf({ imported, skipped, failed, bans }: MovedReport): string {
  if (imported > 0 || bans) return 'Import finished';
  if (failed > 0) return 'Nothing was imported';
  return skipped > 0 || bans === 0 ? 'Nothing was to be imported' : 'The file has no users';
}

/** Not one line was read as a user: it is another kind of file. */
const isOtherFormat = ({ imported, skipped, error_kinds }: MovedReport) =>
  imported + skipped === 0 &&
  error_kinds.length > 0 &&
  error_kinds.every(({ error }) => /not valid (JSON|UTF-8)|expected a JSON object/.test(error));

/** The lines that failed. Equal errors are one row. */
export function Faults({ kinds }: { kinds: MovedReport['error_kinds'] }) {
  if (kinds.length === 0) return null;
  const places = ({ lines, first }: (typeof kinds)[number]) => (
    <>
      {first.map(formatNumber).join(', ')}
      {lines > first.length && <span class="second-line">and {formatNumber(lines - first.length)} more</span>}
    </>
  );
  const columns = [
    { title: 'Line', class: 'number', cell: places },
    { title: 'What is wrong', cell: ({ error }: { error: string }) => <bdi>{error}</bdi> },
  ];
  return (
    <div class="dialog-list">
      <Table caption="Lines that failed" rows={kinds} rowKey={({ error }) => error} columns={columns} />
    </div>
  );
}

const UNDO = graphql(`mutation UndoImport($appId: ID!, $importId: ID!) {
  undoImport(appId: $appId, importId: $importId) { removed kept done }
}`);

/** Removes the users whom an import has created, a part at a time. */
async function undoImport(appId: string, importId: string) {
  const sum = { removed: 0, kept: 0 };
  for (let isDone = false; !isDone; ) {
    const { removed, kept, done } = (await send(UNDO, { appId, importId })).undoImport;
    sum.removed += removed;
    sum.kept += kept;
    isDone = done;
  }
  return sum;
}

export function UndoImport(props: { appId: string; importId: string; onDone?: () => void }) {
  const { appId, importId, onDone } = props;
  return (
    <FormDialog
      title="Undo this import?"
      submit="Remove its users"
      danger
      recipe={{ userdir: command('user import', { project: appId, undo: importId }) }}
      work={() => undoImport(appId, importId)}
      onDone={({ removed, kept }) => {
        closeDialog();
        onDone?.();
        announce(
          `${plural(removed, 'user')} removed. ${plural(kept, 'user')} of the import ${kept === 1 ? 'stays' : 'stay'}.`,
        );
      }}
    >
      <p>
        Removes the users whom it has created, as long as nothing else has touched them since. They can be restored.
        Users whom it has updated, and bans, stay.
      </p>
    </FormDialog>
  );
}
