import { addAbortSignal, type Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { runThenClose } from '../closers.js';
import { type Config, type Environment, parseConfig } from '../config/config.js';
import { DataDirLockedError, LOCK_WAIT_MS } from '../db/lock.js';
import { type Context, createContext } from '../context.js';
import { findMisspelt } from '../config/setting-names.js';
import { NotListeningError, runRemotely } from './control.js';
import { type Io, type OperationName, type Params, type Result, runOperation } from './operations.js';
import { writeNotice, writeToStdout } from './output.js';
import { progressBar } from './progress.js';

/** Something went wrong that the report on stdout already tells; the exit code is 1. */
export class Refused extends Error {}

/** A server that has just taken the data directory may still be making its database; one that closes leaves it soon. */
const SERVER_WAIT_MS = 30_000;
const RETRY_MS = 200;

/** Runs an operation where the database can be reached, and prints its result for a person or as JSON. */
export type Run = <Name extends OperationName>(
  name: Name,
  params: Params<Name>,
  options: Presentation<Result<Name>>,
) => Promise<Result<Name>>;

interface Presentation<Result> {
  readonly json?: boolean;
  readonly input?: Readable;
  readonly inputBytes?: number | undefined;
  /** What the progress counts; without it none is shown. */
  readonly unit?: string;
  /** What is said where Ctrl+C ended the operation. */
  readonly interrupted?: string;
  readonly print: (result: Result) => string;
}

export function createRun(env: Environment): Run {
  return async function run<Name extends OperationName>(
    name: Name,
    params: Params<Name>,
    options: Presentation<Result<Name>>,
  ): Promise<Result<Name>> {
    const config = parseConfig(env);
    for (const sentence of findMisspelt(env)) writeNotice(sentence);
    const interruption = new AbortController();
    const { signal } = interruption;
    const interrupt = () => interruption.abort(new Error(options.interrupted ?? 'Interrupted.'));
    // The first Ctrl+C ends the operation in good order, a second one the process.
    process.once('SIGINT', interrupt);
    const bar = progressBar(options.unit);
    const result = await reach(config, name, params, (error) => interruption.abort(error), {
      input: options.input === undefined ? nothing() : addAbortSignal(signal, options.input),
      inputBytes: options.inputBytes,
      write: writeToStdout,
      progress: bar.update,
      signal,
    })
      .catch((error) => {
        throw signal.aborted ? signal.reason : error;
      })
      .finally(() => {
        bar.stop();
        process.off('SIGINT', interrupt);
      });
    const text = options.json ? JSON.stringify(result) : options.print(result);
    if (text !== '') process.stdout.write(`${text}\n`);
    return result;
  };
}

/** Here, or in the server that holds the embedded database. */
async function reach<Name extends OperationName>(
  config: Config,
  name: Name,
  params: Params<Name>,
  onLost: (error: Error) => void,
  io: Io,
): Promise<Result<Name>> {
  const directory = createContext(config, {
    command: `userdir ${name}`,
    lockWaitMs: LOCK_WAIT_MS,
    onLost,
    onDoubt: writeNotice,
  });
  const work = async (): Promise<Result<Name>> => {
    const deadline = Date.now() + SERVER_WAIT_MS;
    for (;;) {
      const opened = await openOrFindServer(directory);
      io.signal.throwIfAborted();
      if ('applied' in opened) {
        const { db, services } = directory;
        return await runOperation({ db, services, applied: opened.applied }, name, params, io);
      }
      try {
        return await runRemotely(opened.socket, name, params, io);
      } catch (error) {
        if (!(error instanceof NotListeningError) || Date.now() >= deadline) throw error;
      }
      await sleep(RETRY_MS);
    }
  };
  return runThenClose(work, [() => directory.close()]);
}

/** Opens the directory; where a server holds it, the socket on which that server takes commands. */
async function openOrFindServer(directory: Context): Promise<{ applied: string[] } | { socket: string }> {
  try {
    return { applied: await directory.open() };
  } catch (error) {
    const socket = error instanceof DataDirLockedError ? error.holder.controlSocket : undefined;
    if (socket === undefined) throw error;
    return { socket };
  }
}

async function* nothing(): AsyncGenerator<Buffer> {
  // An operation without input.
}
