import { existsSync } from 'node:fs';
import { HEADER_BYTES, MAX_HEADERS } from './domain/bounds.js';

/* The one domain error: services throw `AppError(code, message)`. REST gives it a status and `{"error"}` (spec, "Errors"), GraphQL a message with `extensions.code`. */

/** The command in a message: a checkout does not put it on the PATH, as the package and the image do. */
export const COMMAND = existsSync(new URL('../src/', import.meta.url)) ? 'npm run -s userdir --' : 'userdir';

/** The meaning of an error's code for a caller. */
interface Meaning {
  /** Over HTTP. */
  readonly status: number;
  readonly cause: string;
  /** With when to send the same request again, where it may succeed. */
  readonly remedy: string;
}

/** Every code. `npm run docs:errors` writes them into docs/errors.md. */
export const MEANINGS = {
  BAD_USER_INPUT: {
    status: 400,
    cause: 'a value, a document or a request is malformed, or beyond a [limit](limits.md)',
    remedy: 'correct what the message names',
  },
  UNAUTHENTICATED: {
    status: 401,
    cause: 'the App ID or the App Secret is missing or wrong',
    remedy: 'check that both are of one project; send them as headers or by HTTP Basic',
  },
  FORBIDDEN: {
    status: 403,
    cause: 'the App Secret lacks the [scope](credentials.md#scopes) that the message names',
    remedy: 'use a secret that has it',
  },
  /** Its credentials are right, and refused until the operator enables the project again. */
  PROJECT_DISABLED: {
    status: 403,
    cause: 'the operator has disabled the project',
    remedy: 'ask the operator',
  },
  BANNED: {
    status: 403,
    cause: 'the identity of the login or the link is banned',
    remedy: 'do not log the person in',
  },
  NOT_FOUND: {
    status: 404,
    cause: 'the project has no such user, or what else the message names',
    remedy: 'treat the user as removed',
  },
  /** A code of its own, so that no caller takes a wrong path for a removed user. */
  PATH_NOT_FOUND: {
    status: 404,
    cause: 'nothing is at this path; this says nothing about a user',
    remedy: 'correct the path',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    cause: 'the path does not have this method',
    remedy: 'use a method of the header `Allow`',
  },
  REQUEST_TIMEOUT: {
    status: 408,
    cause: 'the request did not arrive in time',
    remedy: 'send it again',
  },
  DOCUMENT_NOT_FOUND: {
    status: 404,
    cause: 'no document has this `documentId`',
    remedy: '[add](graphql.md#documents-by-id) it to `DOCUMENTS_DIR`',
  },
  /** Over application/json it is 200 (graphql/plugin.ts). */
  PERSISTED_QUERY_NOT_FOUND: {
    status: 404,
    cause: 'the hash of this automatic persisted query is not known',
    remedy: 'send the query with its hash, as client libraries do',
  },
  CONFLICT: {
    status: 409,
    cause:
      'another user, `extensions.userId`, has the external ID or the identity; or the user has another external ID, or is in a state that the message names',
    remedy: 'use that user, or merge the two; `updateUser` gives another external ID',
  },
  CURSOR_EXPIRED: {
    status: 410,
    cause: 'changes after the cursor are gone',
    remedy: '[start again](changes.md#start-without-a-gap)',
  },
  /** A retry with the key cannot succeed. */
  IDEMPOTENCY_KEY_REUSED: {
    status: 409,
    cause: 'the idempotency key was used for another request',
    remedy: 'use a new key for each change',
  },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    cause: 'the body is larger than the route [accepts](limits.md)',
    remedy: 'send a smaller body',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    cause: 'the body is not sent as JSON',
    remedy: 'send `Content-Type: application/json`',
  },
  RATE_LIMITED: {
    status: 429,
    cause:
      'the project exceeds its rate limit; or too many authentications from this address or with this App ID have failed',
    remedy: 'wait `retryAfter` seconds, and send less often; check the credentials',
  },
  HEADERS_TOO_LARGE: {
    status: 431,
    cause: `the headers are more than ${HEADER_BYTES / 1_024} KiB, or more than ${MAX_HEADERS}`,
    remedy: 'send fewer headers',
  },
  UNAVAILABLE: {
    status: 503,
    cause:
      'the service starts, stops or is overloaded; the database is away, full, or refuses; what the request changes is locked; or the request waited too long. Nothing was done, unless the message says otherwise',
    remedy:
      'wait `retryAfter` seconds, and send it again; if the message says that a change was made, or may have been, only with its key',
  },
  /** Its message is for the operator, not for the caller. */
  INTERNAL_SERVER_ERROR: {
    status: 500,
    cause: 'the service failed; its log has the reason',
    remedy: 'send it again with longer pauses, a change only with its key; tell the operator the `X-Request-Id`',
  },
} satisfies Record<string, Meaning>;

export type ErrorCode = keyof typeof MEANINGS;
export const ERROR_CODES = Object.keys(MEANINGS) as readonly ErrorCode[];

export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(MEANINGS, code);
}

/** The address of what a code means. */
export type DocsOf = (code: ErrorCode) => string;

/** The addresses of a service: paths, with PUBLIC_URL before them where it is set. */
export function docsAt(publicUrl: string | null): DocsOf {
  return (code) => `${publicUrl ?? ''}/docs/errors#${code}`;
}

const MASKED_MESSAGE = 'The service could not complete the request.';

/** The subject of a failure other than BAD_USER_INPUT, whose message names it. */
export interface Subject {
  /** The names that callers have for the value at fault. Of the first that a field has, GraphQL tells the place. */
  readonly names: readonly string[];
  /** The other user who has what was given, where that is known. */
  readonly userId?: number | null;
}

export class AppError extends Error {
  override name = 'AppError';
  /** Response headers that belong to this failure, such as WWW-Authenticate or Allow. */
  readonly headers: Readonly<Record<string, string>>;
  readonly subject: Subject | null;

  constructor(
    readonly code: ErrorCode,
    message: string,
    options: { cause?: unknown; headers?: Record<string, string>; subject?: Subject | null } = {},
  ) {
    // A mistake of a caller is not a fault in our code. Recording the stack takes longer than the rest of a refusal.
    const { stackTraceLimit } = Error;
    if (code !== 'INTERNAL_SERVER_ERROR') Error.stackTraceLimit = 0;
    super(redact(message), { cause: options.cause });
    Error.stackTraceLimit = stackTraceLimit;
    this.headers = options.headers ?? {};
    this.subject = options.subject ?? null;
  }

  get status(): number {
    return MEANINGS[this.code].status;
  }

  /** The seconds to wait before a retry; null where it would not help. */
  get retryAfter(): number | null {
    const seconds = this.headers['retry-after'];
    return seconds === undefined ? null : Number(seconds);
  }

  /** The message for the caller; one fixed sentence instead, if the message could reveal internals. */
  get publicMessage(): string {
    return this.code === 'INTERNAL_SERVER_ERROR' ? MASKED_MESSAGE : this.message;
  }
}

/** Of a failure that is over soon. */
export const RETRY_SOON = { 'retry-after': '1' };

/** UNAVAILABLE for a moment: the caller is to send the request again. */
export function unavailable(message: string, cause?: unknown): AppError {
  return new AppError('UNAVAILABLE', message, { cause, headers: RETRY_SOON });
}

/** What an error tells of: UNAVAILABLE has the failure as its cause. */
export const failureIn = (error: unknown): unknown => (error instanceof AppError ? (error.cause ?? error) : error);

/** Of a request whose outcome is unknown: what its caller may do. */
export const UNKNOWN_OUTCOME =
  'What was to be written may or may not have been written: send the request again if it only reads, or if it has an idempotency key.';

/** UNAVAILABLE of what is read after a change was made, so that it does not say that nothing was done; other errors as they are. */
export function afterChange(error: unknown): unknown {
  return error instanceof AppError && error.code === 'UNAVAILABLE' ? unavailable(DONE, error) : error;
}

const DONE =
  'The change was made, but its answer could not be read. Read what you need, and send the change again only with an idempotency key.';

/** What is read for the answer to a change that was made. */
export function afterwards<Result>(reading: Promise<Result>): Promise<Result> {
  return reading.catch((error) => {
    throw afterChange(error);
  });
}

/** UNAVAILABLE for what has waited until its time was over, and is not begun any more. */
export function withdrawn(): AppError {
  return unavailable(WITHDRAWN);
}

const WITHDRAWN = 'The request has waited for too long. Nothing was changed. Send the request again.';
export const isWithdrawn = (error: unknown): boolean => error instanceof AppError && error.message === WITHDRAWN;

/** Any thrown value as an AppError. An unknown one becomes INTERNAL_SERVER_ERROR and keeps its cause for the log. */
export function fromUnknown(error: unknown): AppError {
  if (error instanceof AppError) return error;
  const status = (error as { statusCode?: unknown } | null)?.statusCode;
  if (typeof status === 'number' && status >= 400 && status < 500) return fromHttpFailure(status, error);
  return new AppError('INTERNAL_SERVER_ERROR', MASKED_MESSAGE, { cause: error });
}

/** The error of a request that Fastify refused before it reached our code. */
function fromHttpFailure(status: number, cause: unknown): AppError {
  const [code, message] = HTTP_FAILURES[status] ?? ['BAD_USER_INPUT', (cause as Error).message];
  return new AppError(code, message || 'The request is malformed.', { cause });
}

export const NO_SUCH_PATH =
  'There is nothing at this path: use POST /graphql, or a route that /docs/reference of the service lists.';

const HTTP_FAILURES: Record<number, readonly [ErrorCode, string]> = {
  404: ['PATH_NOT_FOUND', NO_SUCH_PATH],
  // http/failures.ts says how large it may be.
  413: ['PAYLOAD_TOO_LARGE', 'The body is too large.'],
  // http/failures.ts says which type the request has.
  415: ['UNSUPPORTED_MEDIA_TYPE', 'The body has another content type than application/json.'],
};

/** A longer value is not repeated: neither secrets nor phrases of secret words are so short. */
const SHOWN_LENGTH = 40;
/** A longer text is not searched for what must be hidden, and not shown either. */
const READ_LENGTH = 400;

/** A value as an error repeats it: quoted, on one line, without secrets, emails and addresses. Of a long one only the length is told. */
export function show(value: unknown): string {
  if (value === undefined) return 'nothing';
  const shown = asJson(value, typeof value === 'string' ? SHOWN_LENGTH + '""'.length : SHOWN_LENGTH);
  if (shown !== null) return shown;
  // Limits count the characters or the bytes of a text itself.
  if (typeof value === 'string') return lengthsOf(value);
  const length = lengthOf(value);
  return length === null ? 'JSON that nests too deeply' : `JSON of ${length} characters`;
}

/** How long a text is. In ASCII, characters and bytes are as many. */
function lengthsOf(text: string): string {
  const bytes = Buffer.byteLength(text);
  return `a text of ${text.length} characters${bytes === text.length ? '' : ` (${bytes} bytes)`}`;
}

/** A value as JSON, without what must be hidden; null if that takes more than `room`. */
function asJson(value: unknown, room: number): string | null {
  if (room <= 0) return null;
  let text: string;
  if (typeof value === 'string') {
    if (value.length > READ_LENGTH) return null;
    text = JSON.stringify(redact(value));
    // JSON has no form of its own for 1e999 and for a bigint.
  } else if (typeof value !== 'object' || value === null) text = String(value);
  else {
    const isList = Array.isArray(value);
    text = isList ? '[' : '{';
    for (const [key, item] of Object.entries(value)) {
      const left = room - text.length;
      const [name, shown] = [isList ? '' : asJson(key, left), asJson(item, left)];
      if (name === null || shown === null) return null;
      text += `${text.length > 1 ? ',' : ''}${isList ? '' : `${name}:`}${shown}`;
    }
    text += isList ? ']' : '}';
  }
  return text.length <= room ? text : null;
}

/** The length of a value as JSON; null if it nests too deeply to be written. */
function lengthOf(value: unknown): number | null {
  if (typeof value !== 'object') return String(value).length;
  try {
    return JSON.stringify(value).length;
  } catch {
    return null;
  }
}

/** The sentence for a bad value: its name, what arrived, what is accepted. */
export function expected(name: string, value: unknown, accepted: string): string {
  return `${name}: got ${show(value)}, expected ${accepted}.`;
}

/** BAD_USER_INPUT for one value. */
export function badInput(name: string, value: unknown, accepted: string): AppError {
  return new AppError('BAD_USER_INPUT', expected(name, value, accepted));
}

/**
 * Secrets and personal data with a recognizable form, which no log or error may have. Lengths are bounded, so that the time grows with the text.
 * Anything may stand before one, such as the letter of an escape in JSON.
 */
const FORMS: readonly [form: RegExp, word: string][] = [
  [/uds_[\w-]{8,}/g, '[secret]'],
  [/whsec_[\w+/=-]{8,}/g, '[secret]'],
  // A JSON Web Token.
  [/eyJ[\w-]{8,}(?:\.[\w-]*){0,4}/g, '[secret]'],
  // A scope of packages in a path, /@scope/name, is none: a domain has no slash.
  [
    /[^\s"'`<>()[\]{},;:=@]{1,64}@(?:(?<!\/@)|(?![\w-]{1,214}\/))[^\s"'`<>()[\]{},;:=@\\]{1,253}\.[^\s"'`<>()[\]{},;:=@\\.]{2,63}/g,
    '[email]',
  ],
  [/(?<![A-Z2-7])G[A-Z2-7]{55}(?![A-Z2-7])/g, '[address]'],
  [/0x[0-9a-f]{40}(?![0-9a-f])/gi, '[address]'],
  // A private key: of Stellar (a seed), of Bitcoin (WIF), in hexadecimal.
  [/(?<![A-Z2-7])S[A-Z2-7]{55}(?![A-Z2-7])|\b[5KL9c][1-9A-HJ-NP-Za-km-z]{50,51}\b|0x[0-9a-f]{64}/g, '[secret]'],
  // An address with a typing error, at the beginning of a word, so that each word is read once. The digits tell it from a long name.
  [/(?<=^|[^a-z0-9]|\\[bfnrt])(?=g[a-z0-9]{40}|0x[a-z0-9]{30})(?=(?:[a-z]*\d){3})[a-z0-9]+/gi, '[address]'],
  // Any other key in one word, also with a typing error. Hashes and IDs of so many characters are hidden with them.
  [/(?<=^|[^a-z0-9]|\\[bfnrt])(?=(?:[a-z]*\d){3})(?=\d*[a-z])[a-z0-9]{48,}/gi, '[secret]'],
  // A phrase of secret words (BIP-39): 12 words or more of 3 to 8 letters. Sentences have shorter words and full stops between.
  [
    /(?<![\p{L}\p{M}])(?:[\p{L}\p{M}]{3,8}(?:[\s,;-]|\\[nrt]|", ?"){1,4}){11,}[\p{L}\p{M}]{3,8}(?![\p{L}\p{M}])/gu,
    '[secret]',
  ],
];

/** Only this much of a text is searched and kept. No error and no log line needs more. */
const MAX_LENGTH = 20_000;

/** Replaces each secret, email and address by a word, and cuts a very long text. */
export function redact(text: string): string {
  const searched = text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text;
  return FORMS.reduce((redacted, [form, word]) => redacted.replace(form, word), searched);
}

/** "1 user", "2 users". */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
