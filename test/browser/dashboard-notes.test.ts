import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { THE_OPERATOR } from '#dist/domain/operators.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { findFaults, hasBrowser, launchBrowser } from '../support/browser.js';
import { createLink, openDashboard, visit } from '../support/dashboard-page.js';

const until = (read: () => Promise<unknown>) => expect.poll(read, { timeout: 30_000 });

/** The notes of operators on the page of a user. These tests need Chromium. */
describe.skipIf(!hasBrowser)('the notes of a user in the dashboard', () => {
  const app = useTestApp();
  let browser: Browser;
  let project: TestProject;
  beforeAll(async () => {
    browser = await launchBrowser();
    project = await app.createProject('Notes');
  });
  afterAll(() => browser?.close());

  /** A user of their own, with notes of another operator. */
  async function createUser(authValue: string, ...notes: string[]): Promise<string> {
    const { services } = app.context;
    await project.addUsers({ auth_method: 'email', auth_value: `${authValue}@example.com` });
    const { data } = await project.graphql('query ($by: UserSearch!) { searchUsers(by: $by) { id } }', {
      by: { email: `${authValue}@example.com` },
    });
    const { id } = data.searchUsers[0];
    const scope = await services.projects.getScope(project.appId, { ...THE_OPERATOR, name: 'grace' });
    for (const note of notes) await services.notes.addNote(scope, BigInt(id), note);
    return id;
  }

  const items = (page: Page) => page.getByRole('list', { name: 'Notes' }).getByRole('listitem');
  const removals = (page: Page) => page.getByRole('button', { name: 'Remove note…' });

  test('support adds one, and removes it, but none of others', async () => {
    const id = await createUser('ada', 'Of Grace');
    await using opened = await openDashboard(app, browser, 'support');
    const { page, operator } = opened;
    await visit(app, page, `/${project.appId}/users/${id}`);
    await until(() => items(page).count()).toBe(1);
    expect(await removals(page).count()).toBe(0);
    await page.getByRole('button', { name: 'Add note…' }).click();
    const dialog = page.getByRole('dialog');
    const add = dialog.getByRole('button', { name: 'Add' });
    expect(await add.isDisabled()).toBe(true);
    expect(await page.evaluate('document.activeElement.tagName')).toBe('TEXTAREA');
    await dialog.getByLabel('Note').fill('<b>Called</b> twice.\nWrites back on Monday.');
    await dialog.getByText('The same with').click();
    // Escape does not lose it the first time.
    await page.keyboard.press('Escape');
    await dialog.getByRole('alert').getByText('What you have entered is not saved.').waitFor();
    expect(await dialog.innerText()).toContain(`userdir user note --project ${project.appId} ${id} --add`);
    await add.click();
    await until(() => items(page).count()).toBe(2);
    expect(await items(page).first().innerText()).toMatch(
      new RegExp(`operator:${operator}[\\s\\S]*<b>Called</b> twice\\.\\nWrites back on Monday\\.`),
    );
    await page.getByText('added a note on a user').first().waitFor();
    await removals(page).click();
    await dialog.getByText('Writes back on Monday.').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await removals(page).click();
    await dialog.getByRole('button', { name: 'Remove', exact: true }).click();
    await until(() => items(page).count()).toBe(1);
    expect([opened.strangers(), opened.complaints]).toEqual([[], []]);
  });

  test('a viewer reads them only, and an admin removes those of others, also of a removed user', async () => {
    const id = await createUser('bob', 'Of Grace');
    const path = `/${project.appId}/users/${id}`;
    await project.rest(`/server/users/${id}`, { method: 'DELETE' });
    await using asViewer = await openDashboard(app, browser, 'viewer');
    await visit(app, asViewer.page, path);
    await until(() => items(asViewer.page).innerText()).toContain('Of Grace');
    expect(await asViewer.page.getByRole('button', { name: /note…/ }).count()).toBe(0);
    await using asAdmin = await openDashboard(app, browser, 'admin');
    await visit(app, asAdmin.page, path);
    await removals(asAdmin.page).click();
    await asAdmin.page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
    await asAdmin.page.getByText('No operator has written a note.').waitFor();
    expect([asViewer.complaints, asAdmin.complaints]).toEqual([[], []]);
  });

  test('one that is refused says why, and keeps what was typed', async () => {
    const id = await createUser('eve', ...Array.from({ length: 100 }, (_, n) => `Note ${n}`));
    await using opened = await openDashboard(app, browser, 'support');
    const { page } = opened;
    await visit(app, page, `/${project.appId}/users/${id}`);
    await until(() => items(page).count()).toBe(100);
    await page.getByRole('button', { name: 'Add note…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Note').fill('One too many');
    await dialog.getByRole('button', { name: 'Add' }).click();
    await dialog.getByText('A user can have 100 notes').waitFor();
    expect(await dialog.getByLabel('Note').inputValue()).toBe('One too many');
    // The button that was pressed could not keep the focus; what was said has it.
    await until(() => page.evaluate('document.activeElement.className')).toBe('problem');
    await page.keyboard.press('Escape');
    await dialog.getByText('What you have entered is not saved. Close again to give it up.').waitFor();
    await page.keyboard.press('Escape');
    await until(() => dialog.count()).toBe(0);
    await page.getByRole('button', { name: 'Add note…' }).click();
    await until(() => dialog.getByLabel('Note').inputValue()).toBe('');
  });

  test('one that was typed is there again when the session has ended meanwhile, for the same operator', async () => {
    const id = await createUser('ivy');
    const path = `/${project.appId}/users/${id}`;
    await using opened = await openDashboard(app, browser, 'support');
    const { page, operator } = opened;
    const dialog = page.getByRole('dialog');
    const note = dialog.getByLabel('Note');
    const open = () => page.getByRole('button', { name: 'Add note…' }).click();
    await visit(app, page, path);
    await open();
    await note.fill('Long and dear.');
    await app.context.db.pool.query(
      'DELETE FROM operator_sessions WHERE operator_id = (SELECT id FROM operators WHERE name = $1)',
      [operator],
    );
    await dialog.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByText('Your session has ended.').waitFor();
    await until(() => page.evaluate('document.activeElement.tagName')).toBe('H1');
    for (const [name, expected] of [
      [(await createLink(app, 'support')).operator, ''],
      [operator, 'Long and dear.'],
    ] as const) {
      const { token } = await app.context.services.operators.createLink(THE_OPERATOR, name);
      await page.goto('about:blank');
      await page.goto(`${app.url}/dashboard#login=${token}`);
      await page.locator('summary', { hasText: name }).waitFor();
      await visit(app, page, path);
      await open();
      await until(() => note.inputValue()).toBe(expected);
    }
    await dialog.getByRole('button', { name: 'Add', exact: true }).click();
    await until(() => items(page).count()).toBe(1);
    await open();
    await until(() => note.inputValue()).toBe('');
  });

  test.each(['light', 'dark'] as const)('have nothing that axe finds, and fit a phone, in %s', async (colorScheme) => {
    const long = `${'Wrote about the invoice of March, and again in April. '.repeat(6)}\n\n${'unbroken'.repeat(60)}`;
    const id = await createUser(`mia-${colorScheme}`, 'Called.', 'שלום, דבר איתי', long);
    for (const viewport of [
      { width: 1280, height: 1000 },
      { width: 390, height: 800 },
    ]) {
      await using opened = await openDashboard(app, browser, 'admin', { colorScheme, viewport });
      const { page } = opened;
      await visit(app, page, `/${project.appId}/users/${id}`);
      await until(() => items(page).count()).toBe(3);
      expect(await findFaults(page)).toEqual([]);
      const shots = process.env['NOTES_SHOTS'];
      if (shots) await page.screenshot({ path: `${shots}/${colorScheme}-${viewport.width}.png`, fullPage: true });
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0);
      for (const name of ['Add note…', 'Remove note…']) {
        await page.getByRole('button', { name }).first().click();
        await page.getByRole('dialog').waitFor();
        expect(await findFaults(page), name).toEqual([]);
        if (shots) await page.screenshot({ path: `${shots}/${colorScheme}-${viewport.width}-${name.slice(0, 3)}.png` });
        await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
      }
      expect(opened.complaints).toEqual([]);
    }
  });
});
