import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';
import type { Json } from './app.js';
import { PATIENCE } from './waiting.js';

const CANDIDATES = [
  process.env['CHROMIUM_PATH'],
  // The same browser without what only a screen needs: a page costs it half as much.
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];

/** The path of Chromium, if it is installed. CI sets REQUIRE_BROWSER, so that a missing Chromium fails there. */
const browserPath = CANDIDATES.find((path) => path !== undefined && existsSync(path));
export const hasBrowser = browserPath !== undefined || process.env['REQUIRE_BROWSER'] !== undefined;

/** The name under which the service stands behind TLS in these tests. */
export const TLS_NAME = 'users.example.com';

/** One process draws all pages: a new one for each takes a third of the processor's time. */
const SWITCHES = `--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
  --disable-component-update --disable-sync --ignore-certificate-errors --renderer-process-limit=1`.split(/\s+/);

async function launch(): Promise<Browser> {
  if (browserPath === undefined) throw new Error('There is no Chromium here; set CHROMIUM_PATH.');
  const browser = await chromium.launch({
    executablePath: browserPath,
    args: [...SWITCHES, `--host-resolver-rules=MAP ${TLS_NAME} 127.0.0.1`],
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

/** The browser of this worker, which all of its files share. It ends with the worker. */
let shared: Promise<Browser> | undefined;

/** A browser for the tests of the calling file or `describe`, from `beforeAll` on. What they leave open is closed after them. */
export function useBrowser(): Browser {
  let browser: Browser | undefined;
  beforeAll(async () => {
    shared ??= launch();
    browser = await shared;
  });
  afterAll(async () => {
    await Promise.all((browser?.contexts() ?? []).map((context) => context.close()));
  });
  return new Proxy({} as Browser, {
    get(_, key) {
      if (browser === undefined) throw new Error('The browser of these tests starts in beforeAll.');
      const value = Reflect.get(browser, key);
      return typeof value === 'function' ? value.bind(browser) : value;
    },
  });
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
