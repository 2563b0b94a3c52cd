import { existsSync } from 'node:fs';
import { type Browser, chromium, type Page } from 'playwright-core';

const CANDIDATES = [
  process.env['CHROMIUM_PATH'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];

/** A Chromium on this machine, if there is one. CI sets REQUIRE_BROWSER, so that its absence fails there. */
export const browserPath = CANDIDATES.find((path) => path !== undefined && existsSync(path));
export const hasBrowser = browserPath !== undefined || process.env['REQUIRE_BROWSER'] !== undefined;

export function launchBrowser(): Promise<Browser> {
  if (browserPath === undefined) throw new Error('There is no Chromium here; set CHROMIUM_PATH.');
  return chromium.launch({
    executablePath: browserPath,
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

/** The address of every request that the page makes from now on, but for what it makes out of itself. */
export function recordRequests(page: Page): string[] {
  const urls: string[] = [];
  page.on('request', (request) => {
    if (!/^(blob|data):/.test(request.url())) urls.push(request.url());
  });
  return urls;
}
