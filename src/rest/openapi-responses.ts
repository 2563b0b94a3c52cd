/** The parts of the OpenAPI document that all routes share: the headers of the answers, and the failures. */

import { ERROR_CODES } from '../errors.js';

const text = { type: 'string' } as const;

export const HEADERS = {
  'X-Request-Id': {
    description:
      'The ID of the request in the log of the service: the `X-Request-Id` of the request if it is well-formed, else a new one.',
    required: true,
    schema: text,
    example: 'c2a7b7a4-6a0f-4f0e-9d43-0d8f6d0a1f3e',
  },
  'Userdir-Error-Code': {
    description:
      'The code of the failure, as GraphQL has it in `extensions.code`. With 401 it tells wrong credentials (`UNAUTHENTICATED`) from a missing scope (`FORBIDDEN`) and a disabled project (`PROJECT_DISABLED`).',
    required: true,
    schema: { ...text, enum: [...ERROR_CODES] },
    example: 'BAD_USER_INPUT',
  },
  'WWW-Authenticate': {
    description: 'The authentication scheme that every HTTP client knows.',
    required: true,
    schema: text,
    example: 'Basic realm="userdir"',
  },
  'Retry-After': {
    description: 'The number of seconds to wait before a retry.',
    required: true,
    schema: { ...text, pattern: '^[0-9]+$' },
    example: '12',
  },
  'RateLimit-Policy': {
    description:
      'Sent where the service limits rates: the number of requests of a project (`q`) in a window of seconds (`w`).',
    schema: text,
    example: '"project";q=600;w=60',
  },
  RateLimit: {
    description:
      'Sent where the service limits rates: the requests left (`r`), and the seconds until the window ends (`t`).',
    schema: text,
    example: '"project";r=599;t=60',
  },
  'Userdir-Ignored-Parameters': {
    description:
      'Query parameters that the route does not know and has ignored: at most ten names, percent-encoded, separated by commas, cut to 64 characters each.',
    schema: { ...text, pattern: "^[\\w%.!~*'()-]+(, [\\w%.!~*'()-]+){0,9}$" },
    example: 'pgae, start%20date',
  },
  'Userdir-Next-Cursor': {
    description: 'Of a page of changes: where the next page begins.',
    schema: text,
    example: 'ZWUwMTBhODguMTUuNzI5MW8',
  },
  'Userdir-Has-More': {
    description: 'Of a page of changes: whether there is more now.',
    schema: { ...text, enum: ['true', 'false'] },
    example: 'false',
  },
};

/** The body of every failure. */
export const ERROR = {
  type: 'object' as const,
  description: 'The body of every failure.',
  properties: { error: { ...text, description: 'What is wrong, for people to read.' } },
  required: ['error'],
  additionalProperties: false,
};

/** Headers of every answer to a request with valid credentials. */
const COMMON = ['RateLimit', 'RateLimit-Policy', 'Userdir-Ignored-Parameters'] as const;
const SUCCESS_HEADERS = headersOf(...COMMON);
const CHANGES_HEADERS = headersOf('RateLimit', 'RateLimit-Policy', 'Userdir-Next-Cursor', 'Userdir-Has-More');

/** The headers of a success. */
export const successHeadersOf = (path: string) => (path === '/changes' ? CHANGES_HEADERS : SUCCESS_HEADERS);

export const RESPONSES = {
  BadRequest: failure(
    'A malformed path, query or body. The error names the parameter, what arrived and what is accepted.',
    'limit: got "1000", expected a whole number from 1 to 100.',
    COMMON,
  ),
  Unauthenticated: failure(
    'The App ID or the App Secret is missing or invalid, the secret lacks the scope for this request, or the project is disabled.',
    'The App ID or the App Secret is invalid.',
    ['WWW-Authenticate'],
  ),
  Forbidden: failure(
    'The App Secret lacks the scope for this request.',
    'The App Secret lacks the scope changes; it has read.',
    [],
  ),
  CursorExpired: failure(
    'Some of the changes after the cursor are no longer kept. Read all users again.',
    'The cursor has expired: changes are kept for 30 days, and some after it are gone.',
    [],
  ),
  NotFound: failure('The project has no such user.', 'There is no user 42 in this project.', COMMON),
  KeyReused: failure(
    'The `Idempotency-Key` was used for another request within 24 hours. Nothing was done.',
    'The idempotency key was used for another request.',
    COMMON,
  ),
  TooManyRequests: failure(
    'The project has exceeded its rate limit, or too many invalid credentials came from this address or with this App ID.',
    'More than 600 requests of this project in a minute.',
    ['Retry-After', ...COMMON],
  ),
  Failed: failure(
    'The service failed. Retry reads with a growing pause, and a removal with the same `Idempotency-Key`.',
    'The service could not complete the request.',
    COMMON,
  ),
  Unavailable: failure(
    'The service is starting, stopping, or too busy to queue more requests. Nothing was done: retry.',
    'The service is starting or closing.',
    ['Retry-After', ...COMMON],
  ),
  Refused: failure(
    'The request is refused as HTTP: 405 for another method, 408 when it takes too long to arrive, 413 for a body over 1 MiB, 431 for headers over 16 KiB.',
    'The request body is too large.',
    [],
  ),
};

/** The failures of a route, by status; `default` is every other. */
export function failuresOf(method: string, path: string): Record<string, { $ref: string }> {
  return {
    400: responseRef('BadRequest'),
    401: responseRef('Unauthenticated'),
    // Only a route that names a user (spec, "Errors").
    ...(path.includes('{user_id}') && { 404: responseRef('NotFound') }),
    // Under /server it is 401 (spec, "Authentication").
    ...(!path.startsWith('/server') && { 403: responseRef('Forbidden') }),
    ...(path === '/changes' && { 410: responseRef('CursorExpired') }),
    ...(method === 'delete' && { 409: responseRef('KeyReused') }),
    429: responseRef('TooManyRequests'),
    500: responseRef('Failed'),
    503: responseRef('Unavailable'),
    default: responseRef('Refused'),
  };
}

function responseRef(name: keyof typeof RESPONSES) {
  return { $ref: `#/components/responses/${name}` };
}

function headersOf(...names: (keyof typeof HEADERS)[]) {
  const all = ['X-Request-Id', ...names] as const;
  return Object.fromEntries(all.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

function failure(description: string, error: string, headers: readonly (keyof typeof HEADERS)[]) {
  return {
    description,
    headers: headersOf('Userdir-Error-Code', ...headers),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' }, example: { error } } },
  };
}
