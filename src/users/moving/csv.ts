import { z } from 'zod';
import { methodNamed } from '../../domain/auth-methods.js';
import { IMPORT_FIELDS } from '../../domain/import-format.js';
import { describeJsonFault } from '../../domain/json-fault.js';
import { parse } from '../../domain/parse.js';
import { TABLE_FIELDS } from '../../domain/user-columns.js';
import { AppError, badInput, show } from '../../errors.js';
import { type Login, MAX_ROWS, type Person, repeated, type SourceRecord, type System, tooManyRows } from './person.js';
import type { PlacedRecord } from './read.js';
import { fieldNamed } from './read-csv.js';
import { isEmpty, isNever, objectOf, objectsOf, textOf, textsOf, truthOf, wordsOf } from './values.js';

/* People of any table, by a mapping of its columns (docs/moving.md). */

const CONTACTS = ['email', 'phone', 'wallet', 'username'];
/** The fields of which a person has more than the value of a column. The others become columns of the line as they are. */
const FIELDS_OF_PERSON =
  wordsOf(`external_id auth_method auth_value email email_verified phone phone_verified username wallet accounts
  identities created_at last_login metadata blocked deleted`);
const FURTHER_FIELDS = TABLE_FIELDS.filter((name) => !FIELDS_OF_PERSON.includes(name));
const GUEST = /^(guest|anonymous)$/i;
/** As MySQL and PostgreSQL write null. */
const NULL = /^(\\N|NULL)$/;
/** The rows of a record that was made of several. */
const ROWS = '(rows)';

const error = ({ path = [] }: { path?: PropertyKey[] | undefined }) =>
  `map.${path.join('.')}: expected a column, or {"column", "value", "values", "split"}.`;
const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()]);
/** Where a field comes from: the first column with a value, or else `value`. `values` has what stands for a text of the column. */
const source = z.strictObject(
  {
    column: z.union([z.string(), z.array(z.string())]).default([]),
    value: scalar.default(null),
    values: z.record(z.string(), scalar).default({}),
    split: z.string().min(1).nullable().default(null),
  },
  { error },
);
const mapping = z.record(
  z.string(),
  z.preprocess((column) => (typeof column === 'string' ? { column } : column), source),
  { error: 'map: expected a JSON object of fields.' },
);
type Sources = z.output<typeof mapping>;

/** The system of a table, of which `map` says as JSON which field is which column; null for columns named as the fields. BAD_USER_INPUT. */
export function createCsvSystem(map: string | null): System {
  const byName = Object.fromEntries(TABLE_FIELDS.map((name) => [name, name]));
  const { join, ...sources } = parse(mapping, map === null ? byName : parseMap(map));
  const columns = Object.values({ ...sources, ...(join && { join }) }).flatMap(({ column }) => column);
  const [joinColumn] = [join?.column ?? []].flat();
  return {
    name: 'csv',
    title: 'a table',
    idFields: map === null ? ['external_id', 'id'] : [sources['external_id']?.column ?? []].flat().map(fieldNamed),
    lists: wordsOf('users data results items records value'),
    fields: [...columns, ...columns.map(fieldNamed), 'id', ROWS],
    ...(joinColumn !== undefined && { joinBy: fieldNamed(joinColumn) }),
    checkTitles: (titles) => checkTitles(titles, map === null ? null : columns),
    toPerson: (record) => personOf(record, sources, map !== null),
  };
}

function parseMap(map: string): object {
  const fault = describeJsonFault(map);
  if (fault !== null) throw new AppError('BAD_USER_INPUT', `map: not valid JSON: ${fault}.`);
  const known = [...TABLE_FIELDS, 'join'];
  const value: unknown = JSON.parse(map);
  const unknown = Object.keys(objectOf(value)).find((name) => !known.includes(name) && !name.startsWith('metadata.'));
  if (unknown === undefined) return value as object;
  throw new AppError('BAD_USER_INPUT', `map: got ${show(unknown)}, expected one of ${known.join(', ')}, metadata.…`);
}

function checkTitles(titles: readonly string[], columns: readonly string[] | null): void {
  const has = `it has: ${titles.join(', ')}.`;
  const missing = columns?.find((column) => !titles.includes(fieldNamed(column)));
  if (missing !== undefined) throw new AppError('BAD_USER_INPUT', `The file has no column ${show(missing)}; ${has}`);
  if (columns === null && !['external_id', 'auth_value', ...CONTACTS].some((name) => titles.includes(name)))
    throw new AppError('BAD_USER_INPUT', `No column is named as a field. Say by a map which is which; ${has}`);
}

function personOf(record: SourceRecord, sources: Sources, isMapped: boolean): Person | string {
  const get = (name: string) => valuesOf(record, sources[name])[0];
  if (hasHappened(get('deleted'))) return 'deleted records';
  const rows = Array.isArray(record[ROWS]) ? (record[ROWS] as SourceRecord[]) : [record];
  const all = rows.flatMap((row) => loginsOf(row, sources, isMapped));
  const logins = all.filter(({ by }) => !GUEST.test(by));
  const parts = Object.keys(sources).filter((name) => name.startsWith('metadata.'));
  const [metadata, isText] = [get('metadata'), /^\s*[^\s{]/.test(textOf(get('metadata')))];
  return {
    // An export of this service has IDs of its own.
    id: textOf(get('external_id') ?? (isMapped || 'auth_value' in record ? null : record['id'])),
    logins,
    email: { address: get('email'), verified: isVerified('email', record, sources, isMapped) },
    wallet: get('wallet'),
    accounts: valuesOf(record, sources['accounts']).flatMap((value) => textsOf(value)),
    createdAt: get('created_at'),
    lastLogin: get('last_login'),
    columns: Object.fromEntries(FURTHER_FIELDS.map((name) => [name, get(name)])),
    blocked: truthOf(get('blocked')) ?? get('blocked'),
    metadata: {
      ...(isText ? { metadata } : objectOf(metadata)),
      ...Object.fromEntries(parts.map((name) => [name.slice('metadata.'.length), get(name)])),
      ...(logins.every(({ by }) => methodNamed(by) !== 'phone') && { phone: get('phone') }),
    },
    isGuest: logins.length < all.length,
    notKept: repeated('logins without an ID', logins.filter(({ value }) => isEmpty(value)).length),
  };
}

/** Of a cell that is true or false, or the date of what has happened. */
const hasHappened = (cell: unknown) => !isEmpty(cell) && truthOf(cell) !== false && !isNever(cell);

/** The logins of a row. Where it names providers, their IDs are the values of auth_value, in the same order. */
function loginsOf(row: SourceRecord, sources: Sources, isMapped: boolean): Login[] {
  const list = (name: string) => valuesOf(row, sources[name]).map(textOf);
  // As an export of this service has them.
  const entries = objectsOf(valuesOf(row, sources['identities'])[0]);
  if (entries.length > 0)
    return entries
      .sort((a, b) => Number(b['primary'] === true) - Number(a['primary'] === true))
      .map(
        ({ auth_method, auth_value: value, email, email_verified, created_at: createdAt, last_login: lastLogin }) => ({
          by: textOf(auth_method),
          value,
          email,
          verified: truthOf(email_verified),
          createdAt,
          lastLogin,
        }),
      );
  const said = list('auth_method');
  const methods = said.length > 0 ? said : CONTACTS.filter((name) => list(name).length > 0);
  const providers = methods.filter((by) => !CONTACTS.includes(methodNamed(by)) && !GUEST.test(by));
  const ids = list('auth_value');
  return methods.map((by) => {
    const method = methodNamed(by);
    if (!CONTACTS.includes(method)) return { by, value: ids[providers.indexOf(by)] };
    const value = list(method)[0] ?? (providers.length === 0 ? ids[0] : '');
    return { by, value, verified: isVerified(method, row, sources, isMapped) };
  });
}

/** True also for the date of a verification. In a column of other systems, an empty cell says that there was none. */
function isVerified(what: string, record: SourceRecord, sources: Sources, isMapped: boolean): boolean | null {
  const field = `${what}_verified`;
  const [value] = valuesOf(record, sources[field]);
  const hasColumn = [sources[field]?.column ?? []].flat().length > 0;
  if (isNull(value)) return isMapped && hasColumn ? false : null;
  if (truthOf(value) !== null) return truthOf(value);
  if (isNever(value)) return false;
  // Of whatever form: only its beginning is looked at.
  if (/^\d[\d.:/ T-]{5,}/.test(textOf(value))) return true;
  throw badInput(field, value, 'true, false, or the date of the verification');
}

/** The values of a field in a record: several only of a cell that is split. */
function valuesOf(record: SourceRecord, from: Sources[string] | undefined): unknown[] {
  if (from === undefined) return [];
  const cells = [from.column].flat().map((title) => cellOf(record, title));
  const cell = cells.find((one) => !isNull(one)) ?? from.value;
  const parts = from.split === null ? [cell] : textsOf(cell, from.split);
  const meant = (text: string) => (Object.hasOwn(from.values, text) ? from.values[text] : undefined);
  return parts
    .map((part) => (meant(textOf(part)) === undefined ? part : meant(textOf(part))))
    .filter((part) => !isEmpty(part));
}

const cellOf = (record: SourceRecord, title: string) => record[title] ?? record[fieldNamed(title)];
const isNull = (cell: unknown) => isEmpty(cell) || NULL.test(textOf(cell));

/** Makes one record of the adjacent ones that have the same value in a field. */
export async function* joinRows(records: AsyncIterable<PlacedRecord[]>, field: string): AsyncGenerator<PlacedRecord[]> {
  const held: PlacedRecord[] = [];
  let key = '';
  for await (const some of records) {
    const complete: PlacedRecord[] = [];
    for (const record of some) {
      const next = keyOf(record, field);
      if (next === '' || next !== key) complete.push(...joinedOf(held.splice(0)));
      // One more than is allowed tells that there are too many.
      if (held.length <= MAX_ROWS) held.push(record);
      key = next;
    }
    yield complete;
  }
  yield joinedOf(held);
}

/** Empty for a record that is joined to none, also because it cannot be read. */
function keyOf({ read }: PlacedRecord, field: string): string {
  try {
    return textOf(read()[field]);
  } catch {
    return '';
  }
}

function joinedOf(held: readonly PlacedRecord[]): PlacedRecord[] {
  const [first, second] = held;
  if (first === undefined || second === undefined) return [...held];
  function read(): SourceRecord {
    if (held.length > MAX_ROWS) throw tooManyRows();
    const rows = held.map((record) => record.read());
    // The first row that has a value decides.
    const cells = rows.toReversed().flatMap((row) => Object.entries(row).filter(([, cell]) => !isNull(cell)));
    return { ...Object.fromEntries(cells), [ROWS]: rows };
  }
  return [{ place: first.place, read }];
}

/** JSON lists and CSV with the fields of this service: its own lines in another form. */
export const own: System = {
  name: 'userdir',
  title: 'this service',
  idFields: [],
  lists: ['users'],
  fields: ['id', 'ban', ...IMPORT_FIELDS.map(({ name }) => name)],
  checkTitles(titles) {
    if (titles.includes('auth_method') && titles.includes('auth_value')) return;
    throw new AppError(
      'BAD_USER_INPUT',
      'This is CSV without the columns auth_method and auth_value. Say from which system it is, or which column is which field.',
    );
  },
  toPerson: (record) => ({ line: lineOf(record) }),
};

/** The cells of CSV are texts. One that is no number, JSON or address stays as it is, so that its error says what it is. */
function lineOf(record: SourceRecord): SourceRecord {
  const line: Record<string, unknown> = { ...record };
  for (const { name, form } of IMPORT_FIELDS) {
    const cell = record[name];
    if (typeof cell !== 'string') continue;
    if (form === 'number' && /^\d{1,15}$/.test(cell)) line[name] = Number(cell);
    if (form === 'json' && describeJsonFault(cell) === null) line[name] = JSON.parse(cell);
    if (form === 'accounts')
      line[name] = textsOf(cell).map((address) => ({
        network: address.startsWith('0x') ? 'ethereum' : 'stellar',
        public_key: address,
      }));
  }
  if (typeof line['id'] === 'string') delete line['id'];
  return line;
}
