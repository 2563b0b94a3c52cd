import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { json } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { Webhook } from 'standardwebhooks';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { ROOT } from '../support/checkout.js';
import { CLIENTS, hasClients } from '../support/clients.js';
import { type Credentials, recordLogin, startServer, userdirJson } from '../support/command.js';
import { copyTemplate } from '../support/engines.js';
import { readPage } from '../support/examples.js';
import { startProxy } from '../support/proxy.js';

/** The programs of docs/examples, as they are, against a service. The gateway and its second subgraph are in federation.test.ts. */

const run = promisify(execFile);
const EXAMPLES = join(ROOT, 'docs/examples');
const COMPILER_OPTIONS = { target: 'es2023', module: 'nodenext', strict: true, skipLibCheck: true, outDir: 'dist' };

describe.runIf(hasClients)('the programs of docs/examples', () => {
  const app = useTestApp();
  let project: TestProject;
  /** For what a program writes or is compiled to. The imports of the packages resolve in it. */
  let folder: string;
  const running: ChildProcess[] = [];

  beforeAll(async () => {
    project = await app.createProject();
    folder = await mkdtemp(join(CLIENTS, '.made-examples-'));
  });
  const stopAll = async () => {
    for (const child of running.splice(0)) {
      child.kill();
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    }
  };
  afterEach(stopAll);
  afterAll(() => rm(folder, { recursive: true }));

  const environment = (more: Record<string, string> = {}) => ({
    PATH: process.env['PATH'] ?? '',
    USERDIR_URL: app.url,
    APP_ID: project.appId,
    APP_SECRET: project.appSecret,
    ...more,
  });

  /** Starts a program that goes on. Returns what it prints, line by line. */
  function start(name: string, more: Record<string, string>, within = EXAMPLES): AsyncIterator<string> {
    const child = spawn(process.execPath, [join(within, name)], {
      env: environment(more),
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    running.push(child);
    return createInterface(child.stdout)[Symbol.asyncIterator]();
  }
  const next = async (lines: AsyncIterator<string>): Promise<string> => (await lines.next()).value;

  async function logIn(authValue: string): Promise<string> {
    const query = 'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { id } } }';
    const { data } = await project.graphql(query, { input: { authMethod: 'email', authValue } });
    return data.recordLogin.user.id;
  }

  test('are shorter than 60 lines, and the README names each of them', async () => {
    const readme = await readFile(join(ROOT, 'README.md'), 'utf8');
    const names = await readdir(EXAMPLES);
    expect(names.length).toBeGreaterThan(5);
    for (const name of names) {
      const text = await readFile(join(EXAMPLES, name), 'utf8');
      expect(text.trimEnd().split('\n').length, name).toBeLessThan(60);
      expect(readme, name).toContain(`(docs/examples/${name})`);
    }
  });

  test('backend.ts gets its types from the service, compiles, and records, verifies and is refused', async () => {
    const { examples } = await readPage('docs/graphql.md');
    const codegen = examples.find(({ file }) => file === 'codegen.ts')?.code ?? '';
    await cp(join(EXAMPLES, 'backend.ts'), join(folder, 'backend.ts'));
    const files = {
      'package.json': '{ "type": "module" }',
      'tsconfig.json': JSON.stringify({ compilerOptions: COMPILER_OPTIONS, exclude: ['codegen.ts'] }),
      'codegen.ts': codegen.replace('http://127.0.0.1:4000', app.url).replace('queries.graphql', 'backend.ts'),
    };
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    const options = { cwd: folder, env: environment() };
    await run(join(CLIENTS, 'node_modules/.bin/graphql-codegen'), [], options);
    const compile = run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', '.', '--types', 'node'], options);
    await compile.catch(({ stdout }) => expect.unreachable(stdout));
    const { stdout } = await run(process.execPath, ['dist/backend.js'], options);
    expect(stdout.trim().split('\n')).toEqual([
      expect.stringMatching(/^user \d+: registered$/),
      'owns the wallet: true',
      'refused: BAD_USER_INPUT of input.authValue',
    ]);
  });

  test('backend.py does the same with nothing but Python', async () => {
    const ask = async () => (await run('python3', ['backend.py'], { cwd: EXAMPLES, env: environment() })).stdout;
    await ask();
    expect((await ask()).trim().split('\n')).toEqual([
      expect.stringMatching(/^user \d+: login \d+$/),
      'owns the wallet: true',
      'refused: BAD_USER_INPUT',
    ]);
  });

  test('follower.mjs prints each change, and goes on where it was', async () => {
    const settings = { CURSOR_FILE: join(folder, 'cursor.txt'), PAUSE_MS: '50' };
    const first = await logIn('first@example.com');
    let lines = start('follower.mjs', settings);
    await readUntil(lines, first);
    const second = await logIn('second@example.com');
    await readUntil(lines, second);
    await expect.poll(() => readFile(settings.CURSOR_FILE, 'utf8')).not.toBe('');
    await expect.poll(async () => (await changesAfter(await readFile(settings.CURSOR_FILE, 'utf8'))).length).toBe(0);
    running.at(-1)?.kill();
    const third = await logIn('third@example.com');
    lines = start('follower.mjs', settings);
    expect(await next(lines)).toMatch(new RegExp(` user\\.created ${third}$`));
  });

  async function readUntil(lines: AsyncIterator<string>, id: string): Promise<void> {
    for (;;) if ((await next(lines)).endsWith(` user.created ${id}`)) return;
  }

  test('follower.mjs outlives failures of the service and answers of a proxy, but not a refusal', async () => {
    const mishaps: [status: number, body: string][] = [
      [503, '<html>Away.</html>'],
      [500, '{"error":"Failed."}'],
      [502, ''],
      [200, '{"message":"Changes li'],
    ];
    const gate = createServer(async ({ url, headers }, response) => {
      const [status, body] = mishaps.shift() ?? [];
      if (status !== undefined) return void response.writeHead(status).end(body);
      const kept = Object.entries(headers).filter(([name]) => /^service-/.test(name));
      const passed = await fetch(`${app.url}${url}`, { headers: Object.fromEntries(kept) as Record<string, string> });
      response.writeHead(passed.status).end(await passed.text());
    });
    await once(gate.listen(0, '127.0.0.1'), 'listening');
    try {
      const lines = start('follower.mjs', {
        USERDIR_URL: `http://127.0.0.1:${(gate.address() as AddressInfo).port}`,
        CURSOR_FILE: join(folder, 'gate.txt'),
        PAUSE_MS: '50',
      });
      await readUntil(lines, await logIn('behind@example.com'));
      expect(mishaps).toEqual([]);
      mishaps.push([404, '<html>Nothing here.</html>']);
      expect((await lines.next()).done).toBe(true);
    } finally {
      gate.close();
      gate.closeAllConnections();
    }
  });

  test('subscriber.mjs prints each change, and goes on where it was after a break and after its own end', async () => {
    await cp(join(EXAMPLES, 'subscriber.mjs'), join(folder, 'subscriber.mjs'));
    const cursorFile = join(folder, 'subscribed.txt');
    const readCursor = () => readFile(cursorFile, 'utf8').catch(() => '');
    const proxy = await startProxy({ host: '127.0.0.1', port: Number(new URL(app.url).port) });
    const settings = { CURSOR_FILE: cursorFile, USERDIR_URL: `http://127.0.0.1:${proxy.port}` };
    try {
      await logIn('before@example.com');
      let lines = start('subscriber.mjs', settings, folder);
      await expect.poll(readCursor, { timeout: 20_000 }).not.toBe('');
      await logIn('while@example.com');
      expect(await next(lines)).toMatch(/ USER_CREATED while@example\.com$/);
      await proxy.cut();
      await logIn('broken@example.com');
      await proxy.restore();
      expect(await next(lines)).toMatch(/ USER_CREATED broken@example\.com$/);
      await expect.poll(async () => (await changesAfter(await readCursor())).length).toBe(0);
      await stopAll();
      await logIn('after@example.com');
      lines = start('subscriber.mjs', settings, folder);
      expect(await next(lines)).toMatch(/ USER_CREATED after@example\.com$/);
      // Until it is stopped, it may write its own cursor.
      await stopAll();
      await writeFile(cursorFile, 'x');
      expect((await start('subscriber.mjs', settings, folder).next()).done).toBe(true);
    } finally {
      await proxy.close();
    }
  });

  test('subscriber.mjs stays through an orderly restart of the service', async () => {
    await cp(join(EXAMPLES, 'subscriber.mjs'), join(folder, 'subscriber.mjs'));
    const database = await copyTemplate();
    const own: Credentials = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
    const begin = (port: string) => startServer({ ...database.env, DEMO: 'off', PORT: port });
    let server = await begin('0');
    const { url } = server;
    const cursorFile = join(folder, 'restarted.txt');
    const register = (authValue: string) => recordLogin(url, own, { authMethod: 'email', authValue });
    try {
      const settings = { CURSOR_FILE: cursorFile, USERDIR_URL: url, APP_ID: own.app_id, APP_SECRET: own.app_secret };
      const lines = start('subscriber.mjs', settings, folder);
      await expect.poll(() => readFile(cursorFile, 'utf8').catch(() => ''), { timeout: 20_000 }).not.toBe('');
      await register('before@example.com');
      expect(await next(lines)).toMatch(/ USER_CREATED before@example\.com$/);
      await server.stop();
      server = await begin(new URL(url).port);
      await register('after@example.com');
      expect(await next(lines)).toMatch(/ USER_CREATED after@example\.com$/);
    } finally {
      await stopAll();
      await server.stop();
      await database.drop();
    }
  });

  test('subscriber.mjs takes no user for removed who could not be read, and goes on after an event that is too large', async () => {
    await cp(join(EXAMPLES, 'subscriber.mjs'), join(folder, 'subscriber.mjs'));
    const cursorFile = join(folder, 'refused.txt');
    const asked: string[] = [];
    /** What each subscription gets: an event whose user is null, with an error beside it. */
    const errors = [
      { message: 'event: got more.', extensions: { code: 'BAD_USER_INPUT', cursor: 'second' } },
      { message: 'The App Secret lacks the scope.', extensions: { code: 'FORBIDDEN' } },
    ];
    const service = createServer(async (request, response) => {
      asked.push(((await json(request)) as Json).variables.after);
      const change = { at: '2026-01-31T12:00:00.000Z', type: 'USER_UPDATED', user: null };
      const data = { changes: { cursor: 'second', change } };
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(
        `event: next\ndata: ${JSON.stringify({ data, errors: [errors.shift()] })}\n\nevent: complete\ndata:\n\n`,
      );
    });
    service.listen(0, '127.0.0.1');
    await once(service, 'listening');
    await writeFile(cursorFile, 'first');
    const url = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;
    const lines = start('subscriber.mjs', { CURSOR_FILE: cursorFile, USERDIR_URL: url }, folder);
    expect((await lines.next()).done).toBe(true);
    expect([asked, await readFile(cursorFile, 'utf8')]).toEqual([['first', 'second'], 'second']);
    service.close();
  });

  async function changesAfter(cursor: string): Promise<unknown[]> {
    const { body } = await project.rest(`/changes?after=${cursor}`);
    return body.result.changes;
  }

  const SECRET = `whsec_${Buffer.from('a secret of twenty-four bytes').toString('base64')}`;

  /** Starts a receiver. Returns what it prints, and what sends it a message about a user. */
  async function startReceiver(store: string, name = 'receiver.mjs', within = EXAMPLES) {
    const settings = { WEBHOOK_SECRET: SECRET, PORT: '0', STORE: join(folder, store), PAUSE_MS: '10' };
    const lines = start(name, settings, within);
    const child = running.at(-1) as ChildProcess;
    let port: string | undefined;
    // A message from before may be handled first.
    const before: string[] = [];
    while (port === undefined) {
      const line = await next(lines);
      port = /^Listening on (\d+)$/.exec(line)?.[1];
      if (port === undefined) before.push(line);
    }
    async function send(id: string, userId: number, key = SECRET): Promise<number> {
      const now = new Date();
      const body = JSON.stringify({ type: 'user.created', timestamp: now.toISOString(), data: { user_id: userId } });
      const headers = {
        'webhook-id': id,
        'webhook-timestamp': String(Math.floor(now.getTime() / 1_000)),
        'webhook-signature': new Webhook(key).sign(id, now, body),
      };
      return (await fetch(`http://127.0.0.1:${port}/hooks`, { method: 'POST', headers, body })).status;
    }
    async function kill(): Promise<void> {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    return { lines, before, send, kill };
  }

  test('receiver.mjs takes a signed message once, also after its own end, and refuses a forged one', async () => {
    const forged = `whsec_${Buffer.from('another secret of many bytes').toString('base64')}`;
    const first = await startReceiver('once.txt');
    const { send, lines } = first;
    expect([await send('a', 1, forged), await send('b', 2), await send('b', 2), await send('c', 3)]).toEqual([
      ...[401, 204, 204, 204],
    ]);
    expect([await next(lines), await next(lines)]).toEqual(['user.created 2', 'user.created 3']);
    await expect.poll(() => readFile(join(folder, 'once.txt'), 'utf8')).toContain('{"id":"c"}');
    await first.kill();
    const second = await startReceiver('once.txt');
    expect([await second.send('c', 3), await second.send('d', 4)]).toEqual([204, 204]);
    expect([second.before, await next(second.lines)]).toEqual([[], 'user.created 4']);
  });

  test('receiver.mjs that is killed between its answers and its work loses no message and keeps their order', async () => {
    // Work that does not end, or fails the first time.
    const write = async (name: string, work: string) => {
      const text = await readFile(join(EXAMPLES, 'receiver.mjs'), 'utf8');
      const changed = text.replace('console.log(', `${work}\n  console.log(`);
      expect(changed).not.toBe(text);
      await writeFile(join(folder, name), changed);
    };
    await write('stuck.mjs', "console.log('begun');\n  await new Promise(() => {});");
    await write(
      'failing.mjs',
      "globalThis.tries = (globalThis.tries ?? 0) + 1;\n  if (tries % 2 === 1) throw new Error('Failed.');",
    );
    const stuck = await startReceiver('killed.txt', 'stuck.mjs', folder);
    expect([await stuck.send('a', 1), await stuck.send('b', 2), await stuck.send('c', 3)]).toEqual([204, 204, 204]);
    expect(await next(stuck.lines)).toBe('begun');
    await stuck.kill();
    // Cut off in the middle of a message, which was not accepted.
    await appendFile(join(folder, 'killed.txt'), '\n{"id":"d","body":"{\\"type\\":{}');
    const again = await startReceiver('killed.txt', 'failing.mjs', folder);
    expect([await again.send('b', 2), await again.send('d', 4)]).toEqual([204, 204]);
    const handled = [...again.before];
    while (handled.length < 4) handled.push(await next(again.lines));
    expect(handled).toEqual([1, 2, 3, 4].map((id) => `user.created ${id}`));
  });

  test('server-action.mjs signs a person in, counts a form once, and says what a person may read', async () => {
    const url = await next(start('server-action.mjs', { PORT: '0' }));
    const form = await (await fetch(url)).text();
    expect(form).not.toContain(project.appSecret);
    const key = /name="key" type="hidden" value="([^"]+)"/.exec(form)?.[1] ?? '';
    const press = async (fields: Record<string, string>) => {
      const answer = await fetch(url, { method: 'POST', body: new URLSearchParams(fields).toString() });
      return /role="status">(.*?)</.exec(await answer.text())?.[1];
    };
    const ada = { email: 'form@example.com', key };
    expect([await press(ada), await press(ada), await press({ ...ada, key: `${key}-2` })]).toEqual([
      'Welcome!',
      'Welcome!',
      'Welcome back: login 2.',
    ]);
    expect(await press({ email: 'nobody', key: 'k' })).toBe('This is not an email address.');
  });
});
