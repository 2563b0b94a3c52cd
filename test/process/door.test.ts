import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, inject, test } from 'vitest';
import type { Json } from '../support/app.js';
import { CLI, type Settings, startServer, userdirJson, useServer } from '../support/command.js';
import { copyTemplate } from '../support/engines.js';

const isEmbedded = inject('engine') === 'embedded';
const ME = JSON.stringify({ query: '{ me { name role } }' });

/** What the door of a server is: the server writes it into its data directory. */
function doorIn(settings: Settings): { path: string; url: string; token: string } {
  const path = join(settings['DATA_DIR'] ?? '', 'command.json');
  return { path, ...JSON.parse(readFileSync(path, 'utf8')) };
}

/** A request to the door, as no command sends it. */
const knock = (url: string, headers: Record<string, string>, body = ME) =>
  new Promise<{ status: number; body: Json }>((resolve, reject) => {
    const outgoing = request(`${url}/dashboard/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
    });
    outgoing.on('error', reject).on('response', async (answer) => {
      resolve({ status: answer.statusCode ?? 0, body: JSON.parse(await text(answer)) });
    });
    outgoing.end(body);
  });
const withToken = (token: string) => ({ authorization: `Bearer ${token}`, 'userdir-operator': 'Ada' });

/** The door of a server for commands on its machine, while it holds the embedded database. */
describe.runIf(isEmbedded)('the door of a server with DASHBOARD=off', () => {
  const server = useServer({ settings: { DASHBOARD: 'off', HOST: '0.0.0.0' } });
  const door = () => doorIn(server.settings());

  test('opens to the token of its file, which only its system user can read', async () => {
    const { path, url, token } = door();
    const own = withToken(token);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect([new URL(url).port, token]).toEqual([new URL(server.url()).port, expect.stringMatching(/^[\w-]{43}$/)]);
    expect(await knock(url, own)).toEqual({ status: 200, body: { data: { me: { name: 'ada', role: 'ADMIN' } } } });
    expect(await knock(url, { ...own, 'userdir-operator': 'a b' })).toMatchObject({ status: 400 });
    const withoutSession = await knock(url, own, JSON.stringify({ query: '{ me { sessionId } }' }));
    expect(withoutSession.body.errors[0].extensions.code).toBe('CONFLICT');
    const unknown = await knock(url, own, JSON.stringify({ query: '{ nobody }' }));
    expect([unknown.status, unknown.body.errors[0].message]).toEqual([
      400,
      'query: Cannot query field "nobody" on type "Query".',
    ]);
  });

  test('is the only part of the dashboard that is there', async () => {
    expect(await server.createProject()).toMatchObject({ name: 'Test' });
    for (const [method, of, status] of [
      ['POST', 'graphql', 404],
      ['GET', 'graphql', 405],
      ['GET', 'config.json', 404],
      ['POST', 'session', 404],
      ['GET', '', 404],
      ['GET', 'projects/app_1/export', 404],
    ] as const) {
      const answer = await fetch(`${server.url()}/dashboard/${of}`, { method });
      expect([method, of, answer.status]).toEqual([method, of, status]);
    }
  });

  test('is closed to a wrong token, to what a proxy passes on, and to other machines, and counts them', async () => {
    const { url, token } = door();
    const refused = { status: 401, body: { errors: [{ extensions: { code: 'UNAUTHENTICATED' } }] } };
    expect(await knock(url, withToken(`${token.slice(1)}A`))).toMatchObject(refused);
    for (const header of ['forwarded', 'via', 'x-forwarded-for', 'x-real-ip'])
      expect(await knock(url, { ...withToken(token), [header]: '127.0.0.1' })).toMatchObject(refused);
    // This machine under its own address, from which it also comes.
    const [own] = Object.values(networkInterfaces())
      .flat()
      .filter((each) => each?.family === 'IPv4' && !each.internal);
    if (own !== undefined)
      expect(await knock(`http://${own.address}:${new URL(url).port}`, withToken(token))).toMatchObject({
        status: 200,
      });
    // More than a minute allows, also where a new minute begins meanwhile.
    let status = 0;
    for (let tries = 0; tries < 2_000 && status !== 429; tries += 1)
      ({ status } = await knock(url, withToken('wrong')));
    expect(status).toBe(429);
    // The right one goes on.
    expect(await knock(url, withToken(token))).toMatchObject({ status: 200 });
  });
});

test.runIf(isEmbedded)(
  'a command finds its server again after that was killed: the next one, or the database in its own process',
  async () => {
    await using database = await copyTemplate();
    const settings = { ...database.env, DEMO: 'off' };
    const killed = await startServer(settings);
    const before = doorIn(settings);
    expect(before.url).toBe(killed.url);
    await killed.stop('SIGKILL');
    expect(doorIn(settings)).toEqual(before);
    expect(await userdirJson(settings, ['project', 'list'])).toEqual([]);
    const server = await startServer(settings);
    const { path, ...current } = doorIn(settings);
    expect(current.token).not.toBe(before.token);
    // That of the server before, as long as this one has not written its own.
    writeFileSync(path, JSON.stringify({ ...current, token: before.token }));
    const listed = userdirJson(settings, ['project', 'list']);
    await server.logged('"status":401');
    writeFileSync(path, JSON.stringify(current));
    expect(await listed).toEqual([]);
    await server.stop();
    expect(existsSync(path)).toBe(false);
  },
);

test.runIf(isEmbedded)('the door refuses another system user in one sentence', async ({ skip }) => {
  skip(process.getuid?.() !== 0, 'Only root can be another user.');
  const folder = await mkdtemp(join(tmpdir(), 'userdir-open-'));
  await chmod(folder, 0o755);
  const env = { DATA_DIR: join(folder, 'data'), DEMO: 'off' };
  const server = await startServer(env);
  const command = [CLI, 'project', 'list'];
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { env, uid: 65_534, encoding: 'utf8' });
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/^userdir: \S+ belongs to another system user: run the command as [^\n]+\.\n$/);
  await server.stop();
  await rm(folder, { recursive: true });
});

test('a command names its operator in the trail, and has no request, wherever it runs', async () => {
  await using database = await copyTemplate();
  const { app_id } = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
  const server = await startServer({ ...database.env, DEMO: 'off' });
  await userdirJson(database.env, ['project', 'rename', app_id, '--name', 'Other']);
  const trail = await userdirJson(database.env, ['audit', '--project', app_id]);
  expect(trail.map(({ action, actor, request_id }: Json) => [action, actor, request_id])).toEqual([
    ['create', 'operator:tester', null],
    ['rename', 'operator:tester', null],
  ]);
  await server.stop();
});
