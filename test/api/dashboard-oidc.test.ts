import { afterAll, beforeAll, expect, test } from 'vitest';
import { THE_OPERATOR } from '#dist/domain/operators.js';
import { type Json, startTestApp, type TestApp } from '../support/app.js';
import { CLIENT, createBrowser, startProvider } from '../support/oidc-provider.js';

/** Single sign-on with a real provider. */
const PEOPLE = {
  'sub-ada': { preferred_username: 'Ada.Lovelace', roles: ['staff', 'platform'] },
  'sub-bob': { email: 'bob@example.com', roles: 'readers' },
  'sub-eve': { preferred_username: 'eve', roles: ['staff'] },
  'sub-twin': { preferred_username: 'twin', roles: 'readers' },
} as Record<string, { preferred_username?: string; email?: string; roles?: string | string[] }>;

let provider: Awaited<ReturnType<typeof startProvider>>;
let app: TestApp;
beforeAll(async () => {
  provider = await startProvider(PEOPLE);
  app = await startTestApp({
    env: {
      OIDC_ISSUER: provider.issuer,
      OIDC_CLIENT_ID: CLIENT.id,
      OIDC_CLIENT_SECRET: CLIENT.secret,
      OIDC_ROLE_CLAIM: 'roles',
      OIDC_ROLES: 'admin=platform,viewer=readers,viewer=platform',
    },
  });
  provider.allow(`${app.url}/dashboard/oidc/callback`);
});
afterAll(async () => {
  await app.close();
  await provider.close();
});

const callback = () => `${app.url}/dashboard/oidc/callback`;
async function logIn(person: string) {
  const browser = createBrowser();
  const response = await browser.logIn(`${app.url}/dashboard/oidc/login`, person, callback());
  return { browser, response, location: response.headers.get('location') };
}

async function me(cookie: string): Promise<Json> {
  const response = await fetch(`${app.url}/dashboard/graphql`, {
    method: 'POST',
    headers: { cookie, 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' },
    body: JSON.stringify({ query: '{ me { name role } }' }),
  });
  return ((await response.json()) as Json).data?.me;
}

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
    "SELECT 1 FROM operator_log WHERE actor = 'unknown' AND action = 'refuse'",
  );
  expect(rows.length).toBeGreaterThan(0);
});

test('a person never becomes an operator of the same name whom the command has added', async () => {
  await app.context.services.operators.addOperator(THE_OPERATOR, 'twin', 'admin');
  expect((await logIn('sub-twin')).location).toBe('/dashboard#sso=conflict');
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
