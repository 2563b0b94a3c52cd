import { type MessagePort, Worker } from 'node:worker_threads';
import type { FastifyRequest } from 'fastify';
import type { Config } from '../config/config.js';
import type { Context, ServicesConfig } from '../context.js';
import { AppError, type ErrorCode, unavailable } from '../errors.js';
import type { ThreadAnswer, ThreadRequest } from '../graphql/second-thread.js';
import { type PlainData, type Requester, requesterOf, type ThreadTask } from '../http/threads.js';
import type { AnsweredVerdicts, AskedVerdicts } from '../rest/wallets.js';
import type { RequestCost } from '../telemetry/request-trace.js';

/**
 * Answers heavy requests in a thread of its own, so that reading what they ask, making their answers and collecting their garbage does not
 * keep other projects waiting.
 *
 * It is started when it is needed for the first time, and ends when it was not used for long. If it fails, its requests are answered with
 * UNAVAILABLE, and it is started again when it is needed. Until it is ready, the first thread answers all requests.
 */
export type SecondThread = ReturnType<typeof createSecondThread>;

type Task<Asked extends PlainData, Answered extends PlainData> = (
  requester: Requester,
  asked: Asked,
) => Promise<Answered>;

/** What it can do. */
export interface Tasks {
  readonly graphql: Task<ThreadRequest, ThreadAnswer>;
  readonly verdicts: Task<AskedVerdicts, AnsweredVerdicts>;
}
export type TaskName = keyof Tasks;
type Asked<Name extends TaskName> = Parameters<Tasks[Name]>[1];
export type Answered<Name extends TaskName> = Awaited<ReturnType<Tasks[Name]>>;

/** Messages have the number of their request. */
export type ToThread =
  | {
      readonly request: number;
      readonly task: TaskName;
      readonly caller: Caller;
      readonly asked: Asked<TaskName>;
    }
  /** The number of a request whose client has gone. */
  | { readonly abandoned: number }
  /** A connection to the embedded engine. */
  | { readonly port: MessagePort }
  | { readonly ping: true }
  | { readonly close: true };
export type FromThread =
  | { readonly ready: true }
  /** It needs a connection to the embedded engine. */
  | { readonly needsPort: true }
  | { readonly request: number; readonly units: number }
  /** An error of a resolver. */
  | { readonly request: number; readonly reported: Failure }
  | { readonly request: number; readonly answered: Answered<TaskName>; readonly cost: Cost | null }
  | { readonly request: number; readonly failure: Failure }
  /** An error that belongs to no request. */
  | { readonly lostError: PlainError }
  /** The answer to a ping. */
  | { readonly isAlive: true };

/** A caller whom the first thread has authenticated. */
export interface Caller {
  /** Of the request. */
  readonly id: string;
  readonly grant: ReturnType<Requester['scope']['grant']>;
  /** How much time it has left, in milliseconds. */
  readonly leftMs: number;
  /** Whether the cost of the request is measured. */
  readonly isMeasured: boolean;
}

export type Cost = Pick<RequestCost, 'statements' | 'databaseMs'>;

/** An AppError as plain data. */
export interface Failure {
  readonly code: ErrorCode;
  readonly message: string;
  readonly headers: AppError['headers'];
  readonly cause: PlainError | undefined;
}

export interface PlainError {
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  readonly code: string | undefined;
}

interface Waiting {
  readonly request: FastifyRequest;
  readonly requester: Requester;
  resolve(answered: Answered<TaskName>): void;
  reject(error: Error): void;
}

/** Enough for the answers of all projects at once. Beyond that the thread ends, and not the process. */
const MAX_HEAP_MIB = 1_024;
const IDLE_MS = 300_000;
const RESTART_MS = 1_000;
/** After so long without a sign of life it is ended. No request computes for nearly as long at a time. */
const SILENT_MS = 30_000;

export interface SecondThreadOptions {
  /** Opens connections to the embedded engine, if there is one. */
  readonly openPort: Context['db']['openPort'];
  /** Whether no other project is active. */
  readonly isAlone: (appId: string) => boolean;
  /** Is told of what failed, for the operator. */
  readonly onFailure: (error: unknown, what: string) => void;
  readonly idleMs?: number;
  readonly silentMs?: number;
}

export function createSecondThread(
  config: ServicesConfig & Pick<Config, 'secondThread'>,
  { openPort, isAlone, onFailure, idleMs = IDLE_MS, silentMs = SILENT_MS }: SecondThreadOptions,
) {
  let running: { readonly worker: Worker; readonly ended: Promise<void>; isReady: boolean } | null = null;
  let startedAt = Number.NEGATIVE_INFINITY;
  let usedAt = 0;
  let heardAt = 0;
  let isClosed = false;
  let requests = 0;
  let starts = 0;
  const waiting = new Map<number, Waiting>();

  function start(): void {
    if (config.secondThread === 'off' || isClosed) return;
    if (running !== null || performance.now() - startedAt < RESTART_MS) return;
    startedAt = performance.now();
    starts += 1;
    const worker = new Worker(new URL('./second-thread-worker.js', import.meta.url), {
      workerData: config satisfies ServicesConfig,
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
    });
    const ended = new Promise<void>((resolve) => {
      worker.once('exit', () => {
        running = null;
        for (const { reject } of waiting.values()) reject(unfinished());
        waiting.clear();
        resolve();
      });
    });
    running = { worker, ended, isReady: false };
    worker.on('message', receive);
    worker.once('error', (error) => onFailure(error, 'The thread for heavy requests failed.'));
  }

  function receive(message: FromThread): void {
    heardAt = performance.now();
    if ('ready' in message) {
      if (running !== null) running.isReady = !isClosed;
      usedAt = performance.now();
    } else if ('needsPort' in message) void handPort();
    else if ('isAlive' in message) return;
    else if ('lostError' in message) onFailure(toError(message.lostError), 'A request failed.');
    else receiveOf(message, waiting.get(message.request));
  }

  function receiveOf(message: Extract<FromThread, { request: number }>, waits: Waiting | undefined): void {
    if (waits === undefined) return;
    if ('units' in message) {
      if (!waits.request.addWeight(message.units))
        running?.worker.postMessage({ abandoned: message.request } satisfies ToThread);
    } else if ('reported' in message) waits.requester.report(toAppError(message.reported));
    else if ('failure' in message) {
      waiting.delete(message.request);
      waits.reject(toAppError(message.failure));
    } else {
      waiting.delete(message.request);
      if (message.cost !== null) waits.request.measuredCost?.add(message.cost);
      waits.resolve(message.answered);
    }
  }

  async function handPort(): Promise<void> {
    const worker = running?.worker;
    if (worker === undefined || openPort === null) return;
    try {
      const port = await openPort(worker.threadId);
      worker.postMessage({ port } satisfies ToThread, [port]);
    } catch (error) {
      // Its requests fail when they have waited for a connection.
      onFailure(error, 'Connecting a thread to the embedded database failed.');
    }
  }

  function ask(task: TaskName, request: FastifyRequest, asked: Asked<TaskName>): Promise<Answered<TaskName>> {
    usedAt = performance.now();
    requests += 1;
    const number = requests;
    const leftMs = request.until - performance.now();
    const caller = { id: request.id, grant: request.scope.grant(), leftMs, isMeasured: request.measuredCost !== null };
    return new Promise((resolve, reject) => {
      if (running === null) return reject(unfinished());
      waiting.set(number, { request, requester: requesterOf(request), resolve, reject });
      running.worker.postMessage({ request: number, task, caller, asked } satisfies ToThread, buffersOf(asked));
    });
  }

  /** Lets it finish what it has been given. */
  async function end(): Promise<void> {
    if (running === null) return;
    running.isReady = false;
    running.worker.postMessage({ close: true } satisfies ToThread);
    await running.ended;
  }

  const idleTimer = setInterval(() => {
    if (running?.isReady && waiting.size === 0 && performance.now() - usedAt > idleMs) void end();
  }, idleMs / 5).unref();

  /** Without this, requests would go to a thread that hangs, and each would wait for its time limit. */
  const watchTimer = setInterval(() => {
    if (!running?.isReady) return;
    if (performance.now() - heardAt > silentMs) {
      onFailure(new Error('It gave no sign of life.'), 'The thread for heavy requests was ended.');
      running.isReady = false;
      void running.worker.terminate();
    } else running.worker.postMessage({ ping: true } satisfies ToThread);
  }, silentMs / 5).unref();

  const isReady = () => running?.isReady === true;
  return {
    /** The requests of one task. */
    taskOf<Name extends TaskName>(task: Name): ThreadTask<Asked<Name>, Answered<Name>> {
      return {
        isReady,
        takes({ trace, scope }) {
          // The spans of a trace belong to the first thread.
          if (trace?.span) return false;
          if (!isReady() && !isAlone(scope.appId)) start();
          return isReady();
        },
        answer: (request, asked) => ask(task, request, asked) as Promise<Answered<Name>>,
      };
    },
    /** Since the start of this process. */
    usage: () => ({ requests, starts, isRunning: running !== null }),
    async close(): Promise<void> {
      isClosed = true;
      clearInterval(idleTimer);
      clearInterval(watchTimer);
      await end();
    },
  };
}

/** The bytes that are handed over. */
export function buffersOf({ body }: PlainData): ArrayBuffer[] {
  return body === null ? [] : [body.buffer];
}

function unfinished(): AppError {
  return unavailable('The service could not finish the request. Send it again.');
}

function toAppError({ code, message, headers, cause }: Failure): AppError {
  return new AppError(code, message, { headers, ...(cause !== undefined && { cause: toError(cause) }) });
}

function toError(error: PlainError): Error {
  return Object.assign(new Error(error.message), error);
}
