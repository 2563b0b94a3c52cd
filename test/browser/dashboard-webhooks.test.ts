import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ATTEMPTS_KEPT, ATTEMPTS_KEPT_MS } from '#dist/domain/bounds.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { findFaults, hasBrowser, useBrowser } from '../support/browser.js';
import { chooseAction, openDashboard, settle, visit } from '../support/dashboard-page.js';
import { isNightly } from '../support/nightly.js';
import { type Receiver, startReceiver } from '../support/receiver.js';

const button = (where: Page | Locator, name: string | RegExp) => where.getByRole('button', { name, exact: true });

/** The colours and the width of a screen. */
type Look = readonly ['light' | 'dark', number];
const ON_A_PHONE: Look = ['dark', 390];
const LOOKS: readonly Look[] = isNightly ? [['light', 1280], ON_A_PHONE] : [ON_A_PHONE];

/** Webhooks, as people look after them. These tests need Chromium. */
describe.skipIf(!hasBrowser)('webhooks in the dashboard', () => {
  const app = useTestApp({ ownDatabase: true, env: { WEBHOOKS_ALLOW_PRIVATE: 'on' } });
  const browser = useBrowser();
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await startReceiver();
    app.context.services.changes.start();
    app.context.services.webhooks.start();
  });
  afterAll(async () => {
    await receiver?.close();
  });

  let serial = 0;
  async function login(project: TestProject): Promise<number> {
    serial += 1;
    const { data } = await project.graphql(
      `mutation { recordLogin(input: { authMethod: "q", authValue: "${serial}" }) { user { id } } }`,
    );
    return Number(data.recordLogin.user.id);
  }

  /** A webhook with a long URL that has failed, was accepted and is paused. */
  async function makeWebhook(project: TestProject): Promise<string> {
    serial += 1;
    const path = `/${'long-path-of-a-receiver-'.repeat(8)}${serial}`;
    const scope = await app.context.services.projects.getScope(project.appId);
    const { webhooks } = app.context.services;
    const given = { url: receiver.url(path), description: 'the CRM', types: null };
    const { id } = await webhooks.addWebhook(scope, given);
    for (let index = 0; index < 3; index += 1) await login(project);
    await receiver.until(() => receiver.at(path).length === 3);
    receiver.answer(path, (response) => response.writeHead(302).end());
    await login(project);
    await expect.poll(async () => (await webhooks.getWebhook(scope, id)).failed).toBe(1);
    await webhooks.pauseWebhook(scope, id);
    return `/${project.appId}/webhooks/${id}`;
  }

  test('an admin adds one, tests, pauses, resumes and edits it, resends, replays, rotates and removes it', async () => {
    const project = await app.createProject('With webhooks');
    await using opened = await openDashboard(app, browser, 'admin');
    const { page, operator } = opened;
    const dialog = page.getByRole('dialog');
    const main = page.getByRole('main');
    const received = () => receiver.at('/journey').map(({ type, userId }) => [type, userId]);
    await visit(app, page, `/${project.appId}/webhooks`);
    await page.getByText('This project has no webhook.').waitFor();
    await page.getByText('user.created', { exact: true }).click();
    await page
      .getByText('{"type":"user.created","timestamp":"2026-01-31T12:00:00.000Z","data":{"user_id":42}}')
      .waitFor();
    await button(page, 'Add webhook').click();
    await dialog.getByRole('textbox', { name: 'URL' }).fill('ftp://example.com/');
    await button(dialog, 'Add').click();
    await dialog.getByText('URL must be an http:// or https:// URL').waitFor();
    // The person is where the mistake is, and the field itself says it until it is changed.
    const url = dialog.getByRole('textbox', { name: 'URL' });
    await expect.poll(() => url.and(page.locator(':focus:invalid')).count()).toBe(1);
    await dialog.getByRole('textbox', { name: 'URL' }).fill(receiver.url('/journey'));
    await dialog.getByLabel('Description').fill('the CRM');
    await dialog.getByLabel('account.added').uncheck();
    await button(dialog, 'Add').click();
    const secret = await dialog.getByText(/^whsec_\S+$/).innerText();
    receiver.expectSecret('/journey', secret);
    await button(dialog, 'I have copied it').click();
    await expect
      .poll(() => page.getByRole('row').nth(1).innerText())
      .toMatch(/the CRM[\s\S]*enabled[\s\S]*7 types[\s\S]*nothing waits[\s\S]*never/);
    expect(await page.content()).not.toContain(secret);
    await page.getByRole('link', { name: receiver.url('/journey') }).click();
    await page.getByText('Nothing has been sent yet.').waitFor();

    await chooseAction(page, 'Test…');
    await button(dialog, 'Send').click();
    await dialog.getByText(/Answered 204 after \d+ ms\.$/).waitFor();
    await expect.poll(() => page.evaluate('document.activeElement.innerText')).toMatch(/^accepted Answered/);
    await button(dialog, 'Done').click();
    expect(received()).toEqual([['webhook.test', null]]);

    await chooseAction(page, 'Pause…');
    await button(dialog, 'Pause').click();
    await page.getByText('An operator has paused it.').waitFor();
    const first = await login(project);
    await expect
      .poll(async () => {
        await button(page, 'Refresh').click();
        await settle(page);
        return main.innerText();
      })
      .toMatch(/1 change, since/);
    receiver.answer('/journey', (response) => response.writeHead(410).end());
    await chooseAction(page, 'Resume…');
    await button(dialog, 'Resume').click();
    await expect
      .poll(async () => {
        await button(page, 'Refresh').click();
        await settle(page);
        return main.innerText();
      })
      .toMatch(/The endpoint answered 410 \(gone\)\.[\s\S]*0 accepted, 1 failed/);

    receiver.answer('/journey', null);
    await chooseAction(page, 'Edit…');
    await dialog.getByRole('textbox', { name: 'URL' }).fill('ftp://example.com/');
    await button(dialog, 'Save').click();
    await dialog.getByText(/^URL must be /).waitFor();
    // Escape does not lose what was entered, the first time.
    await page.keyboard.press('Escape');
    await dialog.getByText('What you have entered is not saved.').waitFor();
    await dialog.getByRole('textbox', { name: 'URL' }).fill(receiver.url('/journey?moved'));
    await dialog.getByLabel('Description').fill('the new CRM');
    await button(dialog, 'Save').click();
    await page.getByRole('heading', { name: receiver.url('/journey?moved') }).waitFor();
    await page.getByText('the new CRM').waitFor();
    receiver.expectSecret('/journey?moved', secret);
    const at = () => receiver.at('/journey?moved').map(({ type, userId }) => [type, userId]);
    await chooseAction(page, 'Resume…');
    await button(dialog, 'Resume').click();
    await receiver.until(() => at().length === 1);
    const second = await login(project);
    await receiver.until(() => at().length === 2);
    const attempts = page.getByRole('table', { name: 'Attempts' });
    await expect
      .poll(async () => {
        await button(page, 'Refresh').click();
        await settle(page);
        return attempts.innerText();
      })
      .toMatch(/(user\.created\s+accepted 204[\s\S]*){2}user\.created\s+failed answered 410/);

    const days = ATTEMPTS_KEPT_MS / 86_400_000;
    const kept = `The last ${ATTEMPTS_KEPT} that were accepted and the last ${ATTEMPTS_KEPT} that failed are kept, for ${days} days.`;
    await page.getByText(kept).waitFor();

    await page.locator('canvas').waitFor();
    await page.getByText('3 attempts, as a table').click();
    const hours = page.getByRole('table', { name: 'Attempts by the hour' });
    await expect.poll(() => hours.getByRole('row').count()).toBe(25);
    expect(await hours.getByRole('row').nth(1).innerText()).toMatch(/2\s+1\s+3$/);
    await page.getByText('3 attempts, as a table').click();

    const oldest = attempts.getByRole('row').nth(2);
    await button(oldest, /^Message…/).click();
    await dialog.getByText(`"data":{"user_id":${first}}`).waitFor();
    await button(dialog, 'Close').last().click();
    await button(oldest, /^Resend…/).click();
    await button(dialog, 'Resend').click();
    await dialog.getByText(/Answered 204 after \d+ ms\.$/).waitFor();
    await button(dialog, 'Done').click();
    await attempts.getByText('by hand').waitFor();
    expect(at().slice(2)).toEqual([['user.created', first]]);
    await button(attempts.getByRole('row').nth(3), /^Replay from here… .*:/).click();
    await button(dialog, 'Replay').click();
    await receiver.until(() => at().length === 5);
    expect(at().slice(3)).toEqual([
      ['user.created', first],
      ['user.created', second],
    ]);
    await page.getByRole('link', { name: 'Failed' }).click();
    await expect.poll(() => attempts.getByRole('row').count()).toBe(2);
    await chooseAction(page, 'Replay…');
    await dialog.getByLabel('After').fill('now');
    await button(dialog, 'Replay').click();
    await expect.poll(() => dialog.count()).toBe(0);

    await chooseAction(page, 'Rotate…');
    await button(dialog, 'Rotate').click();
    expect(await dialog.getByText(/^whsec_\S+$/).innerText()).not.toBe(secret);
    await button(dialog, 'I have copied it').click();
    await page.getByText('2 secrets sign').waitFor();
    await chooseAction(page, 'Remove…');
    await button(dialog, 'Remove').click();
    await page.getByText('This project has no webhook.').waitFor();

    await visit(app, page, `/${project.appId}/audit`);
    const trail = await page.getByRole('table', { name: 'Audit trail' }).innerText();
    for (const action of ['added', 'tested', 'paused', 'resumed', 'changed', 'replayed', 'removed'])
      expect(trail).toMatch(new RegExp(`operator:${operator}\\s+${action} a webhook`));
    expect(trail).toMatch(
      /resent a message[\s\S]*rotated a webhook’s secret|rotated a webhook’s secret[\s\S]*resent a message/,
    );
    expect([opened.strangers(), opened.complaints, receiver.faults]).toEqual([[], [], []]);
  });

  test.each(['viewer', 'support'] as const)('%s sees what was sent, and is offered no change', async (role) => {
    const project = await app.createProject();
    const path = await makeWebhook(project);
    await using opened = await openDashboard(app, browser, role);
    const { page } = opened;
    await visit(app, page, path);
    await page.getByText('An operator has paused it.').waitFor();
    const names = await page.getByRole('main').getByRole('button').allInnerTexts();
    expect(new Set(names)).toEqual(new Set(['</>\nAPI', 'Refresh', 'Copy', 'Message…']));
    await page.getByRole('button', { name: 'Message…' }).first().click();
    await page.getByRole('dialog').getByText('"user_id"').waitFor();
    expect(opened.complaints).toEqual([]);
  });

  test('one that is not there, and one of another project, is said not to be there', async () => {
    const [project, other] = [await app.createProject(), await app.createProject()];
    const id = (await makeWebhook(other)).split('/').at(-1);
    await using opened = await openDashboard(app, browser, 'admin');
    for (const each of [id, '999999']) {
      await visit(app, opened.page, `/${project.appId}/webhooks/${each}`);
      await opened.page.getByText('This project has no webhook with this ID.').waitFor();
    }
  });

  test.each(LOOKS)('have nothing that axe finds, and fit, in %s at %d', async (colorScheme, width) => {
    const project = await app.createProject();
    const path = await makeWebhook(project);
    await using opened = await openDashboard(app, browser, 'admin', { colorScheme, viewport: { width, height: 900 } });
    const { page } = opened;
    const check = async (what: string) => {
      expect(await findFaults(page), what).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), what).toBe(0);
    };
    const list = `/${project.appId}/webhooks`;
    for (const screen of [list, path]) {
      await visit(app, page, screen);
      // No row or button lies beyond the screen.
      if (width === 1280)
        expect(
          await page.evaluate(
            `[...document.querySelectorAll('.table')].every((each) => each.scrollWidth <= each.clientWidth)`,
          ),
        ).toBe(true);
      await check(screen === path ? 'page' : 'list');
    }
    const dialogs: [string, string][] = [
      [list, 'Add webhook'],
      ...['Edit…', 'Replay…', 'Resume…', 'Message…', 'Resend…', 'Replay from here…'].map((name): [string, string] => [
        path,
        name,
      ]),
    ];
    for (const [screen, name] of dialogs) {
      await visit(app, page, screen);
      await chooseAction(page, name);
      await page.getByRole('dialog').waitFor();
      for (const more of await page.locator('dialog details:not(.recipes) summary').all()) await more.click();
      await check(name);
    }
    expect(opened.complaints).toEqual([]);
  });
});
