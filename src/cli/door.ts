import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Config, commandFileIn, dashboardUrlOf } from '../config/config.js';
import { readPrivateFile } from '../config/private-files.js';
import type { OpenOptions, Services } from '../context.js';
import type { CommandFile } from '../dashboard/command-token.js';
import { type Document, sentOf } from '../dashboard/documents.js';
import { withAdvice } from '../db/connection-failures.js';
import type { Database } from '../db/database.js';
import { DataDirLockedError, LOCK_WAIT_MS } from '../db/lock.js';
import { ofAnotherUser } from '../db/lock-holder.js';
import type { Operator } from '../domain/operators.js';
import { noProject } from '../domain/projects.js';
import { AppError, type ErrorCode } from '../errors.js';
import { writeNotice } from './terminal.js';

/*
 * The schemas for a command: in its own process or, while a server holds the embedded database, in that server. A server says in a
 * file of the data directory where it is, and by which token it knows the commands of its system user.
 */

/** The result of a document: the only field of its answer and, of `project`, the only field of that. */
export type Result<Data> = Data extends { readonly project: infer Project } ? Only<NonNullable<Project>> : Only<Data>;
type Only<Fields> = Fields[keyof Fields];

/** Asks the operators' schema or, in a project, the public one. Throws the AppError of what failed: NOT_FOUND, too, where there is no such project. */
export type Ask = <Data, Variables>(document: Document<Data, Variables>, variables: Variables) => Promise<Result<Data>>;

/** Sends a request to the server: for what is a stream, and no document. */
export type Send = (path: string, options?: SendOptions) => Promise<IncomingMessage>;

export interface SendOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | AsyncIterable<Buffer>;
}

export interface Door {
  readonly ask: Ask;
  /** The database behind the door: the services in this process, or the server that has them. */
  reach(): Promise<Reached>;
  close(): Promise<void>;
}

export type Reached = InProcess | ReturnType<typeof atServer>;

interface InProcess {
  readonly services: Services;
  readonly db: Database;
  /** Names of the migrations that were applied when the database was opened. */
  readonly applied: readonly string[];
  readonly ask: Ask;
}

export interface DoorOptions {
  readonly config: Config;
  readonly operator: Operator;
  /** The name of this process in the lock of the data directory. */
  readonly command: string;
  readonly opens: OpenOptions;
  readonly signal: AbortSignal;
  readonly onLost: (error: Error) => void;
}

/** A server that took the data directory a moment ago may still be starting; one that is closing leaves it soon. */
const SERVER_WAIT_MS = 30_000;
const RETRY_MS = 200;

/** The server that holds the data directory has not taken a request, because it is starting or closing. */
export class NotListeningError extends Error {
  constructor(cause?: unknown) {
    super('The server that holds the data directory does not accept commands now. Try again, or stop it.', { cause });
  }
}

/** Opens nothing before it is asked. */
export async function createDoor(options: DoorOptions): Promise<Door> {
  const { config, operator, command, opens, signal, onLost } = options;
  // Loaded here, because it takes time, and other commands do without it.
  const { createContext } = await import('../context.js');
  const context = createContext(config, {
    command: `userdir ${command}`,
    lockWaitMs: LOCK_WAIT_MS,
    onLost,
    onDoubt: writeNotice,
    // A terminal shows every step of a migration.
    onRestored: writeNotice,
    onMigrating: (sentence, isDetail) => (isDetail && !process.stderr.isTTY ? undefined : writeNotice(sentence)),
  });
  let reached: Promise<Reached> | null = null;

  async function openHere(): Promise<InProcess> {
    await context.lockDataDirectory();
    // While the database answers, the schema is loaded.
    const [{ contextOfCommand, executeDocument }, applied] = await Promise.all([
      loadSchema(),
      context.open({ ...opens, signal }),
    ]);
    signal.throwIfAborted();
    const { db, services } = context;
    const report = () => undefined;
    async function ask(document: unknown, variables: unknown) {
      const here = contextOfCommand(services, operator, { status: null, dashboardUrl: dashboardUrlOf(config), report });
      // As it would be sent: without what is undefined.
      const { query, variables: sent, project } = JSON.parse(JSON.stringify(sentOf(document, variables)));
      return resultOf(await executeDocument(query, sent, here, project), variables);
    }
    return { services, db, applied, ask: ask as Ask };
  }

  async function find(): Promise<Reached> {
    try {
      return await openHere();
    } catch (error) {
      if (!isHeldByServer(error)) throw withAdvice(error);
      return reachServer(error, operator, signal);
    }
  }

  /** Runs work at the door. What no server has taken is tried again, where it can be reached then. */
  async function within<Done>(work: (where: Reached) => Promise<Done>): Promise<Done> {
    const deadline = Date.now() + SERVER_WAIT_MS;
    for (;;) {
      try {
        reached ??= find();
        return await work(await reached);
      } catch (error) {
        if (!(error instanceof NotListeningError) || Date.now() >= deadline) throw error;
        reached = null;
      }
      await sleep(RETRY_MS, undefined, { signal });
    }
  }

  return {
    ask: (document, variables) => within(({ ask }) => ask(document, variables)),
    reach: () => within(async (where) => where),
    close: () => context.close(),
  };
}

function resultOf(data: object, variables: unknown): unknown {
  const [[name, result]] = Object.entries(data) as [[string, unknown]];
  if (name !== 'project') return result;
  if (result === null) throw noProject((variables as { readonly project: string }).project);
  return Object.values(result as object)[0];
}

/** Whether a server holds the data directory, which does what commands ask. */
export function isHeldByServer(error: unknown): error is DataDirLockedError {
  return error instanceof DataDirLockedError && error.holder.takesCommands === true;
}

/** The server that holds the data directory. NotListeningError while it says not where it is. */
export async function reachServer({ dataDir }: DataDirLockedError, operator: Operator, signal: AbortSignal) {
  return atServer(await readCommandFile(dataDir), operator, signal);
}

/** The schema as one file, which src/dashboard/bundle.js makes. */
async function loadSchema(): Promise<typeof import('../dashboard/execute.js')> {
  const file = '../dashboard/execute-bundle.js';
  return import(file);
}

function atServer({ url, token }: CommandFile, { name }: Operator, signal: AbortSignal) {
  const own = { authorization: `Bearer ${token}`, 'userdir-operator': name };

  const send: Send = async (path, { method = 'GET', headers = {}, body = '' } = {}) => {
    // A connection of its own: that it is made is what the body waits for.
    const outgoing = request(url + path, { method, agent: false, headers: { ...headers, ...own }, signal });
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.once('response', resolve);
      outgoing.once('error', reject);
    });
    answered.catch(() => undefined);
    outgoing.flushHeaders();
    await Promise.race([
      new Promise((resolve) => outgoing.once('socket', (socket) => socket.once('connect', resolve))),
      answered,
    ]).catch((cause: NodeJS.ErrnoException) => {
      throw cause.code === 'ECONNREFUSED' ? new NotListeningError(cause) : cause;
    });
    if (typeof body === 'string') outgoing.end(body);
    // An answer may come before all is sent. It says more than the broken pipe.
    else pipeline(body, outgoing).catch(() => undefined);
    const answer = await answered.catch(serverEnded);
    // It has another token by now, or does not serve yet, or not any more.
    if (answer.statusCode === 401 || answer.statusCode === 503) throw new NotListeningError();
    return answer;
  };

  async function ask(document: unknown, variables: unknown) {
    const answer = await send('/dashboard/graphql', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(sentOf(document, variables)),
    });
    const body = await text(answer).catch(serverEnded);
    if (answer.statusCode === 400 || answer.statusCode === 404) throw new Error(OTHER_VERSION, { cause: body });
    const { data, errors = [] }: Answer = JSON.parse(body);
    const [error] = errors;
    if (error === undefined) return resultOf(data, variables);
    throw new AppError(error.extensions.code, error.message, { cause: new Error(error.message) });
  }

  return { services: null, ask: ask as Ask, send };
}

interface Answer {
  readonly data: object;
  readonly errors?: readonly { readonly message: string; readonly extensions: { readonly code: ErrorCode } }[];
}

const OTHER_VERSION = 'The running server is of another version than the command. Restart it.';

/** The text of the answer to a request for a stream, as it comes. Throws the AppError of a refusal. */
export async function* textOf(answer: IncomingMessage): AsyncGenerator<string> {
  if (answer.statusCode !== 200) {
    const { error } = JSON.parse(await text(answer).catch(serverEnded));
    throw new AppError(error.code, error.message);
  }
  try {
    yield* answer.setEncoding('utf8');
  } catch (cause) {
    serverEnded(cause);
  }
}

export function serverEnded(cause: unknown): never {
  if ((cause as Error | null)?.name === 'AbortError') throw cause;
  throw new Error('The running server ended before the operation was done.', { cause });
}

async function readCommandFile(dataDir: string): Promise<CommandFile> {
  const path = commandFileIn(dataDir);
  try {
    return JSON.parse(await readPrivateFile(path));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new NotListeningError(error);
    throw code === 'EACCES' ? ofAnotherUser(path, error) : error;
  }
}
