/**
 * The figures that docs/scaling.md reckons with: bytes of users and accounts, bytes of WAL and CPU of a request. It starts a PostgreSQL of
 * its own, so that nothing else writes to its log:
 *
 *   node test/bench/sizes.mjs [USERS]
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { parseConfig } from '../../dist/config/config.js';
import { createContext } from '../../dist/context.js';
import { syntheticUsers } from '../../dist/users/synthetic-users.js';

const USERS = Number(process.argv[2] ?? 100_000);
const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));
const CLIENTS = 32;
const SECONDS = 4;
/** The unit of times in /proc. */
const TICK_MS = 10;

const LOGIN = `mutation ($value: String!, $accounts: [AccountInput!]) {
  recordLogin(input: { authMethod: "google", authValue: $value, accounts: $accounts }) { user { id } }
}`;

const cleanup = [];
let serial = 0;
const print = (line = '') => process.stdout.write(`${line}\n`);
try {
  await measure();
} finally {
  for (const close of cleanup.toReversed()) await close();
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
  const children = execFileSync('ps', ['-o', 'pid=', '--ppid', String(postmasterPid)], { encoding: 'utf8' });
  const pids = children.trim().split(/\s+/).map(Number);
  return {
    wal,
    pages: fpi * 8_192,
    node: cpuOf(nodePid),
    postgres: pids.reduce((sum, pid) => sum + cpuOf(pid), cpuOf(postmasterPid)),
  };
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

async function startService(url) {
  const env = { PATH: process.env.PATH, DATABASE_URL: url, PORT: '0', DEMO: 'off', LOG_LEVEL: 'warn' };
  const child = spawn(process.execPath, [CLI, 'serve', '--json'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  cleanup.push(async () => {
    child.kill();
    if (child.exitCode === null) await once(child, 'exit');
  });
  const [line] = await once(child.stdout, 'data');
  return { process: child, url: JSON.parse(String(line)).url };
}

async function startPostgres() {
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
  const settings = ['max_wal_size=8GB', 'checkpoint_timeout=30min', 'shared_buffers=512MB', 'autovacuum=off'];
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
    if (isUp) return { url, postmaster };
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
