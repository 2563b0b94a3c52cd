import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, UNKNOWN_OUTCOME, unavailable } from '../errors.js';

/* Tells what a failure of the database means for the caller: to try again, or that it cannot answer at all. */

/** The message, pg's own, for a statement that was not answered in time. It has no code. */
export const QUERY_TIMEOUT_MESSAGE = 'Query read timeout';

const UNREACHABLE_CODES = new Set([
  ...['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'EPIPE'],
  // Too many connections; ended by the administrator or by a crash; starting up.
  ...['53300', '57P01', '57P02', '57P03'],
  // An error that toUnavailable has made.
  'UNAVAILABLE',
]);
/** Failures to which pg gives no code. */
const UNREACHABLE_MESSAGES = /^(timeout exceeded when trying to connect|Connection terminated|Query read timeout)/;

/** SQLSTATE class 08: the connection broke. A pooler reports its own failures so. */
const BROKEN_CONNECTION = /^08...$/;

/** True if the database cannot be reached or takes no connections now. It may be reachable again soon. */
export function isUnreachable(error: unknown): boolean {
  const { message, severity } = error as { message?: unknown; severity?: unknown };
  const code = codeOf(error);
  return (
    UNREACHABLE_CODES.has(code) ||
    UNREACHABLE_MESSAGES.test(String(message)) ||
    // With another severity, 08P01 is about one statement.
    (BROKEN_CONNECTION.test(code) && severity === 'FATAL')
  );
}

/** Failures before a statement was sent, or that refused it. */
const NOT_STARTED_CODES = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', '53300', '57P03', '25006']);
const NOT_STARTED_MESSAGES =
  /^(timeout exceeded when trying to connect|Connection terminated due to connection timeout)/;

function isNotStarted(error: unknown): boolean {
  const { message, syscall } = error as { message?: unknown; syscall?: unknown };
  return syscall === 'connect' || NOT_STARTED_CODES.has(codeOf(error)) || NOT_STARTED_MESSAGES.test(String(message));
}

const AWAY = 'The database cannot be reached now. Send the request again.';
const BROKEN = `The connection to the database broke. ${UNKNOWN_OUTCOME}`;

/** The codes of node-postgres for what Prisma tells of connections only by words. */
const CODES_OF_KINDS: Record<string, string> = {
  DatabaseNotReachable: 'ECONNREFUSED',
  ConnectionClosed: 'ECONNRESET',
  SocketTimeout: 'ETIMEDOUT',
};

/** An error of a model of Prisma as node-postgres threw it; any other error as it is. */
export function fromPrisma(error: unknown): unknown {
  const { meta } = error as { meta?: { driverAdapterError?: { cause?: Record<string, string> } } };
  const cause = meta?.driverAdapterError?.cause;
  if (cause === undefined) return error;
  const { originalCode, originalMessage, kind = '' } = cause;
  const code = originalCode ?? CODES_OF_KINDS[kind] ?? kind;
  return Object.assign(new Error(originalMessage ?? kind, { cause: error }), {
    code,
    // Prisma keeps neither. A model's statement is short, so what took too long was a lock.
    ...(BROKEN_CONNECTION.test(code) && { severity: 'FATAL' }),
    ...(code === '57014' && { where: 'while locking a row' }),
  });
}

const LOCKED =
  'What this request needs is locked, by an import or another long change. Nothing was changed. Send the request again.';

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

/** UNAVAILABLE where the database is away, full, has become a standby, or keeps a row locked; other errors as they are. */
export function toUnavailable(error: unknown): unknown {
  if (isFull(error)) return unavailable(FULL, error);
  if (isLockTimeout(error)) return unavailable(LOCKED, error);
  if (error instanceof AppError || !(isUnreachable(error) || isReadOnly(error))) return error;
  return unavailable(isNotStarted(error) ? AWAY : BROKEN, error);
}

const hasMessage = (message: string) => (error: unknown) => (error as Error).message === message;
const hasCode = (code: RegExp) => (error: unknown) => code.test(codeOf(error));

/** True if we gave up waiting for the answer to a statement. */
export const isQueryTimeout = hasMessage(QUERY_TIMEOUT_MESSAGE);
/** No connection of the pool has become free in time. */
export const isBusy = hasMessage('timeout exceeded when trying to connect');
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

/** PostgreSQL's words for a wait for the transaction that holds a row. */
const AT_A_ROW = /^while (updating|deleting|locking|inserting index|rechecking|checking) /;

/** Another transaction has held a lock for longer than was to be waited, or than a statement may take. */
export function isLockTimeout(error: unknown): boolean {
  const { where } = error as { where?: unknown };
  return codeOf(error) === '55P03' || (codeOf(error) === '57014' && AT_A_ROW.test(String(where)));
}

/** A statement was given up because of its limits for locks and for time. */
export const isHeldBack = hasCode(/^(55P03|57014)$/);

/** PostgreSQL has undone the statement for a lock. */
export function isHeldUp(error: unknown): boolean {
  const { cause } = error as Error;
  return cause !== undefined && isLockTimeout(cause);
}

/** PostgreSQL has said that it undid the statement. Otherwise it is unknown whether it was committed. */
export function wasUndone(error: unknown): boolean {
  return leavesSession(error) || leavesSession((error as Error).cause);
}

function codeOf(error: unknown): string {
  return String((error as { code?: unknown } | undefined)?.code);
}
