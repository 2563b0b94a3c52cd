import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { findFaults, hasBrowser, useBrowser } from '../support/browser.js';
import { openDashboard, visit } from '../support/dashboard-page.js';
import { isNightly } from '../support/nightly.js';
import { SAMPLES } from '../support/samples.js';

/** These tests need Chromium. */
describe.skipIf(!hasBrowser)('the dialog of an import', () => {
  const app = useTestApp();
  const browser = useBrowser();

  const button = (where: Page | Locator, name: string | RegExp) => where.getByRole('button', { name, exact: true });
  const csv = (text: string, name = 'users.csv') => ({ name, mimeType: 'text/csv', buffer: Buffer.from(text) });
  const total = async (project: TestProject) => (await project.graphql('{ userCount }')).data?.userCount;

  async function openImport(page: Page, { appId }: TestProject): Promise<Locator> {
    await visit(app, page, `/${appId}/users`);
    await button(page, 'Import').click();
    return page.getByRole('dialog');
  }

  const sample = (name: string) => join(SAMPLES, name);
  const facts = async (dialog: Locator) => {
    const [names, counts] = [await dialog.locator('dt').allInnerTexts(), await dialog.locator('dd').allInnerTexts()];
    return Object.fromEntries(names.map((name, place) => [name.toLowerCase(), counts[place]]));
  };
  const counts = async (dialog: Locator, table: string) =>
    Object.fromEntries(
      (await dialog.getByRole('table', { name: table }).getByRole('row').allInnerTexts())
        .slice(1)
        .map((row) => row.split(/\s*\t\s*/))
        .map(([name, ...rest]) => [name, Number(rest.at(-1))]),
    );

  test('looks into files of another system, imports them with a report, and takes the import back', async () => {
    const project = await app.createProject('Moved');
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    const dialog = await openImport(page, project);
    // The last one has the wallet of another.
    const text = readFileSync(sample('auth0/export.ndjson'), 'utf8').trim().split('\n').slice(0, -1).join('\n');
    const different = { ...csv(text, 'export.ndjson'), mimeType: '' };
    await dialog.getByLabel('File').setInputFiles(different);
    await dialog.getByLabel('From').selectOption('Auth0');
    await button(dialog, 'Look into the file').click();
    await button(dialog, 'Import 17 people').waitFor();
    expect(await facts(dialog)).toEqual({ people: '17', blocked: '1', 'without email': '6', 'wrong lines': '0' });
    expect(await counts(dialog, 'How they log in')).toMatchObject({
      email: 9,
      google: 3,
      auth0: 2,
      wallet: 1,
      acme: 1,
    });
    expect(await counts(dialog, 'Kept in another way')).toMatchObject({ 'unverified emails, kept as metadata': 2 });
    expect(await counts(dialog, 'Not kept')).toMatchObject({ nickname: 17, last_ip: 16 });
    expect(await dialog.getByRole('table', { name: 'The first users' }).getByRole('row').count()).toBe(11);
    await dialog.getByText('NDJSON in UTF-8. Dates that say no time zone are read in UTC.').waitFor();
    expect(await total(project)).toBe(0);

    // What is changed is looked at again, before it is imported.
    await dialog.getByText('How the files are read').click();
    await dialog.getByLabel('Are trusted, as logins').check();
    await dialog.getByLabel('Time zone').fill('Nowhere');
    await button(dialog, 'Look again').click();
    await dialog.getByText(/Time zone of dates must be a time zone/).waitFor();
    await dialog.getByLabel('Time zone').fill('Europe/Berlin');
    await button(dialog, 'Look again').click();
    await button(dialog, 'Import 17 people').waitFor();
    await dialog.getByText('are read in Europe/Berlin').waitFor();
    expect(await counts(dialog, 'Kept in another way')).not.toHaveProperty('unverified emails, kept as metadata');
    await dialog.getByText('The same with').click();
    expect(await dialog.locator('pre').innerText()).toBe(
      `userdir user import --project ${project.appId} export.ndjson --from auth0 --time-zone Europe/Berlin --trust-unverified`,
    );

    await button(dialog, 'Import 17 people').click();
    await dialog.getByText('Import finished').waitFor();
    expect(await facts(dialog)).toMatchObject({ created: '17', bans: '1', failed: '0' });
    expect(await total(project)).toBe(17);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      dialog.getByRole('link', { name: 'Download the report' }).click(),
    ]);
    const [head, ...lines] = readFileSync(await download.path(), 'utf8')
      .trim()
      .split('\r\n');
    expect(head).toBe('line,source_id,user_id,outcome,error');
    expect(lines).toHaveLength(17);
    expect(lines[0]).toMatch(/^1,"auth0\|564dbdd766fe0b3cb4ab4933",\d+,created,$/);

    const { data } = await project.graphql('{ userPage(limit: 1) { users { authMethod authValue } } }');
    const [user] = data.userPage.users;
    const identity = `authMethod: ${JSON.stringify(user.authMethod)}, authValue: ${JSON.stringify(user.authValue)}`;
    await project.graphql(`mutation { recordLogin(input: { ${identity} }) { created } }`);
    await button(dialog, 'Undo this import').click();
    await button(dialog.last(), 'Remove its users').click();
    await page.getByText('16 users removed. 1 user of the import stays.').waitFor();
    await expect.poll(() => dialog.count()).toBe(0);
    expect(await total(project)).toBe(1);
    // An older import is taken back where it is recorded.
    await visit(app, page, `/${project.appId}/audit?action=import`);
    await button(page, /^Undo import \d+$/).click();
    await button(dialog, 'Remove its users').click();
    await page.getByText('0 users removed. 0 users of the import stay.').waitFor();
    // The refusal of the time zone.
    expect(opened.complaints).toEqual([expect.stringContaining('status of 400')]);
  });

  test.runIf(isNightly)('imports a sample of each system', async () => {
    await using opened = await openDashboard(app, browser, 'admin');
    for (const system of readdirSync(sample('.')).filter((name) => name !== 'csv')) {
      const project = await app.createProject(system);
      const [expected = ''] = readdirSync(sample(system)).filter((name) => name.endsWith('.expected.json'));
      const { lines } = JSON.parse(readFileSync(join(sample(system), expected), 'utf8'));
      const files = expected.replace('.expected.json', '').split('+');
      const dialog = await openImport(opened.page, project);
      await dialog.getByLabel('File').setInputFiles(files.map((file) => join(sample(system), file)));
      await dialog.getByLabel('From').selectOption(system);
      await button(dialog, /^Look into the files?$/).click();
      await dialog.getByLabel('Skip it').check();
      await button(dialog, /^(Skip .+, i|I)mport \d+ (people|person)$/).click();
      await dialog.getByText('Import finished').waitFor();
      const { created, failed } = await facts(dialog);
      expect(Number(created) + Number(failed), system).toBe(lines.filter((line: Json) => !('ban' in line)).length);
      expect(await total(project), system).toBe(Number(created));
    }
    expect(opened.complaints).toEqual([]);
  });

  test('says of a file that it is from another system, and skips its wrong lines where that is chosen', async () => {
    const project = await app.createProject('Chosen');
    await using opened = await openDashboard(app, browser, 'admin');
    const dialog = await openImport(opened.page, project);
    const record = (id: string, email: string) => ({
      user_id: id,
      email,
      email_verified: true,
      created_at: '2026-01-01',
    });
    const records = [
      record('auth0|1', 'a@example.com'),
      record('auth0|2', 'no email'),
      record('auth0|3', 'A@example.com'),
    ];
    const file = { ...csv(records.map((line) => JSON.stringify(line)).join('\n'), 'export.json') };
    await dialog.getByLabel('File').setInputFiles(file);
    await dialog.getByLabel('From').selectOption('Keycloak');
    await button(dialog, 'Look into the file').click();
    await dialog.getByText('is the file from another system?').waitFor();
    await dialog.getByLabel('From').selectOption('Auth0');
    await button(dialog, 'Look into the file').click();
    const faults = dialog.getByRole('table', { name: 'Lines that failed' }).getByRole('row');
    await expect
      .poll(async () => (await faults.allInnerTexts()).slice(1))
      .toEqual([
        expect.stringMatching(/^2\s+auth_value: got "no email", expected an email address/),
        expect.stringMatching(/^3\s+Line 1 has the same auth_method and auth_value/),
      ]);
    await dialog.getByLabel('Skip it').check();
    await button(dialog, 'Skip 2 lines, import 1 person').click();
    await dialog.getByText('Import finished').waitFor();
    expect(await facts(dialog)).toEqual({ created: '1', skipped: '0', failed: '2' });

    // To skip lines was for that file.
    await button(dialog, 'Import another file').click();
    await dialog.getByLabel('File').setInputFiles(file);
    await expect.poll(() => dialog.getByLabel('From').inputValue()).toBe('');
    await button(dialog, 'Import').click();
    await dialog.getByText('Nothing was imported').waitFor();
    expect(await button(dialog, 'Skip these lines, import the rest').isVisible()).toBe(true);
    expect(opened.complaints).toEqual([]);
  });

  test('imports nothing where that is marked, whenever a line is found wrong', async () => {
    const project = await app.createProject('Marked');
    await using opened = await openDashboard(app, browser, 'admin');
    const dialog = await openImport(opened.page, project);
    const record = (email: string) => JSON.stringify({ user_id: `auth0|${email}`, email, email_verified: true });
    const look = async (...emails: string[]) => {
      await dialog.getByLabel('File').setInputFiles(csv(emails.map(record).join('\n'), 'export.json'));
      await dialog.getByLabel('From').selectOption('Auth0');
      await button(dialog, 'Look into the file').click();
    };

    // Wrong when the service looks: the mark stands, so it cannot be imported.
    await look('a@example.com', 'no email', 'b@example.com');
    await dialog.getByText('1 line is wrong, so nothing is imported.').waitFor();
    expect(await button(dialog, 'Import nothing').isDisabled()).toBe(true);
    await dialog.getByLabel('Skip it').check();
    await button(dialog, 'Skip 1 line, import 2 people').waitFor();
    await dialog.getByText('The same with').click();
    expect(await dialog.locator('pre').innerText()).toContain('--skip-invalid');
    await dialog.getByLabel('Import nothing').check();
    expect(await dialog.locator('pre').innerText()).not.toContain('--skip-invalid');
    expect(await button(dialog, 'Import nothing').isDisabled()).toBe(true);
    await dialog.locator('form').evaluate((form: Json) => form.requestSubmit());
    expect(await total(project)).toBe(0);

    // Wrong only when it is imported: a user registered in between.
    await look('a@example.com', 'b@example.com', 'c@example.com');
    await button(dialog, 'Import 3 people').waitFor();
    await project.addUsers({ auth_method: 'email', auth_value: 'b@example.com' });
    await button(dialog, 'Import 3 people').click();
    await dialog.getByText('Nothing was imported').waitFor();
    expect(await facts(dialog)).toMatchObject({ created: '0', failed: '1' });
    expect(await total(project)).toBe(1);
    // It is the reader's choice to skip that line.
    await button(dialog, 'Skip these lines, import the rest').click();
    await dialog.getByText('Import finished').waitFor();
    expect(await total(project)).toBe(3);
    expect(opened.complaints).toEqual([]);
  });

  test('asks as what the columns of a table are imported', async () => {
    const project = await app.createProject('Mapped');
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    const dialog = await openImport(page, project);
    const rows = ['7;ada@example.com;104;two\n', '8;eve@example.com;;\n', '9;;105;x;y\n'];
    await dialog.getByLabel('File').setInputFiles(csv(`User-ID;E-Mail;Account;notes\n${rows.join('')}`));
    await expect.poll(() => dialog.getByLabel('From').inputValue()).toBe('csv');
    await button(dialog, 'Look into the file').click();
    const column = (title: string) => dialog.getByRole('combobox', { name: title, exact: true });
    await expect.poll(() => column('User-ID').inputValue()).toBe('external_id');
    await expect.poll(() => column('E-Mail').inputValue()).toBe('email');
    await expect.poll(() => column('notes').inputValue()).toBe('');
    await button(dialog, 'Import nothing').waitFor();
    await dialog.getByText('The row has 5 cells, expected 4.').waitFor();
    expect(await counts(dialog, 'How they log in')).toEqual({ email: 2 });
    expect(await counts(dialog, 'Not kept')).toEqual({ account: 1, notes: 1 });

    // A field is that of one column, and what they log in by is asked where no column has it.
    await column('notes').selectOption('email');
    await expect.poll(() => column('E-Mail').inputValue()).toBe('');
    await column('E-Mail').selectOption('email');
    await column('notes').selectOption('metadata, by its title');
    await column('Account').selectOption('auth_value');
    await dialog.getByLabel('auth_method of all people').fill('google');
    await button(dialog, 'Look again').click();
    await expect.poll(() => counts(dialog, 'How they log in')).toMatchObject({ google: 1 });
    await dialog.getByText('The same with').click();
    const map = {
      auth_method: { value: 'google' },
      external_id: 'User-ID',
      email: 'E-Mail',
      auth_value: 'Account',
      'metadata.notes': 'notes',
    };
    expect(await dialog.locator('pre').innerText()).toContain(`--map '${JSON.stringify(map)}'`);
    await dialog.getByLabel('Skip it').check();
    await button(dialog, 'Skip 1 line, import 2 people').click();
    await dialog.getByText('Import finished').waitFor();
    expect(await total(project)).toBe(2);

    // Each field that the page offers is one of the service.
    await button(dialog, 'Import another file').click();
    await dialog.getByLabel('File').setInputFiles(csv('title\nx\n'));
    await button(dialog, 'Look into the file').click();
    await column('title').waitFor();
    const fields = await column('title')
      .locator('option')
      .evaluateAll((options: Json[]) => options.map(({ value }) => value));
    const refusal = await page.evaluate(
      `fetch('/dashboard/projects/${project.appId}/import?from=csv&map=%7B%22x%22%3A%22y%22%7D', {
        method: 'POST', headers: { 'content-type': 'application/octet-stream' }, body: 'x' }).then((answer) => answer.text())`,
    );
    expect(refusal).toContain(`expected one of ${fields.slice(1, -1).join(', ')}, join`);
  });

  test('imports what an export of this service has written as CSV', async () => {
    const [from, to] = [await app.createProject('From'), await app.createProject('To')];
    await from.addUsers(
      { auth_method: 'email', auth_value: 'ada@example.com', login_count: 5, external_id: 'a' },
      { auth_method: 'google', auth_value: '108204567890123456789', email: 'eve@example.com' },
    );
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    const exported = async ({ appId }: TestProject) =>
      (await page.evaluate(
        `fetch('/dashboard/projects/${appId}/export?format=csv').then((answer) => answer.text())`,
      )) as string;
    const withoutIds = (text: string) => text.replaceAll(/^\d+,/gm, '');
    const text = await exported(from);
    const dialog = await openImport(page, to);
    await dialog.getByLabel('File').setInputFiles(csv(text));
    await expect.poll(() => dialog.locator('bdi').allInnerTexts()).toContain('users.csv');
    await button(dialog, 'Import').click();
    await dialog.getByText('Import finished').waitFor();
    expect(withoutIds(await exported(to))).toBe(withoutIds(text));
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
    const texts = async (role: string) => dialog.locator(role).allInnerTexts();
    expect([await texts('dt'), await texts('dd')]).toEqual([
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
    await dialog
      .getByLabel('File')
      .setInputFiles(csv('{"auth_method": "email", "auth_value": "ada@example.com"}', 'users.ndjson'));
    const send = () => Promise.all([page.waitForRequest(/\/import\?/), button(dialog, 'Import').click()]);
    await send();
    await button(dialog, 'Stop').click();
    await dialog.getByRole('alert').getByText('You stopped the import').waitFor();
    await expect.poll(async () => ended).toBe(1);
    await send();
    await page.evaluate('history.back()');
    await expect.poll(async () => ended).toBe(2);
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
    const titles = [
      'auth_value',
      'email',
      'x'.repeat(300),
      '',
      ...Array.from({ length: 20 }, (_, place) => `Column ${place}`),
    ];
    const row = titles.map((_, place) => `${'y'.repeat(place * 20)}`).join(',');
    await dialog.getByLabel('File').setInputFiles(csv(`${titles.join(',')}\n${`${row}\n`.repeat(9)}`));
    await button(dialog, 'Look into the file').click();
    await dialog.getByRole('table', { name: 'Lines that failed' }).waitFor();
    await dialog.getByText('How the files are read').click();
    expect(await findFaults(page)).toEqual([]);
    for (const box of ['document.documentElement', "document.querySelector('dialog')"])
      expect(await page.evaluate(`${box}.scrollWidth - ${box}.clientWidth`)).toBe(0);
  });
});
