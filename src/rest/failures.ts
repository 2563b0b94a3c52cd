/** What the OpenAPI document says of every route alike: the headers of its answers, and its failures. */

const text = { type: 'string' } as const;

export const HEADERS = {
  'X-Request-Id': {
    description:
      'The request, as the log of the service names it: the `X-Request-Id` that came with it, if sane, else a new one.',
    required: true,
    schema: text,
    example: 'c2a7b7a4-6a0f-4f0e-9d43-0d8f6d0a1f3e',
  },
  'WWW-Authenticate': {
    description: 'The scheme that needs no headers of its own.',
    required: true,
    schema: text,
    example: 'Basic realm="userdir"',
  },
  'Retry-After': {
    description: 'The seconds after which to come again.',
    required: true,
    schema: { ...text, pattern: '^[0-9]+$' },
    example: '12',
  },
  'RateLimit-Policy': {
    description: 'Where the service limits rates: the requests that a project may make (`q`) in so many seconds (`w`).',
    schema: text,
    example: '"project";q=600;w=60',
  },
  RateLimit: {
    description:
      'Where the service limits rates: the requests left (`r`), and the seconds until there are all again (`t`).',
    schema: text,
    example: '"project";r=599;t=60',
  },
  'Userdir-Ignored-Parameters': {
    description:
      'The parameters of the query that the route does not know and has ignored: their names, percent-encoded and separated by commas; the first ten of them at most, with 64 characters each.',
    schema: { ...text, pattern: "^[\\w%.!~*'()-]+(, [\\w%.!~*'()-]+){0,9}$" },
    example: 'pgae, start%20date',
  },
};

/** The one form of every failure. */
export const ERROR = {
  type: 'object' as const,
  description: 'The one form of every failure.',
  properties: { error: { ...text, description: 'What is wrong, for people to read.' } },
  required: ['error'],
  additionalProperties: false,
};

/** Of every answer to right credentials. */
const COMMON = ['RateLimit', 'RateLimit-Policy', 'Userdir-Ignored-Parameters'] as const;
export const SUCCESS_HEADERS = headersOf(...COMMON);

export const RESPONSES = {
  BadRequest: failure(
    'A malformed path, query or body. The error names the parameter, what arrived and what is accepted.',
    'limit: got "1000", expected a whole number from 1 to 100.',
    COMMON,
  ),
  Unauthenticated: failure(
    'The App ID or the App Secret is missing or wrong, or the secret has not the scope that this takes.',
    'The App ID or the App Secret is invalid.',
    ['WWW-Authenticate'],
  ),
  NotFound: failure('The project has no such user.', 'There is no user 42 in this project.', COMMON),
  TooManyRequests: failure(
    'The project is beyond its rate, where there is one; or too many wrong credentials came from this address or with this App ID.',
    'More than 600 requests of this project in a minute.',
    ['Retry-After', ...COMMON],
  ),
  Failed: failure(
    'The service failed. Repeat reads only, with a pause that grows, and a removal with its `Idempotency-Key`.',
    'The service could not complete the request.',
    COMMON,
  ),
  Unavailable: failure(
    'The service is starting, closing, or so busy that no more requests may wait. Nothing was done.',
    'The service is starting or closing.',
    ['Retry-After', ...COMMON],
  ),
  Refused: failure(
    'What HTTP itself refuses: 405 for another method, 408 for a request that takes too long to arrive, 413 for a body beyond 1 MiB, 431 for headers beyond 16 KiB.',
    'The request body is too large.',
    [],
  ),
};

/** The failures of a route, by status; `default` is every other. */
export function failuresOf(path: string): Record<string, { $ref: string }> {
  return {
    400: responseRef('BadRequest'),
    401: responseRef('Unauthenticated'),
    // Where there is a user to be found (spec, "Errors").
    ...(path.includes('{user_id}') && { 404: responseRef('NotFound') }),
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
    headers: headersOf(...headers),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' }, example: { error } } },
  };
}
