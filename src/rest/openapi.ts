import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance, FastifySchema } from 'fastify';
import { createJsonSchemaTransform, createJsonSchemaTransformObject } from 'fastify-type-provider-zod';
import type { z } from 'zod';
import { BODY_BYTES, HEADER_BYTES, MAX_HEADERS, VERDICTS_BODY_BYTES } from '../domain/bounds.js';
import { KEY_KEPT_HOURS } from '../domain/parse.js';
import type { Permission } from '../domain/projects.js';
import { ERROR_CODES } from '../errors.js';
import { type DemoCredentials, pagePolicy, SITE, withDemo } from '../http/public-routes.js';

const DESCRIPTION = `The users of one project: the one whose App ID and App Secret come with the request. For backends only.

- **Credentials** are HTTP Basic, with the App ID as user name and the App Secret as password, or the headers \`service-app-id\` and \`service-app-secret\`. They are checked first: without them every path under \`/server\` is 401.
- **Success** is \`{"message", "result"}\`, **failure** \`{"error"}\`, which names the parameter, what arrived and what is accepted.
- **Retries**: reads can be retried with a growing pause; a removal with the same \`Idempotency-Key\`.
- **Every answer** has an \`X-Request-Id\`: the one you sent, else a new one. The log of the service has it too.

The [guide](/docs/rest) explains more. The reference is made of the schemas that check the requests: [/openapi.json](/openapi.json). The same services answer over GraphQL at \`/graphql\`.`;

/** The part of the document that this file changes. */
interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, unknown> };
}

interface Parameter {
  name: string;
  readonly in: string;
  required: boolean;
  description: string;
  example?: unknown;
  schema: { type?: string; example?: unknown };
}

interface Operation {
  parameters?: Parameter[];
  requestBody?: { content?: Record<string, Media> };
  responses: Record<string, { content?: Record<string, Media> }>;
}

interface Media {
  example?: unknown;
  schema: { example?: unknown };
}

const zodToJsonConfig: Pick<z.core.ToJSONSchemaParams, 'override'> = {
  /** Removes the largest exact number, and the calendar as a regular expression. Objects of answers stay open (docs/compatibility.md). */
  override: ({ zodSchema, jsonSchema }) => {
    if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    if (jsonSchema.format === 'date-time') delete jsonSchema.pattern;
    const { def } = zodSchema._zod;
    if (def.type === 'default') jsonSchema.default = def.defaultValue;
    if (def.type === 'object' && def.catchall === undefined) delete jsonSchema.additionalProperties;
  },
};
const transformRoute = createJsonSchemaTransform({ zodToJsonConfig });
const transformObject = createJsonSchemaTransformObject({ zodToJsonConfig });

export interface OpenApiOptions {
  readonly version: string;
  /** Where callers reach the service; null where the settings do not say it. */
  readonly publicUrl: string | null;
  readonly demoCredentials: DemoCredentials;
}

/**
 * Serves the OpenAPI 3.1 document of the REST interface at /openapi.json, generated from the schemas that check the requests, and at /docs/try a page
 * that sends requests, with the credentials of a demo project. It is called before the routes are registered. guides/reference.js makes the reference of it.
 */
export async function serveOpenApi(
  app: FastifyInstance,
  { version, publicUrl, demoCredentials }: OpenApiOptions,
): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'userdir REST interface', version, description: DESCRIPTION },
      servers: [{ url: publicUrl ?? '/', description: 'The service that serves this document.' }],
      components: {
        securitySchemes: {
          appId: { type: 'apiKey', in: 'header', name: 'service-app-id', description: 'App ID.' },
          appSecret: { type: 'apiKey', in: 'header', name: 'service-app-secret', description: 'App Secret.' },
          basic: { type: 'http', scheme: 'basic', description: 'App ID as user name, App Secret as password.' },
        },
        headers: HEADERS,
        responses: RESPONSES,
        schemas: {
          Error: {
            type: 'object',
            description: 'The body of every failure.',
            properties: { error: { type: 'string', description: 'What is wrong, for people to read.' } },
            required: ['error'],
          },
        },
      },
      // Tools take the first, and some of them only one header of two.
      security: [{ basic: [] }, { appId: [], appSecret: [] }],
      tags: [
        { name: 'users', description: 'List, count, search, get and remove users.' },
        { name: 'wallets', description: 'Decide whether an address belongs to a current user.' },
        { name: 'changes', description: 'Follow what changes among the users.' },
      ],
    },
    transform: (route) => {
      const { schema, url } = transformRoute(route);
      return { schema: withScope(schema, route.route.config?.permission), url };
    },
    transformObject: (parts) => {
      const document = transformObject(parts);
      completeDocument(document as unknown as Document);
      return document;
    },
  });
  await app.register(async (docs) => {
    docs.addHook('onSend', async (request, reply, payload) => {
      // The assets have their own Cache-Control, which this replaces.
      reply.header('cache-control', 'no-store');
      if (typeof payload !== 'string') return payload;
      const page = payload.replace('</head>', `${SITE.viewport}</head>`).replace('<body>', `<body>${SITE.header}`);
      const demo = await demoCredentials(request);
      return demo === null ? page : withDemo(page, demo);
    });
    await docs.register(swaggerUi, {
      routePrefix: '/docs/try',
      uiConfig: {
        // The reference leads to the form of an operation.
        deepLinking: true,
        tryItOutEnabled: true,
        displayRequestDuration: true,
        defaultModelsExpandDepth: 0,
        // Runs in the browser. Without it, a 401 makes the browser open its own password window.
        requestInterceptor: (request: object) => Object.assign(request, { credentials: 'omit' }),
        onComplete: authorizeDemo,
      },
      transformSpecification: (document) => describeExamples(document as unknown as Document) as object,
      staticCSP: pagePolicy({ script: "'self'", style: "'self' 'unsafe-inline'" }),
      theme: { title: 'Try REST · userdir', css: [{ filename: 'theme.css', content: THEME }] },
    });
  });
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger());
}

/* The browser's document, as far as authorizeDemo reads it. */
declare const document: { querySelector(selector: string): { readonly content: string } | null };
declare const ui: { preauthorizeApiKey(scheme: string, key: string): void };

/** Runs in the browser, as text of the script that makes `ui`: fills in the credentials that the page has. */
function authorizeDemo(): void {
  const demo = JSON.parse(document.querySelector('meta[name=demo]')?.content ?? '{}');
  if (demo.appId) ui.preauthorizeApiKey('appId', demo.appId);
  if (demo.appSecret) ui.preauthorizeApiKey('appSecret', demo.appSecret);
}

/** Adds which scope a secret needs. */
function withScope(schema: FastifySchema, permission: Permission | undefined): FastifySchema {
  if (permission === undefined) return schema;
  const { description = '' } = schema as { description?: string };
  return { ...schema, description: `${description} Needs the scope \`${permission}\`.`.trim() } as FastifySchema;
}

/** Adds what all operations share. */
function completeDocument({ paths, components: { schemas } }: Document): void {
  // The transform adds a second copy of each schema for requests; these schemas describe answers only.
  for (const name of Object.keys(schemas)) if (name.endsWith('Input')) delete schemas[name];
  for (const [path, item] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(item)) {
      const { parameters = [], requestBody, responses } = operation;
      operation.parameters = [...parameters, ...requestHeadersOf(path)];
      Object.assign(responses['200'] as object, { headers: successHeadersOf(path) });
      Object.assign(responses, failuresOf(method, path));
      for (const media of [requestBody, responses['200']].flatMap((body) => Object.values(body?.content ?? {}))) {
        const { example, ...schema } = media.schema;
        if (example !== undefined) Object.assign(media, { example, schema });
      }
      for (const parameter of parameters) {
        // Node.js has header names in lower case. The documentation does not, and a generated client tells one from the other.
        if (parameter.in === 'header')
          parameter.name = parameter.name.replace(/\b[a-z]/g, (letter) => letter.toUpperCase());
        // OpenAPI 3.1 deprecates the example of a schema in favour of the parameter's own.
        parameter.example ??= parameter.schema.example;
        delete parameter.schema.example;
      }
    }
  }
}

/** Moves examples into descriptions: in the forms of the page, they would narrow the first request, and an ID would remove a user. */
function describeExamples(document: Document): Document {
  for (const [method, { parameters = [] }] of Object.values(document.paths).flatMap((item) => Object.entries(item))) {
    for (const parameter of parameters) {
      if (parameter.required && method !== 'delete') continue;
      parameter.description += ` Example: \`${parameter.example}\``;
      delete parameter.example;
    }
  }
  return document;
}

const THEME = `${SITE.style}
/* The bar on top shows the logo of Swagger and asks for other documents. There is one server, and no answer has links. */
.swagger-ui :is(.topbar, .servers-title, .servers, .response-col_links, .info hgroup > a) { display: none !important; }
.swagger-ui .scheme-container { padding: 0 0 20px; background: none; box-shadow: none; }
.swagger-ui .info { margin: 40px 0 10px; }
.swagger-ui .schemes.wrapper { justify-content: flex-start; }
.swagger-ui .auth-wrapper .authorize { margin: 0; }
.swagger-ui .dialog-ux .modal-ux-content { max-height: 75vh; }
.dark-mode body { background: none; }
.dark-mode .swagger-ui .header-col { color: inherit; }
.swagger-ui .header-col { font-weight: normal; }
/* Tables are too wide for a phone: their cells stand below each other. */
@media (max-width: 640px) {
  .swagger-ui .wrapper { padding: 0 12px; }
  .swagger-ui table:not(.model), .swagger-ui table:not(.model) > :is(thead, tbody),
  .swagger-ui table:not(.model) > tbody > tr, .swagger-ui table:not(.model) > tbody > tr > td { display: block; width: auto; max-width: none; }
  .swagger-ui table:not(.model) > thead { display: none; }
  .swagger-ui table:not(.model) > tbody > tr > td { padding: 4px 0; min-width: 0; }
  .swagger-ui .parameters-col_description input, .swagger-ui .parameters-col_description select { max-width: 100%; width: 100%; }
  .swagger-ui .dialog-ux .modal-ux { min-width: 0; width: calc(100vw - 24px); }
}
`;

/* The parts of the OpenAPI document that all routes share: the headers of the answers, and the failures. */

const textLike = (more: object) => ({ type: 'string' as const, ...more });
const header = (description: string, example: string, more = {}) => ({ description, schema: textLike(more), example });
/** A header that every such answer has. */
function requiredHeader(description: string, example: string, more = {}) {
  return { description, required: true, schema: textLike(more), example };
}

const EXAMPLE_REQUEST_ID = 'c2a7b7a4-6a0f-4f0e-9d43-0d8f6d0a1f3e';

/** The headers of requests that no route checks by its schema. */
function requestHeadersOf(path: string): Parameter[] {
  const optional = (name: string, ...[description, example]: Parameters<typeof header>) => ({
    ...header(description, example),
    name,
    in: 'header',
    required: false,
  });
  const all = [
    optional(
      'X-Request-Id',
      'An ID of your choice, kept in the answer, the log and the audit trail if it has 1 to 128 of `A-Z a-z 0-9 _ . : / + = -`, and no secret or address.',
      EXAMPLE_REQUEST_ID,
    ),
  ];
  if (path !== '/changes') return all;
  const lastEvent = 'Of a stream: the `id` of the last event. The stream goes on after it; it wins over `after`.';
  return [optional('Last-Event-ID', lastEvent, 'ZWUwMTBhODguMTUuNzI5MW8'), ...all];
}

const HEADERS = {
  'X-Request-Id': requiredHeader(
    'The ID of the request in the log of the service: the `X-Request-Id` of the request if it is well-formed, else a new one.',
    EXAMPLE_REQUEST_ID,
  ),
  'Userdir-Error-Code': requiredHeader(
    'The code of the failure, as GraphQL has it in `extensions.code`. With 401 it tells wrong credentials (`UNAUTHENTICATED`) from a missing scope (`FORBIDDEN`) and a disabled project (`PROJECT_DISABLED`).',
    'BAD_USER_INPUT',
    { enum: [...ERROR_CODES] },
  ),
  Link: requiredHeader(
    'Where the code of the failure is explained: a path of this service, or an address.',
    '</docs/errors#BAD_USER_INPUT>; rel="help"',
  ),
  'WWW-Authenticate': requiredHeader(
    'The authentication scheme that every HTTP client knows.',
    'Basic realm="userdir"',
  ),
  'Retry-After': requiredHeader('The number of seconds to wait before a retry.', '12', { pattern: '^[0-9]+$' }),
  'RateLimit-Policy': header(
    'Sent where the service limits rates: the number of requests of a project (`q`) in a window of seconds (`w`).',
    '"project";q=600;w=60',
  ),
  RateLimit: header(
    'Sent where the service limits rates: the requests left (`r`), and the seconds until the window ends (`t`).',
    '"project";r=599;t=60',
  ),
  'Userdir-Ignored-Parameters': header(
    'Query parameters that the route does not know and has ignored: at most ten names, percent-encoded, separated by commas, cut to 64 characters each.',
    'pgae, start%20date',
    { pattern: "^[\\w%.!~*'()-]+(, [\\w%.!~*'()-]+){0,9}$" },
  ),
  'Userdir-Next-Cursor': header('Of a page of changes: where the next page begins.', 'ZWUwMTBhODguMTUuNzI5MW8'),
  'Userdir-Has-More': header('Of a page of changes: whether there is more now.', 'false', { enum: ['true', 'false'] }),
};

type HeaderName = keyof typeof HEADERS;

/** Headers of every answer to a request with valid credentials. */
const COMMON = ['RateLimit', 'RateLimit-Policy', 'Userdir-Ignored-Parameters'] as const;
const SUCCESS_HEADERS = headersOf(COMMON);
const CHANGES_HEADERS = headersOf([...COMMON, 'Userdir-Next-Cursor', 'Userdir-Has-More']);

/** The headers of a success. */
const successHeadersOf = (path: string) => (path === '/changes' ? CHANGES_HEADERS : SUCCESS_HEADERS);

const RESPONSES = {
  BadRequest: failure(
    'A malformed path, query or body. The error names the parameter, what arrived and what is accepted.',
    'limit: got "1000", expected a whole number from 1 to 100.',
    COMMON,
  ),
  Unauthenticated: failure(
    'The App ID or the App Secret is missing or invalid. Under `/server` also: the secret lacks the scope for this request (`FORBIDDEN` in `Userdir-Error-Code`), or the project is disabled (`PROJECT_DISABLED`). Elsewhere, these are 403.',
    'The App ID and the App Secret do not belong together: check that both are of one project of this service, and that the secret has not ended.',
    ['WWW-Authenticate'],
  ),
  Forbidden: failure(
    'The App Secret lacks the scope for this request (`FORBIDDEN` in `Userdir-Error-Code`), or the project is disabled (`PROJECT_DISABLED`). Under `/server`, both are 401.',
    'The App Secret lacks the scope changes; it has read.',
  ),
  CursorExpired: failure(
    'Some of the changes after the cursor are no longer kept. Read all users again.',
    'The cursor has expired: changes are kept for 30 days, and some after it are gone.',
    COMMON,
  ),
  NotFound: failure('The project has no such user.', 'There is no user 42 in this project.', COMMON),
  KeyReused: failure(
    `The \`Idempotency-Key\` was used for another request within ${KEY_KEPT_HOURS} hours. Nothing was done.`,
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
    `The request is refused as HTTP: 405 for another method, 408 when it takes too long to arrive, 413 for a body over ${BODY_BYTES / 2 ** 20} MiB (${VERDICTS_BODY_BYTES / 1_024} KiB at \`/wallets/verify\`), 431 for headers over ${HEADER_BYTES / 1_024} KiB or more than ${MAX_HEADERS}.`,
    `body: got 2000000 bytes, expected at most ${BODY_BYTES} bytes.`,
  ),
};

/** The failures of a route, by status; `default` is every other. */
function failuresOf(method: string, path: string): Record<string, { $ref: string }> {
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

function headersOf(names: readonly HeaderName[]) {
  return Object.fromEntries(['X-Request-Id', ...names].map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

function failure(description: string, error: string, headers: readonly HeaderName[] = []) {
  return {
    description,
    headers: headersOf(['Userdir-Error-Code', 'Link', ...headers]),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' }, example: { error } } },
  };
}
