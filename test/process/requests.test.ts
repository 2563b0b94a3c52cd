import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import { type Credentials, type RunningServer, type Settings, startServer, userdirJson } from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';

/** The last requests of a project and its tallies, where several processes answer, and where they end. */

const isPostgres = inject('engine') === 'postgres';
const LONG = { timeout: 120_000, interval: 50 };
let database: TestDatabase;
let project: Credentials;
let server: RunningServer | null = null;
beforeAll(async () => {
  database = await copyTemplate();
});
afterEach(async () => {
  await server?.stop();
  server = null;
});
afterAll(() => database.drop());

async function start(settings: Settings): Promise<RunningServer> {
  server = await startServer({ ...database.env, DEMO: 'off', ...settings });
  return server;
}

/** Sends a request on a connection of its own, so that the next one may reach another worker. */
function send(
  url: string,
  headers: Record<string, string>,
  body?: string,
): Promise<{ status: number; text: string; cookie: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(
      url,
      { agent: false, headers, method: body === undefined ? 'GET' : 'POST', timeout: 10_000 },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (part) => {
          text += part;
        });
        const cookie = String(answer.headers['set-cookie']).replace(/;.*/s, '');
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text, cookie }));
      },
    );
    sent.on('error', reject).on('timeout', () => sent.destroy(new Error('No answer.')));
    sent.end(body);
  });
}

const ask = (path: string, id: string) => {
  const { app_id, app_secret } = project;
  return send(`${server?.url}${path}`, {
    'service-app-id': app_id,
    'service-app-secret': app_secret,
    'x-request-id': id,
  });
};

/** Logs in, and returns what asks the operators' schema. */
async function logIn() {
  const { url } = await userdirJson(database.env, ['dashboard']);
  const headers = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' };
  const body = JSON.stringify({ token: new URL(url).hash.replace('#login=', '') });
  const { cookie } = await send(`${server?.url}/dashboard/session`, headers, body);
  return async (query: string): Promise<Json> => {
    const { text } = await send(`${server?.url}/dashboard/graphql`, { ...headers, cookie }, JSON.stringify({ query }));
    return JSON.parse(text).data;
  };
}

const workersOf = (pid = 0) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);

describe.runIf(isPostgres)('with two workers', () => {
  test('each tells what all remember, and how many answered where one hangs', async () => {
    project = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
    const { process: primary, stop } = await start({ WORKERS: '2' });
    const ids = Array.from({ length: 12 }, () => randomUUID());
    for (const [index, id] of ids.entries())
      expect((await ask(index % 2 ? '/server/users/12345' : '/server/users/count', id)).status).toBe(
        index % 2 ? 404 : 200,
      );
    const dashboard = await logIn();
    const recent = async (args: string) =>
      (
        await dashboard(
          `{ project(appId: "${project.app_id}") { recentRequests(${args}) { workers answered requests { requestId status } } } }`,
        )
      ).project.recentRequests;
    const all = await vi.waitUntil(async () => {
      const found = await recent('first: 100');
      return found.requests.length === 12 && found;
    }, LONG);
    expect(all).toMatchObject({ workers: 2, answered: 2 });
    expect(all.requests.map(({ requestId }: Json) => requestId).toSorted()).toEqual(ids.toSorted());
    const { requests: failed } = await recent('failed: true');
    expect(failed.map(({ status }: Json) => status)).toEqual(Array(6).fill(404));
    for (const id of ids) {
      expect(await dashboard(`{ projectOfRequest(requestId: "${id}") }`)).toEqual({ projectOfRequest: project.app_id });
      expect((await recent(`requestId: "${id}"`)).requests).toHaveLength(1);
    }
    const [hanging = 0] = workersOf(primary.pid);
    process.kill(hanging, 'SIGSTOP');
    try {
      // A stopped worker is given a connection, which is not answered.
      const some = await vi.waitUntil(() => recent('first: 100').catch(() => null), LONG);
      expect(some).toMatchObject({ workers: 2, answered: 1 });
      expect(some.requests.length).toBeLessThan(12);
    } finally {
      process.kill(hanging, 'SIGCONT');
    }
    const { stderr } = await stop();
    const lines = stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Json);
    const answering = lines.filter(({ reqId }) => ids.includes(reqId)).map(({ pid }) => pid);
    expect(new Set(answering).size).toBe(2);
  });
});

test('a service that stops has written its tallies', async () => {
  project = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
  await start({ WORKERS: isPostgres ? '2' : '1' });
  for (let index = 0; index < 5; index += 1) await ask('/server/users/count', randomUUID());
  await ask('/server/users/12345', randomUUID());
  expect(await server?.stop()).toMatchObject({ code: 0 });
  await start({});
  const dashboard = await logIn();
  const { requestHours } = (
    await dashboard(`{ project(appId: "${project.app_id}") { requestHours { requests failures logins } } }`)
  ).project;
  const sum = (name: string) => requestHours.reduce((total: number, hour: Json) => total + hour[name], 0);
  expect(['requests', 'failures', 'logins'].map(sum)).toEqual([6, 1, 0]);
});
