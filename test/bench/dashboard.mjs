/**
 * How long the screens of the dashboard wait for the service, in Chromium, beside the same question to the API:
 *
 *   TEST_DATABASE_URL=postgres://… node test/bench/dashboard.mjs [USERS]
 *
 * Each screen is opened VISITS times by its address, as from a link. A screen's figure is its slowest operation, from the browser.
 */
import { chromium } from 'playwright-core';
import { prepareData } from './data.mjs';
import { startServer, userdir } from './processes.mjs';

const SERVER = process.env.TEST_DATABASE_URL;
if (SERVER === undefined) throw new Error('Set TEST_DATABASE_URL to a PostgreSQL where databases may be created.');
const USERS = Number(process.argv[2] ?? 1_000_000);
const VISITS = 9;

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const log = (line) => process.stderr.write(`${line}\n`);

const cleanup = [];
const data = await prepareData(
  { serverUrl: SERVER, users: USERS, smallProjects: 20, keep: false, reuse: true, needsPeers: false, log },
  cleanup,
);
const server = await startServer('ours', data, 10, { DASHBOARD: 'on' });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
});
try {
  await measure();
} finally {
  await browser.close();
  await server.stop();
}

async function measure() {
  const { url: link } = await userdir(data.ours, ['dashboard'], { DASHBOARD: 'on', PORT: new URL(server.url).port });
  const page = await browser.newPage();
  await page.goto(server.url + new URL(link).pathname + new URL(link).hash);
  await page.getByRole('main').getByRole('link').first().waitFor();
  const pages = Math.ceil(data.users / 25);
  const screens = [
    ['Projects', '', null],
    ['Overview, 400 days', `/${data.appId}?from=2025-09-01&to=2026-10-05`, '/server/users/count'],
    ['Users, first page', `/${data.appId}/users`, '/server/users?limit=25'],
    ['Users, last page', `/${data.appId}/users?page=${pages}`, `/server/users?limit=25&page=${pages}`],
    [
      'Users by wallet, from a day on',
      `/${data.appId}/users?method=WALLET&start=2026-01-15`,
      '/server/users?limit=25&login_method=wallet&start_date=2026-01-15',
    ],
    ['A user', `/${data.appId}/users/${data.firstId + 7}`, `/server/users/${data.firstId + 7}`],
    ['Secrets', `/${data.appId}/secrets`, null],
    ['Bans', `/${data.appId}/bans`, null],
    ['Audit', `/${data.appId}/audit`, null],
    ['Status', '/status', null],
  ];
  process.stdout.write(
    `| screen, at ${data.users.toLocaleString('en')} users | its slowest operation | ms | the API, ms |\n|---|---|---:|---:|\n`,
  );
  for (const [name, path, api] of screens) {
    const operations = [];
    for (let visit = 0; visit < VISITS; visit += 1)
      operations.push(await visitScreen(page, `${server.url}/dashboard${path}`));
    const asked = api === null ? '' : (await timeApi(api)).toFixed(1);
    const slowest = operations.toSorted((a, b) => a.ms - b.ms)[Math.floor(VISITS / 2)];
    process.stdout.write(`| ${name} | ${slowest.operation} | ${slowest.ms.toFixed(1)} | ${asked} |\n`);
  }
}

/** The longest wait for an operation while a screen opens. */
async function visitScreen(page, address) {
  const waits = [];
  const record = async (request) => {
    if (!request.url().endsWith('/dashboard/graphql')) return;
    const { requestStart, responseEnd } = request.timing();
    waits.push({ ms: responseEnd - requestStart, operation: /(?:query|mutation) (\w+)/.exec(request.postData())?.[1] });
  };
  page.on('requestfinished', record);
  await page.goto(address, { waitUntil: 'networkidle' });
  page.off('requestfinished', record);
  if (waits.length === 0) throw new Error(`${address} asked nothing.`);
  return waits.toSorted((a, b) => b.ms - a.ms)[0];
}

async function timeApi(path) {
  const times = [];
  const headers = { 'service-app-id': data.appId, 'service-app-secret': data.appSecret };
  for (let time = 0; time < VISITS; time += 1) {
    const startedAt = performance.now();
    const response = await fetch(server.url + path, { headers });
    await response.arrayBuffer();
    if (response.status !== 200) throw new Error(`${path}: ${response.status}`);
    times.push(performance.now() - startedAt);
  }
  return median(times);
}
