import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

/**
 * Makes the pictures of the README anew, of a service of its own with the demo project: `npm run screenshots -- [DIRECTORY]`.
 * Everything in them is made up, and the secret they show ends with that service.
 */

const HERE = fileURLToPath(new URL('.', import.meta.url));
const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));
const VIEW = { viewport: { width: 1280, height: 740 }, colorScheme: 'light', reducedMotion: 'reduce' };

const target = process.argv[2] ?? join(HERE, 'screenshots');
await mkdir(target, { recursive: true });
const dataDir = await mkdtemp(join(tmpdir(), 'userdir-screenshots-'));
const server = spawn(process.execPath, [CLI, 'serve', '--json'], {
  env: { PATH: process.env.PATH, PORT: '0', DATA_DIR: dataDir, LOG_LEVEL: 'error' },
  stdio: ['ignore', 'pipe', 'inherit'],
});
const [banner] = await once(server.stdout, 'data');
const { url } = JSON.parse(banner);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
});
try {
  await picture('graphiql', '/graphql', async (page) => {
    await page.getByRole('button', { name: /^Execute/ }).click();
    await page.getByText('totalCount').nth(1).waitFor();
  });
  await picture('docs', '/docs', (page) => page.locator('.opblock').nth(5).waitFor());
} finally {
  await browser.close();
  server.kill();
  await once(server, 'close');
  await rm(dataDir, { recursive: true });
}

/** A page as somebody sees it who has done what `prepare` does. */
async function picture(name, path, prepare) {
  const page = await browser.newPage(VIEW);
  await page.goto(url + path);
  await prepare(page);
  await page.mouse.move(0, 0);
  await page.waitForTimeout(500);
  await page.screenshot({ path: join(target, `${name}.png`) });
  await page.close();
}
