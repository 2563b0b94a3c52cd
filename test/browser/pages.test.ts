import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestApp, type TestApp, type TestProject } from '../support/app.js';
import { hasBrowser, launchBrowser, recordRequests } from '../support/browser.js';

// Without a Chromium on the machine there is nothing to look through; CI installs one and requires it.
describe.skipIf(!hasBrowser)('in a real browser', () => {
  let app: TestApp;
  let demo: TestProject;
  let browser: Browser;

  beforeAll(async () => {
    app = await startTestApp({ demoCredentials: () => demo });
    demo = await app.createProject('Demo');
    await demo.addUsers(
      { auth_method: 'email', auth_value: 'ada@example.com' },
      { auth_method: 'email', auth_value: 'grace@example.com' },
    );
    browser = await launchBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await app.close();
  });

  async function openPage(path: string): Promise<{ page: Page; requests: string[] }> {
    const page = await browser.newPage();
    const requests = recordRequests(page);
    await page.goto(app.url + path);
    return { page, requests };
  }

  // The editor writes its spaces as ones that do not break.
  const readAnswer = async (page: Page) => (await page.locator('.result-window').innerText()).replaceAll('\u00a0', ' ');

  test('GraphiQL opens with the demo credentials, runs its first query, and no request leaves the machine', async () => {
    const { page, requests } = await openPage('/graphql');
    await page.getByRole('button', { name: /^Execute/ }).click();
    await expect.poll(() => readAnswer(page), { timeout: 15_000 }).toContain('"totalCount": 2');
    expect(await page.getByText(demo.appId).count()).toBeGreaterThan(0);
    expect(requests.filter((url) => !url.startsWith(app.url))).toEqual([]);
    await page.close();
  });

  test('GraphiQL shows what is wrong with wrong credentials, in its answer and not in a window of the browser', async () => {
    const { page } = await openPage('/graphql');
    const headers = page.getByRole('region', { name: 'Headers' }).getByRole('textbox');
    await headers.focus();
    await page.keyboard.press('Control+A');
    await page.keyboard.insertText('{ "service-app-id": "app_unknown", "service-app-secret": "wrong" }');
    // What the editor has closed by itself behind the cursor.
    await page.keyboard.press('Control+Shift+End');
    await page.keyboard.press('Delete');
    await page.getByRole('button', { name: /^Execute/ }).click();
    await expect.poll(() => readAnswer(page), { timeout: 15_000 }).toContain('UNAUTHENTICATED');
    await page.close();
  });

  test('the REST reference shows the six routes, and no request leaves the machine', async () => {
    const { page, requests } = await openPage('/docs');
    await expect.poll(() => page.locator('.opblock').count(), { timeout: 15_000 }).toBe(6);
    expect(requests.filter((url) => !url.startsWith(app.url))).toEqual([]);
    await page.close();
  });

  test('the front page leads to GraphiQL, the REST reference and the health routes', async () => {
    const { page } = await openPage('/');
    const links = await page
      .locator('a')
      .evaluateAll((anchors) => anchors.map((anchor) => anchor.getAttribute('href')));
    expect(links).toEqual(['/graphql', '/docs', '/openapi.json', '/livez', '/readyz']);
    for (const link of links)
      expect((await fetch(app.url + link, { headers: { accept: 'text/html' } })).status).toBe(200);
    await page.close();
  });
});
