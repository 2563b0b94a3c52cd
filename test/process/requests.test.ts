import { randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Json } from '../support/app.js';
import { type Credentials, type RunningServer, type Settings, startServer, userdirJson } from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';

/** The last requests of a project and its tallies, where several processes answer, and where they end. */

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

test('a service that stops has written its tallies', async () => {
  project = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
  await start({});
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
