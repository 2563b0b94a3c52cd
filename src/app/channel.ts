import type { Worker } from 'node:cluster';
import type { AskForRequests, Remembered, RequestsQuestion } from '../domain/requests.js';
import { AppError, unavailable } from '../errors.js';
import type { DemoCredentials } from '../http/public-routes.js';
import type { Measurements } from '../telemetry/metrics.js';

/**
 * Calls between the primary process and a worker, over the channel that Node keeps between them. Arguments and results
 * are plain JSON. Each side has a set of functions that the other may call.
 */

/** What the primary process calls in a worker. */
export interface WorkerActions {
  /** Rejects while this worker cannot answer requests. */
  checkReady(): Promise<void>;
  readMetrics(): Promise<Measurements>;
  /** The requests that it remembers; null while it starts. */
  readRequests(question: RequestsQuestion): Promise<Remembered | null>;
  /** The service stops soon: connections end with their next answer, and new ones are accepted. */
  drain(): Promise<void>;
  /** Resolves when it accepts no new connections. */
  stopListening(): Promise<void>;
  /** Finishes the requests in flight and ends. */
  stop(): Promise<void>;
}

/** What a worker calls in the primary process. */
export interface PrimaryActions {
  started(started: Started): Promise<void>;
  /** Resolves when the primary process has looked for new connections once more, and has handed over those that it had. */
  turn(): Promise<void>;
  /** SIGTERM has reached the worker. */
  terminated(): Promise<void>;
  /** The database may no longer be used by this release: the service has to stop. */
  outdated(reason: string): Promise<void>;
  /** Rejects unless all workers can answer requests. */
  checkReady(): Promise<void>;
  /** The requests that each worker remembers. */
  askForRequests: AskForRequests;
  /** The last metrics of a worker that ends. */
  leaving(last: Measurements): Promise<void>;
}

/** What a process announces when it answers requests. */
export interface Started {
  readonly url: string;
  /** In demo mode a link that logs in. Null without a dashboard. */
  readonly dashboardUrl: string | null;
  /** Undefined in a worker: the primary process serves the metrics of all. */
  readonly metricsUrl: string | undefined;
  readonly demo: ReturnType<DemoCredentials>;
  /** How many projects there are. */
  readonly projects: number;
}

// biome-ignore lint/suspicious/noExplicitAny: the functions of either side have arguments of their own
export type Actions = Record<string, (...args: any[]) => Promise<unknown>>;

/**
 * Calls one function of the other side. Rejects with its message if it fails, with an AppError if callers of the service may be told it, and if it
 * does not answer in time.
 */
export type Call<Remote> = <Name extends keyof Remote & string>(
  name: Name,
  ...args: Remote[Name] extends (...args: infer Args) => unknown ? Args : never
) => Promise<Remote[Name] extends (...args: never[]) => Promise<infer Result> ? Result : never>;

/** Other libraries use the same channel, so each message says whose it is. */
const OURS = 'userdir';
/** Longer than the slowest function takes, which waits two seconds for the database. */
const ANSWER_TIMEOUT_MS = 3_000;
const TOO_LATE = `A process of the service did not answer within ${ANSWER_TIMEOUT_MS} ms.`;
const ENDED = 'A process of the service has ended.';

interface Message {
  readonly from: typeof OURS;
  readonly id: number;
  /** The function to call; absent in an answer. */
  readonly name?: string;
  readonly args?: readonly unknown[];
  readonly result?: unknown;
  readonly error?: string;
  /** Whether the callers of the service may be told the error. */
  readonly isPublic?: boolean;
}

type Answer = Pick<Message, 'result' | 'error' | 'isPublic'>;

/** `worker` is the process at the other end, as node:cluster gives it in the primary process and in the worker itself. */
export function connect<Remote>(worker: Worker, actions: Actions): Call<Remote> {
  const waiting = new Map<number, (answer: Answer) => void>();
  let lastId = 0;

  function send(message: Omit<Message, 'from'>): void {
    const fail = () => waiting.get(message.id)?.({ error: ENDED });
    if (!worker.isConnected()) fail();
    else worker.send({ from: OURS, ...message }, undefined, undefined, (error) => error && fail());
  }

  async function answer({ id, name = '', args = [] }: Message): Promise<void> {
    try {
      send({ id, result: await actions[name]?.(...args) });
    } catch (error) {
      send({ id, error: (error as Error).message, isPublic: error instanceof AppError });
    }
  }

  worker.on('message', (received) => {
    const message = received as Message | null;
    if (message?.from !== OURS) return;
    if (message.name !== undefined) void answer(message);
    else waiting.get(message.id)?.(message);
  });
  worker.on('disconnect', () => {
    for (const settle of waiting.values()) settle({ error: ENDED });
  });

  return (name, ...args) =>
    new Promise((resolve, reject) => {
      lastId += 1;
      const id = lastId;
      const settle = ({ result, error, isPublic }: Answer) => {
        clearTimeout(timer);
        waiting.delete(id);
        if (error === undefined) resolve(result as never);
        else reject(isPublic ? unavailable(error) : new Error(error));
      };
      const timer = setTimeout(() => settle({ error: TOO_LATE }), ANSWER_TIMEOUT_MS);
      waiting.set(id, settle);
      send({ id, name, args });
    });
}
