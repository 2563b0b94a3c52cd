import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { readPage } from '../support/examples.js';
import { idOf } from '../support/rest.js';

/** The program of docs/errors.md: it retries what says that it may be retried, with the same key, and nothing else. */

const run = promisify(execFile);
/** Headers that the gate does not pass on. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'content-length', 'content-encoding', 'transfer-encoding'];
const [sample] = (await readPage('docs/errors.md')).examples.filter(({ file }) => file === 'rest.py');

describe('rest.py of docs/errors.md', () => {
  const app = useTestApp();
  let project: TestProject;
  let folder: string;
  let gate: Server;
  /** The user whom the program removes. */
  let removed: string;
  /** The idempotency keys that have come. */
  let keys: string[];
  /** How many requests are still refused. */
  let refusals = 0;
  /** What befalls the next requests, after those: this status, with this Retry-After, or, for 0, the end of the connection. */
  let mishaps: [status: number, wait?: string][] = [];

  /** Refuses some requests as the service would, and passes on the others. */
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url = '' } = request;
    keys.push(String(request.headers['idempotency-key']));
    refusals -= 1;
    if (refusals >= 0) {
      response.writeHead(429, { 'retry-after': '1' }).end('{"error":"More."}');
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
    const passed = await fetch(app.url + url, { method: request.method ?? '', headers });
    response.writeHead(passed.status, [...passed.headers].filter(([name]) => !HOP_BY_HOP.includes(name)).flat());
    response.end(await passed.text());
  }
  beforeAll(async () => {
    project = await app.createProject();
    await project.addUsers({ auth_method: 'email', auth_value: 'gone@example.com' });
    removed = String(await idOf(project, 'gone@example.com'));
    gate = createServer((request, response) => void answer(request, response));
    gate.listen(0, '127.0.0.1');
    await once(gate, 'listening');
    const url = `http://127.0.0.1:${(gate.address() as AddressInfo).port}`;
    folder = await mkdtemp(join(tmpdir(), 'userdir-errors-'));
    const code = sample?.code.replace('http://127.0.0.1:4000', url).replace('/users/1"', `/users/${removed}"`);
    await writeFile(join(folder, 'rest.py'), code ?? '');
  });
  afterAll(async () => {
    gate.close();
    await rm(folder, { recursive: true });
  });

  async function runProgram(file = 'rest.py', secret = project.appSecret): Promise<Json> {
    keys = [];
    const env = { PATH: process.env['PATH'] ?? '', APP_ID: project.appId, APP_SECRET: secret };
    return run('python3', [join(folder, file)], { env }).catch((error) => error);
  }

  test('retries what was refused for a moment, with the same key', async () => {
    refusals = 2;
    const { stdout, stderr } = await runProgram();
    expect(stderr).toBe('');
    expect(JSON.parse(stdout)).toEqual({ message: 'User removed.' });
    expect([keys.length, new Set(keys).size]).toEqual([3, 1]);
  });

  test('repeats with the same key what was not answered, and what says no time', async () => {
    await project.addUsers({ auth_method: 'email', auth_value: 'late@example.com' });
    const late = await idOf(project, 'late@example.com');
    const code = await readFile(join(folder, 'rest.py'), 'utf8');
    await writeFile(join(folder, 'late.py'), code.replace(`/users/${removed}"`, `/users/${late}"`));
    mishaps = [[408], [0], [503, new Date().toUTCString()]];
    const { stdout, stderr } = await runProgram('late.py');
    expect([stderr, JSON.parse(stdout)]).toEqual(['', { message: 'User removed.' }]);
    expect([keys.length, new Set(keys).size]).toEqual([4, 1]);
  });

  test('does not repeat a change without a key', async () => {
    const code = await readFile(join(folder, 'rest.py'), 'utf8');
    await writeFile(join(folder, 'keyless.py'), code.replace(/\{"Idempotency-Key": .*?\}/, '{}'));
    for (const mishap of [0, 500]) {
      mishaps = [[mishap]];
      expect((await runProgram('keyless.py')).stderr).toMatch(/Remote end closed|RuntimeError/);
      expect(keys).toHaveLength(1);
    }
  });

  test('waits for no more than two minutes', async () => {
    mishaps = [[503, '3600']];
    expect((await runProgram()).stderr).toContain('RuntimeError');
    expect(keys).toHaveLength(1);
  });

  test('does not retry what cannot succeed, and says its code', async () => {
    refusals = 0;
    const { stderr } = await runProgram('rest.py', 'wrong');
    expect(stderr).toContain('Error: UNAUTHENTICATED');
    expect(keys).toHaveLength(1);
  });
});
