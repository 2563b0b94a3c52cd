import { writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { checkAnswers, checkWrites, cursorsOf } from './agreement.mjs';
import { prepareData, withClient } from './data.mjs';
import { measureDepth, measureStartup, measureTallies } from './figures.mjs';
import { measureFirstImport, measureMoves } from './import.mjs';
import { findGenerator, load } from './load.mjs';
import { keepAwake } from './machine.mjs';
import { settled, startMeters } from './meters.mjs';
import { measureOverload } from './overload.mjs';
import { addBuilds, likeOf, SERVERS, startServer } from './processes.mjs';
import { drawItems, headersFor, SCENARIOS, seededRandom } from './questions.mjs';
import { isInvalid, median, printScenario, verdicts } from './report.mjs';
import { copyForWrites, databaseOf, drawWrites } from './write-data.mjs';
import { WRITES } from './writes.mjs';

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
  --only FIGURE        instead of the comparison: startup, depth (--sizes LIST), first-import or moves (--lines N), tallies or overload
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
    help: { type: 'boolean', default: false },
  },
});

const defaults = given.smoke
  ? {
      // One load removes thousands.
      users: '20000',
      smallProjects: 5,
      rounds: '1',
      seconds: '1',
      connections: '16',
      servers: 'ours,a,b',
      sizes: '1000,2000',
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
      servers.push({
        ...server,
        entry,
        isCold: !options.smoke,
        cursors: await cursorsOf(server, scenario, data, options.pages),
      });
    }
    for (; round < endOf(start); round += 1) {
      measured.push(...(await measureRound(round, { scenario, data, generator, servers })));
    }
    await settled(data);
    for (const { entry } of servers) await entry.stop();
  }
  const writes = WRITES.includes(scenario);
  return { name: scenario.name, toReach: scenario.toReach, writes, rows: summarise(names, measured), measured };
}

async function measureRound(round, { scenario, data, generator, servers }) {
  const measured = [];
  const items =
    scenario.items && (await drawItems(data, randomOf(round), { count: 4_000, pages: options.pages }))[scenario.items];
  for (const connections of options.connections) {
    // Every second round runs in reverse, so that no server always follows the same one.
    for (const server of round % 2 === 0 ? servers : servers.toReversed()) {
      if (server.isCold) {
        const target = await targetOf(server, round, { scenario, data, items });
        await load(generator, { ...target, connections: 16, seconds: WARM_UP_SECONDS });
      }
      server.isCold = false;
      const target = await targetOf(server, round, { scenario, data, items });
      await settled(data);
      const meters = await startMeters(server, data);
      const result = await load(generator, { ...target, connections, seconds: options.seconds });
      measured.push({ server: server.name, connections, round, ...result, ...(await meters.stop(result.responses)) });
    }
  }
  return measured;
}

const randomOf = (round) => seededRandom(1_000 + round);

/** What a load sends to a server. Questions that write have other items for each load. */
async function targetOf({ name, url, cursors }, round, { scenario, data, items }) {
  const asked = items ?? (await drawWrites(scenario, databaseOf(name, data), data, randomOf(round)));
  return {
    url,
    headers: headersFor(name, data),
    requests: asked.map((item) => scenario.ask[likeOf(name)](item, cursors)),
    numbers: scenario.numbersOf?.(data),
    expected: scenario.expected,
  };
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
        commits: of('commits'),
        walBytes: of('walBytes'),
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

async function runComparison(generator) {
  const isChosen = ({ name }) => options.scenarios.some((text) => name.includes(text));
  const [reads, writes] = [SCENARIOS.filter(isChosen), WRITES.filter(isChosen)];
  if (reads.length + writes.length === 0)
    throw new Error(`--scenarios is of ${[...SCENARIOS, ...WRITES].map(({ name }) => `"${name}"`).join(', ')}.`);
  const data = await prepareData(options, cleanup);
  if (reads.length > 0) await checkAnswers(reads, data, { options, keepServer });
  const copies = writes.length > 0 ? await copyForWrites(data, options, cleanup) : null;
  if (copies !== null) await checkWrites(writes, copies, { options, keepServer });
  const results = [];
  for (const scenario of [...reads, ...writes]) {
    const result = await compare(scenario, writes.includes(scenario) ? copies : data, generator);
    if (result === null) continue;
    printScenario(result, print);
    results.push(result);
  }
  const invalid = results.flatMap(({ rows }) => rows).filter(isInvalid);
  if (invalid.length > 0) process.exitCode = 1;
  if (options.smoke) {
    print(
      invalid.length === 0 ? 'Smoke: every server starts, agrees and answers.' : 'Smoke: requests failed under load.',
    );
    // The other figures start and load servers like the code above, so a smoke test skips them.
    for (const figure of [measureFirstImport, measureTallies]) await figure({ options, cleanup, print, median });
    return { results };
  }
  const reached = verdicts(results, options.connections);
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
  'first-import': measureFirstImport,
  moves: measureMoves,
  tallies: measureTallies,
  overload: measureOverload,
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
