import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import Fastify from 'fastify';
import { expect, test } from 'vitest';
import { decorateRequests } from '#dist/app/app.js';
import { admitRequests, createAdmission } from '#dist/http/admission.js';
import { createUnreadBytes } from '#dist/http/connections.js';
import { traceRequests } from '#dist/http/request-log.js';
import * as eventLoop from '#dist/http/turns.js';

test('requests whose clients go while they are authenticated leave room for others to be measured', async () => {
  const app = Fastify();
  decorateRequests(app);
  const admission = createAdmission({ maxInFlight: 8, maxInFlightPerProject: 8, maxQueued: 8 }, eventLoop);
  const admitted = admitRequests(app, admission, createUnreadBytes());
  let letGo = () => {};
  const gate = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  let ended = 0;
  app.addHook('onRequest', async (request, reply) => {
    request.scope = { appId: 'app' } as never;
    if (request.url !== '/leave') return;
    const gone = once(reply.raw, 'close');
    request.raw.socket.write('HTTP/1.1 100 Continue\r\n\r\n');
    await gone;
    ended += 1;
    await gate;
  });
  for (const hooks of [admitted.hooks, traceRequests(app, null)])
    for (const [stage, hook] of Object.entries(hooks)) app.addHook(stage as 'onRequest', hook);
  app.get('/*', async () => 'text');
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  for (let client = 0; client < 10; client += 1) {
    const socket = connect(port, '127.0.0.1');
    socket.write('GET /leave HTTP/1.1\r\nHost: a\r\nUserdir-Cost: 1\r\n\r\n');
    await once(socket, 'data');
    socket.destroy();
  }
  await expect.poll(() => ended, { timeout: 10_000 }).toBe(10);
  letGo();
  const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { 'userdir-cost': '1', connection: 'close' } });
  expect(answer.headers.get('server-timing')).toContain('total;dur=');
  await app.close();
});
