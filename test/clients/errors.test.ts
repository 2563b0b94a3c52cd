import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { ROOT } from '../support/checkout.js';
import { CLIENTS, hasClients } from '../support/clients.js';
import { readPage } from '../support/examples.js';
import { idOf } from '../support/rest.js';

/** The clients of docs/errors.md: each retries what says that it may be retried, with the same key, and nothing else. */

const run = promisify(execFile);
/** Headers that the gate does not pass on. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'content-length', 'content-encoding', 'transfer-encoding'];
const COMPILER_OPTIONS = { target: 'es2023', module: 'nodenext', strict: true, skipLibCheck: true, outDir: 'dist' };
const samples = (await readPage('docs/errors.md')).examples.filter(({ file }) => file !== '');
const overGraphQL = samples.map(({ file }) => file).filter((file) => file.endsWith('.ts'));

describe.runIf(hasClients)('the clients of docs/errors.md', () => {
  const app = useTestApp();
  let project: TestProject;
  let folder: string;
  let gate: Server;
  /** The user whom the sample of REST removes. */
  let removed: string;
  /** The idempotency keys that have come. */
  let keys: string[];
  /** How many requests are still refused. */
  let refusals = 0;
  /** What befalls the next requests, after those: this status, with this Retry-After, or, for 0, the end of the connection. */
  let mishaps: [status: number, wait?: string][] = [];

  /** Refuses some requests as the service would, and passes on the others. */
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    const { url = '' } = request;
    keys.push(String(request.headers['idempotency-key'] ?? JSON.parse(body.toString() || '{}').variables?.key));
    refusals -= 1;
    if (refusals >= 0) {
      response.writeHead(429, { 'content-type': `${typeOf(request)}; charset=utf-8`, 'retry-after': '1' });
      response.end('{"errors":[{"message":"More.","extensions":{"code":"RATE_LIMITED","retryAfter":1}}]}');
      return;
    }
    const [mishap, wait] = mishaps.shift() ?? [];
    if (mishap !== undefined) {
      if (mishap === 0) request.socket.destroy();
      else response.writeHead(mishap, wait === undefined ? {} : { 'retry-after': wait }).end();
      return;
    }
    const { host: _, ...headers } = request.headers as Record<string, string>;
    for (const name of HOP_BY_HOP) delete headers[name];
    const passed = await fetch(app.url + url, {
      method: request.method ?? '',
      headers,
      ...(body.length > 0 && { body }),
    });
    response.writeHead(passed.status, [...passed.headers].filter(([name]) => !HOP_BY_HOP.includes(name)).flat());
    response.end(await passed.text());
  }
  const typeOf = ({ headers }: IncomingMessage) =>
    headers.accept?.includes('application/graphql-response+json')
      ? 'application/graphql-response+json'
      : 'application/json';

  beforeAll(async () => {
    project = await app.createProject();
    await project.addUsers({ auth_method: 'email', auth_value: 'gone@example.com' });
    removed = String(await idOf(project, 'gone@example.com'));
    gate = createServer((request, response) => void answer(request, response));
    gate.listen(0, '127.0.0.1');
    await once(gate, 'listening');
    const url = `http://127.0.0.1:${(gate.address() as AddressInfo).port}`;
    folder = await mkdtemp(join(CLIENTS, '.made-errors-'));
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: COMPILER_OPTIONS }));
    for (const { file, code } of samples)
      await writeFile(
        join(folder, file),
        code.replaceAll('http://127.0.0.1:4000', url).replace('/users/1"', `/users/${removed}"`),
      );
    const compile = run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', folder, '--types', 'node']);
    await compile.catch(({ stdout }) => expect.unreachable(stdout));
  });
  afterAll(async () => {
    gate.close();
    await rm(folder, { recursive: true });
  });

  async function runSample(file: string, secret = project.appSecret): Promise<Json> {
    keys = [];
    const env = { PATH: process.env['PATH'] ?? '', APP_ID: project.appId, APP_SECRET: secret };
    if (file.endsWith('.py')) return run('python3', [join(folder, file)], { env }).catch((error) => error);
    const program = join(folder, 'dist', file.replace('.ts', '.js'));
    return run(process.execPath, [program], { env }).catch((error) => error);
  }

  test('are for Python and Apollo', () => {
    const names = ['rest.py', 'apollo.ts'];
    expect(samples.map(({ file }) => file)).toEqual(names);
  });

  test.each(samples.map(({ file }) => file))(
    '%s retries what was refused for a moment, with the same key',
    async (file) => {
      refusals = 2;
      const { stdout, stderr } = await runSample(file);
      expect(stderr).toBe('');
      const answer = JSON.parse(stdout);
      if (file === 'rest.py') expect(answer).toEqual({ message: 'User removed.' });
      else expect(answer.recordLogin.user.id).toMatch(/^\d+$/);
      expect([keys.length, new Set(keys).size]).toEqual([3, 1]);
    },
  );

  test.each(overGraphQL)('%s repeats with the same key what was not answered, and what says no time', async (file) => {
    mishaps = [[408], [0], [502]];
    const { stdout, stderr } = await runSample(file);
    expect(stderr).toBe('');
    expect(JSON.parse(stdout).recordLogin.user.id).toMatch(/^\d+$/);
    expect([keys.length, new Set(keys).size]).toEqual([4, 1]);
  });

  test.each(overGraphQL)('%s takes the answer of a wrong path for a failure, and says what it is', async (file) => {
    const program = join(folder, 'dist', file.replace('.ts', '.js'));
    await writeFile(
      program.replace('.js', '-lost.js'),
      (await readFile(program, 'utf8')).replace("/graphql'", "/graph'"),
    );
    const { stdout, stderr, code } = await runSample(file.replace('.ts', '-lost.ts'));
    expect([stdout, code]).toEqual(['', 1]);
    expect(stderr).toMatch(/Error: .*(PATH_NOT_FOUND|404|Not Found)/);
    expect(keys).toHaveLength(1);
  });

  test('rest.py repeats with the same key what was not answered, and what says no time', async () => {
    await project.addUsers({ auth_method: 'email', auth_value: 'late@example.com' });
    const late = await idOf(project, 'late@example.com');
    const code = await readFile(join(folder, 'rest.py'), 'utf8');
    await writeFile(join(folder, 'late.py'), code.replace(`/users/${removed}"`, `/users/${late}"`));
    mishaps = [[408], [0], [503, new Date().toUTCString()]];
    const { stdout, stderr } = await runSample('late.py');
    expect([stderr, JSON.parse(stdout)]).toEqual(['', { message: 'User removed.' }]);
    expect([keys.length, new Set(keys).size]).toEqual([4, 1]);
  });

  test('rest.py does not repeat a change without a key', async () => {
    const code = await readFile(join(folder, 'rest.py'), 'utf8');
    await writeFile(join(folder, 'keyless.py'), code.replace(/\{"idempotency-key": .*?\}/, '{}'));
    for (const mishap of [0, 500]) {
      mishaps = [[mishap]];
      expect((await runSample('keyless.py')).stderr).toMatch(/Remote end closed|RuntimeError/);
      expect(keys).toHaveLength(1);
    }
  });

  test('rest.py waits for no more than two minutes', async () => {
    mishaps = [[503, '3600']];
    expect((await runSample('rest.py')).stderr).toContain('RuntimeError');
    expect(keys).toHaveLength(1);
  });

  test.each(samples.map(({ file }) => file))(
    '%s does not retry what cannot succeed, and says its code',
    async (file) => {
      refusals = 0;
      const { stderr } = await runSample(file, 'wrong');
      expect(stderr).toContain('Error: UNAUTHENTICATED');
      expect(keys).toHaveLength(1);
    },
  );
});
