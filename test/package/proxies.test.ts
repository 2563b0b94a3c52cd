import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import http, { type IncomingHttpHeaders, type RequestOptions } from 'node:http';
import https from 'node:https';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { TIMEOUTS } from '#dist/app/app.js';
import { parseConfig } from '#dist/config/config.js';
import { THE_OPERATOR } from '#dist/domain/operators.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { ROOT } from '../support/checkout.js';
import { freePort } from '../support/cluster.js';
import { startServer, useDatabase, userdirJson } from '../support/command.js';
import { hasProgram } from '../support/programs.js';
import { makeCertificate } from '../support/tls-proxy.js';
import { PATIENCE } from '../support/waiting.js';

/**
 * The service behind the proxies of the documentation, whose configurations run as they are printed: only addresses and files are those of
 * the test, and where a stream is silent its time-outs are shorter, together with its heartbeat, and HAProxy is patient with a busy machine.
 */

const FASTER = 10;
const NGINX = '/usr/sbin/nginx';
const HAPROXY = '/usr/sbin/haproxy';

const read = (path: string) => readFile(join(ROOT, path), 'utf8');
const printedNginx = /```nginx\n(.*?)```/s.exec(await read('docs/operating.md'))?.[1] ?? '';

/** The time-outs after which a silent stream is cut: of reads in nginx, of both sides in HAProxy. */
const SILENCE = /\b(proxy_read_timeout|proxy_send_timeout|timeout server|timeout client|timeout tunnel) +(\d+)s\b/g;
const silencesOf = (text: string) => [...text.matchAll(SILENCE)].map(([, , seconds]) => Number(seconds) * 1_000);
const sooner = (text: string) =>
  text.replaceAll(SILENCE, (_, name, seconds) => `${name} ${(Number(seconds) * 1_000) / FASTER}ms`);

/** All configurations of HTTP proxies in the documentation. Those of `mode tcp` are for PostgreSQL. */
async function documented(): Promise<{ path: string; text: string }[]> {
  const paths = (await readdir(join(ROOT, 'docs'), { recursive: true })).filter((path) => /\.(md|cfg)$/.test(path));
  const texts = await Promise.all(paths.map(async (path) => ({ path, text: await read(join('docs', path)) })));
  return texts.filter(({ text }) => !text.includes('mode tcp'));
}

describe('the documented time-outs', () => {
  test('of a silent stream are each longer than three heartbeats', async () => {
    const pages = await documented();
    const silences = pages.flatMap(({ path, text }) => silencesOf(text).map((ms) => ({ path, ms })));
    expect(silences.length).toBeGreaterThan(2);
    expect(silences.filter(({ ms }) => ms <= 3 * TIMEOUTS.heartbeatMs)).toEqual([]);
  });

  test('of a connection to the service are shorter than its own, and the texts name the heartbeat', async () => {
    const pages = await documented();
    const kept = pages.flatMap(({ text }) =>
      [...text.matchAll(/\bkeepalive_timeout (\d+)s/g)].map(([, s]) => Number(s)),
    );
    expect(kept.length).toBeGreaterThan(0);
    const { keepAliveMs, requestTimeoutMs } = parseConfig({});
    expect(Math.max(...kept) * 1_000).toBeLessThan(keepAliveMs);
    for (const { path, text } of pages) {
      for (const ms of silencesOf(text)) expect(ms, path).toBeGreaterThan(requestTimeoutMs);
      const beats = [...text.matchAll(/(\d+) s between two heartbeats|comment comes every (\d+) s/g)];
      for (const [, a, b] of beats) expect(Number(a ?? b) * 1_000, path).toBe(TIMEOUTS.heartbeatMs);
    }
  });
});

/** An address of this machine that is not a loopback one: to the service, its clients are on another machine. */
const outer = Object.values(networkInterfaces())
  .flat()
  .find((each) => each?.family === 'IPv4' && !each.internal)?.address;

interface Proxy {
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts a proxy in the foreground; resolves when it answers. */
async function start(program: string, args: string[], url: string, folder: string): Promise<Proxy> {
  const child: ChildProcess = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  child.stderr?.on('data', (text) => {
    log += text;
  });
  await vi.waitUntil(async () => {
    if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode}: ${log}`);
    return (await ask(`${url}/readyz`).catch(() => null))?.status === 200;
  }, PATIENCE);
  return {
    url,
    async stop() {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}

interface ProxyOptions {
  /** In front of a second process. */
  readonly other?: string;
  /** The time-outs of a stream are shorter. */
  readonly isSooner?: boolean;
}

async function startNginx(service: string, { other = service, isSooner = false }: ProxyOptions = {}): Promise<Proxy> {
  const folder = await mkdtemp(join(tmpdir(), 'userdir-nginx-'));
  const port = await freePort();
  const { key, cert } = makeCertificate('users.example.com');
  await writeFile(join(folder, 'tls.key'), key);
  await writeFile(join(folder, 'tls.pem'), cert);
  const site = (isSooner ? sooner(printedNginx) : printedNginx)
    .replace('127.0.0.1:4000', new URL(service).host)
    .replace('127.0.0.1:4001', new URL(other).host)
    .replace('listen 443 ssl', `listen ${port} ssl`)
    .replaceAll('/etc/userdir/', `${folder}/`);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  // Around it is what Debian's nginx.conf has.
  await writeFile(
    join(folder, 'nginx.conf'),
    `daemon off; pid ${folder}/nginx.pid; error_log stderr; events { worker_connections 768; }
    http { sendfile on; tcp_nopush on; gzip on; access_log off; ${temporary.join(' ')}\n${site}\n}`,
  );
  await mkdir(join(folder, 'logs'));
  return start(NGINX, ['-c', join(folder, 'nginx.conf'), '-p', folder], `https://${outer}:${port}`, folder);
}

async function startHaproxy(service: string, { other = service, isSooner = false }: ProxyOptions = {}): Promise<Proxy> {
  const folder = await mkdtemp(join(tmpdir(), 'userdir-haproxy-'));
  const port = await freePort();
  const printed = await read('docs/deploy/haproxy.cfg');
  const text = (isSooner ? sooner(printed) : printed)
    .replace('userdir-a:4000', new URL(service).host)
    .replace('userdir-b:4000', new URL(other).host)
    .replace('bind :8080', `bind :${port}`)
    // The machine may be busy for long.
    .replace('fall 2 ', 'fall 60 ');
  await writeFile(join(folder, 'haproxy.cfg'), text);
  return start(HAPROXY, ['-db', '-f', join(folder, 'haproxy.cfg')], `http://${outer}:${port}`, folder);
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

function open(url: string, options: RequestOptions = {}, body?: string): Promise<http.IncomingMessage> {
  const { request } = url.startsWith('https') ? https : http;
  return new Promise((resolve, reject) => {
    // The certificate is of the test's own making.
    const trusting = { agent: false, rejectUnauthorized: false, ...options };
    request(url, trusting, resolve).on('error', reject).end(body);
  });
}

async function ask(url: string, options?: RequestOptions, body?: string): Promise<Answer> {
  const response = await open(url, options, body);
  const chunks = await response.toArray();
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) };
}

describe.runIf(outer !== undefined).concurrent.each([
  ['nginx of operating.md', NGINX, startNginx],
  ['HAProxy of deploy/haproxy.cfg', HAPROXY, startHaproxy],
] as const)('behind the %s', (_name, program, startProxy) => {
  const app = useTestApp({
    env: { TRUST_PROXY: '127.0.0.1', DASHBOARD: 'on', PUBLIC_URL: 'https://users.example.com' },
    timeouts: { ...TIMEOUTS, heartbeatMs: TIMEOUTS.heartbeatMs / FASTER },
  });
  const testThere = test.runIf(hasProgram(program));
  let proxy: Proxy;
  let project: TestProject;
  beforeAll(async () => {
    if (!hasProgram(program)) return;
    project = await app.createProject();
    await project.addUsers(
      ...Array.from({ length: 60 }, (_, n) => ({ auth_method: 'passkey', auth_value: `user-${n}` })),
    );
    proxy = await startProxy(app.url);
  });
  afterAll(() => proxy?.stop());

  testThere('an idle stream stays open for longer than its time-outs', async ({ onTestFinished }) => {
    const quick = await startProxy(app.url, { isSooner: true });
    onTestFinished(() => quick.stop());
    const silence = Math.max(...silencesOf(printedNginx), ...silencesOf(await read('docs/deploy/haproxy.cfg')));
    const idle = await app.createProject();
    const paths = ['/changes', '/graphql?query=subscription%20%7B%20changes%20%7B%20cursor%20%7D%20%7D'];
    const streams = await Promise.all(
      paths.map((path) => open(quick.url + path, { headers: { ...idle.credentials, accept: 'text/event-stream' } })),
    );
    const texts = streams.map(() => '');
    const cut: (string | undefined)[] = [];
    for (const [at, stream] of streams.entries()) {
      expect([paths[at], stream.statusCode]).toEqual([paths[at], 200]);
      stream.setEncoding('utf8').on('data', (part: string) => {
        texts[at] += part;
      });
      stream.on('close', () => cut.push(paths[at])).on('error', () => undefined);
    }
    const from = performance.now();
    const isOver = () => performance.now() - from > (silence + TIMEOUTS.heartbeatMs) / FASTER;
    await vi.waitUntil(() => cut.length > 0 || isOver(), PATIENCE);
    expect(cut).toEqual([]);
    for (const text of texts) expect(text.split('\n\n').length).toBeGreaterThan(3);
    for (const stream of streams) stream.destroy();
  });

  testThere('an import of 2 MB goes through the upload of the dashboard', async () => {
    const name = `${program.split('/').at(-1)}-operator`;
    const { operators } = app.context.services;
    await operators.addOperator(THE_OPERATOR, name, 'admin');
    const { token } = await operators.createLink(THE_OPERATOR, name);
    const byPage = { host: 'users.example.com', 'sec-fetch-site': 'same-origin' };
    const session = await ask(
      `${proxy.url}/dashboard/session`,
      { method: 'POST', headers: { ...byPage, 'content-type': 'application/json' } },
      JSON.stringify({ token }),
    );
    expect(session.status).toBe(204);
    const cookie = session.headers['set-cookie']?.[0]?.replace(/;.*/s, '');
    const lines = Array.from(
      { length: 2_000 },
      (_, n) => `${JSON.stringify({ auth_method: 'passkey', auth_value: `${n}-${'x'.repeat(980)}` })}\n`,
    ).join('');
    expect(lines.length).toBeGreaterThan(2_000_000);
    const { status, body } = await ask(
      `${proxy.url}/dashboard/projects/${project.appId}/import`,
      { method: 'POST', headers: { ...byPage, cookie, 'content-type': 'application/x-ndjson' } },
      lines,
    );
    expect(status).toBe(200);
    expect(JSON.parse(body.toString().trim().split('\n').at(-1) ?? '')).toMatchObject({ report: { imported: 2_000 } });
  });

  testThere('a request keeps its ID, and gets one where it has none', async () => {
    const idOf = async (headers: Record<string, string>) =>
      (await ask(`${proxy.url}/livez`, { headers })).headers['x-request-id'];
    expect(await idOf({ 'x-request-id': 'order-4711' })).toBe('order-4711');
    expect(await idOf({})).toMatch(/^[\w-]{36}$/);
  });

  testThere(
    'an answer is compressed for a client on another machine, which cannot say that it is another one',
    async () => {
      const headers = { ...project.credentials, 'accept-encoding': 'gzip', 'x-forwarded-for': '127.0.0.1' };
      const answer = await ask(`${proxy.url}/server/users?limit=60`, { headers });
      expect(answer.headers['content-encoding']).toBe('gzip');
      expect(JSON.parse(gunzipSync(answer.body).toString()).result.users).toHaveLength(60);
    },
  );

  testThere('what is refused before its body was read has the answer of the service', async () => {
    const large = JSON.stringify({ query: `# ${'x'.repeat(3_000_000)}\n{ userCount }` });
    const json = { 'content-type': 'application/json' };
    const post = (headers: Record<string, string>) =>
      ask(`${proxy.url}/graphql`, { method: 'POST', headers: { ...json, ...headers } }, large);
    const [refused, unknown] = await Promise.all([post(project.credentials), post({})]);
    expect([refused.status, unknown.status]).toEqual([413, 401]);
    for (const { body } of [refused, unknown]) expect(JSON.parse(body.toString()).errors).toHaveLength(1);
  });
});

// The embedded database has one process.
describe.runIf(inject('engine') === 'postgres' && outer !== undefined).concurrent.each([
  ['nginx of operating.md', NGINX, startNginx],
  ['HAProxy of deploy/haproxy.cfg', HAPROXY, startHaproxy],
] as const)('two processes behind the %s', (_name, program, startProxy) => {
  const database = useDatabase();

  test.runIf(hasProgram(program))(
    'are restarted one after the other, and no login fails',
    async ({ onTestFinished }) => {
      const env = {
        ...database.env,
        DEMO: 'off',
        LOG_LEVEL: 'warn',
        TRUST_PROXY: '127.0.0.1',
        SHUTDOWN_DELAY_MS: '1000',
      };
      const settings = await Promise.all([0, 1].map(async () => ({ ...env, PORT: String(await freePort()) })));
      const project = await userdirJson(env, ['project', 'create', '--name', 'Rolling']);
      const servers = await Promise.all(settings.map((each) => startServer(each)));
      onTestFinished(async () => void (await Promise.all(servers.map((server) => server.stop()))));
      const [first, second] = servers.map(({ url }) => url) as [string, string];
      const proxy = await startProxy(first, { other: second });
      onTestFinished(() => proxy.stop());

      const headers = {
        'service-app-id': project.app_id,
        'service-app-secret': project.app_secret,
        'content-type': 'application/json',
      };
      const body = JSON.stringify({
        query: 'mutation { recordLogin(input: { authMethod: "passkey", authValue: "rolling" }) { created } }',
      });
      const answers: string[] = [];
      let isOver = false;
      const logIn = async () => {
        while (!isOver) {
          const answer = await ask(`${proxy.url}/graphql`, { method: 'POST', headers }, body);
          answers.push(`${answer.status} ${answer.body.toString().replace(/true|false/, 'yes or no')}`);
        }
      };
      const callers = [logIn(), logIn(), logIn()];
      for (const [place, own] of settings.entries()) {
        await servers[place]?.stop();
        servers[place] = await startServer(own);
      }
      isOver = true;
      await Promise.all(callers);
      expect(answers.length).toBeGreaterThan(100);
      expect(new Set(answers)).toEqual(new Set(['200 {"data":{"recordLogin":{"created":yes or no}}}']));
    },
  );
});
