import { existsSync } from 'node:fs';
import { readdir, readlink } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, test, vi } from 'vitest';
import { TIMEOUTS } from '#dist/app/app.js';
import {
  type ImportedUser,
  type Json,
  startTestApp,
  type TestProject,
  useTestApp,
  withoutIds,
} from '../support/app.js';
import { logIn, type TestOperator } from '../support/dashboard.js';
import { openEvents } from '../support/events.js';
import { sendRaw } from '../support/rest.js';
import { PATIENCE } from '../support/waiting.js';

/** Downloads and uploads of the dashboard. */
const NEWS_MS = 500;
const app = useTestApp({ timeouts: { ...TIMEOUTS, newsMs: NEWS_MS } });
let admin: TestOperator;
let viewer: TestOperator;
beforeAll(async () => {
  [admin, viewer] = [await logIn(app, 'admin'), await logIn(app, 'viewer')];
});

const path = ({ appId }: Pick<TestProject, 'appId'>, rest: string) => `/dashboard/projects/${appId}/${rest}`;
const linesOf = (text: string): Json[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
const upload = (who: TestOperator, project: TestProject, body: string, query = '') =>
  who.fetch(path(project, `import${query}`), {
    method: 'POST',
    headers: { 'content-type': 'application/x-ndjson' },
    body,
  });
const toLines = (users: object[]) => users.map((user) => `${JSON.stringify(user)}\n`).join('');
const email = (name: string, day = 1): ImportedUser => ({
  auth_method: 'email',
  auth_value: `${name}@example.com`,
  created_at: `2026-03-0${day}T00:00:00.000Z`,
});
/** The actions in the audit trail with their details, oldest first. */
const trail = async ({ appId }: TestProject): Promise<Json[]> => {
  const { rows } = await app.context.db.pool.query(
    `SELECT actor, action, details FROM audit_log WHERE project_id = (SELECT id FROM projects WHERE app_id = $1) ORDER BY id`,
    [appId],
  );
  return rows;
};

test('what is exported can be imported, with the bans, and both are recorded', async () => {
  const [from, to] = [await app.createProject(), await app.createProject()];
  await from.addUsers(email('a'), email('b', 2), { auth_method: 'passkey', auth_value: 'p', login_count: 3 });
  const { services } = app.context;
  await services.bans.ban(await services.projects.getScope(from.appId), {
    authMethod: 'google',
    authValue: '7',
    authValueKey: '7',
  });
  const response = await viewer.fetch(path(from, 'export'));
  expect(response.headers.get('content-type')).toBe('application/x-ndjson; charset=utf-8');
  expect(response.headers.get('content-disposition')).toBe(`attachment; filename="users-${from.appId}.ndjson"`);
  const exported = await response.text();
  const lines = linesOf(exported);
  expect(lines.map(({ auth_value, ban }) => auth_value ?? ban.auth_value)).toEqual([
    'a@example.com',
    'b@example.com',
    'p',
    '7',
  ]);
  const answer = await upload(admin, to, exported);
  expect(answer.status).toBe(200);
  expect(linesOf(await answer.text()).at(-1)).toEqual({
    report: expect.objectContaining({ imported: 3, failed: 0, bans: 1 }),
  });
  expect(withoutIds(await (await viewer.fetch(path(to, 'export'))).text())).toBe(withoutIds(exported));
  expect((await trail(from)).at(-1)).toEqual({
    actor: `operator:${viewer.name}`,
    action: 'export',
    details: { format: 'ndjson' },
  });
  expect((await trail(to)).find(({ action }) => action === 'import')).toMatchObject({
    actor: `operator:${admin.name}`,
  });
});

test('an export has exactly the users that the filter selects', async () => {
  const project = await app.createProject();
  await project.addUsers(email('a', 1), email('b', 2), email('c', 3), {
    auth_method: 'passkey',
    auth_value: 'p',
    created_at: '2026-03-02T00:00:00Z',
  });
  const values = async (query: string) =>
    linesOf(await (await viewer.fetch(path(project, `export?${query}`))).text()).map(({ auth_value }) => auth_value);
  expect(await values('start_date=2026-03-02')).toEqual(['b@example.com', 'c@example.com', 'p']);
  expect(await values('end_date=2026-03-02&login_method=email')).toEqual(['a@example.com', 'b@example.com']);
  expect(await values('login_method=passkey,wallet')).toEqual(['p']);
  for (const wrong of [
    'start_date=x',
    'login_method=fax',
    'format=xml',
    'format=csv&format=csv',
    'login_method[]=fax',
  ]) {
    const response = await viewer.fetch(path(project, `export?${wrong}`));
    expect([response.status, await response.json()]).toMatchObject([400, { error: { code: 'BAD_USER_INPUT' } }]);
  }
  expect((await viewer.fetch('/dashboard/projects/app_none/export')).status).toBe(404);
});

test('CSV has one line for each user, and no cell is a formula', async () => {
  const project = await app.createProject();
  const hostile = ['=1+1', '+1', '-1', '@SUM(A1)', 'a,"b"', "it's", '<img src=x onerror=alert(1)>'];
  await project.addUsers(
    ...hostile.map((auth_value) => ({ auth_method: 'custom', auth_value, created_at: '2026-03-01T00:00:00Z' })),
  );
  const response = await viewer.fetch(path(project, 'export?format=csv'));
  expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8');
  const [head, ...lines] = (await response.text()).split('\r\n');
  expect(head).toBe(
    'id,auth_method,auth_value,email,wallet,created_at,last_login,login_count,external_id,email_verified,metadata,accounts,identities',
  );
  expect(lines.pop()).toBe('');
  const cells = lines.map((line) => /^\d+,custom,(.*),,,2026-03-01T00:00:00\.000Z,,0,,,,,$/.exec(line)?.[1]);
  expect(cells).toEqual(["'=1+1", "'+1", "'-1", "'@SUM(A1)", '"a,""b"""', "it's", '<img src=x onerror=alert(1)>']);
});

test('the audit trail is exported as it is filtered', async () => {
  const project = await app.createProject();
  await project.addUsers(email('a'));
  await viewer.fetch(path(project, 'export')).then((response) => response.text());
  const all = linesOf(await (await viewer.fetch(path(project, 'audit'))).text());
  expect(all.map(({ action }) => action)).toEqual(['export', 'import', 'create']);
  const some = await (await viewer.fetch(path(project, 'audit?format=csv&action=create'))).text();
  expect(some).toMatch(/^id,at,actor,action,user_id,request_id,details\r\n\d+,[^,]+,operator,create,,,\{\}\r\n$/);
  expect((await viewer.fetch(path(project, 'audit?action=nothing'))).status).toBe(400);
  expect((await viewer.fetch(path(project, 'audit?actor=a&actor=b'))).status).toBe(400);
});

test('one wrong line undoes an import, unless invalid lines are to be skipped', async () => {
  const project = await app.createProject();
  const body = `${toLines([email('a')])}nonsense\n${toLines([email('b')])}`;
  const strict = linesOf(await (await upload(admin, project, body)).text()).at(-1);
  expect(strict.report).toMatchObject({ imported: 0, failed: 1, errors: [{ line: 2 }] });
  const count = async () => (await project.rest('/server/users')).body.result.total_user;
  expect(await count()).toBe(0);
  const lenient = linesOf(await (await upload(admin, project, body, '?skip_invalid=true')).text()).at(-1);
  expect(lenient.report).toMatchObject({ imported: 2, failed: 1 });
  const again = linesOf(await (await upload(admin, project, toLines([email('a')]), '?on_conflict=skip')).text()).at(-1);
  expect(again.report).toMatchObject({ imported: 0, skipped: 1 });
  expect(await count()).toBe(2);
  for (const wrong of ['?on_conflict=perhaps', '?skip_invalid=perhaps'])
    expect((await upload(admin, project, body, wrong)).status).toBe(400);
});

test('an import needs an admin, a session and a request of the own page', async () => {
  const project = await app.createProject();
  const refused = await upload(viewer, project, toLines([email('a')]));
  expect([refused.status, await refused.json()]).toMatchObject([403, { error: { code: 'FORBIDDEN' } }]);
  expect((await trail(project)).at(-1)).toMatchObject({ action: 'refuse', details: { refused: 'import' } });
  const foreign = await admin.fetch(path(project, 'import'), {
    method: 'POST',
    headers: { 'content-type': 'application/x-ndjson', 'sec-fetch-site': 'cross-site' },
    body: toLines([email('a')]),
  });
  expect(foreign.status).toBe(403);
  for (const rest of ['export', 'audit']) {
    expect((await fetch(app.url + path(project, rest))).status).toBe(401);
    expect((await viewer.fetch(path(project, rest), { headers: { 'sec-fetch-site': 'same-site' } })).status).toBe(403);
  }
  const asJson = await admin.fetch(path(project, 'import'), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{}',
  });
  expect(asJson.status).toBe(415);
});

test('what follows a project is told that it has changed, ends with its session, and does not keep that alive', async () => {
  const [project, other] = [await app.createProject(), await app.createProject()];
  const follower = await logIn(app, 'viewer');
  expect((await fetch(`${app.url}${path(project, 'news')}`)).status).toBe(401);
  const { pool } = app.context.db;
  const session = `operator_id = (SELECT id FROM operators WHERE name = '${follower.name}')`;
  await pool.query(`UPDATE operator_sessions SET last_seen_at = now() - interval '20 minutes' WHERE ${session}`);
  const idleFor = async () =>
    (await pool.query(`SELECT extract(epoch FROM now() - last_seen_at) AS s FROM operator_sessions WHERE ${session}`))
      .rows[0]?.s;
  const news = await openEvents(`${app.url}${path(project, 'news')}`, { headers: { cookie: follower.cookie } });
  expect(news.status).toBe(200);
  // The first event tells that it follows; another one may come with the first publication, whatever has changed.
  await project.addUsers(email('here'));
  await news.waitFor(2);
  let told = 0;
  while (told < news.events.length) {
    told = news.events.length;
    await sleep(2 * NEWS_MS);
  }
  await other.addUsers(email('elsewhere'));
  await sleep(2 * NEWS_MS);
  expect(news.events.length).toBe(told);
  await project.addUsers(email('again'));
  await news.waitFor(told + 1);
  // Nor does a page that asks again by itself.
  const asked = await follower.fetch('/dashboard/graphql', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'userdir-by-page': '1' },
    body: JSON.stringify({ query: '{ me { name } }' }),
  });
  expect(await asked.json()).toEqual({ data: { me: { name: follower.name } } });
  expect(Number(await idleFor())).toBeGreaterThan(1_000);
  await pool.query(`UPDATE operator_sessions SET last_seen_at = now() - interval '31 minutes' WHERE ${session}`);
  await news.ended();
  // Ten pages of an operator, and no more. One that ends on a busy machine leaves its place to another.
  const pages: Awaited<ReturnType<typeof openEvents>>[] = [];
  let status = 200;
  while (status === 200 && pages.length < 20) {
    const page = await openEvents(`${app.url}${path(project, 'news')}`, { headers: { cookie: viewer.cookie } });
    status = page.status;
    pages.push(page);
  }
  expect(status).toBe(429);
  expect(pages.length).toBeGreaterThan(10);
  await vi.waitUntil(() => pages.filter((page) => page.status === 200 && !page.isEnded()).length <= 10, PATIENCE);
  for (const page of pages) page.close();
});

test('what follows a project is told at most every so often, however much changes', async () => {
  const project = await app.createProject();
  const news = await openEvents(`${app.url}${path(project, 'news')}`, { headers: { cookie: viewer.cookie } });
  const from = performance.now();
  for (let n = 0; news.events.length < 3; n += 1) {
    await project.addUsers(email(`u${n}`));
    await sleep(100);
  }
  expect(performance.now() - from).toBeGreaterThan(1.98 * NEWS_MS);
  news.close();
});

test('the right to follow is read every so often, and what follows ends with it', async () => {
  const { pool } = app.context.db;
  const { lifecycle, projects } = app.context.services;
  const disable = async ({ appId }: TestProject) => lifecycle.disableProject(await projects.getScope(appId), null);
  const ends: ((who: TestOperator, project: TestProject) => Promise<unknown>)[] = [
    (_who, project) => disable(project),
    (who) => who.ask('mutation { logOut }'),
    ({ name }) => pool.query('DELETE FROM operators WHERE name = $1', [name]),
    (_who, { appId }) => pool.query('DELETE FROM projects WHERE app_id = $1', [appId]),
  ];
  const looks = () => app.statements.filter((sql) => /FROM operator_sessions s\s+WHERE s.token_hash/.test(sql)).length;
  const from = performance.now();
  const open = async (project: TestProject, { cookie }: TestOperator) =>
    openEvents(`${app.url}${path(project, 'news')}`, { headers: { cookie } });
  const lasting = await open(await app.createProject(), viewer);
  const before = looks();
  await vi.waitUntil(() => looks() >= before + 2, PATIENCE);
  expect(performance.now() - from).toBeGreaterThan(1.98 * NEWS_MS);
  await Promise.all(
    ends.map(async (end) => {
      const [project, who] = [await app.createProject(), await logIn(app, 'viewer')];
      const news = await open(project, who);
      expect(news.status).toBe(200);
      await end(who, project);
      await news.ended();
    }),
  );
  expect(lasting.isEnded()).toBe(false);
  lasting.close();
  const disabled = await app.createProject();
  await disable(disabled);
  const refused = await viewer.fetch(path(disabled, 'news'));
  expect([refused.status, await refused.json()]).toMatchObject([403, { error: { code: 'PROJECT_DISABLED' } }]);
});

let large: Promise<TestProject> | undefined;
/** A project whose export is larger than the buffers on the way to a client. */
function largeProject(): Promise<TestProject> {
  const user = (index: number) => ({ auth_method: 'custom', auth_value: `${index}-${'x'.repeat(1_000)}` });
  large ??= app.createProject().then(async (project) => {
    await project.addUsers(...Array.from({ length: 12_000 }, (_, index) => user(index)));
    return project;
  });
  return large;
}

test('a client that goes away ends its export, and leaves nothing behind', async () => {
  const project = await largeProject();
  const { hostname, port, host } = new URL(app.url);
  const socket = createConnection({ host: hostname, port: Number(port) });
  socket.on('error', () => undefined);
  socket.write(
    `GET ${path(project, 'export')} HTTP/1.1\r\nHost: ${host}\r\nCookie: ${viewer.cookie}\r\nSec-Fetch-Site: same-origin\r\n\r\n`,
  );
  await new Promise((resolve) => socket.once('data', resolve));
  socket.pause();
  // A slow reader keeps no other request waiting, on either engine.
  expect((await project.rest('/server/users?limit=1')).status).toBe(200);
  socket.destroy();
  expect(await readdir(join(app.dataDir, 'spool')).catch(() => [])).toEqual([]);
  // Both places are free again.
  await vi.waitFor(async () => {
    const both = await Promise.all([viewer, admin].map((who) => who.fetch(path(project, 'audit'))));
    for (const response of both) await response.text();
    expect(both.map(({ status }) => status)).toEqual([200, 200]);
  }, PATIENCE);
});

test('operators who read exports slowly hold no transaction, and keep no one else from exports and imports', async () => {
  const project = await largeProject();
  const { hostname, port, host } = new URL(app.url);
  const slow = await Promise.all([1, 2, 3].map(() => logIn(app, 'viewer')));
  const sockets = await Promise.all(
    slow.map(async ({ cookie }) => {
      const socket = createConnection({ host: hostname, port: Number(port) }).on('error', () => undefined);
      socket.write(
        `GET ${path(project, 'export')} HTTP/1.1\r\nHost: ${host}\r\nCookie: ${cookie}\r\nSec-Fetch-Site: same-origin\r\n\r\n`,
      );
      await new Promise((resolve) => socket.once('data', resolve));
      return socket.pause();
    }),
  );
  const count = (text: RegExp) => app.statements.filter((sql) => text.test(sql)).length;
  // A second export of the same operator is refused as long as the first is read.
  expect((await slow[0]?.fetch(path(project, 'export')))?.status).toBe(503);
  expect((await (await admin.fetch(path(project, 'export'))).text()).split('\n')).toHaveLength(12_001);
  expect(
    linesOf(await (await upload(admin, await app.createProject(), toLines([email('a')]))).text()).at(-1),
  ).toMatchObject({
    report: { imported: 1 },
  });
  expect(count(/^BEGIN.*REPEATABLE READ/)).toBeGreaterThan(3);
  await vi.waitUntil(() => count(/^(COMMIT|ROLLBACK)/) >= count(/^BEGIN/), PATIENCE);
  for (const socket of sockets) socket.destroy();
});

test('an upload that says it is too large is refused before it arrives', async () => {
  const project = await app.createProject();
  const head = [
    `POST ${path(project, 'import')} HTTP/1.1`,
    `Host: ${new URL(app.url).host}`,
    `Cookie: ${admin.cookie}`,
    'Sec-Fetch-Site: same-origin',
    'Content-Type: application/x-ndjson',
    `Content-Length: ${93 * 2 ** 30}`,
  ];
  const { status, body } = await sendRaw(app.url, `${head.join('\r\n')}\r\n\r\n`);
  expect({ status, code: body.error.code }).toEqual({ status: 413, code: 'PAYLOAD_TOO_LARGE' });
});

test('the connection of an upload that stops is closed', async () => {
  const lines = await uploadWithPause({ stalledMs: 300, pauseMs: 20_000 });
  expect(lines).not.toContainEqual(expect.objectContaining({ report: expect.anything() }));
});

test.runIf(existsSync('/proc/self/fd'))(
  'an upload under way is in a file without a name, which kill -9 cannot leave',
  async () => {
    const spooled = async () => {
      const opened = await readdir('/proc/self/fd');
      const links = await Promise.all(opened.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')));
      return links.filter((link) => /userdir-[0-9a-f-]{36}/.test(link));
    };
    const uploaded = uploadWithPause({ stalledMs: 30_000, pauseMs: 1_500 });
    await vi.waitUntil(async () => (await spooled()).length > 0, PATIENCE);
    await vi.waitFor(async () => expect(await spooled()).toEqual([expect.stringMatching(/ \(deleted\)$/)]), PATIENCE);
    expect((await uploaded).at(-1)).toMatchObject({ report: { imported: 2 } });
    expect(await spooled()).toEqual([]);
  },
);

/** Uploads two users with a pause between them, longer than a request may take. Returns the lines that came back until the connection ended. */
async function uploadWithPause({ stalledMs, pauseMs }: { stalledMs: number; pauseMs: number }) {
  const own = await startTestApp({
    env: { REQUEST_TIMEOUT_MS: '300' },
    timeouts: { ...TIMEOUTS, headersMs: 300, stalledMs, checkMs: 50 },
  });
  const isOver = new AbortController();
  async function* body() {
    yield Buffer.from(toLines([email('a')]));
    await sleep(pauseMs, undefined, { signal: isOver.signal });
    yield Buffer.from(toLines([email('b')]));
  }
  try {
    const project = await own.createProject();
    const slow = await logIn(own, 'admin');
    const text = await slow
      .fetch(path(project, 'import'), {
        method: 'POST',
        headers: { 'content-type': 'application/x-ndjson' },
        body: body() as unknown as NonNullable<RequestInit['body']>,
        duplex: 'half',
      } as RequestInit)
      .then((response) => response.text())
      .catch(() => '');
    return linesOf(text);
  } finally {
    isOver.abort();
    await own.close();
  }
}
