import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { createServer, get } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Json } from '../support/app.js';
import {
  CLI,
  type Command,
  call,
  listUsers,
  type RunningServer,
  type Settings,
  spawnUserdir,
  startServer,
  useDatabase,
  userdir,
} from '../support/command.js';
import { copyTemplate, createEmptyDatabase, type TestDatabase } from '../support/engines.js';
import { isNightly } from '../support/nightly.js';
import { PATIENCE } from '../support/waiting.js';

const engine = inject('engine');

describe('the first start', () => {
  let database: TestDatabase;
  let server: ReturnType<typeof spawnUserdir>;
  let banner = '';
  let appId: string;
  let appSecret: string;
  let url: string;

  beforeAll(async () => {
    database = await createEmptyDatabase(engine);
    server = spawnUserdir({ ...database.env, PORT: '0' }, ['serve']);
    server.stderr.resume();
    server.stdout.on('data', (text) => {
      banner += text;
    });
    await once(server.stdout, 'data');
    url = /GraphQL +(http:\S+)\/graphql/.exec(banner)?.[1] ?? '';
    appId = /App ID +(\S+)/.exec(banner)?.[1] ?? '';
    appSecret = /App Secret +(\S+)/.exec(banner)?.[1] ?? '';
  });
  afterAll(async () => {
    server.kill('SIGKILL');
    await database.drop();
  });

  const demoUsers = () => listUsers(url, { app_id: appId, app_secret: appSecret });

  test('prints the App ID, the App Secret, and URLs that answer', async () => {
    expect(appId).toMatch(/^app_[0-9a-f]{24}$/);
    expect(appSecret).toMatch(/^uds_[\w-]{43}[A-Za-z0-9]{6}$/);
    const shown = [...banner.matchAll(/https?:\/\/[^\s)']+/g)].map(([each]) => each);
    expect(shown).toEqual(
      expect.arrayContaining([url, `${url}/graphql`, `${url}/docs`, `${url}/docs/reference`, `${url}/readyz`]),
    );
    for (const path of ['/graphql', '/docs', '/docs/reference', '/readyz', '/livez', '/']) {
      const response = await fetch(url + path, { headers: { accept: 'text/html' } });
      expect([path, response.status]).toEqual([path, 200]);
    }
    expect(banner).toContain(engine === 'embedded' ? `embedded, in ${database.env['DATA_DIR']}` : 'PostgreSQL');
  });

  test('prints what to export and a first request, which work when pasted into a shell', async () => {
    const lines = banner.split('\n').filter((each) => /^ +(export|curl) /.test(each));
    expect(lines[0]?.trim()).toBe(`export APP_ID=${appId} APP_SECRET=${appSecret}`);
    const { stdout } = await promisify(execFile)('bash', ['-c', lines.join('\n')]);
    expect(JSON.parse(stdout).result).toMatchObject({ page: 1, limit: 2, users: [{}, {}] });
  });

  test('creates about 200 users with every login method, on both networks, custodial and external', async () => {
    const users = await demoUsers();
    expect(users).toHaveLength(200);
    const methods = new Set(users.map((user) => user.auth_method));
    expect([...methods]).toEqual(expect.arrayContaining(['email', 'passkey', 'wallet', 'google']));
    expect(new Set(users.map((user) => user.wallet !== null))).toEqual(new Set([true, false]));
    const body = JSON.stringify({ query: '{ users(first: 100) { nodes { accounts { network walletType } } } }' });
    const { body: answer } = await call(url, { app_id: appId, app_secret: appSecret }, '/graphql', {
      method: 'POST',
      body,
    });
    const kinds = answer.data.users.nodes.flatMap(({ accounts }: Json) =>
      accounts.map((account: Json) => `${account.network} ${account.walletType}`),
    );
    expect(new Set(kinds)).toEqual(
      new Set(['STELLAR CUSTODIAL', 'ETHEREUM CUSTODIAL', 'STELLAR EXTERNAL', 'ETHEREUM EXTERNAL']),
    );
  });

  test('some of them have signed up in the last 30 days, so that the chart of the dashboard is not empty', async () => {
    const users = await demoUsers();
    const since = Date.now() - 29 * 86_400_000;
    const recent = users.filter(({ created_at }) => Date.parse(created_at) > since);
    expect(recent.length).toBeGreaterThan(10);
    expect(new Set(recent.map(({ created_at }) => created_at.slice(0, 10))).size).toBeGreaterThan(5);
    for (const { created_at, last_login } of recent) {
      expect(Date.parse(created_at)).toBeLessThan(Date.now());
      if (last_login !== null) expect(Date.parse(last_login)).toBeGreaterThanOrEqual(Date.parse(created_at));
    }
    // The others are those that the documentation shows.
    expect(new Set(recent.map(({ auth_method }) => auth_method))).toEqual(new Set(['google', 'passkey']));
    const passkeys = users.filter(({ auth_method }) => auth_method === 'passkey');
    const months = passkeys
      .map(({ created_at }) => new Date(created_at))
      .map((day) => day.getUTCFullYear() * 12 + day.getUTCMonth());
    const last = Math.max(...months);
    expect(new Set(months)).toEqual(new Set(Array.from({ length: 24 }, (_, ago) => last - ago)));
  });

  test('keeps the demo credentials where only this system user can read them', async () => {
    const { mode } = await stat(join(database.env['DATA_DIR'] ?? '', 'demo.json'));
    expect(mode & 0o777).toBe(0o600);
  });

  /** Which pages that need no credentials contain the App Secret, including the documents and scripts they load. */
  async function pagesWithSecret(origin: string): Promise<string[]> {
    const found: string[] = [];
    for (const path of `/ /graphql /docs /docs/guides.js /docs/search.json /docs/reference /docs/try /docs/try/json
      /openapi.json /docs/try/static/swagger-initializer.js`.split(/\s+/)) {
      const page = await fetch(origin + path, { headers: { accept: 'text/html' } });
      expect(page.status).toBe(200);
      if (/uds_[\w-]{10}/.test(await page.text())) found.push(path);
    }
    return found;
  }

  test('shows the demo credentials in pages, on the embedded database only', async () => {
    expect(await pagesWithSecret(url)).toEqual(
      engine === 'embedded' ? ['/', '/graphql', '/docs', '/docs/reference', '/docs/try'] : [],
    );
  });

  test('shows them only under local host names, because scripts of another site could read them', async () => {
    const { port } = new URL(url);
    const names = ['localhost', `127.0.0.1:${port}`, `[::1]:${port}`, `rebound.example:${port}`, 'localhost.example'];
    const shown = await Promise.all(names.map(async (host) => /uds_[\w-]{10}/.test(await frontPage({ host }))));
    const isEmbedded = engine === 'embedded';
    expect(shown).toEqual([isEmbedded, isEmbedded, isEmbedded, false, false]);
  });

  test('does not show them to requests through a proxy, or while TRUST_PROXY is set', async () => {
    const host = 'localhost';
    const proxied: Record<string, string>[] = [
      { forwarded: 'for=192.0.2.1' },
      { 'X-Forwarded-For': '192.0.2.1' },
      { 'x-forwarded-anything': '' },
      { via: '1.1 proxy' },
      { 'x-real-ip': '127.0.0.1' },
    ];
    for (const headers of proxied) {
      for (const path of ['/', '/graphql']) {
        expect(await frontPage({ host, accept: 'text/html', ...headers }, path)).not.toMatch(/uds_[\w-]{10}/);
      }
    }
    expect(/uds_[\w-]{10}/.test(await frontPage({ host }))).toBe(engine === 'embedded');
  });

  function frontPage(headers: Record<string, string>, path = '/'): Promise<string> {
    return new Promise((resolve, reject) => {
      get(new URL(path, url), { headers }, (response) => resolve(text(response))).on('error', reject);
    });
  }

  test.runIf(isNightly || engine === 'embedded')('keeps the data and the credentials for the next start', async () => {
    const before = await demoUsers();
    server.kill('SIGTERM');
    await once(server, 'close');
    const second = await startServer({ ...database.env, TRUST_PROXY: '1' });
    expect(second.demo).toEqual({ app_id: appId, app_secret: appSecret });
    url = second.url;
    expect(await demoUsers()).toEqual(before);
    expect(await pagesWithSecret(url)).toEqual([]);
    await second.stop();
    // On PostgreSQL no page ever has them.
    if (engine === 'postgres') return;
    // This address can be reached from other machines.
    const open = await startServer({ ...database.env, HOST: '0.0.0.0' });
    expect(await pagesWithSecret(open.url.replace('0.0.0.0', '127.0.0.1'))).toEqual([]);
    await open.stop();
  });
});

// The engine has no part in what follows, and processes start sooner on PostgreSQL.
const isOnce = engine === 'postgres' || process.env['TEST_DATABASE_URL'] === undefined;

describe.runIf(isOnce)('a server', () => {
  const database = useDatabase();
  let server: RunningServer;

  /** A request whose head the server has read; the server waits for its body. */
  async function openRequest(path: string): Promise<Socket> {
    const { demo, url } = server;
    const socket = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('utf8');
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: localhost\r\nservice-app-id: ${demo?.app_id}\r\nservice-app-secret: ${demo?.app_secret}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${BODY.length}\r\nExpect: 100-continue\r\n\r\n`,
    );
    const [interim] = await once(socket, 'data');
    expect(interim).toContain('100 Continue');
    return socket;
  }
  const BODY = JSON.stringify({ address: '0x00000000000000000000000000000000000000aa' });

  test('exits at once on a second signal', async () => {
    server = await startServer(database.env);
    const socket = await openRequest('/server/wallets/verify');
    socket.on('error', () => undefined);
    server.process.kill('SIGTERM');
    await server.logged('finishing the requests in flight');
    expect(await server.stop('SIGINT')).toMatchObject({ code: 1, signal: null });
    socket.destroy();
  });

  test('with --json prints one JSON value, its URLs and the demo credentials, never logs a secret, and exits on SIGINT too', async () => {
    server = await startServer({ ...database.env, LOG_LEVEL: 'trace' });
    const demo = server.demo ?? { app_id: '', app_secret: '' };
    expect((await call(server.url, demo, '/server/users')).status).toBe(200);
    const { code, signal, stdout, stderr } = await server.stop('SIGINT');
    expect({ code, signal }).toEqual({ code: 0, signal: null });
    expect(stderr).toContain('/server/users');
    expect(stderr).not.toContain(demo.app_secret);
    expect(JSON.parse(stdout)).toEqual({
      url: server.url,
      graphql: `${server.url}/graphql`,
      rest: `${server.url}/server`,
      dashboard: expect.stringMatching(/\/dashboard#login=\S+$/),
      demo: { app_id: expect.stringMatching(/^app_/), app_secret: expect.stringMatching(/^uds_/) },
    });
    expect(stdout.trim()).not.toContain('\n');
  });

  test('prints how to create a project if there is no demo project', async () => {
    await using empty = await copyTemplate();
    const bannerOf = async () => {
      const child = spawnUserdir({ ...empty.env, PORT: '0', DEMO: 'off' }, ['serve']);
      child.stderr.resume();
      const [text] = await once(child.stdout, 'data');
      child.kill();
      await once(child, 'close');
      return String(text);
    };
    expect(await bannerOf()).toContain(
      'There is no project yet. Create one: npm run -s userdir -- project create --name NAME\n',
    );
    await userdir(empty.env, ['project', 'create', '--name', 'Test']);
    expect(await bannerOf()).toContain('\n  1 project. To list them: npm run -s userdir -- project list\n');
  });
});

describe.runIf(isOnce)('a start is refused', () => {
  async function refusal(settings: Settings) {
    await using database = await copyTemplate();
    const outcome = await userdir({ LOG_LEVEL: 'silent', PORT: '0', DEMO: 'off', ...database.env, ...settings }, [
      'serve',
    ]);
    return outcome;
  }

  test.each(['PORT', 'METRICS_PORT'])('by a %s in use, in one line that names the port', async (setting) => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    expect(await refusal({ [setting]: String(port) })).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: `userdir: Port ${port} on 127.0.0.1 is in use by another process; set ${setting} to a free one.\n`,
    });
    other.close();
  });

  test('by a HOST that this machine does not have', async () => {
    const { code, stderr } = await refusal({ HOST: '192.0.2.1' });
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: 'userdir: HOST 192.0.2.1 is not an address of this machine.\n',
    });
  });

  test.runIf(engine === 'postgres')('by a database that does not exist on a running PostgreSQL server', async () => {
    const url = new URL(inject('templates').postgres ?? '');
    url.pathname = '/userdir_test_nowhere';
    const { code, stderr } = await refusal({ DATABASE_URL: url.href });
    const sentence =
      'userdir: database "userdir_test_nowhere" does not exist. Create the database, or correct its name in DATABASE_URL.\n';
    expect({ code, stderr }).toEqual({ code: 1, stderr: sentence });
  });

  test('for other commands too, by an unreachable database, in one line without the password', async () => {
    const settings = { DATABASE_URL: 'postgres://me:hunter2@127.0.0.1:1/users' };
    const { code, stderr } = await userdir(settings, ['project', 'list']);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^userdir: The database of DATABASE_URL cannot be reached: .*127\.0\.0\.1:1\. Start PostgreSQL, or correct the host and port in DATABASE_URL\.\n$/,
    );
  });
});

test.runIf(engine === 'embedded')(
  'a server without a free file descriptor says so once, with the limit and what to do, and goes on when there are some',
  async () => {
    await using database = await copyTemplate();
    const limited: Command = ['bash', '-c', 'ulimit -n 300 && exec "$0" "$@"', process.execPath, CLI];
    const server = await startServer({ ...database.env, DEMO: 'off' }, limited);
    const { hostname, port } = new URL(server.url);
    const sockets = new Set<Socket>();
    // The server closes those beyond the limit, and after a while those that say nothing.
    const fill = () => {
      while (sockets.size < 400) {
        const socket = connect(Number(port), hostname).on('error', () => undefined);
        sockets.add(socket.on('close', () => sockets.delete(socket)));
      }
    };
    const filling = setInterval(fill, 200);
    await server.logged('file descriptors');
    // For longer than it takes to look again.
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    clearInterval(filling);
    for (const socket of sockets) socket.destroy();
    await expect
      .poll(
        () =>
          fetch(`${server.url}/readyz`).then(
            ({ status }) => status,
            () => null,
          ),
        PATIENCE,
      )
      .toBe(200);
    const { code, stderr } = await server.stop();
    expect(code).toBe(0);
    const lines = stderr.split('\n').filter((line) => line.includes('file descriptors'));
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      level: 40,
      msg: expect.stringMatching(/^All 300 .* LimitNOFILE=/),
    });
  },
);
