import { randomUUID } from 'node:crypto';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type TestProject, useTestApp } from '../support/app.js';
import { findFaults, hasBrowser, launchBrowser } from '../support/browser.js';
import { openDashboard, settle, visit } from '../support/dashboard-page.js';

const until = (read: () => Promise<unknown>) => expect.poll(read, { timeout: 60_000 });

/** The last requests of a project, as people look for one. These tests need Chromium. */
describe.skipIf(!hasBrowser)('the requests in the dashboard', () => {
  const app = useTestApp({ ownDatabase: true });
  let browser: Browser;
  let project: TestProject;
  let other: TestProject;
  const [good, bad] = [randomUUID(), randomUUID()];
  const longId = `trace:${'0123456789abcdef'.repeat(7)}`;
  beforeAll(async () => {
    browser = await launchBrowser();
    project = await app.createProject('Requests');
    other = await app.createProject('Other');
    await project.graphql('mutation Login { recordLogin(input: { authMethod: "q", authValue: "1" }) { created } }');
    await project.rest('/server/users/count', { headers: { 'x-request-id': good } });
    await project.rest('/server/users/12345', { headers: { 'x-request-id': bad } });
    await project.rest('/server/users/count', { headers: { 'x-request-id': longId } });
    await app.context.services.requestHours.flush();
    // As if much had happened in a month.
    await app.context.db.pool.query(
      `INSERT INTO request_hours (project_id, hour, requests, failures, logins)
       SELECT id, date_trunc('hour', now(), 'UTC') - n * interval '1 hour', 100 + n % 24, n % 7, n % 5
       FROM projects, generate_series(24, 719) AS n WHERE app_id = $1`,
      [project.appId],
    );
  });
  afterAll(() => browser?.close());

  const rows = (page: Page) => page.getByRole('table', { name: 'Last requests' }).getByRole('row');
  const facts = (page: Page) => page.locator('dl.facts').innerText();

  test('a viewer sees the last ones and the chart, filters the failures, and opens one', async () => {
    await using opened = await openDashboard(app, browser, 'viewer');
    const { page } = opened;
    await visit(app, page, `/${project.appId}`);
    await page.getByRole('link', { name: 'Requests', exact: true }).click();
    await page.getByText('Of the one worker of this host, in memory since').waitFor();
    await until(() => rows(page).count()).toBe(5);
    expect(await rows(page).nth(4).innerText()).toMatch(
      /^\d+ \w+ \d+, \d\d:\d\d:\d\d\s+Login\s*POST \/graphql\s+200\s.*ms\s+\d+\s+main\s+[0-9a-f-]{36}/s,
    );
    await page.getByRole('link', { name: 'Failed' }).click();
    await until(() => rows(page).count()).toBe(2);
    expect(await rows(page).nth(1).innerText()).toMatch(/GET \/server\/users\/:user_id\s+404 NOT_FOUND/);
    await page.getByRole('link', { name: bad }).click();
    await until(() => facts(page)).toMatch(/404 NOT_FOUND[\s\S]*main/);
    await page.goBack();
    await until(() => rows(page).count()).toBe(2);

    // The chart says from when to when it is.
    expect(await page.locator('.axis').innerText()).toMatch(/^\d+ \w+ \d{4}\s+now$/);
    await page.getByRole('img', { name: /^[\d,]+ requests, of which [\d,]+ failed$/ }).hover();
    await page.getByText(/^from \d/).waitFor();
    await page.getByRole('link', { name: '24 hours' }).click();
    await page.getByText('As a table').click();
    const table = page.getByRole('table', { name: 'Requests', exact: true });
    await until(() => table.getByRole('row').count()).toBe(25);
    await page.getByRole('link', { name: '30 days' }).click();
    await until(() => table.getByRole('row').count()).toBeGreaterThan(30);
    expect([opened.strangers(), opened.complaints]).toEqual([[], []]);
  });

  test('the id of a request leads to it from the search box, pasted or with Enter, from any screen', async () => {
    await using opened = await openDashboard(app, browser, 'viewer', {
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    const { page } = opened;
    const box = page.getByRole('searchbox');
    const paste = async (text: string) => {
      await page.evaluate(`navigator.clipboard.writeText(${JSON.stringify(text)})`);
      await box.focus();
      await page.keyboard.press('ControlOrMeta+V');
    };
    for (const screen of ['', `/${project.appId}/users`, `/${other.appId}/users`, `/${other.appId}/audit`]) {
      await visit(app, page, screen);
      await paste(good);
      await until(async () => page.url().replace(app.url, '')).toBe(`/dashboard/${project.appId}/requests?id=${good}`);
      await until(() => facts(page)).toMatch(/GET \/server\/users\/count/);
    }
    await visit(app, page, `/${project.appId}`);
    await box.fill(bad);
    await box.press('Enter');
    await until(() => facts(page)).toMatch(/404 NOT_FOUND/);
    expect(await box.inputValue()).toBe('');
    expect(opened.complaints).toEqual([]);
  });

  test('an id that nobody remembers is said not to be remembered, and users are searched for it', async () => {
    await using opened = await openDashboard(app, browser, 'viewer');
    const { page } = opened;
    await visit(app, page, `/${project.appId}`);
    const unknown = randomUUID();
    await page.getByRole('searchbox').fill(unknown);
    await page.getByRole('searchbox').press('Enter');
    await page.getByRole('link', { name: 'Look among requests' }).click();
    await page.getByText('No worker of this host remembers a request of this project with this ID.').waitFor();
    await page.getByRole('link', { name: 'Search users for it' }).click();
    await until(async () => page.url().replace(app.url, '')).toBe(`/dashboard/${project.appId}/users?q=${unknown}`);
    await visit(app, page, `/${other.appId}/requests?id=${good}`);
    await page.getByText('No worker of this host remembers a request of this project with this ID.').waitFor();
    expect(opened.complaints).toEqual([]);
  });

  test.each([
    ['light', 1280],
    ['dark', 1280],
    ['light', 390],
    ['dark', 390],
  ] as const)('have nothing that axe finds, and fit, in %s at %d', async (colorScheme, width) => {
    await using opened = await openDashboard(app, browser, 'admin', { colorScheme, viewport: { width, height: 900 } });
    const { page } = opened;
    for (const screen of ['', '?show=failed', '?range=day', `?id=${bad}`, `?id=${longId}`, '?id=unknown-12']) {
      await visit(app, page, `/${project.appId}/requests${screen}`);
      for (const more of await page.locator('main details summary').all()) await more.click();
      await settle(page);
      expect(await findFaults(page), screen).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), screen).toBe(0);
      if (width === 1280)
        expect(
          await page.evaluate(
            `[...document.querySelectorAll('.table')].every((each) => each.scrollWidth <= each.clientWidth)`,
          ),
          screen,
        ).toBe(true);
    }
    expect(opened.complaints).toEqual([]);
  });
});
