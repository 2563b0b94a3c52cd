import { expect, test } from 'vitest';
import { THE_OPERATOR } from '#dist/domain/operators.js';
import { type Json, startTestApp, useTestApp } from '../support/app.js';
import { cookieOf, logIn, logInAgain, postToken } from '../support/dashboard.js';
import { codesOf } from '../support/graphql.js';

/** Who gets in to the dashboard, and for how long. */
const app = useTestApp();

const ME = '{ me { name role can sessionId idleMinutes version } }';
const operators = () => app.context.services.operators;
const sql = async (text: string, ...values: unknown[]): Promise<Json[]> =>
  (await app.context.db.pool.query(text, values)).rows;
const log = async (actor: string) =>
  (await sql('SELECT action, details FROM operator_log WHERE actor = $1 ORDER BY id', actor)).map(
    ({ action, details }) => [action, details],
  );

test('a link logs in once, with a cookie that scripts and other sites do not get', async () => {
  await operators().addOperator(THE_OPERATOR, 'Ada-1', 'admin');
  const { token } = await operators().createLink(THE_OPERATOR, 'ada-1');
  expect(token).toMatch(/^[\w-]{43}$/);
  const first = await postToken(app, token);
  expect(first.status).toBe(204);
  const cookie = first.headers.get('set-cookie') ?? '';
  expect(cookie).toMatch(/^userdir-dashboard-\d+=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/);
  const second = await postToken(app, token);
  expect([second.status, await second.json()]).toEqual([
    401,
    { error: { code: 'UNAUTHENTICATED', message: expect.stringContaining('works once, within 10 minutes') } },
  ]);
  expect(second.headers.get('set-cookie')).toBeNull();
  expect(await log('operator:ada-1')).toEqual([['log_in', { by: 'link', session: expect.any(Number) }]]);
});

test('of many requests with one link exactly one begins a session', async () => {
  await operators().addOperator(THE_OPERATOR, 'many', 'viewer');
  const { token } = await operators().createLink(THE_OPERATOR, 'many');
  const answers = await Promise.all(Array.from({ length: 8 }, () => postToken(app, token)));
  expect(answers.map(({ status }) => status).sort()).toEqual([204, ...Array(7).fill(401)]);
  expect(
    await sql(`SELECT 1 FROM operator_sessions s JOIN operators o ON o.id = operator_id WHERE name = 'many'`),
  ).toHaveLength(1);
});

test('a late link is refused and recorded; tokens are kept as hashes only', async () => {
  await operators().addOperator(THE_OPERATOR, 'late', 'viewer');
  const { token } = await operators().createLink(THE_OPERATOR, 'late');
  const ofLate = `operator_id = (SELECT id FROM operators WHERE name = 'late')`;
  const [{ left }] = await sql(
    `SELECT extract(epoch FROM expires_at - now())::float8 AS left FROM login_links WHERE ${ofLate}`,
  );
  expect(left).toBeGreaterThan(500);
  expect(left).toBeLessThanOrEqual(600);
  await sql(`UPDATE login_links SET expires_at = now() - interval '1 ms' WHERE ${ofLate}`);
  const before = (await log('unknown')).length;
  expect((await postToken(app, token)).status).toBe(401);
  expect((await postToken(app, 'x'.repeat(43))).status).toBe(401);
  expect((await postToken(app, 'no token')).status).toBe(401);
  expect((await log('unknown')).slice(before)).toEqual([
    [
      'refuse',
      { refused: 'log_in', by: 'link', operator: 'late', reason: 'the link is over: it works for 10 minutes' },
    ],
    ['refuse', { refused: 'log_in', by: 'link', reason: 'the link was used before, is long over, or is not known' }],
    ['refuse', { refused: 'log_in', reason: 'this is no link of the service' }],
  ]);
  const kept = await sql('SELECT l::text AS row FROM login_links l UNION ALL SELECT s::text FROM operator_sessions s');
  expect(kept.filter(({ row }) => row.includes(token))).toEqual([]);
});

test('after twenty failed attempts in a minute, whatever is sent, an address has to wait', async () => {
  await using own = await startTestApp();
  const wrong = [undefined, 7, 'x', 'x'.repeat(4_000), `uds_${'a'.repeat(49)}`, ...Array(17).fill('A'.repeat(43))];
  const statuses = [];
  for (const token of wrong) statuses.push((await postToken(own, token)).status);
  expect(statuses).toEqual([...Array(20).fill(401), 429, 429]);
  // A valid link still logs in, so that no attacker can lock operators out.
  await operators().addOperator(THE_OPERATOR, 'not-locked-out', 'viewer');
  await logInAgain(own, 'not-locked-out');
});

test('a session says who it is, and what the role can', async () => {
  const viewer = await logIn(app, 'viewer');
  const { me } = await viewer.ask(ME);
  expect(me).toMatchObject({
    name: viewer.name,
    role: 'VIEWER',
    can: ['read', 'verify', 'inspect', 'oversee'],
    idleMinutes: 30,
  });
  const support = await logIn(app, 'support');
  expect((await support.ask(ME)).me.can).toEqual('read verify inspect remove restore ban edit oversee'.split(' '));
  const admin = await logIn(app, 'admin');
  expect((await admin.ask(ME)).me.can).toEqual(expect.arrayContaining(['operate', 'oversee', 'govern']));
});

test('a session ends after 30 minutes without a request, and after 12 hours in any case', async () => {
  const admin = await logIn(app, 'admin');
  const { sessionId: id } = (await admin.ask(ME)).me;
  const [{ lasts }] = await sql(
    'SELECT extract(epoch FROM expires_at - created_at)::float8 AS lasts FROM operator_sessions WHERE id = $1',
    id,
  );
  expect(lasts).toBe(43_200);
  await sql(`UPDATE operator_sessions SET last_seen_at = now() - interval '29 minutes' WHERE id = $1`, id);
  expect(codesOf(await admin.graphql(ME))).toEqual([]);
  // That request has counted.
  const [{ ago }] = await sql(
    'SELECT extract(epoch FROM now() - last_seen_at)::float8 AS ago FROM operator_sessions WHERE id = $1',
    id,
  );
  expect(ago).toBeLessThan(60);
  await sql(`UPDATE operator_sessions SET last_seen_at = now() - interval '30 minutes' WHERE id = $1`, id);
  expect(await admin.graphql(ME)).toMatchObject({ status: 401, errors: [{ extensions: { code: 'UNAUTHENTICATED' } }] });
  await sql(
    `UPDATE operator_sessions SET last_seen_at = now(), expires_at = now() - interval '1 ms' WHERE id = $1`,
    id,
  );
  expect((await admin.graphql(ME)).status).toBe(401);
});

test('one logs out, lists sessions and revokes them, of others only as admin', async () => {
  const [admin, viewer] = [await logIn(app, 'admin'), await logIn(app, 'viewer')];
  const again = await logInAgain(app, viewer.name);
  const SESSIONS = '{ sessions { id operator current by userAgent expiresAt } }';
  const own = (await viewer.ask(SESSIONS)).sessions;
  expect(own.map(({ operator, current, by }: Json) => [operator, current, by]).sort()).toEqual([
    [viewer.name, false, 'link'],
    [viewer.name, true, 'link'],
  ]);
  const all = (await admin.ask(SESSIONS)).sessions;
  expect(all.length).toBeGreaterThan(2);
  const REVOKE = 'mutation ($id: ID!) { revokeSession(id: $id) }';
  const ofAdmin = all.find(({ current }: Json) => current).id;
  expect(codesOf(await viewer.graphql(REVOKE, { id: ofAdmin }))).toEqual(['NOT_FOUND']);
  const other = own.find(({ current }: Json) => !current).id;
  expect(await viewer.ask(REVOKE, { id: other })).toEqual({ revokeSession: true });
  expect((await again.graphql(ME)).status).toBe(401);
  await admin.ask(REVOKE, { id: own.find(({ current }: Json) => current).id });
  expect((await viewer.graphql(ME)).status).toBe(401);

  const answer = await admin.graphql('mutation { logOut }');
  expect(answer.data).toEqual({ logOut: true });
  expect(answer.headers.get('set-cookie')).toMatch(/^userdir-dashboard-\d+=; Max-Age=0|Expires=Thu, 01 Jan 1970/);
  expect((await admin.graphql(ME)).status).toBe(401);
  expect((await log(`operator:${admin.name}`)).map(([action]) => action)).toEqual([
    'log_in',
    'revoke_session',
    'log_out',
  ]);
});

test('a change of a role counts from the next request on, and a removed operator is out', async () => {
  const [admin, other] = [await logIn(app, 'admin'), await logIn(app, 'admin')];
  await admin.ask('mutation ($name: String!) { updateOperator(name: $name, input: { role: VIEWER }) { role } }', {
    name: other.name,
  });
  expect((await other.ask(ME)).me.role).toBe('VIEWER');
  await admin.ask('mutation ($name: String!) { removeOperator(name: $name) }', { name: other.name });
  expect((await other.graphql(ME)).status).toBe(401);
  expect(codesOf(await admin.graphql(`mutation { removeOperator(name: "${admin.name}") }`))).toEqual(['CONFLICT']);
});

test('requests of other sites are refused before they do anything, and recorded', async () => {
  const admin = await logIn(app, 'admin');
  const post = (headers: Record<string, string>, body = JSON.stringify({ query: 'mutation { logOut }' })) =>
    fetch(`${app.url}/dashboard/graphql`, {
      method: 'POST',
      headers: { cookie: admin.cookie, 'content-type': 'application/json', ...headers },
      body,
    });
  const own = new URL(app.url).host;
  const refused: Record<string, string>[] = [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'none' },
    { origin: 'https://evil.example.com' },
    { origin: 'null' },
    // Says nothing of where it comes from.
    {},
    { 'sec-fetch-site': 'cross-site', origin: `http://${own}` },
  ];
  for (const headers of refused) expect([headers, (await post(headers)).status]).toEqual([headers, 403]);
  expect((await log(`operator:${admin.name}`)).filter(([action]) => action === 'refuse')).toHaveLength(refused.length);
  expect((await post({ 'sec-fetch-site': 'same-origin', 'content-type': 'text/plain' })).status).toBe(415);
  expect(
    (await post({ 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' })).status,
  ).toBe(415);
  expect((await admin.graphql(ME)).status).toBe(200);
  // An older browser names its origin only.
  expect((await post({ origin: `http://${own}` })).status).toBe(200);
  expect((await admin.graphql(ME)).status).toBe(401);
});

test('another site cannot log a browser in', async () => {
  await operators().addOperator(THE_OPERATOR, 'foreign', 'viewer');
  const { token } = await operators().createLink(THE_OPERATOR, 'foreign');
  expect((await postToken(app, token, { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
  expect((await postToken(app, token)).status).toBe(204);
});

test('the projects’ interfaces do not read the cookie, and the dashboard takes no App Secret', async () => {
  const admin = await logIn(app, 'admin');
  const project = await app.createProject();
  expect((await admin.fetch('/server/users')).status).toBe(401);
  const graphql = await admin.fetch('/graphql', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query: '{ userCount }' }),
  });
  expect(graphql.status).toBe(401);
  const answer = await fetch(`${app.url}/dashboard/graphql`, {
    method: 'POST',
    headers: { ...project.credentials, 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' },
    body: JSON.stringify({ query: ME }),
  });
  expect(answer.status).toBe(401);
});

test('no page of another site may show the dashboard, and a name that is not ours is refused', async () => {
  const page = await fetch(`${app.url}/dashboard/projects/app_1/users`);
  expect(page.headers.get('x-frame-options')).toBe('DENY');
  expect(page.headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
  expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
  const { createConnection } = await import('node:net');
  const { hostname, port } = new URL(app.url);
  const answer = await new Promise<string>((resolve) => {
    const socket = createConnection({ host: hostname, port: Number(port) });
    let text = '';
    socket.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
    });
    socket.on('close', () => resolve(text));
    socket.write('GET /dashboard HTTP/1.1\r\nHost: rebound.example.com\r\nConnection: close\r\n\r\n');
  });
  expect(answer).toMatch(/^HTTP\/1.1 403 /);
});

const HTTPS = { TRUST_PROXY: 'on', PUBLIC_URL: 'https://users.example.com' };
test.each([
  ['says so', { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'users.example.com' }, HTTPS],
  ['passes requests on as local ones', {}, HTTPS],
  [
    'passes requests on as local ones, and is not trusted',
    { 'x-forwarded-proto': 'https' },
    { ...HTTPS, TRUST_PROXY: 'off' },
  ],
])('behind HTTPS, where the proxy %s, the cookie has the prefix __Host- and is Secure', async (_how, headers, env) => {
  await using own = await startTestApp({ env });
  const name = `secure-${Object.keys(headers).length}-${env.TRUST_PROXY}`;
  await operators().addOperator(THE_OPERATOR, name, 'viewer');
  const { token } = await operators().createLink(THE_OPERATOR, name);
  const response = await postToken(own, token, headers);
  expect(response.headers.get('set-cookie')).toMatch(
    /^__Host-userdir-dashboard=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
  );
  const ask = (cookie: string) =>
    fetch(`${own.url}/dashboard/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin', cookie, ...headers },
      body: JSON.stringify({ query: ME }),
    });
  const cookie = cookieOf(response);
  expect((await ask(cookie)).status).toBe(200);
  // Another site of the same machine could have set one without the prefix.
  const { port } = new URL(own.url);
  expect((await ask(cookie.replace('__Host-userdir-dashboard', `userdir-dashboard-${port}`))).status).toBe(401);
});

test('without DASHBOARD there is nothing', async () => {
  await using own = await startTestApp({ env: { DASHBOARD: 'off' } });
  for (const path of ['/dashboard', '/dashboard/graphql', '/dashboard/config.json'])
    expect((await fetch(own.url + path)).status).toBe(404);
});
