import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus, xoroshiro128plusFromState } from 'pure-rand/generator/xoroshiro128plus';
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';
import { type ProfileInput, parseProfile, type UserRecord } from '../domain/identities.js';
import { snakeCase } from '../domain/spelling.js';
import type { Network } from '../domain/users.js';
import { checksumAddress, stellarAddress } from '../domain/wallets.js';
import { badInput } from '../errors.js';

/* Made-up users of every login method, both networks and both wallet types, for demonstrations and measurements. */

const FIRST_NAMES =
  'Ada Alan Amara Anders Anita Barbara Bela Carlos Chidi Clara Dagny Diego Edith Elena Emeka Farid Fatima Grace Hana Hedy Ines Ivan Jorge Kaito Katherine Lena Leo Linus Mai Margaret Mei Nadia Noor Olga Omar Priya Radia Sofia Tim Yuki'.split(
    ' ',
  );
const LAST_NAMES =
  'Abara Bauer Borg Castro Chen Costa Diaz Eriksen Fischer Garcia Haddad Hopper Ito Jansen Kaya Kowalski Lamarr Larsen Lovelace Marino Mensah Nakamura Nguyen Novak Okafor Olsen Perez Petrov Rossi Sato Schmidt Silva Singh Tanaka Turing Vargas Weber Yilmaz Zhang Zuse'.split(
    ' ',
  );
const SOCIAL_PROVIDERS = ['google', 'google', 'apple', 'github', 'discord'];
const DOMAINS = ['example.com', 'example.org', 'mail.example.net'];
/** The days of users as they are made; `until` moves them all. */
export const FIRST_DAY = Date.UTC(2024, 0, 1);
export const LAST_DAY = Date.UTC(2026, 9, 31);

/** Where a part of the users ends: how many they are, and the state of the generator after them. */
interface Place {
  readonly done: number;
  readonly state: readonly number[];
}

/** `count` users: the same ones for the same seed, and other identities for another seed. */
export const syntheticUsers = (count: number, seed: number): Generator<UserRecord> =>
  usersBetween(beginningOf(seed), count, seed);

/** The users of a seed after a place, up to `end` of them in all. Returns the place at their end. */
function* usersBetween({ done, state }: Place, end: number, seed: number): Generator<UserRecord, Place> {
  const generator = xoroshiro128plusFromState(state);
  const random = createRandom(generator);
  for (let index = done + 1; index <= end; index += 1) yield syntheticUser(random, `${seed}-${index}`);
  return { done: end, state: generator.getState() };
}

const beginningOf = (seed: number): Place => ({ done: 0, state: xoroshiro128plus(seed).getState() });

const DAY_MS = 86_400_000;

/** Users of one part: made in half a second, and written in one. */
const PART_USERS = 5_000;

/** A part of made-up users. */
export interface Part {
  /** How many of all are made at its end. */
  readonly done: number;
  /** Makes its users, once. */
  users(): Generator<UserRecord, void>;
  /** The cursor of the next part, once these users are made; null after the last. */
  next(): string | null;
}

/** The next part of `count` users, after the cursor of an earlier one; no time of theirs is after `until`. BAD_USER_INPUT. */
export function createPart(count: number, seed: number, after: string | null, until = new Date(LAST_DAY)): Part {
  const shift = until.getTime() - LAST_DAY;
  const start = after === null ? beginningOf(seed) : readCursor(after);
  const done = Math.max(start.done, Math.min(count, start.done + PART_USERS));
  let next: string | null = null;
  return {
    done,
    *users() {
      const { state } = yield* moved(usersBetween(start, done, seed), shift);
      if (done < count) next = [done, ...state].join('.');
    },
    next: () => next,
  };
}

/** The users, with their times moved by some milliseconds. Returns what the generator returns. */
function* moved(users: Generator<UserRecord, Place>, shift: number): Generator<UserRecord, Place> {
  const move = (at: Date | null) => at && new Date(at.getTime() + shift);
  for (let next = users.next(); ; next = users.next()) {
    if (next.done) return next.value;
    const { createdAt, lastLogin, ...user } = next.value;
    yield { ...user, createdAt: move(createdAt), lastLogin: move(lastLogin) };
  }
}

const EARLIEST_UNTIL = Date.UTC(2000, 0, 1);

/** The day that made-up users end at, given as text; without one, today. BAD_USER_INPUT. */
export function readUntil(text: string | null): Date {
  if (text === null) return new Date(Math.floor(Date.now() / DAY_MS) * DAY_MS);
  const at = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : Number.NaN;
  if (at >= EARLIEST_UNTIL && at <= Date.now() && new Date(at).toISOString().startsWith(text)) return new Date(at);
  throw badInput('until', text.slice(0, 64), 'a day from 2000-01-01 to today, as YYYY-MM-DD');
}

const CURSOR = /^\d{1,9}(\.-?\d{1,10}){4}$/;

function readCursor(text: string): Place {
  if (!CURSOR.test(text)) throw badInput('after', text.slice(0, 64), 'a cursor of an earlier answer');
  const [done = 0, ...state] = text.split('.').map(Number);
  return { done, state };
}

/** What is random in a user: the same values for the same state of the generator. */
interface Random {
  /** A whole number, both ends included. */
  int(from: number, to: number): number;
  /** True in so many of a hundred cases. */
  chance(percent: number): boolean;
  pick<Item>(items: readonly Item[]): Item;
  bytes(size: number): Buffer;
  /** A whole number from `from` to before `to`, which may be further apart than those of `int`: an instant. */
  between(from: number, to: number): number;
}

function createRandom(generator: RandomGenerator): Random {
  const int = (from: number, to: number) => uniformInt(generator, from, to);
  return {
    int,
    chance: (percent) => int(1, 100) <= percent,
    pick: <Item>(items: readonly Item[]) => items[int(0, items.length - 1)] as Item,
    bytes: (size) => Buffer.from(Array.from({ length: size }, () => int(0, 255))),
    between: (from, to) => from + Math.floor((int(0, 1_000_000) / 1_000_000) * (to - from)),
  };
}

function syntheticUser(random: Random, tag: string): UserRecord {
  const name = `${random.pick(FIRST_NAMES)}.${random.pick(LAST_NAMES)}`;
  // People write their own address in different cases.
  const email = `${random.chance(20) ? name : name.toLowerCase()}.${tag}@${random.pick(DOMAINS)}`;
  const createdAt = random.between(FIRST_DAY, LAST_DAY);
  const hasLoggedIn = random.chance(95);
  return {
    ...parseProfile(syntheticProfile(random, tag, name, email), snakeCase),
    createdAt: new Date(createdAt),
    lastLogin: hasLoggedIn ? new Date(random.between(createdAt, LAST_DAY)) : null,
    loginCount: hasLoggedIn ? random.int(1, 200) : 0,
  };
}

function syntheticProfile(random: Random, tag: string, name: string, email: string): ProfileInput {
  const custodial = () => [account(random, 'stellar'), ...(random.chance(40) ? [account(random, 'ethereum')] : [])];
  const kind = random.int(1, 100);
  if (kind <= 45) return { authMethod: 'email', authValue: email, accounts: custodial() };
  if (kind <= 57)
    return { authMethod: 'passkey', authValue: random.bytes(16).toString('base64url'), accounts: custodial() };
  if (kind <= 75) {
    const { publicKey } = account(random, random.chance(60) ? 'stellar' : 'ethereum');
    return { authMethod: 'wallet', authValue: publicKey };
  }
  const authMethod = random.pick(SOCIAL_PROVIDERS);
  return authMethod === 'discord'
    ? { authMethod, authValue: `${name.toLowerCase()}#${tag}`, accounts: custodial() }
    : { authMethod, authValue: `${authMethod}|${tag}`, email, accounts: custodial() };
}

function account(random: Random, network: Network) {
  const publicKey =
    network === 'stellar' ? stellarAddress(random.bytes(32)) : checksumAddress(`0x${random.bytes(20).toString('hex')}`);
  return { network, publicKey };
}
