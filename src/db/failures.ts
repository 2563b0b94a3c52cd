import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { AppError, failureIn, UNKNOWN_OUTCOME, unavailable } from '../errors.js';

/*
 * Tells what a failure of the database means for the caller (docs/decisions/database.md). The place decides: what fails while connecting
 * has done nothing, and a session that ends during a statement leaves its outcome unknown. Of what PostgreSQL answers, the class of the
 * SQLSTATE decides whose fault it is. No words of PostgreSQL are read, because it speaks the language of its lc_messages.
 */

/** The messages, node-postgres's own, of what it gives up. They have no code. */
export const QUERY_TIMEOUT_MESSAGE = 'Query read timeout';
const POOL_TIMEOUT_MESSAGE = 'timeout exceeded when trying to connect';
/** The messages of node-postgres for a session that has ended. Statements of our own tell it themselves (`sessionEnded`). */
const SESSION_ENDED_MESSAGES =
  /^(Connection terminated|Client (has encountered a connection error|was closed) and is not queryable)/;

const AWAY = 'The database cannot be reached now. Send the request again.';
const BROKEN = `The connection to the database broke. ${UNKNOWN_OUTCOME}`;

/** UNAVAILABLE for what failed while connecting: nothing was done. */
export function whileConnecting(error: unknown): AppError {
  return error instanceof AppError ? error : unavailable(AWAY, error);
}

/** UNAVAILABLE for a session that ended during a statement. */
export function sessionEnded(error: unknown): AppError {
  return error instanceof AppError ? error : unavailable(BROKEN, error);
}

/** A pool that tells of every failure to connect that nothing was done, with the reason as its cause. */
export class Pool extends pg.Pool {
  /** The last failure to connect. Prisma hands on only its code and its message. */
  lastFailure: AppError | null = null;
  /** The connections that were opened since the last `replaceAll`. */
  #current = new WeakSet<pg.PoolClient>();
  /** How many idle ones are about to be closed. */
  #closing = 0;

  constructor(config: pg.PoolConfig) {
    super(config);
    this.on('connect', (client) => this.#current.add(client));
  }

  override connect(): Promise<pg.PoolClient>;
  override connect(callback: ConnectCallback): void;
  override connect(callback?: ConnectCallback): Promise<pg.PoolClient> | undefined {
    if (callback === undefined)
      return new Promise((resolve, reject) => {
        this.connect((error, client) => (client === undefined ? reject(error) : resolve(client)));
      });
    super.connect((error, client, release) => {
      if (client === undefined) return callback(this.#fail(error), undefined, release);
      if (this.#current.has(client)) return callback(undefined, client, release);
      release(true);
      this.connect(callback);
    });
    return undefined;
  }

  /** Closes the connections that stand idle. */
  closeIdle(): void {
    for (; this.#closing < this.idleCount; this.#closing += 1) {
      super.connect((_error, client, release) => {
        this.#closing -= 1;
        if (client !== undefined) release(true);
      });
    }
  }

  /** Uses none of its connections again. Those that are in use are closed when they come back. */
  replaceAll(): void {
    this.closeIdle();
    this.#current = new WeakSet();
  }

  #fail(error: unknown): AppError {
    this.lastFailure = whileConnecting(error);
    return this.lastFailure;
  }
}

type ConnectCallback = (
  error: Error | undefined,
  client: pg.PoolClient | undefined,
  release: (release?: Error | boolean) => void,
) => void;

/**
 * SQLSTATEs of what is wrong with a statement or its values: a fault of ours, which the operator must see as an internal error. All other
 * classes are of what is around the statement: connections, locks, disks, limits, an administrator, the server itself. An unknown one is too.
 */
const OURS = /^(0[^8].{3}|1.{4}|2[0-7B-F].{3}|3.{4}|42.{3}|44.{3}|54.{3}|P0.{3}|HV.{3})$/;
/** Of these classes, what is not a fault of ours. */
const NOT_OURS = new Set([
  // The session was idle for too long in its transaction, or the transaction took too long.
  '25P03',
  '25P04',
  // The session lacks a prepared statement, or has one that it should not have: a pooler mixes sessions.
  '26000',
  '42P05',
  // The database of the connection is gone. Our statements name none.
  '3D000',
]);

/** What a pooler passes on of its own attempt to connect, and what a standby says of a change: nothing was done. */
const NOT_STARTED = /^(28.{3}|3D000|53300|57P03|25006|26000|42P05)$/;

/** The codes of Node.js for a socket that failed, or was not opened. */
const OF_NETWORK = /^(ECONN.+|EPIPE|ETIMEDOUT|EHOST.+|ENET.+|ENOTFOUND|EAI_.+)$/;

/** The form of what PostgreSQL answers, also through Prisma. Codes of Node.js begin with E. */
const SQLSTATE = /^[^E][0-9A-Z]{4}$/;

/** True if the database cannot be reached, refuses, or keeps what is needed locked. It may answer again soon. */
export function isUnreachable(error: unknown): boolean {
  return (toUnavailable(error) as Partial<AppError> | undefined)?.code === 'UNAVAILABLE';
}

/** An error of a model of Prisma as `pool` and its connections threw it; any other error as it is. */
export function fromPrisma(error: unknown, { lastFailure }: Pick<Pool, 'lastFailure'>): unknown {
  const { code, meta } = error as {
    code?: unknown;
    meta?: { driverAdapterError?: { cause?: Record<string, string> } };
  };
  if (code === 'UNAVAILABLE') return lastFailure ?? whileConnecting(error);
  const cause = meta?.driverAdapterError?.cause;
  if (cause === undefined) return error;
  const { originalCode, originalMessage, kind = '' } = cause;
  const told = Object.assign(new Error(originalMessage ?? kind, { cause: error }), { code: originalCode ?? kind });
  // Of a socket that fails, Prisma keeps only the kind. A failure to connect has its own error (`Pool`).
  return originalCode === undefined && ENDED_KINDS.has(kind) ? sessionEnded(told) : told;
}

const ENDED_KINDS = new Set(['ConnectionClosed', 'SocketTimeout', 'DatabaseNotReachable']);

const LOCKED =
  'What this request needs is locked, by an import or another long change. Nothing was changed. Send the request again.';

const TOO_SLOW =
  'The database took too long, and gave the statement up. Nothing was changed by it. Send the request again.';
const CONFLICTED =
  'Other changes of the same rows came between, several times. Nothing was changed. Send the request again.';

const FULL =
  'There is no space left on the disk of the database. The transaction was undone: nothing of it was changed. Send the request again when there is space.';
const SPOOL_FULL =
  'There is no space left on the disk for what is sent and received. Nothing was changed. Send the request again when there is space.';

/** UNAVAILABLE where a file between the network and the database does not fit on its disk; other errors as they are. */
export function toSpoolFull(error: unknown): unknown {
  return isNoSpace(error) ? unavailable(SPOOL_FULL, error) : error;
}

/** A follower tries again so often while the service is overloaded or the database is away. */
const FOLLOWER_RETRIES = { everyMs: 500, most: 60 } as const;

/** Does the work of a follower, patiently while the database cannot be reached. Throws the reason of `signal` when it aborts. */
export async function patiently<Done>(work: () => Promise<Done>, signal: AbortSignal): Promise<Done> {
  for (let retries = 0; ; retries += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isUnreachable(error) || retries === FOLLOWER_RETRIES.most) throw error;
    }
    await sleep(FOLLOWER_RETRIES.everyMs, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

/** UNAVAILABLE for what is around a statement: a database that is away, full, or a standby, a lock, a limit; a fault of ours as it is. */
export function toUnavailable(error: unknown): unknown {
  if (error instanceof AppError) return error;
  const code = codeOf(error);
  if (OF_NETWORK.test(code) || isQueryTimeout(error) || SESSION_ENDED_MESSAGES.test(messageOf(error)))
    return sessionEnded(error);
  if (!SQLSTATE.test(code)) return error;
  const words = UNDONE.find(([is]) => is(error))?.[1];
  if (words !== undefined) return unavailable(words, error);
  if (OURS.test(code) && !NOT_OURS.has(code) && !isReadOnly(error)) return error;
  return NOT_STARTED.test(code) ? whileConnecting(error) : sessionEnded(error);
}

const codeOf = (error: unknown) => String((failureIn(error) as { code?: unknown } | undefined)?.code);
const messageOf = (error: unknown) => String((failureIn(error) as Partial<Error> | undefined)?.message);
const hasMessage = (message: string) => (error: unknown) => messageOf(error) === message;
const hasCode = (code: RegExp) => (error: unknown) => code.test(codeOf(error));

/** True if we gave up waiting for the answer to a statement. */
export const isQueryTimeout = hasMessage(QUERY_TIMEOUT_MESSAGE);
/** No connection of the pool has become free in time. */
export const isBusy = hasMessage(POOL_TIMEOUT_MESSAGE);
/** A serialization failure or a deadlock. The database has undone the transaction, so it can be run again. */
export const isConflict = hasCode(/^(40001|40P01)$/);
/** The server has become a read-only standby. A new connection may reach the server that took over. */
export const isReadOnly = hasCode(/^25006$/);
/** PostgreSQL has undone a statement for which there was no space on its disk. */
export const isFull = hasCode(/^53100$/);
/** A file system has no space left, or the quota of the user is used up. */
const isNoSpace = hasCode(/^(ENOSPC|EDQUOT)$/);
/** The role lacks a right. */
export const isNotPermitted = hasCode(/^42501$/);
/** Another row has the same key. */
export const isUniqueViolation = hasCode(/^23505$/);
/** The target of a row's reference is not there. */
export const isForeignKeyViolation = hasCode(/^23503$/);
/** SQLSTATE class 22: the database could not accept a value. */
export const isDataException = hasCode(/^22...$/);
/** The statement is undone, and the session is as it was before: a new one would have to prepare every statement again. */
export const leavesSession = hasCode(/^(22...|23...|40...|53100|55P03|57014)$/);

/** This role may not migrate. Another role can. */
export class RefusedError extends Error {
  override name = 'RefusedError';

  constructor(
    message: string,
    /** The migrations. */
    readonly missing: string,
    cause: unknown,
  ) {
    super(message, { cause });
  }
}

/** Other transactions left no moment for a step of a migration. To try again later may help. */
export class HeldUpError extends Error {
  override name = 'HeldUpError';
  readonly exitCode = 4;
}

/** Another transaction has held a lock for longer than `lock_timeout`, which sessions for requests have. */
export const isLockTimeout = hasCode(/^55P03$/);
/** A statement took longer than `statement_timeout`, or was cancelled. */
export const isTooSlow = hasCode(/^57014$/);

/** A statement was given up because of its limits for locks and for time. */
export const isHeldBack = hasCode(/^(55P03|57014)$/);

/** By what PostgreSQL has undone a statement, and what the caller is told. */
const UNDONE: readonly (readonly [is: (error: unknown) => boolean, words: string])[] = [
  [isFull, FULL],
  [isLockTimeout, LOCKED],
  [isTooSlow, TOO_SLOW],
  [isConflict, CONFLICTED],
];
