import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { expect } from 'vitest';
import { type OperatorRole, THE_OPERATOR } from '#dist/domain/operators.js';
import type { TestApp } from './app.js';
import { recordRequests } from './browser.js';

/** The dashboard in a browser, as one operator sees it. */
export interface DashboardPage {
  readonly page: Page;
  /** The name of the operator. */
  readonly operator: string;
  /** Errors that the page or the browser reported, such as violations of the Content-Security-Policy. */
  readonly complaints: string[];
  /** Requests to other machines. */
  strangers(): string[];
  [Symbol.asyncDispose](): Promise<void>;
}

let operators = 0;

/** A new operator's link to log in. */
export async function createLink(app: TestApp, role: OperatorRole): Promise<{ operator: string; url: string }> {
  const operator = `${role}-page-${process.pid}-${operators++}`;
  await app.context.services.operators.addOperator(THE_OPERATOR, operator, role);
  const { token } = await app.context.services.operators.createLink(THE_OPERATOR, operator);
  return { operator, url: `${app.url}/dashboard#login=${token}` };
}

/** A new operator logs in by a link, and sees the projects. */
export async function openDashboard(
  app: TestApp,
  browser: Browser,
  role: OperatorRole,
  options: BrowserContextOptions = {},
): Promise<DashboardPage> {
  const { operator, url } = await createLink(app, role);
  const context = await browser.newContext({ reducedMotion: 'reduce', ...options });
  const page = await context.newPage();
  const requests = recordRequests(page);
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.goto(url);
  await page.getByRole('heading', { name: 'Projects' }).waitFor();
  return {
    page,
    operator,
    complaints,
    strangers: () => requests.filter((requested) => !requested.startsWith(`${app.url}/`)),
    [Symbol.asyncDispose]: () => context.close(),
  };
}

/** Waits until nothing loads any more: no placeholder is shown, and no table is being replaced. */
export async function settle(page: Page): Promise<void> {
  const busy = page.locator('.loading, [aria-busy="true"]');
  await expect.poll(() => busy.count()).toBe(0);
}

/** Goes to a path below /dashboard as a deep link, and waits for what it shows. */
export async function visit(app: TestApp, page: Page, path: string): Promise<void> {
  await page.goto(`${app.url}/dashboard${path}`);
  await page.getByRole('heading', { level: 1 }).waitFor();
  await settle(page);
}

/** Clicks a button of the screen, or of its menu of quiet actions. */
export async function chooseAction(page: Page, name: string): Promise<void> {
  const button = page.getByRole('button', { name: new RegExp(`(^|\\s)${name}`) }).first();
  const more = page.locator('.screen-header summary', { hasText: 'More' });
  await button.or(more).first().waitFor();
  if (!(await button.isVisible())) await more.click();
  await button.click();
}
