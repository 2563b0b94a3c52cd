import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { Webhook } from 'standardwebhooks';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { ROOT } from '../support/checkout.js';
import { readPage } from '../support/examples.js';
import { startProxy } from '../support/proxy.js';

/** The programs of docs/examples, as they are, against a service. */

const run = promisify(execFile);
const EXAMPLES = join(ROOT, 'docs/examples');

describe('the programs of docs/examples', () => {
  const app = useTestApp();
  let project: TestProject;
  /** For what a program writes. */
  let folder: string;
  const running: ChildProcess[] = [];

  beforeAll(async () => {
    project = await app.createProject();
    folder = await mkdtemp(join(tmpdir(), 'userdir-examples-'));
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
  function start(name: string, more: Record<string, string>): AsyncIterator<string> {
    const child = spawn(process.execPath, [join(EXAMPLES, name)], {
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

  test('have at most 25 lines where they use the client, and the README names each of them', async () => {
    const readme = await readFile(join(ROOT, 'README.md'), 'utf8');
    const names = await readdir(EXAMPLES);
    expect(names.length).toBeGreaterThan(5);
    for (const name of names) {
      const text = await readFile(join(EXAMPLES, name), 'utf8');
      const most = text.includes("'userdir/client'") ? 25 : 55;
      expect(text.trimEnd().split('\n').length, name).toBeLessThanOrEqual(most);
      expect(readme, name).toContain(`(docs/examples/${name})`);
    }
  });

  /** Compiles programs with the types of the package, within it, and returns what each prints. */
  async function compileAndRun(sources: Record<string, string>): Promise<string[]> {
    const made = await mkdtemp(join(ROOT, '.made-examples-'));
    try {
      const names = Object.keys(sources);
      for (const name of names) await writeFile(join(made, name), sources[name] ?? '');
      const options = '--strict --module nodenext --target es2023 --types node --ignoreConfig'.split(' ');
      const compile = run(join(ROOT, 'node_modules/.bin/tsc'), [...options, ...names], { cwd: made });
      await compile.catch(({ stdout }) => expect.unreachable(stdout));
      const printed: string[] = [];
      for (const name of names)
        printed.push(
          (await run(process.execPath, [name.replace('.ts', '.js')], { cwd: made, env: environment() })).stdout,
        );
      return printed;
    } finally {
      await rm(made, { recursive: true });
    }
  }

  test('backend.ts records, verifies and is refused', async () => {
    const [printed] = await compileAndRun({ 'backend.ts': await readFile(join(EXAMPLES, 'backend.ts'), 'utf8') });
    expect(printed?.trim().split('\n')).toEqual([
      expect.stringMatching(/^user \d+: registered$/),
      'owns the wallet: true',
      'refused: BAD_USER_INPUT of input.authValue',
    ]);
  });

  test('the program of docs/client.md runs', async () => {
    const { examples } = await readPage('docs/client.md');
    const programs = examples.filter(({ kind }) => kind === 'ts');
    const sources = programs.map(({ file, code }) => [file, code.replace('http://127.0.0.1:4000', app.url)]);
    const [backend] = await compileAndRun(Object.fromEntries(sources));
    expect(backend).toContain('true');
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

  test('curl.sh records a login, finds the user, verifies and reads changes', async () => {
    const { stdout } = await run('sh', [join(EXAMPLES, 'curl.sh')], { env: environment() });
    const [login, found, verified, changes] = stdout
      .trim()
      .split('\n')
      .map((line): Json => JSON.parse(line));
    expect(login.data.recordLogin.user.id).toMatch(/^\d+$/);
    expect(String(found.result.users[0].id)).toBe(login.data.recordLogin.user.id);
    expect(verified.message).toBe('Wallet verified.');
    expect(changes.result.changes.length).toBeGreaterThan(0);
  });

  test('follower.mjs prints each change, and goes on where it was, also after a cut', async () => {
    const proxy = await startProxy({ host: '127.0.0.1', port: Number(new URL(app.url).port) });
    const settings = { CURSOR_FILE: join(folder, 'cursor.txt'), USERDIR_URL: `http://127.0.0.1:${proxy.port}` };
    try {
      const first = await logIn('first@example.com');
      let lines = start('follower.mjs', settings);
      await readUntil(lines, first);
      await proxy.cut();
      const second = await logIn('second@example.com');
      await proxy.restore();
      await readUntil(lines, second);
      await expect.poll(() => readFile(settings.CURSOR_FILE, 'utf8')).not.toBe('');
      await expect.poll(async () => (await changesAfter(await readFile(settings.CURSOR_FILE, 'utf8'))).length).toBe(0);
      await stopAll();
      const third = await logIn('third@example.com');
      lines = start('follower.mjs', settings);
      expect(await next(lines)).toMatch(new RegExp(` USER_CREATED ${third}$`));
    } finally {
      await stopAll();
      await proxy.close();
    }
  });

  async function readUntil(lines: AsyncIterator<string>, id: string): Promise<void> {
    for (;;) if ((await next(lines)).endsWith(` USER_CREATED ${id}`)) return;
  }

  test('copy.mjs has a file for each user, also after its own end', async () => {
    const copy = join(folder, 'users');
    const filesOf = () => readdir(copy).catch(() => []);
    const id = await logIn('copied@example.com');
    start('copy.mjs', { COPY: copy });
    await expect.poll(filesOf).toContain('cursor');
    expect(JSON.parse(await readFile(join(copy, `${id}.json`), 'utf8'))).toMatchObject({
      authValue: 'copied@example.com',
    });
    await stopAll();
    await project.rest(`/server/users/${id}`, { method: 'DELETE' });
    const later = await logIn('later@example.com');
    start('copy.mjs', { COPY: copy });
    await expect.poll(filesOf).toContain(`${later}.json`);
    // A page is copied user by user, so this may be a moment later.
    await expect.poll(filesOf).not.toContain(`${id}.json`);
  });

  async function changesAfter(cursor: string): Promise<unknown[]> {
    const { body } = await project.rest(`/changes?after=${cursor}`);
    return body.result.changes;
  }

  const SECRET = `whsec_${Buffer.from('a secret of twenty-four bytes').toString('base64')}`;

  /** Starts a receiver. Returns what sends it a message about a user, what it has stored, and what kills it. */
  async function startReceiver(store: string) {
    const lines = start('receiver.mjs', { WEBHOOK_SECRET: SECRET, PORT: '0', STORE: store });
    const child = running.at(-1) as ChildProcess;
    const port = /^Listening on (\d+)$/.exec(await next(lines))?.[1];
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
    return { send, kill };
  }

  test('receiver.mjs stores a signed message once, also after a crash in the middle of one, and refuses a forged one', async () => {
    const store = join(folder, 'messages.txt');
    const forged = `whsec_${Buffer.from('another secret of many bytes').toString('base64')}`;
    const first = await startReceiver(store);
    expect([await first.send('a', 1, forged), await first.send('b', 2), await first.send('b', 2)]).toEqual([
      401, 204, 204,
    ]);
    await first.kill();
    await appendFile(store, '\n{"id":"c","type":{');
    const second = await startReceiver(store);
    expect([await second.send('b', 2), await second.send('c', 3)]).toEqual([204, 204]);
    const lines = (await readFile(store, 'utf8')).split('\n').filter((line) => line.endsWith('\t'));
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { id: 'b', type: 'USER_CREATED', userId: '2' },
      { id: 'c', type: 'USER_CREATED', userId: '3' },
    ]);
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
