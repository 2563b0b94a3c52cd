import { describe, expect, test } from 'vitest';
import { useTestApp } from '../support/app.js';
import { hasBrowser, useBrowser } from '../support/browser.js';
import { chooseAction, type DashboardPage, openDashboard, settle, visit } from '../support/dashboard-page.js';

/** One person with several logins, as an operator sees them. These tests need Chromium. */
describe.skipIf(!hasBrowser)('on the page of a user', () => {
  const app = useTestApp();
  const browser = useBrowser();

  /** Two users, with the page of the first. */
  async function open(
    role: 'support' | 'viewer',
  ): Promise<DashboardPage & { path: (id: number) => string; ids: number[] }> {
    const project = await app.createProject('Shop');
    await project.addUsers(
      { auth_method: 'google', auth_value: 'g-1', login_count: 1, created_at: '2026-01-02' },
      {
        auth_method: 'email',
        auth_value: 'ada@example.com',
        external_id: 'c-1',
        login_count: 2,
        created_at: '2026-01-01',
      },
    );
    const { body } = await project.rest('/server/users');
    const ids: number[] = body.result.users.map(({ id }: { id: number }) => id);
    const path = (id: number) => `/${project.appId}/users/${id}`;
    const opened = await openDashboard(app, browser, role);
    await visit(app, opened.page, path(ids[0] as number));
    return {
      ...opened,
      path,
      ids,
      strangers: opened.strangers,
      [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
    };
  }

  test('an identity is linked, made primary and unlinked, and each can be undone', async () => {
    await using opened = await open('support');
    const { page, complaints } = opened;
    const dialog = page.getByRole('dialog');
    const button = (name: string | RegExp) => page.getByRole('button', { name, exact: true });
    const identities = () =>
      page.getByRole('region', { name: 'Identities' }).locator('tbody .main-cell bdi').allInnerTexts();
    const undo = async (text: string) => {
      await page.getByText(text).waitFor();
      await button('Undo').click();
      await page.getByText(text).waitFor({ state: 'detached' });
    };
    const link = async () => {
      await button('Link…').click();
      await dialog.getByLabel('Method').fill('github');
      await dialog.getByLabel('Value').fill('h-1');
      await dialog.getByLabel('Email', { exact: true }).fill('ada@work.example');
      await dialog.getByText('The email is verified').click();
      await dialog.getByRole('button', { name: 'Link', exact: true }).click();
      await page.getByText('The identity is linked.').waitFor();
    };
    await link();
    await expect.poll(identities).toEqual(['g-1', 'google', 'h-1', 'github']);
    await page.getByText('verified', { exact: true }).waitFor();
    await undo('The identity is linked.');
    await expect.poll(identities).toEqual(['g-1', 'google']);

    await link();
    await button('Make primary… h-1').click();
    await dialog.getByRole('button', { name: 'Make primary' }).click();
    await page.getByText('Another identity is primary.').waitFor();
    await expect.poll(identities).toEqual(['h-1', 'github', 'g-1', 'google']);
    await undo('Another identity is primary.');
    await expect.poll(identities).toEqual(['g-1', 'google', 'h-1', 'github']);
    await button('Unlink… g-1').click();
    await dialog.getByText('The oldest other identity becomes primary.').waitFor();
    await dialog.getByRole('button', { name: 'Unlink' }).click();
    await page.getByText('The identity is unlinked.').waitFor();
    await expect.poll(identities).toEqual(['h-1', 'github']);
    await undo('The identity is unlinked.');
    await expect.poll(identities).toEqual(['g-1', 'google', 'h-1', 'github']);
    expect(complaints).toEqual([]);
  });

  test('metadata is edited as JSON, and what is none is said at it', async () => {
    await using opened = await open('support');
    const { page } = opened;
    const dialog = page.getByRole('dialog');
    await chooseAction(page, 'Edit… metadata');
    await dialog.getByLabel('Metadata').fill('{ "plan": ');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByRole('alert').getByText('Metadata must be a JSON object').waitFor();
    await dialog.getByLabel('Metadata').fill('{ "plan": "pro" }');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(await page.getByRole('main').locator('pre').innerText()).toBe('{\n  "plan": "pro"\n}');
  });

  test('a merge is shown before it is done, and leads to the user who stays', async () => {
    await using opened = await open('support');
    const { page, path, ids, complaints } = opened;
    const [from, into] = ids as [number, number];
    const dialog = page.getByRole('dialog');
    await chooseAction(page, 'Merge…');
    await dialog.getByLabel('The user who stays').fill('nobody');
    await dialog.getByRole('button', { name: 'Show what moves' }).click();
    await dialog.getByText('No other user of this project matches.').waitFor();
    await dialog.getByLabel('The user who stays').fill('c-1');
    await dialog.getByRole('button', { name: 'Show what moves' }).click();
    await dialog.getByText(`google g-1 → user ${into}`).waitFor();
    await dialog.getByText('1 + 2 = 3').waitFor();
    await dialog.getByText('It cannot be undone.').waitFor();
    await dialog.getByRole('button', { name: 'Merge', exact: true }).click();
    await page.waitForURL(`**${path(into)}`);
    await page.getByTitle('g-1').waitFor();
    await visit(app, page, path(from));
    await page.getByRole('link', { name: `merged into user ${into}` }).waitFor();
    expect(complaints).toEqual([]);
  });

  test('a ban is of all identities, and a viewer is offered no change', async () => {
    await using opened = await open('support');
    const { page } = opened;
    const dialog = page.getByRole('dialog');
    await chooseAction(page, 'Ban…');
    await dialog.getByText('None of the identities of a banned user can log in').waitFor();
    await dialog.getByLabel('Reason').fill('spam');
    await dialog.getByText(/^The same with GraphQL, curl, userdir$/).click();
    // What the page sends is what a backend sends.
    await dialog.getByText('banUsers(ids: $ids, reason: $reason,').first().waitFor();
    await dialog.getByRole('button', { name: 'Ban 1 user' }).click();
    await chooseAction(page, 'Change ban…');
    expect(await dialog.getByLabel('Reason').inputValue()).toBe('spam');
    await dialog.getByLabel('Reason').fill('fraud');
    await dialog.getByRole('button', { name: 'Change' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByText('fraud').waitFor();
    await chooseAction(page, 'Unban…');
    await dialog.getByRole('button', { name: 'Unban 1 user' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByText('fraud').waitFor({ state: 'detached' });

    await using viewing = await open('viewer');
    await settle(viewing.page);
    const offers = await viewing.page.getByRole('main').getByRole('button', { name: /…/ }).count();
    expect(offers).toBe(0);
  });

  test('a timeline has what is known: registration, logins, links, bans, removals and merges, each once', async () => {
    const project = await app.createProject();
    const ask = async (mutation: string) => {
      const { data, errors } = await project.graphql(`mutation { ${mutation} }`);
      expect(errors).toBeUndefined();
      return data;
    };
    const login = 'recordLogin(input: { authMethod: "email", authValue: "ada@example.com" }) { user { id } }';
    const { id } = (await ask(login)).recordLogin.user;
    await ask(login);
    await ask(`linkIdentity(userId: ${id}, input: { authMethod: "google", authValue: "g-1" }) { user { id } }`);
    await ask('recordLogin(input: { authMethod: "google", authValue: "g-1" }) { created }');
    for (const change of ['ban', 'unban', 'delete', 'restore'])
      await ask(`${change}User(id: ${id}) { ${change === 'delete' ? 'id' : 'user { id }'} }`);
    const other = (await ask(login.replace('ada', 'bo'))).recordLogin.user.id;
    await ask(`mergeUsers(from: ${other}, into: ${id}) { user { id } }`);
    await using opened = await openDashboard(app, browser, 'viewer');
    const { page } = opened;
    await visit(app, page, `/${project.appId}/users/${id}`);
    const shown = async () =>
      (await page.locator('.timeline li .long > bdi:not(.quiet)').allInnerTexts()).filter(
        (words) => !words.startsWith('logged in last by email ada'),
      );
    const links = ['logged in last by google g-1', 'linked an identity', 'registered'];
    const bans = ['restored a user', 'removed a user', 'ended a ban', 'banned a user or an identity'];
    expect(await shown()).toEqual(['merged two users', 'logged in: the last of 4 logins', ...bans, ...links]);
    await visit(app, page, `/${project.appId}/users/${other}`);
    expect(await shown()).toEqual([`was merged into user ${id}`, 'registered']);
    expect(await page.getByText('linked an identity').count()).toBe(0);
    expect(opened.complaints).toEqual([]);
  });
});
