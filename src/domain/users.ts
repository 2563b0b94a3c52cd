import type {
  Account as AccountModel,
  Identity as IdentityModel,
  User as UserModel,
} from '../db/generated/prisma/client.js';
import type { LoginMethod, Network, WalletType } from '../db/generated/prisma/enums.js';
import { AppError, show } from '../errors.js';

export { LoginMethod, Network, WalletType } from '../db/generated/prisma/enums.js';

/** A column of `users`, for the statements and the import format. */
export interface UserColumn {
  readonly name: string;
  /** The type in PostgreSQL. */
  readonly type: 'bigint' | 'boolean' | 'int' | 'jsonb' | 'text' | 'timestamptz' | 'login_method';
  /** Part of `User`, so that both interfaces can show it. */
  readonly isShown?: true;
  /** A login and an import line give the value, an import line alone, or the identities of one. Absent where the database gives it. */
  readonly from?: 'login' | 'import' | 'identities';
  /** A login sets it once; a later login with another value fails. An import may replace it. */
  readonly isSetOnce?: true;
  /** Part of the unique key of current users, or what the key was made of. It never changes: another spelling is the same identity. */
  readonly isIdentity?: true;
  /** An address, which is the same in another spelling. */
  readonly isAddress?: true;
  /** It says something of the email of the primary identity, and is forgotten with it. */
  readonly isOfEmail?: true;
  /** Few logins give it: the statement of plain ones does without. */
  readonly isRare?: true;
  /** The column of a record that replaces the value of a user who exists, empty for none, where another value is for new users only. */
  readonly givenIn?: string;
  readonly isNullable?: true;
  /** Its key in a line of the import format. Absent where it follows from the others. */
  readonly line?: string;
  /** SQL for the value of a new user whose import line has none. Absent for NULL. */
  readonly ifAbsent?: string;
  /** Of the values of a user and of an import line, the one that an update keeps: an old file takes no login back. */
  readonly kept?: 'least' | 'greatest';
  /** The column that says it where this one is null. */
  readonly otherwise?: string;
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
  id: { name: 'id', type: 'bigint', isShown: true },
  projectId: { name: 'project_id', type: 'int' },
  authMethod: { name: 'auth_method', type: 'text', isShown: true, from: 'login', line: 'auth_method', isIdentity: true },
  authValue: { name: 'auth_value', type: 'text', isShown: true, from: 'login', line: 'auth_value', isIdentity: true },
  authValueKey: { name: 'auth_value_key', type: 'text', from: 'login', isIdentity: true },
  loginMethod: { name: 'login_method', type: 'login_method', isShown: true },
  loginEmail: { name: 'login_email', type: 'text', isNullable: true, isShown: true },
  saidEmail: { name: 'said_email', type: 'text', isNullable: true, from: 'login', line: 'email' },
  identityEmail: { name: 'identity_email', type: 'text', isNullable: true, from: 'login', givenIn: 'given_email' },
  linkedEmail: { name: 'linked_email', type: 'text', isNullable: true },
  wallet: { name: 'wallet', type: 'text', isNullable: true, isShown: true, from: 'login', line: 'wallet', isAddress: true, isRare: true },
  createdAt: { name: 'created_at', type: 'timestamptz', isShown: true, from: 'import', line: 'created_at', ifAbsent: "date_trunc('milliseconds', now())", kept: 'least' },
  lastLogin: { name: 'last_login', type: 'timestamptz', isNullable: true, isShown: true, from: 'import', line: 'last_login', kept: 'greatest' },
  loginCount: { name: 'login_count', type: 'int', isShown: true, from: 'import', line: 'login_count', ifAbsent: '0', kept: 'greatest' },
  externalId: { name: 'external_id', type: 'text', isNullable: true, isShown: true, from: 'login', isSetOnce: true, line: 'external_id', isRare: true },
  deletedAt: { name: 'deleted_at', type: 'timestamptz', isNullable: true },
  emailVerified: { name: 'email_verified', type: 'boolean', isNullable: true, from: 'login', line: 'email_verified', isOfEmail: true, isRare: true },
  metadata: { name: 'metadata', type: 'jsonb', isNullable: true, from: 'login', line: 'metadata', isRare: true },
  identityAt: { name: 'identity_at', type: 'timestamptz', isNullable: true, from: 'identities', kept: 'least', otherwise: 'created_at' },
  identityLogin: { name: 'identity_login', type: 'timestamptz', isNullable: true, from: 'identities', kept: 'greatest', otherwise: 'last_login' },
  mergedInto: { name: 'merged_into', type: 'bigint', isNullable: true },
  importId: { name: 'import_id', type: 'bigint', isNullable: true },
} as const satisfies UserColumns;

type Table = typeof USER_COLUMNS;
export type UserField = keyof Table;
/** The fields whose columns have a property, such as `{ isShown: true }`. */
type FieldsWith<Property> = { [Field in UserField]: Table[Field] extends Property ? Field : never }[UserField];
export type ShownField = FieldsWith<{ isShown: true }>;
type LineField = FieldsWith<{ line: string }>;

/** The columns that `isWanted` selects, each with its field, in the order of the table. */
export function selectColumns(isWanted: (column: UserColumn) => boolean): (UserColumn & { field: UserField })[] {
  return Object.entries<UserColumn>(USER_COLUMNS)
    .filter(([, column]) => isWanted(column))
    .map(([field, column]) => ({ ...column, field: field as UserField }));
}

/** A row as `Queryable.query` returns it: ids as numbers, instants as ISO 8601 text in UTC with milliseconds. */
export type AsRead<Row> = { [Field in keyof Row]: ValueAsRead<Row[Field]> };
type ValueAsRead<Value> = Value extends bigint ? number : Value extends Date ? string : Value;

/** A current user. */
export interface User extends AsRead<Pick<UserModel, ShownField>> {
  /** Oldest first; absent where they were not read with the user. */
  accounts?: Account[];
}

/** The error for an id that is of no user of the project. */
export function noUser(id: bigint, names: readonly string[] = ['id', 'userId']): AppError {
  // Only the first digits of so long an ID were read, so it cannot be repeated.
  if (id > Number.MAX_SAFE_INTEGER)
    return new AppError('NOT_FOUND', `There is no user in this project with an ID above ${Number.MAX_SAFE_INTEGER}.`, {
      subject: { names },
    });
  return new AppError('NOT_FOUND', `There is no user ${show(id)} in this project.`, { subject: { names } });
}

/** The weight of a user in a batch (`weigh`): with accounts a user is more rows. */
export function userWeight(withAccounts: boolean): number {
  return withAccounts ? 4 : 1;
}

/** Compares users by their place in a list, newest first. */
export function byNewest(a: Pick<User, 'id' | 'createdAt'>, b: Pick<User, 'id' | 'createdAt'>): number {
  if (a.createdAt === b.createdAt) return b.id - a.id;
  return a.createdAt < b.createdAt ? 1 : -1;
}

/** A ban in force, without its identity. Instants are ISO 8601. */
export interface BanState {
  readonly createdAt: string;
  readonly reason: string | null;
  readonly expiresAt: string | null;
}

/** A user as an operator sees them, current or removed. */
export interface UserDetails extends User {
  readonly accounts: Account[];
  /** Since when they are removed, ISO 8601; null for a current user. */
  readonly removedAt: string | null;
  /** The user whom they have become; null for one who was not merged. */
  readonly mergedInto: number | null;
  /** The ban of their identity; null where it is not banned. */
  readonly ban: BanState | null;
}

/** A public account linked to a user. */
export interface Account extends AsRead<Pick<AccountModel, 'id' | 'network' | 'publicKey' | 'walletType'>> {}

/** An identity of a user. Of the primary one, the login email is the user's. */
export interface UserIdentity
  extends AsRead<
    Pick<IdentityModel, 'authMethod' | 'authValue' | 'loginEmail' | 'emailVerified' | 'createdAt' | 'lastLogin'>
  > {
  readonly loginMethod: LoginMethod;
  readonly isPrimary: boolean;
}

/** What is read of a user only where it is asked for. */
export interface UserDetail {
  readonly identities: readonly UserIdentity[];
  readonly metadata: object | null;
}

/** A current user to whom an address belongs. */
export interface WalletOwner extends Pick<Account, 'network' | 'walletType'>, Pick<User, 'authMethod'> {
  userId: number;
}

/** Fields of a login and an import line, in the form in which they are stored. */
export type LoginFields = Readonly<Pick<UserModel, FieldsWith<{ from: 'login' }>>>;
/** Further fields of an import line. Null leaves the value to the database, or to the user who exists. */
export type HistoryFields = { readonly [Field in FieldsWith<{ from: 'import' }>]: UserModel[Field] | null };

/** The columns of a line as it may give them. */
export type GivenFields = {
  [Field in LineField]: Table[Field] extends { isNullable: true } | { ifAbsent: string }
    ? UserModel[Field] | null | undefined
    : UserModel[Field];
};

/** Values by the keys of a line of the import format. */
export type LineOf<ValueOf extends Record<LineField, unknown>> = {
  [Field in LineField as Table[Field]['line']]: ValueOf[Field];
};

/** An identity in the form of the import format. */
export interface ExportedIdentity {
  auth_method: string;
  auth_value: string;
  email: string | null;
  email_verified: boolean | null;
  created_at: string;
  last_login: string | null;
  primary: boolean;
}

/** A user in the form of the import format, with the id. The email is what was said: null where nothing was, empty for none. */
export type ExportedUser = LineOf<AsRead<UserModel>> & {
  id: number;
  /** The email that is shown. */
  login_email: string | null;
  primary: ExportedIdentity;
  /** The primary one first, then the oldest; null where there is no other. */
  identities: ExportedIdentity[] | null;
  /** Oldest first. */
  accounts: { network: Network; public_key: string; wallet_type: WalletType }[];
};

/** The first users who were found by the beginning of a text, in alphabetical order of what begins so. */
export interface Beginning<Found> {
  readonly users: Found[];
  /** True also if login methods that were not searched (METHODS_BY_PREFIX) may have more. */
  readonly hasMore: boolean;
}

/** The most days or months of one answer. */
export const MAX_BUCKETS = 400;

/** The users who were created in a day or a month, and are still there. */
export interface SignUps extends Record<LoginMethod, number> {
  /** Its first day: 2026-01-31. */
  readonly from: string;
  readonly total: number;
}
