import { type ArrayItem, arrayText } from '../db/prepared-statement.js';
import { keyedStatement, Prisma } from '../db/statements.js';
import { tooManyAccounts, type UserRecord } from '../domain/identities.js';
import { pickUser, selectColumns, type UserColumn } from '../domain/user-columns.js';
import { type Account, byNewest, type Network, type User, type WalletType } from '../domain/users.js';

/* Parts of the statements that read and write users, made from the table of their columns (domain/user-columns.ts). */

const sqlList = (parts: readonly string[]) => Prisma.raw(parts.join(', '));
/** The columns that a login gives, and those that a plain one gives. */
export const LOGIN_COLUMNS = selectColumns(({ from }) => from === 'login');
export const PLAIN_COLUMNS = LOGIN_COLUMNS.filter(({ isRare }) => !isRare);
/** The columns that a login by a linked identity gives: what is said of the primary one is not among them. */
export const LINKED_COLUMNS = LOGIN_COLUMNS.filter(
  ({ givenIn, whenGiven }) => !givenIn && whenGiven !== 'replaced with email' && whenGiven !== 'stays',
);
const WRITTEN_COLUMNS = selectColumns(({ from }) => from !== undefined);

/** A row of users as a `User` without accounts. */
export const shownColumns = (row: string) =>
  sqlList(
    selectColumns(({ isShown }) => isShown === true).map(({ name, field, type }) => {
      const value = type === 'login_method' ? `${row}.${name}::text` : `${row}.${name}`;
      return value === `${row}.${field}` ? value : `${value} AS "${field}"`;
    }),
  );
/** Shown columns of users `u`. */
export const SHOWN_COLUMNS = shownColumns('u');

/** A row of users `u` under the keys of the import format. */
export const EXPORTED_COLUMNS = sqlList(
  selectColumns(({ line }) => line !== undefined).map(({ name, line }) =>
    name === line ? `u.${name}` : `u.${name} AS ${line}`,
  ),
);

export const namesOf = (columns: readonly UserColumn[]) => sqlList(columns.map(({ name }) => name));

const isOfEmail = ({ whenGiven }: UserColumn) => whenGiven === 'replaced with email';
/** The columns that an import changes of a user who exists. */
const CHANGED_BY_IMPORT = WRITTEN_COLUMNS.filter(({ whenGiven }) => whenGiven !== 'stays');

/** The email that a login says, which is of the identity, too. */
const SAID = 'excluded.said_email';

/** True where an identity is given another email than `before`, or an email where it had none. No email is equal to a hyphen. */
export const isOtherEmail = (given: string, before: string) => `${given} <> coalesce(${before}, '-')`;

/** A login only adds to a user who exists. */
export const loginUpdates = (columns: readonly UserColumn[]) =>
  sqlList(
    LOGIN_COLUMNS.filter(
      (column) => column.isNullable && (columns.includes(column) || (columns === PLAIN_COLUMNS && isOfEmail(column))),
    ).map((column) => {
      if (column.whenGiven === 'set once') return setOnce(column);
      return replace(column, column.givenIn === undefined ? `excluded.${column.name}` : SAID);
    }),
  );

/** The columns that an import writes. */
export const IMPORTED_COLUMN_NAMES = sqlList(WRITTEN_COLUMNS.map(({ name }) => name));

/** The columns of records: these, and the email that a record gives the primary identity of a user who exists. */
export const RECORD_COLUMN_NAMES = Prisma.sql`${IMPORTED_COLUMN_NAMES}, given_email`;

/** Columns of records, an array for each. */
export function recordArrays(records: readonly UserRecord[]): Prisma.Sql {
  const arrays = WRITTEN_COLUMNS.map(({ field, type }) => {
    const values = records.map((record) => record[field as keyof typeof record] as ArrayItem);
    return Prisma.sql`${arrayText(values)}::${Prisma.raw(type)}[]`;
  });
  return Prisma.join([...arrays, Prisma.sql`${arrayText(records.map(({ givenEmail = null }) => givenEmail))}::text[]`]);
}

/** The values of a new user from a row of IMPORTED_COLUMN_NAMES. */
export const IMPORTED_VALUES = sqlList(
  WRITTEN_COLUMNS.map(({ name, ifAbsent }) => (ifAbsent === undefined ? name : `coalesce(${name}, ${ifAbsent})`)),
);

/** A change by an import: only a replacement takes logins back. */
export type ImportChange = 'update' | 'replace';

/** The changes by an import to a user who exists, from the rows `record`. */
export const importUpdates = (how: ImportChange) =>
  sqlList(
    CHANGED_BY_IMPORT.map((column) => {
      const { name, ifAbsent, givenIn } = column;
      // In `excluded` the value of a new user stands where the line gave nothing.
      const isGiven = ifAbsent === undefined && givenIn === undefined;
      const value = isGiven ? `excluded.${name}` : givenBy('excluded', givenIn ?? name);
      return replace(column, value, how, isOfEmail(column) ? givenBy('excluded', 'given_email') : undefined);
    }),
  );

/** A column in the row of `record` with the id of `table`. Its place is found by bisection in an array: a look-up would read half of `record`. */
function givenBy(table: string, column: string): string {
  const all = (name: string) => `(SELECT array_agg(r.${name} ORDER BY r.id) FROM record r)`;
  return `${all(column)}[width_bucket(${table}.id, ${all('id')})]`;
}

/** True if `importUpdates` from the row `record` would leave the user `existing` with other values. */
export function changesFields(record: string, how: ImportChange): Prisma.Sql {
  const after = CHANGED_BY_IMPORT.map((column) =>
    orOtherwise(column, valueAfter(column, `${record}.${column.givenIn ?? column.name}`, how, `${record}.given_email`)),
  );
  const before = CHANGED_BY_IMPORT.map((column) => orOtherwise(column, `existing.${column.name}`));
  return Prisma.raw(`ROW(${after.join(', ')}) IS DISTINCT FROM ROW(${before.join(', ')})`);
}

/** A function of the database refuses another value. A login that gives none does not call it. */
function setOnce({ name }: UserColumn): string {
  return `${name} = CASE WHEN excluded.${name} IS NULL THEN existing.${name} ELSE keep_${name}(existing.${name}, excluded.${name}) END`;
}

function replace(column: UserColumn, value: string, how?: ImportChange, email?: string): string {
  return `${column.name} = ${valueAfter(column, value, how, email)}`;
}

/** What a value of a column means: null may stand for that of another column of `existing`. */
const orOtherwise = ({ otherwise }: UserColumn, value: string) =>
  otherwise === undefined ? value : `coalesce(${value}, existing.${otherwise})`;

/** The value of a column of `existing` after `value`, as its policy says. Where `value` is null, the value stays as it is. */
function valueAfter(column: UserColumn, value: string, how: ImportChange = 'replace', email = SAID): string {
  const { whenGiven, otherwise } = column;
  const before = `existing.${column.name}`;
  const replaced = `coalesce(${value}, ${before})`;
  switch (whenGiven) {
    case 'replaced with email':
      return `CASE WHEN ${isOtherEmail(email, 'existing.identity_email')} THEN ${value} ELSE ${replaced} END`;
    case 'replaced or none':
      return `nullif(${replaced}, '')`;
    case 'replaced as address':
      // No two addresses differ in nothing but the case of their letters.
      return `CASE WHEN existing.auth_method = 'wallet' OR lower(${value}) = lower(${before}) THEN ${before} ELSE ${replaced} END`;
    case 'least':
    case 'greatest': {
      const choose = how === 'update' ? whenGiven : 'coalesce';
      if (otherwise === undefined) return `${choose}(${value}, ${before})`;
      return `CASE WHEN ${value} IS NULL THEN ${before} ELSE ${choose}(${value}, ${orOtherwise(column, before)}) END`;
    }
    case 'stays':
      return before;
    default:
      return replaced;
  }
}

/** The changes of user `u` into whom user `o` is merged. */
export const mergeUpdates: Prisma.Sql = sqlList(
  selectColumns(({ whenMerged }) => whenMerged !== 'own' && whenMerged !== 'as emails').map(
    (column) => `${column.name} = ${valueMerged(column)}`,
  ),
);

function valueMerged({ name, whenMerged, otherwise }: UserColumn): string {
  const [own, other] = [`u.${name}`, `o.${name}`];
  switch (whenMerged) {
    case 'own or other':
      return `coalesce(${own}, ${other})`;
    case 'least':
    case 'greatest':
      return `${whenMerged}(${own}, ${other})`;
    case 'sum':
      return `least(${own}::bigint + ${other}, 2147483647)`;
    case 'own before':
      return `coalesce(${own}, u.${otherwise}, '-infinity')`;
    case 'forgotten':
      return 'NULL';
    case 'own':
    case 'as emails':
      return own;
  }
}

/** The columns that `updateUser` changes as they are given: the email is more than a column. */
export const CHANGEABLE_COLUMNS = selectColumns(({ isChangeable }) => isChangeable === true).filter(
  ({ field }) => field !== 'saidEmail',
);

/** Of bans `b`: the end is still to come, or never comes. The clock of the database decides. */
export const IN_FORCE = Prisma.sql`b.expires_at > now()`;

/** A ban `b` as a `BanState`. */
export const BAN_STATE = Prisma.sql`
  b.created_at AS "createdAt", nullif(b.reason, '') AS reason, nullif(b.expires_at, 'infinity') AS "expiresAt"`;

/** The last login by the primary identity, once another identity logs in. */
export const PRIMARY_LOGIN = Prisma.sql`coalesce(existing.identity_login, existing.last_login, '-infinity')`;

/** The bans by which the identity of a row of users or of keys is banned: its own, and those of users that cover it. */
function bansOf(row: 'k' | 'e', columns: Prisma.Sql): Prisma.Sql {
  const of = Prisma.raw(row);
  return Prisma.sql`
      SELECT ${columns} FROM bans b
      WHERE b.project_id = ${of}.project_id AND b.auth_method = ${of}.auth_method AND b.auth_value_key = ${of}.auth_value_key
        AND ${IN_FORCE}`;
}

/** True if the identity of a row of users or of keys is banned, else null. Not `EXISTS`, of which a plan may make a join with all bans. */
export const isBanned = (row: 'k' | 'e') => Prisma.sql`(${bansOf(row, Prisma.sql`true`)} LIMIT 1)`;

/**
 * The ban of user `u` or else, of those of their identities, the one that ends last. So many identities are looked up as a user has. Of two that end at
 * once, it is that of the identity that `User.identities` has first; of two of one identity, its own comes before that of a removed user.
 */
export function banOfUser(columns: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
      SELECT ${columns} FROM (
        SELECT u.project_id, u.auth_method, u.auth_value_key, '-infinity'::timestamptz AS since, 0 AS place
        UNION ALL
        SELECT * FROM (
          SELECT i.project_id, i.auth_method, i.auth_value_key, i.created_at, i.id FROM identities i
          WHERE i.project_id = u.project_id AND i.user_id >= u.id AND i.user_id <= u.id
          ORDER BY i.user_id
        ) AS linked
      ) AS e
      CROSS JOIN LATERAL (${bansOf('e', Prisma.sql`b.*`)} OFFSET 0) AS b
      ORDER BY b.user_id IS DISTINCT FROM u.id, b.expires_at DESC, e.since, e.place, b.user_id NULLS FIRST
      LIMIT 1`;
}

/** A user as a row has them, with LINKED_ACCOUNTS or NO_ACCOUNTS. */
export type UserRow = Omit<User, 'accounts'> & { linked: string | null };

/** The user of a row, without the other columns. */
export function toUser(row: UserRow): User {
  const user: User = pickUser(row);
  if (row.linked !== null) user.accounts = toAccounts(row.linked);
  return user;
}

/** The users among rows that may have none, newest first: sorting them here costs less than a sort of whole rows in PostgreSQL. */
export function usersOf(rows: readonly { [Column in keyof UserRow]?: UserRow[Column] | null }[]): User[] {
  const present = rows.filter(({ id }) => id !== null);
  return present.map((row) => toUser(row as UserRow)).sort(byNewest);
}

/** The accounts of user `u` as one text, four words an account, in no order: the cheapest way. No word contains a space, as a check of the database ensures. */
const LINKED = Prisma.sql`
  coalesce((
    SELECT string_agg(concat_ws(' ', a.id, a.network, a.wallet_type, a.public_key), ' ')
    FROM accounts a
    WHERE a.project_id = u.project_id AND a.user_id = u.id
  ), '')`;
export const LINKED_ACCOUNTS = Prisma.sql`${LINKED} AS linked`;

/** The accounts for those keys `k` of a statement that want them. */
export const LINKED_ACCOUNTS_IF_WANTED = Prisma.sql`CASE WHEN k.with_accounts THEN ${LINKED} END AS linked`;

export const NO_ACCOUNTS = Prisma.sql`NULL::text AS linked`;

/** The accounts of a text of LINKED_ACCOUNTS, oldest first. */
export function toAccounts(linked: string): Account[] {
  if (linked === '') return [];
  const words = linked.split(' ');
  const accounts: Account[] = [];
  for (let index = 0; index < words.length; index += 4) {
    accounts.push({
      id: Number(words[index]),
      network: words[index + 1] as Network,
      walletType: words[index + 2] as WalletType,
      publicKey: words[index + 3] as string,
    });
  }
  return accounts.length === 1 ? accounts : accounts.sort((a, b) => a.id - b.id);
}

/** The accounts of users, as one text each (`toAccounts`). */
export const findAccountsByUser = keyedStatement<{ projectId: number; userId: number }, { linked: string }>(
  { project_id: ['int', (key) => key.projectId], id: ['bigint', (key) => key.userId] },
  (keys) => Prisma.sql`
    SELECT u."keyIndex", ${LINKED_ACCOUNTS}
    FROM (SELECT k.key_index::int AS "keyIndex", k.project_id, k.id FROM ${keys}) AS u`,
);

/** The linked account of user `u` with `key`, as a column of it, or null. The order leaves one index: many users share the beginning of others. */
export function linkedAccount(column: string, key: string, user: string): Prisma.Sql {
  const [name, keyColumn, u] = [column, key, user].map((text) => Prisma.raw(text)) as [
    Prisma.Sql,
    Prisma.Sql,
    Prisma.Sql,
  ];
  return Prisma.sql`(
      SELECT known.${name} FROM accounts known
      WHERE known.project_id = ${u}.project_id AND known.user_id >= ${u}.id AND known.user_id <= ${u}.id AND known.address_key = ${keyColumn}
      ORDER BY known.user_id
      LIMIT 1
    )`;
}

/** True if account `a` is new to user `u`, with room for it, or becomes external. A subquery has no bad plan; other accounts are not locked. */
export function isToBeLinked(isNewUser: Prisma.Sql, addressKeys: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    (${isNewUser} OR CASE ${linkedAccount('wallet_type', 'a.address_key', 'u')}
      WHEN 'external' THEN false
      WHEN 'custodial' THEN a.wallet_type::text = 'external'
      ELSE require_account_room(u.project_id, u.id, ${addressKeys})
    END)`;
}

/** A login wallet that was linked as custodial becomes external, in an INSERT of accounts `linked`. */
export const OR_BECOMES_EXTERNAL = Prisma.sql`
      ON CONFLICT (project_id, user_id, address_key) DO UPDATE SET wallet_type = 'external'
        WHERE linked.wallet_type = 'custodial' AND excluded.wallet_type = 'external'`;

/** Throws the error of a statement that links accounts: BAD_USER_INPUT if `require_account_room` refused, else as it is. */
export function throwLinkingError(error: unknown): never {
  const { constraint, detail } = error as { constraint?: unknown; detail?: unknown };
  throw constraint === 'accounts_are_at_most_100' ? tooManyAccounts(String(detail)) : error;
}
