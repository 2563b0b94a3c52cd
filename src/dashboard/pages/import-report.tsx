import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { closeDialog, Dialog } from './dialog.js';
import { DialogForm } from './form.js';
import { formatNumber, plural } from './format.js';
import { graphql, send, useAction } from './graphql.js';
import type { Answer, ImportReport } from './import-upload.js';
import { Button, Fact } from './parts.js';
import { command } from './recipes.js';
import { Table } from './table.js';

/* The report of an import, and its undoing. */

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
  /** Begins again. */
  readonly onAnother: () => void;
  /** Imports the other lines; null where lines were skipped already. */
  readonly onSkip: (() => void) | null;
}

export function ReportDialog({ appId, report, outcomes, onClose, onAnother, onSkip }: ReportDialogProps) {
  const { imported, skipped, failed, error_kinds, import_id } = report;
  const [isUndoing, setUndoing] = useState(false);
  const url = useMemo(() => URL.createObjectURL(outcomes), [outcomes]);
  useEffect(() => () => URL.revokeObjectURL(url), [url]);
  if (isUndoing && import_id !== null)
    return <UndoImport appId={appId} importId={String(import_id)} onClose={onClose} />;
  const canSkip = onSkip !== null && failed > 0 && !isOtherFormat(report);
  return (
    <Dialog
      title={outcomeOf(report)}
      onClose={onClose}
      actions={
        <>
          {import_id !== null && <Button label="Undo this import" class="danger" onClick={() => setUndoing(true)} />}
          <Button label="Import another file" onClick={onAnother} />
          {canSkip && <Button label="Skip these lines, import the rest" onClick={onSkip} />}
          <Button label="Done" class="primary" onClick={onClose} />
        </>
      }
    >
      <div role="status">
        <dl class="facts">
          {COUNTS.map(([key, name, isAlways]) => {
            const count = report[key] ?? 0;
            return (isAlways || count > 0) && <Fact name={name}>{formatNumber(count)}</Fact>;
          })}
        </dl>
        {failed > 0 && imported === 0 && skipped === 0 && (
          <p class="problem">
            {isOtherFormat(report)
              ? 'This is not NDJSON: each line has to be one user, as a JSON object of its own. Is it a table, or from another system?'
              : `Correct the lines below and import the file again${canSkip ? ', or skip them' : ''}. Only when each line is right by itself, it is looked at whether users and external IDs exist already.`}
          </p>
        )}
        <Faults kinds={error_kinds} />
      </div>
      {imported + skipped + failed > 0 && (
        <p class="note">
          <a href={url} download={`import-${appId}.csv`}>
            Download the report
          </a>{' '}
          <span class="quiet">– what became of each line, as CSV</span>
        </p>
      )}
    </Dialog>
  );
}

/** In every report the first thing to know. */
function outcomeOf({ imported, skipped, failed, bans }: ImportReport): string {
  if (imported > 0 || bans) return 'Import finished';
  if (failed > 0) return 'Nothing was imported';
  return skipped > 0 || bans === 0 ? 'Nothing was to be imported' : 'The file has no users';
}

/** Not one line was read as a user: it is another kind of file. */
const isOtherFormat = ({ imported, skipped, error_kinds }: ImportReport) =>
  imported + skipped === 0 &&
  error_kinds.length > 0 &&
  error_kinds.every(({ error }) => /not valid (JSON|UTF-8)|expected a JSON object/.test(error));

/** The lines that failed. Equal errors are one row. */
export function Faults({ kinds }: { kinds: ImportReport['error_kinds'] }) {
  if (kinds.length === 0) return null;
  return (
    <div class="dialog-list">
      <Table
        caption="Lines that failed"
        rows={kinds}
        rowKey={({ error }) => error}
        columns={[
          {
            title: 'Line',
            class: 'number',
            cell: ({ lines, first }) => (
              <>
                {first.map(formatNumber).join(', ')}
                {lines > first.length && <span class="second-line">and {formatNumber(lines - first.length)} more</span>}
              </>
            ),
          },
          { title: 'What is wrong', cell: ({ error }) => <bdi>{error}</bdi> },
        ]}
      />
    </div>
  );
}

const UNDO = graphql(`mutation UndoImport($appId: ID!, $importId: ID!) {
  undoImport(appId: $appId, importId: $importId) { removed kept done }
}`);

interface UndoImportProps {
  readonly appId: string;
  readonly importId: string;
  readonly onClose?: () => void;
}

/** Asks, and removes the users whom an import has created, a part at a time. */
export function UndoImport({ appId, importId, onClose = closeDialog }: UndoImportProps) {
  const [undone, setUndone] = useState({ removed: 0, kept: 0, done: false });
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const { run, busy, failure } = useAction(async () => {
    for (let sum = undone; !sum.done; setUndone(sum)) {
      const { undoImport: part } = await send(UNDO, { appId, importId }, { signal: stop.current.signal });
      sum = { removed: sum.removed + part.removed, kept: sum.kept + part.kept, done: part.done };
    }
  });
  const { removed, kept, done } = undone;
  const stay =
    kept > 0 && ` ${plural(kept, 'user')} ${kept === 1 ? 'stays' : 'stay'}: logged in since, merged or removed.`;
  if (done)
    return (
      <Dialog
        key="undone"
        title={removed + kept > 0 ? 'The import is undone' : 'Nothing is left of this import'}
        onClose={onClose}
        actions={<Button label="Done" class="primary" onClick={onClose} />}
      >
        <p role="status">
          {plural(removed, 'user')} removed.{stay}
        </p>
      </Dialog>
    );
  return (
    <DialogForm
      key="ask"
      title="Undo this import?"
      submit="Remove its users"
      danger
      recipe={{ userdir: command('user import', { project: appId, undo: importId }) }}
      onSubmit={run}
      onClose={onClose}
      busy={busy}
      failure={failure}
    >
      <p>
        Removes the users whom it has created, except those who have logged in since. They can be restored until they
        are erased. Users whom it has updated, and bans, stay as they are.
      </p>
      {busy && <p role="status">{plural(removed, 'user')} removed so far</p>}
    </DialogForm>
  );
}
