import { userInfo } from 'node:os';
import { addAbortSignal, Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { runThenClose } from '../closers.js';
import { type Config, type Environment, findMisspelt, parseConfig } from '../config/config.js';
import { type Context, createContext } from '../context.js';
import { DataDirLockedError, LOCK_WAIT_MS } from '../db/lock.js';
import { parse } from '../domain/filters.js';
import type { Stored } from '../domain/import-format.js';
import { type Operator, operatorName, operatorNameOf } from '../domain/operators.js';
import { NotListeningError, runRemotely } from './control-socket.js';
import type { Io, Operation, OperationContext, Operations } from './operation.js';
import { type ListForm, listPrinter, progressBar, writeNotice, writeToStdout } from './terminal.js';

/** Ends the command with exit code 1. The report on stdout has already told why. */
export class ReportedFailure extends Error {}

/** What a command is given when it is added to the program. */
export interface CommandContext {
  readonly env: Environment;
  readonly operations: Operations;
  /** Adds an operation to `operations`; the returned function runs it and prints its result. */
  operation<Params, Result>(
    name: string,
    run: Operation<Params, Result>['run'],
    options?: Pick<Operation<Params, Result>, 'isLive'>,
  ): Run<Params, Result>;
  /** The same for one that lists rows: each page is printed before the next is read, so that memory does not grow with the list. */
  list<Params, Row, Next>(
    name: string,
    read: (context: OperationContext, params: Params) => AsyncGenerator<Row[], Next>,
  ): (params: Params, form: ListForm<Row>) => Promise<{ next: Next }>;
}

/** Runs an operation wherever the database can be reached, and prints its result as text or as JSON. */
export type Run<Params, Result> = (params: Params, presentation: Presentation<Result>) => Promise<Result>;

interface Presentation<Result> {
  readonly json?: boolean;
  readonly input?: Readable | Stored;
  /** What the progress bar counts; without it there is no bar. */
  readonly unit?: string;
  /** What to say when Ctrl+C ends the operation. */
  readonly interrupted?: string;
  readonly print: (result: Result) => string;
  /** What to do with output; without it, it is written to stdout. */
  readonly write?: (output: string) => Promise<void>;
}

const OPERATOR_SETTING = operatorName('OPERATOR');

export function createCommandContext(env: Environment): CommandContext {
  const operations: Operations = new Map();
  const operation: CommandContext['operation'] = (name, run, options) => {
    const added = { name, run, ...options };
    operations.set(name, added);
    return (params, presentation) => runAndPrint(env, added, params, presentation);
  };
  const list: CommandContext['list'] = (name, read) => {
    type Params = Parameters<typeof read>[1];
    const write = (context: OperationContext, params: Params, io: Io) => writePages(read(context, params), io);
    const run = operation(name, write, { isLive: true });
    return (params, form) => run(params, { ...listPrinter(form), interrupted: 'Interrupted. The list is incomplete.' });
  };
  return { env, operations, operation, list };
}

/** Writes each page as a JSON array. Returns what the generator does: where the next page of the list begins. */
async function writePages<Row, Next>(pages: AsyncGenerator<Row[], Next>, io: Io): Promise<{ next: Next }> {
  for (;;) {
    const { done, value } = await pages.next();
    io.signal.throwIfAborted();
    if (done) return { next: value };
    if (value.length > 0) await io.write(JSON.stringify(value));
  }
}

async function runAndPrint<Params, Result>(
  env: Environment,
  operation: Operation<Params, Result>,
  params: Params,
  presentation: Presentation<Result>,
): Promise<Result> {
  const config = parseConfig(env);
  for (const sentence of findMisspelt(env)) writeNotice(sentence);
  const interruption = new AbortController();
  const { signal } = interruption;
  const interrupt = () => interruption.abort(new Error(presentation.interrupted ?? 'Interrupted.'));
  // The first Ctrl+C stops the operation cleanly, a second one ends the process.
  process.once('SIGINT', interrupt);
  const bar = progressBar(presentation.unit);
  const { input = noInput() } = presentation;
  const io: Io = {
    input: input instanceof Readable ? addAbortSignal(signal, input) : input,
    write: presentation.write ?? writeToStdout,
    progress: bar.update,
    notice: writeNotice,
    signal,
  };
  const result = await runWhereReachable(config, operation, params, io, (error) => interruption.abort(error))
    .catch((error) => {
      throw signal.aborted ? signal.reason : error;
    })
    .finally(() => {
      bar.stop();
      process.off('SIGINT', interrupt);
    });
  const text = presentation.json ? JSON.stringify(result) : presentation.print(result);
  if (text !== '') process.stdout.write(`${text}\n`);
  return result;
}

/** A server that took the data directory a moment ago may still be starting; one that is closing leaves it soon. */
const SERVER_WAIT_MS = 30_000;
const RETRY_MS = 200;

/** Runs the operation in this process, or in the server that holds the embedded database. */
async function runWhereReachable<Params, Result>(
  config: Config,
  operation: Operation<Params, Result>,
  params: Params,
  io: Io,
  onLost: (error: Error) => void,
): Promise<Result> {
  const context = createContext(config, {
    command: `userdir ${operation.name}`,
    lockWaitMs: LOCK_WAIT_MS,
    onLost,
    onDoubt: writeNotice,
  });
  const operator = operatorOf(config);
  const work = async (): Promise<Result> => {
    const deadline = Date.now() + SERVER_WAIT_MS;
    for (;;) {
      const opened = await openOrFindServer(context);
      io.signal.throwIfAborted();
      if ('applied' in opened) {
        const { db, services } = context;
        const { applied } = opened;
        return await operation.run(
          { db, services, operator, applied, dashboardUrl: dashboardUrlOf(config) },
          params,
          io,
        );
      }
      try {
        return await runRemotely(opened.socket, operation, params, io, operator.name);
      } catch (error) {
        if (!(error instanceof NotListeningError) || Date.now() >= deadline) throw error;
      }
      await sleep(RETRY_MS);
    }
  };
  return runThenClose(work, [() => context.close()]);
}

/** The person who runs the command: their name is in the audit trail, and every right is theirs. */
export function operatorOf({ operator }: Config): Operator {
  return {
    name: operator === null ? operatorNameOf(userInfo().username) : parse(OPERATOR_SETTING, operator),
    role: 'admin',
  };
}

/** Where browsers reach the dashboard of a service with these settings; null if it has none. */
export function dashboardUrlOf({ dashboard, publicUrl, host, port }: Config, listensOn?: string): string | null {
  if (!dashboard) return null;
  const name = ANY_ADDRESS.includes(host) ? '127.0.0.1' : host;
  return `${publicUrl ?? listensOn ?? `http://${name.includes(':') ? `[${name}]` : name}:${port}`}/dashboard`;
}

const ANY_ADDRESS = ['0.0.0.0', '::'];

/** Opens the database, or returns the control socket of the server that holds it. */
async function openOrFindServer(context: Context): Promise<{ applied: string[] } | { socket: string }> {
  try {
    return { applied: await context.open() };
  } catch (error) {
    const socket = error instanceof DataDirLockedError ? error.holder.controlSocket : undefined;
    if (socket === undefined) throw error;
    return { socket };
  }
}

async function* noInput(): AsyncGenerator<Buffer> {
  // Yields nothing.
}
