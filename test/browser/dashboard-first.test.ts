import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type TestProject, useTestApp } from '../support/app.js';
import { hasBrowser, useBrowser } from '../support/browser.js';
import { openDashboard, settle, visit } from '../support/dashboard-page.js';
import { type Receiver, startReceiver } from '../support/receiver.js';

/** What an operator has to see without looking for it. These tests need Chromium. */
describe.skipIf(!hasBrowser)('the dashboard shows', () => {
  const app = useTestApp({ ownDatabase: true, env: { RATE_LIMIT: '6000', WEBHOOKS_ALLOW_PRIVATE: 'on' } });
  let project: TestProject;
  const browser = useBrowser();
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await startReceiver();
    app.context.services.changes.start();
    app.context.services.webhooks.start();
    project = await app.createProject('First');
    await project.addUsers(
      ...Array.from({ length: 7 }, (_, index) => ({
        auth_method: 'passkey',
        auth_value: `passkey-${index}`,
        created_at: `2026-01-0${1 + index}`,
      })),
    );
  });
  afterAll(async () => {
    await receiver?.close();
  });

  test('the number of sign-ups beside their title, and on a phone the choice of days only when it is opened', async () => {
    await using opened = await openDashboard(app, browser, 'viewer', { viewport: { width: 390, height: 800 } });
    const { page } = opened;
    await visit(app, page, `/${project.appId}?from=2026-01-03&to=2026-01-31`);
    await page.getByRole('heading', { level: 2, name: 'Sign-ups 5', exact: true }).waitFor();
    const from = page.getByLabel('From', { exact: true });
    expect(await from.isVisible()).toBe(false);
    await page.getByRole('button', { name: 'Other days' }).click();
    await from.waitFor();
  });

  test('at the top of a user the state, the last login and how many there were, and no row for what is none', async () => {
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    const login = () =>
      project.graphql('mutation { recordLogin(input: { authMethod: "google", authValue: "g-1" }) { user { id } } }');
    const { id } = (await login()).data.recordLogin.user;
    await login();
    await visit(app, page, `/${project.appId}/users/${id}`);
    const summary = page.locator('.summary');
    expect(await summary.innerText()).toMatch(/^active\s+last login [\s\S]*2 logins$/);
    const rows = await page.locator('.facts').first().locator('dt').allInnerTexts();
    expect(rows).toContain('Created');
    expect(rows.filter((row) => /^(Email|Wallet|External ID|Banned|Reason)/.test(row))).toEqual([]);
    await project.graphql(`mutation { banUser(id: ${id}) { user { id } } }`);
    await page.reload();
    await settle(page);
    expect(await summary.innerText()).toMatch(/^banned\s+last login/);
    expect(
      await page.locator('dt', { hasText: 'Banned until' }).locator('xpath=following-sibling::dd[1]').innerText(),
    ).toBe('no end');
    await visit(app, page, `/${project.appId}/audit`);
    const entry = page.getByRole('row').nth(1);
    expect(await entry.innerText()).toContain('all logins of the user');
    expect(await entry.innerText()).not.toContain('user true');
  });

  test('at a key / the search box, also while a checkbox has the focus, and the letter where one types', async () => {
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    await visit(app, page, `/${project.appId}/users`);
    const search = page.getByRole('combobox', { name: /^Search/ });
    await page.getByRole('checkbox').nth(1).check();
    await page.keyboard.press('/');
    await expect.poll(() => search.and(page.locator(':focus')).count()).toBe(1);
    expect(await search.inputValue()).toBe('');
    await page.keyboard.press('/');
    expect(await search.inputValue()).toBe('/');
  });

  test('the number of the rate limit of a project, and whose it is', async () => {
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    await visit(app, page, `/${project.appId}/settings`);
    await page.getByText('6,000 requests in a minute, as the setting RATE_LIMIT says.', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Change the limit…' }).click();
    await page.getByRole('dialog').getByRole('spinbutton').fill('1200');
    await page.keyboard.press('Enter');
    await page.getByText('1,200 requests in a minute.', { exact: true }).waitFor();
  });

  test('a webhook that does not get through on each screen of its project, and first among the checks of the service', async () => {
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    const { projects, webhooks } = app.context.services;
    const failing = await app.createProject('Failing');
    const scope = await projects.getScope(failing.appId);
    receiver.answer('/failing', (response) => response.writeHead(500).end());
    const { id } = await webhooks.addWebhook(scope, { url: receiver.url('/failing'), description: '', types: null });
    await failing.graphql('mutation { recordLogin(input: { authMethod: "q", authValue: "1" }) { user { id } } }');
    await expect.poll(async () => (await webhooks.getWebhook(scope, id)).failures).toBeGreaterThan(0);
    const banner = page.getByRole('status').filter({ hasText: '1 webhook of this project does not get through.' });
    for (const screen of ['', '/users', '/secrets', '/bans', '/audit', '/settings']) {
      await visit(app, page, `/${failing.appId}${screen}`);
      await expect.poll(() => banner.count()).toBe(1);
    }
    await visit(app, page, `/${project.appId}/users`);
    expect(await banner.count()).toBe(0);

    await visit(app, page, '/status');
    const states = await page
      .getByRole('table', { name: 'Checks' })
      .locator('tbody tr td:nth-child(2)')
      .allInnerTexts();
    const count = (wanted: string) => states.filter((state) => state === wanted).length;
    expect(states).toEqual(
      ['problem', 'warning', 'passes', 'not checked'].flatMap((state) => Array(count(state)).fill(state)),
    );
    expect(count('warning')).toBeGreaterThan(0);
    const [problems, warnings] = [count('problem'), count('warning')];
    const counted = (number: number, word: string) => `${number} ${word}${number === 1 ? '' : 's'}`;
    await page
      .getByRole('status')
      .getByText(`${problems === 0 ? 'No problem' : counted(problems, 'problem')}, ${counted(warnings, 'warning')}`)
      .waitFor();
  });
});
