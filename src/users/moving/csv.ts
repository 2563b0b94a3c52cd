import { z } from 'zod';
import { methodNamed } from '../../domain/auth-methods.js';
import { describeJsonFault } from '../../domain/json-fault.js';
import { parse } from '../../domain/parse.js';
import { AppError, show } from '../../errors.js';
import { counted, type Login, type Person, type SourceRecord, type System } from './person.js';
import type { PlacedRecord } from './read.js';
import { fieldNamed } from './read-csv.js';
import { type Fields, isEmpty, objectOf, objectsOf, textOf, textsOf, truthOf, wordsOf } from './values.js';

/* People of any table, by a mapping of its columns. */

const CONTACTS = ['email', 'phone', 'wallet', 'username'] as const;
const FIELDS =
  wordsOf(`external_id auth_method auth_value email email_verified phone phone_verified username wallet accounts
  identities created_at last_login login_count metadata blocked deleted`);
/** As MySQL and PostgreSQL write null. */
const NULL = /^(\\N|NULL)$/;
const MAX_ROWS = 100;
/** The rows of a record that was made of several. */
const ROWS = '(rows)';

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()]);
const error = ({ path = [] }: { path?: PropertyKey[] | undefined }) =>
  `map.${path.join('.')}: expected a column, or {"column", "value", "values", "split"}.`;
/** Where a field comes from: the first column with a value, or else the value. `values` has what stands for a text of the column. */
const source = z.union(
  [
    z.string().transform((column) => ({ column: [column] })),
    z.strictObject(
      {
        column: z
          .union([z.string(), z.array(z.string())])
          .default([])
          .transform((column) => [column].flat()),
        value: scalar.optional(),
        values: z.record(z.string(), scalar).optional(),
        split: z.string().min(1).optional(),
      },
      { error },
    ),
  ],
  { error },
);
const mapping = z.record(z.string(), source, { error: 'map: expected a JSON object of fields.' });
interface Source {
  readonly column: readonly string[];
  readonly value?: z.output<typeof scalar> | undefined;
  readonly values?: Readonly<Record<string, z.output<typeof scalar>>> | undefined;
  readonly split?: string | undefined;
}

/** The system of a table, of which `map` says as JSON which field is which column; null for columns named as the fields. BAD_USER_INPUT. */
export function createCsvSystem(map: string | null): System {
  const { join, ...sources } = map === null ? bySameName() : readMapping(map);
  const columns = [...Object.values(sources), ...(join === undefined ? [] : [join])].flatMap(({ column }) => column);
  const idFields = sources['external_id']?.column.map(fieldNamed) ?? [];
  return {
    name: 'csv',
    title: 'a table',
    idFields: map === null ? [] : idFields,
    fields: [...new Set([...columns, ...columns.map(fieldNamed), 'id', ROWS])],
    ...(join?.column[0] !== undefined && { joinBy: fieldNamed(join.column[0]) }),
    checkTitles: (titles) => checkTitles(titles, map === null ? null : columns),
    toPerson: (record) => personOf(record, sources),
  };
}

const bySameName = (): Record<string, Source> => Object.fromEntries(FIELDS.map((name) => [name, { column: [name] }]));

function readMapping(map: string): Record<string, Source> {
  const fault = describeJsonFault(map);
  if (fault !== null) throw new AppError('BAD_USER_INPUT', `map: not valid JSON: ${fault}.`);
  const sources = parse(mapping, JSON.parse(map));
  for (const name of Object.keys(sources)) {
    if (FIELDS.includes(name) || name === 'join' || name.startsWith('metadata.')) continue;
    const known = [...FIELDS, 'metadata.…', 'join'].join(', ');
    throw new AppError('BAD_USER_INPUT', `map: got the field ${show(name)}, expected one of ${known}.`);
  }
  return sources;
}

function checkTitles(titles: readonly string[], columns: readonly string[] | null): void {
  const missing = columns?.find((column) => !titles.includes(fieldNamed(column)));
  const has = `it has: ${titles.join(', ')}.`;
  if (missing !== undefined) throw new AppError('BAD_USER_INPUT', `The file has no column ${show(missing)}; ${has}`);
  if (columns === null && !['external_id', 'auth_value', ...CONTACTS].some((name) => titles.includes(name)))
    throw new AppError('BAD_USER_INPUT', `No column is named as a field. Say by a map which is which; ${has}`);
}

function personOf(record: SourceRecord, sources: Readonly<Record<string, Source>>): Person | string {
  const get = (name: string) => valueIn(record, sources[name]);
  const deleted = get('deleted');
  if (!isEmpty(deleted) && truthOf(deleted) !== false) return 'deleted records';
  const rows = Array.isArray(record[ROWS]) ? (record[ROWS] as SourceRecord[]) : [record];
  const logins = rows.flatMap((row) => loginsOf(row, sources));
  const named = Object.keys(sources).filter((name) => name.startsWith('metadata.'));
  const metadata = get('metadata');
  const hasPhone = logins.some(({ by }) => methodNamed(by) === 'phone');
  return {
    id: textOf(get('external_id')),
    logins: logins.filter(({ by }) => !GUEST.test(by)),
    email: { address: get('email'), verified: truthOf(get('email_verified')) },
    wallet: get('wallet'),
    accounts: textsOf(get('accounts'), sources['accounts']?.split),
    createdAt: get('created_at'),
    lastLogin: get('last_login'),
    loginCount: get('login_count'),
    blocked: truthOf(get('blocked')) ?? get('blocked'),
    metadata: {
      ...(/^\s*\{/.test(textOf(metadata)) || typeof metadata === 'object' ? objectOf(metadata) : { metadata }),
      ...Object.fromEntries(named.map((name) => [name.slice('metadata.'.length), get(name)])),
      ...(!hasPhone && { phone: get('phone') }),
    },
    isGuest: logins.some(({ by }) => GUEST.test(by)),
    notKept: counted(
      'logins without an ID',
      logins.filter(({ by, value }) => !GUEST.test(by) && isEmpty(value)).length,
    ),
  };
}

const GUEST = /^(guest|anonymous)$/i;

/** The logins of a row. Where it names providers, their IDs are the auth_value in the same order. */
function loginsOf(row: SourceRecord, sources: Readonly<Record<string, Source>>): Login[] {
  const list = (name: string) => valuesIn(row, sources[name]).map(textOf);
  const contacts = Object.fromEntries(CONTACTS.map((name) => [name, list(name)[0] ?? '']));
  const said = { email: truthOf(list('email_verified')[0]), phone: truthOf(list('phone_verified')[0]) };
  const entries = objectsOf(valueIn(row, sources['identities']));
  if (entries.length > 0) return entries.map(loginOf).sort((a, b) => Number(b.isPrimary) - Number(a.isPrimary));
  const methods = list('auth_method');
  const providers = methods.filter((method) => !(methodNamed(method) in contacts) && !GUEST.test(method));
  const ids = list('auth_value');
  const names = methods.length > 0 ? methods : CONTACTS.filter((name) => contacts[name] !== '');
  return names.map((by) => {
    const method = methodNamed(by);
    const verified = method === 'email' || method === 'phone' ? said[method] : null;
    if (!(method in contacts)) return { by, value: ids[providers.indexOf(by)] };
    return { by, value: contacts[method] || (providers.length === 0 ? ids[0] : ''), verified };
  });
}

/** An identity of an export of this service. */
const loginOf = (entry: Fields): Login & { isPrimary: boolean } => ({
  by: textOf(entry['auth_method']),
  value: entry['auth_value'],
  email: entry['email'],
  verified: truthOf(entry['email_verified']),
  createdAt: entry['created_at'],
  lastLogin: entry['last_login'],
  isPrimary: entry['primary'] === true,
});

const valueIn = (record: SourceRecord, from: Source | undefined) =>
  from === undefined ? null : valuesIn(record, { ...from, split: undefined })[0];

/** The values of a field in a record: several only of a cell that is split. */
function valuesIn(
  record: SourceRecord,
  from: (Omit<Source, 'split'> & { split?: string | undefined }) | undefined,
): unknown[] {
  const { column = [], value = null, values = {}, split } = from ?? {};
  const cells = column.map((name) => record[name] ?? record[fieldNamed(name)]).filter((cell) => !isNull(cell));
  const [cell = value] = cells;
  const parts = split === undefined ? [cell] : textsOf(cell, split);
  return parts
    .map((part) => (Object.hasOwn(values, textOf(part)) ? values[textOf(part)] : part))
    .filter((part) => !isEmpty(part));
}

const isNull = (cell: unknown) => isEmpty(cell) || NULL.test(textOf(cell));

/** Makes one record of the adjacent ones that have the same value in a field. Memory does not grow with the file. */
export async function* joinRows(records: AsyncIterable<PlacedRecord[]>, field: string): AsyncGenerator<PlacedRecord[]> {
  let held: PlacedRecord[] = [];
  let key = '';
  for await (const some of records) {
    const complete: PlacedRecord[] = [];
    for (const record of some) {
      const next = keyOf(record, field);
      if (held.length > 0 && (next === '' || next !== key)) complete.push(joinedOf(held.splice(0)));
      if (held.length <= MAX_ROWS) held.push(record);
      key = next;
    }
    yield complete;
  }
  if (held.length > 0) yield [joinedOf(held)];
  held = [];
}

/** Empty for a record that is joined to none, also because it cannot be read. */
function keyOf({ read }: PlacedRecord, field: string): string {
  try {
    return textOf(read()[field]);
  } catch {
    return '';
  }
}

function joinedOf(held: readonly PlacedRecord[]): PlacedRecord {
  const [first] = held as [PlacedRecord];
  if (held.length === 1) return first;
  return {
    place: first.place,
    read() {
      if (held.length > MAX_ROWS) throw new AppError('BAD_USER_INPUT', `A person has more than ${MAX_ROWS} rows.`);
      const rows = held.map(({ read }) => read());
      // The first row that has a value decides.
      const cells = rows.toReversed().flatMap((row) => Object.entries(row).filter(([, cell]) => !isNull(cell)));
      return { ...Object.fromEntries(cells), [ROWS]: rows };
    },
  };
}
