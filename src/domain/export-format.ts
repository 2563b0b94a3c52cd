import type { Ban } from './bans.js';
import { formatCsvLine } from './csv-cells.js';
import { emailKey } from './identities.js';
import { LINE_COLUMNS, NO_EMAIL } from './import-format.js';
import type { ExportedIdentity, ExportedUser, GivenFields, LineOf } from './users.js';

/* The lines of an export, which an import reads (import-format.ts). */

/** The type is written only where it does not follow from the wallet: for an external account that is not the wallet any more. */
function formatAccount({ wallet_type, ...account }: ExportedUser['accounts'][number], wallet: string | null) {
  const follows = (wallet_type === 'external') === (account.public_key === wallet);
  return follows ? account : { ...account, wallet_type };
}

/** What was said of the email of a person: absent where nothing was. */
function formatSaidEmail({ auth_method, email }: ExportedUser): string | null | undefined {
  if (email === '') return auth_method === 'email' ? NO_EMAIL : null;
  return email ?? undefined;
}

/** The identities of a user. That of the primary one is written alone where the rest of the line, with this email, does not say all of it. */
function identitiesOf({ identities, primary, created_at, last_login }: ExportedUser, email: string | null) {
  if (identities !== null) return identities;
  const isSame = (one: string | null, other: string | null) =>
    one === other || (one !== null && other !== null && Date.parse(one) === Date.parse(other));
  const { email: own } = primary;
  const follows =
    (primary.auth_method === 'email' || own === email) &&
    isSame(primary.created_at, created_at) &&
    isSame(primary.last_login, last_login);
  return follows ? null : [primary];
}

/** The email of an email login is its auth_value. */
function formatIdentity({ email, email_verified, created_at, last_login, primary, ...identity }: ExportedIdentity) {
  return {
    ...identity,
    email: identity.auth_method === 'email' ? null : email,
    ...(email_verified !== null && { email_verified }),
    created_at: new Date(created_at),
    last_login: last_login === null ? null : new Date(last_login),
    ...(primary && { primary }),
  };
}

/** The keys that a line has only where a user has a value. */
const LEFT_OUT = LINE_COLUMNS.filter(({ isNullable, isInEveryLine }) => isNullable && !isInEveryLine).map(
  ({ line }) => line as string,
);

/** A user as a line of the format, with its newline. */
export function formatLine(exported: ExportedUser): string {
  const { accounts, identities: _, login_email: __, primary: ___, ...user } = exported;
  const { email, auth_value } = exported;
  const identities = identitiesOf(exported, email === null ? emailKey(auth_value) : email || null);
  const fields: Record<string, unknown> = {
    ...user,
    email: formatSaidEmail(exported),
    accounts: accounts.map((account) => formatAccount(account, user.wallet)),
    ...(identities !== null && { identities: identities.map(formatIdentity) }),
  };
  for (const key of LEFT_OUT) if (fields[key] === null) fields[key] = undefined;
  return `${JSON.stringify(fields)}\n`;
}

/** The columns of users as CSV: the user ID, those of the format, the accounts as addresses, and the identities as JSON. */
const CSV_COLUMNS = ['id', ...LINE_COLUMNS.map(({ line }) => line)] as (keyof LineOf<GivenFields>)[];
export const CSV_HEAD: string = formatCsvLine([...CSV_COLUMNS, 'accounts', 'identities']);

/** A user as a line of CSV. */
export function formatCsvUser(user: ExportedUser): string {
  const accounts = user.accounts.map(({ public_key }) => public_key).join(' ');
  const line = { ...user, email: user.email === '' ? NO_EMAIL : user.login_email };
  // An empty cell says nothing.
  const identities = identitiesOf(user, user.login_email ?? (user.email === '' ? null : emailKey(user.auth_value)));
  return formatCsvLine([...CSV_COLUMNS.map((column) => line[column]), accounts, identities?.map(formatIdentity)]);
}

/** A ban as a line of the format, with its newline. Absent terms are left out. */
export function formatBan({ authMethod, authValue, createdAt, reason, expiresAt, isOfUser }: Ban): string {
  const ban = {
    auth_method: authMethod,
    auth_value: authValue,
    created_at: createdAt,
    ...(reason !== null && { reason }),
    ...(expiresAt !== null && { expires_at: expiresAt }),
    ...(isOfUser && { of_user: true }),
  };
  return `${JSON.stringify({ ban })}\n`;
}
