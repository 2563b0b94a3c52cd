import { methodNamed, PHONE_NUMBER } from '../../domain/auth-methods.js';
import { foldEmail, isSameEmail } from '../../domain/identities.js';
import { IMPORT_FIELDS, PAST, UNTIL } from '../../domain/import-format.js';
import { INPUT_LIMITS, isTooLong } from '../../domain/input-limits.js';
import { parseAddress } from '../../domain/wallets.js';
import { AppError } from '../../errors.js';
import { type Fields, isEmpty, type ReadDate, textOf } from './values.js';

/* A person as another system describes one, and the lines of an import that keep what a person is (docs/moving.md). */

/** A way to log in, in the order in which the system lists them. */
export interface Login {
  /** `email`, `phone`, `wallet`, `passkey`, `username`, or a provider by the name that the system has for it. */
  readonly by: string;
  /** The email, the number, the address, or the ID that the provider has for the person. Empty values are left out. */
  readonly value: unknown;
  readonly email?: unknown;
  /** Of the email or the phone; null where the system does not say. */
  readonly verified?: boolean | null;
  readonly createdAt?: unknown;
  readonly lastLogin?: unknown;
}

export interface Person {
  /** The ID in the system, which becomes the external ID; empty where there is none. */
  readonly id: string;
  readonly logins: readonly Login[];
  /** The email of the person, where it is none of the logins. */
  readonly email?: { readonly address: unknown; readonly verified: boolean | null };
  /** The address of the person's own wallet, by which they do not log in. */
  readonly wallet?: unknown;
  /** Addresses that the system holds for the person, who does not log in by them. */
  readonly accounts?: readonly unknown[];
  readonly createdAt?: unknown;
  readonly lastLogin?: unknown;
  /** Further columns of a line of the import format, by their keys. */
  readonly columns?: Readonly<Record<string, unknown>>;
  /** True, or the date until which the person is blocked. */
  readonly blocked?: unknown;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** True for a guest, who has not said who they are. */
  readonly isGuest?: boolean;
  /** What the record has of the person that is not kept, as plural nouns, one for each time: `second factors`. */
  readonly notKept?: readonly string[];
}

/** A record as it was read. Numbers that JSON would round are texts; all cells of CSV are. */
export type SourceRecord = Fields;

/** A system whose export is imported. */
export interface System {
  /** As in `--from`. It is the auth_method of a person who has nothing but their ID there. */
  readonly name: string;
  /** As the system is called. */
  readonly title: string;
  /** The fields of which every record has one: the ID. */
  readonly idFields: readonly string[];
  /** Fields of which every record has one, where the ID is called as in other systems. */
  readonly needs?: readonly string[];
  /** The name of the list in a JSON object that holds the records, such as `users`. */
  readonly lists?: readonly string[];
  /** The titles of CSV that has none, by place. */
  readonly columns?: readonly string[];
  /** Records of another file that belong to a person: those with all of `fields`, of the person with the ID in `key`, as the list `as`. */
  readonly joined?: { readonly fields: readonly string[]; readonly key: string; readonly as: string };
  /** The fields that `toPerson` reads, or that say nothing of a person; `custom:*` is each that begins with `custom:`. */
  readonly fields: readonly string[];
  /** The person of a record, or why it is no person, as a plural noun: `service accounts`; or a line of an import as it is. */
  readonly toPerson: (record: SourceRecord) => Person | string | { readonly line: SourceRecord };
  /** The field that the adjacent records of one person share (joinRows). */
  readonly joinBy?: string;
  /** Checks the titles of CSV, as names of fields. BAD_USER_INPUT. */
  readonly checkTitles?: (titles: readonly string[]) => void;
}

/** Tells a field that is read, or says nothing, from one that is reported as not kept where it has a value. */
export function createFieldTest({ fields }: System): (name: string) => boolean {
  const names = new Set(fields);
  const beginnings = fields.filter((field) => field.endsWith('*')).map((field) => field.slice(0, -1));
  return (name) => names.has(name) || beginnings.some((beginning) => name.startsWith(beginning));
}

export interface LineOptions {
  /** The name and the title of the system. */
  readonly system: string;
  readonly title: string;
  /** Take unverified emails and phones for identities. */
  readonly trustUnverified: boolean;
  readonly readDate: ReadDate;
  /** Counts what is kept in another way than here, under a plural noun. */
  readonly note: (what: string) => void;
  /** Counts what is not kept, under a plural noun or the name of its field. */
  readonly drop: (what: string) => void;
}

/** The lines of a person: the user, and their ban where the person is blocked. */
export interface PersonLines {
  readonly user: Readonly<Record<string, unknown>>;
  readonly bans: readonly Readonly<Record<string, unknown>>[];
}

interface LineIdentity {
  auth_method: string;
  auth_value: string;
  email?: string;
  email_verified?: boolean;
  created_at?: string;
  last_login?: string;
}

/** The lines of a person. BAD_USER_INPUT for a date that cannot be read, or a person without a login and an ID. */
export function linesOf(person: Person, options: LineOptions): PersonLines {
  const { readDate, drop } = options;
  const kept: Record<string, unknown> = {};
  person.notKept?.forEach(drop);
  const identities = identitiesOf(person, options, kept);
  const [first = ownIdentity(person, options), ...others] = identities;
  keepEmail(person, [first, ...others], kept, options);
  const accounts = accountsOf(person, identities, drop);
  const metadata = metadataOf(person, kept, drop);
  const wallet = addressIn(textOf(person.wallet));
  const createdAt = readDate('created_at', PAST, person.createdAt);
  if (createdAt === null) options.note('people without a date, created at the import');
  const user = {
    auth_method: first.auth_method,
    auth_value: first.auth_value,
    ...(first.email !== undefined && { email: first.email }),
    ...(first.email_verified !== undefined && { email_verified: first.email_verified }),
    ...(person.id !== '' && { external_id: person.id }),
    created_at: createdAt,
    last_login: readDate('last_login', PAST, person.lastLogin),
    ...columnsOf(person),
    ...(wallet !== null && first.auth_method !== 'wallet' && { wallet }),
    ...(accounts.length > 0 && { accounts }),
    ...(metadata !== null && { metadata }),
    ...(others.length > 0 && {
      identities: identities.map((identity, place) => ({ ...identity, primary: place === 0 })),
    }),
  };
  return { user, bans: bansOf(person, first, options) };
}

/** The further columns that say something. A number that is none is left out. */
function columnsOf({ columns = {} }: Person): Record<string, unknown> {
  const kept: Record<string, unknown> = {};
  for (const { name, form } of IMPORT_FIELDS) {
    const text = textOf(columns[name]);
    if (text === '') continue;
    if (form !== 'number') kept[name] = text;
    else if (Number.isSafeInteger(Number(text))) kept[name] = Number(text);
  }
  return kept;
}

/** The identity of a person without a login: their ID in the system. */
function ownIdentity({ id, isGuest }: Person, { system, note }: LineOptions): LineIdentity {
  if (id === '') throw new AppError('BAD_USER_INPUT', 'The record has neither a login nor an ID.');
  note(isGuest ? 'guests, by their ID in the source' : 'people without a login, by their ID in the source');
  return { auth_method: system, auth_value: id };
}

/** The identities of a person, the primary one first. What is none is put into `kept`, which becomes metadata. */
function identitiesOf(person: Person, options: LineOptions, kept: Record<string, unknown>): LineIdentity[] {
  const { trustUnverified, readDate, drop } = options;
  const identities = new Map<string, LineIdentity>();
  let username = '';
  for (const login of person.logins) {
    const [method, value] = [methodNamed(login.by), textOf(login.value)];
    if (value === '') continue;
    if (method === '') drop('logins that do not say by what');
    else if (method === 'username') username = value;
    else if ((method === 'email' || method === 'phone') && login.verified === false && !trustUnverified)
      keepUnverified(method, value, kept, options);
    else {
      const text = authValueOf(method, value, drop);
      if (text === null) continue;
      const key = `${method} ${foldEmail(text) ?? (method === 'wallet' ? text.toLowerCase() : text)}`;
      if (identities.has(key)) continue;
      const email = method === 'email' ? '' : textOf(login.email);
      const [createdAt, lastLogin] = [
        readDate('created_at', PAST, login.createdAt),
        readDate('last_login', PAST, login.lastLogin),
      ];
      identities.set(key, {
        auth_method: method,
        auth_value: text,
        ...(email !== '' && { email }),
        ...(login.verified != null && (method === 'email' || email !== '') && { email_verified: login.verified }),
        ...(createdAt !== null && { created_at: createdAt }),
        ...(lastLogin !== null && { last_login: lastLogin }),
      });
    }
  }
  const list = [...identities.values()];
  // A username is an identity only of a person who has no other, and an email as username never is, because it is not verified.
  if (username !== '' && list.length === 0 && foldEmail(username) === null)
    return [{ auth_method: 'username', auth_value: username }];
  const others = [...list.map(({ auth_value }) => auth_value), textOf(person.email?.address), ...Object.values(kept)];
  if (username !== '' && !others.some((other) => isSameName(other, username))) kept['username'] = username;
  return list;
}

/** True if two values are one email, or else the same text. Every adapter compares emails by it. */
export const isSame = (one: unknown, other: unknown): boolean => isSameEmail(textOf(one), textOf(other));

const isSameName = (one: unknown, other: string) =>
  isSame(one, other) || textOf(one).toLowerCase() === other.toLowerCase();

/** Keeps the first one. */
function keepUnverified(
  what: 'email' | 'phone',
  value: string,
  kept: Record<string, unknown>,
  { note, drop }: LineOptions,
): void {
  const name = `unverified_${what}`;
  if (kept[name] === undefined) note(`unverified ${what}s, kept as metadata`);
  else if (!isSame(kept[name], value)) drop(`further unverified ${what}s`);
  kept[name] ??= value;
}

/** The email of a person who does not log in by it is that of the primary identity. */
function keepEmail(
  { email }: Person,
  identities: readonly LineIdentity[],
  kept: Record<string, unknown>,
  options: LineOptions,
): void {
  const address = textOf(email?.address);
  const [primary] = identities;
  const emails = identities.map((login) => (login.auth_method === 'email' ? login.auth_value : login.email));
  if (address === '' || emails.some((other) => isSame(other, address))) return;
  if (email?.verified === false) keepUnverified('email', address, kept, options);
  else if (primary === undefined || primary.auth_method === 'email' || primary.email !== undefined) {
    options.note('further emails, kept as metadata');
    kept['email'] = address;
  } else Object.assign(primary, { email: address, ...(email?.verified != null && { email_verified: email.verified }) });
}

/** The value of a login as an identity has it; null, which is noted, where it can be none. */
function authValueOf(method: string, value: string, drop: LineOptions['drop']): string | null {
  if (method === 'wallet') {
    const address = addressIn(value);
    if (address === null) drop('wallets of networks that are not known here');
    return address;
  }
  // Browsers write the IDs of passkeys as base64url.
  if (method === 'passkey')
    return value
      .replaceAll('+', '-')
      .replaceAll('/', '_')
      .replace(/(?<!=)=+$/, '');
  if (method !== 'phone') return value;
  const number = value.replace(/^(\+\d+)\s*\(0\)/, '$1').replace(/[\s().-]/g, '');
  if (PHONE_NUMBER.test(number)) return number;
  drop('phone numbers without a country');
  return null;
}

/** The address in a text such as `eip155:1:0x…`; null where there is none of a network that is known. */
function addressIn(text: string): string | null {
  const [address] = /0x[0-9a-fA-F]{40}$|G[A-Z2-7]{55}$/.exec(text) ?? [];
  return address === undefined || 'reason' in parseAddress(address) ? null : address;
}

function accountsOf({ accounts = [] }: Person, identities: readonly LineIdentity[], drop: LineOptions['drop']) {
  const known = new Map<string, { network: string; public_key: string }>();
  const logins = new Set(identities.map(({ auth_value }) => auth_value.toLowerCase()));
  for (const text of accounts.map(textOf)) {
    if (text === '') continue;
    const address = parseAddress(addressIn(text) ?? text);
    if ('reason' in address) drop('wallets of networks that are not known here');
    else if (!logins.has(address.publicKey.toLowerCase()))
      known.set(address.key, { network: address.network, public_key: address.publicKey });
  }
  return [...known.values()];
}

function metadataOf({ metadata = {}, isGuest }: Person, kept: Record<string, unknown>, drop: LineOptions['drop']) {
  const own = { ...kept, ...(isGuest && { guest: true }) };
  const all = Object.fromEntries(Object.entries({ ...metadata, ...own }).filter(([, value]) => !isEmpty(value)));
  if (Object.keys(all).length === 0) return null;
  if (!isTooLong('metadata', JSON.stringify(all))) return all;
  drop(`metadata of more than ${INPUT_LIMITS.metadata.max} bytes`);
  return Object.keys(own).length > 0 ? own : null;
}

function bansOf({ blocked }: Person, { auth_method, auth_value }: LineIdentity, options: LineOptions) {
  const { title, readDate, note, drop } = options;
  if (isEmpty(blocked) || blocked === false) return [];
  const until = blocked === true ? null : readDate('expires_at', UNTIL, blocked);
  if (blocked !== true && until === null) return [];
  if (until !== null && Date.parse(until) <= Date.now()) {
    drop('bans that have ended');
    return [];
  }
  note('blocked people, who are banned');
  const terms = { reason: `Blocked in ${title}`, ...(until !== null && { expires_at: until }) };
  return [{ ban: { auth_method, auth_value, ...terms, of_user: true } }];
}

/** The ID of a record. BAD_USER_INPUT where it has none. */
export function idOf(record: SourceRecord, fields: readonly string[]): string {
  const id = idIn(record, fields);
  if (id !== null) return id;
  throw new AppError('BAD_USER_INPUT', `The record has no ${fields.join(' or ')}.`);
}

/** The first of the fields of a record that is an ID; null where none is. */
export const idIn = (record: SourceRecord, fields: readonly string[]): string | null =>
  fields.map((field) => textOf(record[field])).find((id) => id !== '') ?? null;

/** The rows that one person may have in a table or in a second file. */
export const MAX_ROWS = 100;
export const tooManyRows = () => new AppError('BAD_USER_INPUT', `A person has more than ${MAX_ROWS} rows.`);

/** A noun for `notKept`, as often as it counts. */
export function repeated(what: string, count: number | boolean): string[] {
  return new Array<string>(Number(count)).fill(what);
}
