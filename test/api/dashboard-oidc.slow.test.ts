import { afterAll, beforeAll, expect, test } from 'vitest';
import { THE_OPERATOR } from '#dist/domain/operators.js';
import { type Json, startTestApp, type TestApp } from '../support/app.js';
import { operatorOf } from '../support/dashboard.js';
import { CLIENT, createBrowser, type Person, startProvider } from '../support/oidc-provider.js';

/** Single sign-on with a real provider. */
const PEOPLE = {
  'sub-ada': { preferred_username: 'Ada.Lovelace', roles: ['staff', 'platform'] },
  'sub-bob': { preferred_username: 'bob@example.com', roles: 'readers' },
  'sub-eve': { preferred_username: 'eve', roles: ['staff'] },
  'sub-twin': { preferred_username: 'twin', roles: 'readers' },
  'sub-grace': { preferred_username: 'grace', roles: 'readers' },
  'sub-peggy': { preferred_username: 'peggy', roles: 'readers' },
  'sub-heidi': { email: 'heidi@example.com', email_verified: false, roles: 'readers' },
} as Record<string, Person>;

let provider: Awaited<ReturnType<typeof startProvider>>;
let app: TestApp;
beforeAll(async () => {
  provider = await startProvider(PEOPLE);
  app = await startService({ OIDC_NAME_CLAIM: 'preferred_username' });
});
afterAll(async () => {
  await app.close();
  await provider.close();
});

async function startService(env: Record<string, string>): Promise<TestApp> {
  const started = await startTestApp({
    env: {
      OIDC_ISSUER: provider.issuer,
      OIDC_CLIENT_ID: CLIENT.id,
      OIDC_CLIENT_SECRET: CLIENT.secret,
      OIDC_ROLE_CLAIM: 'roles',
      OIDC_ROLES: 'admin=platform,viewer=readers,viewer=platform',
      ...env,
    },
  });
  provider.allow(callback(started));
  return started;
}

const callback = ({ url } = app) => `${url}/dashboard/oidc/callback`;
async function logIn(person: string, service = app) {
  const browser = createBrowser();
  const response = await browser.logIn(`${service.url}/dashboard/oidc/login`, person, callback(service));
  return { browser, response, location: response.headers.get('location') };
}

const ask = async (cookie: string, query: string, service = app): Promise<Json> =>
  (await operatorOf(service, '', cookie).graphql(query)).data;
const me = async (cookie: string, service = app): Promise<Json> =>
  (await ask(cookie, '{ me { name role } }', service))?.me;

test('the page learns that there is a single sign-on', async () => {
  expect(await (await fetch(`${app.url}/dashboard/config.json`)).json()).toMatchObject({ sso: true });
});

test('a claim decides the role, of several the one that allows most, anew at each login', async () => {
  const { browser, response, location } = await logIn('sub-ada');
  expect([response.status, location]).toEqual([303, '/dashboard']);
  const set = response.headers.getSetCookie();
  expect(set.some((line) => /^userdir-dashboard-\d+=[\w-]{43};.*HttpOnly; SameSite=Strict$/.test(line))).toBe(true);
  expect(await me(browser.cookieFor(app.url))).toEqual({ name: 'ada.lovelace', role: 'ADMIN' });
  expect(await me((await logIn('sub-bob')).browser.cookieFor(app.url))).toEqual({
    name: 'bob@example.com',
    role: 'VIEWER',
  });
  const { sessions } = await ask(browser.cookieFor(app.url), '{ sessions { operator by } }');
  expect(sessions).toContainEqual({ operator: 'ada.lovelace', by: 'link or sso' });
  PEOPLE['sub-ada'] = { preferred_username: 'Ada.Lovelace', roles: ['readers'] };
  const again = await logIn('sub-ada');
  expect(await me(again.browser.cookieFor(app.url))).toEqual({ name: 'ada.lovelace', role: 'VIEWER' });
  // Her other session has lost the role, too.
  expect(await me(browser.cookieFor(app.url))).toEqual({ name: 'ada.lovelace', role: 'VIEWER' });
});

test('a person without a role does not come in, and is recorded', async () => {
  const { browser, location } = await logIn('sub-eve');
  expect(location).toBe('/dashboard#sso=denied');
  expect(await me(browser.cookieFor(app.url))).toBeUndefined();
  const { rows } = await app.context.db.pool.query(
    "SELECT details FROM operator_log WHERE actor = 'unknown' AND action = 'refuse' ORDER BY id DESC LIMIT 1",
  );
  expect(rows).toEqual([
    {
      details: {
        refused: 'log_in',
        by: 'sso',
        operator: expect.stringMatching(/eve/),
        reason: 'The account has no role here.',
      },
    },
  ]);
});

test('a person never becomes an operator of the same name whom the command has added', async () => {
  await app.context.services.operators.addOperator(THE_OPERATOR, 'twin', 'admin');
  expect((await logIn('sub-twin')).location).toBe('/dashboard#sso=conflict');
});

const log = async (actor: string) =>
  (
    await app.context.db.pool.query('SELECT action, details FROM operator_log WHERE actor = $1 ORDER BY id', [actor])
  ).rows.filter(({ action }) => action !== 'log_in');

test('a role that the provider changes is in the log, once', async () => {
  await logIn('sub-grace');
  await logIn('sub-grace');
  PEOPLE['sub-grace'] = { ...PEOPLE['sub-grace'], roles: 'platform' };
  await logIn('sub-grace');
  await logIn('sub-grace');
  const operator = 'grace';
  expect(await log(`operator:${operator}`)).toEqual([
    { action: 'add_operator', details: { operator, role: 'viewer', by: 'sso' } },
    { action: 'set_role', details: { operator, role: 'admin', by: 'sso' } },
  ]);
});

test('an operator keeps the projects to which the command has limited them, whatever role a login gives', async () => {
  const { operators } = app.context.services;
  const { appId } = await app.createProject();
  await logIn('sub-peggy');
  await operators.updateOperator(THE_OPERATOR, 'peggy', { appIds: [appId] });
  PEOPLE['sub-peggy'] = { preferred_username: 'peggy', roles: 'platform' };
  await logIn('sub-peggy');
  const known = (await operators.listOperators(THE_OPERATOR)).find(({ name }) => name === 'peggy');
  expect(known).toMatchObject({ role: 'admin', projects: [{ appId }] });
});

test.each([
  ['a blank', 'ada lovelace'],
  ['another alphabet', 'аda'],
  ['the Kelvin sign, whose small letter is a k', '\u212Aate'],
  ['65 characters', 'a'.repeat(65)],
  ['nothing in it', ''],
  ['no claim at all', undefined],
])('a name with %s is refused, and not made to fit', async (_what, preferred_username) => {
  PEOPLE['sub-ivan'] = { ...(preferred_username !== undefined && { preferred_username }), roles: 'platform' };
  const before = await app.context.services.operators.listOperators(THE_OPERATOR);
  expect((await logIn('sub-ivan')).location).toBe('/dashboard#sso=failed');
  expect(await app.context.services.operators.listOperators(THE_OPERATOR)).toEqual(before);
});

test('an operator who is known keeps the name, whatever the provider says later', async () => {
  PEOPLE['sub-judy'] = { preferred_username: 'judy', roles: 'readers' };
  await logIn('sub-judy');
  PEOPLE['sub-judy'] = { preferred_username: 'Ada Lovelace', roles: 'readers' };
  expect(await me((await logIn('sub-judy')).browser.cookieFor(app.url))).toEqual({ name: 'judy', role: 'VIEWER' });
});

test('without a setting the subject names an operator, and not what people call themselves', async () => {
  await using own = await startService({});
  PEOPLE['sub-mallory'] = { preferred_username: 'chief-of-all', roles: 'readers' };
  const { browser } = await logIn('sub-mallory', own);
  expect(await me(browser.cookieFor(own.url), own)).toEqual({ name: 'sub-mallory', role: 'VIEWER' });
});

test('an email that the provider has not verified names no operator', async () => {
  await using own = await startService({ OIDC_NAME_CLAIM: 'email' });
  expect((await logIn('sub-heidi', own)).location).toBe('/dashboard#sso=failed');
  PEOPLE['sub-heidi'] = { ...PEOPLE['sub-heidi'], email_verified: true };
  const { browser } = await logIn('sub-heidi', own);
  expect(await me(browser.cookieFor(own.url), own)).toEqual({ name: 'heidi@example.com', role: 'VIEWER' });
});

test('an answer of the provider counts once, for the browser that has asked', async () => {
  const browser = createBrowser();
  const asked = await browser.request(`${app.url}/dashboard/oidc/login`);
  const cookie = asked.headers.getSetCookie()[0] ?? '';
  expect(cookie).toMatch(/^userdir-dashboard-\d+-oidc=[\w-]+; Max-Age=600; Path=\/; HttpOnly; SameSite=Lax$/);
  const url = new URL(asked.headers.get('location') ?? '');
  expect(url.searchParams.get('code_challenge_method')).toBe('S256');
  // Another browser, another state, no code.
  const foreign = await fetch(`${callback()}?code=x&state=${url.searchParams.get('state')}`, { redirect: 'manual' });
  expect(foreign.headers.get('location')).toBe('/dashboard#sso=failed');
  const wrong = await browser.request(`${callback()}?code=x&state=another`);
  expect(wrong.headers.get('location')).toBe('/dashboard#sso=failed');
  const second = await browser.request(`${callback()}?code=x&state=${url.searchParams.get('state')}`);
  expect(second.headers.get('location')).toBe('/dashboard#sso=failed');
});
