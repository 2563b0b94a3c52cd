import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, test, vi } from 'vitest';
import { startTestApp, type TestProject, useTestApp } from '../support/app.js';
import { logIn, type TestOperator } from '../support/dashboard.js';
import { sendPieces } from '../support/rest.js';
import { PATIENCE } from '../support/waiting.js';

/** Callers whom the service does not know yet, and operators, take turns with the projects and with each other. */

const app = useTestApp({
  admission: { maxInFlight: 16, maxInFlightPerProject: 1, maxQueued: 16 },
});
let project: TestProject;
let cookieName: string;
beforeAll(async () => {
  project = await app.createProject();
  cookieName = `userdir-dashboard-${new URL(app.url).port}`;
});

const tokens = Array.from({ length: 40 }, (_, n) => `${'A'.repeat(40)}${100 + n}`);
const ME = { query: '{ me { name } }' };
const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  fetch(app.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin', ...headers },
    body: JSON.stringify(body),
  });
const STRANGERS: Record<string, () => Promise<Response>> = {
  'no cookie': () => post('/dashboard/graphql', ME),
  'a cookie that is none of ours': () => post('/dashboard/graphql', ME, { cookie: `${cookieName}=abc` }),
  'a cookie made up': () => post('/dashboard/graphql', ME, { cookie: `${cookieName}=${tokens[0]}` }),
  'an export with a cookie made up': () =>
    fetch(`${app.url}/dashboard/projects/${project.appId}/export`, {
      headers: { cookie: `${cookieName}=${tokens[0]}` },
    }),
  'a link made up': () => post('/dashboard/session', { token: tokens[0] }),
  'a challenge of a passkey': () => post('/dashboard/passkey/challenge', {}),
  'a passkey made up': () => post('/dashboard/passkey/session', { id: 'a' }),
  'an App Secret made up': () =>
    fetch(`${app.url}/server/users`, { headers: { ...project.credentials, 'service-app-secret': 'uds_no' } }),
  'no credentials': () => post('/graphql', ME),
};

test.each(Object.entries(STRANGERS))(
  '%s is no tenant: a project beside it still has all places',
  async (_what, ask) => {
    await ask();
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const early: number[] = [];
    const reads = await new Promise<Promise<unknown>[]>((resolve, reject) => {
      const holding = app.context.db.transaction('READ COMMITTED', async (tx) => {
        await tx.query({ text: 'LOCK TABLE users', values: [] } as never);
        const sent: Promise<unknown>[] = [];
        for (let id = 1; id <= 12; id += 1) {
          sent.push(project.rest(`/server/users/${id}`).then(({ status }) => early.push(status)));
          await sleep(5);
        }
        await fetch(`${app.url}/livez`);
        resolve(sent);
        await released;
      });
      holding.catch(reject);
    });
    // Beside another tenant one would wait for the table and eight in the queue. The others would be refused.
    const refused = [...early];
    release();
    await Promise.all(reads);
    expect(refused).toEqual([]);
  },
);

/** Sends requests in one packet, so that all have come before the first is answered. */
async function sendTogether(requests: readonly string[]): Promise<string> {
  const closing = requests.at(-1)?.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n');
  return sendPieces(app.url, [[...requests.slice(0, -1), closing].join('')]);
}
const asked = (text: RegExp) => app.statements.filter((sql) => text.test(sql)).length;

test('what cannot be a session costs no statement', async () => {
  const before = app.statements.length;
  for (const token of ['', 'abc', 'x'.repeat(44), 'ä'.repeat(43)]) {
    const answer = await post('/dashboard/graphql', ME, { cookie: `${cookieName}=${encodeURIComponent(token)}` });
    expect([answer.status, await answer.json()]).toMatchObject([
      401,
      { errors: [{ extensions: { code: 'UNAUTHENTICATED' } }] },
    ]);
  }
  expect(app.statements.slice(before)).toEqual([]);
});

test('cookies that are made up share statements, as checks of readiness do', async () => {
  await using own = await startTestApp();
  const { operators } = own.context.services;
  const before = own.statements.length;
  const owners = await Promise.all(tokens.map((token) => operators.findOwner(operators.keyOf(token) as string)));
  expect(owners).toEqual(tokens.map(() => null));
  expect(own.statements.length - before).toBeLessThan(6);
  const checks = asked(/server_encoding/);
  const ready = `GET /readyz HTTP/1.1\r\nHost: ${new URL(app.url).host}\r\n\r\n`;
  const answers = await sendTogether(Array.from({ length: 40 }, () => ready));
  expect(answers.match(/"status":"ready"/g)).toHaveLength(40);
  expect(asked(/server_encoding/) - checks).toBeLessThan(6);
});

test('cookies that are made up meet the limit of an address, and a session still passes', async () => {
  await using own = await startTestApp();
  const viewer = await logIn(own, 'viewer');
  const name = viewer.cookie.replace(/=.*/s, '');
  const statuses: Record<number, number> = {};
  for (let sent = 0; sent < 620; sent += 20) {
    const answers = await Promise.all(
      tokens.slice(0, 20).map((token) =>
        fetch(`${own.url}/dashboard/graphql`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', cookie: `${name}=${token}` },
          body: JSON.stringify(ME),
        }),
      ),
    );
    for (const { status } of answers) statuses[status] = (statuses[status] ?? 0) + 1;
  }
  expect(statuses).toEqual({ 401: 600, 429: 20 });
  expect((await viewer.ask(ME.query)).me.name).toBe(viewer.name);
});

test('an operator is served while another sends too many, who alone is refused', async () => {
  const [busy, calm] = [await logIn(app, 'viewer'), await logIn(app, 'viewer')];
  let isOver = false;
  let refused = 0;
  const storming = Array.from({ length: 60 }, async () => {
    while (!isOver)
      if ((await busy.inProject(project.appId).graphql('{ users(first: 100) { nodes { id } } }')).status === 503)
        refused += 1;
  });
  await vi.waitUntil(() => refused > 0, PATIENCE);
  const statuses: number[] = [];
  for (let n = 0; n < 20; n += 1) statuses.push((await calm.graphql(ME.query)).status);
  isOver = true;
  await Promise.all(storming);
  expect(statuses).toEqual(Array(20).fill(200));
});

test('an operator is served while strangers send too many', async () => {
  const calm: TestOperator = await logIn(app, 'viewer');
  await calm.ask(ME.query);
  let isOver = false;
  const storming = Array.from({ length: 60 }, async (_, n) => {
    while (!isOver) await post('/dashboard/graphql', ME, { cookie: `${cookieName}=${tokens[n % 40]}` });
  });
  const statuses: number[] = [];
  for (let n = 0; n < 20; n += 1) statuses.push((await calm.graphql(ME.query)).status);
  isOver = true;
  await Promise.all(storming);
  expect(statuses).toEqual(Array(20).fill(200));
});
