import Fastify, { type FastifyPluginAsync, type FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import { changesPlugin } from '#dist/rest/changes.js';
import { copiesPlugin } from '#dist/rest/copies.js';
import { userRoutes } from '#dist/rest/users.js';
import { verdictsPlugin } from '#dist/rest/wallets.js';

/**
 * The weights that requests over REST have in admission. From outside they show only in how soon the requests of others are
 * answered, which is a matter of the machine.
 */

const options = { services: {}, authenticate: () => undefined, runWithAdmission: () => undefined, streams: {} };

/** The weight of a request for a route of a plugin. */
async function weightOf(plugin: unknown, url: string, request: object): Promise<number | undefined> {
  const app = Fastify();
  app.setSerializerCompiler(() => String);
  app.setValidatorCompiler(() => () => true);
  const weights = new Map<string, ((request: FastifyRequest) => number) | undefined>();
  app.addHook('onRoute', ({ url: path, config }) => void weights.set(path, config?.weight));
  await app.register(plugin as FastifyPluginAsync<typeof options>, options);
  await app.close();
  return weights.get(url)?.(request as FastifyRequest);
}

test.each([
  ['the smallest page of changes', changesPlugin, '/changes', { query: { limit: 1 } }, 1],
  ['49 changes', changesPlugin, '/changes', { query: { limit: 49 } }, 1],
  ['50 changes', changesPlugin, '/changes', { query: { limit: 50 } }, 2],
  ['the largest page of changes', changesPlugin, '/changes', { query: { limit: 200 } }, 5],
  ['one user of a copy', copiesPlugin, '/users', { query: { ids: [1] } }, 2],
  ['8 users of a copy', copiesPlugin, '/users', { query: { ids: Array(8).fill(1) } }, 2],
  ['9 users of a copy', copiesPlugin, '/users', { query: { ids: Array(9).fill(1) } }, 3],
  ['one user of a list', userRoutes, '/users', { query: { limit: 1 } }, 2],
  ['8 users of a list', userRoutes, '/users', { query: { limit: 8 } }, 2],
  ['the longest list of users', userRoutes, '/users', { query: { limit: 100 } }, 14],
  ['no wallets', verdictsPlugin, '/wallets/verify', { body: null }, 1],
  ['511 bytes of wallets', verdictsPlugin, '/wallets/verify', { body: Buffer.alloc(511) }, 1],
  ['512 bytes of wallets', verdictsPlugin, '/wallets/verify', { body: Buffer.alloc(512) }, 2],
  ['the longest list of wallets', verdictsPlugin, '/wallets/verify', { body: Buffer.alloc(262_144) }, 513],
])('%s have their weight', async (_what, plugin, url, request, weight) => {
  expect(await weightOf(plugin, url, request)).toBe(weight);
});
