import type { BrowserContextOptions, CDPSession, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestApp, type TestApp, useTestApp } from '../support/app.js';
import { findFaults, hasBrowser, TLS_NAME, useBrowser } from '../support/browser.js';
import { chooseAction, createLink, settle } from '../support/dashboard-page.js';
import { startTlsProxy } from '../support/tls-proxy.js';

/** Passkeys in Chromium, whose virtual authenticator makes and uses them as a device does. */
describe.skipIf(!hasBrowser)('passkeys in a real browser', () => {
  const onLoopback = useTestApp();
  let behindTls: TestApp;
  let proxy: Awaited<ReturnType<typeof startTlsProxy>>;
  const browser = useBrowser();
  beforeAll(async () => {
    proxy = await startTlsProxy(TLS_NAME);
    behindTls = await startTestApp({ env: { PUBLIC_URL: proxy.origin } });
    proxy.leadTo(behindTls.url);
  });
  afterAll(async () => {
    await behindTls?.close();
    await proxy?.close();
  });

  const PLACES = {
    'on localhost': () => ({ app: onLoopback as TestApp, origin: onLoopback.url.replace('127.0.0.1', 'localhost') }),
    'behind TLS': () => ({ app: behindTls, origin: proxy.origin }),
  };

  async function openPage(options: BrowserContextOptions = {}) {
    const context = await browser.newContext({ reducedMotion: 'reduce', ...options });
    const page = await context.newPage();
    return { page, [Symbol.asyncDispose]: () => context.close() };
  }

  /** A device that keeps passkeys; `isUserVerified` is whether its owner shows who they are. */
  async function addDevice(page: Page) {
    const cdp = await page.context().newCDPSession(page);
    await cdp.send('WebAuthn.enable');
    const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    });
    return { cdp, authenticatorId };
  }
  const keysOf = async ({ cdp, authenticatorId }: { cdp: CDPSession; authenticatorId: string }) =>
    (await cdp.send('WebAuthn.getCredentials', { authenticatorId })).credentials;

  async function signInByLink(page: Page, app: TestApp, origin: string, role: 'admin' | 'viewer' = 'viewer') {
    const { url, operator } = await createLink(app, role);
    // From another page: to a new fragment of this one, it would only scroll.
    await page.goto('about:blank');
    await page.goto(`${origin}/dashboard#${url.replace(/.*#/, '')}`);
    await page.getByRole('heading', { name: 'Projects' }).waitFor();
    return operator;
  }

  async function goToPasskeys(page: Page, origin: string) {
    await page.goto(`${origin}/dashboard/passkeys`);
    await page.getByRole('heading', { level: 1, name: /passkeys$/i }).waitFor();
    await settle(page);
  }

  async function addPasskey(page: Page, name: string) {
    await page.getByRole('button', { name: 'Add passkey' }).click();
    const dialog = page.getByRole('dialog', { name: 'Add passkey' });
    await dialog.getByLabel('Name').fill(name);
    await dialog.getByRole('button', { name: 'Add', exact: true }).click();
    return dialog;
  }

  async function logOut(page: Page, operator: string) {
    await page.locator('summary', { hasText: operator }).click();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in to userdir' }).waitFor();
  }

  const signInByPasskey = (page: Page) => page.getByRole('button', { name: 'Sign in with a passkey' }).click();

  test.each(Object.entries(PLACES))(
    '%s, one is added, signs in without a name, and is removed',
    async (_where, place) => {
      const { app, origin } = place();
      await using opened = await openPage();
      const { page } = opened;
      const complaints: string[] = [];
      page.on('pageerror', (error) => complaints.push(error.message));
      const device = await addDevice(page);
      const operator = await signInByLink(page, app, origin);
      await goToPasskeys(page, origin);
      await addPasskey(page, 'laptop');
      await page.getByRole('cell', { name: 'laptop', exact: true }).waitFor();
      expect(await keysOf(device)).toMatchObject([{ isResidentCredential: true, rpId: new URL(origin).hostname }]);

      // The same device has no second one.
      const dialog = await addPasskey(page, 'again');
      await dialog.getByText('This device has a passkey of yours already.').waitFor();
      await dialog.getByRole('button', { name: 'Cancel' }).click();

      await logOut(page, operator);
      await signInByPasskey(page);
      await page.getByText(operator).first().waitFor();
      await goToPasskeys(page, origin);
      await expect.poll(() => page.getByRole('row', { name: 'laptop' }).getByText('never').count()).toBe(0);

      // A session of a passkey adds none.
      await page.getByRole('button', { name: 'Add passkey' }).click();
      await page.getByRole('alert').getByText('within 30 minutes of a sign-in by a link').waitFor();
      expect(await dialog.count()).toBe(0);

      // To remove it ends this session, which it has begun.
      await chooseAction(page, 'Remove…');
      await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
      await page.getByRole('heading', { name: 'Sign in to userdir' }).waitFor();
      await expect.poll(() => page.evaluate('document.activeElement.tagName')).toBe('H1');
      await signInByPasskey(page);
      await page.getByText('This passkey is not valid here').waitFor();
      expect(complaints).toEqual([]);
    },
  );

  test('a device whose owner does not show who they are neither adds a passkey nor signs in', async () => {
    const { app, origin } = PLACES['on localhost']();
    await using opened = await openPage();
    const { page } = opened;
    const { cdp, authenticatorId } = await addDevice(page);
    const operator = await signInByLink(page, app, origin);
    await goToPasskeys(page, origin);
    const verify = (isUserVerified: boolean) =>
      cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified });
    await verify(false);
    const dialog = await addPasskey(page, 'stolen laptop');
    await dialog.getByText('No passkey was chosen in time, or it was refused.').waitFor();
    await verify(true);
    await dialog.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByRole('cell', { name: 'stolen laptop', exact: true }).waitFor();
    await verify(false);
    await logOut(page, operator);
    await signInByPasskey(page);
    await page.getByText('No passkey was chosen in time, or it was refused.').waitFor();
    await verify(true);
    await signInByPasskey(page);
    await page.getByText(operator).first().waitFor();
  });

  test('at an IP address there are none, and the page leads to localhost', async () => {
    const { app, origin } = PLACES['on localhost']();
    await using opened = await openPage();
    const { page } = opened;
    await page.goto(`${app.url}/dashboard`);
    const link = page.getByRole('link', { name: origin });
    await link.waitFor();
    expect(await page.getByRole('button', { name: 'Sign in with a passkey' }).count()).toBe(0);
    await signInByLink(page, app, app.url);
    await goToPasskeys(page, app.url);
    await page.getByText('browsers bind a passkey to a name').waitFor();
    expect(await page.getByRole('button', { name: 'Add passkey' }).count()).toBe(0);
    await link.click();
    await page.getByRole('button', { name: 'Sign in with a passkey' }).waitFor();
    expect(page.url()).toMatch(/^http:\/\/localhost:/);
  });

  test('a browser that is too old for them is told so, where they would work', async () => {
    const { app, origin } = PLACES['on localhost']();
    await using opened = await openPage();
    const { page } = opened;
    await page.addInitScript('delete PublicKeyCredential.parseCreationOptionsFromJSON');
    await signInByLink(page, app, origin);
    await goToPasskeys(page, origin);
    await page.getByText('Passkeys need a newer browser.').waitFor();
    expect(await page.getByRole('button', { name: 'Add passkey' }).count()).toBe(0);
  });

  test.each([
    ['light', 1280],
    ['dark', 390],
  ] as const)('the screens have nothing that axe finds, and fit, in %s at %d', async (colorScheme, width) => {
    const { app, origin } = PLACES['on localhost']();
    await using opened = await openPage({ colorScheme, viewport: { width, height: 800 } });
    const { page } = opened;
    await addDevice(page);
    const check = async (what: string) => {
      await settle(page);
      expect([what, await findFaults(page)]).toEqual([what, []]);
      expect([what, await page.evaluate('document.documentElement.scrollWidth - innerWidth')]).toEqual([what, 0]);
    };
    const operator = await signInByLink(page, app, origin, 'admin');
    await goToPasskeys(page, origin);
    await check('the list');
    await addPasskey(page, 'a laptop with a name that is as long as it may be, 64 characters');
    await page.getByRole('row', { name: operator }).waitFor();
    await check('the list with one');
    await page.getByRole('button', { name: 'Add passkey' }).click();
    await check('adding');
    await page.keyboard.press('Escape');
    await page.getByRole('row', { name: operator }).getByRole('button', { name: 'Remove…' }).click();
    await check('removing');
    await page.keyboard.press('Escape');
    await page.goto(`${app.url}/dashboard`);
    await page.getByText('browsers bind a passkey to a name').waitFor();
    await check('the sign-in at an IP address');
    await page.goto(`${origin}/dashboard`);
    await logOut(page, operator);
    await page.getByRole('button', { name: 'Sign in with a passkey' }).waitFor();
    await check('the sign-in');
  });
});
