/** What a failure of the database means for the caller: whether to try again, and whether it can answer at all. */

/** The message of pg for a statement that was not answered in time. It has no code. */
const QUERY_TIMEOUT_MESSAGE = 'Query read timeout';

const UNREACHABLE_CODES = new Set([
  ...['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'EPIPE'],
  // Too many connections; ended by the administrator or by a crash; starting up.
  ...['53300', '57P01', '57P02', '57P03'],
]);
/** Failures to which pg gives no code. */
const UNREACHABLE_MESSAGES = /^(timeout exceeded when trying to connect|Connection terminated|Query read timeout)/;

/** Whether the database cannot be reached or takes no connections now. It may be reachable again soon. */
export function isUnreachable(error: unknown): boolean {
  return (
    UNREACHABLE_CODES.has(codeOf(error)) || UNREACHABLE_MESSAGES.test(String((error as { message?: unknown }).message))
  );
}

/** Whether pg gave up waiting for the answer to a statement. */
export function isQueryTimeout(error: unknown): boolean {
  return (error as Error).message === QUERY_TIMEOUT_MESSAGE;
}

/** A serialization failure or a deadlock. The database has undone the transaction, so it can be run again. */
export function isConflict(error: unknown): boolean {
  return ['40001', '40P01'].includes(codeOf(error));
}

/** The server has become a read-only standby. A new connection may reach the server that took over. */
export function isReadOnly(error: unknown): boolean {
  return codeOf(error) === '25006';
}

/** Another row has the same key. */
export function isUniqueViolation(error: unknown): boolean {
  return codeOf(error) === '23505';
}

/** SQLSTATE class 22: the database could not accept a value. */
export function isDataException(error: unknown): boolean {
  return /^22...$/.test(codeOf(error));
}

function codeOf(error: unknown): string {
  return String((error as { code?: unknown }).code);
}
