import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { asFailure, type Failure, type Operation, send } from './graphql.js';

/** Answers by operation and variables, so that the back button shows a screen at once and at its old place. */
const answers = new Map<string, unknown>();
const MOST_ANSWERS = 60;

/** Counts the changes that this page has made; every query that is shown is then asked again. */
const changes = signal(0);

/** Asks again for everything that is shown. */
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

export interface Action<Arguments extends unknown[], Result> {
  readonly busy: boolean;
  readonly failure: Failure | undefined;
  /** Undefined if it failed; `failure` says why. */
  run(...args: Arguments): Promise<Result | undefined>;
}

/** A change that the operator asks for. What is shown is asked again after it. */
export function useAction<Arguments extends unknown[], Result>(
  work: (...args: Arguments) => Promise<Result>,
): Action<Arguments, Result> {
  const [state, setState] = useState<{ busy: boolean; failure?: Failure }>({ busy: false });
  const run = async (...args: Arguments) => {
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
