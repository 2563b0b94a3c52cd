import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

/**
 * How long the screens of the dashboard take in Chromium, beside what their questions took the service. The project is the first of the
 * database that DATABASE_URL names:
 *
 *   userdir project create --name Large && userdir seed --project APP_ID --users 1000000
 *   DATABASE_URL=… node test/bench/screens.mjs
 */

const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));
const ROUNDS = 5;
const say = (line) => process.stdout.write(`${line}\n`);
const { DATABASE_URL = '', PATH = '' } = process.env;
const env = { PATH, DATABASE_URL, PORT: '0', DASHBOARD: 'on', DEMO: 'off', LOG_LEVEL: 'error' };
const runJson = (...args) => JSON.parse(execFileSync(process.execPath, [CLI, ...args, '--json'], { env }));

const [project] = runJson('project', 'list');
const [{ id: userId }] = runJson('user', 'search', '--project', project.app_id, '--prefix', 'a');
const operator = `bench-${process.pid}`;
runJson('operator', 'add', operator, '--role', 'admin');
const server = spawn(process.execPath, [CLI, 'serve', '--json'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
const [banner] = await once(server.stdout, 'data');
const { url } = JSON.parse(banner);
const link = new URL(runJson('dashboard', '--operator', operator).url);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
});
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(`${url}${link.pathname}${link.hash}`);
  await page.getByRole('main').getByRole('link').first().click();
  await settled(page);
  const base = new URL(page.url()).pathname.replace(/\/$/, '');
  const hrefs = await page
    .getByRole('navigation', { name: 'Main' })
    .getByRole('link')
    .evaluateAll((links) => links.map(({ pathname }) => pathname));
  say('| screen | shown after, ms | its questions, ms |\n|---|---:|---:|');
  const users = `${base}/users`;
  const filtered = [
    '?page=50000',
    '?start=2025-01-15&method=EMAIL&page=100',
    '?banned=yes',
    '?unseen=2025-01-01',
    '?removed=1',
  ];
  const screens = [...hrefs, ...filtered.map((query) => users + query), `${users}/${userId}`];
  for (const path of screens) {
    const times = [];
    for (let round = 0; round < ROUNDS; round += 1) times.push(await measure(page, `${url}${path}`));
    times.sort((a, b) => a.shown - b.shown);
    const { shown, asked } = times[Math.floor(ROUNDS / 2)];
    say(`| ${path.replace(base, '')} | ${Math.round(shown)} | ${Math.round(asked)} |`);
  }
} finally {
  await browser.close();
  server.kill();
  await once(server, 'close');
  runJson('operator', 'remove', operator);
}

function settled(page) {
  return page.waitForFunction(
    () => document.querySelector('h1') && !document.querySelector('.loading, [aria-busy=true]'),
  );
}

/** The whole page is loaded anew; `asked` is the longest of its questions, as the browser saw it. */
async function measure(page, address) {
  const since = performance.now();
  await page.goto(address);
  await settled(page);
  const shown = performance.now() - since;
  const asked = await page.evaluate(() =>
    Math.max(
      0,
      ...performance
        .getEntriesByType('resource')
        .filter(({ name, initiatorType }) => initiatorType === 'fetch' && name.includes('graphql'))
        .map(({ responseEnd, startTime }) => responseEnd - startTime),
    ),
  );
  return { shown, asked };
}
