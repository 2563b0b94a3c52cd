import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { createDatabase, databaseUrl, dropDatabase, stellarAddress, withClient } from './data.mjs';
import { COMMAND, cpuSeconds, oursEnv, rssMiB, startProcess, userdir } from './processes.mjs';

/** The columns that psql copies: all that an import writes, and the ids. */
const COLUMNS = {
  users:
    'project_id, id, auth_method, auth_value, auth_value_key, identity_email, wallet, external_id, created_at, last_login, login_count',
  accounts: 'project_id, id, user_id, network, public_key, address_key, wallet_type',
  bans: 'project_id, auth_method, auth_value, auth_value_key, created_at',
};

async function importFile(url, appId, file, more = []) {
  const startedAt = performance.now();
  const args = [COMMAND, 'user', 'import', '--project', appId, '--json', ...more, file];
  const { child, ended } = startProcess(args, oursEnv(url), ['ignore', 'pipe', 'inherit']);
  const samples = [];
  let cpu = 0;
  const timer = setInterval(() => {
    samples.push(rssMiB(child.pid));
    cpu = cpuSeconds(child.pid) ?? cpu;
  }, 100);
  const printed = text(child.stdout);
  const code = await ended;
  clearInterval(timer);
  const seconds = (performance.now() - startedAt) / 1_000;
  if (code !== 0) throw new Error(`The import ended with ${code}.`);
  const rss = samples.filter((value) => value !== null && !Number.isNaN(value));
  const quarter = Math.ceil(rss.length / 4);
  const quarters = [0, 1, 2, 3].map((nth) => Math.max(...rss.slice(nth * quarter, (nth + 1) * quarter)));
  return { seconds, cpuSeconds: cpu, peakRssMiBByQuarter: quarters, report: JSON.parse(await printed) };
}

/** The commands of psql that copy both tables to files, or from them. */
function copies(direction, directory) {
  return Object.entries(COLUMNS).map(
    ([table, columns]) => `\\copy ${table} (${columns}) ${direction} '${join(directory, table)}'`,
  );
}

async function psql(url, commands) {
  const args = ['-X', '-q', '-1', '-v', 'ON_ERROR_STOP=1', ...commands.flatMap((command) => ['-c', command]), url];
  await promisify(execFile)('psql', args);
}

async function expectUsers(url, expected) {
  const { rows } = await withClient(url, (client) => client.query('SELECT count(*)::int AS users FROM users'));
  if (rows[0].users !== expected) throw new Error(`${rows[0].users} of ${expected} users arrived.`);
}

async function writeLines(file, lines, lineOf) {
  const out = createWriteStream(file);
  for (let line = 0; line < lines; line += 1) {
    if (!out.write(`${JSON.stringify(lineOf(line))}\n`)) await once(out, 'drain');
  }
  out.end();
  await once(out, 'close');
}

/** How much of an import is written when it is looked at. */
const SHARES = [0.1, 0.25, 0.5, 0.75, 1];
/** What was promised of each: at least so many times as fast as what it is compared with. */
const TO_REACH = { create: 0.6, update: 0.5, unchanged: 0.5 };

/**
 * The import of users with everything that a line can have, and of some bans, into an empty database by the command; then lines that change every
 * user, and these again, with --on-conflict update. Beside them psql's \copy of the rows that were created into an empty database.
 */
export async function measureFirstImport({ options, cleanup, print }) {
  const name = `userdir_bench_import_${randomBytes(4).toString('hex')}`;
  const url = await createDatabase(options.serverUrl, name, cleanup);
  const { app_id: appId } = await userdir(url, ['project', 'create', '--name', 'Import']);
  cleanup.push(() => dropDatabase(options.serverUrl, `${name}_copy`));
  await withClient(options.serverUrl, (client) => client.query(`CREATE DATABASE "${name}_copy" TEMPLATE "${name}"`));
  const directory = await mkdtemp(join(tmpdir(), 'userdir-bench-import-'));
  cleanup.push(() => rm(directory, { recursive: true, force: true }));
  const [file, changed] = ['users.ndjson', 'changed.ndjson'].map((each) => join(directory, each));
  const isBan = (line) => line % 1_000 === 999;
  await writeLines(file, options.lines, (line) => (isBan(line) ? banLine(line) : fullLine(line)));
  await changeLines(file, changed);
  const users = options.lines - Math.floor(options.lines / 1_000);
  // Nothing pays for what was written before.
  const settled = async (work) => {
    await withClient(options.serverUrl, (client) => client.query('CHECKPOINT'));
    return work();
  };

  const { measured: create, places } = await settled(() => watchImport(url, () => importFile(url, appId, file), users));
  await expectUsers(url, users);
  await psql(url, copies('TO', directory));
  const copyUrl = databaseUrl(options.serverUrl, `${name}_copy`);
  const copy = await settled(() => timed(() => psql(copyUrl, copies('FROM', directory))));
  await expectUsers(copyUrl, users);
  const again = () => settled(() => importFile(url, appId, changed, ['--on-conflict', 'update']));
  const [update, unchanged] = [await again(), await again()];
  for (const [outcome, { report }] of Object.entries({ created: create, updated: update, unchanged })) {
    if (report[outcome] !== users) throw new Error(`${report[outcome]} of ${users} users were ${outcome}.`);
  }

  printShares(places, options.lines, create, print);
  const row = (title, { seconds, cpuSeconds: cpu, peakRssMiBByQuarter: memory }, base, toReach) => {
    const ratio = base === undefined ? '' : `${(base.seconds / seconds).toFixed(2)} (to reach: ${toReach})`;
    const ours = memory === undefined ? '|' : `${cpu.toFixed(1)} | ${memory.map((mib) => mib.toFixed(0)).join(', ')}`;
    print(`| ${title} | ${seconds.toFixed(1)} | ${(options.lines / seconds).toFixed(0)} | ${ratio} | ${ours} |`);
  };
  print(`\n| ${options.lines} lines | seconds | lines/s | as fast as | CPU, s | peak RSS by quarters, MiB |`);
  print('|---|---:|---:|---|---:|---|');
  row('psql \\copy', copy);
  row('create, and COPY', create, copy, TO_REACH.create);
  row('update of all, and the creation', update, create, TO_REACH.update);
  row('unchanged again, and COPY', unchanged, copy, TO_REACH.unchanged);
  return { firstImport: { create, places, copy, update, unchanged } };
}

/** What was asked of files of another system: at most so many times the seconds and the memory of the same users in our own lines. */
const MOST_OF_A_MOVE = 1.15;

/**
 * Users of Auth0 as NDJSON and as one JSON array, and the same users as an export of ours, each by the command into an empty database. They take
 * turns, and each round begins with another one.
 */
export async function measureMoves({ options, cleanup, print, median }) {
  const name = `userdir_bench_moves_${randomBytes(4).toString('hex')}`;
  const template = await createDatabase(options.serverUrl, name, cleanup);
  const { app_id: appId } = await userdir(template, ['project', 'create', '--name', 'Moves']);
  const directory = await mkdtemp(join(tmpdir(), 'userdir-bench-moves-'));
  cleanup.push(() => rm(directory, { recursive: true, force: true }));
  const [lines, array, own] = ['auth0.ndjson', 'auth0.json', 'own.ndjson'].map((file) => join(directory, file));
  await writeLines(lines, options.lines, auth0User);
  await writeArray(lines, array);

  const copyName = `${name}_copy`;
  cleanup.push(() => dropDatabase(options.serverUrl, copyName));
  async function importAnew(file, more, look = () => undefined) {
    await dropDatabase(options.serverUrl, copyName);
    await withClient(options.serverUrl, async (client) => {
      await client.query(`CREATE DATABASE "${copyName}" TEMPLATE "${name}"`);
      await client.query('CHECKPOINT');
    });
    const url = databaseUrl(options.serverUrl, copyName);
    const measured = await importFile(url, appId, file, more);
    await expectUsers(url, options.lines);
    await look(url);
    return { ...measured, rss: Math.max(...measured.peakRssMiBByQuarter) };
  }

  // The first import of all gives the lines of ours, and is not counted.
  await importAnew(lines, ['--from', 'auth0'], async (url) => {
    const { child, ended } = startProcess([COMMAND, 'user', 'export', '--project', appId], oursEnv(url));
    await pipeline(child.stdout, createWriteStream(own));
    if ((await ended) !== 0) throw new Error('The export failed.');
  });
  const kinds = [
    ['our own lines', own, []],
    ['Auth0, NDJSON', lines, ['--from', 'auth0']],
    ['Auth0, one array', array, ['--from', 'auth0']],
  ].map(([title, file, more]) => ({ title, file, more, runs: [] }));
  for (let round = 0; round < options.rounds; round += 1)
    for (let turn = 0; turn < kinds.length; turn += 1) {
      const { file, more, runs } = kinds[(round + turn) % kinds.length];
      runs.push(await importAnew(file, more));
    }

  print(
    `| ${options.lines} users, ${options.rounds} rounds, medians | seconds | CPU, s | peak RSS, MiB | seconds and RSS ÷ ours (at most ${MOST_OF_A_MOVE}) |`,
  );
  print('|---|---:|---:|---:|---:|');
  const of = ({ runs }, what) => median(runs.map((run) => run[what]));
  const [base] = kinds;
  for (const kind of kinds) {
    const [seconds, cpu, rss] = ['seconds', 'cpuSeconds', 'rss'].map((what) => of(kind, what));
    const ratios = `${(seconds / of(base, 'seconds')).toFixed(2)}, ${(rss / of(base, 'rss')).toFixed(2)}`;
    print(
      `| ${kind.title} | ${seconds.toFixed(1)} | ${cpu.toFixed(1)} | ${rss.toFixed(0)} | ${kind === base ? '' : ratios} |`,
    );
  }
  return { moves: kinds.map(({ title, runs }) => ({ title, runs })) };
}

const PROVIDERS = ['auth0', 'google-oauth2', 'github', 'windowslive'];

function auth0User(line) {
  const provider = PROVIDERS[line % PROVIDERS.length];
  const id = randomBytes(12).toString('hex');
  const at = Date.UTC(2022, 0, 1) + line * 120_000;
  return {
    user_id: `${provider}|${id}`,
    email: `person.${line}@example.com`,
    email_verified: line % 10 > 0,
    name: `Person ${line}`,
    nickname: `person${line}`,
    picture: `https://pictures.example.com/${id}.png`,
    created_at: new Date(at).toISOString(),
    updated_at: new Date(at + 86_400_000).toISOString(),
    last_login: new Date(at + (line % 500) * 3_600_000).toISOString(),
    last_ip: '192.0.2.7',
    logins_count: line % 100,
    app_metadata: { plan: line % 3 === 0 ? 'gold' : 'free' },
    identities: [{ provider, user_id: id, connection: provider, isSocial: provider !== 'auth0' }],
  };
}

/** The records of a file by lines as one JSON array. */
async function writeArray(from, to) {
  const out = createWriteStream(to);
  let before = '[';
  for await (const line of createInterface({ input: createReadStream(from) })) {
    if (!out.write(`${before}${line}`)) await once(out, 'drain');
    before = ',\n';
  }
  out.end(']\n');
  await once(out, 'close');
}

/** How far an import has come, ten times a second. Its transaction is open, but the ids that it has taken are seen. */
function watchImport(url, work, users) {
  return withClient(url, async (client) => {
    const startedAt = performance.now();
    const places = [];
    const look = async () => {
      const { rows } = await client.query(
        `SELECT (SELECT last_value::int FROM users_id_seq) AS written, coalesce(array_agg(pid), '{}') AS pids
         FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
      );
      const cpu = rows[0].pids.reduce((sum, pid) => sum + (cpuSeconds(pid) ?? 0), 0);
      places.push({ share: rows[0].written / users, seconds: (performance.now() - startedAt) / 1_000, cpu });
    };
    const timer = setInterval(() => look().catch(() => undefined), 100);
    const measured = await work().finally(() => clearInterval(timer));
    return { measured, places };
  });
}

function printShares(places, all, measured, print) {
  print(`| ${all} lines into an empty database | seconds | lines/s | CPU of PostgreSQL, µs a line |`);
  print('|---|---:|---:|---:|');
  let last = places.findLast(({ share }) => share < 0.001);
  print(`| all are checked | ${last.seconds.toFixed(1)} | | |`);
  for (const share of SHARES) {
    const place = places.find((each) => each.share >= share) ?? places.at(-1);
    const lines = (place.share - last.share) * all;
    const [rate, cpu] = [lines / (place.seconds - last.seconds), ((place.cpu - last.cpu) * 1e6) / lines];
    print(`| ${100 * share} % are written | ${place.seconds.toFixed(1)} | ${rate.toFixed(0)} | ${cpu.toFixed(0)} |`);
    last = place;
  }
  print(`| the end | ${measured.seconds.toFixed(1)} | | |`);
}

async function timed(work) {
  const startedAt = performance.now();
  await work();
  return { seconds: (performance.now() - startedAt) / 1_000 };
}

/** The lines of the same users after a while: they have logged in again, and have another email, but for those who log in with it. */
async function changeLines(from, to) {
  const out = createWriteStream(to);
  for await (const text of createInterface({ input: createReadStream(from) })) {
    const line = JSON.parse(text);
    if (line.ban === undefined) {
      line.login_count += 1;
      line.last_login = '2025-03-01T12:00:00Z';
      if (line.auth_method !== 'email') line.email = `new.${line.email}`;
    }
    if (!out.write(`${JSON.stringify(line)}\n`)) await once(out, 'drain');
  }
  out.end();
  await once(out, 'close');
}

const METHODS = ['email', 'google', 'wallet', 'passkey', 'apple'];

function fullLine(line) {
  const method = METHODS[line % METHODS.length];
  const [stellar, ethereum] = [stellarAddress(), `0x${randomBytes(20).toString('hex')}`];
  const createdAt = Date.UTC(2022, 0, 1) + line * 120_000;
  const values = { email: `person.${line}@example.com`, wallet: stellar };
  return {
    auth_method: method,
    auth_value: values[method] ?? `${method}|${randomBytes(12).toString('hex')}`,
    email: `person.${line}@example.com`,
    wallet: stellar,
    external_id: `customer-${randomBytes(8).toString('hex')}`,
    created_at: new Date(createdAt).toISOString(),
    last_login: new Date(createdAt + (line % 500) * 3_600_000).toISOString(),
    login_count: line % 100,
    accounts: [
      { network: 'stellar', public_key: stellar },
      { network: 'ethereum', public_key: ethereum, wallet_type: line % 2 === 0 ? 'custodial' : 'external' },
    ],
  };
}

const banLine = (line) => ({
  ban: { auth_method: 'email', auth_value: `person.${line - 5}@example.com`, created_at: '2025-01-31T12:00:00Z' },
});
