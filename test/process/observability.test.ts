import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, readSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { startCollector } from '../support/collector.js';
import { CLI, call, linesOf, makeFolder, type RunningServer, startServer, useDatabase } from '../support/command.js';
import { isNightly } from '../support/nightly.js';
import { PATIENCE } from '../support/waiting.js';

/** Where a process serves metrics and sends traces, that neither delays its exit, and that its log is whole. */

const database = useDatabase();

const settings = (env: Record<string, string>) => ({ ...database.env, REQUEST_TIMEOUT_MS: '1000', ...env });

test('metrics are served from start to exit, and traces are sent before exit', async () => {
  const collector = await startCollector();
  // Without a flush, ended spans would be sent a minute later.
  const traces = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: '60000' };
  const server = await startServer(settings({ METRICS_PORT: '0', DEMO: 'on', ...traces }));
  const { metricsUrl: url } = server;
  if (server.demo === null) throw new Error('There is no demo project.');
  expect((await call(server.url, server.demo, '/server/users?limit=1')).status).toBe(200);
  expect(await (await fetch(url)).text()).toContain(
    'userdir_http_requests_total{method="GET",route="/server/users",status="200"} 1',
  );
  expect(collector.spans).toEqual([]);
  expect(await server.stop()).toMatchObject({ code: 0 });
  expect(collector.spans.map(({ name }) => name)).toContain('GET /server/users');
  await expect(fetch(url)).rejects.toThrow();
  await collector.close();
});

test('a collector that never answers does not delay the exit', async () => {
  const silent = createServer((socket) => socket.on('error', () => undefined).resume());
  await once(silent.listen(0, '127.0.0.1'), 'listening');
  const endpoint = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const server = await startServer(settings({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: endpoint }));
  await fetch(`${server.url}/livez`);
  const { code, stderr } = await server.stop();
  // It would be ended with 1.
  expect(code).toBe(0);
  expect(stderr).toContain('Traces could not be sent.');
  silent.close();
});

test('metrics have an address of their own, and the log has each failure, a sample of what succeeds, and no probe', async () => {
  const own = { METRICS_PORT: '0', METRICS_HOST: '127.0.0.2', LOG_LEVEL: 'info', LOG_SAMPLE: '5', DEMO: 'on' };
  const server = await startServer(settings(own));
  if (server.demo === null) throw new Error('There is no demo project.');
  expect(new URL(server.metricsUrl).hostname).toBe('127.0.0.2');
  expect((await fetch(server.metricsUrl)).status).toBe(200);
  const headers = { 'service-app-id': server.demo.app_id, 'service-app-secret': server.demo.app_secret };
  const paths = ['/livez', '/server/users/count', '/server/users/0', '/graphql?query={user(id:"x"){id}}'];
  for (let n = 0; n < 10; n += 1) for (const path of paths) await (await fetch(server.url + path, { headers })).text();
  const { stderr } = await server.stop();
  const lines = stderr
    .split('\n')
    .filter((line) => line.includes('"route"'))
    .map((line) => JSON.parse(line));
  const count = (route: string) => lines.filter((line) => line.route === route).length;
  expect(['/livez', '/server/users/count', '/server/users/:user_id', '/graphql'].map(count)).toEqual([0, 2, 10, 10]);
  expect(lines.filter(({ sample }) => sample === 5).map(({ status }) => status)).toEqual([200, 200]);
});

/** The numbers `n` of the lines that a process logs by `script`. */
function loggedBy(script: string): number[] {
  const source = `import { createLogger } from '#dist/telemetry/logger.js'; const log = createLogger('info');
    const line = (n) => log.info({ n }, 'line'), kill = () => process.kill(process.pid, 'SIGKILL');
    ${script}`;
  const { stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', source], { encoding: 'utf8' });
  const lines = stderr.split('\n').filter((line) => line.startsWith('{'));
  return lines.map((line) => JSON.parse(line).n);
}

test.each([
  ['exits', '[1, 2, 3].map(line); process.exit(0);'],
  ['is killed right after a warning', "[1, 2].map(line); log.warn({ n: 3 }, 'line'); kill();"],
  ['is killed a tick later', '[1, 2, 3].map(line); setImmediate(kill);'],
  ['throws', "[1, 2, 3].map(line); throw new Error('The end.');"],
])('no log line is lost or out of order when a process %s', (_, end) => {
  expect(loggedBy(end)).toEqual([1, 2, 3]);
});

test('long log lines are written whole, without waiting for the next tick', () => {
  const numbers = loggedBy(`
    for (let n = 0; n < 50; n += 1) log.info({ n, text: 'x'.repeat(5000) }, 'line');
    kill();`);
  expect(numbers.length).toBeGreaterThan(30);
  expect(numbers).toEqual([...numbers.keys()]);
});

test('a full disk under the log costs log lines, and not the service', async () => {
  const withFullDisk = ['/bin/sh', '-c', 'exec "$@" 2>/dev/full', 'sh', process.execPath, CLI] as const;
  const server = await startServer(settings({ DEMO: 'on' }), withFullDisk);
  if (server.demo === null) throw new Error('There is no demo project.');
  for (let n = 0; n < 20; n += 1) {
    expect((await call(server.url, server.demo, '/server/users?limit=1')).status).toBe(200);
  }
  expect(await server.stop()).toMatchObject({ code: 0, stderr: '' });
});

/** More lines than are kept. */
const MANY = 9_000;
const DROPPED = /^userdir_log_lines_dropped_total (\d+)$/m;
const LOGGED = { LOG_LEVEL: 'info', METRICS_PORT: '0', DEMO: 'on' };

/** Makes a server write so many lines, and expects an answer to each request; returns how many lines were dropped. */
async function fillLog(server: RunningServer): Promise<number> {
  const { demo } = server;
  if (demo === null) throw new Error('There is no demo project.');
  const headers = {
    'service-app-id': demo.app_id,
    'service-app-secret': demo.app_secret,
    // Makes long lines.
    'x-request-id': 'request-'.repeat(15),
  };
  let left = MANY;
  const ask = async () => {
    for (; left > 0; left -= 1) {
      const answer = await fetch(`${server.url}/server/users/0`, { headers });
      await answer.text();
      expect(answer.status).toBe(400);
    }
  };
  await Promise.all(Array.from({ length: 16 }, ask));
  expect((await fetch(`${server.url}/livez`)).status).toBe(200);
  return Number(DROPPED.exec(await (await fetch(server.metricsUrl)).text())?.[1]);
}

/** The lines of a log whose reader came back: each is whole, and one says how many are missing. */
function expectWhole(log: string, dropped: number): void {
  const lines = linesOf(log);
  expect(lines.find(({ droppedLines }) => droppedLines !== undefined)).toMatchObject({
    level: 40,
    droppedLines: dropped,
    msg: `${dropped} log lines could not be written, and are lost.`,
  });
  const answered = lines.filter(({ status }) => status === 400).length;
  expect(answered).toBeGreaterThan(1_000);
  expect(answered + dropped).toBeGreaterThanOrEqual(MANY);
}

test.runIf(isNightly)(
  'a socket that nobody reads costs log lines, and not the service; when it is read again, one line says how many',
  async () => {
    const server = await startServer({ ...database.env, ...LOGGED });
    const { stderr } = server.process;
    stderr.pause();
    const dropped = await fillLog(server);
    expect(dropped).toBeGreaterThan(0);
    stderr.resume();
    await server.logged('could not be written');
    const outcome = await server.stop();
    expect(outcome.code).toBe(0);
    expectWhole(outcome.stderr, dropped);
  },
);

test.runIf(isNightly)(
  'a pipe that nobody reads does not stop the service, nor its end, and gets whole lines',
  async () => {
    const pipe = join(makeFolder(), 'log');
    execFileSync('mkfifo', [pipe]);
    const reader = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
    const withPipe = ['/bin/sh', '-c', `exec "$@" 2>${pipe}`, 'sh', process.execPath, CLI] as const;
    const chunk = Buffer.alloc(65_536);
    /** What the pipe has now. */
    const read = () => {
      let text = '';
      try {
        for (let n = 1; n > 0; text += chunk.toString('utf8', 0, n)) n = readSync(reader, chunk);
      } catch (error) {
        expect((error as NodeJS.ErrnoException).code).toBe('EAGAIN');
      }
      return text;
    };
    const server = await startServer({ ...database.env, ...LOGGED }, withPipe);
    const dropped = await fillLog(server);
    let log = '';
    const readOn = () => {
      log += read();
      return log.includes('could not be written');
    };
    await vi.waitUntil(readOn, PATIENCE);
    expectWhole(log, dropped);
    const again = await fillLog(server);
    expect(again).toBeGreaterThan(dropped);
    expect((await server.stop()).code).toBe(0);
    // What it has left is whole as well.
    expect(linesOf(read()).length).toBeGreaterThan(10);
    closeSync(reader);
  },
);
