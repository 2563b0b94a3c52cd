import { useSignal } from '@preact/signals';
import { useRef, useState } from 'preact/hooks';
import type { Converted, ImportField, Row, Sheet } from './csv.js';
import { AuthMethodField, SelectField } from './form.js';
import { Failure, graphql, useQuery } from './graphql.js';
import { type Column, Table } from './table.js';

/* The file of an import: what it is and, if it is CSV, as what its columns are imported. */

const IMPORT_FIELDS = graphql(`query ImportFields { importFields { name form isRequired } }`);

const DELIMITERS = [
  [',', 'Comma'],
  [';', 'Semicolon'],
  ['\t', 'Tab'],
  ['|', 'Bar'],
] as const;

interface Chosen {
  readonly file: File | null;
  /** Null for NDJSON. */
  readonly sheet: Sheet | null;
  readonly isLooking: boolean;
  readonly failure?: Failure;
  /** By column, the field that was selected for it; empty for none. */
  readonly selected: Readonly<Record<number, string>>;
  readonly firstLine?: FirstLine;
}

/** The kind of the first line of CSV; empty until the operator says so. */
type FirstLine = '' | 'titles' | 'user';
const FIRST_LINES = [
  ['', 'to be chosen'],
  ['titles', 'names the columns'],
  ['user', 'is a user'],
] as const;

const NOTHING: Chosen = { file: null, sheet: null, isLooking: false, selected: {} };
const NO_FIELDS: readonly ImportField[] = [];

/** The file that is chosen. CSV is recognised by its name, or because a line of NDJSON begins with a brace. */
async function openIfCsv(file: File, delimiter: string | null): Promise<Sheet | null> {
  // A list in JSON is no CSV either; the import says what is wrong with it.
  const isCsv = /\.(csv|tsv)$/i.test(file.name) || /^[^{[]/.test((await file.slice(0, 1024).text()).trim());
  return isCsv ? (await import('./csv.js')).openSheet(file, delimiter) : null;
}

const asRefusal = (error: unknown) => new Failure((error as Error).message, 'BAD_USER_INPUT');

export type ImportFile = ReturnType<typeof useImportFile>;

export function useImportFile() {
  const [chosen, setChosen] = useState(NOTHING);
  const { file, sheet, isLooking, selected } = chosen;
  const authMethod = useSignal('');
  const rounds = useRef(0);
  const query = useQuery(IMPORT_FIELDS, sheet ? {} : null);
  const fields = query.data?.importFields ?? NO_FIELDS;

  async function choose(chosenFile: File | null, delimiter: string | null = null) {
    rounds.current += 1;
    const round = rounds.current;
    const isLooked = chosenFile !== null && chosenFile.size > 0;
    const now = { ...NOTHING, file: chosenFile };
    setChosen({ ...now, sheet: delimiter === null ? null : sheet, isLooking: isLooked });
    if (!isLooked) return;
    const result = await openIfCsv(chosenFile, delimiter).then(
      (opened) => ({ sheet: opened }),
      (error) => ({ failure: asRefusal(error) }),
    );
    // Another file may have been chosen meanwhile.
    if (round === rounds.current) setChosen({ ...now, ...result });
  }

  const titles = sheet?.first.cells ?? [];
  const guessed = titles.map((title) => fieldOf(title, fields));
  const emails = titles.findIndex((title) => /^\W*e-?mail/i.test(title));
  // Without another value of a login, the email is it.
  if (fields.length > 0 && emails >= 0 && !guessed.includes('auth_value')) guessed[emails] = 'auth_value';
  const firstLine = chosen.firstLine ?? (sheet?.firstIsUser ? 'user' : guessed.some(Boolean) ? 'titles' : '');
  const names = guessed.map((name, index) => selected[index] ?? (firstLine === 'titles' ? name : ''));
  const always: Record<string, string> =
    names.includes('auth_method') || !authMethod.value.trim() ? {} : { auth_method: authMethod.value.trim() };
  const failure = chosen.failure ?? query.failure;
  const unsaid = firstLine === '' ? ['Say whether the first line names the columns.'] : [];
  const missing = sheet ? [...unsaid, ...whatIsMissing(fields, names, always)] : [];

  /** The lines to send. Throws a Failure. */
  async function convert(signal: AbortSignal, onProgress: (fraction: number) => void): Promise<Converted> {
    if (!sheet || !file) return { body: file ?? new Blob(), faults: new Map() };
    const columns = names.map((name) => fields.find((field) => field.name === name));
    const { toNdjson } = await import('./csv.js');
    const hasTitles = firstLine === 'titles';
    return toNdjson(file, sheet, { hasTitles, columns, always, signal, onProgress }).catch((error) => {
      throw asRefusal(error);
    });
  }

  return {
    ...{ file, sheet, fields, names, firstLine, authMethod, missing, failure, choose, convert },
    setFirstLine: (line: FirstLine) => setChosen({ ...chosen, firstLine: line }),
    select: (column: number, name: string) => setChosen({ ...chosen, selected: { ...selected, [column]: name } }),
    isReady:
      file !== null && file.size > 0 && !isLooking && !failure && missing.length === 0 && (!sheet || fields.length > 0),
  };
}

/** The field that a title names, also as "Auth Value"; empty for none. */
function fieldOf(title: string, fields: readonly ImportField[]): string {
  const name = title
    .trim()
    .toLowerCase()
    .replace(/[\s-]+/g, '_');
  return fields.some((field) => field.name === name) ? name : '';
}

function whatIsMissing(fields: readonly ImportField[], names: readonly string[], always: object): string[] {
  return fields.flatMap(({ name, isRequired }) => {
    const columns = names.filter((one) => one === name).length;
    if (columns > 1) return [`${columns} columns are imported as ${name}: leave one.`];
    if (columns === 1 || !isRequired || name in always) return [];
    return [
      `No column is imported as ${name}${name === 'auth_method' ? '. Choose one, or give it for all users' : ''}.`,
    ];
  });
}

/** Options of reading a CSV file: its first rows, and the meaning of each column. */
export function CsvColumns({ of, disabled }: { of: ImportFile; disabled: boolean }) {
  const { file, sheet, fields, names, firstLine, authMethod, missing, choose, select, setFirstLine } = of;
  if (!sheet || fields.length === 0) return null;
  const options = [['', 'not imported'], ...fields.map(({ name }) => [name, name] as const)] as const;
  return (
    <fieldset class="csv" disabled={disabled}>
      <legend>This is CSV.</legend>
      <SelectField label="The first line" value={firstLine} options={FIRST_LINES} onChange={setFirstLine} />
      <SelectField
        label="Delimiter"
        value={sheet.delimiter}
        options={DELIMITERS}
        onChange={(delimiter) => choose(file, delimiter)}
      />
      <Table
        caption="The first rows"
        staysTable
        rows={firstLine === 'titles' ? sheet.rows : [sheet.first, ...sheet.rows]}
        rowKey={({ line }) => String(line)}
        columns={sheet.first.cells.map(
          (title, index): Column<Row> => ({
            title: (
              <SelectField
                label={
                  <>
                    <bdi>{(firstLine !== 'user' && shorten(title)) || `Column ${index + 1}`}</bdi>{' '}
                    <small>imported as</small>
                  </>
                }
                value={names[index] ?? ''}
                options={options}
                onChange={(name) => select(index, name)}
              />
            ),
            class: 'main-cell',
            cell: ({ cells }) => <bdi>{shorten(cells[index] ?? '')}</bdi>,
          }),
        )}
      />
      {!names.includes('auth_method') && (
        <>
          <AuthMethodField label="auth_method of all users" text={authMethod} />
          <small class="quiet">For logins by email: email, with the email as auth_value.</small>
        </>
      )}
      {missing.length > 0 && (
        <p class="banner warn" role="status">
          {missing.join(' ')}
        </p>
      )}
    </fieldset>
  );
}

const SHOWN_LENGTH = 60;
const shorten = (text: string) => (text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}…` : text);
