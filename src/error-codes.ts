/** What the code of an error means to a caller. */
interface Meaning {
  /** Over HTTP. */
  readonly status: number;
  readonly cause: string;
  readonly remedy: string;
  /** Whether, and when, the same request may succeed. */
  readonly retry: string;
}

const AFTER = 'after `retryAfter`';
const ONCE = 'a change only with its idempotency key';

/** Every code. `npm run docs:errors` writes them into docs/errors.md. */
export const MEANINGS = {
  BAD_USER_INPUT: {
    status: 400,
    cause: 'a value, a document or a request is malformed, or beyond a [limit](limits.md)',
    remedy: 'correct what the message names; `extensions.argument` has the argument',
    retry: 'no',
  },
  UNAUTHENTICATED: {
    status: 401,
    cause: 'the App ID or the App Secret is missing or wrong',
    remedy: 'check both, and that they are sent as headers or as HTTP Basic',
    retry: 'no',
  },
  FORBIDDEN: {
    status: 403,
    cause: 'the App Secret lacks the [scope](operating.md#secrets) that the message names',
    remedy: 'use a secret that has it',
    retry: 'no',
  },
  /** Its credentials are right, and refused until the operator enables the project again. */
  PROJECT_DISABLED: {
    status: 403,
    cause: 'the operator has disabled the project',
    remedy: 'ask the operator',
    retry: 'no',
  },
  BANNED: {
    status: 403,
    cause: '`recordLogin` of a banned identity',
    remedy: 'do not log the person in',
    retry: 'no',
  },
  NOT_FOUND: {
    status: 404,
    cause: 'the project has no such user, or the service has no such path',
    remedy: 'take the user for removed; check the path',
    retry: 'no',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    cause: 'the path has other methods',
    remedy: 'use one that `Allow` names',
    retry: 'no',
  },
  REQUEST_TIMEOUT: {
    status: 408,
    cause: 'the request did not arrive in time',
    remedy: 'send it again',
    retry: 'yes',
  },
  /** The project has registered no such document. */
  DOCUMENT_NOT_FOUND: {
    status: 404,
    cause: 'the project has no document with this `documentId`',
    remedy: '[register](graphql.md#registered-documents) it',
    retry: 'once it is registered',
  },
  /** The secret is for registered documents only. */
  DOCUMENT_REQUIRED: {
    status: 403,
    cause: 'the App Secret is for [registered documents](graphql.md#registered-documents) only',
    remedy: 'send a `documentId` instead of a query',
    retry: 'no',
  },
  /** Over application/json it is 200 (graphql/plugin.ts). */
  PERSISTED_QUERY_NOT_FOUND: {
    status: 404,
    cause: 'the hash of an automatic persisted query is not known; as `application/json` with status 200',
    remedy: 'send the query with its hash; clients do so themselves',
    retry: 'with the query',
  },
  CONFLICT: {
    status: 409,
    cause: '`recordLogin` with an external ID that another user has, or of a user who has another one',
    remedy: 'find out whose external ID it is',
    retry: 'no',
  },
  CURSOR_EXPIRED: {
    status: 410,
    cause: 'some of the changes after the cursor are gone',
    remedy: '[start again](changes.md#start-without-a-gap)',
    retry: 'no',
  },
  /** A retry with the key cannot succeed. */
  IDEMPOTENCY_KEY_REUSED: {
    status: 409,
    cause: 'the idempotency key was used for another request; nothing was done',
    remedy: 'use a new key for each change, and the same for its retries',
    retry: 'no',
  },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    cause: 'the body is larger than the route [takes](limits.md)',
    remedy: 'send less at once',
    retry: 'no',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    cause: 'a body that is not sent as JSON',
    remedy: 'send `Content-Type: application/json`',
    retry: 'no',
  },
  RATE_LIMITED: {
    status: 429,
    cause:
      'the project is beyond its rate limit; or too many authentications failed from this address or with this App ID',
    remedy: 'send fewer requests at once; check the credentials',
    retry: AFTER,
  },
  HEADERS_TOO_LARGE: {
    status: 431,
    cause: 'headers beyond 16 KiB, or more than 100',
    remedy: 'send fewer',
    retry: 'no',
  },
  UNAVAILABLE: {
    status: 503,
    cause:
      'the service is starting, stopping or overloaded, the database is away, or what is to be changed is locked or being moved; nothing was done, unless the message says that the connection broke',
    remedy: 'wait',
    retry: `${AFTER}; where the connection broke, ${ONCE}`,
  },
  /** Its message is for the operator, not for the caller. */
  INTERNAL_SERVER_ERROR: {
    status: 500,
    cause: 'the service failed; the reason is in its log only',
    remedy: 'tell the operator the `X-Request-Id`',
    retry: `with a growing pause; ${ONCE}`,
  },
} satisfies Record<string, Meaning>;

export type ErrorCode = keyof typeof MEANINGS;
