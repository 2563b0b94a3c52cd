import { userInfo } from 'node:os';
import { addAbortSignal, Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { runThenClose } from '../closers.js';
import { type Config, ConfigError, type Environment, findMisspelt, parseConfig } from '../config/config.js';
import type { Context, OpenOptions } from '../context.js';
import { DataDirLockedError, LOCK_WAIT_MS } from '../db/lock.js';
import type { Stored } from '../domain/import-format.js';
import { type Operator, operatorName, operatorNameOf, THE_OPERATOR } from '../domain/operators.js';
import { addCommand, type CommandHelp } from './arguments.js';
import { NotListeningError, runRemotely } from './control-socket.js';
import type { Io, Operation, OperationContext, Operations } from './operation.js';
import { type ListForm, listPrinter, withAdvice, writeNotice, writeToStdout } from './terminal.js';

/** Ends the command with an exit code. The report on stdout has already told why. */
export class ReportedFailure extends Error {
  constructor(readonly exitCode = 1) {
    super();
  }
}

/** An operation that says how its database is opened. */
interface OpeningOperation<Params, Result> extends Operation<Params, Result> {
  readonly opens?: (params: Params) => OpenOptions;
}

/** A command that runs an operation wherever the database can be reached, and prints its result as text or as JSON. */
interface Declaration<Params, Result>
  extends CommandHelp,
    OpeningOperation<Params, Result>,
    Pick<Presentation<Result>, 'unit' | 'tellsOnStderr'> {
  /** The parameters of the operation, from what commander gives to an action. Without it they are all arguments and options, by name. */
  readonly params?: (...given: Given) => Params;
  /** What to do before, such as to ask. */
  readonly before?: (...given: Given) => Promise<void>;
  readonly input?: (...given: Given) => Presentation<Result>['input'] | Promise<Presentation<Result>['input']>;
  /** What to say when Ctrl+C ends the operation. */
  readonly interrupted?: string | ((params: Params) => string);
  readonly print: (result: Result, params: Params) => string;
  /** Whether the result, which has been printed by then, is a failure of the command. */
  readonly isFailure?: (result: Result, params: Params) => boolean;
}

/** A command that lists rows: each page is printed before the next is read, so that memory does not grow with the list. */
interface ListDeclaration<Params, Row, Next>
  extends CommandHelp,
    ListForm<Row>,
    Pick<Declaration<Params, unknown>, 'params'> {
  /** What to say of the end of the list. */
  readonly tellNext?: (next: Next) => void;
  readonly read: (context: OperationContext, params: Params) => AsyncGenerator<Row[], Next>;
}

type Given = Parameters<Parameters<Command['action']>[0]>;

interface Presentation<Result> {
  readonly json?: boolean;
  readonly input?: Readable | Stored | undefined;
  /** What the progress bar counts; without it there is no bar. */
  readonly unit?: string | undefined;
  readonly interrupted?: string | undefined;
  readonly print: (result: Result) => string;
  /** Whether stdout is for output only, and the result is printed on stderr. */
  readonly tellsOnStderr?: boolean | undefined;
  /** What to do with output; without it, it is written to stdout. */
  readonly write?: (output: string) => Promise<void>;
}

const OPERATOR_SETTING = operatorName('OPERATOR');

export type CommandContext = ReturnType<typeof createCommandContext>;

/** What a command is given when it is added to the program. */
export function createCommandContext(env: Environment) {
  const operations: Operations = new Map();

  /** Adds an operation to `operations`; the returned function runs it and prints its result. */
  function operation<Params, Result>(added: OpeningOperation<Params, Result>) {
    operations.set(added.name, added);
    return (params: Params, presentation: Presentation<Result>) => runAndPrint(env, added, params, presentation);
  }

  /** Adds a command with its operation, which the returned function runs too. */
  function define<Params, Result>(parent: Command, declaration: Declaration<Params, Result>) {
    const {
      params: paramsOf = valuesByName,
      before,
      input,
      interrupted,
      print,
      isFailure,
      unit,
      tellsOnStderr,
    } = declaration;
    const run = operation(declaration);
    addCommand(parent, declaration).action(async (...given: Given) => {
      const params: Params = paramsOf(...given);
      await before?.(...given);
      const result = await run(params, {
        json: jsonOf(given),
        unit,
        tellsOnStderr,
        input: await input?.(...given),
        interrupted: typeof interrupted === 'function' ? interrupted(params) : interrupted,
        print: (made) => print(made, params),
      });
      if (isFailure?.(result, params)) throw new ReportedFailure();
    });
    return run;
  }

  function list<Params, Row, Next>(parent: Command, declaration: ListDeclaration<Params, Row, Next>): void {
    const { name, params: paramsOf = valuesByName, read, tellNext } = declaration;
    const write = (context: OperationContext, params: Params, io: Io) => writePages(read(context, params), io);
    const run = operation({ name, run: write, isLive: true });
    addCommand(parent, declaration).action(async (...given: Given) => {
      const params: Params = paramsOf(...given);
      const printer = listPrinter(declaration, jsonOf(given));
      const { next } = await run(params, { ...printer, interrupted: 'Interrupted. The list is incomplete.' });
      tellNext?.(next);
    });
  }

  return { env, operations, operation, define, list };
}

const jsonOf = (given: Given): boolean => given.at(-1).opts().json === true;

/** All arguments and options of a command: that of USER_ID is `userId`. */
function valuesByName(...given: Given): Given[number] {
  const command: Command = given.at(-1);
  const { json, color, ...params } = command.opts();
  for (const [place, argument] of command.registeredArguments.entries()) {
    const name = argument
      .name()
      .toLowerCase()
      .replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    params[name] = given[place];
  }
  return params;
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
  operation: OpeningOperation<Params, Result>,
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
  const { input = noInput(), unit } = presentation;
  // Loaded only where there is one, because it takes time.
  const bar = unit && process.stderr.isTTY ? (await import('./progress-bar.js')).progressBar(unit) : null;
  const io: Io = {
    input: input instanceof Readable ? addAbortSignal(signal, input) : input,
    write: presentation.write ?? writeToStdout,
    progress: (progress) => bar?.update(progress),
    notice: writeNotice,
    signal,
  };
  const result = await runWhereReachable(config, operation, params, io, (error) => interruption.abort(error))
    .catch((error) => {
      throw signal.aborted ? signal.reason : error;
    })
    .finally(() => {
      bar?.stop();
      process.off('SIGINT', interrupt);
    });
  const text = presentation.json ? JSON.stringify(result) : presentation.print(result);
  if (text !== '') (presentation.tellsOnStderr ? process.stderr : process.stdout).write(`${text}\n`);
  return result;
}

/** A server that took the data directory a moment ago may still be starting; one that is closing leaves it soon. */
const SERVER_WAIT_MS = 30_000;
const RETRY_MS = 200;

/** Runs the operation in this process, or in the server that holds the embedded database. */
async function runWhereReachable<Params, Result>(
  config: Config,
  operation: OpeningOperation<Params, Result>,
  params: Params,
  io: Io,
  onLost: (error: Error) => void,
): Promise<Result> {
  // Loaded here, because it takes time, and other commands do without it.
  const { createContext } = await import('../context.js');
  const context = createContext(config, {
    command: `userdir ${operation.name}`,
    lockWaitMs: LOCK_WAIT_MS,
    onLost,
    onDoubt: writeNotice,
    // To somebody who looks on, every step of a migration.
    onRestored: writeNotice,
    onMigrating: (sentence, isDetail) => (isDetail && !process.stderr.isTTY ? undefined : writeNotice(sentence)),
  });
  const operator = operatorOf(config);
  const work = async (): Promise<Result> => {
    const deadline = Date.now() + SERVER_WAIT_MS;
    for (;;) {
      const opened = await openOrFindServer(context, { ...operation.opens?.(params), signal: io.signal });
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
  if (operator === null) return { ...THE_OPERATOR, name: operatorNameOf(userInfo().username) };
  const { success, data, error } = OPERATOR_SETTING.safeParse(operator);
  if (!success) throw new ConfigError([String(error.issues[0]?.message)], ['OPERATOR']);
  return { ...THE_OPERATOR, name: data };
}

/** Where browsers reach the dashboard of a service with these settings; null if it has none. */
export function dashboardUrlOf({ dashboard, publicUrl, host, port }: Config, listensOn?: string): string | null {
  if (!dashboard) return null;
  const name = ANY_ADDRESS.includes(host) ? '127.0.0.1' : host;
  return `${publicUrl ?? listensOn ?? `http://${name.includes(':') ? `[${name}]` : name}:${port}`}/dashboard`;
}

const ANY_ADDRESS = ['0.0.0.0', '::'];

/** Opens the database, or returns the control socket of the server that holds it. */
async function openOrFindServer(
  context: Context,
  options: OpenOptions,
): Promise<{ applied: string[] } | { socket: string }> {
  try {
    return { applied: await context.open(options) };
  } catch (error) {
    const socket = error instanceof DataDirLockedError ? error.holder.controlSocket : undefined;
    if (socket === undefined) throw withAdvice(error);
    return { socket };
  }
}

async function* noInput(): AsyncGenerator<Buffer> {
  // Yields nothing.
}
