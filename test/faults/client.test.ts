import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createClient, type User } from 'userdir/client';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type Credentials, type RunningServer, startServer, userdirJson } from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';
import { isNightly } from '../support/nightly.js';
import { startProxy, type TcpProxy } from '../support/proxy.js';

const KILLS = isNightly ? 20 : 8;
const PATIENCE = { timeout: 120_000, interval: 50 };
const COPY = fileURLToPath(new URL('../../docs/examples/copy.mjs', import.meta.url));

const folder = mkdtempSync(join(tmpdir(), 'userdir-copy-'));
let database: TestDatabase;
let settings: Record<string, string>;
let project: Credentials;
let server: RunningServer;
/** The one address of a service that comes back on another port. */
let proxy: TcpProxy;

beforeAll(async () => {
  database = await copyTemplate();
  settings = { ...database.env, DEMO: 'off', LOG_LEVEL: 'silent' };
  project = await userdirJson(settings, ['project', 'create', '--name', 'Copied']);
  server = await startServer(settings);
  proxy = await startProxy({ host: '127.0.0.1', port: Number(new URL(server.url).port) });
});
afterAll(async () => {
  await proxy?.close();
  await server?.stop();
  await database?.drop();
  rmSync(folder, { recursive: true, force: true });
});

function startCopy() {
  const [APP_ID, APP_SECRET] = [project.app_id, project.app_secret];
  const env = { PATH: process.env['PATH'] ?? '', USERDIR_URL: `http://127.0.0.1:${proxy.port}`, APP_ID, APP_SECRET };
  const child = spawn(process.execPath, [COPY], { env: { ...env, COPY: join(folder, 'users') }, stdio: 'pipe' });
  const ended = Promise.all([once(child, 'exit'), child.stderr.toArray()]).then(([, errors]) => errors.join(''));
  return {
    /** What it has printed as an error. */
    kill() {
      child.kill('SIGKILL');
      return ended;
    },
  };
}

const read = (name: string) => {
  try {
    return readFileSync(join(folder, 'users', name), 'utf8');
  } catch {
    return null;
  }
};

/** Registers, changes, merges and removes users, one after the other, until `isDone`. */
async function write(isDone: () => boolean, name: string): Promise<void> {
  const client = clientOf();
  const ids: string[] = [];
  for (let turn = 0; !isDone(); turn += 1) {
    const { user } = await client.logins.record(
      { authMethod: 'email', authValue: `${name}.${turn}@example.com` },
      { isPatient: true },
    );
    ids.push(user.id);
    if (turn % 3 === 1) await client.users.update(user.id, { externalId: `${name}-${turn}` }, { isPatient: true });
    if (turn % 4 === 2) await client.users.remove(ids.shift() as string, { isPatient: true });
    if (turn % 5 === 3) await client.users.merge({ from: ids.shift() as string, into: user.id }, { isPatient: true });
  }
}

const clientOf = () =>
  createClient({ url: `http://127.0.0.1:${proxy.port}`, appId: project.app_id, appSecret: project.app_secret });

/** What a copy has of a user: logins are no changes. */
const kept = ({ lastLogin, loginCount, ...user }: User) => user;

test(`a copy is whole after ${KILLS} kills of the service and of the copying program`, async () => {
  let isDone = false;
  const done = () => isDone;
  const writing = Promise.all([write(done, 'ada'), write(done, 'eve')]);
  let copy = startCopy();
  for (let kill = 0; kill < KILLS; kill += 1) {
    const cursor = read('cursor');
    await vi.waitUntil(() => read('cursor') !== null && read('cursor') !== cursor, PATIENCE);
    if (kill % 2 === 0) {
      expect(await copy.kill()).toBe('');
      copy = startCopy();
    } else {
      await server.stop('SIGKILL');
      server = await startServer(settings);
      proxy.redirect({ host: '127.0.0.1', port: Number(new URL(server.url).port) });
    }
  }
  isDone = true;
  await writing;
  const client = clientOf();
  // Users are written before others are removed. With the second user, all that the first came with is done. A file is there before its text.
  for (const name of ['last', 'one-more']) {
    const { user } = await client.logins.record({ authMethod: 'email', authValue: `${name}@example.com` });
    await vi.waitUntil(() => read(`${user.id}.json`)?.endsWith('}'), PATIENCE);
  }
  expect(await copy.kill()).toBe('');

  const users: User[] = [];
  for await (const listed of client.users.list()) users.push(listed);
  const names = readdirSync(join(folder, 'users')).filter((name) => name.endsWith('.json'));
  const copied = names.map((name) => JSON.parse(read(name) as string) as User);
  const inOrder = (list: readonly User[]) => list.map(kept).toSorted((a, b) => Number(a.id) - Number(b.id));
  expect(users.length).toBeGreaterThan(KILLS);
  expect(inOrder(copied)).toEqual(inOrder(users));
});
