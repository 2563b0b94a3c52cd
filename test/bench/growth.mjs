import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { parseConfig } from '../../dist/config/config.js';
import { createContext } from '../../dist/context.js';
import { userFilter } from '../../dist/domain/filters.js';
import { deleteOldChanges } from '../../dist/feed/changes.js';
import { claimWebhooks } from '../../dist/feed/webhooks.sql.js';
import { deleteOldKeysOfAll } from '../../dist/projects/idempotency.js';
import { appIdOf, fillTables, stayUnanalyzed } from '../support/many-rows.js';
import { databaseUrl, dropDatabase, withClient } from './data.mjs';
import { COMMAND, oursEnv, startProcess, startServer, userdir } from './processes.mjs';

/**
 * What operations cost with few and with many users, on tables that were never analyzed and on analyzed ones. One project has nearly all
 * rows (test/support/many-rows.ts). Each operation is asked as its user asks: over HTTP, by a command, or as the background does it.
 */

/** An operation is repeated for so long, and at most so often; the fastest counts, because the machine may be busy. */
const MEASURED_MS = 1_500;
const TIMES = 15;
/** Work on many rows is stopped after this time. */
const LONG_MS = 15_000;
const STATES = ['never analyzed', 'analyzed'];
const IMPORTED = 6_000;
/** Not so many that their deletion ends with ANALYZE. */
const VICTIMS = 500;
const APP_ID = appIdOf(1);
const WALLETS = 500;
/** What expires is deleted when that is measured, and not by the server meanwhile. */
const SETTINGS = { DASHBOARD: 'on', CHANGES_RETENTION: '365d' };

const DATES = 'start_date=2024-03-05T07:00:00Z&end_date=2025-12-01T05:00:00Z';
const many = (count, make) => Array.from({ length: count }, (_, n) => make(n));
const address = (n) => `0x${n.toString(16).padStart(40, '0')}`;
const FIELDS = 'id authMethod authValue lastLogin accounts { id publicKey }';

/** Over HTTP, by callers and operators. */
const REQUESTS = {
  'one user (REST)': ({ rest, rows }) => rest(`/server/users/${rows / 2}`),
  'list, first page with total (REST)': ({ rest }) => rest('/server/users?limit=10'),
  'list, last page with total (REST)': ({ rest, rows }) => rest(`/server/users?limit=10&page=${rows / 10 - 1}`),
  'list with dates and a method (REST)': ({ rest }) => rest(`/server/users?login_method=wallet&${DATES}`),
  'search by email (REST)': ({ rest, rows }) => rest(`/server/users/search?email=u${rows - 1}@example.com`),
  'search by address (REST)': ({ rest }) => rest(`/server/users/search?address=${address(7)}`),
  'verify 500 wallets (REST)': ({ rest }) =>
    rest('/wallets/verify', { wallets: many(WALLETS, (n) => ({ address: address(n) })) }),
  '100 changes (REST)': ({ rest }) => rest('/changes?limit=100'),
  'users, by cursor, with total': ({ ask }) => ask(`{ users(first: 10) { totalCount nodes { ${FIELDS} } } }`),
  '`userByIdentity`': ({ ask }) => ask(`{ userByIdentity(authMethod: "google", authValue: "u2400") { ${FIELDS} } }`),
  '`userByExternalId`': ({ ask }) => ask(`{ userByExternalId(externalId: "x2401") { ${FIELDS} } }`),
  '`findUser`': ({ ask, rows }) => ask(`{ findUser(any: "u${rows - 1}@example.com") { id } }`),
  '`userCount` with dates': ({ ask }) =>
    ask('{ userCount(filter: { startDate: "2024-03-05T05:00:00Z", endDate: "2025-12-01T04:10:00Z" }) }'),
  '`users(filter: {banned: true})`': ({ ask }) =>
    ask(`{ users(first: 100, filter: { banned: true }) { nodes { ${FIELDS} } } }`),
  '`users(filter: {lastLoginBefore})`, no match': ({ ask }) =>
    ask(`{ users(first: 100, filter: { lastLoginBefore: "2020-01-01" }) { nodes { ${FIELDS} } } }`),
  'a login': ({ login }) => login('u2404'),
  'a registration': ({ login, mark }) => login(`new ${mark()}`),
  'a removal': ({ ask, toRemove }) => ask(`mutation { deleteUser(id: "${toRemove()}") { id } }`),
  'a ban': ({ manage, mark }) =>
    manage(
      `mutation { banIdentity(appId: "${APP_ID}", authMethod: "google", authValue: "eve ${mark()}") { authValue } }`,
    ),
  'dashboard: users': ({ show }) => show('userPage(limit: 25) { totalCount nodes { id } }'),
  'dashboard: sign-ups by month, totals by method': ({ show }) =>
    show('totalsByMethod { total } signUps(by: MONTH, from: "2024-01-01", to: "2026-01-01") { total }'),
  'dashboard: bans': ({ show }) => show('bans(first: 50) { nodes { authValue } }'),
  'dashboard: search in bans, no match': ({ show }) =>
    show('bans(first: 50, search: "nobody") { nodes { authValue } }'),
  'dashboard: `findUsers`': ({ show, rows }) => show(`findUsers(any: "u${rows - 1}@example.com") { id }`),
  'dashboard: `findUsers(removed: true)`, no match': ({ show }) =>
    show('findUsers(any: "nobody@example.com", removed: true) { id }'),
  'dashboard: audit': ({ show }) => show('audit(first: 50) { nodes { action } }'),
  'dashboard: projects': ({ manage }) => manage('{ projects(first: 50) { totalCount nodes { name userCount } } }'),
  'dashboard: search in projects': ({ manage, projects }) =>
    manage(`{ projects(search: "project ${projects - 1}") { totalCount nodes { name } } }`),
  'dashboard: sessions': ({ manage }) => manage('{ sessions { id } }'),
};

/** Commands that print many lines. */
const STREAMS = {
  'project list': [],
  'user export': ['--project', APP_ID],
  'user inactive': ['--project', APP_ID, '--since', '1d'],
  'user bans': ['--project', APP_ID],
  audit: ['--project', APP_ID, '--limit', '100000'],
  'operator log': ['--limit', '100000'],
};

/** Commands that end: the time includes the start of their process. The import is the last, because it ends with ANALYZE. */
const COMMANDS = {
  '`project show` (little but the start)': ({ run }) => run('project', 'show', APP_ID),
  '`doctor`': ({ run }) => run('doctor'),
  '`user purge --dry-run`, all projects': ({ run }) => run('user', 'purge', '--older-than', '30d', '--dry-run'),
  '`user purge`, all projects, nobody to erase': ({ run }) => run('user', 'purge', '--older-than', '3650d'),
  [`\`user purge --project\`, ${VICTIMS} users`]: ({ run, victim }) =>
    run('user', 'purge', '--older-than', '0s', '--project', victim),
  '`totals check --project`': ({ run }) => run('totals', 'check', '--project', APP_ID),
  [`\`project delete\`, ${VICTIMS} users`]: ({ run, victim }) => run('project', 'delete', '--yes', victim),
  [`\`user import\`, ${IMPORTED} lines with \`external_id\``]: ({ run, importFile }) =>
    run('user', 'import', '--project', APP_ID, importFile),
};

/** What the others grow with: nothing, or their answer. */
const GROWS_WITH = {
  'pruning, nothing expired': 'projects',
  'claim of webhooks': 'enabled webhooks',
  'dashboard: search in bans, no match': 'bans of the project',
  'dashboard: `findUsers(removed: true)`, no match': 'removed users of the project',
  'dashboard: projects': 'projects',
  'dashboard: search in projects': 'projects',
  'dashboard: sessions': 'sessions',
  '`doctor`': 'users of a sample of projects',
  '`user purge --dry-run`, all projects': 'removed users',
  '`user purge`, all projects, nobody to erase': 'removed users',
  '`totals check --project`': 'users of the project',
  'the first list after many logins': 'logins since the last vacuum',
};

export async function measureGrowth({ options, cleanup, print, keepServer }) {
  const sizes = [];
  for (const rows of options.growthSizes) {
    /** By operation, a figure for each state. */
    const figures = new Map();
    const database = await fill(rows, { options, cleanup });
    for (const [state, title] of STATES.entries()) {
      const note = async (name, measure) => {
        const ms = await measure().catch(({ message }) => `failed: ${message.split('\n')[0].slice(0, 80)}`);
        const figure = typeof ms === 'number' ? ms.toFixed(ms < 10 ? 1 : 0) : (ms ?? '–');
        options.log(`${rows} users, ${title}: ${name}: ${figure}`);
        figures.set(name, [...(figures.get(name) ?? []), figure]);
      };
      const about = { rows, state, note, victim: appIdOf(10 ** 9 + state) };
      await inProcess(database, (context) => measureBackground(context, about));
      const server = await startServer('ours', { ...database, ours: database.url }, options.pool, SETTINGS);
      const entry = keepServer(server);
      await measureInterfaces(server, database, about);
      await entry.stop();
      await inProcess(database, (context) => measureLogins(context, about));
    }
    await inProcess(database, (context) => measureErasure(context, figures));
    await database.drop();
    sizes.push({ rows, figures });
  }
  const load = loadavg()[0].toFixed(1);
  print(
    `Milliseconds: never analyzed; analyzed. The fastest of ${TIMES}, as far as time allowed. Load at the end: ${load}.\n`,
  );
  print(`| operation | ${sizes.map(({ rows }) => rows.toLocaleString('en')).join(' users | ')} users | grows with |`);
  print(`|---|${sizes.map(() => '---:|').join('')}---|`);
  for (const name of sizes[0].figures.keys()) {
    const cells = sizes.map(({ figures }) => figures.get(name)?.join('; '));
    print(`| ${[name, ...cells, GROWS_WITH[name] ?? ''].join(' | ')} |`);
  }
  return { growth: sizes.map(({ rows, figures }) => ({ rows, figures: Object.fromEntries(figures) })) };
}

/** A filled database. With --keep or --reuse it is a copy of one that stays. */
async function fill(rows, { options, cleanup }) {
  const dataDir = await mkdtemp(join(tmpdir(), 'userdir-bench-'));
  cleanup.push(() => rm(dataDir, { recursive: true, force: true }));
  const projects = options.smoke ? 50 : rows < 100_000 ? 200 : 20_000;
  if (options.isEmbedded) {
    const database = { url: null, dataDir, projects };
    await fillDatabase(database, rows);
    return { ...database, drop: () => rm(dataDir, { recursive: true, force: true }) };
  }
  const name = `userdir_bench_growth_${rows}`;
  const copy = `${name}_${randomBytes(4).toString('hex')}`;
  const create = (database, more = '') =>
    withClient(options.serverUrl, (client) => client.query(`CREATE DATABASE "${database}" ${more}`));
  const filled = async (database) => {
    options.log(`Making ${rows} users in one project, and ${projects} projects…`);
    await create(database);
    await fillDatabase({ url: databaseUrl(options.serverUrl, database), dataDir, projects }, rows);
  };
  const drop = () => dropDatabase(options.serverUrl, copy);
  cleanup.push(drop);
  if (options.keep || options.reuse) {
    const { rowCount } = await withClient(options.serverUrl, (client) =>
      client.query('SELECT FROM pg_database WHERE datname = $1', [name]),
    );
    if (rowCount === 0) await filled(name);
    await create(copy, `TEMPLATE "${name}" STRATEGY = FILE_COPY`);
  } else await filled(copy);
  return { url: databaseUrl(options.serverUrl, copy), dataDir, projects, drop };
}

async function fillDatabase(database, rows) {
  await inProcess(database, async ({ db }) => {
    const client = await db.pool.connect();
    await stayUnanalyzed(client);
    await fillTables(client, { rows, projects: database.projects });
    client.release();
  });
}

/** Opens the database in this process, as the background of a service does. */
async function inProcess({ url, dataDir }, work) {
  const settings = oursEnv(url, { ...SETTINGS, DATA_DIR: dataDir, DATABASE_POOL_SIZE: '2' });
  const context = createContext(parseConfig(settings), { command: 'bench' });
  try {
    await context.open();
    return await work(context);
  } finally {
    await context.close();
  }
}

async function measureBackground({ db }, { rows, state, note, victim }) {
  if (state === 1) await db.pool.query('ANALYZE');
  await prepare(db, { rows, victim, isFirst: state === 0 });
  // A quarter of the changes expires in each state.
  const retentionMs = [45, 30][state] * 86_400_000;
  const { signal } = new AbortController();
  const prune = async () => {
    await deleteOldChanges(db, retentionMs, signal);
    await deleteOldKeysOfAll(db, signal);
  };
  const count = async () => {
    const { rows } = await db.pool.query(
      'SELECT count(*) AS n FROM changes UNION ALL SELECT count(*) FROM idempotency_keys',
    );
    return rows.reduce((sum, { n }) => sum + Number(n), 0);
  };
  await note('pruning, 1,000 expired rows', async () => {
    const before = await count();
    const ms = await timed(prune);
    return (1_000 * ms) / (before - (await count()));
  });
  await note('pruning, nothing expired', () => fastest(prune));
  const limits = { lease: 'bench', leaseMs: 1, held: new Map(), maxPerProject: 4, max: 256, maxFailing: 64 };
  await note('claim of webhooks', () => fastest(() => claimWebhooks(db, limits)));
}

async function measureInterfaces(server, database, about) {
  const { note } = about;
  const requester = await createAsker(server, database, about);
  for (const [name, work] of Object.entries(REQUESTS)) await note(name, () => fastest(() => work(requester)));
  for (const [command, args] of Object.entries(STREAMS)) {
    const lines = readLines(database, [...command.split(' '), ...args]);
    await note(`\`${command}\`: first line`, async () => (await lines).firstMs);
    await note(`\`${command}\`: each 1,000 lines`, async () => (await lines).eachMs);
  }
  for (const [name, work] of Object.entries(COMMANDS)) await note(name, () => timed(() => work(requester)));
}

async function measureLogins({ db, services }, { note }) {
  const list = async (appId) =>
    services.users.listPage(await services.projects.getScope(appId), userFilter({}), { page: 1, limit: 10 });
  await list(appIdOf(2));
  // Each in a transaction of its own, like logins: it leaves an old version of every row.
  for (let round = 0; round < 10; round += 1)
    await db.pool.query(
      `UPDATE users SET last_login = now(), login_count = login_count + 1 WHERE project_id = 1 AND id = ANY(ARRAY(
         SELECT id FROM users WHERE project_id = 1 AND (deleted_at IS NULL)::int = 1 ORDER BY created_at DESC, id DESC LIMIT 10000
       ))`,
    );
  await note('the first list after many logins', () => timed(() => list(APP_ID)));
  await note('the next list', () => fastest(() => list(APP_ID)));
}

/** What nothing is left after. */
async function measureErasure({ services }, figures) {
  const scope = await services.projects.getScope(APP_ID);
  const signal = new AbortController().signal;
  const purge = (progress) => services.users.purgeRemoved(scope, 0, progress);
  const remove = (progress) => services.lifecycle.deleteProject(scope, { progress, signal, onWait: () => undefined });
  for (const [name, work] of Object.entries({ 'purge of all removed users': purge, 'deletion of the project': remove }))
    figures.set(`${name}, each 1,000`, ['', (await perThousand(work)).toFixed(0)]);
}

/** Adds a project that is purged and deleted, and once the wallets that are verified. */
async function prepare({ pool }, { rows, victim, isFirst }) {
  await pool.query(`SELECT setval('projects_id_seq', max(id)) FROM projects`);
  const { id } = (await pool.query(`INSERT INTO projects (name, app_id) VALUES ($1, $1) RETURNING id`, [victim]))
    .rows[0];
  await pool.query(
    `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, created_at, deleted_at)
     SELECT ${id}, 'google', 'v' || n, 'v' || n, '2024-01-01', CASE WHEN n % 2 = 0 THEN timestamptz '2025-01-01' END
     FROM generate_series(1, ${2 * VICTIMS}) n`,
  );
  if (!isFirst) return;
  await pool.query(
    `INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
     SELECT 1, ${rows / 2} + n % 50, 'ethereum', address, address, 'external'
     FROM (SELECT n, '0x' || lpad(to_hex(n), 40, '0') AS address FROM generate_series(0, ${WALLETS - 1}) n) AS made`,
  );
}

/** What the operations need: how to ask, and values that no other call has had. */
async function createAsker(server, { url, dataDir, projects }, { rows, state, victim }) {
  const env = oursEnv(url, { DATA_DIR: dataDir });
  const run = async (...args) => {
    const { child, ended } = startProcess([COMMAND, ...args], env, ['ignore', 'ignore', 'pipe']);
    const errors = await text(child.stderr);
    if ((await ended) !== 0) throw new Error(errors.trim());
  };
  const send = async (path, headers, given) => {
    const post = { method: 'POST', body: JSON.stringify(given) };
    const response = await fetch(server.url + path, {
      headers: { ...headers, ...(given && { 'content-type': 'application/json' }) },
      ...(given && post),
    });
    const body = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status} ${body}`);
    return { response, body };
  };
  const graphql = async (path, headers, query) => {
    const { errors } = JSON.parse((await send(path, headers, { query })).body);
    if (errors !== undefined) throw new Error(JSON.stringify(errors));
  };
  const caller = { 'service-app-id': APP_ID, 'service-app-secret': 'secret 1' };
  const ask = (query) => graphql('/graphql', caller, query);
  const operator = await logIn(`bench-${state}`);
  const manage = (query) => graphql('/dashboard/graphql', operator, query);
  const importFile = join(dataDir, `import-${state}.ndjson`);
  await writeFile(importFile, many(IMPORTED, (n) => JSON.stringify(importedUser(state, n))).join('\n'));
  let calls = 0;
  const next = () => {
    calls += 1;
    return calls;
  };
  return {
    ...{ rows, projects, victim, importFile, run, manage, ask },
    rest: (path, body) => send(path, caller, body),
    login: (who) => ask(`mutation { recordLogin(input: { authMethod: "google", authValue: "${who}" }) { created } }`),
    show: (fields) => manage(`{ project(appId: "${APP_ID}") { ${fields} } }`),
    mark: () => `${state} ${next()}`,
    toRemove: () => rows / 4 + state * 50 + next(),
  };

  async function logIn(name) {
    await run('operator', 'add', name, '--role', 'admin');
    const link = await userdir(url, ['dashboard', '--operator', name], { ...SETTINGS, DATA_DIR: dataDir, PORT: '1' });
    const headers = { 'sec-fetch-site': 'same-origin' };
    const { response } = await send('/dashboard/session', headers, { token: link.url.split('#login=')[1] });
    return { ...headers, cookie: response.headers.get('set-cookie').split(';')[0] };
  }
}

function importedUser(state, n) {
  const mark = `imported ${state} ${n}`;
  const accounts = [{ network: 'ethereum', public_key: address((state + 1) * 1_000_000 + n) }];
  return { auth_method: 'google', auth_value: mark, email: `${state}.${n}@example.org`, external_id: mark, accounts };
}

/** When a command prints its first line, and how long each thousand takes from then on; nulls without a line. It is ended after some time. */
async function readLines({ url, dataDir }, args) {
  const startedAt = performance.now();
  const { child, ended } = startProcess([COMMAND, ...args], oursEnv(url, { DATA_DIR: dataDir }), [
    'ignore',
    'pipe',
    'pipe',
  ]);
  const errors = text(child.stderr);
  const timer = setTimeout(() => child.kill('SIGINT'), LONG_MS);
  let [lines, firstMs, lastMs] = [0, null, null];
  const reader = createInterface({ input: child.stdout }).on('line', () => {
    lastMs = performance.now() - startedAt;
    firstMs ??= lastMs;
    lines += 1;
  });
  const [code] = await Promise.all([ended, once(reader, 'close')]);
  clearTimeout(timer);
  if (lines === 0 && code !== 0) throw new Error((await errors) || `no line in ${LONG_MS} ms`);
  return { firstMs, eachMs: lines < 1_000 ? null : ((lastMs - firstMs) * 1_000) / lines };
}

/** Milliseconds for each thousand, of work that tells how much is done. It is stopped after some time. */
async function perThousand(work) {
  const stop = new Error('It is stopped.');
  let [done, ms] = [0, 0];
  const startedAt = performance.now();
  await work((now) => {
    [done, ms] = [now, performance.now() - startedAt];
    if (ms > LONG_MS) throw stop;
  }).catch((error) => error === stop || Promise.reject(error));
  return (ms * 1_000) / done;
}

async function timed(work) {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

/** The first time does not count: plans are made, and pages read. */
async function fastest(work) {
  const first = await timed(work);
  if (first > MEASURED_MS) return first;
  const times = [];
  for (const endsAt = performance.now() + MEASURED_MS; times.length < TIMES && performance.now() < endsAt; )
    times.push(await timed(work));
  return Math.min(...times);
}
