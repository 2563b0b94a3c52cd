import Fastify from 'fastify';
import { expect, test } from 'vitest';
import { sendFailure } from '#dist/http/failures.js';
import { healthPlugin } from '#dist/http/public-routes.js';
import { createLogger } from '#dist/telemetry/logger.js';
import type { Json } from '../support/app.js';

test('while it is not ready, /readyz logs each reason once, in one line without a stack', async () => {
  const lines: Json[] = [];
  const log = createLogger('info', { write: (line: string) => lines.push(JSON.parse(line)) });
  let state: Error | null = new Error('connect ECONNREFUSED');
  const app = Fastify({ loggerInstance: log as never, disableRequestLogging: true });
  app.setErrorHandler(sendFailure);
  await app.register(healthPlugin, {
    checkReady: async () => {
      if (state !== null) throw state;
    },
    describe: () => ({ version: '1.2.3', schema: '1_first' }),
  });
  const ask = async (next: Error | null, times: number) => {
    state = next;
    for (let time = 0; time < times; time += 1) await app.inject('/readyz');
  };
  await ask(new Error('connect ECONNREFUSED'), 3);
  await ask(Object.assign(new Error(), { code: 'ETIMEDOUT' }), 2);
  await ask(null, 2);
  await ask(Object.assign(new Error(), { code: 'ETIMEDOUT' }), 2);
  const told = lines.filter(({ msg }) => msg === 'Not ready.');
  expect(told.map(({ reason }) => reason)).toEqual(['connect ECONNREFUSED', 'ETIMEDOUT', 'ETIMEDOUT']);
  expect(JSON.stringify(lines)).not.toContain('stack');
  expect((await app.inject('/livez')).statusCode).toBe(200);
  await app.close();
});

test('OPTIONS / says by its status alone what /readyz says', async () => {
  let isReady = false;
  const app = Fastify({ logger: false });
  app.decorate('docsOf', () => 'https://docs.example.com');
  app.setErrorHandler(sendFailure);
  await app.register(healthPlugin, {
    checkReady: async () => {
      if (!isReady) throw new Error('closing');
    },
    describe: () => ({ version: '1.2.3', schema: '1_first' }),
  });
  const ask = async () => (await app.inject({ method: 'OPTIONS', url: '/' })).statusCode;
  expect(await ask()).toBe(503);
  isReady = true;
  expect(await ask()).toBe(204);
  await app.close();
});
