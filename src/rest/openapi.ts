import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import { jsonSchemaTransform } from 'fastify-type-provider-zod';

/**
 * The OpenAPI 3.1 document of the REST interface at /openapi.json, made from the schemas that check the requests, and a
 * page that shows it at /docs, from assets in the package. To be called before the routes are registered.
 */
export async function serveOpenApi(app: FastifyInstance, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'userdir REST interface',
        version,
        description:
          'The users of one project: the one whose App ID and App Secret come with the request. For backends only.',
      },
      components: {
        securitySchemes: {
          appId: { type: 'apiKey', in: 'header', name: 'service-app-id', description: 'App ID.' },
          appSecret: { type: 'apiKey', in: 'header', name: 'service-app-secret', description: 'App Secret.' },
          basic: { type: 'http', scheme: 'basic', description: 'App ID as user name, App Secret as password.' },
        },
      },
      security: [{ appId: [], appSecret: [] }, { basic: [] }],
      tags: [
        { name: 'users', description: 'List, count, search, get and remove users.' },
        { name: 'wallets', description: 'Decide whether an address belongs to a current user.' },
      ],
    },
    transform: jsonSchemaTransform,
  });
  await app.register(async (docs) => {
    // The assets come with a Cache-Control of their own.
    docs.addHook('onSend', async (_request, reply) => {
      reply.header('cache-control', 'no-store');
    });
    await docs.register(swaggerUi, {
      routePrefix: '/docs',
      uiConfig: { tryItOutEnabled: true },
      // The bar on top shows somebody else's logo and asks for other documents.
      theme: {
        title: 'userdir REST',
        css: [{ filename: 'theme.css', content: '.swagger-ui .topbar { display: none; }' }],
      },
    });
  });
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger());
}
