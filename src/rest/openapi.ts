import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import { createJsonSchemaTransform, createJsonSchemaTransformObject } from 'fastify-type-provider-zod';
import { pagePolicy } from '../http/front-page.js';
import { ERROR, failuresOf, HEADERS, RESPONSES, SUCCESS_HEADERS } from './openapi-responses.js';

const DESCRIPTION = `The users of one project: the one whose App ID and App Secret come with the request. For backends only.

- **Credentials** are two headers or HTTP Basic: \`Authorize\` takes either, and those of a demo project stand on the [front page](/). They are checked first: without them every path under \`/server\` is 401.
- **Success** is \`{"message", "result"}\`, **failure** \`{"error"}\`, which names the parameter, what arrived and what is accepted.
- **Retries**: reads can be retried with a growing pause; a removal with the same \`Idempotency-Key\`.
- **Every answer** has an \`X-Request-Id\`: the one you sent, else a new one. The log of the service has it too.

This page is made from the schemas that check the requests: [/openapi.json](/openapi.json). The same services answer over GraphQL at \`/graphql\`.`;

/** The part of the document that this file changes. */
interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, unknown> };
}

interface Operation {
  parameters?: { required: boolean; description: string; example?: unknown; schema: { example?: unknown } }[];
  responses: Record<string, object>;
}

const zodToJsonConfig = {
  /** Removes what does not help a reader: the largest exact number in JSON, and the calendar as a regular expression. */
  override: ({ jsonSchema }: { jsonSchema: { maximum?: number; format?: string; pattern?: string } }) => {
    if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    if (jsonSchema.format === 'date-time') delete jsonSchema.pattern;
  },
};
const transformObject = createJsonSchemaTransformObject({ zodToJsonConfig });

/**
 * Serves the OpenAPI 3.1 document of the REST interface at /openapi.json, generated from the schemas that check the requests, and
 * a page that shows it at /docs, with assets of the package. Call it before the routes are registered.
 */
export async function serveOpenApi(app: FastifyInstance, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'userdir REST interface', version, description: DESCRIPTION },
      servers: [{ url: '/', description: 'The service that serves this document.' }],
      components: {
        securitySchemes: {
          appId: { type: 'apiKey', in: 'header', name: 'service-app-id', description: 'App ID.' },
          appSecret: { type: 'apiKey', in: 'header', name: 'service-app-secret', description: 'App Secret.' },
          basic: { type: 'http', scheme: 'basic', description: 'App ID as user name, App Secret as password.' },
        },
        headers: HEADERS,
        responses: RESPONSES,
        schemas: { Error: ERROR },
      },
      security: [{ appId: [], appSecret: [] }, { basic: [] }],
      tags: [
        { name: 'users', description: 'List, count, search, get and remove users.' },
        { name: 'wallets', description: 'Decide whether an address belongs to a current user.' },
      ],
    },
    transform: createJsonSchemaTransform({ zodToJsonConfig }),
    transformObject: (made) => {
      const document = transformObject(made);
      completeDocument(document as unknown as Document);
      return document;
    },
  });
  await app.register(async (docs) => {
    // The assets have their own Cache-Control, which this replaces.
    docs.addHook('onSend', async (_request, reply) => {
      reply.header('cache-control', 'no-store');
    });
    await docs.register(swaggerUi, {
      routePrefix: '/docs',
      uiConfig: {
        tryItOutEnabled: true,
        displayRequestDuration: true,
        defaultModelsExpandDepth: 0,
        // Runs in the browser. Without it, a 401 makes the browser open its own password window.
        requestInterceptor: (request: object) => Object.assign(request, { credentials: 'omit' }),
      },
      transformSpecification: (document) => describeExamples(document as unknown as Document) as object,
      staticCSP: pagePolicy({ script: "'self'", style: "'self' 'unsafe-inline'" }),
      theme: { title: 'userdir REST', css: [{ filename: 'theme.css', content: THEME }] },
    });
  });
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger());
}

/** Adds what all operations share. */
function completeDocument({ paths, components: { schemas } }: Document): void {
  // The transform adds a second copy of each schema for requests; these schemas describe answers only.
  for (const name of Object.keys(schemas)) if (name.endsWith('Input')) delete schemas[name];
  for (const [path, item] of Object.entries(paths)) {
    for (const [method, { parameters = [], responses }] of Object.entries(item)) {
      Object.assign(responses['200'] as object, { headers: SUCCESS_HEADERS });
      Object.assign(responses, failuresOf(method, path));
      for (const parameter of parameters) {
        // OpenAPI 3.1 deprecates the example of a schema in favour of the parameter's own.
        parameter.example ??= parameter.schema.example;
        delete parameter.schema.example;
      }
    }
  }
}

/**
 * Moves examples into descriptions for the page, which fills them into its forms. An optional parameter would narrow the first
 * request without need, and an example ID would remove a user by accident.
 */
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

const THEME = `
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
