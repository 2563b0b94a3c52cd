import type {
  Account as AccountModel,
  Identity as IdentityModel,
  User as UserModel,
} from '../db/generated/prisma/client.js';
import type { LoginMethod, Network, WalletType } from '../db/generated/prisma/enums.js';
import { AppError, show } from '../errors.js';
import type { AsRead, FieldsWith, LineField, ShownUser, UserColumnsTable } from './user-columns.js';

export { LoginMethod, Network, WalletType } from '../db/generated/prisma/enums.js';

/** A current user. */
export interface User extends ShownUser {
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

/** The ban of a user, or of one of their identities. */
export interface BanOfUser extends BanState {
  readonly authMethod: string;
  readonly authValue: string;
  readonly isOfUser: boolean;
}

/** A user as an operator sees them, current or removed. */
export interface UserDetails extends User {
  readonly accounts: Account[];
  /** Since when they are removed, ISO 8601; null for a current user. */
  readonly removedAt: string | null;
  /** The user whom they have become; null for one who was not merged. */
  readonly mergedInto: number | null;
  /** Their ban or else, of those of their identities, the one that ends last; null where none is banned. */
  readonly ban: BanOfUser | null;
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
  [Field in LineField]: UserColumnsTable[Field] extends { isNullable: true } | { ifAbsent: string }
    ? UserModel[Field] | null | undefined
    : UserModel[Field];
};

/** Values by the keys of a line of the import format. */
export type LineOf<ValueOf extends Record<LineField, unknown>> = {
  [Field in LineField as UserColumnsTable[Field]['line']]: ValueOf[Field];
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
