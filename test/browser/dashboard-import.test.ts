import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { IMPORT_FIELDS } from '#dist/domain/import-format.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { findFaults, hasBrowser, launchBrowser } from '../support/browser.js';
import { openDashboard, visit } from '../support/dashboard-page.js';

const until = (read: () => Promise<unknown>) => expect.poll(read, { timeout: 30_000 });

/** CSV becomes what an import takes. These tests need Chromium. */
describe.skipIf(!hasBrowser)('the import of CSV', () => {
  const app = useTestApp();
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchBrowser();
  });
  afterAll(() => browser?.close());

  const button = (where: Page | Locator, name: string) => where.getByRole('button', { name, exact: true });
  const csv = (text: string, name = 'users.csv') => ({ name, mimeType: 'text/csv', buffer: Buffer.from(text) });
  const total = async (project: TestProject) => (await project.graphql('{ userCount }')).data?.userCount;

  async function openImport(page: Page, { appId }: TestProject): Promise<Locator> {
    await visit(app, page, `/${appId}/users`);
    await button(page, 'Import').click();
    return page.getByRole('dialog');
  }

  test('shows the first rows, asks what columns become, and reports the lines of the file', async () => {
    const project = await app.createProject('Mapped');
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    const dialog = await openImport(page, project);
    const says = dialog.locator('.csv [role="status"]');
    const rows = ['ada@example.com;7;"two\nlines"', 'eve@example.com;many;', '"bob"@example.com;1;', 'no email;1;'];
    const more = Array.from({ length: 4 }, (_, index) => `user${index}@example.com;;x`);
    // Known by what it begins with, not by its name.
    const text = `Address;Login Count; notes \n${[...rows, ...more].join('\n')}\n`;
    await dialog.getByLabel('File').setInputFiles(csv(text, 'users.txt'));

    expect(await dialog.getByLabel('Delimiter').inputValue()).toBe(';');
    const table = dialog.getByRole('table', { name: 'The first rows' });
    expect(await table.getByRole('row').count()).toBe(6);
    expect(await table.getByRole('row').nth(1).innerText()).toMatch(/^ada@example\.com\s+7\s+two lines$/);
    const imported = (title: string) => dialog.getByLabel(`${title} imported as`);
    expect(await imported('Login Count').inputValue()).toBe('login_count');
    expect(await imported('notes').inputValue()).toBe('');
    expect(await imported('notes').locator('option').allInnerTexts()).toEqual([
      'not imported',
      ...IMPORT_FIELDS.map(({ name }) => name),
    ]);

    await until(() => says.innerText()).toMatch(/as auth_method.*No column is imported as auth_value/);
    expect(await button(dialog, 'Import').isDisabled()).toBe(true);
    await imported('Address').selectOption('auth_value');
    await imported('notes').selectOption('login_count');
    await until(() => says.innerText()).toMatch(/as auth_method.*2 columns are imported as login_count/);
    await imported('notes').selectOption('not imported');
    await dialog.getByLabel('auth_method of all users').fill('email');
    await until(() => says.count()).toBe(0);

    await button(dialog, 'Import').click();
    await dialog.getByText('Nothing was imported').waitFor();
    const faults = dialog.getByRole('table', { name: 'Lines that failed' }).getByRole('row');
    expect(await faults.allInnerTexts()).toEqual([
      expect.stringMatching(/^Line/),
      expect.stringMatching(/^4\s+login_count: got "many", expected a whole number/),
      expect.stringMatching(/^5\s+The quotes of this line are wrong/),
      expect.stringMatching(/^6\s+auth_value: got "no email", expected an email address/),
    ]);
    await button(dialog, 'Skip these lines, import the rest').click();
    await dialog.getByText('Import finished').waitFor();
    expect(await dialog.locator('dd').allInnerTexts()).toEqual(['5', '0', '3']);
    expect(await total(project)).toBe(5);

    // To skip lines was for that file.
    await button(dialog, 'Import another file').click();
    expect(await dialog.getByLabel('Import nothing').isChecked()).toBe(true);
    // The email is what one logs in with, if nothing else is. The report says what became of whom.
    await dialog.getByLabel('File').setInputFiles(csv('E-Mail;login_count\nuser0@example.com;7\nnew@example.com;1\n'));
    expect(await imported('E-Mail').inputValue()).toBe('auth_value');
    await dialog.getByLabel('auth_method of all users').fill('email');
    await dialog.getByLabel('A user who exists already').selectOption('update');
    await button(dialog, 'Import').click();
    await dialog.getByText('Import finished').waitFor();
    expect(await dialog.locator('dl').innerText()).toMatch(/created\s+1\s+updated\s+1\s+skipped\s+0\s+failed\s+0/i);

    // Another delimiter makes other columns, and a file that cannot be read says why.
    await button(dialog, 'Import another file').click();
    await dialog.getByLabel('File').setInputFiles(csv('auth_method;auth_value\nemail;x@example.com\n'));
    await dialog.getByLabel('Delimiter').selectOption('Comma');
    await imported('auth_method;auth_value').waitFor();
    const latin1 = { ...csv(''), buffer: Buffer.from('auth_value\nZoë\n', 'latin1') };
    await dialog.getByLabel('File').setInputFiles(latin1);
    await dialog.getByRole('alert').getByText('The file is not text in UTF-8').waitFor();
    expect(await button(dialog, 'Import').isDisabled()).toBe(true);
    expect(await table.count()).toBe(0);
    expect(opened.complaints).toEqual([]);
  });

  test('loses no user of a file without titles, and asks where it cannot tell', async () => {
    const project = await app.createProject('Untitled');
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    const dialog = await openImport(page, project);
    const firstLine = dialog.getByLabel('The first line');
    const rows = dialog.getByRole('table', { name: 'The first rows' }).getByRole('row');
    await dialog.getByLabel('File').setInputFiles(csv('ada@example.com,3\neve@example.com,4\n,\n'));
    await until(() => firstLine.inputValue()).toBe('user');
    expect(await rows.nth(1).innerText()).toMatch(/^ada@example\.com\s+3$/);
    await dialog.getByLabel('Column 1 imported as').selectOption('auth_value');
    await dialog.getByLabel('Column 2 imported as').selectOption('login_count');
    await dialog.getByLabel('auth_method of all users').fill('email');
    await button(dialog, 'Import').click();
    await dialog.getByText('Import finished').waitFor();
    expect(await total(project)).toBe(2);

    await button(dialog, 'Import another file').click();
    await dialog.getByLabel('File').setInputFiles(csv('abc,1\nabd,2\n'));
    await dialog.getByText('Say whether the first line names the columns.').waitFor();
    expect(await rows.count()).toBe(3);
    await firstLine.selectOption('titles');
    await until(() => rows.count()).toBe(2);
    await dialog.getByText('Say whether the first line names the columns.').waitFor({ state: 'hidden' });
    expect(opened.complaints).toEqual([]);
  });

  test('shows what replaces logins, and counts the bans that it leaves out', async () => {
    const project = await app.createProject('Counted');
    await project.addUsers({ auth_method: 'email', auth_value: 'ada@example.com', login_count: 5 });
    const lines = [
      { auth_method: 'email', auth_value: 'ada@example.com', login_count: 4 },
      { ban: { auth_method: 'email', auth_value: 'eve@example.com' } },
      { ban: { auth_method: 'email', auth_value: 'EVE@example.com' } },
      { ban: { auth_method: 'email', auth_value: 'old@example.com', expires_at: '2026-01-01' } },
    ];
    const file = { ...csv(lines.map((line) => JSON.stringify(line)).join('\n'), 'users.ndjson') };
    await using opened = await openDashboard(app, browser, 'admin');
    const dialog = await openImport(opened.page, project);
    await dialog.getByLabel('File').setInputFiles(file);
    await dialog.getByLabel('A user who exists already').selectOption('replace');
    await button(dialog, 'Import').click();
    await dialog.getByText('Import finished').waitFor();
    const facts = async (role: string) => dialog.locator(role).allInnerTexts();
    expect([await facts('dt'), await facts('dd')]).toEqual([
      ['Created', 'Updated', 'Skipped', 'Bans', 'Banned already', 'Bans that have ended', 'Failed'],
      ['0', '1', '0', '1', '1', '1', '0'],
    ]);
    const { data } = await project.graphql('{ userPage { users { loginCount } } }');
    expect(data.userPage.users).toEqual([{ loginCount: 4 }]);
  });

  test('is stopped by Stop, and by going back', async () => {
    const project = await app.createProject('Stopped');
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    let ended = 0;
    page.on('requestfailed', (request) => {
      ended += Number(request.url().includes('/import?'));
    });
    // The service never gets the file.
    await page.route('**/import?*', () => undefined);
    const dialog = await openImport(page, project);
    const rows = Array.from({ length: 20_000 }, (_, index) => `${index}@example.com\n`);
    await dialog.getByLabel('File').setInputFiles(csv(`auth_value\n${rows.join('')}`));
    await dialog.getByLabel('auth_method of all users').fill('email');
    const send = () => Promise.all([page.waitForRequest(/\/import\?/), button(dialog, 'Import').click()]);
    await send();
    await button(dialog, 'Stop').click();
    await dialog.getByRole('alert').getByText('You stopped the import').waitFor();
    await until(async () => ended).toBe(1);
    await send();
    await page.evaluate('history.back()');
    await until(async () => ended).toBe(2);
    expect(await dialog.count()).toBe(0);
    expect(await total(project)).toBe(0);
  });

  test.each([
    ['light', 1280],
    ['dark', 390],
  ] as const)('has nothing that axe finds, and fits, in %s at %d', async (colorScheme, width) => {
    const project = await app.createProject();
    await using opened = await openDashboard(app, browser, 'admin', { colorScheme, viewport: { width, height: 900 } });
    const { page } = opened;
    const dialog = await openImport(page, project);
    const titles = ['auth_value', 'x'.repeat(300), '', ...Array.from({ length: 20 }, (_, index) => `Column ${index}`)];
    const row = titles.map((_, index) => `${'y'.repeat(index * 20)}`).join(',');
    await dialog.getByLabel('File').setInputFiles(csv(`${titles.join(',')}\n${`${row}\n`.repeat(9)}`));
    await dialog.getByLabel('auth_method of all users').waitFor();
    expect(await findFaults(page)).toEqual([]);
    for (const box of ['document.documentElement', "document.querySelector('dialog')"])
      expect(await page.evaluate(`${box}.scrollWidth - ${box}.clientWidth`)).toBe(0);
  });
});
