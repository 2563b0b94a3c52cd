/**
 * `npm run size`: the figures that docs/scaling.md reckons with. It starts a PostgreSQL of its own, so that nothing else writes to its log.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { Agent, createServer as createHttpServer, request } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { parseConfig } from '../../dist/config/config.js';
import { createContext } from '../../dist/context.js';
import { syntheticUsers } from '../../dist/users/synthetic-users.js';
import { rssMiB } from './processes.mjs';

const HELP = `npm run size -- [options]

Measures this checkout on this machine, with a PostgreSQL of its own in a temporary folder: it uses no database of yours. It needs the programs of
PostgreSQL in /usr/lib/postgresql, 1.4 GiB of disk and two minutes for a million users.

  --users N            users of one project (100000); those above a million are copies
  --logins LIST        prints what so many logins a second need, each with one wallet verification after it, such as 50,500,2000. Without it,
                       prints the bytes of rows, and what single requests cost. Cores are processor time in a second, a day is 24 hours
                       at this rate, and disk is the database and the WAL of two checkpoints
  --seconds N          for so long each rate is kept (20)
  --with LIST          what the service uses besides, of tls (to PostgreSQL), redis (TEST_REDIS_URL) and traces (all are sent)
`;
const { values: given } = parseArgs({
  options: {
    users: { type: 'string', default: '100000' },
    logins: { type: 'string' },
    seconds: { type: 'string', default: '20' },
    with: { type: 'string', default: '' },
    help: { type: 'boolean', default: false },
  },
});
const USERS = Number(given.users);
const extras = given.with.split(',').filter(Boolean);
const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));
const CLIENTS = 32;
/** Of more users, the others are copies of these. */
const SEEDED = 1_000_000;
const SECONDS = 4;
/** The default of PostgreSQL. */
const CHECKPOINT_SECONDS = 300;
/** What has to stay in memory for a login and a verification to be fast. */
const LOGIN_INDEXES = ['users_pkey', 'users_identity_key', 'accounts_address_idx', 'accounts_user_address_key'];
/** The unit of times in /proc. */
const TICK_MS = 10;

const LOGIN = `mutation ($value: String!, $accounts: [AccountInput!]) {
  recordLogin(input: { authMethod: "google", authValue: $value, accounts: $accounts }) { user { id } }
}`;

const cleanup = [];
const stopped = new AbortController();
// Otherwise a signal would leave PostgreSQL behind, with its folder.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => stopped.abort(signal));
let serial = 0;
const print = (line = '') => process.stdout.write(`${line}\n`);
const untilStopped = new Promise((_, reject) => {
  stopped.signal.addEventListener('abort', () => reject(new Error(`Ended by ${stopped.signal.reason}.`)));
});
const work = () =>
  given.logins === undefined ? measure() : measureLogins(given.logins.split(',').map(Number), Number(given.seconds));
try {
  if (given.help) print(HELP);
  else await Promise.race([work(), untilStopped]);
} catch (error) {
  // What is under way fails when PostgreSQL ends, and is not waited for.
  process.on('unhandledRejection', () => undefined);
  process.stderr.write(`${stopped.signal.aborted ? error.message : error.stack}\n`);
  process.exitCode = 1;
} finally {
  for (const close of cleanup.toReversed())
    await Promise.resolve()
      .then(close)
      .catch(() => undefined);
  if (stopped.signal.aborted) process.exit(1);
}

async function measure() {
  const { url, postmaster } = await startPostgres();
  const client = new pg.Client(url);
  await client.connect();
  cleanup.push(() => client.end());
  const row = async (text) => (await client.query(text)).rows[0];

  const context = createContext(parseConfig({ DATABASE_URL: url }), { command: 'bench' });
  await context.open();
  const { appId, appSecret } = await context.services.projects.createProject('Sizes');
  const scope = await context.services.projects.getScope(appId);
  const { accounts } = await context.services.transfers.addUsers(scope, syntheticUsers(USERS, 1));
  await client.query('VACUUM (ANALYZE) users, accounts, changes');
  await context.close();
  print(`${USERS} users, ${accounts} accounts, ${(await row('SHOW server_version')).server_version}\n`);
  const { changes } = await row('SELECT count(*)::int AS changes FROM changes');
  await printSizes(row, { users: USERS, accounts, changes }, 'as written');
  await client.query('VACUUM FULL users');
  await client.query('VACUUM FULL accounts');
  await client.query('VACUUM (ANALYZE) users, accounts');
  await printSizes(row, { users: USERS, accounts }, 'packed');

  const server = await startService(url);
  const { first } = await row('SELECT min(id)::int AS first FROM users');
  const headers = { 'service-app-id': appId, 'service-app-secret': appSecret, 'content-type': 'application/json' };
  const send = createSender(server.url, headers);
  const login = (n, accountsOf) =>
    send('POST', '/graphql', JSON.stringify({ query: LOGIN, variables: { value: `new-${n}`, accounts: accountsOf } }));
  /** The numbers of the users who were registered here. */
  const created = [];
  const someone = (n) => first + ((n * 7_919) % USERS);
  const questions = {
    'get a user': (n) => send('GET', `/server/users/${someone(n)}`),
    'list of 10 with the total': (n) => send('GET', `/server/users?limit=10&page=${1 + (n % 10)}`),
    'login of a new user with an account': (n) => {
      created.push(n);
      return login(n, [{ network: 'ETHEREUM', publicKey: `0x${n.toString(16).padStart(40, '0')}` }]);
    },
    'login of a user who exists': (n) => login(created[n % 1_000], []),
  };
  print(
    '| request | requests/s here | CPU of Node.js, µs | CPU of PostgreSQL, µs | bytes of WAL | of these full pages |',
  );
  print('|---|---:|---:|---:|---:|---:|');
  for (const [name, ask] of Object.entries(questions)) {
    await load(ask, 1_000);
    // What is measured is the steady state: pages are written whole once after each checkpoint.
    await client.query('CHECKPOINT');
    const before = await sample(row, server.process.pid, postmaster.pid);
    const startedAt = performance.now();
    const done = await load(ask, SECONDS * 1_000);
    const seconds = (performance.now() - startedAt) / 1_000;
    // The statistics of a backend arrive within a second.
    await sleep(1_500);
    const after = await sample(row, server.process.pid, postmaster.pid);
    const each = (key) => ((after[key] - before[key]) / done).toFixed(0);
    const rate = (done / seconds).toFixed(0);
    print(`| ${name} | ${rate} | ${each('node')} | ${each('postgres')} | ${each('wal')} | ${each('pages')} |`);
  }
}

/** One row for each rate. Cores are CPU time in a second, so that they hold on a busy machine too. */
async function measureLogins(rates, seconds) {
  const { url, postmaster, bin, folder: data } = await startPostgres(['autovacuum=on']);
  const env = await envOf(url);
  const client = new pg.Client(url);
  await client.connect();
  cleanup.push(() => client.end());
  const row = async (text) => (await client.query(text)).rows[0];
  const userdir = (...args) =>
    execFileSync(process.execPath, [CLI, ...args, '--json'], {
      env: { PATH: process.env.PATH, DATABASE_URL: url },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  const { app_id: appId, app_secret: appSecret } = JSON.parse(userdir('project', 'create', '--name', 'Sizes'));
  userdir('seed', '--project', appId, '--users', String(Math.min(USERS, SEEDED)));
  await client.query(`SET bench.users = ${USERS}; ${readFileSync(new URL('more-users.sql', import.meta.url), 'utf8')}`);
  await client.query('VACUUM (ANALYZE)');
  const { size } = await row('SELECT pg_database_size(current_database())::float8 AS size');
  const { hot } = await row(
    `SELECT sum(pg_relation_size(indexrelid))::float8 AS hot FROM pg_stat_user_indexes WHERE indexrelname IN (${LOGIN_INDEXES.map((name) => `'${name}'`)})`,
  );
  const { rows: known } = await client.query(
    'SELECT auth_method AS "authMethod", auth_value AS "authValue" FROM users ORDER BY id LIMIT 100000',
  );
  const { rows: wallets } = await client.query('SELECT public_key AS address FROM accounts ORDER BY id LIMIT 100000');

  const server = await startService(url, { LOG_LEVEL: 'info', ...env });
  const headers = { 'service-app-id': appId, 'service-app-secret': appSecret, 'content-type': 'application/json' };
  const send = createSender(server.url, headers);
  const query =
    'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { created user { id loginCount } } }';
  const login = async (n) => {
    const isNew = n % 20 === 0;
    const input = isNew ? { authMethod: 'google', authValue: `new-${n}` } : known[(n * 7_919) % known.length];
    await send('POST', '/graphql', JSON.stringify({ query, variables: { input } }));
    const body = JSON.stringify(wallets[(n * 104_729) % wallets.length]);
    await send('POST', '/server/wallets/verify', body);
  };
  print(
    `${USERS} users, ${gib(size)} GiB, ${gib(hot)} of them indexes that a login reads${extras.length > 0 ? `, with ${extras.join(', ')}` : ''}, PostgreSQL ${(await row('SHOW server_version')).server_version}, Node ${process.version}\n`,
  );
  print(
    '| users | logins/s | reached | cores of Node.js | of PostgreSQL | memory of Node.js | of PostgreSQL | disk of PostgreSQL | WAL a day | log a day |',
  );
  print('|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|');
  for (const rate of rates) {
    await keepRate(login, rate, 3);
    await client.query('CHECKPOINT');
    const take = async () => ({
      ...(await sample(row, server.process.pid, postmaster.pid)),
      ...(await row('SELECT pg_current_wal_insert_lsn()::text AS place')),
      log: statSync(server.log).size,
    });
    const before = await take();
    const reached = await keepRate(login, rate, seconds);
    await sleep(1_500);
    const after = await take();
    // A rate that this machine cannot reach is reckoned from the one that it has.
    const each = (key) => (after[key] - before[key]) / reached.logins;
    const cores = (key) => ((each(key) * rate) / 1_000_000).toFixed(2);
    const aDay = (bytes) => `${gib(bytes * 86_400)} GiB`;
    // Each page is written whole once after a checkpoint: so many logins, of which each writes some pages, meet so many of all pages.
    const args = ['-p', join(data, 'pg_wal'), '-s', before.place, '-e', after.place, '--stats'];
    // It fails where the last record is not whole yet; it has counted all before.
    const total = spawnSync(join(bin, 'pg_waldump'), args, { encoding: 'utf8' }).stdout;
    const [records, pages] = [.../^Total +\d+ +(\d+) \[.*?\] +(\d+) /m.exec(total)].slice(1).map(Number);
    const written = (after.pages - before.pages) / 8_192;
    const all = size / 8_192;
    const met = all * (1 - Math.exp(((-written / reached.logins) * rate * CHECKPOINT_SECONDS) / all));
    const wal = (records / reached.logins) * rate + (met * (pages / written)) / CHECKPOINT_SECONDS;
    const memory = [rssMiB(server.process.pid), pssMiB(postmaster.pid)].map((mib) => `${mib.toFixed(0)} MiB`);
    // PostgreSQL keeps the WAL of two checkpoints.
    const disk = `${gib(size + 2 * CHECKPOINT_SECONDS * wal)} GiB`;
    print(
      `| ${[USERS, rate, reached.rate.toFixed(0), cores('node'), cores('postgres'), ...memory, disk, aDay(wal), aDay(each('log') * rate)].join(' | ')} |`,
    );
  }
  const folder = mkdtempSync(join(tmpdir(), 'userdir-dump-'));
  cleanup.push(() => rmSync(folder, { recursive: true, force: true }));
  const dump = join(folder, 'dump');
  const dumped = secondsOf(() => execFileSync(join(bin, 'pg_dump'), ['-Fc', '-f', dump, url]));
  // Twice it may be too large for the disk.
  await server.stop();
  await client.query('DROP SCHEMA public CASCADE');
  await client.query('CHECKPOINT');
  await client.query('CREATE DATABASE restored');
  const target = Object.assign(new URL(url), { pathname: '/restored' }).href;
  const restored = secondsOf(() => execFileSync(join(bin, 'pg_restore'), ['-j', '2', '-d', target, dump]));
  print(`\npg_dump ${dumped} s, ${gib(statSync(dump).size)} GiB; pg_restore -j 2 ${restored} s`);
}

/** The settings for what the service uses besides. */
async function envOf(url) {
  const env = {};
  if (extras.includes('tls')) env.DATABASE_URL = `${url}?sslmode=no-verify`;
  if (extras.includes('redis'))
    Object.assign(env, { REDIS_URL: process.env.TEST_REDIS_URL ?? 'redis://127.0.0.1:6379', RATE_LIMIT: '100000000' });
  if (extras.includes('traces')) {
    const collector = createHttpServer((incoming, response) => incoming.resume().on('end', () => response.end('{}')));
    collector.listen(0, '127.0.0.1');
    await once(collector, 'listening');
    cleanup.push(() => collector.close());
    env.OTEL_EXPORTER_OTLP_ENDPOINT = `http://127.0.0.1:${collector.address().port}`;
  }
  return env;
}

function gib(bytes) {
  return (bytes / 2 ** 30).toFixed(2);
}

function secondsOf(work) {
  const startedAt = performance.now();
  work();
  return ((performance.now() - startedAt) / 1_000).toFixed(1);
}

/** Begins so many logins a second, at most CLIENTS at a time. */
async function keepRate(login, rate, seconds) {
  const startedAt = performance.now();
  const until = startedAt + seconds * 1_000;
  let logins = 0;
  let begun = 0;
  const work = async () => {
    while (performance.now() < until) {
      const dueAt = startedAt + (begun * 1_000) / rate;
      begun += 1;
      if (dueAt > performance.now()) await sleep(dueAt - performance.now());
      serial += 1;
      await login(serial);
      logins += 1;
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, work));
  return { logins, rate: logins / ((performance.now() - startedAt) / 1_000) };
}

async function printSizes(row, counts, state) {
  print(`${state}:\n\n| table | rows | a row with its indexes | table | indexes |\n|---|---:|---:|---:|---:|`);
  for (const [table, rows] of Object.entries(counts)) {
    const { heap, indexes } = await row(
      `SELECT pg_table_size('${table}') AS heap, pg_indexes_size('${table}') AS indexes`,
    );
    const [heapEach, indexesEach] = [heap / rows, indexes / rows];
    print(
      `| ${table} | ${rows} | ${(heapEach + indexesEach).toFixed(0)} B | ${heapEach.toFixed(0)} B | ${indexesEach.toFixed(0)} B |`,
    );
  }
  for (const table of Object.keys(counts)) {
    const { list } = await row(
      `SELECT string_agg(format('%s %s B', indexrelname, round(pg_relation_size(indexrelid)::numeric / ${counts[table]})), ', ' ORDER BY indexrelname) AS list
       FROM pg_stat_user_indexes WHERE relname = '${table}'`,
    );
    print(`\n${list}`);
  }
  print();
}

/** CPU in microseconds and WAL in bytes, since the start. */
async function sample(row, nodePid, postmasterPid) {
  const { wal, fpi } = await row('SELECT wal_bytes::float8 AS wal, wal_fpi::float8 AS fpi FROM pg_stat_wal');
  return { wal, pages: fpi * 8_192, node: cpuOf(nodePid), postgres: sumOf(postmasterPid, cpuOf) };
}

/** The sum over the processes of PostgreSQL. */
function sumOf(postmasterPid, ofProcess) {
  const children = execFileSync('ps', ['-o', 'pid=', '--ppid', String(postmasterPid)], { encoding: 'utf8' });
  const pids = [postmasterPid, ...children.trim().split(/\s+/).map(Number)];
  return pids.reduce((sum, pid) => sum + ofProcess(pid), 0);
}

/** The memory of PostgreSQL. What its processes share counts once. */
function pssMiB(postmasterPid) {
  return sumOf(postmasterPid, (pid) => {
    // A process may have ended since it was listed.
    if (!existsSync(`/proc/${pid}/smaps_rollup`)) return 0;
    return Number(/^Pss: +(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))[1]) / 1_024;
  });
}

function cpuOf(pid) {
  // A process may have ended since it was listed.
  if (!existsSync(`/proc/${pid}/stat`)) return 0;
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS * 1_000;
}

async function load(ask, ms) {
  const until = performance.now() + ms;
  let done = 0;
  const work = async () => {
    while (performance.now() < until) {
      serial += 1;
      await ask(serial);
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, work));
  return done;
}

function createSender(base, headers) {
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
  cleanup.push(() => agent.destroy());
  return (method, path, body) =>
    new Promise((resolve, reject) => {
      const sent = request(new URL(path, base), { method, headers, agent }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk) => {
          text += chunk;
        });
        response.on('end', () => {
          if (response.statusCode === 200 && !text.includes('"errors"')) resolve();
          else reject(new Error(`${response.statusCode} ${text}`));
        });
      });
      sent.on('error', reject);
      sent.end(body);
    });
}

async function startService(url, more = {}) {
  const env = { PATH: process.env.PATH, DATABASE_URL: url, PORT: '0', DEMO: 'off', LOG_LEVEL: 'warn', ...more };
  const log = join(tmpdir(), `userdir-sizes-${process.pid}.log`);
  const logFile = openSync(log, 'w');
  cleanup.push(() => rmSync(log));
  const child = spawn(process.execPath, [CLI, 'serve', '--json'], { env, stdio: ['ignore', 'pipe', logFile] });
  const stop = async () => {
    child.kill();
    if (child.exitCode === null) await once(child, 'exit');
  };
  cleanup.push(stop);
  const [line] = await once(child.stdout, 'data');
  return { process: child, log, stop, url: JSON.parse(String(line)).url };
}

async function startPostgres(more = ['autovacuum=off']) {
  const debian = '/usr/lib/postgresql';
  const newest = readdirSync(debian).sort((a, b) => b - a)[0];
  const bin = join(debian, newest, 'bin');
  const idOf = (flag) => Number(execFileSync('id', [flag, 'postgres']));
  // PostgreSQL refuses to run as root.
  const user = process.getuid() === 0 ? { uid: idOf('-u'), gid: idOf('-g') } : {};
  const folder = mkdtempSync(join(tmpdir(), 'userdir-sizes-'));
  cleanup.push(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid);
  const options = { ...user, cwd: folder, stdio: 'ignore' };
  execFileSync(
    join(bin, 'initdb'),
    ['-D', folder, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-locale'],
    options,
  );
  const port = await freePort();
  if (extras.includes('tls')) {
    const files = ['-keyout', 'server.key', '-out', 'server.crt', '-days', '2', '-subj', '/CN=localhost'];
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...files], options);
    more.push('ssl=on');
  }
  const settings = ['max_wal_size=8GB', 'checkpoint_timeout=30min', 'shared_buffers=512MB', ...more];
  const args = ['-D', folder, '-p', port, '-k', folder, '-h', '127.0.0.1', ...settings.flatMap((each) => ['-c', each])];
  const postmaster = spawn(join(bin, 'postgres'), args.map(String), options);
  cleanup.push(async () => {
    postmaster.kill('SIGINT');
    if (postmaster.exitCode === null) await once(postmaster, 'exit');
  });
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  for (;;) {
    const client = new pg.Client(url);
    const isUp = await client.connect().then(
      () => true,
      () => false,
    );
    await client.end().catch(() => undefined);
    if (isUp) return { url, postmaster, bin, folder };
    if (postmaster.exitCode !== null) throw new Error('PostgreSQL did not start.');
    await sleep(100);
  }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}
