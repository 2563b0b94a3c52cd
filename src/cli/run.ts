import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { runThenClose } from '../closers.js';
import type { Config, Environment } from '../config/config.js';
import type { Context, OpenOptions } from '../context.js';
import { DataDirLockedError, LOCK_WAIT_MS } from '../db/lock.js';
import { addCommand, type CommandHelp } from './arguments.js';
import { NotListeningError, runRemotely } from './control-socket.js';
import type { Io, Operation, Operations } from './operation.js';
import {
  dashboardUrlOf,
  type Given,
  jsonOf,
  operatorOf,
  type Presentation,
  present,
  ReportedFailure,
  valuesByName,
} from './present.js';
import { createRows } from './rows.js';
import { withAdvice, writeNotice, writeToStdout } from './terminal.js';

/** An operation that says how its database is opened. */
interface OpeningOperation<Params, Result> extends Operation<Params, Result> {
  readonly opens?: (params: Params) => OpenOptions;
}

/** A command that runs an operation wherever the database can be reached, and prints its result as text or as JSON. */
interface Declaration<Params, Result>
  extends CommandHelp,
    OpeningOperation<Params, Result>,
    Pick<Presentation<Result>, 'unit'> {
  /** The parameters of the operation, from what commander gives to an action. Without it they are all arguments and options, by name. */
  readonly params?: (...given: Given) => Params;
  /** What to do before, such as to ask. */
  readonly before?: (...given: Given) => Promise<void>;
  /** What to say when Ctrl+C ends the operation. */
  readonly interrupted?: string | ((params: Params) => string);
  readonly print: (result: Result, params: Params) => string;
  /** Whether the result, which has been printed by then, is a failure of the command. */
  readonly isFailure?: (result: Result, params: Params) => boolean;
}

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
    const { params: paramsOf = valuesByName, before, interrupted, print, isFailure, unit } = declaration;
    const run = operation(declaration);
    addCommand(parent, declaration).action(async (...given: Given) => {
      const params: Params = paramsOf(...given);
      await before?.(...given);
      const result = await run(params, {
        json: jsonOf(given),
        unit,
        interrupted: typeof interrupted === 'function' ? interrupted(params) : interrupted,
        print: (made) => print(made, params),
      });
      if (isFailure?.(result, params)) throw new ReportedFailure();
    });
    return run;
  }

  return { env, operations, operation, define, ...createRows(env) };
}

async function runAndPrint<Params, Result>(
  env: Environment,
  operation: OpeningOperation<Params, Result>,
  params: Params,
  presentation: Presentation<Result>,
): Promise<Result> {
  return present(env, presentation, ({ config, progress, notice, signal, onLost }) => {
    const io: Io = { write: writeToStdout, progress, notice, signal };
    return runWhereReachable(config, operation, params, io, onLost);
  });
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
