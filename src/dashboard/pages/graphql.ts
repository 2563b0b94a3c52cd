import { signal } from '@preact/signals';
import type { initGraphQLTada, ResultOf, TadaDocumentNode } from 'gql.tada';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { introspection } from './generated/introspection.js';

/** Operations: how they are sent, how a screen asks them, and who asks. */

type Tada = initGraphQLTada<{
  introspection: introspection;
  disableMasking: true;
  scalars: { DateTime: string; Date: string; ID: string };
}>;

/** An operation of the operator schema, with the types of its variables and its answer. At run time it is its text. */
export const graphql = ((source: string, fragments: readonly string[] = []) =>
  [source, ...fragments].join('\n')) as unknown as Tada;

export type { ResultOf, VariablesOf } from 'gql.tada';

type Operation<Result, Variables> = TadaDocumentNode<Result, Variables>;

export const ME = graphql(`query Me { me { name role sessionId expiresAt idleMinutes version can } }`);

/** The operator who is signed in; null: not signed in; undefined: not known yet. */
export const me = signal<ResultOf<typeof ME>['me'] | null | undefined>(undefined);

/** Whether the session ended while the page was in use, and not by Log out. */
export const hasEnded = signal(false);

/** Whether the operator may do this (domain/operators.ts). What they may not do is not offered; the service refuses it in any case. */
export const may = (permission: 'remove' | 'restore' | 'ban' | 'edit' | 'operate'): boolean =>
  me.value?.can.includes(permission) ?? false;

/** Why a request was refused or failed, in words for a reader. */
export class Failure extends Error {
  constructor(
    message: string,
    /** As in `extensions.code`; UNREACHABLE where there was no answer. */
    readonly code: string,
  ) {
    super(message);
  }
}

export const asFailure = (error: unknown): Failure =>
  error instanceof Failure ? error : new Failure(String(error), 'INTERNAL_SERVER_ERROR');

interface Answer<Result> {
  readonly data?: Result | null;
  readonly errors?: readonly { message: string; extensions?: { code?: string } }[];
}

/** Sends an operation. Throws a Failure. Where the session has ended, the page shows the sign-in from then on. */
export async function send<Result, Variables>(
  operation: Operation<Result, Variables>,
  variables: Variables,
  signal?: AbortSignal,
): Promise<Result> {
  const response = await post('/dashboard/graphql', { query: operation, variables }, signal);
  const { data, errors } = (await response.json().catch(() => ({}))) as Answer<Result>;
  const error = errors?.[0];
  if (response.status === 401 || error?.extensions?.code === 'UNAUTHENTICATED') {
    if (me.value) hasEnded.value = true;
    me.value = null;
    throw new Failure('Your session has ended. Sign in again.', 'UNAUTHENTICATED');
  }
  if (error) throw new Failure(error.message, error.extensions?.code ?? '');
  if (!data) throw new Failure(`The service answered with status ${response.status}.`, 'INTERNAL_SERVER_ERROR');
  return data;
}

/** Sends JSON to this service. Throws a Failure if there is no answer. */
export async function post(path: string, body: object, signal: AbortSignal | null = null) {
  const headers = { 'content-type': 'application/json' };
  try {
    return await fetch(path, { method: 'POST', headers, body: JSON.stringify(body), signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure('The service does not answer. Check that it runs, and that you are online.', 'UNREACHABLE');
  }
}

/** Answers by operation and variables, so that the back button shows a screen at once and at its old place. */
const answers = new Map<string, unknown>();
const MOST_ANSWERS = 60;

/** Counts the changes that this page has made; every query that is shown is then asked again. */
const changes = signal(0);

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

/** The answer to an operation, asked again whenever its variables change. Null variables ask nothing. */
export function useQuery<Result, Variables>(
  operation: Operation<Result, Variables>,
  variables: Variables | null,
): Query<Result> {
  const key = variables === null ? '' : `${operation as unknown as string}${JSON.stringify(variables)}`;
  const [settled, setSettled] = useState<{ key: string; failure?: Failure }>({ key: '' });
  const shown = useRef<Result | undefined>(undefined);
  const round = changes.value;
  useEffect(() => {
    if (variables === null) return;
    const controller = new AbortController();
    setSettled({ key: '' });
    send(operation, variables, controller.signal)
      .then((answer) => {
        remember(key, answer);
        setSettled({ key });
      })
      .catch((error) => {
        if (!controller.signal.aborted) setSettled({ key, failure: asFailure(error) });
      });
    return () => controller.abort();
  }, [key, round]);

  if (variables === null) return { data: undefined, failure: undefined, loading: false };
  shown.current = (answers.get(key) as Result | undefined) ?? shown.current;
  return { data: shown.current, failure: settled.failure, loading: settled.key !== key };
}

function remember(key: string, answer: unknown): void {
  answers.delete(key);
  answers.set(key, answer);
  const [oldest] = answers.keys();
  if (answers.size > MOST_ANSWERS && oldest !== undefined) answers.delete(oldest);
}

const REOPEN_MS = 5_000;
/** An operator who has done nothing for so long is away: what is asked then would keep the session from becoming idle. */
const AWAY_MS = 10 * 60_000;

/** Asks again whenever the service tells that something is new, as long as someone looks. A page in the background holds no connection. */
export function useNews(path: string): void {
  useEffect(() => {
    let source: EventSource | undefined;
    let reopening: ReturnType<typeof setTimeout> | undefined;
    let lastUse = Date.now();
    const use = () => {
      lastUse = Date.now();
    };
    const open = () => {
      clearTimeout(reopening);
      source?.close();
      if (document.hidden) return;
      source = new EventSource(path);
      source.onmessage = () => {
        if (Date.now() - lastUse < AWAY_MS) refresh();
      };
      source.onerror = () => {
        if (source?.readyState === EventSource.CLOSED && me.value) reopening = setTimeout(open, REOPEN_MS);
      };
    };
    const show = () => {
      open();
      if (!document.hidden) refresh();
    };
    open();
    document.addEventListener('visibilitychange', show);
    for (const name of USES) addEventListener(name, use);
    return () => {
      clearTimeout(reopening);
      source?.close();
      document.removeEventListener('visibilitychange', show);
      for (const name of USES) removeEventListener(name, use);
    };
  }, [path]);
}

const USES = ['pointermove', 'keydown', 'visibilitychange'];

/** A change that the operator asks for. What is shown is asked again after it. `run` gives undefined if it failed. */
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
