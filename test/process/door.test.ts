import { spawnSync } from 'node:child_process';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { Json } from '../support/app.js';
import { CLI, startServer, userdirJson } from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';

/** The door of a server for commands on its machine, while it holds the embedded database. */
describe.runIf(inject('engine') === 'embedded')('the door of a server', () => {
  let database: TestDatabase;
  let settings: Record<string, string>;
  let path: string;
  beforeEach(async () => {
    database = await copyTemplate();
    settings = { ...database.env, DEMO: 'off' };
    path = join(database.env['DATA_DIR'] ?? '', 'command.json');
  });
  afterEach(() => database.drop());

  const door = (): { url: string; token: string } => JSON.parse(readFileSync(path, 'utf8'));
  const ME = JSON.stringify({ query: '{ me { name role } }' });

  /** A request to the door, as no command sends it. */
  const knock = (headers: Record<string, string>, url = door().url, body = ME) =>
    new Promise<{ status: number; body: Json }>((resolve, reject) => {
      const outgoing = request(`${url}/dashboard/graphql`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
      });
      outgoing.on('error', reject).on('response', (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk;
        });
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body: JSON.parse(text) }));
      });
      outgoing.end(body);
    });
  const withToken = (token = door().token) => ({ authorization: `Bearer ${token}`, 'userdir-operator': 'Ada' });

  test('opens to the token of its file, which only its system user can read, and which goes with it', async () => {
    const server = await startServer(settings);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(door()).toEqual({ url: server.url, token: expect.stringMatching(/^[\w-]{43}$/) });
    expect(await knock(withToken())).toEqual({ status: 200, body: { data: { me: { name: 'ada', role: 'ADMIN' } } } });
    expect(await knock({ ...withToken(), 'userdir-operator': 'a b' })).toMatchObject({ status: 400 });
    const withoutSession = await knock(withToken(), door().url, JSON.stringify({ query: '{ me { sessionId } }' }));
    expect(withoutSession.body.errors[0].extensions.code).toBe('CONFLICT');
    const unknown = await knock(withToken(), door().url, JSON.stringify({ query: '{ nobody }' }));
    expect([unknown.status, unknown.body.errors[0].message]).toEqual([
      400,
      'query: Cannot query field "nobody" on type "Query".',
    ]);
    await server.stop();
    expect(() => statSync(path)).toThrow('ENOENT');
  });

  test('is closed to a wrong token, to what a proxy passes on, and to other machines, and counts them', async () => {
    const server = await startServer({ ...settings, HOST: '0.0.0.0' });
    const refused = { status: 401, body: { errors: [{ extensions: { code: 'UNAUTHENTICATED' } }] } };
    expect(await knock(withToken())).toMatchObject({ status: 200 });
    expect(await knock(withToken(`${door().token.slice(1)}A`))).toMatchObject(refused);
    for (const header of ['forwarded', 'via', 'x-forwarded-for', 'x-real-ip'])
      expect(await knock({ ...withToken(), [header]: '127.0.0.1' })).toMatchObject(refused);
    // This machine under its own address, from which it also comes.
    const [own] = Object.values(networkInterfaces())
      .flat()
      .filter((each) => each?.family === 'IPv4' && !each.internal);
    const { port } = new URL(door().url);
    if (own !== undefined)
      expect(await knock(withToken(), `http://${own.address}:${port}`)).toMatchObject({ status: 200 });
    // More than a minute allows, also where a new minute begins meanwhile.
    let status = 0;
    for (let tries = 0; tries < 2_000 && status !== 429; tries += 1) ({ status } = await knock(withToken('wrong')));
    expect(status).toBe(429);
    // The right one goes on.
    expect(await knock(withToken())).toMatchObject({ status: 200 });
    await server.stop();
  });

  test('is open with DASHBOARD=off, and nothing else of the dashboard is', async () => {
    const server = await startServer({ ...settings, DASHBOARD: 'off' });
    expect(await userdirJson(settings, ['project', 'create', '--name', 'Test'])).toMatchObject({ name: 'Test' });
    for (const [method, of, status] of [
      ['POST', 'graphql', 404],
      ['GET', 'graphql', 405],
      ['GET', 'config.json', 404],
      ['POST', 'session', 404],
      ['GET', '', 404],
      ['GET', 'projects/app_1/export', 404],
    ] as const) {
      const answer = await fetch(`${server.url}/dashboard/${of}`, { method });
      expect([method, of, answer.status]).toEqual([method, of, status]);
    }
    await server.stop();
  });

  test('is found again after its server was killed: by the next server, or in the process of the command', async () => {
    const killed = await startServer(settings);
    const before = door();
    await killed.stop('SIGKILL');
    expect(door()).toEqual(before);
    expect(await userdirJson(settings, ['project', 'list'])).toEqual([]);
    const server = await startServer(settings);
    expect(door().token).not.toBe(before.token);
    // That of the server before, as long as this one has not written its own.
    const current = readFileSync(path);
    writeFileSync(path, JSON.stringify({ ...door(), token: before.token }));
    const listed = userdirJson(settings, ['project', 'list']);
    await server.logged('"status":401');
    writeFileSync(path, current);
    expect(await listed).toEqual([]);
    await server.stop();
  });

  test('refuses another system user in one sentence', async ({ skip }) => {
    skip(process.getuid?.() !== 0, 'Only root can be another user.');
    const folder = await mkdtemp(join(tmpdir(), 'userdir-open-'));
    await chmod(folder, 0o755);
    const env = { ...settings, DATA_DIR: join(folder, 'data') };
    const server = await startServer(env);
    const command = [CLI, 'project', 'list'];
    const { status, stdout, stderr } = spawnSync(process.execPath, command, { env, uid: 65_534, encoding: 'utf8' });
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^userdir: \S+ belongs to another system user: run the command as [^\n]+\.\n$/);
    await server.stop();
    await rm(folder, { recursive: true });
  });
});

test('a command names its operator in the trail, and has no request, wherever it runs', async () => {
  const database = await copyTemplate();
  const { app_id } = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
  const server = await startServer({ ...database.env, DEMO: 'off' });
  await userdirJson(database.env, ['project', 'rename', app_id, '--name', 'Other']);
  const trail = await userdirJson(database.env, ['audit', '--project', app_id]);
  expect(trail.map(({ action, actor, request_id }: Json) => [action, actor, request_id])).toEqual([
    ['create', 'operator:tester', null],
    ['rename', 'operator:tester', null],
  ]);
  await server.stop();
  await database.drop();
});
