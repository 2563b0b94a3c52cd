import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Locator, Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { LINK_MS } from '#dist/domain/bounds.js';
import { inWords } from '#dist/domain/figures.js';
import { stellarAddress } from '../support/addresses.js';
import { useTestApp } from '../support/app.js';
import { hasBrowser, useBrowser } from '../support/browser.js';
import { chooseAction, openDashboard, settle, visit } from '../support/dashboard-page.js';

const runInShell = async (command: string) => (await promisify(execFile)('sh', ['-c', command])).stdout;

/** What each role does with the dashboard, from its first link on. These tests need Chromium. */
describe.skipIf(!hasBrowser)('the journey through the dashboard', () => {
  const app = useTestApp();
  const browser = useBrowser();

  const button = (where: Page | Locator, name: string | RegExp) => where.getByRole('button', { name, exact: true });
  const navigate = (page: Page, name: string) =>
    page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name, exact: true }).click();
  const file = (...users: object[]) => ({
    name: 'users.ndjson',
    mimeType: 'application/x-ndjson',
    buffer: Buffer.from(users.map((user) => `${JSON.stringify(user)}\n`).join('')),
  });
  const email = (name: string) => ({ auth_method: 'email', auth_value: `${name}@example.com` });

  function backend(appId: string, appSecret: string) {
    return async (query: string) => {
      const response = await fetch(`${app.url}/graphql`, {
        method: 'POST',
        headers: { 'service-app-id': appId, 'service-app-secret': appSecret, 'content-type': 'application/json' },
        body: JSON.stringify({ query }),
      });
      return (await response.json()) as { data?: Record<string, unknown>; errors?: { message: string }[] };
    };
  }
  const logIn = 'mutation { recordLogin(input: { authMethod: "email", authValue: "eve@example.com" }) { created } }';

  async function search(page: Page, text: string) {
    await page.getByRole('combobox', { name: /^Search/ }).fill(text);
    await page.keyboard.press('Enter');
    await expect.poll(async () => page.url()).toContain(`q=${encodeURIComponent(text)}`);
    await settle(page);
  }

  test('an admin makes a project, imports, searches, bans, rotates and removes, and the audit trail shows it', async () => {
    await using opened = await openDashboard(app, browser, 'admin');
    const { page, operator } = opened;
    const dialog = page.getByRole('dialog');
    expect(page.url()).toBe(`${app.url}/dashboard`);

    await button(page, 'Create project').click();
    await dialog.getByLabel('Name').fill('The journey');
    await page.keyboard.press('Enter');
    await dialog.getByText('The project is created').waitFor();
    // A second Enter copies the secret. Escape does not lose it either, the first time.
    await expect.poll(() => page.evaluate('document.activeElement?.ariaLabel')).toBe('Copy the App Secret');
    await page.keyboard.press('Escape');
    await dialog.getByText('has not been copied').waitFor();
    const appSecret = await dialog.getByText(/^uds_\S+$/).innerText();
    const firstRequest = await dialog.locator('pre').innerText();
    expect(await runInShell(firstRequest)).toContain('"total_user":0');
    await dialog.getByRole('link', { name: 'Open the project' }).click();
    await page.getByRole('heading', { name: 'The journey' }).waitFor();
    const appId = new URL(page.url()).pathname.split('/')[2] ?? '';
    const ask = backend(appId, appSecret);
    // The secret is gone from the page.
    expect(await page.content()).not.toContain(appSecret);

    await navigate(page, 'Users');
    await button(page, 'Import').click();
    await dialog.getByLabel('File').setInputFiles(file(email('ada'), { auth_method: 'email' }, email('eve')));
    await button(dialog, 'Import').click();
    await dialog.getByText('Nothing was imported').waitFor();
    expect(await dialog.getByRole('row').nth(1).innerText()).toMatch(/^2\s+.*auth_value/);
    await button(dialog, 'Skip these lines, import the rest').waitFor();
    await button(dialog, 'Import another file').click();
    await dialog.getByLabel('File').setInputFiles({ name: 'users.ndjson', mimeType: '', buffer: Buffer.alloc(0) });
    await dialog.getByText('The file is empty.').waitFor();
    expect(await button(dialog, 'Import').isDisabled()).toBe(true);
    const social = { auth_method: 'google', auth_value: '1234', email: 'grace@example.com' };
    const account = { network: 'stellar', public_key: stellarAddress(7) };
    const others = Array.from({ length: 30 }, (_, index) => email(`user${index}`));
    await dialog
      .getByLabel('File')
      .setInputFiles(file(email('ada'), { ...email('eve'), accounts: [account] }, social, ...others));
    await button(dialog, 'Import').click();
    await dialog.getByText('Import finished').waitFor();
    expect(await dialog.locator('dd').first().innerText()).toBe('33');
    await button(dialog, 'Done').click();
    await page.getByText('33 users', { exact: true }).waitFor();

    // By email, by address and by ID: the same user.
    for (const text of ['eve@example.com', account.public_key]) {
      await search(page, text);
      await page.getByText('1 user found').waitFor();
      await page.getByRole('link', { name: 'eve@example.com' }).waitFor();
    }
    await page.getByRole('link', { name: 'eve@example.com' }).click();
    await page.getByRole('heading', { name: 'eve@example.com' }).waitFor();
    const id = new URL(page.url()).pathname.split('/')[4] ?? '';
    await search(page, id);
    await page.getByRole('link', { name: 'eve@example.com' }).click();
    await page.getByText(account.public_key).waitFor();

    await chooseAction(page, 'Ban…');
    await dialog.getByLabel('Reason').fill('sells spam');
    await dialog.getByLabel('Until').fill('2099-01-31T12:00');
    await button(dialog, 'Ban 1 user').click();
    await dialog.waitFor({ state: 'hidden' });
    await page.getByText('banned', { exact: true }).waitFor();
    await page.getByText('sells spam', { exact: true }).waitFor();
    expect((await ask(logIn)).errors?.[0]?.message).toMatch(/ban/i);
    await navigate(page, 'Bans');
    await page.getByRole('cell', { name: 'eve@example.com', exact: true }).waitFor();
    await page.getByRole('cell', { name: /2099/ }).waitFor();
    // The ban is of the user, so it is changed and lifted on the page of the user.
    await page.getByRole('link', { name: /^ban of user \d+$/ }).click();
    await chooseAction(page, 'Change ban…');
    expect(await dialog.getByLabel('Until').inputValue()).toBe('2099-01-31T12:00');
    await dialog.getByLabel('Reason').fill('sells more spam');
    await dialog.getByLabel('Until').fill('');
    await button(dialog, 'Change').click();
    await page.getByText('sells more spam', { exact: true }).waitFor();
    await page.getByText('no end', { exact: true }).waitFor();
    await chooseAction(page, 'Unban…');
    await button(dialog, 'Unban 1 user').click();
    await dialog.waitFor({ state: 'hidden' });
    await navigate(page, 'Bans');
    await page.getByText('Nothing is banned.').waitFor();
    expect((await ask(logIn)).data).toEqual({ recordLogin: { created: false } });

    await navigate(page, 'Secrets');
    await chooseAction(page, 'Rotate…');
    await button(dialog, 'Rotate').click();
    const nextSecret = await dialog.getByText(/^uds_\S+$/).innerText();
    expect(nextSecret).not.toBe(appSecret);
    await button(dialog, 'I have copied it').click();
    // Both work during the overlap, which is counted down.
    expect((await ask('{ userCount }')).data).toEqual({ userCount: 33 });
    expect((await backend(appId, nextSecret)('{ userCount }')).data).toEqual({ userCount: 33 });
    const ending = page.getByRole('row').filter({ hasText: 'ending' });
    await expect.poll(() => ending.innerText()).toMatch(/ending \d+ \w+ \d{4}, \d\d:\d\d/);
    await button(ending, /^Revoke…/).click();
    await button(dialog, 'Revoke').click();
    await page.getByRole('row').filter({ hasText: 'ended' }).waitFor();
    await expect.poll(async () => (await ask('{ userCount }')).errors?.length).toBe(1);
    expect((await backend(appId, nextSecret)('{ userCount }')).data).toEqual({ userCount: 33 });

    await navigate(page, 'Users');
    await settle(page);
    for (const row of [1, 2, 3]) await page.getByRole('row').nth(row).getByRole('checkbox').check();
    await chooseAction(page, 'Remove…');
    expect(await dialog.getByRole('row').count()).toBe(4);
    await button(dialog, 'Remove 3 users').click();
    await dialog.waitFor({ state: 'hidden' });
    await page.getByText('30 users', { exact: true }).waitFor();
    // What opened the dialog is gone with the selection: the focus is on the heading, and not lost.
    const focused = () => page.evaluate('document.activeElement.tagName');
    await expect.poll(focused).toBe('H1');
    const toast = page.getByText('3 users removed.', { exact: true });
    await toast.waitFor();

    // The removal is undone in one step. Another is undone from the list of removed users, where one has registered again.
    await navigate(page, 'Secrets');
    await expect.poll(() => toast.count()).toBe(0);
    await navigate(page, 'Users');
    await button(page, 'Undo').click();
    await page.getByText('33 users', { exact: true }).waitFor();
    await expect.poll(focused).toBe('H1');
    expect(await button(page, 'Undo').count()).toBe(0);
    for (const name of ['user1', 'user2']) {
      await search(page, `${name}@example.com`);
      await page.getByRole('row').nth(1).getByRole('checkbox').check();
      await chooseAction(page, 'Remove…');
      await button(dialog, 'Remove 1 user').click();
      await dialog.waitFor({ state: 'hidden' });
    }
    const again = await backend(appId, nextSecret)(logIn.replace('eve@', 'user1@'));
    expect(again.data).toEqual({ recordLogin: { created: true } });
    await visit(app, page, `/${appId}/users`);
    await page.getByRole('link', { name: 'Removed users' }).click();
    await page.getByRole('link', { name: 'user2@example.com' }).waitFor();
    const names = () => page.getByRole('table', { name: 'Users' }).getByRole('link', { name: '@' }).allInnerTexts();
    await expect.poll(names).toEqual(['user2@example.com', 'user1@example.com']);
    await page.getByRole('columnheader').getByRole('link', { name: 'Removed' }).click();
    await expect.poll(names).toEqual(['user1@example.com', 'user2@example.com']);
    await page.getByRole('checkbox', { name: 'Select all' }).check();
    await button(page, 'Restore…').click();
    await button(dialog, 'Restore 2 users').click();
    await dialog.getByRole('heading', { name: '1 user of 2 restored' }).waitFor();
    await dialog.getByText(/an identity by \w+ is that of user \d+ now/).waitFor();
    await button(dialog, 'Done').click();
    await expect.poll(names).toEqual(['user1@example.com']);
    // One whom it cannot restore says why in the dialog that asked.
    await page.getByRole('row').nth(1).getByRole('checkbox').check();
    await button(page, 'Restore…').click();
    await button(dialog, 'Restore 1 user').click();
    await dialog
      .getByRole('alert')
      .getByText(/an identity by \w+ is that of user \d+ now/)
      .waitFor();
    await button(dialog, 'Cancel').click();

    await navigate(page, 'Audit');
    await settle(page);
    const trail = await page.getByRole('table', { name: 'Audit trail' }).innerText();
    for (const action of ['imported', 'banned', 'ended a ban', 'rotated', 'revoked', 'removed', 'restored'])
      expect(trail).toMatch(new RegExp(`operator:${operator}\\s+.*${action}`));
    expect([opened.strangers(), opened.complaints]).toEqual([[], []]);
  });

  test('support removes, restores and bans, and is not offered what only an admin may do', async () => {
    const project = await app.createProject('For support');
    await project.addUsers(email('ada'), email('eve'));
    await using opened = await openDashboard(app, browser, 'support');
    const { page } = opened;
    const dialog = page.getByRole('dialog');
    expect(await button(page, 'Create project').count()).toBe(0);
    expect(await page.getByRole('link', { name: 'Operators' }).count()).toBe(0);
    await visit(app, page, `/${project.appId}/users`);
    expect(await button(page, 'Import').count()).toBe(0);
    await page.getByRole('link', { name: 'eve@example.com' }).click();
    await page.getByRole('heading', { name: 'eve@example.com' }).waitFor();
    const place = new URL(page.url()).pathname;

    await chooseAction(page, 'Remove…');
    await button(dialog, 'Remove 1 user').click();
    await dialog.waitFor({ state: 'hidden' });
    await page.getByText('removed', { exact: true }).waitFor();
    expect((await project.rest('/server/users/count')).body.result.total_user).toBe(1);
    await button(page, 'Restore…').click();
    await button(dialog, 'Restore 1 user').click();
    await dialog.waitFor({ state: 'hidden' });
    await button(page, 'Edit…').waitFor();
    expect(new URL(page.url()).pathname).toBe(place);
    expect((await project.rest('/server/users/count')).body.result.total_user).toBe(2);

    await project.addUsers({ auth_method: 'google', auth_value: '117', external_id: 'C-1' });
    await chooseAction(page, 'Edit…');
    const external = dialog.getByRole('textbox', { name: 'External ID', exact: true });
    await external.fill('C-1');
    await button(dialog, 'Save').click();
    await dialog.getByRole('alert').getByText('has this external ID').waitFor();
    await expect.poll(() => external.and(page.locator(':focus:invalid')).count()).toBe(1);
    await button(dialog, 'Cancel').click();

    await visit(app, page, `/${project.appId}/bans`);
    await button(page, 'Ban an identity').click();
    await dialog.getByLabel('Value').fill('mallory@example.com');
    const end = dialog.getByLabel('Until');
    await end.fill('2020-01-01T00:00');
    await button(dialog, 'Ban').click();
    await dialog.getByRole('alert').getByText('Until must be in the future.', { exact: true }).waitFor();
    await expect.poll(() => end.and(page.locator(':focus:invalid')).count()).toBe(1);
    await end.fill('');
    await button(dialog, 'Ban').click();
    const ban = page.getByRole('row', { name: 'mallory@example.com' });
    await ban.waitFor();
    await button(ban, /^Change…/).click();
    await dialog.getByLabel('Reason').fill('fraud');
    await button(dialog, 'Change').click();
    await ban.getByText('fraud').waitFor();
    // To ban it again with an end keeps the reason, and to change the reason keeps the end.
    await button(page, 'Ban an identity').click();
    await dialog.getByLabel('Value').fill('mallory@example.com');
    await end.fill('2040-01-01T00:00');
    await button(dialog, 'Ban').click();
    await ban.filter({ hasText: 'fraud' }).filter({ hasText: '2040' }).waitFor();
    await button(ban, /^Change…/).click();
    await dialog.getByLabel('Reason').fill('');
    await button(dialog, 'Change').click();
    await ban.filter({ hasText: '2040' }).filter({ hasNotText: 'fraud' }).waitFor();

    await visit(app, page, `/${project.appId}/secrets`);
    expect(await page.getByRole('button', { name: /Add|Rotate|Revoke/ }).count()).toBe(0);
    await visit(app, page, `/${project.appId}/settings`);
    expect(await page.getByRole('button', { name: /Rename|Disable|Delete/ }).count()).toBe(0);
    expect(opened.complaints).toEqual([]);
  });

  test('a viewer sees everything, and is offered no change', async () => {
    const project = await app.createProject('For viewers');
    await project.addUsers(email('ada'));
    await using opened = await openDashboard(app, browser, 'viewer');
    const { page } = opened;
    const changes = /Create|Import|Remove|Restore|Undo|Ban|Unban|Add|Rotate|Revoke|Rename|Disable|Delete|Select/;
    for (const screen of [
      '',
      ...'/users /users?q=ada@example.com /users?removed=1 /secrets /bans /webhooks /audit /settings'.split(' '),
    ]) {
      await visit(app, page, `/${project.appId}${screen}`);
      const main = page.getByRole('main');
      expect(await main.getByRole('button', { name: changes }).count(), screen).toBe(0);
      expect(await main.getByRole('checkbox', { name: changes }).count(), screen).toBe(0);
    }
    await visit(app, page, `/${project.appId}/users`);
    await page.getByRole('link', { name: 'ada@example.com' }).click();
    await page.getByRole('heading', { name: 'ada@example.com' }).waitFor();
    expect(await page.getByRole('main').getByRole('button', { name: changes }).count()).toBe(0);
    expect(opened.complaints).toEqual([]);
  });

  test('an admin renames, disables, enables and deletes a project', async () => {
    const project = await app.createProject('To be deleted');
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    const dialog = page.getByRole('dialog');
    await visit(app, page, `/${project.appId}/settings`);
    await button(page, 'Rename…').click();
    await dialog.getByLabel('Name of the project').fill('Renamed');
    await button(dialog, 'Rename').click();
    await page.getByText('The project is renamed.').waitFor();
    await page.getByRole('navigation', { name: 'Main' }).getByText('Renamed').waitFor();

    await button(page, 'Disable the project…').click();
    await button(dialog, 'Disable').click();
    await page.getByText('This project is disabled').waitFor();
    await expect.poll(async () => (await project.graphql('{ userCount }')).errors?.length).toBe(1);
    await button(page, 'Enable the project…').click();
    await button(dialog, 'Enable').click();
    await expect.poll(async () => (await project.graphql('{ userCount }')).data?.userCount).toBe(0);

    await button(page, 'Delete the project…').click();
    expect(await button(dialog, 'Delete for ever').isDisabled()).toBe(true);
    await dialog.getByLabel('Name of the project').fill('Renamed');
    await button(dialog, 'Delete for ever').click();
    await page.getByRole('heading', { name: 'Projects' }).waitFor();
    await visit(app, page, '');
    expect(await page.getByText(project.appId).count()).toBe(0);
    expect(opened.complaints).toEqual([]);
  });

  test('an admin limits an operator to a project, who then sees no other', async () => {
    const [first, second] = [await app.createProject('Of hers'), await app.createProject('Of others')];
    await using hers = await openDashboard(app, browser, 'admin');
    await hers.page.getByText(second.appId).waitFor();
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    await navigate(page, 'Operators');
    const row = page
      .getByRole('row')
      .filter({ hasText: hers.operator })
      .filter({ has: button(page, /^Edit…/) });
    await button(row, /^Edit…/).click();
    const dialog = page.getByRole('dialog');
    expect(await button(dialog, 'Save').isDisabled()).toBe(true);
    await dialog.getByLabel('only some').check();
    expect(await button(dialog, 'Save').isDisabled()).toBe(true);
    await dialog.getByText('Choose at least one project.').waitFor();
    await dialog.getByLabel('Find a project').fill(first.appId);
    await dialog.getByRole('checkbox', { name: first.appId }).check();
    await button(dialog, 'Save').click();
    await expect.poll(() => dialog.count()).toBe(0);
    await expect.poll(() => row.innerText()).toContain('Of hers');
    await page.getByText('changed an operator').first().waitFor();

    await visit(app, hers.page, '');
    expect(await hers.page.getByText(first.appId).count()).toBe(1);
    expect(await hers.page.getByText(second.appId).count()).toBe(0);
    for (const name of ['Status', 'Operators']) expect(await hers.page.getByRole('link', { name }).count()).toBe(0);
    expect(await button(hers.page, 'Create project').count()).toBe(0);
    await visit(app, hers.page, '/status');
    await hers.page.getByText('Only an operator of all projects sees the status.').waitFor();
    await visit(app, hers.page, `/${second.appId}`).catch(() => undefined);
    expect(await hers.page.content()).not.toContain('Of others');
    expect([...opened.complaints, ...hers.complaints]).toEqual([]);
  });

  test('an admin adds an operator, whose link works once, and ends their session', async () => {
    await using opened = await openDashboard(app, browser, 'admin');
    const { page } = opened;
    const dialog = page.getByRole('dialog');
    await navigate(page, 'Operators');
    await button(page, 'Add operator').click();
    // The hint of a field is not a part of its name. What was said of a wrong value goes with it.
    const name = dialog.getByRole('textbox', { name: 'Name', exact: true });
    await name.fill('Grace Hopper');
    await button(dialog, 'Add').click();
    await dialog.getByRole('alert').getByText('Name must be').waitFor();
    await name.fill(`grace-${process.pid}`);
    await expect.poll(() => dialog.getByRole('alert').count()).toBe(0);
    await button(dialog, 'Add').click();
    await dialog.getByText(`grace-${process.pid} is an operator now.`).waitFor();
    await dialog.getByText(`It works once, within ${inWords(LINK_MS)}, and`).waitFor();
    await button(dialog, 'Make link').click();
    const link = await dialog.getByText(/#login=/).innerText();
    await button(dialog, 'Done').click();

    const context = await browser.newContext();
    const hers = await context.newPage();
    await hers.goto(link);
    await hers.getByRole('heading', { name: 'Projects' }).waitFor();
    // The token leaves the address bar.
    expect(hers.url()).not.toContain('login=');

    await visit(app, page, '/sessions');
    const row = page.getByRole('row').filter({ hasText: `grace-${process.pid}` });
    await row.getByRole('button').click();
    await expect.poll(() => row.count()).toBe(0);
    await hers.getByRole('link', { name: 'Status' }).click();
    await hers.getByRole('heading', { name: 'Sign in to userdir' }).waitFor();
    await context.close();
    expect(opened.complaints).toEqual([]);
  });
});
