import { z } from 'zod';
import { AppError, badInput } from '../errors.js';
import { type BanRecord, parseBanReason } from './bans.js';
import {
  identityText,
  type LinkedIdentity,
  MAX_IDENTITIES,
  type ProfileInput,
  parseIdentity,
  parseProfile,
  requireFewAccounts,
  tooManyIdentities,
  type UserRecord,
} from './identities.js';
import { isTooLong } from './input-limits.js';
import { type Line, parseJson, textOf } from './lines.js';
import { dateForm, EARLIEST, LATEST, nameKeys, parse, parseDate, readableText, says } from './parse.js';
import { camelCase, snakeCase } from './spelling.js';
import type { ExportTarget } from './systems.js';
import { selectColumns, type UserColumn } from './user-columns.js';
import { type GivenFields, type LineOf, Network, WalletType } from './users.js';
import { parseAddress, requireAddress } from './wallets.js';

/* The import format, one JSON object a line: users, then bans as {"ban": {…}}. Export writes it, and users.ts has the fields. */

const MAX_INT = 2_147_483_647;
const DATE_TIME_FORM = 'a date or an RFC 3339 date-time, from 1970';
/** Clocks may be so far apart. */
const CLOCK_LEEWAY_MS = 86_400_000;
export const LINE_COLUMNS = selectColumns(({ line }) => line !== undefined);

/** The fields of a user's line, and how a cell of CSV gives each. */
export const IMPORT_FIELDS: readonly {
  readonly name: string;
  readonly form: 'text' | 'number' | 'json' | 'accounts';
}[] = [
  ...LINE_COLUMNS.map(({ line = '', type }) => ({
    name: line,
    form: ({ int: 'number', boolean: 'json', jsonb: 'json' } as const)[type as 'int'] ?? ('text' as const),
  })),
  { name: 'accounts', form: 'accounts' },
  { name: 'identities', form: 'json' },
];

/** That a person has no email, where null says nothing: in CSV, and where the auth_value is an email by which the person logs in. */
export const NO_EMAIL = 'none';

const KNOWN_FIELDS = ['id', ...IMPORT_FIELDS.map(({ name }) => name)].join(', ');
const text = (name: string) => z.string({ error: says(name, 'text') });
const count = (name: string) => {
  const form = { error: says(name, `a whole number from 0 to ${MAX_INT}`) };
  return z.int(form).min(0, form).max(MAX_INT, form);
};

/** From when until when a date may be, and how an error says it. */
export interface DateRange {
  readonly form: string;
  /** In milliseconds since 1970. */
  readonly latest: () => number;
}

export const isWithin = ({ latest }: DateRange, date: Date): boolean => date >= EARLIEST && date.getTime() <= latest();

const instant = (name: string, edge: 'first' | 'last', range: DateRange) =>
  readableText(
    name,
    range.form,
    (date) => {
      const read = isTooLong('date', date) ? null : parseDate(date, edge);
      return read !== null && isWithin(range, read) ? read : null;
    },
    (date) => dateForm(date, range.form),
  );
/** When something has happened: a login that is to come would be the last one for ever. */
export const PAST: DateRange = { form: `${DATE_TIME_FORM} to now`, latest: () => Date.now() + CLOCK_LEEWAY_MS };
/** When something ends. */
export const UNTIL: DateRange = { form: `${DATE_TIME_FORM} to 9999`, latest: () => LATEST.getTime() };
const pastInstant = (name: string) => instant(name, 'first', PAST);
/** A date is through its last instant, as in `parseBanTerms`. */
const endInstant = (name: string) => instant(name, 'last', UNTIL);

const truth = (name: string) => z.boolean({ error: says(name, 'true or false') });

/** The form of a column in a line. A column that may be null or has a default may be absent. */
function formOf({ line = '', type, isNullable, ifAbsent }: UserColumn): z.ZodType {
  const forms = { text, int: count, timestamptz: pastInstant, boolean: truth, jsonb: () => z.unknown() };
  const form = type === 'bigint' || type === 'login_method' ? undefined : forms[type](line);
  if (form === undefined) throw new TypeError(`The import format has no form for the type ${type}.`);
  return isNullable || ifAbsent !== undefined ? form.nullish() : form;
}

const walletTypeForm = Object.values(WalletType).join(' or ');
const networkForm = Object.values(Network).join(' or ');
const accountForm = {
  error: says(
    'accounts',
    'a list of {"network", "public_key"}, with "wallet_type" where it does not follow from the wallet',
  ),
};

const unknownFields = (known: string, name: string) => (issue: z.core.$ZodRawIssue) =>
  issue.code === 'unrecognized_keys'
    ? `Unknown field ${nameKeys(issue.keys)}; known are ${known}.`
    : says(name, 'a JSON object')(issue);

/** An object with these fields and no others. The error for an unknown field lists the known ones. */
const objectOf = <Fields extends z.core.$ZodShape>(name: string, fields: Fields) =>
  z.strictObject(fields, { error: unknownFields(Object.keys(fields).join(', '), name) });

const ban = objectOf('ban', {
  auth_method: text('auth_method'),
  auth_value: text('auth_value'),
  created_at: pastInstant('created_at').nullish(),
  reason: text('reason').nullish(),
  expires_at: endInstant('expires_at').nullish(),
  of_user: truth('of_user').nullish(),
});
const banLine = z.strictObject({ ban }, { error: unknownFields('ban, alone on its line', 'line') });

const accounts = z
  .array(
    z.strictObject(
      {
        network: z.enum(Network, { error: says('accounts[].network', networkForm) }),
        public_key: text('accounts[].public_key'),
        wallet_type: z.enum(WalletType, { error: says('accounts[].wallet_type', walletTypeForm) }).nullish(),
      },
      accountForm,
    ),
    accountForm,
  )
  .nullish();

const ofIdentity = (field: string) => `identities[].${field}`;
const identityEntry = objectOf('identities[]', {
  auth_method: text(ofIdentity('auth_method')),
  auth_value: text(ofIdentity('auth_value')),
  email: text(ofIdentity('email')).nullish(),
  email_verified: truth(ofIdentity('email_verified')).nullish(),
  created_at: pastInstant(ofIdentity('created_at')).nullish(),
  last_login: pastInstant(ofIdentity('last_login')).nullish(),
  primary: truth(ofIdentity('primary')).nullish(),
});
const identities = z.array(identityEntry, { error: says('identities', 'a list of JSON objects') }).nullish();

type IdentityEntry = z.output<typeof identityEntry>;
type UserLine = LineOf<GivenFields> & {
  accounts?: z.output<typeof accounts>;
  identities?: z.output<typeof identities>;
};

const userLine = z.strictObject(
  {
    // Written by an export, for copies that follow the changes. An import ignores it: the database gives the IDs.
    id: z.int({ error: says('id', 'a whole number') }).nullish(),
    ...Object.fromEntries(LINE_COLUMNS.map((column) => [column.line, formOf(column)])),
    accounts,
    identities,
  },
  { error: unknownFields(KNOWN_FIELDS, 'line') },
) as unknown as z.ZodType<UserLine>;

/** Treatments of a line whose user exists. An update only adds logins; a replacement takes them back, too. */
export const ON_CONFLICT = ['skip', 'update', 'replace', 'fail'] as const;

export type OnConflict = (typeof ON_CONFLICT)[number];

export type LineRecord = { readonly user: UserRecord } | { readonly ban: BanRecord };

/** The record of a line; null for an empty line. BAD_USER_INPUT. */
export function parseLine(bytes: Line): LineRecord | null {
  const json = textOf(bytes);
  return json === '' ? null : parseRecord(parseJson(json));
}

/** A line of an import, wherever it comes from. */
export interface SourceLine {
  /** Its number in the file. The lines of one person have the same. */
  readonly number: number;
  /** The ID of the person in the system that the file is from. */
  readonly sourceId?: string | null;
  /** Its record; null for an empty line. BAD_USER_INPUT. */
  readonly read: () => LineRecord | null;
}

/** The record of the value of a line. BAD_USER_INPUT. */
export function parseRecord(value: unknown): LineRecord {
  const isBan = typeof value === 'object' && value !== null && Object.hasOwn(value, 'ban');
  return isBan ? { ban: parseBan(value) } : { user: parseUser(value) };
}

function parseBan(value: unknown): BanRecord {
  const { ban } = parse(banLine, value);
  const identity = parseIdentity({ authMethod: ban.auth_method, authValue: ban.auth_value }, snakeCase);
  const reason = parseBanReason('reason', ban.reason);
  const isOfUser = ban.of_user === true;
  return { ...identity, createdAt: ban.created_at ?? null, reason, expiresAt: ban.expires_at ?? null, isOfUser };
}

function parseUser(value: unknown): UserRecord {
  const line = parse(userLine, value);
  const { createdAt, lastLogin, loginCount, email, ...fields } = inputOf(line);
  const accounts = line.accounts?.map((account) => ({
    network: account.network,
    publicKey: account.public_key,
    walletType: account.wallet_type,
  }));
  const isEmail = fields.authMethod === 'email';
  const isNone = email === NO_EMAIL || (email === null && !isEmail);
  const given = { ...fields, accounts, email: isNone ? null : email };
  const profile = parseProfile(withOwnWallet(given), snakeCase, true);
  const record = {
    ...profile,
    ...(isNone && { saidEmail: '' }),
    ...(isNone && !isEmail && { identityEmail: null }),
    givenEmail: isEmail ? null : isNone ? '' : profile.saidEmail,
    createdAt: createdAt ?? null,
    lastLogin: lastLogin ?? null,
    loginCount: loginCount ?? null,
  };
  const user = line.identities == null ? record : withIdentities(record, line.identities);
  requireEmailOf(user, 'email_verified');
  requireFewAccounts(user);
  return user;
}

/** BAD_USER_INPUT for what is said of an email that is not there. */
function requireEmailOf(
  { identityEmail, emailVerified }: Pick<UserRecord, 'identityEmail' | 'emailVerified'>,
  name: string,
) {
  if (emailVerified !== null && identityEmail === null) throw badInput(name, emailVerified, 'none without an email');
}

/** Whose primary identity is a wallet has that one: another wallet of the line is an external account. BAD_USER_INPUT. */
function withOwnWallet(input: ProfileInput): ProfileInput {
  if (input.authMethod !== 'wallet' || input.wallet == null) return input;
  const [own, other] = [parseAddress(input.authValue), requireAddress('wallet', input.wallet)];
  if ('reason' in own || own.key === other.key) return input;
  const isOther = ({ publicKey }: { readonly publicKey: string }) =>
    publicKey.toLowerCase() === other.publicKey.toLowerCase();
  const accounts = input.accounts ?? [];
  const all = accounts.some(isOther) ? accounts : [...accounts, other];
  return {
    ...input,
    wallet: null,
    accounts: all.map(({ network, publicKey, ...account }) => ({
      network,
      publicKey,
      walletType: isOther({ publicKey }) ? 'external' : 'walletType' in account ? account.walletType : null,
    })),
  };
}

/** A user with the identities of a line. Those that are wallets are external accounts, as where they are linked. BAD_USER_INPUT. */
function withIdentities(user: UserRecord, entries: readonly IdentityEntry[]): UserRecord {
  const wrong = (fault: string) => new AppError('BAD_USER_INPUT', `identities: ${fault}.`);
  if (entries.length > MAX_IDENTITIES) throw tooManyIdentities(entries.length);
  if (entries.filter(({ primary }) => primary).length > 1) throw wrong('more than one is primary');
  const own = identityText(user);
  const linked = new Map<string, LinkedIdentity>();
  let primary: IdentityEntry | undefined;
  const accounts = new Map(user.accounts.map((account) => [account.addressKey, account]));
  for (const entry of entries) {
    const { auth_method: authMethod, auth_value: authValue, email, email_verified: emailVerified } = entry;
    const profile = parseProfile({ authMethod, authValue, email, emailVerified }, ofIdentity, true);
    const loginEmail = email === null && authMethod !== 'email' ? null : profile.identityEmail;
    requireEmailOf({ identityEmail: loginEmail, emailVerified: profile.emailVerified }, ofIdentity('email_verified'));
    if (authMethod === 'email' && (profile.saidEmail ?? loginEmail) !== loginEmail)
      throw badInput(ofIdentity('email'), email, `the email in ${ofIdentity('auth_value')}, or none`);
    const text = identityText(profile);
    if (linked.has(text)) throw wrong('one is there twice');
    if (entry.primary && text !== own) throw wrong('the primary one is not the auth_method and auth_value of the line');
    if (text === own && (profile.emailVerified ?? user.emailVerified) !== user.emailVerified)
      throw wrong('email_verified of the primary one is not that of the line');
    if (text === own) primary = { ...entry, email: entry.email === undefined ? undefined : loginEmail };
    const [createdAt, lastLogin] = [entry.created_at ?? null, entry.last_login ?? null];
    linked.set(text, { ...profile, loginEmail, createdAt, lastLogin });
    for (const { addressKey, ...account } of profile.accounts)
      accounts.set(addressKey, { addressKey, ...account, ...accounts.get(addressKey), walletType: 'external' });
  }
  linked.delete(own);
  if (linked.size >= MAX_IDENTITIES) throw tooManyIdentities(linked.size + 1);
  // An identity may have another email than what was said of the person.
  const { email: ownEmail } = primary ?? {};
  const hasOtherLogin = primary?.last_login === null && user.lastLogin !== null;
  return {
    ...user,
    accounts: [...accounts.values()],
    linked: [...linked.values()],
    ...(ownEmail !== undefined && { identityEmail: ownEmail }),
    ...(ownEmail !== undefined && user.authMethod !== 'email' && { givenEmail: ownEmail ?? '' }),
    identityAt: primary?.created_at ?? null,
    // Null is of a user who logs in by the others only. Where nothing is said, it is the last login of the user.
    identityLogin: hasOtherLogin ? '-infinity' : (primary?.last_login ?? null),
  };
}

type CamelCase<Name> = Name extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelCase<Tail>>}` : Name;
type LineInput = { [Name in keyof LineOf<GivenFields> as CamelCase<Name>]: LineOf<GivenFields>[Name] };

const INPUT_NAMES = LINE_COLUMNS.map(({ line = '' }) => [line, camelCase(line)] as const);

/** The columns of a line under the names of `ProfileInput` and `UserRecord`. */
function inputOf(line: UserLine): LineInput {
  const input: Record<string, unknown> = {};
  for (const [key, name] of INPUT_NAMES) input[name] = line[key as keyof UserLine];
  return input as LineInput;
}

export const EXPORT_FORMATS = ['ndjson', 'csv'] as const;

export type ExportFormat = (typeof EXPORT_FORMATS)[number];

/** The forms in which users are exported. */
export type UserFormat = ExportFormat | ExportTarget;
