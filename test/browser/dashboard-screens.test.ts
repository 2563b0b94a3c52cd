import type { Locator } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { parseIdentity } from '#dist/domain/identities.js';
import { KEPT_FIELDS, KEPT_TEXTS, ofKeptLines } from '#dist/domain/kept-texts.js';
import { snakeCase } from '#dist/domain/spelling.js';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { findFaults, hasBrowser, useBrowser } from '../support/browser.js';
import { chooseAction, openDashboard, settle, visit } from '../support/dashboard-page.js';
import { isNightly } from '../support/nightly.js';

const identityOf = (email: string) => parseIdentity({ authMethod: 'email', authValue: email }, snakeCase);

/** How the screens behave for everyone: by link, by keyboard, on a phone, in both themes. These tests need Chromium. */
describe.skipIf(!hasBrowser)('the screens of the dashboard', () => {
  const app = useTestApp();
  let project: TestProject;
  const browser = useBrowser();
  let userId: string;
  beforeAll(async () => {
    project = await app.createProject('Screens');
    await project.addUsers(
      ...Array.from({ length: 60 }, (_, index) => ({
        auth_method: ['email', 'google', 'passkey'][index % 3] ?? 'email',
        auth_value: index % 3 === 0 ? `user${index}@example.com` : `value-${index}`,
        created_at: `2026-01-${String(1 + (index % 28)).padStart(2, '0')}`,
        accounts: [{ network: 'stellar', public_key: stellarAddress(index) }],
      })),
    );
    userId = (await project.graphql('{ users(first: 1) { nodes { id } } }')).data.users.nodes[0].id;
    await project.addUsers(
      ...['x', 'y'].map((auth_value) => ({ auth_method: 'github', auth_value, created_at: '2020-01-01' })),
    );
    const gone = await project.graphql('{ users(last: 2) { nodes { id } } }');
    for (const { id } of gone.data.users.nodes) await project.rest(`/server/users/${id}`, { method: 'DELETE' });
  });

  test('show on the page of a user each text that a caller keeps, and change it', async () => {
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    const kept = await app.createProject('Kept texts');
    await kept.addUsers({
      auth_method: 'github',
      auth_value: 'k',
      ...ofKeptLines((field) => KEPT_TEXTS[field].examples[0]),
    });
    const { id } = (await kept.graphql('{ users(first: 1) { nodes { id } } }')).data.users.nodes[0];
    await visit(app, page, `/${kept.appId}/users/${id}`);
    await page.getByRole('button', { name: 'Edit…', exact: true }).click();
    const dialog = page.getByRole('dialog');
    for (const { label, examples } of Object.values(KEPT_TEXTS)) {
      const input = dialog.getByRole('textbox', { name: label, exact: true });
      expect(await input.inputValue()).toBe(examples[0]);
      await input.fill(examples[1]);
    }
    await dialog.getByRole('button', { name: 'Save', exact: true }).click();
    await dialog.waitFor({ state: 'hidden' });
    for (const { label, examples } of Object.values(KEPT_TEXTS)) {
      await page
        .locator('dt', { hasText: label })
        .locator('xpath=following-sibling::dd[1]')
        .getByText(examples[1])
        .waitFor();
    }
    await chooseAction(page, 'API');
    const recipe = await dialog.innerText();
    for (const field of KEPT_FIELDS) expect(recipe).toContain(` ${field} `);
  });

  test('show a page of users as `user list` lists it, with the filter', async () => {
    await using opened = await openDashboard(app, browser, 'viewer');
    const { page } = opened;
    await visit(app, page, `/${project.appId}/users?start=2026-01-02&method=EMAIL&part=USER&banned=no`);
    await page.getByRole('button', { name: 'API' }).click();
    const ways = await page.getByRole('dialog').locator('pre').allInnerTexts();
    expect(ways.at(-1)).toBe(
      `userdir user list --project ${project.appId} --start-date 2026-01-02 --login-methods email --contains USER --banned no --limit 25`,
    );
  });

  test('have on a phone a menu of screens, and cards instead of tables', async () => {
    await using opened = await openDashboard(app, browser, 'admin', { viewport: { width: 390, height: 800 } });
    const { page } = opened;
    await visit(app, page, `/${project.appId}`);
    const navigation = page.getByRole('navigation', { name: 'Main' });
    expect(await navigation.count()).toBe(0);
    await page.getByRole('button', { name: 'Menu' }).click();
    expect(await findFaults(page)).toEqual([]);
    await navigation.getByRole('link', { name: 'Users' }).click();
    await page.getByRole('heading', { name: 'Users', level: 1 }).waitFor();
    await expect.poll(() => navigation.count()).toBe(0);
    await settle(page);
    const card = page.getByRole('row').nth(1);
    expect(await card.innerText()).toMatch(/\b(user\d+@example.com|value-\d+)\b/);
    expect(await card.getByText('Created').count()).toBe(0);
    expect(await page.evaluate("document.querySelector('.cards').scrollWidth <= innerWidth")).toBe(true);
    expect(await findFaults(page)).toEqual([]);
  });

  test('show their frame before their script is there, in the colours of the reader', async () => {
    let goOn = () => {};
    const mayGoOn = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const page = await browser.newPage({ colorScheme: 'dark' });
    await page.route(/assets\/.*\.js$/, (route) => mayGoOn.then(() => route.continue()));
    await page.goto(`${app.url}/dashboard`, { waitUntil: 'commit' });
    await page.getByRole('status', { name: 'Loading' }).waitFor();
    expect(await page.evaluate('getComputedStyle(document.querySelector(".bar")).borderBottomStyle')).toBe('solid');
    expect(await page.evaluate('getComputedStyle(document.body).backgroundColor')).toBe('rgb(18, 18, 22)');
    goOn();
    await page.getByRole('heading', { name: 'Sign in to userdir' }).waitFor();
    await page.close();
  });

  test('are where a link says: filter, page, back and the place in a long list', async () => {
    await using opened = await openDashboard(app, browser, 'viewer', { viewport: { width: 1000, height: 500 } });
    const { page } = opened;
    await visit(app, page, `/${project.appId}/users?limit=10`);
    const firstId = () => page.locator('tbody tr td:nth-child(3)').first().innerText();
    const newest = await firstId();
    await page.getByRole('link', { name: 'Older' }).click();
    await expect.poll(firstId).not.toBe(newest);
    const second = await firstId();
    await page.getByRole('checkbox', { name: 'Email' }).check();
    await page.getByText('20 users match the filter').waitFor();
    expect(page.url()).toContain('method=EMAIL');
    expect(page.url()).not.toContain('after=');
    await page.goBack();
    await page.getByText('60 users', { exact: true }).waitFor();
    expect(await firstId()).toBe(second);
    expect(await page.getByRole('checkbox', { name: 'Email' }).isChecked()).toBe(false);

    // A link that leads on keeps the focus.
    await visit(app, page, `/${project.appId}/users?limit=10`);
    await page.getByRole('link', { name: 'Older' }).focus();
    for (let pages = 0; pages < 2; pages += 1) {
      const before = await firstId();
      await page.keyboard.press('Enter');
      await expect.poll(firstId).not.toBe(before);
      await settle(page);
      expect(await page.evaluate('document.activeElement.innerText')).toBe('Older');
    }

    await visit(app, page, `/${project.appId}/users?limit=50`);
    const link = page.getByRole('row').nth(40).getByRole('link');
    await link.scrollIntoViewIfNeeded();
    const place = (await page.evaluate('scrollY')) as number;
    expect(place).toBeGreaterThan(300);
    await link.click();
    await page.getByRole('heading', { name: 'Accounts' }).waitFor();
    expect(await page.evaluate('scrollY')).toBe(0);
    await page.goBack();
    await page.getByRole('heading', { name: 'Users' }).waitFor();
    await expect.poll(() => page.evaluate(`Math.abs(scrollY - ${place})`)).toBeLessThan(20);
  });

  test('walk by cursor to the last user and back, each user once', async () => {
    await using opened = await openDashboard(app, browser, 'viewer');
    const { page } = opened;
    await visit(app, page, `/${project.appId}/users?limit=25`);
    const seen: string[] = [];
    const readIds = () => page.locator('tbody tr td:nth-child(3)').allInnerTexts();
    for (const count of [25, 25, 10]) {
      await expect.poll(() => page.locator('tbody tr').count()).toBe(count);
      await settle(page);
      seen.push(...(await readIds()));
      const older = page.getByRole('link', { name: 'Older' });
      if (count === 25) {
        const [before] = await readIds();
        await older.click();
        await expect.poll(async () => (await readIds())[0]).not.toBe(before);
      } else expect(await older.count()).toBe(0);
    }
    expect(new Set(seen).size).toBe(60);
    await page.getByRole('link', { name: 'Newer' }).click();
    await expect.poll(async () => (await readIds())[0]).toBe(seen[25]);
  });

  test.runIf(isNightly)('list the oldest users first, page by page to the newest and back', async () => {
    await using opened = await openDashboard(app, browser, 'viewer');
    const { page } = opened;
    await visit(app, page, `/${project.appId}/users?limit=50`);
    const title = page.getByRole('columnheader', { name: 'Created' });
    expect(await title.getAttribute('aria-sort')).toBe('descending');
    await title.getByRole('link').click();
    const ids = () => page.locator('tbody tr td.number:nth-child(3)').allInnerTexts();
    const newestFirst = (await project.graphql('{ users(first: 100) { nodes { id } } }')).data.users.nodes;
    const right = newestFirst.map(({ id }: Json) => id).toReversed();
    await expect.poll(ids).toEqual(right.slice(0, 50));
    expect(await title.getAttribute('aria-sort')).toBe('ascending');
    await page.getByRole('link', { name: 'Newer', exact: true }).click();
    await expect.poll(ids).toEqual(right.slice(50));
    await page.getByRole('link', { name: 'Older', exact: true }).click();
    await expect.poll(ids).toEqual(right.slice(0, 50));
    await title.getByRole('link').click();
    await expect.poll(ids).toEqual(right.toReversed().slice(0, 50));
  });

  test('filter by ban and last login, say what a page looks at, and go on', async () => {
    const states = await app.createProject('States');
    const user = (n: number) => ({
      auth_method: 'email',
      auth_value: `u${n}@example.com`,
      created_at: '2025-01-01',
      last_login: `2026-01-${String(1 + n).padStart(2, '0')}`,
    });
    await states.addUsers(...Array.from({ length: 30 }, (_, n) => user(n)));
    await states.addUsers({ auth_method: 'google', auth_value: '117', email: 'grace@example.com', external_id: 'C-7' });
    const scope = await app.context.services.projects.getScope(states.appId);
    for (const n of [3, 27]) await app.context.services.bans.ban(scope, identityOf(`u${n}@example.com`));
    await using opened = await openDashboard(app, browser, 'viewer');
    const { page } = opened;
    const names = () => page.getByRole('table', { name: 'Users' }).getByRole('link', { name: '@' }).allInnerTexts();
    await visit(app, page, `/${states.appId}/users`);
    await page.locator('summary', { hasText: 'Filters' }).click();
    await page.getByLabel('Banned').selectOption('yes');
    await page.keyboard.press('Escape');
    await expect.poll(names).toEqual(['u27@example.com', 'u3@example.com']);
    await page.getByText('All users were looked at: 2 users found.').waitFor();
    await page.getByRole('columnheader', { name: 'Created' }).getByRole('link').click();
    await expect.poll(names).toEqual(['u3@example.com', 'u27@example.com']);
    await visit(app, page, `/${states.appId}/users?unseen=2026-01-13&limit=10`);
    await expect.poll(async () => (await names()).length).toBe(10);
    await page.getByText('Not all users were looked at yet').waitFor();
    await page.getByRole('link', { name: 'Older', exact: true }).click();
    await expect.poll(names).toEqual(['u1@example.com', 'u0@example.com']);
    await page.getByRole('button', { name: 'API' }).click();
    const [operation = '', variables = ''] = await page.getByRole('dialog').locator('pre').allInnerTexts();
    const { data } = await states.graphql(operation, JSON.parse(variables));
    expect(data.users.nodes.map(({ authValue }: Json) => authValue)).toEqual(['u1@example.com', 'u0@example.com']);
    await page.keyboard.press('Escape');
    // The service looks at 1,000 users at a time, the page at more.
    const many = await app.createProject('Many');
    await many.addUsers(...Array.from({ length: 1_100 }, (_, n) => ({ ...user(0), auth_value: `m${n}@example.com` })));
    const [oldest] = (await many.graphql('{ users(last: 1) { nodes { authValue } } }')).data.users.nodes;
    const { projects, bans } = app.context.services;
    await bans.ban(await projects.getScope(many.appId), identityOf(oldest.authValue));
    await visit(app, page, `/${many.appId}/users?banned=yes`);
    await expect.poll(names).toEqual([oldest.authValue]);
    await page.getByText('All users were looked at: 1 user found.').waitFor();
    await visit(app, page, `/${states.appId}/users?seen=2027-01-01`);
    await page.getByText('None of the users looked at matches.').waitFor();
    expect(await page.getByText('The next page looks at more.').count()).toBe(0);
    await page.getByText('Export', { exact: true }).click();
    await page.getByText('All users of the project, whatever their last login and state').waitFor();
    // A filter that is refused says so by its label.
    await visit(app, page, `/${states.appId}/audit?userId=x&since=2026-01-01`);
    await page.getByRole('alert').getByText('User ID must be decimal digits, 1 and up.').waitFor();
    // A user of a social provider is called by the email.
    await visit(app, page, `/${states.appId}/users?q=C-7`);
    const row = page.getByRole('row').nth(1);
    expect(await row.innerText()).toMatch(/grace@example\.com\s+117[\s\S]*C-7/);
    await row.getByRole('link').click();
    await page.getByRole('heading', { level: 1, name: 'grace@example.com' }).waitFor();
    expect(opened.complaints).toEqual([]);
  });

  test('are used by keyboard alone', async () => {
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    const hasFocus = (where: Locator) => expect.poll(() => where.and(page.locator(':focus')).count()).toBe(1);
    const focused = () => page.evaluate('document.activeElement?.textContent || document.activeElement?.ariaLabel');
    await visit(app, page, `/${project.appId}/users`);
    await page.keyboard.press('Tab');
    expect(await focused()).toBe('Skip to the content');
    await page.keyboard.press('/');
    await hasFocus(page.getByRole('combobox', { name: /^Search/ }));
    await page.keyboard.type('user0@example.com');
    await page.keyboard.press('Enter');
    await page.getByText('1 user found').waitFor();
    await page.keyboard.press('Escape');
    await page.getByText('60 users', { exact: true }).waitFor();

    const open = page.getByRole('button', { name: 'Import' });
    await open.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await hasFocus(page.getByLabel('File'));
    await page.keyboard.press('Escape');
    await expect.poll(() => page.getByRole('dialog').count()).toBe(0);
    await hasFocus(open);

    const menu = page.getByText('Export', { exact: true });
    await menu.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: /CSV/ }).waitFor();
    await page.keyboard.press('Escape');
    await expect.poll(() => page.getByRole('link', { name: /CSV/ }).isVisible()).toBe(false);
    // What has the focus is seen to have it.
    await hasFocus(menu);
    expect(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')).toBe('solid');
  });

  test('show the reader’s time, with UTC beside it', async () => {
    await using opened = await openDashboard(app, browser, 'viewer', { timezoneId: 'Asia/Tokyo' });
    const { page } = opened;
    await visit(app, page, `/${project.appId}/users/${userId}`);
    const time = page.locator('time').first();
    expect(await time.innerText()).toMatch(/2026, 09:00$/);
    expect(await time.getAttribute('title')).toMatch(/2026, 00:00:00 UTC$/);
  });

  test.runIf(isNightly)('show a range of sign-ups as a chart and as a table with the same figures', async () => {
    await using opened = await openDashboard(app, browser, 'viewer');
    const { page } = opened;
    await visit(app, page, `/${project.appId}?from=2026-01-01&to=2026-01-31`);
    await page.locator('canvas').waitFor();
    expect(await page.getByLabel('From').inputValue()).toBe('2026-01-01');
    await page.getByText('60 sign-ups, as a table').click();
    const table = page.getByRole('table', { name: 'Sign-ups by login method' });
    expect(await table.getByRole('row').count()).toBe(32);
    await page.getByRole('combobox', { name: 'By' }).selectOption('month');
    await expect.poll(() => table.getByRole('row').count()).toBe(2);
    expect(await table.getByRole('row').nth(1).innerText()).toMatch(/Jan 2026\s+20\s+20\s+0\s+20\s+60/);
    await visit(app, page, `/${project.appId}?from=2000-01-01&to=2026-01-31`);
    // What the service refuses is shown with its reason.
    expect(await page.getByRole('alert').innerText()).toMatch(/400/);
    await page.getByRole('link', { name: 'Show months' }).click();
    await page.getByText('60 sign-ups, as a table').waitFor();
  });

  test('show new users and removals on the overview without a reload', async () => {
    const lively = await app.createProject('Lively');
    await using opened = await openDashboard(app, browser, 'viewer');
    const { page } = opened;
    await visit(app, page, `/${lively.appId}`);
    await page.getByText('No users yet.').waitFor();
    await lively.addUsers({ auth_method: 'email', auth_value: 'first@example.com' });
    await page.getByRole('link', { name: 'first@example.com' }).waitFor();
    const total = page.getByRole('link', { name: /^All users/ });
    await expect.poll(() => total.innerText()).toMatch(/1$/);
    const { id } = (await lively.graphql('{ users { nodes { id } } }')).data.users.nodes[0];
    await lively.graphql(`mutation { deleteUser(id: "${id}") { id } }`);
    await expect.poll(() => total.innerText()).toMatch(/0$/);
    expect(opened.complaints).toEqual([]);
    // What is no longer followed says why.
    const { projects, lifecycle } = app.context.services;
    await lifecycle.disableProject(await projects.getScope(lively.appId), null);
    await page.getByText('This project is disabled').waitFor();
  });

  test.runIf(isNightly)(
    'ask again for what is new only, at most every five seconds, and an open page keeps no session',
    async () => {
      const busy = await app.createProject('Busy');
      await using opened = await openDashboard(app, browser, 'viewer');
      const { page, operator } = opened;
      await visit(app, page, `/${busy.appId}`);
      await page.getByText('No users yet.').waitFor();
      await settle(page);
      const rest = (minutes: number) =>
        app.context.db.pool.query(
          `UPDATE operator_sessions SET last_seen_at = now() - make_interval(mins => $2)
         WHERE operator_id = (SELECT id FROM operators WHERE name = $1)`,
          [operator, minutes],
        );
      await rest(20);
      const asked: string[] = [];
      page.on('request', (request) => {
        const { query } = (request.method() === 'POST' && request.postDataJSON()) || {};
        if (query) asked.push(/query (\w+)/.exec(query)?.[1] ?? '');
      });
      const refreshes = () => asked.filter((name) => name === 'Overview').length;
      const from = performance.now();
      for (let n = 0; refreshes() < 3; n += 1) {
        await busy.addUsers({ auth_method: 'email', auth_value: `${n}@example.com` });
        await page.waitForTimeout(200);
      }
      expect(performance.now() - from).toBeGreaterThan(9_900);
      expect(new Set(asked)).toEqual(new Set(['Overview', 'NewestUsers', 'SignUps']));
      const { rows } = await app.context.db.pool.query(
        `SELECT last_seen_at < now() - interval '15 minutes' AS rests FROM operator_sessions
       WHERE operator_id = (SELECT id FROM operators WHERE name = $1)`,
        [operator],
      );
      expect(rows).toEqual([{ rests: true }]);
      await rest(31);
      await page.getByText('Your session has ended').waitFor();
    },
  );

  test('export what the filter shows, with formulas made harmless', async () => {
    const formulas = await app.createProject('Formulas');
    await formulas.addUsers(
      ...['=1+1', '+1', '-1', '@x'].map((auth_value) => ({ auth_method: 'google', auth_value })),
      { auth_method: 'email', auth_value: 'ada@example.com' },
    );
    await using opened = await openDashboard(app, browser, 'viewer', { acceptDownloads: true });
    const { page } = opened;
    await visit(app, page, `/${formulas.appId}/users?method=SOCIALS`);
    const download = async (format: RegExp) => {
      await page.getByText('Export', { exact: true }).click();
      const [started] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name: format }).click(),
      ]);
      const chunks: Buffer[] = [];
      for await (const chunk of await started.createReadStream()) chunks.push(chunk as Buffer);
      // The menu is closed, and its button has the focus.
      expect(await page.evaluate('document.activeElement.tagName')).toBe('SUMMARY');
      return Buffer.concat(chunks).toString();
    };
    const csv = await download(/CSV/);
    expect(csv.trim().split('\n')).toHaveLength(5);
    expect(csv).not.toMatch(/(^|[,"])[=+@-]/m);
    const ndjson = (await download(/NDJSON/)).trim().split('\n');
    expect(ndjson.map((line) => JSON.parse(line).auth_value).sort()).toEqual(['+1', '-1', '=1+1', '@x']);
  });

  test.runIf(isNightly)('tell how to ask the same by GraphQL, curl and the command', async () => {
    await using opened = await openDashboard(app, browser, 'viewer', {
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    const { page } = opened;
    await visit(app, page, `/${project.appId}/users?method=EMAIL&limit=10`);
    await page.getByRole('button', { name: 'API' }).click();
    const dialog = page.getByRole('dialog');
    const [operation = '', variables = ''] = await dialog.locator('pre').allInnerTexts();
    const { data } = await project.graphql(operation, JSON.parse(variables));
    expect([data.users.totalCount, data.users.nodes.length]).toEqual([20, 10]);
    await page.getByRole('button', { name: 'Copy the curl version' }).click();
    const copied = (await page.evaluate('navigator.clipboard.readText()')) as string;
    const path = /'(http[^']*)'/.exec(copied)?.[1]?.replace(app.url, '') ?? '';
    expect((await project.rest(path)).body.result.total_user).toBe(20);
    const command = `userdir user list --project ${project.appId} --login-methods email --limit 10`;
    expect(await dialog.locator('pre').last().innerText()).toBe(command);
  });

  test('say where else to look when a search or a filter finds nothing', async () => {
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    await visit(app, page, `/${project.appId}/users?q=0x1234`);
    await page.getByRole('link', { name: 'Look inside of emails and IDs' }).click();
    await page.getByText('All users were looked at: 0 users found.').waitFor();
    await visit(app, page, `/${project.appId}/users?q=er42@`);
    await page.getByRole('link', { name: 'Look inside of emails and IDs' }).click();
    await page.getByRole('link', { name: 'user42@example.com' }).waitFor();
    await visit(app, page, `/${project.appId}/users?q=0x1234`);
    await page.getByRole('link', { name: 'Look among removed users' }).click();
    await page.getByText('No removed user has this ID').waitFor();
    await page.getByRole('main').getByRole('link', { name: 'Show all users' }).click();
    await page.getByText('60 users', { exact: true }).waitFor();
    await visit(app, page, `/${project.appId}/users?start=2026-02-01&end=2026-01-01`);
    await page.getByText('The first day is after the last day.').waitFor();
  });

  test('find users by the beginning of an email or an ID while one types, and say when there are more', async () => {
    await using opened = await openDashboard(app, browser, 'viewer');
    const { page } = opened;
    await visit(app, page, `/${project.appId}/users`);
    await page.getByRole('combobox', { name: /^Search/ }).pressSequentially('user4');
    // user42@…, user45@… and user48@…, but not the user with the ID 4.
    await page.getByText('3 users found', { exact: true }).waitFor();
    expect(await page.getByRole('table').getByRole('link').allInnerTexts()).toEqual(
      [42, 45, 48].map((n) => `user${n}@example.com`),
    );
    await page.getByRole('combobox', { name: /^Search/ }).fill('value-5');
    await page.getByText('8 users found', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'API' }).click();
    const [operation = '', variables = ''] = await page.getByRole('dialog').locator('pre').allInnerTexts();
    const { data } = await project.graphql(operation, JSON.parse(variables));
    expect([data.usersByPrefix.users.length, data.usersByPrefix.hasMore]).toEqual([8, false]);
    const crowd = await app.createProject('Crowd');
    await crowd.addUsers(
      ...Array.from({ length: 51 }, (_, n) => ({ auth_method: 'google', auth_value: `g${n}`, external_id: `c-${n}` })),
    );
    await visit(app, page, `/${crowd.appId}/users?q=c-`);
    await page.getByText('50 users found, and there may be more').waitFor();
    expect(opened.complaints).toEqual([]);
  });

  test('are reached from the search box: other screens, projects and users, by keyboard and by a click', async () => {
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    const box = page.getByRole('combobox', { name: /^Search/ });
    const targets = async () =>
      (await page.getByRole('listbox', { name: 'Go to' }).getByRole('option').allInnerTexts()).map((text) =>
        text.replace(/\s+/g, ' '),
      );
    const heading = (name: string) => page.getByRole('heading', { level: 1, name }).waitFor();
    await visit(app, page, `/${project.appId}/audit`);
    await page.keyboard.press('/');
    await expect.poll(async () => (await targets()).slice(0, 2)).toEqual(['Overview screen', 'Users screen']);
    expect(await findFaults(page)).toEqual([]);
    await page.keyboard.type('s');
    await expect.poll(async () => (await targets())[0]).toBe('Secrets screen');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await heading('Secrets');
    expect(await box.inputValue()).toBe('');
    await expect.poll(targets).toEqual([]);

    await box.fill('user42@');
    await expect.poll(targets).toHaveLength(1);
    expect((await targets())[0]).toMatch(/^user42@example\.com user \d+$/);
    await page.getByRole('option').click();
    await heading('user42@example.com');

    // On its own list, users are in the table.
    await visit(app, page, `/${project.appId}/users`);
    await box.fill(project.appId);
    await expect.poll(targets).toHaveLength(1);
    expect((await targets())[0]).toMatch(/ project$/);
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('Enter');
    await page.getByText(`App ID ${project.appId}`).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.press('Escape');
    await expect.poll(targets).toEqual([]);
    expect(opened.complaints).toEqual([]);
  });

  test('select a range of rows with Shift, and the rows stay where they are', async () => {
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    await visit(app, page, `/${project.appId}/users?limit=50`);
    const boxes = page.getByRole('row').getByRole('checkbox');
    const before = await boxes.nth(2).boundingBox();
    await boxes.nth(2).click();
    expect(await boxes.nth(2).boundingBox()).toEqual(before);
    await boxes.nth(6).click({ modifiers: ['Shift'] });
    await page.getByText('5 users selected').waitFor();
    await boxes.nth(3).click();
    await page.getByText('4 users selected').waitFor();
    await chooseAction(page, 'Ban…');
    await page.getByRole('dialog').getByText('The same with GraphQL, curl, userdir').click();
    // GraphQL bans all at once, the command each by a line.
    expect((await page.getByRole('dialog').locator('pre').last().innerText()).split('\n')).toHaveLength(4);
  });

  test('say what to do when the service does not answer, and go on when it answers again', async () => {
    await using opened = await openDashboard(app, browser, 'viewer');
    const { page } = opened;
    await visit(app, page, `/${project.appId}/users`);
    await page.route('**/dashboard/graphql', (route) => route.abort());
    await page.getByRole('link', { name: 'Secrets' }).click();
    await expect.poll(() => page.getByRole('alert').first().innerText()).toMatch(/does not answer/);
    await page.unroute('**/dashboard/graphql');
    await page.getByRole('table', { name: 'Secrets' }).waitFor();
    // One who opens the page in the meantime is not asked to sign in anew.
    await page.route('**/dashboard/graphql', (route) => route.abort());
    await page.reload();
    await expect.poll(() => page.getByRole('alert').first().innerText()).toMatch(/goes on by itself/);
    expect(await page.getByRole('heading', { name: /Sign in/ }).count()).toBe(0);
    await page.unroute('**/dashboard/graphql');
    await page.getByRole('table', { name: 'Secrets' }).waitFor();
  });
});
