import { isDeepStrictEqual } from 'node:util';

/**
 * A project in memory: its users, their identities, accounts and bans, and what each act makes of them. Written from the guides for callers and
 * docs/decisions/person.md, not from the source. A refused act throws `Refused`, and the caller drops the state that it has changed.
 */

/** An instant that the service sets: it is read from the service after the act, and then stays. */
export const NOW = 'now';

export interface IdentityName {
  readonly authMethod: string;
  readonly authValue: string;
}

export interface Identity extends IdentityName {
  email: string | null;
  emailVerified: boolean | null;
  createdAt: string;
  lastLogin: string | null;
  /** The place in the order in which identities became linked ones: of two of the same instant, it says which is older. */
  place: number;
}

export interface Account {
  readonly network: 'STELLAR' | 'ETHEREUM';
  readonly publicKey: string;
  walletType: 'CUSTODIAL' | 'EXTERNAL';
  /** The place in the order in which accounts were linked. */
  readonly place: number;
}

export interface Terms {
  reason: string | null;
  expiresAt: string | null;
}

export interface Ban extends Terms {
  createdAt: string;
}

export interface User {
  /** Null until the service has told it. */
  id: string | null;
  state: 'current' | 'removed' | 'merged';
  /** The primary one first, then the oldest. */
  identities: Identity[];
  /** The email that was said last of the person; undefined where nothing was said. */
  said: string | null | undefined;
  wallet: string | null;
  externalId: string | null;
  metadata: object | null;
  /** Oldest first. */
  accounts: Account[];
  createdAt: string;
  lastLogin: string | null;
  loginCount: number;
  /** Whether a date of the primary identity is its own. Else it is that of the user, also where that changes. */
  readonly ownDates: { createdAt: boolean; lastLogin: boolean };
  ban: Ban | null;
  mergedInto: string | null;
  /** The import that has created the user, as long as nobody has touched them since. */
  untouchedOf: number | null;
}

export interface IdentityBan extends Ban {
  readonly identity: IdentityName;
}

export interface Project {
  users: User[];
  bans: IdentityBan[];
  /** The IDs of imports; null of one that had no line, and of the last one until the service has told it. */
  imports: (string | null)[];
}

export const emptyProject = (): Project => ({ users: [], bans: [], imports: [] });

/** A refusal by its code in docs/errors.md. */
export class Refused extends Error {
  readonly code: string;
  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

const refuse = (code: string): never => {
  throw new Refused(code);
};

export const foldEmail = (email: string): string => email.trim().toLowerCase();
const isEmail = (text: string) => /^[^@\s]+@[^@\s]+$/.test(text);
/** The email that an `authValue` is. */
const emailIn = (authValue: string) => (isEmail(authValue) ? foldEmail(authValue) : null);
/** An Ethereum address is compared in lower case, a Stellar address as it is. */
export const foldAddress = (address: string): string => (address.startsWith('0x') ? address.toLowerCase() : address);
export const isSameAddress = (one: string | null, other: string): boolean =>
  one !== null && foldAddress(one) === foldAddress(other);

export const keyOf = ({ authMethod, authValue }: IdentityName): string =>
  `${authMethod} ${authMethod === 'wallet' ? foldAddress(authValue) : isEmail(authValue) ? foldEmail(authValue) : authValue}`;
export const isSame = (one: IdentityName, other: IdentityName): boolean => keyOf(one) === keyOf(other);

export const networkOf = (address: string): Account['network'] => (address.startsWith('0x') ? 'ETHEREUM' : 'STELLAR');

const METHODS: Readonly<Record<string, string>> = { email: 'EMAIL', passkey: 'PASSKEY', wallet: 'WALLET' };
export const loginMethodOf = (authMethod: string): string => METHODS[authMethod] ?? 'SOCIALS';

export const primaryOf = ({ identities }: User): Identity => identities[0] as Identity;
export const current = ({ users }: Project): User[] => users.filter(({ state }) => state === 'current');
export const has = (user: User, name: IdentityName): boolean => user.identities.some((each) => isSame(each, name));
export const findByIdentity = (project: Project, name: IdentityName): User | undefined =>
  current(project).find((user) => has(user, name));
export const findByExternalId = (project: Project, externalId: string): User | undefined =>
  current(project).find((user) => user.externalId === externalId);

function requireCurrent(project: Project, id: string | null): User {
  return current(project).find((user) => user.id === id) ?? refuse('NOT_FOUND');
}

/** `User.email`: what was said last, or else the email of the primary identity or of the oldest linked one that has one. */
export function emailOf(user: User): string | null {
  if (user.said !== undefined) return user.said;
  return user.identities.find(({ email }) => email !== null)?.email ?? null;
}

/** `User.wallet`. */
export function walletOf(user: User): string | null {
  const primary = primaryOf(user);
  return primary.authMethod === 'wallet' ? primary.authValue : user.wallet;
}

/* Bans */

const later = (one: string | null, other: string | null) =>
  one === null || other === null ? null : one > other ? one : other;

/** The one of two bans that ends last. */
const longer = <Ban extends Terms>(one: Ban, other: Ban): Ban =>
  later(one.expiresAt, other.expiresAt) === one.expiresAt ? one : other;

export const identityBan = ({ bans }: Project, name: IdentityName): IdentityBan | undefined =>
  bans.find(({ identity }) => isSame(identity, name));

/** A login by an identity is refused where its ban or that of its user holds; that of a removed user holds too. */
const isBlocked = (project: Project, name: IdentityName): boolean =>
  identityBan(project, name) !== undefined ||
  project.users.some((user) => user.state !== 'merged' && user.ban !== null && has(user, name));

/** The ban of a removed user holds for their identities, also where an import has made one another's. */
const bansOfRemoved = ({ users }: Project, name: IdentityName): Ban[] =>
  users.flatMap((user) => (user.state === 'removed' && user.ban !== null && has(user, name) ? [user.ban] : []));

export interface ShownBan extends Ban {
  isOfUser: boolean;
}

/**
 * `User.ban`: that of the user, or else of the one of their identities whose ban ends last. Of two that end at once, it is that of the identity that
 * comes first.
 */
export function banOf(project: Project, user: User): ShownBan | null {
  if (user.ban !== null) return { ...user.ban, isOfUser: true };
  const bans = user.identities.flatMap((each) =>
    [identityBan(project, each) ?? [], bansOfRemoved(project, each)].flat(),
  );
  if (bans.length === 0) return null;
  const { reason, expiresAt, createdAt } = bans.reduce(longer);
  return { reason, expiresAt, createdAt, isOfUser: false };
}

export interface ListedBan extends IdentityName, ShownBan {}

/** The list of bans: those of identities, and those of users once for each of their identities, also where they are removed. */
export function listedBans({ bans, users }: Project): ListedBan[] {
  const ofIdentities = bans.map(({ identity, ...ban }) => ({ ...identity, ...ban, isOfUser: false }));
  const ofUsers = users.flatMap(({ ban, identities, state }) =>
    ban === null || state === 'merged'
      ? []
      : identities.map(({ authMethod, authValue }) => ({ authMethod, authValue, ...ban, isOfUser: true })),
  );
  return [...ofIdentities, ...ofUsers];
}

export interface GivenTerms {
  readonly reason?: string | null | undefined;
  readonly expiresAt?: string | null | undefined;
  readonly untilLifted?: boolean | null | undefined;
}

/** Only the terms that are given change. */
function changeTerms(ban: Terms, { reason, expiresAt, untilLifted }: GivenTerms): void {
  if (untilLifted && expiresAt != null) refuse('BAD_USER_INPUT');
  if (reason != null) ban.reason = reason;
  if (expiresAt != null) ban.expiresAt = expiresAt;
  if (untilLifted) ban.expiresAt = null;
}

const newBan = (): Ban => ({ reason: null, expiresAt: null, createdAt: NOW });

/** Terms are looked at before users are, also where there is none. */
export const requireTerms = (terms: GivenTerms): void => changeTerms(newBan(), terms);

/** Who sends it: operators, by the command, see removed users too. */
export type Sender = 'operator' | 'backend';

function requireBannable(project: Project, id: string | null, sender: Sender): User {
  if (sender === 'backend') return requireCurrent(project, id);
  return project.users.find((user) => user.id !== null && user.id === id) ?? refuse('NOT_FOUND');
}

export function banUser(project: Project, id: string | null, terms: GivenTerms, sender: Sender): void {
  const ban = newBan();
  changeTerms(ban, terms);
  const user = requireBannable(project, id, sender);
  if (user.state === 'merged') refuse('CONFLICT');
  if (user.ban === null) user.ban = ban;
  else changeTerms(user.ban, terms);
  user.untouchedOf = null;
}

export function banIdentity(project: Project, identity: IdentityName, terms: GivenTerms): void {
  let ban = identityBan(project, identity);
  if (ban === undefined) {
    ban = { identity, ...newBan() };
    project.bans.push(ban);
  }
  changeTerms(ban, terms);
  touch(findByIdentity(project, identity));
}

export function unbanUser(project: Project, id: string | null, sender: Sender): void {
  const user = requireBannable(project, id, sender);
  if (user.ban === null) return;
  user.ban = null;
  touch(user);
}

export function unbanIdentity(project: Project, identity: IdentityName): void {
  if (identityBan(project, identity) === undefined) return;
  project.bans = project.bans.filter((ban) => !isSame(ban.identity, identity));
  touch(findByIdentity(project, identity));
}

/** Bans that end at `instant` have ended. The clock is turned by a change of the ban, so that its user counts as touched. */
export function endBans(project: Project, instant: string): void {
  for (const { identity, expiresAt } of [...project.bans]) if (expiresAt === instant) unbanIdentity(project, identity);
  for (const user of project.users) {
    if (user.ban?.expiresAt !== instant) continue;
    user.ban = null;
    touch(user);
  }
}

/* What an act writes of a user */

function touch(user: User | undefined): void {
  if (user !== undefined) user.untouchedOf = null;
}

/** Setting what stands there already touches nobody. Another ban of one of their identities touches a user, also where that is of a removed user. */
export function keepUntouched(before: Project, after: Project): void {
  const bansOn = (project: Project, { identities }: User) =>
    identities.map((each) => [identityBan(project, each), ...bansOfRemoved(project, each)]);
  for (const user of after.users) {
    const had = before.users.find(({ id }) => id !== null && id === user.id);
    if (had === undefined) continue;
    if (!isDeepStrictEqual(bansOn(before, had), bansOn(after, user))) touch(user);
    else if (isDeepStrictEqual({ ...had, untouchedOf: null }, { ...user, untouchedOf: null }))
      user.untouchedOf = had.untouchedOf;
  }
}

/** The number of places that were given. */
let places = 0;
function nextPlace(): number {
  places += 1;
  return places;
}

/** Order: the primary one first, then the oldest. */
function sortIdentities(user: User): void {
  const [primary, ...linked] = user.identities as [Identity, ...Identity[]];
  linked.sort((one, other) =>
    one.createdAt === other.createdAt ? one.place - other.place : one.createdAt < other.createdAt ? -1 : 1,
  );
  user.identities = [primary, ...linked];
}

/** The primary identity was not with the user from their beginning. */
const ownDates = ({ ownDates: own }: User) => Object.assign(own, { createdAt: true, lastLogin: true });

function makePrimary(user: User, name: IdentityName): void {
  const index = user.identities.findIndex((each) => isSame(each, name));
  if (index === 0) return;
  primaryOf(user).place = nextPlace();
  const [primary] = user.identities.splice(index, 1) as [Identity];
  user.identities.unshift(primary);
  ownDates(user);
  if (primary.authMethod === 'wallet') user.wallet = primary.authValue;
  sortIdentities(user);
}

const newIdentity = ({ authMethod, authValue }: IdentityName, email?: string | null): Identity => ({
  ...{ authMethod, authValue },
  email: email != null ? foldEmail(email) : emailIn(authValue),
  emailVerified: null,
  createdAt: NOW,
  lastLogin: null,
  place: nextPlace(),
});

/** What is known of an email changes only by what says something about that email. */
function sayEmail(identity: Identity, email: string | null | undefined, verified: boolean | null | undefined): void {
  if (email != null && foldEmail(email) !== identity.email) {
    identity.email = foldEmail(email);
    identity.emailVerified = null;
  }
  if (verified != null) identity.emailVerified = verified;
}

/** A wallet by which a user logs in is an external account, also where it was a custodial one. */
function addAccount(user: User, publicKey: string, walletType: Account['walletType']): void {
  const known = user.accounts.find((account) => isSameAddress(account.publicKey, publicKey));
  if (known === undefined)
    user.accounts.push({ network: networkOf(publicKey), publicKey, walletType, place: nextPlace() });
  else if (walletType === 'EXTERNAL') known.walletType = walletType;
}

/** A wallet that was given or used: an external account, and `wallet` unless the primary identity is one. */
function useWallet(user: User, address: string): void {
  addAccount(user, address, 'EXTERNAL');
  if (primaryOf(user).authMethod === 'wallet') user.wallet = primaryOf(user).authValue;
  else if (!isSameAddress(user.wallet, address)) user.wallet = address;
}

export interface NewUserInput extends IdentityName {
  readonly email?: string | null | undefined;
  readonly emailVerified?: boolean | null | undefined;
  readonly wallet?: string | null | undefined;
  readonly externalId?: string | null | undefined;
  readonly metadata?: object | null | undefined;
  readonly accounts?: readonly { network: string; publicKey: string }[] | null;
}

export interface LoginInput extends NewUserInput {
  readonly linkByExternalId?: boolean | null | undefined;
}

const newUser = (identity: Identity): User => ({
  id: null,
  state: 'current',
  identities: [identity],
  said: undefined,
  wallet: null,
  externalId: null,
  metadata: null,
  accounts: [],
  createdAt: NOW,
  lastLogin: null,
  loginCount: 0,
  ownDates: { createdAt: false, lastLogin: false },
  ban: null,
  mergedInto: null,
  untouchedOf: null,
});

/** Who logs in: the user with the identity, the one with the external ID, or a new one. */
function userOfLogin(project: Project, input: LoginInput): User {
  const found = findByIdentity(project, input);
  const owner = input.externalId == null ? undefined : findByExternalId(project, input.externalId);
  if (found !== undefined) {
    if (input.externalId != null && found.externalId !== null && found.externalId !== input.externalId)
      refuse('CONFLICT');
    if (owner !== undefined && owner !== found) refuse('CONFLICT');
    return found;
  }
  if (owner !== undefined && !input.linkByExternalId) refuse('CONFLICT');
  if (owner?.ban) refuse('BANNED');
  const identity = newIdentity(input, input.email);
  const user = owner ?? newUser(identity);
  if (owner === undefined) project.users.push(user);
  else owner.identities.push(identity);
  return user;
}

/** What is said of an email needs one: that of the input, or that of a login by email. */
function requireEmail({ authMethod, email, emailVerified }: LoginInput | LinkInput): void {
  if (emailVerified != null && email == null && authMethod !== 'email') refuse('BAD_USER_INPUT');
}

export function recordLogin(project: Project, input: LoginInput): void {
  requireEmail(input);
  if (isBlocked(project, input)) refuse('BANNED');
  const user = userOfLogin(project, input);
  const identity = user.identities.find((each) => isSame(each, input)) as Identity;
  describeUser(user, identity, input);
  identity.lastLogin = NOW;
  user.lastLogin = NOW;
  user.ownDates.lastLogin = identity !== primaryOf(user);
  user.loginCount += 1;
  touch(user);
}

/** A user who has not logged in. */
export function createUser(project: Project, input: NewUserInput): void {
  requireEmail(input);
  if (isBlocked(project, input)) refuse('BANNED');
  if (findByIdentity(project, input) !== undefined) refuse('CONFLICT');
  if (input.externalId != null && findByExternalId(project, input.externalId) !== undefined) refuse('CONFLICT');
  const identity = newIdentity(input, input.email);
  const user = newUser(identity);
  project.users.push(user);
  describeUser(user, identity, input);
}

/** What a login or a creation says of a user. */
function describeUser(user: User, identity: Identity, input: NewUserInput): void {
  sayEmail(identity, input.email, input.emailVerified);
  if (input.email != null) user.said = foldEmail(input.email);
  const wallets = [input.authMethod === 'wallet' ? input.authValue : null, input.wallet ?? null];
  for (const { publicKey } of input.accounts ?? [])
    addAccount(user, publicKey, wallets.some((wallet) => isSameAddress(wallet, publicKey)) ? 'EXTERNAL' : 'CUSTODIAL');
  if (input.authMethod === 'wallet') useWallet(user, input.authValue);
  if (input.wallet != null) useWallet(user, input.wallet);
  if (input.externalId != null) user.externalId = input.externalId;
  if (input.metadata != null) user.metadata = input.metadata;
}

export interface LinkInput extends IdentityName {
  readonly email?: string | null | undefined;
  readonly emailVerified?: boolean | null | undefined;
  readonly primary?: boolean | null | undefined;
}

export function linkIdentity(project: Project, id: string | null, input: LinkInput): void {
  requireEmail(input);
  const user = requireCurrent(project, id);
  const owner = findByIdentity(project, input);
  if (owner !== user && isBlocked(project, input)) refuse('BANNED');
  if (owner !== undefined && owner !== user) refuse('CONFLICT');
  if (owner === undefined) {
    user.identities.push(newIdentity(input, input.email));
    sortIdentities(user);
    if (input.authMethod === 'wallet') addAccount(user, input.authValue, 'EXTERNAL');
  }
  const identity = user.identities.find((each) => isSame(each, input)) as Identity;
  sayEmail(identity, input.email, input.emailVerified);
  if (input.primary) makePrimary(user, input);
  touch(user);
}

/** An identity that leaves a banned user has a ban with the same terms, unless it has one that ends later. */
function keepBan(project: Project, { authMethod, authValue }: IdentityName, ban: Ban): void {
  const identity = { authMethod, authValue };
  const own = identityBan(project, identity);
  unbanIdentity(project, identity);
  project.bans.push(own === undefined ? { identity, ...ban } : longer(own, { identity, ...ban }));
}

/** Unlinking is no way out of a ban. */
function freeIdentity(project: Project, user: User, identity: Identity): void {
  if (identity === primaryOf(user)) ownDates(user);
  user.identities = user.identities.filter((each) => each !== identity);
  // The next one may log in by a wallet, which is that of the user from then on.
  user.wallet = walletOf(user);
  if (user.ban !== null) keepBan(project, identity, user.ban);
}

function dropAccount(user: User, address: string): void {
  user.accounts = user.accounts.filter(({ publicKey }) => !isSameAddress(publicKey, address));
  if (isSameAddress(user.wallet, address)) user.wallet = null;
  if (primaryOf(user).authMethod === 'wallet') user.wallet = primaryOf(user).authValue;
}

export function unlinkIdentity(project: Project, id: string | null, name: IdentityName): void {
  const user = requireCurrent(project, id);
  const identity = user.identities.find((each) => isSame(each, name)) ?? refuse('NOT_FOUND');
  if (user.identities.length === 1) refuse('CONFLICT');
  freeIdentity(project, user, identity);
  if (identity.authMethod === 'wallet') dropAccount(user, identity.authValue);
  touch(user);
}

export function unlinkAccount(project: Project, id: string | null, address: string): void {
  const user = requireCurrent(project, id);
  if (!user.accounts.some(({ publicKey }) => isSameAddress(publicKey, address))) refuse('NOT_FOUND');
  const identity = user.identities.find((each) => isSame(each, { authMethod: 'wallet', authValue: address }));
  if (identity !== undefined && user.identities.length === 1) refuse('CONFLICT');
  if (identity !== undefined) freeIdentity(project, user, identity);
  dropAccount(user, address);
  touch(user);
}

const earlier = (one: string, other: string) => (one < other ? one : other);
const latest = (one: string | null, other: string | null) =>
  one === null ? other : other === null ? one : one > other ? one : other;

export function mergeUsers(project: Project, fromId: string | null, intoId: string | null): void {
  if (fromId === intoId) refuse('BAD_USER_INPUT');
  const from = requireCurrent(project, fromId);
  const into = requireCurrent(project, intoId);
  // Where `into` shows nothing, what was said of `from` is taken: also that there is none.
  if (into.said === undefined && emailOf(into) === null) into.said = from.said;
  primaryOf(from).place = nextPlace();
  into.identities.push(...from.identities);
  sortIdentities(into);
  for (const account of from.accounts) {
    const known = into.accounts.find(({ publicKey }) => isSameAddress(publicKey, account.publicKey));
    if (known === undefined) into.accounts.push(account);
    else if (account.walletType === 'EXTERNAL') known.walletType = account.walletType;
  }
  into.accounts.sort((one, other) => one.place - other.place);
  into.wallet = walletOf(into) ?? walletOf(from);
  into.externalId ??= from.externalId;
  into.metadata ??= from.metadata;
  into.createdAt = earlier(into.createdAt, from.createdAt);
  into.lastLogin = latest(into.lastLogin, from.lastLogin);
  into.loginCount += from.loginCount;
  ownDates(into);
  if (from.ban !== null) into.ban = into.ban === null ? from.ban : longer(into.ban, from.ban);
  from.ban = null;
  from.state = 'merged';
  from.mergedInto = into.id;
  touch(from);
  touch(into);
}

export function deleteUser(project: Project, id: string | null): void {
  const user = requireCurrent(project, id);
  user.state = 'removed';
  touch(user);
}

export function restoreUser(project: Project, id: string | null): void {
  const user = project.users.find((each) => each.id === id) ?? refuse('NOT_FOUND');
  if (user.state !== 'removed') refuse('CONFLICT');
  if (user.identities.some((each) => findByIdentity(project, each) !== undefined)) refuse('CONFLICT');
  if (user.externalId !== null && findByExternalId(project, user.externalId) !== undefined) refuse('CONFLICT');
  user.state = 'current';
  touch(user);
}

/** A ban outlives its user: where they are erased, each of their identities keeps it. */
export function purge(project: Project): void {
  for (const { state, ban, identities } of project.users)
    if (state === 'removed' && ban !== null) for (const identity of identities) keepBan(project, identity, ban);
  project.users = project.users.filter(({ state }) => state === 'current');
}

export interface UpdateInput {
  readonly email?: string | null | undefined;
  readonly externalId?: string | null | undefined;
  readonly metadata?: object | null | undefined;
  readonly metadataPatch?: object | undefined;
}

/** It is said of the person, also where it stands there already: then it outlives the identity that it came from. */
function updateEmail(project: Project, user: User, email: string | null): void {
  const primary = primaryOf(user);
  const said = email === null ? null : foldEmail(email);
  const stands = said === emailOf(user);
  if (primary.authMethod === 'email' && said !== null && !stands) updateAddress(project, user, said);
  user.said = said;
  if (stands || primary.authMethod === 'email' || primary.email === said) return;
  primary.email = said;
  primary.emailVerified = null;
}

/** The address by which the user logs in, which is their primary identity. */
function updateAddress(project: Project, user: User, said: string): void {
  const primary = primaryOf(user);
  const name = { authMethod: 'email', authValue: said };
  if (isSame(primary, name)) return;
  if (isBlocked(project, name)) refuse('BANNED');
  if (findByIdentity(project, name) !== undefined) refuse('CONFLICT');
  user.identities[0] = newIdentity(name);
  if (user.ban !== null) keepBan(project, primary, user.ban);
  ownDates(user);
}

export function updateUser(project: Project, id: string | null, input: UpdateInput): void {
  if (Object.values(input).every((value) => value === undefined)) refuse('BAD_USER_INPUT');
  const user = requireCurrent(project, id);
  const takesTheAddress = primaryOf(user).authMethod === 'email' && input.email === null && emailOf(user) !== null;
  if (takesTheAddress) refuse('BAD_USER_INPUT');
  // Of two reasons to refuse, an external ID that is taken is told before a banned email.
  if (input.externalId !== undefined) {
    const owner = input.externalId === null ? undefined : findByExternalId(project, input.externalId);
    if (owner !== undefined && owner !== user) refuse('CONFLICT');
    user.externalId = input.externalId;
  }
  if (input.email !== undefined) updateEmail(project, user, input.email);
  if (input.metadata !== undefined) user.metadata = input.metadata;
  if (input.metadataPatch !== undefined) user.metadata = patched(user.metadata, input.metadataPatch) as object;
  touch(user);
}

/** A JSON merge patch. */
function patched(value: unknown, patch: unknown): unknown {
  if (patch === null || typeof patch !== 'object') return patch;
  const before = (value !== null && typeof value === 'object' ? value : {}) as Record<string, unknown>;
  const after = Object.entries(patch).map(([key, own]) => [key, patched(before[key], own)]);
  return Object.fromEntries(
    Object.entries({ ...before, ...Object.fromEntries(after) }).filter(([, own]) => own !== null),
  );
}

/* Imports */

export interface IdentityLine {
  readonly auth_method: string;
  readonly auth_value: string;
  readonly email?: string | null | undefined;
  readonly email_verified?: boolean | null | undefined;
  readonly created_at?: string | null | undefined;
  readonly last_login?: string | null | undefined;
}

export interface UserLine extends IdentityLine {
  readonly wallet?: string | null | undefined;
  readonly external_id?: string | null | undefined;
  readonly metadata?: object | null | undefined;
  readonly login_count?: number | null | undefined;
  readonly accounts?: readonly { network: string; public_key: string }[] | null | undefined;
  readonly identities?: readonly IdentityLine[] | null | undefined;
}

export interface BanLine {
  readonly ban: {
    readonly auth_method: string;
    readonly auth_value: string;
    readonly reason?: string | null | undefined;
    readonly expires_at?: string | null | undefined;
    readonly created_at?: string | null | undefined;
    readonly of_user?: boolean | null | undefined;
  };
}

export interface Import {
  readonly lines: readonly (UserLine | BanLine)[];
  readonly onConflict: 'fail' | 'skip' | 'update';
  readonly replace: boolean;
  readonly skipInvalid: boolean;
}

const nameIn = ({ auth_method, auth_value }: IdentityLine): IdentityName => ({
  authMethod: auth_method,
  authValue: auth_value,
});

/** Null is none, but the email of who logs in by it is there. */
const saysNoEmail = ({ auth_method, email }: IdentityLine) => email === null && auth_method !== 'email';

function addIdentityOf(user: User, line: IdentityLine): void {
  const identity = newIdentity(nameIn(line), line.email);
  if (saysNoEmail(line)) identity.email = null;
  sayEmail(identity, line.email, line.email_verified);
  identity.createdAt = line.created_at ?? NOW;
  identity.lastLogin = line.last_login ?? null;
  user.identities.push(identity);
  if (identity.authMethod === 'wallet') addAccount(user, identity.authValue, 'EXTERNAL');
}

/** What a line says of a user, new or not. */
function writeLine(user: User, line: UserLine): void {
  const primary = primaryOf(user);
  if (line.email !== undefined) user.said = line.email === null ? null : foldEmail(line.email);
  if (line.email === null && primary.authMethod !== 'email')
    Object.assign(primary, { email: null, emailVerified: null });
  sayEmail(primary, line.email, line.email_verified);
  const names = [nameIn(line), ...(line.identities ?? []).map(nameIn)];
  const isExternal = (address: string) =>
    isSameAddress(line.wallet ?? null, address) ||
    names.some((name) => isSame(name, { authMethod: 'wallet', authValue: address }));
  for (const { public_key } of line.accounts ?? [])
    addAccount(user, public_key, isExternal(public_key) ? 'EXTERNAL' : 'CUSTODIAL');
  if (primary.authMethod === 'wallet') useWallet(user, primary.authValue);
  if (line.wallet != null) useWallet(user, line.wallet);
  if (line.external_id != null) user.externalId = line.external_id;
  if (line.metadata != null) user.metadata = line.metadata;
  for (const identity of line.identities ?? []) if (!has(user, nameIn(identity))) addIdentityOf(user, identity);
  sortIdentities(user);
}

/** An update takes no login back, but a replacement does. What a line says is of the user: the primary identity follows, but for dates of its own. */
function writeHistory(user: User, { created_at, last_login, login_count }: UserLine, replace: boolean): void {
  if (created_at != null) user.createdAt = replace ? created_at : earlier(user.createdAt, created_at);
  if (last_login != null) user.lastLogin = replace ? last_login : latest(user.lastLogin, last_login);
  if (login_count != null) user.loginCount = replace ? login_count : Math.max(user.loginCount, login_count);
  const primary = primaryOf(user);
  if (!user.ownDates.createdAt) primary.createdAt = user.createdAt;
  if (!user.ownDates.lastLogin) primary.lastLogin = user.lastLogin;
}

function importUser(project: Project, line: UserLine, { onConflict, replace }: Import): void {
  const found = findByIdentity(project, nameIn(line));
  if (found !== undefined && onConflict === 'fail') refuse('line');
  if (found !== undefined && onConflict === 'skip') return;
  // An update needs a line with the primary identity.
  if (found !== undefined && !isSame(primaryOf(found), nameIn(line))) refuse('line');
  const isTaken = (line.identities ?? []).some(
    (each) => ![undefined, found].includes(findByIdentity(project, nameIn(each))),
  );
  const owner = line.external_id == null ? undefined : findByExternalId(project, line.external_id);
  if (isTaken || ![undefined, found].includes(owner)) refuse('line');
  if (found === undefined) {
    const user = newUser(newIdentity(nameIn(line)));
    user.untouchedOf = project.imports.length;
    writeLine(user, line);
    writeHistory(user, line, true);
    project.users.push(user);
    return;
  }
  writeLine(found, line);
  writeHistory(found, line, replace);
  touch(found);
}

/** An import leaves a ban as it is. */
function importBan(project: Project, { ban }: BanLine): void {
  const name = nameIn(ban);
  const given: Ban = {
    reason: ban.reason ?? null,
    expiresAt: ban.expires_at ?? null,
    createdAt: ban.created_at ?? NOW,
  };
  const owner = findByIdentity(project, name);
  const user = ban.of_user ? owner : undefined;
  if (user !== undefined) user.ban ??= given;
  else if (identityBan(project, name) === undefined) project.bans.push({ identity: name, ...given });
  // The import that has created a user may ban them too.
  if (owner?.untouchedOf !== project.imports.length) touch(owner);
}

/** What is said of an email needs one. */
function requireEmails(line: UserLine): void {
  for (const one of [line, ...(line.identities ?? [])])
    if (one.email_verified != null && one.email == null && (saysNoEmail(one) || !isEmail(one.auth_value)))
      refuse('line');
}

/** A second line of a user fails: by one of the identities, or by the external ID. It says nothing, so that a line after it may be the first. */
function requireFirst(line: UserLine, seen: Set<string>): void {
  const names = [line, ...(line.identities ?? [])].map((each) => keyOf(nameIn(each)));
  if (line.external_id != null) names.push(`external ID ${line.external_id}`);
  if (names.some((name) => seen.has(name))) refuse('line');
  for (const name of names) seen.add(name);
}

/** As a whole or not at all, unless invalid lines are skipped. */
export function importLines(project: Project, given: Import): void {
  const before = structuredClone(project);
  const seen = new Set<string>();
  const isBan = (line: UserLine | BanLine) => 'ban' in line;
  // Bans are read after the users of the same part of a file, which has more lines than these.
  const lines = [...given.lines.filter((line) => !isBan(line)), ...given.lines.filter(isBan)];
  for (const line of lines) {
    try {
      if ('ban' in line) {
        importBan(project, line);
        continue;
      }
      requireEmails(line);
      requireFirst(line, seen);
      importUser(project, line, given);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (!given.skipInvalid) {
        Object.assign(project, before);
        refuse('REFUSED LINE');
      }
    }
  }
  project.imports.push(null);
}

/** Removes those whom an import has created and nobody has touched since. */
export function undoImport(project: Project, place: number): void {
  if (project.imports[place] == null) refuse('NOT_FOUND');
  for (const user of current(project)) if (user.untouchedOf === place) user.state = 'removed';
}

/** Whether a line of an export says the dates of the primary identity, which are its own then: not where the rest of the line says all of it. */
function saysPrimary(user: User): boolean {
  const primary = primaryOf(user);
  const email = user.said === undefined ? emailIn(primary.authValue) : user.said;
  const isEmailSaid = primary.authMethod === 'email' || primary.email === email;
  return (
    user.identities.length > 1 ||
    !isEmailSaid ||
    primary.createdAt !== user.createdAt ||
    primary.lastLogin !== user.lastLogin
  );
}

/** An export, imported into another project: what is there is the same, but for the IDs and for those who are not current. */
export function moveProject(project: Project): void {
  purge(project);
  project.imports = [null];
  // A file has the oldest ID first, and an import writes in the order of its lines.
  project.users.sort((one, other) => Number(one.id) - Number(other.id));
  for (const user of project.users) {
    user.accounts = user.accounts.map((account) => ({ ...account, place: nextPlace() }));
    const own = saysPrimary(user);
    Object.assign(user, {
      id: null,
      untouchedOf: 0,
      ownDates: { createdAt: own, lastLogin: own && user.lastLogin !== null },
    });
  }
}
