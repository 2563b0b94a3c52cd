import { arrayText } from '../db/prepared-statement.js';
import { Prisma } from '../db/statements.js';
import {
  byNewest,
  type HistoryFields,
  type LoginFields,
  pickUser,
  selectColumns,
  type User,
  type UserColumn,
} from '../domain/users.js';
import { toAccounts } from './linked-accounts.js';

/* Parts of the statements that read and write users, made from the table of their columns (domain/users.ts). */

const sqlList = (parts: readonly string[]) => Prisma.raw(parts.join(', '));
const LOGIN_COLUMNS = selectColumns(({ from }) => from === 'login');
const WRITTEN_COLUMNS = selectColumns(({ from }) => from !== undefined);

/** A row of users `u` as a `User` without accounts. */
export const SHOWN_COLUMNS = sqlList(
  selectColumns(({ isShown }) => isShown === true).map(({ name, field, type }) => {
    const value = type === 'login_method' ? `u.${name}::text` : `u.${name}`;
    return value === `u.${field}` ? value : `${value} AS "${field}"`;
  }),
);

/** A row of users `u` under the keys of the import format. */
export const EXPORTED_COLUMNS = sqlList(
  selectColumns(({ line }) => line !== undefined).map(({ name, line }) =>
    name === line ? `u.${name}` : `u.${name} AS ${line}`,
  ),
);

/** The columns that a login writes. */
export const LOGIN_COLUMN_NAMES = sqlList(LOGIN_COLUMNS.map(({ name }) => name));

/** The values of LOGIN_COLUMN_NAMES. */
export function loginValues(fields: LoginFields): Prisma.Sql {
  return Prisma.join(LOGIN_COLUMNS.map(({ field }) => fields[field as keyof LoginFields]));
}

/** What a login changes of a user who exists: it adds what was given. */
export const LOGIN_UPDATES = sqlList(
  LOGIN_COLUMNS.filter(({ isNullable }) => isNullable).map((column) =>
    column.isSetOnce ? setOnce(column) : replaceIfGiven(column),
  ),
);

/** The columns that an import writes. */
export const IMPORTED_COLUMN_NAMES = sqlList(WRITTEN_COLUMNS.map(({ name }) => name));

/** The same of records, an array for each column. */
export function importedArrays(records: readonly (LoginFields & HistoryFields)[]): Prisma.Sql {
  return Prisma.join(
    WRITTEN_COLUMNS.map(({ field, type }) => {
      const values = records.map((record) => record[field as keyof typeof record]);
      return Prisma.sql`${arrayText(values)}::${Prisma.raw(type)}[]`;
    }),
  );
}

/** The values of a new user from a row of IMPORTED_COLUMN_NAMES. */
export const IMPORTED_VALUES = sqlList(
  WRITTEN_COLUMNS.map(({ name, ifAbsent }) => (ifAbsent === undefined ? name : `coalesce(${name}, ${ifAbsent})`)),
);

/** What an import changes of a user who exists, from the rows `record`. */
export const IMPORT_UPDATES = sqlList(
  WRITTEN_COLUMNS.filter(({ isIdentity }) => !isIdentity).map((column) => {
    const { name, isNullable, ifAbsent } = column;
    // In `excluded` the default stands where the line gave nothing.
    if (ifAbsent !== undefined) return `${name} = coalesce(${givenBy('excluded', name)}, existing.${name})`;
    return isNullable ? replaceIfGiven(column) : `${name} = excluded.${name}`;
  }),
);

/**
 * What the row of `record` with the id of `table` has in a column. The place of the id is found by bisection in an array that is made
 * once: a look-up in `record` would read half of it, for each user.
 */
function givenBy(table: string, column: string): string {
  const all = (name: string) => `(SELECT array_agg(r.${name} ORDER BY r.id) FROM record r)`;
  return `${all(column)}[width_bucket(${table}.id, ${all('id')})]`;
}

/** What an import may change of a user in `table`, as one value to compare. */
export function importedFields(table: string): Prisma.Sql {
  const columns = WRITTEN_COLUMNS.filter(({ isIdentity }) => !isIdentity).map(({ name }) => `${table}.${name}`);
  return Prisma.raw(`ROW(${columns.join(', ')})`);
}

/** A function of the database refuses another value. A login that gives none does not call it. */
function setOnce({ name }: UserColumn): string {
  return `${name} = CASE WHEN excluded.${name} IS NULL THEN existing.${name} ELSE keep_${name}(existing.${name}, excluded.${name}) END`;
}

function replaceIfGiven({ name }: UserColumn): string {
  return `${name} = coalesce(excluded.${name}, existing.${name})`;
}

/** A user as a row has them, with LINKED_ACCOUNTS or NO_ACCOUNTS. */
export type UserRow = Omit<User, 'accounts'> & { linked: string | null };

/** The user of a row, without the other columns. */
export function toUser(row: UserRow): User {
  const user = pickUser(row);
  if (row.linked !== null) user.accounts = toAccounts(row.linked);
  return user;
}

/** The users among rows that may have none, newest first: sorting them here costs less than a sort of whole rows in PostgreSQL. */
export function usersOf(rows: readonly { [Column in keyof UserRow]?: UserRow[Column] | null }[]): User[] {
  const present = rows.filter(({ id }) => id !== null);
  return present.map((row) => toUser(row as UserRow)).sort(byNewest);
}
