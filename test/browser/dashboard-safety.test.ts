import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type TestProject, useTestApp } from '../support/app.js';
import { hasBrowser, useBrowser } from '../support/browser.js';
import { chooseAction, createLink, openDashboard, visit } from '../support/dashboard-page.js';

/** What other pages, other people and hostile values may not do. These tests need Chromium. */
describe.skipIf(!hasBrowser)('the dashboard is safe against', () => {
  const app = useTestApp();
  let project: TestProject;
  const browser = useBrowser();
  let stranger: Server;
  let strangerUrl: string;
  beforeAll(async () => {
    project = await app.createProject('Safe');
    await project.addUsers({ auth_method: 'email', auth_value: 'ada@example.com' });
    // A page of another site. Chromium sends it no cookie of the dashboard's, and the service would refuse it in any case.
    stranger = createServer((_, response) => {
      response.setHeader('content-type', 'text/html');
      response.end(`<!doctype html><title>stranger</title><iframe src="${app.url}/dashboard"></iframe>`);
    });
    await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve));
    strangerUrl = `http://localhost:${(stranger.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    stranger?.close();
  });

  const REMOVE = 'mutation ($ids: [ID!]!) { removeUsers(ids: $ids) { outcomes { ok } } }';
  const total = async () => (await project.rest('/server/users/count')).body.result.total_user;

  test('a form or a script of another site', async () => {
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    await page.goto(strangerUrl);
    const body = JSON.stringify({ query: REMOVE, variables: { ids: ['1'] }, project: project.appId });
    for (const type of ['application/json', 'text/plain', 'application/x-www-form-urlencoded']) {
      const status = await page.evaluate(
        `fetch(${JSON.stringify(`${app.url}/dashboard/graphql`)}, { method: 'POST', credentials: 'include', mode: ${JSON.stringify(type === 'application/json' ? 'cors' : 'no-cors')},
          headers: { 'content-type': ${JSON.stringify(type)} }, body: ${JSON.stringify(body)} }).then((r) => r.type === 'opaque' ? 'opaque' : r.status, () => 'refused')`,
      );
      expect(['refused', 'opaque'], type).toContain(status);
    }
    expect(await total()).toBe(1);
    // The session itself still works.
    await visit(app, page, '');
    await page.getByRole('heading', { name: 'Projects' }).waitFor();
  });

  test('another page that shows it in a frame', async () => {
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    await page.goto(strangerUrl);
    await expect.poll(async () => opened.complaints.some((text) => /frame/i.test(text))).toBe(true);
    for (const frame of page.frames()) expect(await frame.content()).not.toContain('Projects');
  });

  test('a link that was used, and a link that is none', async () => {
    const { url } = await createLink(app, 'admin');
    const first = await browser.newPage();
    await first.goto(url);
    await first.getByRole('heading', { name: 'Projects' }).waitFor();
    await first.close();
    for (const link of [url, `${app.url}/dashboard#login=${'A'.repeat(43)}`]) {
      const page = await browser.newPage();
      await page.goto(link);
      const alert = page.getByRole('alert');
      await expect.poll(() => alert.innerText()).toMatch(/^This link is no longer valid/);
      expect(page.url()).not.toContain('login=');
      expect(await page.evaluate('history.length')).toBeLessThanOrEqual(2);
      await page.close();
    }
  });

  test('a link that is opened in a tab that shows the sign-in, or the screens of another operator', async () => {
    const page = await browser.newPage();
    await page.goto(`${app.url}/dashboard`);
    await page.getByRole('heading', { name: 'Sign in to userdir' }).waitFor();
    for (let times = 0; times < 2; times += 1) {
      const { operator, url } = await createLink(app, 'viewer');
      // As the address bar does: only the fragment changes, and nothing is loaded.
      await page.evaluate(`location.href = ${JSON.stringify(url)}`);
      await page.getByText(operator).first().waitFor();
      expect(page.url()).not.toContain('login=');
    }
    await page.close();
  });

  test('a session that an admin has ended', async () => {
    await using opened = await openDashboard(app, browser, 'viewer');
    const { page } = opened;
    await visit(app, page, `/${project.appId}/users`);
    await using admin = await openDashboard(app, browser, 'admin');
    await visit(app, admin.page, '/sessions');
    const row = admin.page.getByRole('row').filter({ hasText: opened.operator });
    await row.getByRole('button').click();
    await expect.poll(() => row.count()).toBe(0);
    await page.getByRole('link', { name: 'Secrets' }).click();
    await page.getByRole('heading', { name: 'Sign in to userdir' }).waitFor();
    await page.getByText('Your session has ended.').waitFor();
    // What was shown is gone.
    expect(await page.content()).not.toContain('ada@example.com');
  });

  const HOSTILE = {
    markup: '<img src=x onerror="document.title=`taken`">',
    script: '"><script>document.title="taken"</script>',
    direction: '\u05d0\u05d1 (admin) \u0645\u0631 1 2 3!',
    long: 'x'.repeat(1_400),
    formula: '=HYPERLINK("http://example.com","click")',
    template: '{{constructor.constructor("document.title=1")()}}',
  };

  test('values of users, bans, labels and names', async () => {
    const values = Object.values(HOSTILE);
    const projects = await Promise.all(values.map((value) => app.createProject(value.slice(0, 200))));
    const [hostile] = projects as [TestProject];
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    const dialog = page.getByRole('dialog');
    for (const value of values) {
      await hostile.addUsers(
        { auth_method: 'google', auth_value: value },
        // Titled by the email; the value stands below it.
        { auth_method: 'titled', auth_value: value, email: 'grace@example.com' },
        { auth_method: value.slice(0, 64).replaceAll(/[^a-z0-9._-]/g, '') || 'other', auth_value: value },
      );
      await visit(app, page, `/${hostile.appId}/users`);
      expect(await page.getByRole('link', { name: value, exact: true }).count()).toBe(2);
      await page.getByRole('link', { name: value, exact: true }).first().click();
      expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe(value);
      await chooseAction(page, 'Ban…');
      await dialog.getByRole('button', { name: 'Ban 1 user' }).click();
      await dialog.waitFor({ state: 'hidden' });
      await visit(app, page, `/${hostile.appId}/secrets`);
      await page.getByRole('button', { name: 'Add secret' }).click();
      await dialog.getByLabel('Label').fill(value.slice(0, 64));
      await dialog.getByRole('button', { name: 'Add', exact: true }).click();
      // A label that is not accepted is refused in words.
      await dialog
        .getByText(/^uds_|label/i)
        .first()
        .waitFor();
      await page.keyboard.press('Escape');
    }
    const screens = ['/users', '/secrets', '/bans', '/webhooks', '/audit', '/settings'];
    for (const path of [
      '',
      ...projects.map(({ appId }) => `/${appId}`),
      ...screens.map((screen) => `/${hostile.appId}${screen}`),
    ]) {
      await visit(app, page, path);
      expect(await page.title()).toMatch(/userdir$/);
      expect(await page.title()).not.toBe('taken');
      expect(await page.locator('main img, main script').count(), path).toBe(0);
      // Nothing is pushed out of the page, and a mark of direction ends with its value.
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), path).toBeLessThanOrEqual(0);
    }
    await visit(app, page, '');
    const names = await page.locator('main').innerText();
    for (const value of values) expect(names).toContain(value.slice(0, 60));
    expect([opened.strangers(), opened.complaints]).toEqual([[], []]);
  });
});
