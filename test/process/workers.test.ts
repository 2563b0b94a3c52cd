import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import {
  type Credentials,
  call,
  type RunningServer,
  type Settings,
  startServer,
  userdir,
  userdirJson,
} from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';

/** Several processes that serve as one (WORKERS). */

const isPostgres = inject('engine') === 'postgres';
const LIMIT = { timeout: 60_000, interval: 50 };

let database: TestDatabase;
let project: Credentials;
let server: RunningServer | null = null;

beforeAll(async () => {
  database = await copyTemplate();
  project = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
});
afterEach(async () => {
  await server?.stop();
  server = null;
});
afterAll(() => database.drop());

async function start(settings: Settings = {}): Promise<RunningServer> {
  server = await startServer({ ...database.env, DEMO: 'off', WORKERS: '2', ...settings });
  return server;
}

/** The processes that a process has started. */
function childrenOf(pid: number | undefined): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
}

const workersOf = ({ process: { pid } }: RunningServer) => childrenOf(pid);

function isAlive(pid: number): boolean {
  try {
    // A process that has ended and was not waited for is a zombie.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** A request on a connection of its own, so that the next one may reach another worker. */
function ask(path: string, { app_id, app_secret }: Credentials = project): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { 'service-app-id': app_id, 'service-app-secret': app_secret };
    request(new URL(path, server?.url), { agent: false, headers }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0));
    })
      .on('error', reject)
      .end();
  });
}

async function readiness(): Promise<number | undefined> {
  // A stopped worker keeps the connections that it was given.
  const answer = await fetch(`${server?.url}/readyz`, { signal: AbortSignal.timeout(10_000) }).catch(() => null);
  return answer?.status;
}
const isReady = async () => (await readiness()) === 200;

test.runIf(!isPostgres)('the embedded database is refused with several workers', async () => {
  for (const WORKERS of ['2', 'auto']) {
    const { code, stderr } = await userdir({ ...database.env, WORKERS }, ['serve']);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr:
        'WORKERS must be 1 with the embedded database, which one process can open. Set DATABASE_URL to use more.\n',
    });
  }
});

describe.runIf(isPostgres)('a service with two workers', () => {
  test('creates the demo project once', async () => {
    const empty = await copyTemplate();
    server = await startServer({ ...empty.env, WORKERS: '3' });
    const { demo, url } = server;
    expect((await call(url, demo as Credentials, '/server/users?limit=1')).body.result.total_user).toBe(200);
    expect(await userdirJson(empty.env, ['project', 'list'])).toHaveLength(1);
    await server.stop();
    server = null;
    await empty.drop();
  });

  test('prints one banner, answers by both, finishes the requests in flight after SIGTERM, and leaves no process behind', async () => {
    const { process: primary, outcome, logged, url } = await start({ DEMO: 'on' });
    const workers = workersOf({ process: primary } as RunningServer);
    expect(workers).toHaveLength(2);
    for (let round = 0; round < 8; round += 1) expect(await ask('/server/users/count')).toBe(200);
    const body = JSON.stringify({ address: '0x00000000000000000000000000000000000000aa' });
    // As many connections as workers, so that each worker has one.
    const sockets = workers.map(() => connect(Number(new URL(url).port), '127.0.0.1').setEncoding('utf8'));
    for (const socket of sockets) {
      socket.write(
        `POST /server/wallets/verify HTTP/1.1\r\nHost: localhost\r\nservice-app-id: ${project.app_id}\r\n` +
          `service-app-secret: ${project.app_secret}\r\nContent-Type: application/json\r\n` +
          `Content-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n`,
      );
      expect(String(await once(socket, 'data'))).toContain('100 Continue');
    }
    primary.kill('SIGTERM');
    await logged('stopping all workers');
    for (const socket of sockets) {
      socket.write(body);
      expect(String(await once(socket, 'data'))).toMatch(/^HTTP\/1\.1 200 OK/);
    }
    const { code, signal, stdout, stderr } = await outcome;
    expect({ code, signal, lines: stdout.trim().split('\n').length }).toEqual({ code: 0, signal: null, lines: 1 });
    expect(workers.filter(isAlive)).toEqual([]);
    const lines = stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const answered = lines.filter(({ route }) => route === '/server/users/count').map(({ pid }) => pid);
    expect(new Set(answered)).toEqual(new Set(workers));
  });

  test('stops once where the signal reaches every process, as from systemd or a terminal', async () => {
    const running = await start();
    for (const pid of workersOf(running)) process.kill(pid, 'SIGINT');
    for (const pid of workersOf(running)) process.kill(pid, 'SIGTERM');
    expect(await running.stop('SIGTERM')).toMatchObject({ code: 0, signal: null });
  });

  test('replaces a worker that gets SIGTERM or dies, is not ready while one does not answer, and ends its workers when it is killed', async () => {
    const running = await start();
    const [asked = 0, killed = 0] = workersOf(running);
    process.kill(asked, 'SIGTERM');
    // It ends in order.
    await running.logged(`Worker ${asked} ended with code 0. A new one starts in 250 ms.`);
    await running.logged('serves in its place');
    process.kill(killed, 'SIGKILL');
    await running.logged(`Worker ${killed} ended with SIGKILL. A new one starts in 250 ms.`);
    expect(await ask('/server/users/count')).toBe(200);
    await vi.waitUntil(isReady, LIMIT);
    const now = workersOf(running);
    expect(now).toHaveLength(2);
    for (const pid of [asked, killed]) expect(now).not.toContain(pid);
    for (const pid of now) await running.logged(`Worker ${pid} serves in its place.`);

    const [frozen = 0] = now;
    process.kill(frozen, 'SIGSTOP');
    try {
      await vi.waitUntil(async () => (await readiness()) === 503, LIMIT);
    } finally {
      process.kill(frozen, 'SIGCONT');
    }
    await vi.waitUntil(isReady, LIMIT);

    running.process.kill('SIGKILL');
    await vi.waitUntil(() => now.every((pid) => !isAlive(pid)), LIMIT);
    server = null;
  });

  test('is not ready while a worker is missing, and ends if none is left and a new one cannot start', async () => {
    const file = join(database.env['DATA_DIR'] as string, 'url');
    await writeFile(file, database.env['DATABASE_URL'] as string, { mode: 0o600 });
    const { DATABASE_URL: _, ...env } = database.env;
    server = await startServer({ ...env, DEMO: 'off', WORKERS: '2', DATABASE_URL_FILE: file });
    await writeFile(file, 'mysql://elsewhere');
    const [first = 0, last = 0] = workersOf(server);
    process.kill(first, 'SIGKILL');
    await server.logged('A new one starts in 500 ms.');
    expect(await isReady()).toBe(false);
    expect(await ask('/server/users/count')).toBe(200);
    process.kill(last, 'SIGKILL');
    const { code, stderr } = await server.outcome;
    expect(code).toBe(1);
    expect(stderr).toContain('DATABASE_URL_FILE must hold a URL that starts with postgres:// or postgresql://.');
    expect(stderr).toContain('No worker is left, and a new one cannot start.');
    server = null;
  });

  test('does not start on a port in use, and says so once', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const settings = { ...database.env, LOG_LEVEL: 'silent', WORKERS: '2', PORT: '0' };
    for (const setting of ['PORT', 'METRICS_PORT'])
      expect(await userdir({ ...settings, [setting]: String(port) }, ['serve'])).toEqual({
        code: 1,
        signal: null,
        stdout: '',
        stderr: `userdir: Port ${port} on 127.0.0.1 is in use by another process; set ${setting} to a free one.\n`,
      });
    other.close();
  });

  test('counts RATE_LIMIT and failed authentications of all workers together', async () => {
    await start({ RATE_LIMIT: '20', LOG_LEVEL: 'warn' });
    const answers = await Promise.all(Array.from({ length: 30 }, () => ask('/server/users/count')));
    expect(answers.filter((status) => status === 200)).toHaveLength(20);
    expect(answers.filter((status) => status === 429)).toHaveLength(10);
    const wrong = { ...project, app_secret: 'wrong' };
    const refused: number[] = [];
    for (let round = 0; round < 31; round += 1)
      refused.push(...(await Promise.all(Array.from({ length: 20 }, () => ask('/server/users/count', wrong)))));
    expect(refused.filter((status) => status === 401)).toHaveLength(600);
    expect(refused.filter((status) => status === 429)).toHaveLength(20);
  });

  /** The samples of a metric: values by labels. */
  async function scrape(name: string): Promise<Map<string, number>> {
    const text = await (await fetch(server?.metricsUrl ?? '')).text();
    const samples = [...text.matchAll(new RegExp(`^${name}(\\{.*\\})? (\\S+)$`, 'gm'))];
    return new Map(samples.map(([, labels = '', value]) => [labels, Number(value)]));
  }
  const ROUTE = '{method="GET",route="/server/users/count"';

  test('adds up the metrics of its workers, also of those that have ended', async () => {
    const running = await start({ METRICS_PORT: '0', LOG_LEVEL: 'info' });
    for (let round = 0; round < 10; round += 1) await ask('/server/users/count');
    const total = async () => (await scrape('userdir_http_requests_total')).get(`${ROUTE},status="200"}`);
    expect(await total()).toBe(10);
    expect((await scrape('userdir_http_request_duration_seconds_count')).get(`${ROUTE}}`)).toBe(10);
    expect((await scrape('userdir_http_request_duration_seconds_bucket')).get(`{le="+Inf",${ROUTE.slice(1)}}`)).toBe(
      10,
    );
    // The pools of both; 10 connections each.
    expect((await scrape('userdir_database_connections_max')).get('')).toBe(20);

    // A worker that is killed is counted as far as it was read; one that is replaced, as a whole.
    const [killed = 0] = workersOf(running);
    process.kill(killed, 'SIGKILL');
    await running.logged('serves in its place');
    expect(await total()).toBe(10);
    for (let round = 0; round < 10; round += 1) await ask('/server/users/count');
    running.process.kill('SIGHUP');
    await running.logged('All workers are replaced.');
    expect(await total()).toBe(20);
    expect((await scrape('userdir_database_connections_max')).get('')).toBe(20);
  });
});
