import { toUnicode } from 'tr46';
import { AppError, badInput, show } from '../errors.js';
import { METHOD_FORM, methodMeant } from './auth-methods.js';
import {
  atMost,
  type Bound,
  composedText,
  composedWithin,
  INPUT_LIMITS,
  INVISIBLE,
  isLonger,
  isTooLong,
} from './input-limits.js';
import { KEPT_TEXTS, type KeptText, ofKeptTexts } from './kept-texts.js';
import { parseMetadata } from './metadata.js';
import { allFaults, readItems } from './parse.js';
import type { Spelling } from './spelling.js';
import { USER_COLUMNS } from './user-columns.js';
import type { HistoryFields, LoginFields, Network, WalletType } from './users.js';
import { ADDRESS_FORM, type Address, requireAddress } from './wallets.js';

/** A user of a project by the login method, the value, and the form in which the value is compared. */
export interface Identity {
  readonly authMethod: string;
  readonly authValue: string;
  readonly authValueKey: string;
}

/** An identity as it arrives. */
export type GivenIdentity = Pick<Identity, 'authMethod' | 'authValue'>;

/** A text that no other identity has: no method contains a space. */
export const identityText = ({ authMethod, authValueKey }: Pick<Identity, 'authMethod' | 'authValueKey'>) =>
  `${authMethod} ${authValueKey}`;

export interface LinkedAccount {
  readonly network: Network;
  readonly publicKey: string;
  readonly addressKey: string;
  readonly walletType: WalletType;
}

/** A user as a login or an import line describes one, checked and in the form in which it is stored. */
export interface Profile extends LoginFields {
  readonly accounts: readonly LinkedAccount[];
}

/** An identity beside the primary one, as an import writes it. Null for what is left to the database. */
export interface LinkedIdentity
  extends Identity,
    Pick<LoginFields, 'emailVerified'>,
    Pick<HistoryFields, 'createdAt' | 'lastLogin'> {
  readonly loginEmail: string | null;
}

/** A user as an import writes it. A null is left to the database, or in an update unchanged. */
export interface UserRecord extends Profile, HistoryFields {
  /** The email of the primary identity of a user who exists: null where nothing is said of it, empty for none. */
  readonly givenEmail?: string | null;
  /** Since when the primary identity is the user's, and its last login. */
  readonly identityAt?: Date | null;
  readonly identityLogin?: Date | '-infinity' | null;
  readonly linked?: readonly LinkedIdentity[];
}

/** The texts that a caller keeps with a user, as they arrive. */
export type KeptTextsInput = { readonly [Field in KeptText]?: string | null | undefined };

/** A profile as it arrives. */
export interface ProfileInput extends KeptTextsInput {
  readonly authMethod: string;
  readonly authValue: string;
  readonly email?: string | null | undefined;
  readonly emailVerified?: boolean | null | undefined;
  readonly metadata?: unknown;
  readonly wallet?: string | null | undefined;
  readonly accounts?: readonly AccountInput[] | null | undefined;
}

interface AccountInput {
  readonly network: Network;
  readonly publicKey: string;
  /** Needed where it does not follow from the wallet. */
  readonly walletType?: WalletType | null | undefined;
}

const EMAIL_FORM = 'an email address';
/** The most characters of a mailbox that `EMAIL` accepts. */
const MAX_MAILBOX = 64;
// Letters of any script; no white space, quotes or control characters, no empty domain label.
const EMAIL = /^[^\s@"\p{Cc}\p{Cs}]{1,64}@[^\s@".\p{Cc}\p{Cs}]+(\.[^\s@".\p{Cc}\p{Cs}]+)*$/u;

const AUTH_METHOD = /^[a-z0-9][a-z0-9._-]*$/;
const AUTH_METHOD_FORM = `${METHOD_FORM} of at most ${INPUT_LIMITS.authMethod.max} lower-case letters, digits, "." "_" "-"`;
const AUTH_VALUE_FORM = `text of 1 to ${INPUT_LIMITS.authValue.max} bytes without control or invisible characters`;
export const MAX_ACCOUNTS = 100;
/** The most identities of a user, the primary one among them. */
export const MAX_IDENTITIES = 20;

/**
 * Checks an identity; BAD_USER_INPUT. Another spelling of a method would make a second user of the same person.
 * A value that is an email or an address is compared as one, any other as it is: ids of providers are case-sensitive.
 */
export function parseIdentity(input: GivenIdentity, spelling: Spelling): Identity {
  const { authMethod } = input;
  try {
    requireMethodName(spelling('auth_method'), authMethod);
    const authValue = requireAuthValue(spelling('auth_value'), input.authValue);
    return { authMethod, authValue, authValueKey: foldAuthValue(authMethod, authValue, spelling('auth_value')) };
  } catch (error) {
    throw identityFaults(error, input, spelling);
  }
}

/** Apart, because closures would cost each login. */
function identityFaults(error: unknown, { authMethod, authValue }: GivenIdentity, spelling: Spelling): unknown {
  const name = spelling('auth_value');
  const readers = [
    () => requireMethodName(spelling('auth_method'), authMethod),
    () => foldAuthValue(authMethod, requireAuthValue(name, authValue), name),
  ];
  return allFaults(error, readers, (read) => read());
}

/** The name of a method in its one spelling, or BAD_USER_INPUT. */
export function requireMethodName(name: string, authMethod: string): string {
  if (isTooLong('authMethod', authMethod)) throw badInput(name, authMethod, AUTH_METHOD_FORM);
  const meant = methodMeant(authMethod);
  if (meant === null && AUTH_METHOD.test(authMethod)) return authMethod;
  if (meant === null) throw badInput(name, authMethod, AUTH_METHOD_FORM);
  const what = meant === 'socials' ? 'the name of the provider, such as "google"' : `"${meant}"`;
  throw new AppError(
    'BAD_USER_INPUT',
    `${name}: got ${show(authMethod)}, expected ${AUTH_METHOD_FORM}; did you mean ${what}? Another provider needs a name that is less alike, such as "acme-login".`,
  );
}

export function requireAuthValue(name: string, text: string): string {
  const authValue = composedText('authValue', text) ?? '';
  if (authValue !== '' && !/[\p{Cc}\p{Cs}]/u.test(authValue)) return authValue;
  throw badInput(name, text, AUTH_VALUE_FORM);
}

/** The value of an identity of a social provider or a passkey, in the form in which it is compared. BAD_USER_INPUT. */
export function parseValueKey(name: string, text: string): string {
  return foldAuthValue('passkey', requireAuthValue(name, text), name);
}

/** An email as it is compared: trimmed, mailbox in NFC and lower case, domain in Unicode by IDNA. Null for no email, or invisible characters. */
export const foldEmail = (text: string): string | null => foldWithin(INPUT_LIMITS.email, text);

/** A longer auth value is no email. Keys are stored, so this bound never changes, whatever INPUT_LIMITS becomes. */
const LONGEST_EMAIL_KEY: Bound = { max: 320, unit: 'characters' };

/** The email that an auth value of any method is; null for another value. */
export const emailKey = (authValue: string) => foldWithin(LONGEST_EMAIL_KEY, authValue);

/** True if two texts are one email, or else the same text. */
export function isSameEmail(one: string, other: string): boolean {
  return (foldEmail(one) ?? one) === (foldEmail(other) ?? other);
}

function foldWithin(bound: Bound, text: string): string | null {
  const whole = composedWithin(bound, text) ?? '';
  const at = whole.lastIndexOf('@');
  if (at === -1) return null;
  const mailbox = foldCase(whole.slice(0, at));
  const { domain, isValid } = foldDomain(whole.slice(at + 1));
  const folded = `${mailbox}@${domain}`;
  return isValid && EMAIL.test(folded) && !isLonger(bound, folded) && !INVISIBLE.test(mailbox) ? folded : null;
}

/** Letter by letter, so that the fold of a text begins with the fold of its beginning: a sigma is one letter, also at the end of a word. */
function foldCase(text: string): string {
  return text.normalize('NFC').toLowerCase().replaceAll('ς', 'σ').normalize('NFC');
}

/**
 * `Bücher.example`, `xn--bcher-kva.example` and `bücher。example` are one domain (IDNA, UTS 46). In a domain, ς and σ are two letters.
 * Folded emails are stored, so a library folds them: each release of Node.js has other tables.
 */
function foldDomain(text: string): { readonly domain: string; readonly isValid: boolean } {
  const composed = text.normalize('NFC');
  if (/^[!-~]*$/.test(composed) && !/xn--/i.test(composed)) return { domain: composed.toLowerCase(), isValid: true };
  const { domain, error } = toUnicode(composed, { checkJoiners: true });
  return { domain, isValid: !error && !/[^\w.\x80-\u{10ffff}-]/u.test(domain) };
}

/** The folded email, or BAD_USER_INPUT. `aboutBlanks` is what else an error says of them. */
export function requireEmail(name: string, text: string, aboutBlanks = ''): string {
  const folded = foldEmail(text);
  if (folded !== null) return folded;
  throw badInput(name, text, EMAIL_FORM + emailHint(text, aboutBlanks));
}

/** The probable fault of a text that is no email. */
function emailHint(text: string, aboutBlanks: string): string {
  if (composedText('email', text) === null) return ` of ${atMost('email')}`;
  if (text.trim().indexOf('@') > MAX_MAILBOX) return ` with at most ${MAX_MAILBOX} characters before the @`;
  return text.trim().includes(' ') ? ` without blanks${aboutBlanks}` : '';
}

/** The beginning of a login email, of the value of an identity or of an external id. */
export interface Prefix {
  /** As it was given: values of providers, addresses of Stellar and external ids are compared exactly. */
  readonly exact: string;
  /** As emails are compared, and in lower case, as addresses of Ethereum are. */
  readonly folded: string;
}

/** The beginning of texts. White space at its ends is ignored. BAD_USER_INPUT. */
export function parsePrefix(name: string, text: string): Prefix {
  const exact = requireAuthValue(name, text);
  const at = exact.lastIndexOf('@');
  if (at === -1) return { exact, folded: foldCase(exact) };
  return { exact, folded: `${foldCase(exact.slice(0, at))}@${foldDomain(exact.slice(at + 1)).domain}` };
}

/** The first text after all that begin with `prefix`, in the order of code points; null where there is none. */
export function endOfPrefix(prefix: string): string | null {
  const points = Array.from(prefix, (letter) => letter.codePointAt(0) as number);
  while (points.at(-1) === 0x10ffff) points.pop();
  const last = points.pop();
  if (last === undefined) return null;
  // Surrogates are no code points of a text.
  return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
}

/** An auth value that was checked, as it is compared. BAD_USER_INPUT. */
export function foldAuthValue(authMethod: string, authValue: string, name: string): string {
  if (authMethod === 'email') return requireEmail(name, authValue);
  if (authMethod === 'wallet') return requireAddress(name, authValue).key;
  const email = emailKey(authValue);
  if (email === null && INVISIBLE.test(authValue)) throw badInput(name, authValue, AUTH_VALUE_FORM);
  return email ?? authValue;
}

/** A text that a caller keeps with a user, in the form in which it is stored; null or undefined as it arrives. BAD_USER_INPUT. */
export function readKeptText(field: KeptText, input: KeptTextsInput, spelling: Spelling): string | null | undefined {
  const text = input[field];
  if (text == null) return text;
  const name = spelling(USER_COLUMNS[field].line);
  return requireKeptText(field, name, text);
}

function requireKeptText(field: KeptText, name: string, text: string): string {
  const { form, stored } = KEPT_TEXTS[field];
  const kept = isTooLong(field, text) ? null : stored(text);
  // What is stored is exported, and has to be accepted again.
  if (kept === null || isTooLong(field, kept)) throw badInput(name, text, form);
  return kept;
}

/** The id of a user in the system of the caller. BAD_USER_INPUT. */
export const requireExternalId = (name: string, text: string) => requireKeptText('externalId', name, text);

/** The parts of a profile that are read each by itself. */
const PARTS = {
  identity: parseIdentity,
  email: ({ email }: ProfileInput) => (email == null ? null : requireEmail('email', email)),
  address: ({ wallet }: ProfileInput) => (wallet == null ? null : requireAddress('wallet', wallet)),
  metadata: ({ metadata }: ProfileInput) => (metadata == null ? null : parseMetadata('metadata', metadata)),
  ...ofKeptTexts((field) => (input: ProfileInput, spelling: Spelling) => readKeptText(field, input, spelling) ?? null),
  accounts: parseAccounts,
};

/**
 * Checks a profile; BAD_USER_INPUT names the fields. Only its wallet, which is the auth value of a `wallet` login, is an external account.
 * An import may say (`isLine`) another email of a person than that by which they log in.
 */
export function parseProfile(input: ProfileInput, spelling: Spelling, isLine = false): Profile {
  try {
    return readProfile(input, spelling, isLine);
  } catch (error) {
    throw profileFaults(error, input, spelling);
  }
}

const profileFaults = (error: unknown, input: ProfileInput, spelling: Spelling) =>
  allFaults(error, Object.values(PARTS), (read) => read(input, spelling));

function readProfile(input: ProfileInput, spelling: Spelling, isLine: boolean): Profile {
  const identity = PARTS.identity(input, spelling);
  const wallet = walletOf(identity, PARTS.address(input), spelling);
  const saidEmail = PARTS.email(input);
  const isEmail = identity.authMethod === 'email';
  if (isEmail && saidEmail !== null && saidEmail !== identity.authValueKey && !isLine)
    throw badInput('email', saidEmail, `the email in ${spelling('auth_value')}, or none`);
  if (input.emailVerified != null && saidEmail === null && !isEmail && !isLine)
    throw badInput(spelling('email_verified'), input.emailVerified, 'none without an email');
  return {
    ...identity,
    saidEmail,
    // Of another identity, it is the value if that is an email, unless something else is said.
    identityEmail: isEmail ? identity.authValueKey : (saidEmail ?? emailKey(identity.authValue)),
    emailVerified: input.emailVerified ?? null,
    metadata: PARTS.metadata(input),
    wallet: wallet?.publicKey ?? null,
    ...ofKeptTexts((field) => PARTS[field](input, spelling)),
    accounts: linkedAccounts(PARTS.accounts(input, spelling), wallet),
  };
}

/** `by` is the user who has it, where that is known. */
export function externalIdTaken(by: number | null = null, remedy = ''): AppError {
  return new AppError('CONFLICT', `${userOr(by)} of this project has this external ID.${remedy}`, {
    subject: { names: ['externalId'], userId: by },
  });
}

export function identityTaken(by: number | null = null): AppError {
  return new AppError(
    'CONFLICT',
    `${userOr(by)} of this project has this identity. If both are one person, merge the users.`,
    // In `updateUser` it is the email.
    { subject: { names: ['authValue', 'email'], userId: by } },
  );
}

export function identityBanned(): AppError {
  return new AppError('BANNED', 'This identity is banned from the project: it cannot register, log in or be linked.');
}

export function tooManyIdentities(count: number): AppError {
  return new AppError('BAD_USER_INPUT', `The user would have ${count} identities, expected at most ${MAX_IDENTITIES}.`);
}

const userOr = (id: number | null) => (id === null ? 'Another user' : `User ${id}`);

export function externalIdKept(): AppError {
  return new AppError('CONFLICT', 'This user has another external ID.', { subject: { names: ['externalId'] } });
}

/** The address that logs in: of a wallet login its value. BAD_USER_INPUT for another one. */
function walletOf(identity: Identity, given: Address | null, spelling: Spelling): Address | null {
  if (identity.authMethod !== 'wallet') return given;
  const wallet = given ?? requireAddress(spelling('auth_value'), identity.authValue);
  if (wallet.key === identity.authValueKey) return wallet;
  throw badInput(
    'wallet',
    wallet.publicKey,
    `the address in ${spelling('auth_value')}, by which a wallet login logs in`,
  );
}

type GivenAddress = Address & Pick<AccountInput, 'walletType'>;

function parseAccounts({ accounts }: ProfileInput, spelling: Spelling): GivenAddress[] {
  const inputs = accounts ?? [];
  if (inputs.length === 0) return [];
  if (inputs.length > MAX_ACCOUNTS)
    throw new AppError('BAD_USER_INPUT', `accounts: got ${inputs.length}, expected at most ${MAX_ACCOUNTS}.`);
  const keys = new Map<string, number>();
  return readItems(inputs, ({ network, publicKey, walletType }, index) => {
    const name = `accounts[${index}].${spelling('public_key')}`;
    const address = requireAddress(name, publicKey);
    if (address.network !== network) throw badInput(name, publicKey, `${ADDRESS_FORM[network]}, as its network says`);
    // May be read twice (allFaults).
    if (!keys.has(address.key)) keys.set(address.key, index);
    if (keys.get(address.key) !== index) throw badInput(name, publicKey, 'each address once');
    return { ...address, walletType };
  });
}

/** The login wallet is external, whatever is given. */
function linkedAccounts(given: readonly GivenAddress[], wallet: Address | null): LinkedAccount[] {
  const isGiven = wallet === null || given.some(({ key }) => key === wallet.key);
  const all = isGiven ? given : [...given, { ...wallet, walletType: null }];
  return all.map(({ network, publicKey, key, walletType }) => ({
    network,
    publicKey,
    addressKey: key,
    walletType: key === wallet?.key ? 'external' : (walletType ?? 'custodial'),
  }));
}

/** The wallet of a login counts as well, so a list of exactly MAX_ACCOUNTS may be too long. BAD_USER_INPUT. */
export function requireFewAccounts({ accounts }: { readonly accounts: readonly unknown[] }): void {
  if (accounts.length > MAX_ACCOUNTS) throw tooManyAccounts(accounts.length);
}

export function tooManyAccounts(count: number | string): AppError {
  return new AppError('BAD_USER_INPUT', `accounts: the user would have ${count}, expected at most ${MAX_ACCOUNTS}.`);
}
