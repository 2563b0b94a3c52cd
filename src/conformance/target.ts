import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Credentials } from '../domain/projects.js';
import { LIST, SUCCESS, USER, type User } from './shapes.js';

/** A server that is held to the contract, and the words in which it is found wrong. */

export interface TargetOptions extends Credentials {
  /** The base address, to which the paths of the contract are appended. */
  readonly url: string;
  /** A second project on the same server, by which the separation of projects is seen. */
  readonly other: Credentials | null;
  /** Whether it may be asked to delete, and the one user who may be deleted. */
  readonly write: boolean;
  readonly deleteUser: number | null;
  /** When to stop. */
  readonly signal: AbortSignal;
}

export interface Answer {
  /** As a person would write the request down: without credentials. */
  readonly request: string;
  readonly status: number;
  readonly contentType: string;
  readonly text: string;
  /** Undefined where it is no JSON. */
  readonly body: unknown;
}

export interface Question {
  readonly path: string;
  readonly method?: string;
  readonly body?: unknown;
  /** Instead of the headers with the right credentials. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Target {
  readonly options: TargetOptions;
  ask(question: Question | string): Promise<Answer>;
  /** Users to ask about: those of the last time, unless there are other ones by now. */
  sample(options?: { again: boolean }): Promise<Sample>;
}

export interface Sample {
  /** The newest users in the order of the list, as they came. */
  readonly newest: readonly Record<string, unknown>[];
  /** Whether these are all. */
  readonly isWhole: boolean;
  readonly total: number;
  /** Those and some of every login method, as far as they have the form of users. */
  readonly users: readonly User[];
}

/** The server does not do what the contract says. */
export class Mismatch extends Error {
  readonly request: string;
  readonly expected: string;
  readonly arrived: string;

  constructor(asked: Pick<Answer, 'request'>, expected: string, arrived: string) {
    super(`expected ${oneLine(expected)}, got ${oneLine(arrived)}`);
    this.request = oneLine(asked.request);
    this.expected = oneLine(expected);
    this.arrived = oneLine(arrived);
  }
}

/** What another server says may not steer the operator's terminal. */
const oneLine = (text: string) => text.replace(/\p{Cc}+/gu, ' ');

/** It cannot be seen whether it does. */
export class Unobservable extends Error {}

const ANSWER_TIMEOUT_MS = 10_000;
const SHOWN_LENGTH = 300;
const PAGES = 3;
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
      const patience = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
      try {
        const response = await fetch(base + path, {
          method,
          headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
          ...(body !== undefined && { body: JSON.stringify(body) }),
          // Credentials are for this server only.
          redirect: 'manual',
          signal: AbortSignal.any([patience, options.signal]),
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
        if (patience.aborted)
          throw new Mismatch({ request }, `an answer within ${ANSWER_TIMEOUT_MS / 1_000} s`, 'none');
        // Why is in the cause, and of several addresses in its code only.
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

/** The newest users of a filter, on as many pages as a sample has. */
export async function listAll(target: Target, filter: string) {
  const newest: Record<string, unknown>[] = [];
  for (let page = 1; ; page += 1) {
    const { users, total_user: total } = await listOf(target, `${filter}&limit=${PAGE_SIZE}&page=${page}`);
    newest.push(...users);
    if (users.length < PAGE_SIZE || page === PAGES) return { newest, total };
  }
}

export async function listOf(target: Target, query: string) {
  return requireResult(await target.ask(`/server/users?${query}`), LIST, 'page, limit, total_user and users');
}

/** Throws Mismatch unless `condition`. */
export function requireThat(
  condition: boolean,
  answer: Pick<Answer, 'request'>,
  expected: string,
  arrived: unknown,
): void {
  if (!condition) throw new Mismatch(answer, expected, typeof arrived === 'string' ? arrived : show(arrived));
}

export function requireStatus(answer: Answer, status: number): void {
  requireThat(answer.status === status, answer, String(status), shown(answer));
}

/** An error in its one form. */
export function requireError(answer: Answer, status: number): void {
  const isError = z.object({ error: z.string() }).safeParse(answer.body).success;
  requireThat(answer.status === status && isError, answer, `${status} with {"error": a string}`, shown(answer));
}

/** The result of a success, which has the form of `schema`. */
export function requireResult<Schema extends z.ZodType>(
  answer: Answer,
  schema: Schema,
  form: string,
): z.output<Schema> {
  const envelope = SUCCESS.safeParse(answer.body).data;
  const parsed = schema.safeParse(envelope?.result);
  const expected = `200 with a message and a result of ${form}`;
  if (answer.status !== 200 || envelope === undefined || !parsed.success)
    throw new Mismatch(answer, expected, shown(answer));
  return parsed.data;
}

/** Throws Unobservable unless the operator lets DELETE be sent. */
export function requireWrite({ options }: Target): void {
  if (!options.write) throw new Unobservable('it is a DELETE, which needs --write');
}

/** The second project; throws Unobservable where none is given. */
export function requireOther({ options }: Target): Credentials {
  if (options.other === null) throw new Unobservable('it takes a second project: --other-app-id');
  return options.other;
}

/** An answer as one line of a report. */
export function shown({ status, text }: Answer): string {
  return `${status} ${cut(text)}`.trim();
}

function cut(text: string): string {
  return text.length <= SHOWN_LENGTH ? text : `${text.slice(0, SHOWN_LENGTH)}…`;
}

function show(value: unknown): string {
  return cut(JSON.stringify(value) ?? String(value));
}

const STEADY_TRIES = 3;

/** Looks again where users came or went meanwhile, so that what is found is the server's fault and not theirs. */
export async function steadily(target: Target, look: () => Promise<void>): Promise<void> {
  for (let tries = 0; tries < STEADY_TRIES; tries += 1) {
    const before = await listOf(target, 'limit=1');
    if ((await target.sample()).total !== before.total_user) await target.sample({ again: true });
    const found = await look().then(
      () => null,
      (error: unknown) => error,
    );
    const after = await listOf(target, 'limit=1');
    if (before.total_user !== after.total_user || before.users[0]?.['id'] !== after.users[0]?.['id']) continue;
    if (found !== null) throw found;
    return;
  }
  throw new Unobservable('users come and go while they are looked at');
}

/** One sentence of the contract, and how to see whether it holds. */
export interface Check {
  /** Never changes, so that reports can be compared. */
  readonly id: string;
  readonly sentence: string;
  /** Throws Mismatch or Unobservable. */
  readonly run: (target: Target) => Promise<void>;
}
