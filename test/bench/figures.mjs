import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { createDatabase, fold, prepareData, withClient } from './data.mjs';
import { load } from './load.mjs';
import { startServer, userdir } from './processes.mjs';
import { headersFor } from './questions.mjs';

/** Figures without peers. Each prints a table and returns its numbers. */

export async function measureStartup({ options, cleanup, print, median, keepServer }) {
  const data = await prepareData({ ...options, needsPeers: false }, cleanup);
  const startsMs = [];
  for (let run = 0; run < 10; run += 1) {
    const startedAt = performance.now();
    const server = await startServer('ours', data, options.pool);
    const entry = keepServer(server);
    const { status } = await fetch(`${server.url}/readyz`);
    startsMs.push(performance.now() - startedAt);
    if (status !== 200) throw new Error(`It says that it is ready, but /readyz says ${status}.`);
    await entry.stop();
  }
  const startup = { medianMs: median(startsMs), slowestMs: Math.max(...startsMs) };
  print('| start to ready | ms |');
  print('|---|---:|');
  print(`| median of ${startsMs.length} | ${startup.medianMs.toFixed(0)} |`);
  print(`| slowest | ${startup.slowestMs.toFixed(0)} |`);
  return { startup };
}

/** Sends one request at a time, so that latency contains no queueing; takes the sizes in turn. */
export async function measureDepth({ options, cleanup, generator, print, median, keepServer }) {
  const sizes = [];
  for (const users of options.sizes) {
    const data = await prepareData({ ...options, users, needsPeers: false }, cleanup);
    const server = await startServer('ours', data, options.pool);
    sizes.push({ data, server, entry: keepServer(server), questions: depthQuestions(data.users) });
  }
  const names = Object.keys(sizes[0].questions);
  const ask = async ({ data, server, questions }, name, seconds) => {
    const requests = questions[name].map((path) => ({ method: 'GET', path }));
    const target = { url: server.url, headers: headersFor('ours', data), requests, connections: 1, seconds };
    const { p50Ms, failures, responses } = await load(generator, target);
    if (failures > 0 || responses === 0) throw new Error(`${name} failed ${failures} times at ${data.users} users.`);
    return p50Ms;
  };
  const measured = sizes.map(() => Object.fromEntries(names.map((name) => [name, []])));
  for (const name of names) {
    for (const size of sizes) await ask(size, name, 1);
    for (let round = 0; round < options.rounds; round += 1) {
      for (const [index, size] of sizes.entries()) measured[index][name].push(await ask(size, name, options.seconds));
    }
  }
  for (const { entry } of sizes) await entry.stop();

  const p50Ms = measured.map((each) => Object.fromEntries(names.map((name) => [name, median(each[name])])));
  const titles = sizes.map(({ data }) => `${data.users} users`);
  print(`| p50 ms at one connection | ${titles.join(' | ')} | last ÷ first size |`);
  print(`|---|${sizes.map(() => '---:|').join('')}---:|`);
  for (const name of names) {
    const times = p50Ms.map((each) => each[name]);
    print(`| ${name} | ${times.map((ms) => ms.toFixed(2)).join(' | ')} | ${(times.at(-1) / times[0]).toFixed(2)} |`);
  }
  const { [FIRST]: first, [LAST]: last } = p50Ms.at(-1);
  print(`\nLast page ÷ first page at ${titles.at(-1)}: ${(last / first).toFixed(2)}`);
  return {
    depth: sizes.map(({ data }, index) => ({ users: data.users, p50Ms: p50Ms[index], rounds: measured[index] })),
  };
}

const FIRST = 'first page + total';
const LAST = 'last page + total';

/** The paths of each request; several paths are requested in turn. */
function depthQuestions(users) {
  const lastPage = Math.ceil(users / 10);
  const allOver = Array.from({ length: 100 }, (_, index) => 1 + Math.floor((lastPage * (index + 0.5)) / 100));
  const filter = 'login_method=passkey,socials&start_date=2024-03-05T07:00:00Z&end_date=2026-08-19T15:00:00Z';
  return {
    [FIRST]: ['/server/users?limit=10'],
    'pages all over + total': allOver.map((page) => `/server/users?limit=10&page=${page}`),
    [LAST]: [`/server/users?limit=10&page=${lastPage}`],
    total: ['/server/users/count'],
    'first page + total, by methods and instants': [`/server/users?limit=10&${filter}`],
    'total, by methods and instants': [`/server/users/count?${filter}`],
  };
}

const LOGIN_SESSIONS = 10;
const TRIGGERS = ['users_tally_insert', 'users_tally_update', 'users_tally_delete', 'users_tally_truncate'];

/**
 * Concurrent first logins in one project and day, with the statement of the service, in turn with and without the
 * triggers of the tallies. They go directly to PostgreSQL, because the work of the service would hide the cost of the
 * triggers.
 */
export async function measureTallies({ options, cleanup, print, median }) {
  const name = `userdir_bench_tallies_${randomBytes(4).toString('hex')}`;
  const url = await createDatabase(options.serverUrl, name, cleanup);
  const { id: projectId } = await userdir(url, ['project', 'create', '--name', 'Logins']);
  const login = await loginStatement(projectId);
  const sessions = Array.from({ length: LOGIN_SESSIONS }, () => new pg.Client({ connectionString: url }));
  await Promise.all(sessions.map((session) => session.connect()));
  const closeSessions = () => Promise.all(sessions.map((session) => session.end()));
  cleanup.push(closeSessions);

  let next = 0;
  const loginsPerSecond = async (seconds) => {
    const startedAt = performance.now();
    const endsAt = startedAt + seconds * 1_000;
    let logins = 0;
    await Promise.all(
      sessions.map(async (session) => {
        while (performance.now() < endsAt) {
          next += 1;
          await session.query(login(next));
          logins += 1;
        }
      }),
    );
    return logins / ((performance.now() - startedAt) / 1_000);
  };
  const onDatabase = (work) => withClient(url, work);
  const setTriggers = (verb) =>
    onDatabase(async (client) => {
      for (const trigger of TRIGGERS) await client.query(`ALTER TABLE users ${verb} TRIGGER ${trigger}`);
    });
  /** Folds repeatedly during `work`, as the service does when a client reads totals. */
  const whileFolding = (work) =>
    onDatabase(async (client) => {
      let done = false;
      const folding = (async () => {
        while (!done) {
          await fold(client, projectId);
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
      })();
      const result = await work().finally(() => {
        done = true;
      });
      await folding;
      return result;
    });

  const ways = {
    'without tallies': () => setTriggers('DISABLE').then(() => loginsPerSecond(options.seconds)),
    'with tallies': () => setTriggers('ENABLE').then(() => loginsPerSecond(options.seconds)),
    'with tallies, folded meanwhile': () =>
      setTriggers('ENABLE').then(() => whileFolding(() => loginsPerSecond(options.seconds))),
  };
  await loginsPerSecond(1);
  const measured = Object.fromEntries(Object.keys(ways).map((way) => [way, []]));
  for (let round = 0; round < options.rounds; round += 1) {
    const order = Object.keys(ways);
    for (const way of round % 2 === 0 ? order : order.toReversed()) {
      measured[way].push(await ways[way]());
      // Each measurement starts without pending deltas.
      await onDatabase((client) => fold(client, projectId));
    }
  }
  print('| first logins at once into one project and day | logins/s | ratio |');
  print('|---|---:|---:|');
  const base = median(measured['without tallies']);
  for (const [way, rates] of Object.entries(measured)) {
    print(`| ${way} | ${median(rates).toFixed(0)} | ${(median(rates) / base).toFixed(2)} |`);
  }
  return { tallies: measured };
}

/** The text and values of the statement that the service runs for the nth new user. */
async function loginStatement(projectId) {
  const { recordLogins } = await import('../../dist/users/logins.sql.js');
  let captured;
  const db = {
    async query(sql) {
      captured = sql;
      return [];
    },
  };
  return (n) => {
    const address = `0x${n.toString(16).padStart(40, '0')}`;
    const email = `newcomer.${n}@example.com`;
    const profile = {
      authMethod: 'email',
      authValue: email,
      authValueKey: email,
      identityEmail: email,
      saidEmail: null,
      wallet: null,
      externalId: null,
      accounts: [{ network: 'ethereum', publicKey: address, addressKey: address, walletType: 'custodial' }],
    };
    void recordLogins(db, [{ projectId, profile, retry: null }], true);
    return { name: 'login', text: captured.text, values: captured.values };
  };
}
