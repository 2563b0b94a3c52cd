import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createDatabase, withClient } from './data.mjs';
import { COMMAND, oursEnv, rssMiB, startProcess } from './processes.mjs';

/**
 * `npm run soak`: mixed reads and writes on one process for a long time. Exits with 1 if memory, handles, connections
 * or latency grow after the first quarter by more than the limits below.
 */

const HELP = `npm run soak -- [options]

  --engine NAME        postgres or embedded (postgres)
  --minutes N          (15; 5 on the embedded database)
  --clients N          requests at once (16)
  --database-url URL   a PostgreSQL where databases may be made (BENCH_DATABASE_URL, postgres://postgres@127.0.0.1:5432/postgres)
`;

const { values: given } = parseArgs({
  options: {
    engine: { type: 'string', default: 'postgres' },
    minutes: { type: 'string' },
    clients: { type: 'string', default: '16' },
    'database-url': { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
const isEmbedded = given.engine === 'embedded';
const minutes = Number(given.minutes ?? (isEmbedded ? 5 : 15));
const serverUrl =
  given['database-url'] ?? process.env['BENCH_DATABASE_URL'] ?? 'postgres://postgres@127.0.0.1:5432/postgres';
const USERS = 2_000;
const SAMPLES = 60;

const cleanup = [];

async function main() {
  const dataDir = await mkdtemp(join(tmpdir(), 'userdir-soak-'));
  cleanup.push(() => rm(dataDir, { recursive: true, force: true }));
  const url = isEmbedded ? null : await createDatabase(serverUrl, `userdir_bench_soak_${process.pid}`, cleanup);
  const env = { ...oursEnv(url ?? '', { DATA_DIR: dataDir }) };
  const { app_id: appId, app_secret: appSecret } = await command(env, ['project', 'create', '--name', 'Soak']);
  await command(env, ['seed', '--project', appId, '--users', String(USERS)]);

  const { child, ended } = startProcess([COMMAND, 'serve', '--json'], env);
  cleanup.push(async () => {
    child.kill('SIGTERM');
    await ended;
  });
  const base = JSON.parse(await new Promise((resolve) => child.stdout.once('data', resolve))).url;
  const headers = { 'service-app-id': appId, 'service-app-secret': appSecret };
  const ask = client(base, headers);

  let isOver = false;
  let latencies = [];
  const outcomes = {};
  const clients = Array.from({ length: Number(given.clients) }, async (_, number) => {
    for (let n = 0; !isOver; n += 1) {
      const startedAt = performance.now();
      const outcome = await mixed(ask, number, n);
      latencies.push(performance.now() - startedAt);
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    }
  });

  const samples = [];
  for (let n = 0; n < SAMPLES; n += 1) {
    await sleep((minutes * 60_000) / SAMPLES);
    const window = latencies.sort((a, b) => a - b);
    latencies = [];
    samples.push({
      rssMiB: rssMiB(child.pid),
      handles: readdirSync(`/proc/${child.pid}/fd`).length,
      connections: url === null ? 0 : await connectionsTo(url),
      p50Ms: window[Math.floor(window.length / 2)],
      p99Ms: window[Math.floor(window.length * 0.99)],
      rps: (window.length * SAMPLES) / (minutes * 60),
    });
  }
  isOver = true;
  await Promise.all(clients);
  report(samples, outcomes);
}

/** The nth operation of a client. It removes every third user that it registers, so that rows come and go. */
async function mixed(ask, number, n) {
  const name = `soak.${number}.${n}@example.com`;
  switch (n % 8) {
    case 0: {
      const answer = await ask('POST', '/graphql', {
        query: 'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { id } } }',
        variables: { input: { authMethod: 'email', authValue: name } },
      });
      const id = answer.body.data?.recordLogin.user.id;
      return id !== undefined && n % 3 === 0 ? (await ask('DELETE', `/server/users/${id}`)).status : answer.status;
    }
    case 1:
      return (await ask('GET', `/server/users?limit=20&page=${1 + (n % 50)}`)).status;
    case 2:
      return (await ask('GET', '/server/users/count?login_method=email&start_date=2024-03-01')).status;
    case 3:
      return (await ask('GET', `/server/users/search?email=${name}`)).status;
    case 4:
      return (await ask('POST', '/server/wallets/verify', { address: `0x${n.toString(16).padStart(40, '0')}` })).status;
    case 5:
      return (
        await ask('POST', '/graphql', { query: '{ users(first: 10) { totalCount nodes { id accounts { id } } } }' })
      ).status;
    case 6:
      // Every query is different, so that the query caches must evict entries.
      return (await ask('POST', '/graphql', { query: `{ a${number}_${n}: userCount }` })).status;
    default:
      return (await ask('GET', `/server/users/${1 + (n % USERS)}`)).status;
  }
}

function client(base, headers) {
  const agent = new Agent({ keepAlive: true });
  return (method, path, body) =>
    new Promise((resolve, reject) => {
      const text = body === undefined ? undefined : JSON.stringify(body);
      const more =
        text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
      const asked = request(base + path, { method, agent, headers: { ...headers, ...more } }, (response) => {
        let received = '';
        response
          .setEncoding('utf8')
          .on('data', (chunk) => {
            received += chunk;
          })
          .on('end', () => resolve({ status: response.statusCode, body: JSON.parse(received) }));
      });
      asked.on('error', reject).end(text);
    });
}

function connectionsTo(url) {
  return withClient(url, async (connection) => {
    const { rows } = await connection.query(
      'SELECT count(*)::int AS open FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    );
    return rows[0].open;
  });
}

async function command(env, args) {
  const { child, ended } = startProcess([COMMAND, ...args, '--json'], env);
  let out = '';
  child.stdout.on('data', (text) => {
    out += text;
  });
  const code = await ended;
  if (code !== 0) throw new Error(`userdir ${args.join(' ')} ended with ${code}.`);
  return JSON.parse(out);
}

/** The largest ratio of the last quarter to the second; the first quarter is warm-up. */
const MOST = { rssMiB: 1.2, handles: 1.1, connections: 1.2, p50Ms: 1.5, p99Ms: 2 };

function report(samples, outcomes) {
  const quarter = samples.length / 4;
  const quarters = [0, 1, 2, 3].map((nth) => samples.slice(nth * quarter, (nth + 1) * quarter));
  const print = (line) => process.stdout.write(`${line}\n`);
  print(`${minutes} minutes on ${given.engine}, ${given.clients} at a time, Node ${process.version}\n`);
  print('| medians of each quarter | 1st | 2nd | 3rd | 4th | 4th ÷ 2nd | at most |');
  print('|---|---:|---:|---:|---:|---:|---:|');
  for (const figure of ['rps', ...Object.keys(MOST)]) {
    const medians = quarters.map((part) => median(part.map((sample) => sample[figure])));
    const ratio = medians[3] / medians[1] || 0;
    const most = MOST[figure];
    if (most !== undefined && ratio > most) process.exitCode = 1;
    print(`| ${[figure, ...medians.map((value) => value.toFixed(1)), ratio.toFixed(2), most ?? ''].join(' | ')} |`);
  }
  print(
    `\nAnswers: ${Object.entries(outcomes)
      .map(([status, count]) => `${count} × ${status}`)
      .join(', ')}`,
  );
  const failed = Object.keys(outcomes).filter((status) => !['200', '404'].includes(status));
  if (failed.length > 0) process.exitCode = 1;
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}

async function cleanUp() {
  for (let step = cleanup.pop(); step !== undefined; step = cleanup.pop()) await step().catch(() => undefined);
}

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => cleanUp().then(() => process.exit(1)));
if (given.help) process.stdout.write(HELP);
else await main().finally(cleanUp);
