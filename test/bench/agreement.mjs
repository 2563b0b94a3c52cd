import { isDeepStrictEqual } from 'node:util';
import { withClient } from './data.mjs';
import { numberAt, withNumber } from './load.mjs';
import { likeOf, SERVERS, startServer } from './processes.mjs';
import { ask, drawItems, readCursors, seededRandom } from './questions.mjs';
import { databaseOf, drawWrites } from './write-data.mjs';

/** Before anything is measured, every server answers a sample, and all answers must be equal; where they write, also what they wrote. */

const WRITTEN = 20;

/** `bench` has the options, and `keepServer` of bench.mjs. */
export async function checkAnswers(scenarios, data, { options, keepServer }) {
  const items = await drawItems(data, seededRandom(1), { count: 40, pages: options.pages });
  await compareServers({ data, options, keepServer }, async (server, compare) => {
    const like = likeOf(server.name);
    for (const scenario of scenarios.filter(({ ask: words }) => words[like] !== undefined)) {
      const cursors = await cursorsOf(server, scenario, data, options.pages);
      const asked = items[scenario.items].filter((item) => item === 0 || !scenario.firstPageOnly?.includes(like));
      for (const item of asked) {
        const answer = scenario.read(await ask(server, data, scenario.ask[like](item, cursors)));
        compare(`${scenario.name} ${JSON.stringify(item)}`, answer);
      }
    }
  });
}

export async function checkWrites(scenarios, data, { options, keepServer }) {
  await compareServers({ data, options, keepServer }, async (server, compare) => {
    const like = likeOf(server.name);
    for (const scenario of scenarios.filter(({ ask: words }) => words[like] !== undefined)) {
      const url = databaseOf(server.name, data);
      const items = await drawWrites(scenario, url, data, seededRandom(1));
      const before = await countRows(url, data);
      for (let n = 0; n < WRITTEN; n += 1) {
        const item = items[n % items.length];
        const request = scenario.ask[like](item);
        const sent = scenario.numbersOf ? withNumber(request, numberAt(scenario.numbersOf(data), n)) : request;
        compare(`${scenario.name} ${n}`, scenario.read(await ask(server, data, sent), item));
      }
      const after = await countRows(url, data);
      compare(
        `${scenario.name}, rows written`,
        Object.keys(after).map((what) => `${after[what] - before[what]} ${what}`),
      );
    }
  });
}

/** Runs `work` with each server; its `compare` throws at the first answer that differs from that of an earlier one. */
async function compareServers({ data, options, keepServer }, work) {
  const expected = new Map();
  let compared = 0;
  for (const name of options.servers.filter((each) => !SERVERS[each].isCeiling)) {
    const server = await startServer(name, data, options.pool);
    const entry = keepServer(server);
    await work(server, (question, answer) => {
      if (!expected.has(question)) {
        expected.set(question, plain(answer));
        return;
      }
      compared += 1;
      if (isDeepStrictEqual(plain(answer), expected.get(question))) return;
      const answers = [plain(answer), expected.get(question)].map((each) => JSON.stringify(each));
      throw new Error(`${question}: ${name} disagrees with ${options.servers[0]}.\n${answers.join('\n')}`);
    });
    await entry.stop();
  }
  if (compared === 0) throw new Error('Nothing was compared: no scenario has two of these servers.');
  options.log(`${options.servers.join(', ')} agree: ${compared} answers compared.`);
}

/** A value as JSON represents it, with sorted keys. */
function plain(value) {
  return JSON.parse(JSON.stringify(value));
}

export async function cursorsOf(server, scenario, data, pages) {
  const needed = scenario.items === 'pages' && scenario.name.startsWith('GraphQL');
  return needed ? readCursors(server, data, pages) : [];
}

async function countRows(url, { projectId }) {
  const { rows } = await withClient(url, (client) =>
    client.query(
      `SELECT count(*)::int AS users, sum(login_count)::int AS logins,
         (SELECT count(*)::int FROM accounts WHERE project_id = $1) AS accounts,
         (SELECT count(*)::int FROM idempotency_keys WHERE project_id = $1) AS keys
       FROM users WHERE project_id = $1 AND deleted_at IS NULL`,
      [projectId],
    ),
  );
  return rows[0];
}
