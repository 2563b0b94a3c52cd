import { readlinkSync } from 'node:fs';
import { setPriority } from 'node:os';
import { basename } from 'node:path';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { createServing, type ServicesConfig } from '../context.js';
import { type AppError, fromUnknown } from '../errors.js';
import { createThreadAnswerer } from '../graphql/second-thread.js';
import { abandoned } from '../http/threads.js';
import { createVerdicts } from '../rest/wallets.js';
import { measureCost } from '../telemetry/request-trace.js';
import {
  type Answered,
  buffersOf,
  type Failure,
  type FromThread,
  type PlainError,
  type TaskName,
  type Tasks,
  type ToThread,
} from './second-thread.js';

/*
 * The thread for heavy requests (second-thread.ts). It has connections of its own to the database, services and documents, as
 * another process would.
 */

const port = parentPort;
if (port === null) throw new Error('second-thread-worker runs only as a worker thread.');
const send = (message: FromThread, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer);

/** The nice value of this thread; that of the first one is 0. */
const LOWER_PRIORITY = 5;

yieldToFirstThread();
const ports: ((port: MessagePort) => void)[] = [];
const openEnginePort = () =>
  new Promise<MessagePort>((resolve) => {
    ports.push(resolve);
    send({ needsPort: true });
  });
const serving = createServing(workerData as ServicesConfig, { openEnginePort });
const { services } = serving;
const graphql = createThreadAnswerer(services, (cause) => send({ lostError: toPlainError(cause) }));
const tasks: Tasks = { graphql: graphql.answer, verdicts: createVerdicts(services).answer };
/** The requests in flight. */
const inFlight = new Map<number, { isAbandoned: boolean }>();
let whenIdle: () => void = () => undefined;

port.on('message', (message: ToThread) => {
  if ('close' in message) void close();
  else if ('ping' in message) send({ isAlive: true });
  else if ('abandoned' in message) abandon(message.abandoned);
  else if ('port' in message) ports.shift()?.(message.port);
  else void handle(message);
});
await serving.start();
send({ ready: true });

/** Lets the first thread go first where there are fewer cores than threads. Only Linux has priorities of threads. */
function yieldToFirstThread(): void {
  try {
    setPriority(Number(basename(readlinkSync('/proc/thread-self'))), LOWER_PRIORITY);
  } catch {
    // The threads take turns then.
  }
}

async function handle({ request, task, caller, asked }: Extract<ToThread, { request: number }>): Promise<void> {
  const state = { isAbandoned: false };
  inFlight.set(request, state);
  const requester = {
    id: caller.id,
    scope: services.projects.scopeOfGrant(caller.grant),
    until: performance.now() + caller.leftMs,
    addWeight(units: number) {
      if (state.isAbandoned) throw abandoned();
      if (units > 0) send({ request, units });
    },
    report: (failure: AppError) => send({ request, reported: toFailure(failure) }),
  };
  // Each task gets what it was asked.
  const work = (): Promise<Answered<TaskName>> => tasks[task](requester, asked as never);
  try {
    const { result, cost } = caller.isMeasured ? await measureCost(work) : { result: await work(), cost: null };
    send({ request, answered: result, cost }, buffersOf(result));
  } catch (error) {
    send({ request, failure: toFailure(fromUnknown(error)) });
  }
  inFlight.delete(request);
  if (inFlight.size === 0) whenIdle();
}

function abandon(request: number): void {
  const state = inFlight.get(request);
  if (state !== undefined) state.isAbandoned = true;
}

function toFailure({ code, message, headers, cause }: AppError): Failure {
  return { code, message, headers, cause: cause === undefined ? undefined : toPlainError(cause) };
}

/** Errors of libraries have properties that cannot be sent. */
function toPlainError(error: unknown): PlainError {
  const { name, message, stack, code } = error as Error & { code?: unknown };
  return { name, message: message ?? String(error), stack, code: typeof code === 'string' ? code : undefined };
}

async function close(): Promise<void> {
  if (inFlight.size > 0) {
    await new Promise<void>((resolve) => {
      whenIdle = resolve;
    });
  }
  await graphql.dispose();
  await serving.close();
  process.exit();
}
