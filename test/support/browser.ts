import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, chromium, type Page } from 'playwright-core';
import type { Json } from './app.js';
import { PATIENCE } from './waiting.js';

const CANDIDATES = [
  process.env['CHROMIUM_PATH'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];

/** The path of Chromium, if it is installed. CI sets REQUIRE_BROWSER, so that a missing Chromium fails there. */
export const browserPath = CANDIDATES.find((path) => path !== undefined && existsSync(path));
export const hasBrowser = browserPath !== undefined || process.env['REQUIRE_BROWSER'] !== undefined;

export async function launchBrowser(...args: readonly string[]): Promise<Browser> {
  if (browserPath === undefined) throw new Error('There is no Chromium here; set CHROMIUM_PATH.');
  const browser = await chromium.launch({
    executablePath: browserPath,
    args: [
      ...`--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
        --disable-component-update --disable-sync`.split(/\s+/),
      ...args,
    ],
  });
  const newContext = browser.newContext.bind(browser);
  // `newPage` asks for a context, too.
  browser.newContext = async (options) => {
    const context = await newContext(options);
    context.setDefaultTimeout(PATIENCE.timeout);
    return context;
  };
  return browser;
}

/** The URL of every request that the page makes from now on, except `data:` and `blob:` URLs. */
export function recordRequests(page: Page): string[] {
  const urls: string[] = [];
  page.on('request', (request) => {
    if (!/^(blob|data):/.test(request.url())) urls.push(request.url());
  });
  return urls;
}

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** What axe finds on a page that not everyone can use, a line each; by one of its rules only, if it is named. */
export async function findFaults(page: Page, rule?: string): Promise<string[]> {
  // Evaluated like this, the Content-Security-Policy of the page does not refuse it.
  await page.evaluate(AXE);
  const { violations } = (await page.evaluate(`axe.run(${rule ? JSON.stringify({ runOnly: [rule] }) : ''})`)) as Json;
  return violations.map(
    ({ id, nodes }: Json) => `${id}: ${nodes.map((node: Json) => `${node.target} ${node.failureSummary}`).join('; ')}`,
  );
}
