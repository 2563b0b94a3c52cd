import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { findFaults, hasBrowser, recordRequests, useBrowser } from '../support/browser.js';
import { isNightly } from '../support/nightly.js';

const PATHS = [
  '',
  ...'/credentials /graphql /client /rest /changes /moving /examples'.split(' '),
  ...'/errors /limits /systems /spec /compatibility /glossary'.split(' '),
  ...'/reference /reference/listUsers /reference/verifyWallets'.split(' '),
];

/** The documentation below /docs as a reader meets it. These tests need Chromium. */
describe.skipIf(!hasBrowser)('the documentation in a browser', () => {
  const app = useTestApp({ env: { GRAPHIQL: 'on' }, demoCredentials: () => shown });
  let project: TestProject;
  let shown: TestProject | null = null;
  const browser = useBrowser();

  beforeAll(async () => {
    project = await app.createProject('Demo');
    await project.addUsers({ auth_method: 'wallet', auth_value: stellarAddress(0) });
  });

  /** Opens a page; at the end it has asked no other machine, and its console has no error, such as a violation of its policy. */
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
      async [Symbol.asyncDispose]() {
        const strangers = requests.filter((url) => !url.startsWith(app.url));
        await page.close();
        expect([strangers, complaints]).toEqual([[], []]);
      },
    };
  }

  async function find(page: Page, words: string): Promise<string[]> {
    await page.getByRole('searchbox').fill(words);
    await expect.poll(() => page.getByRole('status').innerText()).toMatch(/^(\d+ sections?|Nothing found\.)$/);
    return page.locator('search li').allInnerTexts();
  }

  test('has nothing that axe finds, on a phone, in light and dark (every fourth page; nightly all, on a desk too)', async () => {
    await using opened = await openPage('/docs', { colorScheme: 'light' });
    const { page } = opened;
    const red = async () => {
      const colour = await page.evaluate<string>('getComputedStyle(document.documentElement).backgroundColor');
      return Number(/\d+/.exec(colour)?.[0]);
    };
    for (const path of isNightly ? PATHS : PATHS.filter((_, place) => place % 4 === 0)) {
      await page.goto(`${app.url}/docs${path}`);
      for (const width of isNightly ? [390, 1280] : [390]) {
        await page.setViewportSize({ width, height: 800 });
        expect([path, width, await findFaults(page)]).toEqual([path, width, []]);
        expect([path, await page.evaluate('document.documentElement.scrollWidth - innerWidth')]).toEqual([path, 0]);
      }
      expect(await red()).toBeGreaterThan(240);
      // Only the colours are others in the dark.
      await page.emulateMedia({ colorScheme: 'dark' });
      expect([path, await findFaults(page, 'color-contrast')]).toEqual([path, []]);
      expect(await red()).toBeLessThan(40);
      await page.emulateMedia({ colorScheme: 'light' });
    }
  });

  test('the search finds a section by words, marks them, and leads there by keyboard alone', async () => {
    await using opened = await openPage('/docs/rest');
    const { page } = opened;
    const hint = page.locator('search kbd');
    expect([await hint.innerText(), await hint.isVisible()]).toEqual(['/', true]);
    await page.keyboard.press('/');
    expect(await page.evaluate('document.activeElement.type')).toBe('search');
    expect(await hint.isVisible()).toBe(false);
    const [first] = await find(page, 'idempotency key');
    expect(first).toMatch(/^Errors › Idempotency keys/);
    await expect.poll(() => page.locator('search mark').count()).toBeGreaterThan(2);
    // A word without its case; another that is part of a longer one.
    expect((await find(page, 'RATE_LIM'))[0]).toMatch(/^Errors › RATE_LIMITED/);
    expect((await find(page, 'receiver.mjs'))[0]).toMatch(/^Examples › receiver\.mjs/);
    expect(await find(page, 'no such words anywhere')).toEqual([]);
    // What is shown of a text begins with a whole word, and bold words have no blanks around them.
    const [, shown = ''] = (await find(page, 'with an overlap'))[0]?.split('\n') ?? [];
    expect(shown).toContain('with an overlap, such as');
    const index: string[][] = JSON.parse(await (await fetch(`${app.url}/docs/search.json`)).text());
    const cut = (await find(page, 'secret')).flatMap((item) => /\n…(.*)…$/.exec(item)?.[1] ?? []);
    expect(cut.length).toBeGreaterThan(1);
    for (const words of cut)
      expect(
        index.some(([, , , text]) => text?.includes(` ${words}`)),
        words,
      ).toBe(true);
    await find(page, 'rate_limited');
    await page.keyboard.press('ArrowDown');
    expect(await page.evaluate('document.activeElement.hash')).toBe('#RATE_LIMITED');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/docs/errors#RATE_LIMITED');
    await expect.poll(() => page.locator('tr:target').innerText()).toContain('RATE_LIMITED');
    expect(await page.locator('tr:target').isVisible()).toBe(true);
  });

  test('Enter opens the first section that was found; Escape and a click elsewhere close the list', async () => {
    await using opened = await openPage('/docs');
    const { page } = opened;
    await find(page, 'federated graph');
    await page.keyboard.press('Escape');
    expect(await page.locator('search ul').isVisible()).toBe(false);
    await find(page, 'federated');
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('heading').first().click();
    expect(await page.locator('search ul').isVisible()).toBe(false);
    await find(page, 'federated graph');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/docs/graphql#in-a-federated-graph');
  });

  test('the search knows what readers say, and a word with one wrong letter; titles and guides come first', async () => {
    await using opened = await openPage('/docs');
    const { page } = opened;
    for (const [words, first] of [
      ['sign up', /Register a user/],
      ['create user', /Register a user/],
      ['GDPR', /[Rr]emove/],
      ['erase', /[Rr]emove/],
      ['rotate', /Replace a secret/],
      ['api key', /Credentials/],
      ['webhoks', /Webhooks/],
      ['cursro', /cursor/],
      ['limits', /^Limits/],
      ['verify a wallet', /Verify a wallet/],
      ['remove a user', /^GraphQL › Remove a user/],
    ] as const)
      expect((await find(page, words))[0], words).toMatch(first);
  });

  test('says so where the search cannot be loaded, and tries again', async () => {
    const page = await browser.newPage();
    await page.goto(`${app.url}/docs`);
    await page.route('**/search.json', (route) => route.abort());
    await page.getByRole('searchbox').fill('cursor');
    await expect.poll(() => page.getByRole('status').innerText()).toMatch(/^The search could not be loaded/);
    await page.unroute('**/search.json');
    expect((await find(page, 'cursors')).length).toBeGreaterThan(1);
    await page.close();
  });

  test('a sample has the credentials of the demo and the address of the page, and works when it is copied', async () => {
    shown = project;
    await using opened = await openPage('/docs/rest', { permissions: ['clipboard-read', 'clipboard-write'] });
    shown = null;
    const { page } = opened;
    expect(await page.locator('.note').innerText()).toContain('demo project');
    const figure = page.locator('figure').filter({ hasText: '/server/users/count' }).first();
    const button = figure.getByRole('button');
    await button.click();
    await expect.poll(() => button.innerText()).toBe('Copied');
    const command = await page.evaluate<string>('navigator.clipboard.readText()');
    expect(command).toContain(`"${project.appId}:${project.appSecret}"`);
    expect(command).toContain(app.url);
    const { stdout } = await promisify(execFile)('sh', ['-c', command]);
    expect(JSON.parse(stdout)).toEqual({ message: 'Users counted.', result: { total_user: 1 } });
    await expect.poll(() => button.innerText()).toBe('Copy');

    shown = project;
    await page.goto(`${app.url}/docs/client`);
    shown = null;
    const program = await page.locator('figure').filter({ hasText: 'backend.ts' }).first().innerText();
    expect(program).toContain(`APP_ID = '${project.appId}', APP_SECRET = '${project.appSecret}'`);
  });

  test('without a demo a sample keeps its placeholders, and has the address of the page', async () => {
    await using opened = await openPage('/docs/rest');
    const { page } = opened;
    const sample = await page.locator('pre').filter({ hasText: '/server/users/count' }).first().innerText();
    expect(sample).toContain(`"$APP_ID:$APP_SECRET" '${app.url}/server/users/count`);
    expect(await page.locator('.note').count()).toBe(0);
  });

  test('the REST reference and GraphiQL are one click away, and the reference leads back', async () => {
    for (const [name, path] of [
      ['REST reference', '/docs/reference'],
      ['GraphiQL', '/graphql'],
    ] as const) {
      const page = await browser.newPage();
      await page.goto(`${app.url}/docs/errors`);
      await page.getByRole('banner').getByRole('link', { name }).click();
      await page.waitForURL(app.url + path);
      await page.close();
    }
    const page = await browser.newPage();
    await page.goto(`${app.url}/docs/reference/getUser`);
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Errors' }).click();
    await page.waitForURL('**/docs/errors');
    await page.context().close();
  });

  const languageOf = (page: Page, at = 0) => page.locator('.languages').nth(at).getByRole('radio', { checked: true });
  const shownIn = async (page: Page, at = 0) =>
    (await page.locator('.languages').nth(at).locator('pre').filter({ visible: true }).allInnerTexts()).join('\n');

  test('the language of a sample is chosen for all samples, by keyboard too, and other pages remember it', async () => {
    await using opened = await openPage('/docs/rest', { permissions: ['clipboard-read', 'clipboard-write'] });
    const { page } = opened;
    expect(await shownIn(page)).toContain('curl -s');
    // The second sample stays where it is when the first becomes longer.
    const second = page.locator('.languages').nth(1);
    await second.scrollIntoViewIfNeeded();
    const place = async () => (await second.boundingBox())?.y ?? 0;
    const before = await place();
    await second.getByText('Python').click();
    expect(Math.abs((await place()) - before)).toBeLessThan(2);
    for (const at of [0, 1]) {
      expect(await languageOf(page, at).getAttribute('value')).toBe('Python');
      expect(await shownIn(page, at)).toMatch(/^# pip install requests/);
    }
    await second.getByRole('button', { name: 'Copy' }).click();
    await expect.poll(() => page.evaluate('navigator.clipboard.readText()')).toContain('requests.get(');

    await page.goto(`${app.url}/docs/reference/getUser`);
    expect(await languageOf(page).getAttribute('value')).toBe('Python');
    await languageOf(page).focus();
    await page.keyboard.press('ArrowLeft');
    expect(await languageOf(page).getAttribute('value')).toBe('TypeScript');
    expect(await shownIn(page)).toContain("await fetch('");
    await page.reload();
    expect(await shownIn(page)).toContain("await fetch('");

    // A sample of GraphQL has its document too, which is not a language of REST.
    await page.goto(`${app.url}/docs/graphql`);
    await page.locator('.languages').first().getByText('GraphQL', { exact: true }).click();
    expect(await shownIn(page)).toMatch(/^mutation RecordLogin/);
    await page.goto(`${app.url}/docs/reference/getUser`);
    expect(await shownIn(page)).toContain('curl -s');
  });

  test('without JavaScript each sample is there, and its languages can be chosen', async () => {
    const page = await browser.newPage({ javaScriptEnabled: false });
    await page.goto(`${app.url}/docs/reference/getUser`);
    expect(await shownIn(page)).toContain('curl -s');
    await page.locator('.languages').getByText('TypeScript').click();
    expect(await shownIn(page)).toContain("await fetch('");
    await page.close();
  });

  test('a sample of GraphQL opens in GraphiQL with its variables, and stays open alone when the page is loaded again', async () => {
    shown = project;
    await using opened = await openPage('/docs/graphql');
    const { page } = opened;
    const sample = page.locator('figure').filter({ hasText: 'mutation RecordLogin(' });
    await sample.getByRole('link', { name: 'Open in GraphiQL' }).click();
    const tabs = page.getByRole('tab', { name: /^RecordLogin/ });
    for (const _ of ['opened', 'loaded again']) {
      const selected = page.getByRole('tab', { selected: true });
      await expect.poll(() => selected.innerText()).toBe('RecordLogin');
      await expect.poll(() => page.getByRole('region', { name: 'Variables' }).innerText()).toContain('customer-17');
      // The other is one of the examples.
      expect(await tabs.count()).toBe(2);
      await page.reload();
    }
    shown = null;
  });

  test('the contents at the side show the page and the section that is read', async () => {
    await using opened = await openPage('/docs/reference/verifyWallets', { viewport: { width: 1280, height: 500 } });
    const { page } = opened;
    const contents = page.getByRole('navigation', { name: 'Pages' });
    const current = (kind: string) => contents.locator(`[aria-current=${kind}]`);
    expect(await current('page').innerText()).toBe('Verify many wallets');
    const shown = await current('page').boundingBox();
    expect(shown && shown.y > 0 && shown.y < 500).toBe(true);
    expect(await current('location').count()).toBe(0);
    for (const title of ['Answer', 'Body']) {
      await page.getByRole('heading', { name: title, exact: true }).evaluate((heading) => heading.scrollIntoView());
      await expect.poll(() => current('location').allInnerTexts()).toEqual([title]);
    }
  });

  test('each page leads to the one before and the one after it', async () => {
    await using opened = await openPage('/docs/credentials');
    const { page } = opened;
    const titles = page.getByRole('navigation', { name: 'Pages' }).locator('li > a:not([href^="#"])');
    const all = await titles.evaluateAll((links) => links.map((link) => link.getAttribute('href') ?? ''));
    const neighbour = (rel: string) => page.locator(`a[rel=${rel}]`);
    expect(await neighbour('prev').count()).toBe(0);
    for (const path of all.slice(1)) {
      await neighbour('next').click();
      await page.waitForURL(app.url + path);
    }
    expect(await neighbour('next').count()).toBe(0);
    await neighbour('prev').click();
    await page.waitForURL(app.url + all.at(-2));
  });

  test('on a phone the list of pages is behind a button, and a page that is not there leads on', async () => {
    const page = await browser.newPage({ viewport: { width: 390, height: 800 } });
    await page.goto(`${app.url}/docs/nothing`);
    expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('There is no such page');
    const link = page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Limits' });
    expect(await link.count()).toBe(0);
    await page.getByRole('button', { name: 'Pages' }).click();
    await link.click();
    await page.waitForURL('**/docs/limits');
    expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('Limits');
    await page.close();
  });
});
