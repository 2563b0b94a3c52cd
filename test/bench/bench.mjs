import { writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { isDeepStrictEqual, parseArgs } from 'node:util';
import { prepareData, withClient } from './data.mjs';
import { measureDepth, measureStartup, measureTallies } from './figures.mjs';
import { measureFirstImport, measureImport } from './import.mjs';
import { findGenerator, load } from './load.mjs';
import { endedChildrenSeconds, keepAwake } from './machine.mjs';
import { measureOverload } from './overload.mjs';
import { addBuilds, cpuSeconds, likeOf, SERVERS, startServer } from './processes.mjs';
import { ask, drawItems, headersFor, readCursors, SCENARIOS, seededRandom } from './questions.mjs';
import { measureWorkers } from './workers.mjs';

/**
 * Compares userdir with its peers (README, "Figures"). First every server answers a sample, and all answers must be
 * equal. Then each scenario loads each server in turn for several rounds, and the medians are printed. A ratio is the median of the ratios of each
 * round: what else runs on the machine changes within seconds, and then hits both of a round.
 */

const HELP = `npm run bench -- [options]

  --database-url URL   a PostgreSQL where databases may be made (BENCH_DATABASE_URL, postgres://postgres@127.0.0.1:5432/postgres)
  --users N            users of the big project (1000000)
  --rounds N           rounds of each measurement (3)
  --processes N        start each server so many times, and divide the rounds among them (1)
  --seconds N          length of each (5)
  --connections LIST   at once (1,16,64)
  --servers LIST       which, of ${Object.keys(SERVERS).join(',')} (ours,ours+,a,b,c,d)
  --builds LIST        folders of other builds of ours, such as ../main/dist, to compare beside them
  --scenarios LIST     only those whose name contains one of these texts
  --pages N            lists are of a random one of the first N pages of 10 (50)
  --pool N             PostgreSQL connections of each server (10)
  --generator NAME     wrk or autocannon (wrk where it is installed)
  --keep, --reuse      keep the databases; take those that an earlier run kept, or make and keep them
  --awake              keep the processors of a virtual machine from sleeping, which distorts the figures of one connection
  --out FILE           also write everything as JSON
  --smoke              tiny data, short measurements: does it all still work?
  --only FIGURE        instead of the comparison: startup, depth (--sizes LIST), import or first-import (--lines N), tallies, overload, workers or
                       growth (--sizes LIST, --embedded for the embedded database)
`;

const { values: given } = parseArgs({
  options: {
    'database-url': { type: 'string' },
    users: { type: 'string' },
    rounds: { type: 'string' },
    processes: { type: 'string', default: '1' },
    seconds: { type: 'string' },
    connections: { type: 'string' },
    servers: { type: 'string' },
    builds: { type: 'string' },
    scenarios: { type: 'string' },
    pages: { type: 'string', default: '50' },
    pool: { type: 'string', default: '10' },
    generator: { type: 'string' },
    keep: { type: 'boolean', default: false },
    reuse: { type: 'boolean', default: false },
    awake: { type: 'boolean', default: false },
    out: { type: 'string' },
    smoke: { type: 'boolean', default: false },
    only: { type: 'string' },
    sizes: { type: 'string' },
    lines: { type: 'string' },
    embedded: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

const defaults = given.smoke
  ? {
      users: '2000',
      smallProjects: 5,
      rounds: '1',
      seconds: '1',
      connections: '16',
      servers: 'ours,a,b',
      sizes: '1000,2000',
      growthSizes: '400,3000',
      lines: '2000',
    }
  : {
      users: '1000000',
      smallProjects: 100,
      rounds: '3',
      seconds: '5',
      connections: '1,16,64',
      servers: 'ours,ours+,a,b,c,d',
      sizes: '10000,1000000',
      growthSizes: '3000,300000,3000000',
      lines: '200000',
    };

const options = {
  serverUrl:
    given['database-url'] ?? process.env['BENCH_DATABASE_URL'] ?? 'postgres://postgres@127.0.0.1:5432/postgres',
  users: Number(given.users ?? defaults.users),
  smallProjects: defaults.smallProjects,
  rounds: Number(given.rounds ?? defaults.rounds),
  processes: Number(given.processes),
  seconds: Number(given.seconds ?? defaults.seconds),
  connections: numbers(given.connections ?? defaults.connections),
  servers: [...(given.servers ?? defaults.servers).split(','), ...addBuilds(given.builds?.split(',') ?? [])],
  scenarios: given.scenarios?.split(',') ?? [''],
  pages: Number(given.pages),
  pool: Number(given.pool),
  keep: given.keep,
  reuse: given.reuse,
  smoke: given.smoke,
  sizes: numbers(given.sizes ?? defaults.sizes),
  growthSizes: numbers(given.sizes ?? defaults.growthSizes),
  isEmbedded: given.embedded,
  lines: Number(given.lines ?? defaults.lines),
  log,
};

if (!(Number.isInteger(options.processes) && options.processes >= 1 && options.processes <= options.rounds)) {
  throw new Error(
    `--processes: got ${given.processes}, expected a whole number from 1 to ${options.rounds}, the number of rounds.`,
  );
}

function numbers(list) {
  return list.split(',').map(Number);
}

function log(line) {
  process.stderr.write(`${line}\n`);
}

function print(line = '') {
  process.stdout.write(`${line}\n`);
}

/** Cleanup that always runs, last added first: stops servers, drops databases. */
const cleanup = [];

async function cleanUp() {
  for (let step = cleanup.pop(); step !== undefined; step = cleanup.pop()) {
    await step().catch((error) => log(`Cleaning up: ${error.message}`));
  }
}

let interrupted = false;
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, async () => {
    if (interrupted) return;
    interrupted = true;
    log(`${signal}: cleaning up.`);
    await cleanUp();
    process.exit(1);
  });
}

/** Sends the same request to every server; throws at the first answer that differs from ours. */
async function checkAnswers(scenarios, data) {
  const items = await drawItems(data, seededRandom(1), { count: 40, pages: options.pages });
  const expected = new Map();
  let compared = 0;
  for (const name of options.servers.filter((each) => !SERVERS[each].isCeiling)) {
    const server = await startServer(name, data, options.pool);
    const entry = keepServer(server);
    for (const scenario of scenarios.filter(({ ask: words }) => words[likeOf(name)] !== undefined)) {
      const cursors = await cursorsOf(server, scenario, data);
      const asked = items[scenario.items].filter(
        (item) => item === 0 || !scenario.firstPageOnly?.includes(likeOf(name)),
      );
      for (const item of asked) {
        const question = scenario.ask[likeOf(name)](item, cursors);
        const answer = scenario.read(await ask(server, data, question));
        const key = `${scenario.name} ${JSON.stringify(item)}`;
        if (!expected.has(key)) {
          expected.set(key, plain(answer));
          continue;
        }
        compared += 1;
        if (!isDeepStrictEqual(plain(answer), expected.get(key))) {
          throw new Error(
            `${scenario.name}: ${name} disagrees with ${options.servers[0]} about ${JSON.stringify(item)}.\n` +
              `${JSON.stringify(plain(answer))}\n${JSON.stringify(expected.get(key))}`,
          );
        }
      }
    }
    await entry.stop();
  }
  if (compared === 0) throw new Error('Nothing was compared: no scenario has two of these servers.');
  log(`${options.servers.join(', ')} agree: ${compared} answers compared.`);
}

/** A value as JSON represents it, with sorted keys. */
function plain(value) {
  return JSON.parse(JSON.stringify(value));
}

/** Adds a server to the cleanup; `stop` removes it again. */
function keepServer(server) {
  cleanup.push(server.stop);
  return {
    async stop() {
      cleanup.splice(cleanup.indexOf(server.stop), 1);
      await server.stop();
    },
  };
}

async function cursorsOf(server, scenario, data) {
  const needed = scenario.items === 'pages' && scenario.name.startsWith('GraphQL');
  return needed ? readCursors(server, data, options.pages) : [];
}

/** V8 compiles what has run some thousand times, and only some seconds later as well as it can. */
const WARM_UP_SECONDS = 3;

async function compare(scenario, data, generator) {
  const names = options.servers.filter((name) => scenario.ask[likeOf(name)] !== undefined);
  if (names.length < 2) return null;
  log(scenario.name);
  const measured = [];
  const endOf = (start) => Math.floor((options.rounds * (start + 1)) / options.processes);
  for (let start = 0, round = 0; start < options.processes; start += 1) {
    const servers = [];
    for (const name of names) {
      const server = await startServer(name, data, options.pool);
      const entry = keepServer(server);
      servers.push({ ...server, entry, isCold: !options.smoke, cursors: await cursorsOf(server, scenario, data) });
    }
    for (; round < endOf(start); round += 1) {
      measured.push(...(await measureRound(round, { scenario, data, generator, servers })));
    }
    await settled(data);
    for (const { entry } of servers) await entry.stop();
  }
  return { name: scenario.name, toReach: scenario.toReach, rows: summarise(names, measured), measured };
}

async function measureRound(round, { scenario, data, generator, servers }) {
  const measured = [];
  const items = await drawItems(data, seededRandom(1_000 + round), { count: 4_000, pages: options.pages });
  for (const connections of options.connections) {
    // Every second round runs in reverse, so that no server always follows the same one.
    for (const server of round % 2 === 0 ? servers : servers.toReversed()) {
      const requests = items[scenario.items].map((item) => scenario.ask[likeOf(server.name)](item, server.cursors));
      const target = { url: server.url, headers: headersFor(server.name, data), requests };
      if (server.isCold) await load(generator, { ...target, connections: 16, seconds: WARM_UP_SECONDS });
      server.isCold = false;
      await settled(data);
      const meters = await startMeters(server, data);
      const result = await load(generator, { ...target, connections, seconds: options.seconds });
      measured.push({ server: server.name, connections, round, ...result, ...(await meters.stop(result.responses)) });
    }
  }
  return measured;
}

const SETTLE_TIMEOUT_MS = 180_000;

/** Waits until PostgreSQL is idle, so that a slow query does not disturb the next measurement. */
async function settled(data) {
  const endsAt = performance.now() + SETTLE_TIMEOUT_MS;
  await withClient(data.ours, async (client) => {
    for (let quiet = 0; quiet < 2; await new Promise((resolve) => setTimeout(resolve, 50))) {
      if (performance.now() > endsAt) throw new Error(`A server was busy for ${SETTLE_TIMEOUT_MS} ms after its load.`);
      const { rows } = await client.query(
        `SELECT count(*)::int AS busy FROM pg_stat_activity
         WHERE datname = ANY($1) AND state <> 'idle' AND backend_type = 'client backend' AND pid <> pg_backend_pid()`,
        [databaseNames(data)],
      );
      quiet = rows[0].busy === 0 ? quiet + 1 : 0;
    }
  });
}

/** Measures a server and its database while it is loaded. Times are per response, scavenges on average. */
async function startMeters(server, data) {
  const memory = watchMemory(server);
  const [cpuBefore, databaseBefore, before] = [server.cpuSeconds(), await databaseCpu(data), server.scavenges()];
  const loadBefore = endedChildrenSeconds();
  return {
    async stop(responses) {
      const [cpu, database, after] = [server.cpuSeconds(), await databaseCpu(data), server.scavenges()];
      const scavenges = after.count - before.count;
      let databaseSeconds = 0;
      for (const [pid, seconds] of database) databaseSeconds += seconds - (databaseBefore.get(pid) ?? 0);
      return {
        cpuUs: ((cpu - cpuBefore) * 1e6) / responses,
        databaseUs: (databaseSeconds * 1e6) / responses,
        loadUs: ((endedChildrenSeconds() - loadBefore) * 1e6) / responses,
        scavenges,
        scavengeMs: scavenges === 0 ? 0 : (after.ms - before.ms) / scavenges,
        promotedMiB: scavenges === 0 ? 0 : (after.promotedMiB - before.promotedMiB) / scavenges,
        rssMiB: memory.stop(),
      };
    },
  };
}

/** CPU time of each session of PostgreSQL in our databases, if it runs on this machine. Of parallel workers none is known. */
async function databaseCpu(data) {
  const { rows } = await withClient(data.ours, (client) =>
    client.query(
      `SELECT pid FROM pg_stat_activity WHERE datname = ANY($1) AND backend_type = 'client backend' AND pid <> pg_backend_pid()`,
      [databaseNames(data)],
    ),
  );
  return new Map(rows.map(({ pid }) => [pid, cpuSeconds(pid) ?? 0]));
}

function databaseNames(data) {
  return [data.ours, data.peers].map((url) => new URL(url).pathname.slice(1));
}

function watchMemory(server) {
  let peak = 0;
  const look = () => {
    peak = Math.max(peak, server.rssMiB() ?? 0);
  };
  const timer = setInterval(look, 100);
  return {
    stop() {
      look();
      clearInterval(timer);
      return peak;
    },
  };
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function summarise(names, measured) {
  return options.connections.flatMap((connections) =>
    names.map((server) => {
      const rounds = measured.filter((each) => each.server === server && each.connections === connections);
      const of = (figure) => median(rounds.map((each) => each[figure]));
      return {
        connections,
        server,
        rps: of('rps'),
        p50Ms: of('p50Ms'),
        p99Ms: of('p99Ms'),
        cpuUs: of('cpuUs'),
        databaseUs: of('databaseUs'),
        loadUs: of('loadUs'),
        scavenges: of('scavenges'),
        scavengeMs: of('scavengeMs'),
        promotedMiB: of('promotedMiB'),
        rssMiB: Math.max(...rounds.map(({ rssMiB }) => rssMiB)),
        failures: rounds.reduce((sum, { failures }) => sum + failures, 0),
        responses: rounds.reduce((sum, { responses }) => sum + responses, 0),
        rounds: rounds.map(({ rps, p99Ms }) => ({ rps, p99Ms })),
      };
    }),
  );
}

/** Ours ÷ theirs: the median of the rounds. */
function ratioOf(ours, theirs, figure) {
  return median(ours.rounds.map((round, index) => round[figure] / theirs.rounds[index][figure]));
}

/** A measurement with any bad answer, or with no answer, is invalid. */
function isInvalid({ failures, responses }) {
  return failures > 0 || responses === 0;
}

function printScenario({ name, rows }) {
  print(`### ${name}\n`);
  print(
    '| connections | server | requests/s | ours ÷ peer | p50 ms | p99 ms | CPU µs/request: server | database | load | scavenges | ms each | promoted by each, MiB | RSS MiB |',
  );
  print('|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|');
  for (const row of rows) {
    const ours = rows.find(({ server, connections }) => server === 'ours' && connections === row.connections);
    const ratio = row.server === 'ours' || ours === undefined ? '' : ratioOf(ours, row, 'rps').toFixed(2);
    const fault = isInvalid(row) ? ` — **INVALID: ${row.failures} failures, ${row.responses} answers**` : '';
    const title = `${SERVERS[row.server].title}${fault}`;
    const rate = row.rps.toFixed(row.rps < 100 ? 1 : 0);
    const cpu = [row.cpuUs, row.databaseUs, row.loadUs].map((us) => us.toFixed(0));
    const times = [row.p50Ms.toFixed(2), row.p99Ms.toFixed(2), ...cpu];
    const garbage = [row.scavenges.toFixed(0), row.scavengeMs.toFixed(1), row.promotedMiB.toFixed(2)];
    print(`| ${[row.connections, title, rate, ratio, ...times, ...garbage, row.rssMiB.toFixed(0)].join(' | ')} |`);
  }
  print();
}

/** With fewer connections the 99th percentile is that of the machine. */
const P99_CONNECTIONS = [16, 64];

/** The targets that this run has measured. */
function verdicts(results) {
  const verdict = (figure, toReach, measured, reached) => ({ figure, toReach, measured, reached });
  const compared = results.flatMap(({ name, toReach, rows }) =>
    toReach.flatMap(({ peer, requests, p99, isMost = false }) =>
      options.connections.flatMap((connections) => {
        const find = (server) => rows.find((row) => row.server === server && row.connections === connections);
        const [ours, theirs] = [find('ours'), find(peer)];
        if (ours === undefined || theirs === undefined) return [];
        const figure = `${name}, ${connections} connections, against ${SERVERS[peer].title}`;
        if (isInvalid(ours) || isInvalid(theirs)) return [verdict(figure, '', 'invalid', false)];
        const reached = [];
        if (requests[connections] !== undefined) {
          const ratio = ratioOf(ours, theirs, 'rps');
          const is = isMost ? ratio <= requests[connections] : ratio >= requests[connections];
          reached.push(
            verdict(figure, `requests ${isMost ? '≤' : '≥'} ${requests[connections]}`, ratio.toFixed(2), is),
          );
        }
        if (p99 !== undefined && P99_CONNECTIONS.includes(connections)) {
          const ratio = ratioOf(ours, theirs, 'p99Ms');
          reached.push(verdict(figure, `p99 ≤ ${p99}`, ratio.toFixed(2), ratio <= p99));
        }
        return reached;
      }),
    ),
  );
  const ours = results.flatMap(({ rows }) => rows.filter(({ server }) => server === 'ours'));
  if (ours.length === 0) return compared;
  const most = (figure) => Math.max(...ours.map((row) => row[figure]));
  const [memory, promoted] = [most('rssMiB'), most('promotedMiB')];
  return [
    ...compared,
    verdict('RSS of userdir under load', '≤ 220 MiB', `${memory.toFixed(0)} MiB`, memory <= 220),
    verdict('Promoted by a scavenge', '≤ 0.3 MiB', `${promoted.toFixed(2)} MiB`, promoted <= 0.3),
  ];
}

async function runComparison(generator) {
  const scenarios = SCENARIOS.filter(({ name }) => options.scenarios.some((text) => name.includes(text)));
  if (scenarios.length === 0)
    throw new Error(`--scenarios is of ${SCENARIOS.map(({ name }) => `"${name}"`).join(', ')}.`);
  const data = await prepareData(options, cleanup);
  await checkAnswers(scenarios, data);
  const results = [];
  for (const scenario of scenarios) {
    const result = await compare(scenario, data, generator);
    if (result === null) continue;
    printScenario(result);
    results.push(result);
  }
  const invalid = results.flatMap(({ rows }) => rows).filter(isInvalid);
  if (invalid.length > 0) process.exitCode = 1;
  if (options.smoke) {
    print(
      invalid.length === 0 ? 'Smoke: every server starts, agrees and answers.' : 'Smoke: requests failed under load.',
    );
    // The other figures start and load servers like the code above, so a smoke test skips them.
    for (const figure of [measureImport, measureTallies]) await figure({ options, cleanup, print, median });
    return { results };
  }
  const reached = verdicts(results);
  if (reached.length === 0) return { results };
  print('### To reach\n');
  print('| figure (ours against the peer) | to reach | measured | reached |');
  print('|---|---|---:|---|');
  for (const each of reached) {
    print(`| ${each.figure} | ${each.toReach} | ${each.measured} | ${each.reached ? 'yes' : 'no'} |`);
  }
  print();
  return { results, verdicts: reached };
}

const FIGURES = {
  startup: measureStartup,
  depth: measureDepth,
  import: measureImport,
  'first-import': measureFirstImport,
  // Imports a file of TypeScript, which Node.js 20 does not read.
  growth: async (bench) => (await import('./growth.mjs')).measureGrowth(bench),
  tallies: measureTallies,
  overload: measureOverload,
  workers: measureWorkers,
};

async function main() {
  if (given.help) return print(HELP);
  const figure = FIGURES[given.only];
  if (given.only !== undefined && figure === undefined) throw new Error(`--only is one of ${Object.keys(FIGURES)}.`);
  for (const name of options.servers) {
    if (SERVERS[name] === undefined) throw new Error(`There is no server ${name}.`);
  }
  const generator = given.generator ?? (await findGenerator());
  if (!['wrk', 'autocannon'].includes(generator)) throw new Error(`There is no generator ${generator}.`);
  const postgres = await withClient(options.serverUrl, async (client) => {
    const { rows } = await client.query(`SELECT current_setting('server_version') AS version`);
    return rows[0].version;
  });
  const about = `Node ${process.version}, PostgreSQL ${postgres}, ${cpus().length} × ${cpus()[0]?.model}, load by ${generator}`;
  print(`${about}${given.awake ? ', processors kept awake' : ''}\n`);
  if (given.awake) keepAwake();
  const result = figure
    ? await figure({ options, cleanup, generator, print, median, keepServer })
    : await runComparison(generator);
  if (given.out !== undefined) {
    const { log: _, serverUrl: __, ...shown } = options;
    const report = { at: new Date().toISOString(), about, options: shown, ...result };
    await writeFile(given.out, `${JSON.stringify(report, null, 2)}\n`);
  }
}

try {
  await main();
} catch (error) {
  if (!interrupted) {
    log(error.stack);
    process.exitCode = 1;
  }
} finally {
  if (!interrupted) await cleanUp();
}
