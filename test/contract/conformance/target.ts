import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, Mismatch, requireResult } from './answers.js';
import { LIST, USER, type User } from './shapes.js';

export interface Credentials {
  readonly appId: string;
  readonly appSecret: string;
}

/** The server under test: what a check may send to it, and how the check finds users to ask for. */

export interface TargetOptions extends Credentials {
  /** The base URL, to which the paths of the contract are appended. */
  readonly url: string;
  /** A second project on the same server, for checks of the separation of projects. */
  readonly other: Credentials | null;
  /** Whether checks may send DELETE with valid credentials. */
  readonly write: boolean;
  /** The only user that may be deleted. */
  readonly deleteUser: number | null;
  /** Stops the run. */
  readonly signal: AbortSignal;
}

export interface Question {
  readonly path: string;
  readonly method?: string;
  readonly body?: unknown;
  /** Replace the headers with the valid credentials. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Target {
  readonly options: TargetOptions;
  ask(question: Question | string): Promise<Answer>;
  /** Users to ask for; cached until `again` is true. */
  sample(options?: { again: boolean }): Promise<Sample>;
}

export interface Sample {
  /** The newest users in the order of the list, not validated. */
  readonly newest: readonly Record<string, unknown>[];
  /** Whether `newest` contains all users. */
  readonly isWhole: boolean;
  readonly total: number;
  /** The newest users and some of each login method; only those that have the form of a user. */
  readonly users: readonly User[];
}

/** The check needs an option or users that are missing. It is reported as skipped. */
export class NotObservable extends Error {}

const ANSWER_TIMEOUT_MS = 10_000;
const SAMPLE_PAGES = 3;
const PAGE_SIZE = 100;
export const LOGIN_METHODS = ['wallet', 'socials', 'passkey', 'email'] as const;

export const headersOf = ({ appId, appSecret }: Credentials) => ({
  'service-app-id': appId,
  'service-app-secret': appSecret,
});

export const basicOf = ({ appId, appSecret }: Credentials) => ({
  authorization: `Basic ${Buffer.from(`${appId}:${appSecret}`).toString('base64')}`,
});

export function createTarget(options: TargetOptions): Target {
  const base = options.url.replace(/\/+$/, '');
  let sampled: Promise<Sample> | undefined;

  async function exchange({ path, method = 'GET', body, headers = headersOf(options) }: Question): Promise<Answer> {
    const request = `${method} ${path}${body === undefined ? '' : ` ${JSON.stringify(body)}`}`;
    for (;;) {
      const timeout = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
      try {
        const response = await fetch(base + path, {
          method,
          headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
          ...(body !== undefined && { body: JSON.stringify(body) }),
          // A redirect would send the credentials to another server.
          redirect: 'manual',
          signal: AbortSignal.any([timeout, options.signal]),
        });
        const text = await response.text();
        const waitS = Number(response.headers.get('retry-after') ?? Number.NaN);
        if ([429, 503].includes(response.status) && waitS >= 0) {
          await sleep(waitS * 1_000, undefined, { signal: options.signal });
          continue;
        }
        const contentType = response.headers.get('content-type') ?? '';
        return { request, status: response.status, contentType, text, body: parseJson(text) };
      } catch (error) {
        options.signal.throwIfAborted();
        if (timeout.aborted) throw new Mismatch({ request }, `an answer within ${ANSWER_TIMEOUT_MS / 1_000} s`, 'none');
        // fetch puts the reason into the cause. If the host has several addresses, only the code says it.
        const { message, code } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
        throw new Mismatch({ request }, 'an answer', message || (code ?? 'none'));
      }
    }
  }

  const target: Target = {
    options,
    ask: (question) => exchange(typeof question === 'string' ? { path: question } : question),
    sample({ again } = { again: false }) {
      if (sampled === undefined || again) sampled = takeSample(target);
      return sampled;
    },
  };
  return target;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function takeSample(target: Target): Promise<Sample> {
  const { newest, total } = await listAll(target, '');
  const isWhole = newest.length === total;
  const more = isWhole
    ? []
    : await Promise.all(LOGIN_METHODS.map((method) => listOf(target, `login_method=${method}`)));
  const found = [...newest, ...more.flatMap(({ users }) => users)].flatMap((user) => USER.safeParse(user).data ?? []);
  const users = [...new Map(found.map((user) => [user.id, user])).values()];
  return { newest, isWhole, total, users };
}

/** The newest users that match a filter, and the total. */
export async function listAll(target: Target, filter: string) {
  const newest: Record<string, unknown>[] = [];
  for (let page = 1; ; page += 1) {
    const { users, total_user: total } = await listOf(target, `${filter}&limit=${PAGE_SIZE}&page=${page}`);
    newest.push(...users);
    if (users.length < PAGE_SIZE || page === SAMPLE_PAGES) return { newest, total };
  }
}

export async function listOf(target: Target, query: string) {
  return requireResult(await target.ask(`/server/users?${query}`), LIST, 'page, limit, total_user and users');
}

/** Throws NotObservable unless --write is given. */
export function requireWrite({ options }: Target): void {
  if (!options.write) throw new NotObservable('it sends DELETE, which needs --write');
}

/** Returns the second project; throws NotObservable if none is given. */
export function requireOther({ options }: Target): Credentials {
  if (options.other === null) throw new NotObservable('it needs a second project: --other-app-id');
  return options.other;
}

const MAX_TRIES = 3;

/** Repeats a check if users were added or removed during it, so that a mismatch is a fault of the server. */
export async function whileUnchanged(target: Target, check: () => Promise<void>): Promise<void> {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const before = await listOf(target, 'limit=1');
    if ((await target.sample()).total !== before.total_user) await target.sample({ again: true });
    const failure = await check().then(
      () => null,
      (error: unknown) => error,
    );
    const after = await listOf(target, 'limit=1');
    if (before.total_user !== after.total_user || before.users[0]?.['id'] !== after.users[0]?.['id']) continue;
    if (failure !== null) throw failure;
    return;
  }
  throw new NotObservable('users were added or removed during each try');
}

/** A sentence of the contract, and a function that checks it. */
export interface Check {
  /** Never changes, so that reports of different versions can be compared. */
  readonly id: string;
  readonly sentence: string;
  /** Throws Mismatch or NotObservable. */
  readonly run: (target: Target) => Promise<void>;
}
