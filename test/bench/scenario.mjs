import { prepareData } from './data.mjs';
import { addBuilds, likeOf } from './processes.mjs';
import { drawItems, readCursors, SCENARIOS, seededRandom } from './questions.mjs';

/** One scenario of the benchmark that reads, asked of chosen servers: what cost.mjs measures. */

export const SCENARIO_OPTIONS = {
  'database-url': { type: 'string', default: 'postgres://postgres@127.0.0.1:5432/postgres' },
  users: { type: 'string', default: '200000' },
  scenario: { type: 'string', default: 'REST verify' },
  servers: { type: 'string', default: 'ours,a' },
  builds: { type: 'string', default: '' },
  connections: { type: 'string', default: '1' },
};

const PAGES = 50;

/** Takes the databases that `npm run bench -- --reuse` keeps, or makes and keeps them. */
export async function prepareScenario(given) {
  const scenario = SCENARIOS.find(({ name }) => name === given.scenario);
  if (scenario === undefined)
    throw new Error(`There is no scenario "${given.scenario}", only: ${SCENARIOS.map(({ name }) => name).join(', ')}.`);
  const options = {
    serverUrl: given['database-url'],
    users: Number(given.users),
    smallProjects: 100,
    keep: true,
    reuse: true,
    log: (line) => process.stderr.write(`${line}\n`),
  };
  const data = await prepareData(options, []);
  const names = [...given.servers.split(','), ...addBuilds(given.builds === '' ? [] : given.builds.split(','))];
  const items = await drawItems(data, seededRandom(1_000), { count: 4_000, pages: PAGES });
  return {
    scenario,
    data,
    names: names.filter((name) => scenario.ask[likeOf(name)] !== undefined),
    connections: given.connections.split(',').map(Number),
    /** The requests to a server that was started. */
    async requestsTo(server, name) {
      const needsCursors = scenario.items === 'pages' && scenario.name.startsWith('GraphQL');
      const cursors = needsCursors ? await readCursors(server, data, PAGES) : [];
      return items[scenario.items].map((item) => scenario.ask[likeOf(name)](item, cursors));
    },
  };
}

/** The value below which this share of the others is: 0.5 is the median. */
export const quantile = (values, share) => values.toSorted((a, b) => a - b)[Math.floor(values.length * share)];
