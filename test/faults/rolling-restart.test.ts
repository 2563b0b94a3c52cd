import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { type AddressInfo, connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import { type Credentials, type RunningServer, startServer, userdirJson } from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';
import { PATIENCE } from '../support/waiting.js';

const HEALTH_CHECK_MS = 50;
/** Several health checks, so that the balancer stops sending before the listener closes. */
const SHUTDOWN_DELAY_MS = 500;

let database: TestDatabase;
let settings: Record<string, string>;
let credentials: Credentials;
let servers: RunningServer[] = [];

/** A minimal TCP balancer: new connections go in turn to the backends whose last health check passed. */
async function startBalancer() {
  let ready: URL[] = [];
  let isClosed = false;
  const checking = (async () => {
    while (!isClosed) {
      const checked = await Promise.all(
        servers.map(async ({ url }) => ((await fetch(`${url}/readyz`).catch(() => null))?.ok ? [new URL(url)] : [])),
      );
      ready = checked.flat();
      await sleep(HEALTH_CHECK_MS);
    }
  })();
  let turn = 0;
  const balancer = createServer((near) => {
    turn += 1;
    const backend = ready[turn % ready.length];
    if (backend === undefined) {
      near.destroy();
      return;
    }
    const far = connect(Number(backend.port), backend.hostname);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on('error', () => to.destroy());
      from.pipe(to);
    }
  });
  balancer.listen(0, '127.0.0.1');
  await once(balancer, 'listening');
  await vi.waitUntil(() => ready.length === servers.length, PATIENCE);
  return {
    url: `http://127.0.0.1:${(balancer.address() as AddressInfo).port}`,
    async close() {
      isClosed = true;
      await checking;
      balancer.close();
    },
  };
}

const start = () =>
  startServer({ ...settings, DEMO: 'off', LOG_LEVEL: 'warn', SHUTDOWN_DELAY_MS: String(SHUTDOWN_DELAY_MS) });

// The embedded database allows only one process.
const isPostgres = inject('engine') === 'postgres';

beforeAll(async () => {
  if (!isPostgres) return;
  database = await copyTemplate();
  settings = database.env;
  credentials = await userdirJson(settings, ['project', 'create', '--name', 'Test']);
  servers = await Promise.all([start(), start()]);
});
afterAll(async () => {
  await Promise.all(servers.map((server) => server.stop()));
  await database?.drop();
});

/** Eight clients that ask again and again over kept connections, until `stop`, which returns how often each outcome came. */
function startClients(url: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const outcomes = new Map<string, number>();
  let isOver = false;
  const ask = () =>
    new Promise<string>((resolve) => {
      const headers = { 'service-app-id': credentials.app_id, 'service-app-secret': credentials.app_secret };
      request(`${url}/server/users/count`, { agent, headers }, (response) => {
        response.resume().on('end', () => resolve(String(response.statusCode)));
      })
        .on('error', (error) => resolve(error.message))
        .end();
    });
  const clients = Array.from({ length: 8 }, async () => {
    while (!isOver) {
      const outcome = await ask();
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }
  });
  return async () => {
    isOver = true;
    await Promise.all(clients);
    agent.destroy();
    return outcomes;
  };
}

test.runIf(isPostgres)(
  'a rolling restart of two processes behind a TCP balancer fails no request',
  async ({ annotate }) => {
    const balancer = await startBalancer();
    const stopClients = startClients(balancer.url);
    const codes: (number | null)[] = [];
    for (const place of [0, 1]) {
      const leaving = servers[place] as RunningServer;
      codes.push((await leaving.stop('SIGTERM')).code);
      servers[place] = await start();
      await sleep(4 * HEALTH_CHECK_MS);
    }
    const outcomes = await stopClients();
    await balancer.close();
    expect(codes).toEqual([0, 0]);
    expect([...outcomes.keys()]).toEqual(['200']);
    await annotate(`${outcomes.get('200')} requests`);
    expect(outcomes.get('200')).toBeGreaterThan(500);
  },
);

const canShare = Number(process.versions.node.split('.')[0]) >= 24;
test.runIf(isPostgres && canShare)(
  'two processes answer on one port, and one that leaves fails no request',
  async () => {
    const first = await startServer({ ...settings, DEMO: 'off', REUSE_PORT: 'on' });
    const PORT = new URL(first.url).port;
    const second = await startServer({ ...settings, DEMO: 'off', REUSE_PORT: 'on', PORT });
    const stopClients = startClients(first.url);
    await sleep(500);
    expect((await first.stop('SIGTERM')).code).toBe(0);
    const third = await startServer({ ...settings, DEMO: 'off', REUSE_PORT: 'on', PORT });
    expect((await second.stop('SIGTERM')).code).toBe(0);
    const outcomes = await stopClients();
    expect((await third.stop()).code).toBe(0);
    expect([...outcomes.keys()]).toEqual(['200']);
  },
);
