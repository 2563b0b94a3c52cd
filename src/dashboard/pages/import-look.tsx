import type { Signal } from '@preact/signals';
import { TABLE_FIELDS } from '#dist/domain/user-columns.js';
import { AuthMethodField, SelectField } from './form.js';
import { formatNumber } from './format.js';
import { Faults } from './import-report.js';
import type { Findings } from './import-upload.js';
import { Table } from './table.js';

/* What is in the files of another system, and as what the columns of a table are imported. */

/** A column of a table, and the field that it is imported as; empty for none. */
export interface TableColumn {
  readonly title: string;
  readonly field: string;
}

/** A column may become one of the metadata, by its title. */
const METADATA = 'metadata.';
const OPTIONS = [
  ['', 'not imported'],
  ...TABLE_FIELDS.map((name) => [name, name] as const),
  [METADATA, 'metadata, by its title'],
] as const;
/** Other titles of fields, without what is between their words. */
const TITLES: Record<string, RegExp> = {
  external_id: /^(user|customer|member|account)?u?u?id$/,
  email: /^e?mail(address)?$/,
  phone: /^(phone|mobile)(number)?$/,
  created_at: /^(created|registered|joined|signed?up)(at|on|date)?$/,
  last_login: /^last(login|seen|signin)(at|on|date)?$/,
};

/** The columns of a table, with the fields that their titles name. */
export function guessColumns(titles: readonly string[]): TableColumn[] {
  const words = titles.map((title) => title.toLowerCase().replace(/[\W_]+/g, ''));
  const placeOf = (field: string) => {
    const place = words.indexOf(field.replace('_', ''));
    return place >= 0 ? place : words.findIndex((word) => TITLES[field]?.test(word));
  };
  const fields = new Map(TABLE_FIELDS.map((field) => [placeOf(field), field]));
  return titles.map((title, place) => ({ title, field: fields.get(place) ?? '' }));
}

function needsMethod(columns: readonly TableColumn[]): boolean {
  const fields = columns.map(({ field }) => field);
  return fields.includes('auth_value') && !fields.includes('auth_method');
}

/** The mapping of a table, as JSON. */
export function mapOf(columns: readonly TableColumn[], method: string): string {
  const sources = columns.flatMap(({ title, field }) =>
    field === '' ? [] : [[field === METADATA ? METADATA + title.trim() : field, title]],
  );
  const always = needsMethod(columns) && method !== '' ? { auth_method: { value: method } } : {};
  return JSON.stringify({ ...always, ...Object.fromEntries(sources) });
}

interface TableColumnsProps {
  readonly columns: readonly TableColumn[];
  /** The login method of all people. */
  readonly method: Signal<string>;
  readonly disabled: boolean;
  readonly onChange: (columns: TableColumn[]) => void;
}

/** A field is that of one column. */
export function TableColumns({ columns, method, disabled, onChange }: TableColumnsProps) {
  const choose = (place: number, chosen: string) => {
    const others = columns.map((one) => (one.field === chosen && chosen !== METADATA ? { ...one, field: '' } : one));
    onChange(others.map((one, index) => (index === place ? { ...one, field: chosen } : one)));
  };
  return (
    <fieldset class="csv" disabled={disabled}>
      <legend>Its columns are imported as</legend>
      <div class="fields columns">
        {columns.map(({ title, field }, place) => (
          <SelectField
            key={place}
            label={<bdi>{shorten(title) || `Column ${place + 1}`}</bdi>}
            value={field}
            options={OPTIONS}
            onChange={(chosen) => choose(place, chosen)}
          />
        ))}
      </div>
      {needsMethod(columns) && <AuthMethodField label="auth_method of all people" text={method} />}
    </fieldset>
  );
}

const SHOWN_LENGTH = 60;
const shorten = (text: string) => (text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}…` : text);

/** `isStale` if the files are to be read in another way by now. */
export function Picture({ findings, isStale }: { findings: Findings; isStale: boolean }) {
  const { people, blocked, without_email, failed, sample, files, time_zone } = findings;
  const tiles = { people, blocked, 'without email': without_email, 'wrong lines': failed };
  const names = [...new Set(sample.flatMap(Object.keys))];
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
      <CountTable title="How they log in" counts={findings.identities} hasBars />
      <div class="halves">
        <CountTable title="Kept in another way" counts={findings.kept_otherwise} />
        <CountTable title="Not kept" counts={findings.not_kept} />
      </div>
      {sample.length > 0 && (
        <section>
          <h2>The first users, as they would be</h2>
          <Table
            caption="The first users"
            staysTable
            rows={sample}
            rowKey={(line) => String(sample.indexOf(line))}
            columns={names.map((name) => ({
              title: name,
              class: 'nowrap',
              cell: (line: Findings['sample'][number]) => <bdi>{shorten(asText(line[name]))}</bdi>,
            }))}
          />
        </section>
      )}
      <p class="quiet note">
        {files.map(({ kind, encoding }) => `${kind} in ${encoding.toUpperCase()}`).join(', ')}. Dates that say no time
        zone are read in {time_zone}.
      </p>
    </div>
  );
}

const asText = (value: unknown) => (typeof value === 'object' && value ? JSON.stringify(value) : String(value ?? ''));

/** Numbers by what they count, the greatest first. */
function CountTable({
  title,
  counts,
  hasBars = false,
}: {
  title: string;
  counts: Readonly<Record<string, number>>;
  hasBars?: boolean;
}) {
  const rows = Object.entries(counts).toSorted(([, one], [, other]) => other - one);
  const [[, most] = ['', 0]] = rows;
  if (most === 0) return null;
  const bar = ([name, count]: readonly [string, number]) => (
    <svg aria-hidden="true" data-method={name}>
      <rect width={`${(100 * count) / most}%`} height="100%" rx="3" />
    </svg>
  );
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
          hasBars && { title: 'Part', class: 'share', cell: bar },
          { title: 'How many', class: 'number', cell: ([, count]) => formatNumber(count) },
        ]}
      />
    </section>
  );
}
