import type { User as UserModel } from '../db/generated/prisma/client.js';

/* What a user has: the one table of the columns. It imports nothing that runs, so that the pages of the dashboard read it too. */

/** What becomes of the value of a user when a later login or a line of an import gives one (`valueAfter`, users/user-columns.sql.ts). */
export type GivenPolicy =
  /** It is part of the unique key of current users, or what the key was made of: another spelling is the same identity. */
  | 'stays'
  /** The value that was given last is kept. */
  | 'replaced'
  /** The same, and an empty text takes it away. */
  | 'replaced or none'
  /** The same, but the same address in another spelling changes nothing, and that of a user who logs in by a wallet stays. */
  | 'replaced as address'
  /** It says something of the email of the primary identity. It is replaced, and forgotten when another email comes without it. */
  | 'replaced with email'
  /** A login sets it once, and a later login with another value fails: `keep_NAME` of the migration says so, and its words stand in users/write-users.sql.ts. An import may replace it. */
  | 'set once'
  /** An import that updates keeps the least or the greatest, so that an old file takes no login back. One that replaces replaces it. */
  | 'least'
  | 'greatest';

/** What becomes of the value of a user when another user is merged into them (`mergeUsers`, users/identities.sql.ts). */
export type MergePolicy =
  /** Each user has their own. That of the other one is given up, or goes with the identity. */
  | 'own'
  /** The user keeps it, and where they have none, that of the other one moves. */
  | 'own or other'
  | 'least'
  | 'greatest'
  | 'sum'
  /** What was true of the user alone is written down, because the column of `otherwise` is of both from now on. */
  | 'own before'
  /** It follows from what was said of both, and from their identities. */
  | 'as emails'
  /** It is true no more of a user who was made of two. */
  | 'forgotten';

/** A column of `users`, for the statements and the import format. */
export type UserColumn = ColumnOfUser & (GivenColumn | NotGivenColumn);

interface ColumnOfUser {
  readonly name: string;
  /** The type in PostgreSQL. */
  readonly type: 'bigint' | 'boolean' | 'int' | 'jsonb' | 'text' | 'timestamptz' | 'login_method';
  readonly whenMerged: MergePolicy;
  /** Part of `User`, so that both interfaces can show it. */
  readonly isShown?: true;
  /** Few logins give it: the statement of plain ones does without. */
  readonly isRare?: true;
  /** `updateUser` changes it. */
  readonly isChangeable?: true;
  /** A login changes it, so it is no field of `user.updated` in the feed. */
  readonly isOfLogins?: true;
  /** The column of a record that replaces the value of a user who exists, empty for none, where another value is for new users only. */
  readonly givenIn?: string;
  readonly isNullable?: true;
  /** A line of an export has it also where it is null. Another one is left out, so that a release without the column reads the line. */
  readonly isInEveryLine?: true;
  /** Its key in a line of the import format. Absent where it follows from the others. */
  readonly line?: string;
  /** SQL for the value of a new user whose import line has none. Absent for NULL. */
  readonly ifAbsent?: string;
  /** The column that says it where this one is null. */
  readonly otherwise?: string;
}

interface GivenColumn {
  /** A login and an import line give the value, an import line alone, or the identities of one. */
  readonly from: 'login' | 'import' | 'identities';
  readonly whenGiven: GivenPolicy;
}

/** The database gives the value. */
interface NotGivenColumn {
  readonly from?: never;
  readonly whenGiven?: never;
}

/** A column may be null here where it may be null in the model, and nowhere else. */
type UserColumns = {
  [Field in keyof UserModel]: UserColumn &
    (null extends UserModel[Field] ? { isNullable: true } : { isNullable?: never });
};

/**
 * The one table of a user's columns, in the order of the import format and of CSV, where a new one comes last.
 * Statements, import and export are made from it. A column of the Prisma model that it does not have is a compile error.
 */
// biome-ignore format: a row for each column
export const USER_COLUMNS = {
  id: { name: 'id', type: 'bigint', whenMerged: 'own', isShown: true },
  projectId: { name: 'project_id', type: 'int', whenMerged: 'own' },
  authMethod: { name: 'auth_method', type: 'text', from: 'login', whenGiven: 'stays', whenMerged: 'own', isShown: true, line: 'auth_method' },
  authValue: { name: 'auth_value', type: 'text', from: 'login', whenGiven: 'stays', whenMerged: 'own', isShown: true, line: 'auth_value' },
  authValueKey: { name: 'auth_value_key', type: 'text', from: 'login', whenGiven: 'stays', whenMerged: 'own' },
  loginMethod: { name: 'login_method', type: 'login_method', whenMerged: 'own', isShown: true },
  loginEmail: { name: 'login_email', type: 'text', whenMerged: 'as emails', isNullable: true, isShown: true },
  saidEmail: { name: 'said_email', type: 'text', from: 'login', whenGiven: 'replaced', whenMerged: 'as emails', isNullable: true, isChangeable: true, isInEveryLine: true, line: 'email' },
  identityEmail: { name: 'identity_email', type: 'text', from: 'login', whenGiven: 'replaced or none', whenMerged: 'own', isNullable: true, givenIn: 'given_email' },
  linkedEmail: { name: 'linked_email', type: 'text', whenMerged: 'as emails', isNullable: true },
  wallet: { name: 'wallet', type: 'text', from: 'login', whenGiven: 'replaced as address', whenMerged: 'own or other', isNullable: true, isShown: true, isRare: true, isInEveryLine: true, line: 'wallet' },
  createdAt: { name: 'created_at', type: 'timestamptz', from: 'import', whenGiven: 'least', whenMerged: 'least', isShown: true, line: 'created_at', ifAbsent: "date_trunc('milliseconds', now())" },
  lastLogin: { name: 'last_login', type: 'timestamptz', from: 'import', whenGiven: 'greatest', whenMerged: 'greatest', isNullable: true, isShown: true, isOfLogins: true, isInEveryLine: true, line: 'last_login' },
  loginCount: { name: 'login_count', type: 'int', from: 'import', whenGiven: 'greatest', whenMerged: 'sum', isShown: true, isOfLogins: true, line: 'login_count', ifAbsent: '0' },
  externalId: { name: 'external_id', type: 'text', from: 'login', whenGiven: 'set once', whenMerged: 'own or other', isNullable: true, isShown: true, isRare: true, isChangeable: true, isInEveryLine: true, line: 'external_id' },
  deletedAt: { name: 'deleted_at', type: 'timestamptz', whenMerged: 'own', isNullable: true },
  emailVerified: { name: 'email_verified', type: 'boolean', from: 'login', whenGiven: 'replaced with email', whenMerged: 'own', isNullable: true, isRare: true, line: 'email_verified' },
  metadata: { name: 'metadata', type: 'jsonb', from: 'login', whenGiven: 'replaced', whenMerged: 'own or other', isNullable: true, isRare: true, isChangeable: true, line: 'metadata' },
  identityAt: { name: 'identity_at', type: 'timestamptz', from: 'identities', whenGiven: 'least', whenMerged: 'own before', isNullable: true, otherwise: 'created_at' },
  identityLogin: { name: 'identity_login', type: 'timestamptz', from: 'identities', whenGiven: 'greatest', whenMerged: 'own before', isNullable: true, isOfLogins: true, otherwise: 'last_login' },
  mergedInto: { name: 'merged_into', type: 'bigint', whenMerged: 'own', isNullable: true },
  importId: { name: 'import_id', type: 'bigint', whenMerged: 'forgotten', isNullable: true },
} as const satisfies UserColumns;

export type UserColumnsTable = typeof USER_COLUMNS;
export type UserField = keyof UserColumnsTable;
/** The fields whose columns have a property, such as `{ isShown: true }`. */
export type FieldsWith<Property> = {
  [Field in UserField]: UserColumnsTable[Field] extends Property ? Field : never;
}[UserField];
export type ShownField = FieldsWith<{ isShown: true }>;
export type LineField = FieldsWith<{ line: string }>;

/** The columns that `isWanted` selects, each with its field, in the order of the table. */
export function selectColumns(isWanted: (column: UserColumn) => boolean): (UserColumn & { field: UserField })[] {
  return Object.entries<UserColumn>(USER_COLUMNS)
    .filter(([, column]) => isWanted(column))
    .map(([field, column]) => ({ ...column, field: field as UserField }));
}

/** The fields that `user.updated` may name in the feed, by their keys in the import format. */
export const FEED_FIELDS: readonly string[] = [
  ...selectColumns(({ line, isOfLogins }) => line !== undefined && !isOfLogins).map(({ line = '' }) => line),
  'accounts',
  'identities',
  'ban',
];

/** The fields as which a column of any table can be imported (docs/moving.md). */
export const TABLE_FIELDS: readonly string[] = [
  ...selectColumns(({ line }) => line !== undefined).map(({ line = '' }) => line),
  'accounts',
  'identities',
  'phone',
  'phone_verified',
  'username',
  'blocked',
  'deleted',
];

/** A row as `Queryable.query` returns it: ids as numbers, instants as ISO 8601 text in UTC with milliseconds. */
export type AsRead<Row> = { [Field in keyof Row]: ValueAsRead<Row[Field]> };
type ValueAsRead<Value> = Value extends bigint ? number : Value extends Date ? string : Value;

/** The shown columns of a row of users. */
export interface ShownUser extends AsRead<Pick<UserModel, ShownField>> {}

/** The shown fields of a row that has more. Written out, because a loop over the table takes five times as long. */
export function pickUser(row: ShownUser): ShownUser {
  return {
    id: row.id,
    authMethod: row.authMethod,
    authValue: row.authValue,
    loginMethod: row.loginMethod,
    loginEmail: row.loginEmail,
    wallet: row.wallet,
    externalId: row.externalId,
    createdAt: row.createdAt,
    lastLogin: row.lastLogin,
    loginCount: row.loginCount,
  };
}
