import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

/**
 * Makes the pictures of the README and the guides anew, of a service of its own with the demo project: `npm run screenshots -- [DIRECTORY]`.
 * Everything in them is made up, and the secret they show ends with that service.
 */

const HERE = fileURLToPath(new URL('./', import.meta.url));
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
const { url, dashboard } = JSON.parse(banner);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
});
try {
  await picture('graphiql', '/graphql', async (page) => {
    await page.getByRole('button', { name: /^Execute/ }).click();
    await page.getByText('totalCount').nth(1).waitFor();
  });
  await picture('docs', '/docs/reference/listUsers', (page) =>
    page.getByRole('button', { name: 'Copy' }).first().waitFor(),
  );
  await pictureDashboard();
} finally {
  await browser.close();
  server.kill();
  await once(server, 'close');
  await rm(dataDir, { recursive: true });
}

/** The dashboard, whose link works once: in light, in dark and on a phone. */
async function pictureDashboard() {
  const context = await browser.newContext(VIEW);
  const page = await context.newPage();
  const settle = () => page.locator('.loading, [aria-busy=true]').first().waitFor({ state: 'detached' });
  // Passkeys need the name of a host.
  await page.goto(dashboard.replace('127.0.0.1', 'localhost'));
  await page.getByRole('main').getByRole('link').first().click();
  await page.getByRole('link', { name: '12 months' }).click();
  await page.locator('canvas').waitFor();
  await settle();
  await save(page, 'dashboard-overview');

  await page.emulateMedia({ colorScheme: 'dark' });
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Users' }).click();
  await page.getByRole('checkbox', { name: 'Email' }).check();
  await page.getByText(/^\d+ users match the filter$/).waitFor();
  await settle();
  for (const row of [1, 3]) await page.getByRole('row').nth(row).getByRole('checkbox').check();
  await save(page, 'dashboard-users');

  await page.emulateMedia({ colorScheme: 'light' });
  const navigation = page.getByRole('navigation', { name: 'Main' });

  const browserOf = await context.newCDPSession(page);
  await browserOf.send('WebAuthn.enable');
  const options = { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true };
  await browserOf.send('WebAuthn.addVirtualAuthenticator', { options: { ...options, isUserVerified: true } });
  await page.goto(`${new URL(page.url()).origin}/dashboard/passkeys`);
  await page.getByRole('button', { name: 'Add passkey' }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill('laptop');
  await page.getByRole('dialog').getByRole('button', { name: 'Add' }).click();
  await page.getByRole('cell', { name: 'laptop', exact: true }).waitFor();
  await save(page, 'dashboard-passkeys');
  await page.getByRole('link', { name: 'Projects' }).click();
  await page.getByRole('main').getByRole('link').first().click();
  await navigation.getByRole('link', { name: 'Users' }).click();
  await settle();

  await page.setViewportSize({ width: 390, height: 780 });
  await page.getByRole('row').nth(1).getByRole('link').click();
  await page.getByRole('heading', { name: 'Accounts' }).waitFor();
  await settle();
  await save(page, 'dashboard-phone');
  await context.close();
}

/** A page after `prepare`. */
async function picture(name, path, prepare) {
  const page = await browser.newPage(VIEW);
  await page.goto(url + path);
  await prepare(page);
  await save(page, name);
  await page.close();
}

async function save(page, name) {
  await page.mouse.move(0, 0);
  // What has just happened is said for some seconds, over what is below.
  await page.locator('.announcement:not(:empty)').waitFor({ state: 'detached' });
  await page.waitForTimeout(500);
  await page.screenshot({ path: join(target, `${name}.png`) });
}
