import type { Signal } from '@preact/signals';
import { AuthMethodField, DialogForm, type DialogFormProps, SelectField, TextField } from './form.js';
import { formatNumber, plural } from './format.js';
import { Faults } from './import-report.js';
import type { Counts, Findings, SampleLine } from './import-upload.js';
import { Button, Time } from './parts.js';
import { type Column, Table } from './table.js';

/* What is in the files of another system, before they are imported, and how they are read. */

/** A column of a table, and the field that it is imported as; empty for none. */
export interface TableColumn {
  readonly title: string;
  readonly field: string;
}

/** How files are read. */
export interface Reading {
  readonly trustUnverified: boolean;
  /** Null for other files than a table. */
  readonly columns: readonly TableColumn[] | null;
}

/** The texts of the form, which its inputs change. */
export interface ReadingTexts {
  readonly dates: Signal<string>;
  readonly timeZone: Signal<string>;
  /** The login method of all people of a table. */
  readonly method: Signal<string>;
}

const LOGINS = ['email', 'phone', 'wallet', 'username'];
/** One of these says who a person is. */
const NEEDED = ['auth_value', ...LOGINS, 'external_id'];
/** A table column of no other field may become one of the metadata, by its title. */
const METADATA = 'metadata.';
const FIELDS = [
  ...['external_id', 'auth_method', 'auth_value', 'email', 'email_verified', 'phone', 'phone_verified', 'username'],
  ...['wallet', 'accounts', 'identities', 'created_at', 'last_login', 'login_count', 'metadata', 'blocked', 'deleted'],
];
const FIELD_OPTIONS = [
  ['', 'not imported'],
  ...FIELDS.map((name) => [name, name] as const),
  [METADATA, 'metadata, by its title'],
] as const;

/** Titles that other systems have for a field, without what is between their words. */
const TITLES: readonly (readonly [field: string, title: RegExp])[] = [
  ['external_id', /^(user|customer|member|account)?(id|uid|uuid|guid)$/],
  ['email', /^e?mail(address)?$/],
  ['email_verified', /^e?mail(is)?(verified|confirmed)$/],
  ['phone', /^(phone|mobile)(number)?$/],
  ['created_at', /^(created|signup|signedup|registered|joined)(at|on|date|time)?$/],
  ['last_login', /^last(login|seen|signin|signedin)(at|on|date|time)?$/],
  ['login_count', /^(login|signin)s?count$/],
];

/** The columns of a table, with the fields that their titles name. */
export function guessColumns(titles: readonly string[]): TableColumn[] {
  const words = titles.map((title) => title.toLowerCase().replace(/[\W_]+/g, ''));
  const places = new Map<string, number>();
  for (const field of FIELDS) {
    const byName = words.indexOf(field.replace('_', ''));
    const byTitle = words.findIndex((word) => TITLES.some(([name, title]) => name === field && title.test(word)));
    const place = byName >= 0 ? byName : byTitle;
    if (place >= 0) places.set(field, place);
  }
  return titles.map((title, place) => ({ title, field: FIELDS.find((field) => places.get(field) === place) ?? '' }));
}

const fieldsOf = (columns: readonly TableColumn[]) => columns.map(({ field }) => field);

const needsMethod = (fields: readonly string[]) => fields.includes('auth_value') && !fields.includes('auth_method');

/** The mapping of a table, as JSON. */
export function mapOf(columns: readonly TableColumn[], method: string): string {
  const sources = columns.flatMap(({ title, field }) =>
    field === '' ? [] : [[field === METADATA ? `${METADATA}${title.trim()}` : field, title]],
  );
  const isFixed = needsMethod(fieldsOf(columns)) && method !== '';
  return JSON.stringify({ ...(isFixed && { auth_method: { value: method } }), ...Object.fromEntries(sources) });
}

/** What the mapping of a table lacks, in sentences. */
export function whatIsMissing(columns: readonly TableColumn[], method: string): string[] {
  const fields = fieldsOf(columns);
  const twice = FIELDS.filter((field) => fields.indexOf(field) !== fields.lastIndexOf(field));
  return [
    ...twice.map((field) => `More than one column is imported as ${field}: leave one.`),
    ...(NEEDED.some((field) => fields.includes(field))
      ? []
      : ['Choose the column that says who a person is, such as email.']),
    ...(needsMethod(fields) && method === '' ? ['Choose the column of auth_method, or give it for all people.'] : []),
  ];
}

interface LookDialogProps
  extends Reading,
    ReadingTexts,
    Omit<DialogFormProps, 'title' | 'submit' | 'disabled' | 'children'> {
  /** The names of the files, and of their system. */
  readonly files: string;
  readonly system: string;
  /** Null before the first look. */
  readonly findings: Findings | null;
  /** True if they are to be read in another way than when they were looked into. */
  readonly isStale: boolean;
  readonly skipInvalid: boolean;
  readonly progress: preact.ComponentChildren;
  readonly onRead: (reading: Partial<Reading>) => void;
  /** Goes back to the choice of the files. */
  readonly onBack: () => void;
}

export function LookDialog(props: LookDialogProps) {
  const { files, system, findings, isStale, skipInvalid, progress, onBack, onRead, ...rest } = props;
  const { trustUnverified, columns, dates, timeZone, method, ...form } = rest;
  const missing = columns === null ? [] : whatIsMissing(columns, method.value.trim());
  const isLook = isStale || findings === null;
  return (
    <DialogForm
      {...form}
      title="What is in the files"
      submit={isLook ? 'Look again' : submitOf(findings, skipInvalid)}
      disabled={isLook ? missing.length > 0 : findings.imported === 0}
    >
      <p class="look">
        <bdi>{files}</bdi> <span class="quiet">from {system}</span>{' '}
        <Button label="Change" class="small" disabled={form.busy} onClick={onBack} />
      </p>
      {columns && (
        <TableColumns
          {...{ columns, method, missing }}
          disabled={form.busy}
          onChange={(changed) => onRead({ columns: changed })}
        />
      )}
      {findings && <Picture findings={findings} isStale={isStale} />}
      <details>
        <summary>How the files are read</summary>
        <fieldset class="fields" disabled={form.busy}>
          <TextField
            label="Dates"
            name="dates"
            text={dates}
            hint={
              <>
                where they are not understood, such as <code>dd.MM.yyyy HH:mm</code>
              </>
            }
          />
          <TextField
            label="Time zone"
            name="time_zone"
            text={timeZone}
            list="time-zones"
            hint="of dates that say none; without it UTC"
          />
          <datalist id="time-zones">
            {Intl.supportedValuesOf('timeZone').map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
          <label class="inline">
            <input
              type="checkbox"
              checked={trustUnverified}
              onChange={({ currentTarget }) => onRead({ trustUnverified: currentTarget.checked })}
            />
            People may log in by emails and phones that were never verified
          </label>
        </fieldset>
      </details>
      {progress}
    </DialogForm>
  );
}

function submitOf({ imported, failed }: Findings, skipInvalid: boolean): string {
  const people = plural(imported, 'person', 'people');
  return failed > 0 && !skipInvalid ? `Skip ${plural(failed, 'line')}, import ${people}` : `Import ${people}`;
}

interface TableColumnsProps extends Pick<ReadingTexts, 'method'> {
  readonly columns: readonly TableColumn[];
  readonly missing: readonly string[];
  readonly disabled: boolean;
  readonly onChange: (columns: TableColumn[]) => void;
}

/** Selects as what the columns of a table are imported. */
function TableColumns({ columns, method, missing, disabled, onChange }: TableColumnsProps) {
  return (
    <fieldset class="csv" disabled={disabled}>
      <legend>Its columns are imported as</legend>
      <div class="fields columns">
        {columns.map(({ title, field }, place) => (
          <SelectField
            key={place}
            label={<bdi>{shorten(title) || `Column ${place + 1}`}</bdi>}
            value={field}
            options={FIELD_OPTIONS}
            onChange={(chosen) => onChange(columns.with(place, { title, field: chosen }))}
          />
        ))}
      </div>
      {needsMethod(fieldsOf(columns)) && <AuthMethodField label="auth_method of all people" text={method} />}
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

function Picture({ findings, isStale }: { findings: Findings; isStale: boolean }) {
  const { people, identities, blocked, without_email, failed, kept_otherwise, not_kept, sample } = findings;
  const tiles = { people, blocked, 'without email': without_email, 'lines that are wrong': failed };
  return (
    <div class={isStale ? 'picture stale' : 'picture'} role="status">
      <dl class="tiles">
        {Object.entries(tiles).map(([name, count]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{formatNumber(count)}</dd>
          </div>
        ))}
      </dl>
      <Faults kinds={findings.error_kinds} />
      <CountTable title="How they log in" counts={identities} hasBars />
      <div class="halves">
        <CountTable title="Kept in another way" counts={kept_otherwise} />
        <CountTable title="Not kept" counts={not_kept} />
      </div>
      {sample.length > 0 && (
        <section>
          <h2>The first {sample.length === 1 ? 'user' : `${sample.length} users`}</h2>
          <Table
            caption="The first users"
            staysTable
            rows={sample.map((line, place) => ({ ...line, place }))}
            rowKey={({ place }) => String(place)}
            columns={SAMPLE_COLUMNS}
          />
        </section>
      )}
      <p class="quiet note">
        {findings.files.map(({ kind, encoding }) => `${kind} in ${encoding.toUpperCase()}`).join(', ')}. Dates that say
        no time zone are read in {findings.time_zone}.
      </p>
    </div>
  );
}

/** Numbers by what they count, the greatest first. */
function CountTable({ title, counts, hasBars = false }: { title: string; counts: Counts; hasBars?: boolean }) {
  const rows = Object.entries(counts).toSorted(([, one], [, other]) => other - one);
  const [[, most] = ['', 0]] = rows;
  if (rows.length === 0) return null;
  return (
    <section>
      <h2>{title}</h2>
      <Table
        caption={title}
        staysTable
        hidesTitles
        rows={rows}
        rowKey={([name]) => name}
        columns={[
          { title: 'What', namesRow: true, cell: ([name]) => <bdi>{name}</bdi> },
          hasBars && {
            title: 'Share',
            class: 'bar',
            cell: ([name, count]) => (
              <svg aria-hidden="true" data-method={name}>
                <rect width={`${(100 * count) / most}%`} height="100%" rx="3" />
              </svg>
            ),
          },
          { title: 'How many', class: 'number', cell: ([, count]) => formatNumber(count) },
        ]}
      />
    </section>
  );
}

const SAMPLE_COLUMNS: readonly Column<SampleLine>[] = [
  {
    title: 'Logs in by',
    class: 'main-cell',
    cell: ({ auth_method, auth_value, identities = [] }) => (
      <>
        <bdi>{auth_value}</bdi>
        <span class="second-line">
          {[auth_method, ...identities.filter(({ primary }) => !primary).map((other) => other.auth_method)].join(', ')}
        </span>
      </>
    ),
  },
  { title: 'External ID', class: 'main-cell', cell: ({ external_id = '' }) => <bdi>{external_id}</bdi> },
  {
    title: 'Created',
    class: 'nowrap',
    cell: ({ created_at }) => (created_at === null ? 'by the import' : <Time at={created_at} dayOnly />),
  },
  { title: 'Last login', class: 'nowrap', cell: ({ last_login }) => <Time at={last_login} dayOnly /> },
  { title: 'Logins', class: 'number', cell: ({ login_count = 0 }) => formatNumber(login_count) },
  {
    title: 'Metadata',
    class: 'main-cell',
    hover: ({ metadata }) => (metadata ? JSON.stringify(metadata) : ''),
    cell: ({ metadata }) => metadata && <bdi>{JSON.stringify(metadata)}</bdi>,
  },
];
