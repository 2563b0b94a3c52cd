import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { hasBrowser, recordRequests, useBrowser } from '../support/browser.js';
import { PATIENCE } from '../support/waiting.js';

const runInShell = async (command: string) => (await promisify(execFile)('sh', ['-c', command])).stdout;
const NAMES = ['ada', 'grace', 'hedy', 'katherine', 'radia'];

// These tests need Chromium. CI installs it and requires it.
describe.skipIf(!hasBrowser)('in a real browser', () => {
  const app = useTestApp({ demoCredentials: () => demo });
  let demo: TestProject;
  const browser = useBrowser();

  beforeAll(async () => {
    demo = await app.createProject('Demo');
    await demo.addUsers(
      ...NAMES.map((name, index) => ({
        auth_method: 'email',
        auth_value: `${name}@example.com`,
        created_at: `2026-01-0${index + 1}`,
        accounts: [{ network: 'stellar', public_key: stellarAddress(index) }],
      })),
    );
  });

  /** Opens a page and records its requests and its errors, such as violations of its CSP. */
  async function openPage(path: string, options: BrowserContextOptions = {}) {
    const page = await browser.newPage(options);
    const requests = recordRequests(page);
    const complaints: string[] = [];
    page.on('console', (message) => {
      if (message.type() === 'error') complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    await page.goto(app.url + path);
    return {
      page,
      complaints,
      strangers: () => requests.filter((url) => !url.startsWith(app.url)),
      [Symbol.asyncDispose]: () => page.close(),
    };
  }

  describe('GraphiQL', () => {
    // The editor writes non-breaking spaces.
    const readAnswer = async (page: Page) =>
      (await page.locator('.result-window').innerText()).replaceAll('\u00a0', ' ');
    const run = (page: Page) => page.getByRole('button', { name: /^Execute/ }).click();
    const openTab = (page: Page, name: string) => page.getByRole('tab').getByTitle(name).click();
    const expectAnswer = (page: Page) => expect.poll(() => readAnswer(page));

    /** Replaces the whole text of an editor. */
    async function write(page: Page, editor: 'Headers' | 'Variables' | 'Operation Editor', text: string) {
      if (editor !== 'Operation Editor') await page.getByRole('button', { name: editor, exact: true }).click();
      await page.getByRole('region', { name: editor }).getByRole('textbox').focus();
      await page.keyboard.press('Control+A');
      await page.keyboard.insertText(text);
      // Deletes the brackets that the editor closed by itself after the cursor.
      await page.keyboard.press('Control+Shift+End');
      await page.keyboard.press('Delete');
    }

    test('opens with examples that work, and the example of a removal removes no user by mistake', async () => {
      await using opened = await openPage('/graphql');
      const { page } = opened;
      await openTab(page, 'RecordLogin');
      const variables = page.getByRole('region', { name: 'Variables' });
      await expect.poll(() => variables.innerText()).toContain('rosalind@example.com');
      await page.getByRole('button', { name: 'Headers', exact: true }).click();
      await expect.poll(() => page.getByText(demo.appId).count()).toBeGreaterThan(0);
      for (const [tab, part] of [
        ['NewestUsers', '"totalCount": 5'],
        ['RecordLogin', '"loginCount": '],
        ['WalkByCursor', '"hasNextPage": true'],
        ['PageByDates', '"totalUser": 0'],
        ['SearchUsers', '"authValue": "radia@example.com"'],
        ['VerifyWallet', '"exists": true'],
        ['DeleteUser', '"data": {}'],
      ] as const) {
        await openTab(page, tab);
        // The editor detects its operation with a delay, and runs none until then.
        const runAgain = async () => {
          await run(page);
          return readAnswer(page);
        };
        await expect.poll(runAgain, PATIENCE).toContain(part);
        expect(await readAnswer(page)).not.toContain('"errors"');
      }
      // The one who has logged in.
      expect((await demo.rest('/server/users/count')).body.result.total_user).toBe(6);
      expect(opened.strangers()).toEqual([]);
      expect(opened.complaints).toEqual([]);
    });

    test('completes a query, runs it and follows a cursor', async () => {
      await using opened = await openPage('/graphql');
      const { page } = opened;
      await write(page, 'Operation Editor', '{ userC');
      await page.keyboard.press('Control+Space');
      await page.locator('.suggest-widget.visible').getByText('userCount').first().click();
      await expect
        .poll(async () =>
          (await page.getByRole('region', { name: 'Operation Editor' }).innerText()).includes('userCount'),
        )
        .toBe(true);
      await page.keyboard.press('Control+End');
      await page.keyboard.type(' }');
      await run(page);
      await expectAnswer(page).toContain('"userCount": 6');

      await openTab(page, 'WalkByCursor');
      await run(page);
      await expectAnswer(page).toContain('"endCursor"');
      const first = JSON.parse(await readAnswer(page)).data.users;
      await write(page, 'Variables', JSON.stringify({ after: first.pageInfo.endCursor }));
      await run(page);
      await expectAnswer(page).toContain('"hasNextPage": false');
      const second = JSON.parse(await readAnswer(page)).data.users;
      const ids = [...first.nodes, ...second.nodes].map(({ id }: { id: string }) => id);
      expect([new Set(ids).size, first.nodes.length, second.nodes.length]).toEqual([6, 3, 3]);
      expect(opened.complaints).toEqual([]);
    });

    test('shows the description of a field in the documentation panel', async () => {
      await using opened = await openPage('/graphql');
      const { page } = opened;
      await page.getByRole('button', { name: 'Show Documentation Explorer' }).click();
      const docs = page.locator('.graphiql-doc-explorer');
      await docs.getByRole('link', { name: 'Query' }).click();
      await docs.getByRole('link', { name: 'verifyWallet', exact: true }).click();
      await expect.poll(() => docs.innerText()).toContain('Decides whether an address belongs to a current user.');
      expect(await docs.innerText()).toContain('where several have it, the answer names the one who linked it first');
    });

    test('shows the error for wrong credentials in its response pane, without a browser dialog', async () => {
      await using opened = await openPage('/graphql');
      const { page } = opened;
      await write(page, 'Headers', '{ "service-app-id": "app_unknown", "service-app-secret": "wrong" }');
      await run(page);
      await expectAnswer(page).toContain('UNAUTHENTICATED');
      const popup = page.waitForEvent('popup');
      await page.locator('.result-window').getByText('/docs/errors#UNAUTHENTICATED').click();
      await (await popup).waitForURL('**/docs/errors#UNAUTHENTICATED');
      const docs = page.waitForEvent('popup');
      await page.getByRole('banner').getByRole('link', { name: 'Documentation' }).click();
      await (await docs).waitForURL('**/docs');
    });

    test('on a phone shows the tab that a link has opened, and both lines of the address of an error are a link', async () => {
      await using opened = await openPage('/graphql', { viewport: { width: 390, height: 844 } });
      const { page } = opened;
      const tab = page.locator('.graphiql-tab-active');
      await tab.waitFor();
      await page.goto(`${app.url}/graphql?query=${encodeURIComponent('query Wrong { user(id: "x") { id } }')}`);
      await tab.getByTitle('Wrong').waitFor();
      const right = async () => (await tab.boundingBox().then((box) => box && box.x + box.width)) ?? 0;
      await expect.poll(right).toBeLessThanOrEqual(390);
      await run(page);
      const lines = page.locator('.error-docs');
      await expect.poll(() => lines.allInnerTexts()).toContain('"/docs/');
      const popup = page.waitForEvent('popup');
      await lines.getByText('"/docs/').click();
      await (await popup).waitForURL('**/docs/errors#BAD_USER_INPUT');
      expect(opened.complaints).toEqual([]);
    });
  });

  describe('the page that tries REST', () => {
    test('shows every route, has the demo credentials, accepts others, and shows what is answered', async () => {
      await using opened = await openPage('/docs/reference/searchUsers');
      const { page } = opened;
      // The reference leads to the form of its operation.
      await page.getByRole('link', { name: 'Try it' }).click();
      await expect.poll(() => page.locator('.opblock').count()).toBe(9);
      const search = page.locator('#operations-users-searchUsers');
      await search.getByPlaceholder('email').fill('ada@example.com');
      const execute = search.getByRole('button', { name: 'Execute' });
      const status = () => search.locator('.live-responses-table .response-col_status').last().innerText();
      await execute.click();
      await expect.poll(status).toBe('200');
      const answer = await search.locator('.live-responses-table .highlight-code').first().innerText();
      expect(answer).toContain('"auth_value": "ada@example.com"');

      await page.getByRole('button', { name: 'Authorize', exact: true }).click();
      const appSecret = page.locator('.auth-container').nth(1);
      await appSecret.getByRole('button', { name: 'Remove authorization' }).click();
      await appSecret.locator('input').fill('wrong');
      await appSecret.getByRole('button', { name: 'Apply credentials' }).click();
      await page.locator('.modal-ux .close-modal').click();
      await execute.click();
      // The error is on the page, not in a browser dialog.
      await expect.poll(status).toBe('401');
      expect(opened.strangers()).toEqual([]);
      expect(opened.complaints).toEqual([expect.stringContaining('401')]);
    });
  });

  describe('the front page', () => {
    test('links to the explorer, the REST reference, the dashboard, the OpenAPI document and the health routes', async () => {
      await using opened = await openPage('/');
      const { page } = opened;
      const links = await page
        .locator('main a')
        .evaluateAll((anchors) => anchors.map((anchor) => anchor.getAttribute('href')));
      expect(links.filter((link) => !link?.startsWith('/docs/') || link === '/docs/reference')).toEqual(
        '/docs/reference /graphql /openapi.json /schema.graphql /dashboard /livez /readyz'.split(' '),
      );
      expect([opened.strangers(), opened.complaints]).toEqual([[], []]);
    });

    test('has a request for each interface that works when pasted, and the button says that it copied', async () => {
      await using opened = await openPage('/', { permissions: ['clipboard-read', 'clipboard-write'] });
      const { page } = opened;
      for (const [index, part] of ['"User', '"totalCount":6'].entries()) {
        const button = page.locator('figure button').nth(index);
        await button.click();
        await expect.poll(() => button.innerText()).toBe('Copied');
        const command = await page.evaluate('navigator.clipboard.readText()');
        expect(await runInShell(command as string)).toContain(part);
      }
    });
  });

  test.each(['/', '/docs/reference', '/docs/try', '/graphql'])(
    '%s follows the light or dark colour scheme and fits a phone',
    async (path) => {
      for (const colorScheme of ['light', 'dark'] as const) {
        await using opened = await openPage(path, { colorScheme, viewport: { width: 390, height: 800 } });
        const { page } = opened;
        await page.locator('h1, h2, .graphiql-editors').filter({ visible: true }).first().waitFor();
        // The lightness of the background, from 0 to 255; a transparent element shows the colour of the page.
        const lightness = () =>
          page.evaluate<number>(`(() => {
          const colours = ['.graphiql-container', 'body', 'html'].flatMap((where) => {
            const found = document.querySelector(where);
            const [r, g, b, alpha = 1] = found ? getComputedStyle(found).backgroundColor.match(/[\\d.]+/g).map(Number) : [0, 0, 0, 0];
            return alpha === 0 ? [] : [(r + g + b) / 3];
          });
          return colours[0];
        })()`);
        if (colorScheme === 'light') await expect.poll(lightness).toBeGreaterThan(240);
        else await expect.poll(lightness).toBeLessThan(70);
        expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
      }
    },
  );
});
