import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { graphql, type Document as Operation, type ResultOf, sentOf } from '#dist/dashboard/documents.js';
import type { ServicePermission } from '#dist/domain/operators.js';
import type { Permission } from '#dist/domain/projects.js';

/** Operations: how they are sent, how a screen asks them, and who asks. */

export { api, graphql, inProject, type ResultOf, type VariablesOf } from '#dist/dashboard/documents.js';

export const ME = graphql(`query Me { me { name role sessionId expiresAt idleMinutes version can } }`);

/** The operator who is signed in; null: not signed in; undefined: not known yet. */
export const me = signal<ResultOf<typeof ME>['me'] | null | undefined>(undefined);

/** True if the session ended while the page was in use, and not by Sign out. */
export const hasEnded = signal(false);

/** True if the operator may do this (domain/operators.ts). Other acts are not offered, and the service refuses them in any case. */
export const may = (permission: Permission | ServicePermission): boolean => me.value?.can.includes(permission) ?? false;

/** Why a request was refused or failed, in words for a reader. */
export class Failure extends Error {
  constructor(
    message: string,
    /** As in `extensions.code`; UNREACHABLE where there was no answer. */
    readonly code: string,
    /** As in `extensions.argument`: what it is about, such as `input.email`; null where that is not known. */
    readonly argument: string | null = null,
  ) {
    super(message);
  }
}

export const asFailure = (error: unknown): Failure =>
  error instanceof Failure ? error : new Failure(String(error), 'INTERNAL_SERVER_ERROR');

interface Answer<Result> {
  readonly data?: Result | null;
  readonly errors?: readonly { message: string; extensions?: { code?: string; argument?: string } }[];
}

/** Marks a request of the page by itself: it is no use of the session, which an open page must not keep from becoming idle. */
const BY_PAGE = { 'userdir-by-page': '1' };

/** What a request has beside what it asks. */
export type Init = Pick<RequestInit, 'signal' | 'headers'>;

/** Sends an operation. Throws a Failure. If the session has ended, the page shows the sign-in from then on. */
export async function send<Result, Variables>(
  operation: Operation<Result, Variables>,
  variables: Variables,
  init: Init = {},
): Promise<Result> {
  const response = await post('/dashboard/graphql', sentOf(operation, variables), init);
  const { data, errors } = (await response.json().catch(() => ({}))) as Answer<Result>;
  const error = errors?.[0];
  if (response.status === 401 || error?.extensions?.code === 'UNAUTHENTICATED') {
    if (me.value) hasEnded.value = true;
    me.value = null;
    throw new Failure('Your session has ended. Sign in again.', 'UNAUTHENTICATED');
  }
  if (error) throw new Failure(error.message, error.extensions?.code ?? '', error.extensions?.argument);
  if (!data) throw new Failure(`The service answered with status ${response.status}.`, 'INTERNAL_SERVER_ERROR');
  return data;
}

/** Sends JSON to this service. Throws a Failure if there is no answer. */
export async function post(path: string, body: object, init: Init = {}) {
  const headers = { 'content-type': 'application/json', ...init.headers };
  try {
    return await fetch(path, { ...init, method: 'POST', headers, body: JSON.stringify(body) });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Failure('The service does not answer. Check that it runs, and that you are online.', 'UNREACHABLE');
  }
}

/** Why the service has refused a request that is no operation. */
export async function failureOf(response: Response): Promise<Failure> {
  const { error } = (await response.json().catch(() => ({}))) as { error?: { code?: string; message?: string } };
  const message = error?.message ?? `The service answered with status ${response.status}.`;
  return new Failure(message, error?.code ?? 'UNAUTHENTICATED');
}

/** Answers by what was asked, so that the back button shows a screen at once and at its old place. */
const answers = new Map<string, unknown>();
const MOST_ANSWERS = 60;

/** Counts the changes that this page has made; every query that is shown is then asked again. */
const changes = signal(0);

/** Counts what the service has told of: the queries that follow it are then asked again. */
const news = signal(0);
/** Counts how often the service has refused to be followed: everything is then asked again, and says why. */
const refusals = signal(0);

export function refresh(): void {
  answers.clear();
  changes.value++;
}

export interface Query<Result> {
  /** The newest answer; while another page of the same list loads, still the old one. */
  readonly data: Result | undefined;
  readonly failure: Failure | undefined;
  readonly loading: boolean;
}

/** What a screen asks: one operation, or several that make one answer. */
interface Question<Result> {
  /** Tells it from others. */
  readonly key: string;
  readonly ask: (init: Init) => Promise<Result>;
}

/** The answer to an operation, asked again whenever its variables change, and with `follows` when there are news. Null variables ask nothing. */
export function useQuery<Result, Variables>(
  operation: Operation<Result, Variables>,
  variables: Variables | null,
  options?: { readonly follows?: boolean },
): Query<Result> {
  const question = variables && {
    key: `${operation as unknown as string}${JSON.stringify(variables)}`,
    ask: (init: Init) => send(operation, variables, init),
  };
  return useAnswer(question, options);
}

/** As `useQuery`, the answer to a question. */
export function useAnswer<Result>(question: Question<Result> | null, { follows = false } = {}): Query<Result> {
  const key = question?.key ?? '';
  const [settled, setSettled] = useState<{ key: string; failure?: Failure }>({ key: '' });
  const shown = useRef<Result | undefined>(undefined);
  const asked = `${changes.value} ${key}`;
  const lastAsked = useRef<string | undefined>(undefined);
  const told = refusals.value + (follows ? news.value : 0);
  useEffect(() => {
    const isByPage = lastAsked.current === asked;
    lastAsked.current = asked;
    if (question === null) return;
    const controller = new AbortController();
    setSettled({ key: '' });
    question
      .ask({ signal: controller.signal, ...(isByPage && { headers: BY_PAGE }) })
      .then((answer) => {
        remember(key, answer);
        setSettled({ key });
      })
      .catch((error) => {
        if (!controller.signal.aborted) setSettled({ key, failure: asFailure(error) });
      });
    return () => controller.abort();
  }, [asked, told]);

  if (question === null) return { data: undefined, failure: undefined, loading: false };
  shown.current = (answers.get(key) as Result | undefined) ?? shown.current;
  return { data: shown.current, failure: settled.failure, loading: settled.key !== key };
}

function remember(key: string, answer: unknown): void {
  answers.delete(key);
  answers.set(key, answer);
  const [oldest] = answers.keys();
  if (answers.size > MOST_ANSWERS && oldest !== undefined) answers.delete(oldest);
}

/** News make a page ask again at most so often. */
const NEWS_MS = 5_000;
/** So long after it was refused, a page asks to follow again. */
const REOPEN_MS = 30_000;

/** Repeats queries at each news of the service while someone looks. A page in the background holds no connection. A null path follows nothing. */
export function useNews(path: string | null): void {
  useEffect(() => {
    if (path === null) return;
    let source: EventSource | undefined;
    let reopening: ReturnType<typeof setTimeout> | undefined;
    let telling: ReturnType<typeof setTimeout> | undefined;
    let nextAt = 0;
    let isRefused = false;
    const ask = () => {
      telling = undefined;
      nextAt = performance.now() + NEWS_MS;
      (isRefused ? refusals : news).value++;
      isRefused = false;
    };
    const tell = () => {
      telling ??= setTimeout(ask, Math.max(0, nextAt - performance.now()));
    };
    const open = () => {
      clearTimeout(reopening);
      source?.close();
      if (document.hidden) return;
      source = new EventSource(path);
      // The first message comes when it is open, for what was missed before.
      source.onmessage = tell;
      source.onerror = () => {
        // It connects again by itself, unless it was refused.
        if (source?.readyState !== EventSource.CLOSED) return;
        isRefused = true;
        tell();
        reopening = setTimeout(open, REOPEN_MS);
      };
    };
    open();
    document.addEventListener('visibilitychange', open);
    return () => {
      clearTimeout(reopening);
      clearTimeout(telling);
      source?.close();
      document.removeEventListener('visibilitychange', open);
    };
  }, [path]);
}

/** A change by the operator, after which shown queries are repeated. `run` gives undefined if it failed. */
export function useAction<Arguments extends unknown[], Result>(work: (...args: Arguments) => Promise<Result>) {
  const [state, setState] = useState<{ busy: boolean; failure?: Failure }>({ busy: false });
  const run = async (...args: Arguments): Promise<Result | undefined> => {
    setState({ busy: true });
    try {
      const result = await work(...args);
      setState({ busy: false });
      refresh();
      return result;
    } catch (error) {
      setState({ busy: false, failure: asFailure(error) });
      return undefined;
    }
  };
  return { busy: state.busy, failure: state.failure, run };
}
