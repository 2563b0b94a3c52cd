/** What is known of a failure beside its words. */
type Details = Pick<UserdirError, 'code'> &
  Partial<Pick<UserdirError, 'status' | 'requestId' | 'retryAfter' | 'argument' | 'userId' | 'cause'>>;

/** The one error of the client. It never contains the App Secret. */
export class UserdirError extends Error {
  override readonly name = 'UserdirError';
  /** Of the service (docs/errors.md); or `NO_ANSWER`, `BAD_ANSWER` for what is not from the service, `WEBHOOK_NOT_VERIFIED`. */
  readonly code: string;
  /** The HTTP status of the answer: 200 where a field has failed. Null without an answer. */
  readonly status: number | null;
  /** The ID of the request in the log of the service; null where nothing was sent. */
  readonly requestId: string | null;
  /** The seconds after which a retry can help, as the service says; null where it does not say so. */
  readonly retryAfter: number | null;
  /** The argument whose value was refused, or the path to the value within it; null otherwise. */
  readonly argument: string | null;
  /** Of `CONFLICT`: the other user, who has what was given; null where the service does not say who. */
  readonly userId: string | null;

  constructor(message: string, details: Details) {
    super(message, details);
    this.code = details.code;
    this.status = details.status ?? null;
    this.requestId = details.requestId ?? null;
    this.retryAfter = details.retryAfter ?? null;
    this.argument = details.argument ?? null;
    this.userId = details.userId ?? null;
  }
}

/** BAD_USER_INPUT for what is refused before it is sent. The value is not repeated: it may be a secret. */
export function badInput(argument: string, accepted: string): UserdirError {
  return new UserdirError(`${argument}: expected ${accepted}.`, { code: 'BAD_USER_INPUT', argument });
}

const PASSING = ['NO_ANSWER', 'UNAVAILABLE', 'INTERNAL_SERVER_ERROR', 'REQUEST_TIMEOUT'];

/** Whether the same request may succeed later. A page of a proxy may come with any status, and an answer may be cut off. */
export function isPassing(error: unknown): error is UserdirError {
  if (!(error instanceof UserdirError)) return false;
  const { code, status, retryAfter } = error;
  if (retryAfter !== null || PASSING.includes(code)) return true;
  return status !== null && (status >= 500 || status === 408 || (status === 200 && code === 'BAD_ANSWER'));
}
