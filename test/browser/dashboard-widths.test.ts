import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { parseIdentity } from '#dist/domain/identities.js';
import { THE_OPERATOR } from '#dist/domain/operators.js';
import { snakeCase } from '#dist/domain/spelling.js';
import { stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { findFaults, hasBrowser, useBrowser } from '../support/browser.js';
import { chooseAction, type DashboardPage, openDashboard, settle, visit } from '../support/dashboard-page.js';
import { isNightly } from '../support/nightly.js';

/** What lies outside of what can be seen without scrolling to the side, also in menus and folded filters, and disabled buttons that are hard to read, a line each. Evaluated in the page. */
const OUTSIDE = `(async () => {
  const name = (element) => element.tagName + ' "' + (element.innerText || element.ariaLabel || element.name || '').slice(0, 40) + '"';
  const faults = [];
  const dialog = document.querySelector('dialog[open]');
  const luminance = (colour) => {
    const [red, green, blue] = colour.match(/[0-9.]+/g).map((part) => ((part / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  function look() {
    const wide = document.documentElement.scrollWidth - innerWidth;
    if (wide > 0) faults.push('the page is ' + wide + ' pixels too wide');
    for (const table of (dialog ?? document).querySelectorAll('.table'))
      if (table.scrollWidth > table.clientWidth + 1) faults.push(table.ariaLabel + ' is ' + (table.scrollWidth - table.clientWidth) + ' pixels too wide');
    // The frame of the page has rules of its own: a class of it on a cell takes the cell out of its row.
    for (const cell of (dialog ?? document).querySelectorAll('tr > *')) {
      const { display, position } = getComputedStyle(cell);
      const isCell = getComputedStyle(cell.parentElement).display !== 'table-row' || display === 'table-cell' || display === 'none';
      if (!isCell || !['static', 'relative'].includes(position) && !cell.closest('.hidden'))
        faults.push('the cell ' + name(cell) + ' is ' + display + ' and ' + position);
    }
    // A title stands above its cells.
    for (const table of (dialog ?? document).querySelectorAll('table:has(thead:not(.hidden))')) {
      const [titles, cells] = ['thead tr', 'tbody tr'].map((row) => [...(table.querySelector(row)?.children ?? [])]);
      for (const [place, title] of titles.entries())
        if (cells[place] && getComputedStyle(title).display === 'table-cell' && getComputedStyle(cells[place]).display === 'table-cell')
          for (const side of ['paddingLeft', 'paddingRight'])
            if (getComputedStyle(title)[side] !== getComputedStyle(cells[place])[side])
              faults.push('the title ' + name(title) + ' does not stand above its cells');
    }
    // A name of usual length is shown whole.
    for (const user of document.querySelectorAll('.user-name a'))
      if (user.innerText.length <= 44 && (user.scrollWidth > user.clientWidth + 1 || user.scrollHeight > user.clientHeight + 1))
        faults.push('the user ' + name(user) + ' is cut off');
    for (const cell of document.querySelectorAll('td[data-title="Who"]'))
      if (cell.scrollWidth > cell.clientWidth) faults.push(cell.innerText + ' is cut off');
    for (const action of (dialog ?? document).querySelectorAll('a[href], button, input, select, summary, textarea')) {
      if (!action.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || action.closest('.skip, .hidden')) continue;
      const { left, right } = action.getBoundingClientRect();
      const box = { left: 0, right: innerWidth };
      for (let parent = action.parentElement; parent; parent = parent.parentElement) {
        if (getComputedStyle(parent).overflowX === 'visible') continue;
        const around = parent.getBoundingClientRect();
        box.left = Math.max(box.left, around.left);
        box.right = Math.min(box.right, around.right);
      }
      // Text that ends with an ellipsis is cut off on purpose, and its link begins where it can be seen.
      if (left < box.left - 1 || (action.matches('a') ? left : right) > box.right + 1)
        faults.push(name(action) + ' from ' + Math.round(left) + ' to ' + Math.round(right) + ' in ' + Math.round(box.left) + ' to ' + Math.round(box.right));
      const { color, backgroundColor } = getComputedStyle(action);
      const [dark, light] = [luminance(color), luminance(backgroundColor)].sort((one, other) => one - other);
      if (action.disabled && light / dark < 4.5) faults.push(name(action) + ' is disabled, with a contrast of ' + light / dark);
    }
  }
  look();
  const fold = dialog ? null : document.querySelector('.fold');
  if (fold?.checkVisibility()) fold.click();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  for (const menu of (dialog ?? document).querySelectorAll('details.menu')) {
    menu.open = true;
    look();
    menu.open = false;
  }
  if (fold?.ariaExpanded === 'true') fold.click();
  return [...new Set(faults)];
})()`;

const WIDTHS = isNightly ? [1440, 1240, 1024, 768, 480, 390] : [390];
/** Where axe looks, too. */
const COLOURS: Readonly<Record<number, 'light' | 'dark'>> = isNightly
  ? { 1440: 'light', 390: 'dark' }
  : { 390: 'dark' };
const LONG = 'a-name-as-long-as-it-may-be-for-an-operator-of-this-service-2026';

describe.skipIf(!hasBrowser)('at each width, no screen of the dashboard hides an action at its side', () => {
  const app = useTestApp();
  let project: TestProject;
  const browser = useBrowser();
  let opened: DashboardPage;
  let userId: string;
  let webhookId: string;
  beforeAll(async () => {
    project = await app.createProject('A project with a name that is about as long as people give them to projects');
    await project.addUsers(
      ...Array.from({ length: 30 }, (_, index) => ({
        auth_method: index % 2 === 0 ? 'email' : 'google',
        auth_value:
          index % 2 === 0
            ? `a-person-with-a-long-name-${index}@a-company-with-a-long-name.example.com`
            : `1122334455667788990${index}`,
        external_id: `external-${'0123456789'.repeat(5)}-${index}`,
        created_at: '2026-01-02',
        accounts: [{ network: 'stellar', public_key: stellarAddress(index) }],
      })),
      {
        auth_method: 'email',
        auth_value: 'ada.lovelace.analytical@engines.example.com',
        external_id: `external-${'0123456789'.repeat(5)}`,
        created_at: '2026-01-03',
        accounts: [{ network: 'stellar', public_key: stellarAddress(99) }],
      },
      ...['x', 'y'].map((auth_value) => ({ auth_method: 'github', auth_value, created_at: '2020-01-01' })),
    );
    const { nodes } = (await project.graphql('{ users(first: 1) { nodes { id } } }')).data.users;
    userId = nodes[0].id;
    for (const { id } of (await project.graphql('{ users(last: 2) { nodes { id } } }')).data.users.nodes)
      await project.rest(`/server/users/${id}`, { method: 'DELETE' });
    const { services, db } = app.context;
    const scope = await services.projects.getScope(project.appId);
    for (const name of ['short@example.com', `ban-${'x'.repeat(60)}@example.com`])
      await services.bans.ban(scope, parseIdentity({ authMethod: 'email', authValue: name }, snakeCase));
    for (const label of ['backend', 'a-label-that-is-as-long-as-labels-of-secrets-are'])
      await services.secrets.addSecret(scope, { label, scopes: ['read', 'write', 'verify'], expiresInMs: null });
    const url = `https://hooks.example.com/${'a-long-path/'.repeat(8)}`;
    webhookId = String((await services.webhooks.addWebhook(scope, { url, description: '', types: null })).id);
    await services.operators.addOperator(THE_OPERATOR, LONG, 'support', { appIds: [project.appId] });
    const agent =
      'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36 and so on';
    const { token } = await services.operators.createLink(THE_OPERATOR, LONG);
    await services.operators.logIn(token, { userAgent: agent, requestId: null });
    await db.pool.query(
      `INSERT INTO operator_passkeys (operator_id, name, host, credential_id, public_key, counter)
       SELECT id, 'A key with a name that is as long as the names of keys may be 64', 'users.a-company-with-a-long-name.example.com', sha256('a'), 'a', 0
       FROM operators WHERE name = $1`,
      [LONG],
    );
    opened = await openDashboard(app, browser, 'admin', { viewport: { width: 1440, height: 800 } });
  });

  // In a path, PROJECT, USER and WEBHOOK are IDs.
  const SCREENS = [
    '',
    '/PROJECT',
    '/PROJECT/users',
    '/PROJECT/users?q=nobody@example.com',
    '/PROJECT/users?removed=1',
    '/PROJECT/users/USER',
    '/PROJECT/secrets',
    '/PROJECT/bans',
    '/PROJECT/webhooks',
    '/PROJECT/webhooks/WEBHOOK',
    '/PROJECT/audit',
    '/PROJECT/settings',
    '/operators',
    '/sessions',
    '/passkeys',
    '/status',
    '/PROJECT/users/999999',
    '/app_unknown/users',
  ];
  const DIALOGS: [path: string, button: string][] = [
    ['', 'Create project'],
    ['/PROJECT', 'API'],
    ['/PROJECT/users', 'Import'],
    ...['Edit…', 'Ban…', 'Remove…', 'Merge…', 'Link…', 'Unlink…', 'Edit… metadata'].map((button): [string, string] => [
      '/PROJECT/users/USER',
      button,
    ]),
    ['/PROJECT/secrets', 'Add secret'],
    ['/PROJECT/secrets', 'Rotate…'],
    ['/PROJECT/secrets', 'Revoke…'],
    ['/PROJECT/bans', 'Ban an identity'],
    ['/PROJECT/bans', 'Change…'],
    ['/PROJECT/bans', 'Unban…'],
    ['/PROJECT/webhooks', 'Add webhook'],
    ...['Test…', 'Edit…', 'Pause…', 'Replay…', 'Rotate…', 'Remove…'].map((button): [string, string] => [
      '/PROJECT/webhooks/WEBHOOK',
      button,
    ]),
    ...['Rename…', 'Change the limit…', 'Disable the project…', 'Delete the project…'].map(
      (button): [string, string] => ['/PROJECT/settings', button],
    ),
    ['/operators', 'Add operator'],
    ['/operators', 'Edit…'],
    ['/operators', 'Sign-in link…'],
    ['/operators', 'Remove…'],
  ];
  const open = (path: string) =>
    visit(
      app,
      opened.page,
      path.replace('PROJECT', project.appId).replace('USER', userId).replace('WEBHOOK', webhookId),
    );

  /** Looks at what is open at each width, one after the other: a page that was loaded adapts. */
  async function look(page: Page, name: string): Promise<string[]> {
    const faults: string[] = [];
    for (const width of WIDTHS) {
      const colorScheme = COLOURS[width] ?? 'light';
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      // Charts adapt a frame later.
      await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
      const found = (await page.evaluate(OUTSIDE)) as string[];
      if (COLOURS[width]) found.push(...(await findFaults(page)));
      for (const fault of found) faults.push(`${width} ${name}: ${fault}`);
      const folder = process.env['SCREENS_FOLDER'];
      const file = `${width}_${name.replace(/[^\w]+/g, '_')}.png`;
      if (folder) await page.screenshot({ path: `${folder}/${file}`, fullPage: true });
    }
    await page.setViewportSize({ width: 1440, height: 800 });
    return faults;
  }

  test.each(SCREENS)('the screen "%s"', async (path) => {
    await open(path).catch(() => settle(opened.page));
    expect(await look(opened.page, path)).toEqual([]);
  });

  /** All dialogs are made of the same parts, so some of them stand for the others; `npm run nightly` opens each. */
  const opens = ([, button]: readonly [string, string], place: number) =>
    isNightly || place % 3 === 0 || ['Import', 'Add operator'].includes(button);

  test.each(DIALOGS.filter(opens))('on "%s", the dialog "%s"', async (path, button) => {
    const { page } = opened;
    await open(path);
    await chooseAction(page, button);
    await page.getByRole('dialog').waitFor();
    expect(await look(page, `${path} ${button}`)).toEqual([]);
    if (button === 'Import') await lookAtImport(page);
    if (button !== 'Add operator') return;
    await page.getByRole('dialog').getByLabel('only some').check();
    await page.getByRole('checkbox', { name: project.appId }).waitFor();
    expect(await look(page, 'the choice of projects')).toEqual([]);
  });

  /** The two further states of the dialog: what a look has found, and what became of each line. */
  async function lookAtImport(page: Page) {
    const dialog = page.getByRole('dialog');
    const lines = Array.from({ length: 12 }, (_, index) => ({
      user_id: `auth0|${index}`,
      email: index === 3 ? 'no email' : `moved-person-${index}@a-company-with-a-long-name.example.com`,
      email_verified: index % 3 !== 1,
      nickname: 'x'.repeat(index * 9),
    }));
    const text = lines.map((line) => JSON.stringify(line)).join('\n');
    await dialog
      .getByLabel('File')
      .setInputFiles({ name: 'export.json', mimeType: 'application/json', buffer: Buffer.from(text) });
    await dialog.getByLabel('From').selectOption('Auth0');
    await dialog.getByRole('button', { name: 'Look into the file' }).click();
    await dialog.getByRole('table', { name: 'How they log in' }).waitFor();
    // The table of users has a column for each field of a line, and scrolls in the dialog.
    const faults = (await look(page, 'the look of an import')).filter((fault) => !fault.includes('The first users'));
    expect(faults).toEqual([]);
    await dialog.getByLabel('Skip it').check();
    await dialog.getByRole('button', { name: /^Skip 1 line, import/ }).click();
    await dialog.getByText('Import finished').waitFor();
    expect(await look(page, 'the report of an import')).toEqual([]);
  }

  test('none of them asked another machine, or complained', () => {
    expect([opened.strangers(), opened.complaints]).toEqual([[], []]);
  });

  test('the sign-in', async () => {
    const page = await browser.newPage();
    await page.goto(`${app.url}/dashboard`);
    await page.getByRole('heading', { name: 'Sign in to userdir' }).waitFor();
    expect(await look(page, 'sign-in')).toEqual([]);
    await page.close();
  });
});
