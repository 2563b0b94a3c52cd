import { prepareData } from './data.mjs';
import { addBuilds, likeOf } from './processes.mjs';
import { drawItems, headersFor, readCursors, SCENARIOS, seededRandom } from './questions.mjs';
import { copyForWrites, databaseOf, drawWrites } from './write-data.mjs';

/** One scenario of the benchmark, asked of chosen servers: what cost.mjs and profile.mjs measure. */

export const SCENARIO_OPTIONS = {
  'database-url': { type: 'string', default: 'postgres://postgres@127.0.0.1:5432/postgres' },
  users: { type: 'string', default: '200000' },
  scenario: { type: 'string', default: 'REST verify' },
  servers: { type: 'string', default: 'ours,a' },
  builds: { type: 'string', default: '' },
  connections: { type: 'string', default: '1' },
};

const PAGES = 50;

/**
 * Takes the databases that `npm run bench -- --reuse` keeps, or makes and keeps them. Where the scenario writes, it does so in copies, which
 * `dispose` drops.
 */
export async function prepareScenario(given, scenarios = SCENARIOS) {
  const scenario = scenarios.find(({ name }) => name === given.scenario);
  if (scenario === undefined)
    throw new Error(`There is no scenario "${given.scenario}", only: ${scenarios.map(({ name }) => name).join(', ')}.`);
  const options = {
    serverUrl: given['database-url'],
    users: Number(given.users),
    smallProjects: 100,
    keep: true,
    reuse: true,
    log: (line) => process.stderr.write(`${line}\n`),
  };
  const kept = await prepareData(options, []);
  const copies = [];
  const data = scenario.draw === undefined ? kept : await copyForWrites(kept, options, copies);
  const names = [...given.servers.split(','), ...addBuilds(given.builds === '' ? [] : given.builds.split(','))];
  const items = await drawItems(data, seededRandom(1_000), { count: 4_000, pages: PAGES });
  /** The requests to a server that was started. */
  async function requestsTo(server, name) {
    const needsCursors = scenario.items === 'pages' && scenario.name.startsWith('GraphQL');
    const cursors = needsCursors ? await readCursors(server, data, PAGES) : [];
    const asked = scenario.draw
      ? await drawWrites(scenario, databaseOf(name, data), data, seededRandom(1_000))
      : items[scenario.items];
    return asked.map((item) => scenario.ask[likeOf(name)](item, cursors));
  }
  return {
    scenario,
    data,
    names: names.filter((name) => scenario.ask[likeOf(name)] !== undefined),
    connections: given.connections.split(',').map(Number),
    requestsTo,
    /** What one load sends to it. */
    async targetOf(server, name) {
      const requests = await requestsTo(server, name);
      const { expected, numbersOf } = scenario;
      return { url: server.url, headers: headersFor(name, data), requests, numbers: numbersOf?.(data), expected };
    },
    async dispose() {
      for (const drop of copies) await drop();
    },
  };
}

/** The value below which this share of the others is: 0.5 is the median. */
export const quantile = (values, share) => values.toSorted((a, b) => a - b)[Math.floor(values.length * share)];
