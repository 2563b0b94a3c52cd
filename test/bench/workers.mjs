import { prepareData } from './data.mjs';
import { load } from './load.mjs';
import { startServer } from './processes.mjs';
import { headersFor } from './questions.mjs';

/** What a second worker adds: the same requests to a service of one process and to one of two, in turns. */

const WORKERS = [1, 2];
const TO_REACH = 1.25;

export async function measureWorkers({ options, cleanup, generator, print, median, keepServer }) {
  const data = await prepareData({ ...options, needsPeers: false }, cleanup);
  const questions = questionsOn(data);
  const services = [];
  for (const workers of WORKERS) {
    const service = await startServer('ours', data, options.pool, { WORKERS: String(workers) });
    services.push({ ...service, workers, entry: keepServer(service) });
  }
  const measured = [];
  print(
    '| question | connections | one process, requests/s | two workers | two ÷ one, each round | median | failures |',
  );
  print('|---|---:|---:|---:|---|---:|---:|');
  for (const [question, requests] of Object.entries(questions)) {
    const ask = ({ url }, connections) =>
      load(generator, { url, headers: headersFor('ours', data), requests, connections, seconds: options.seconds });
    for (const service of services) await ask(service, 32);
    for (const connections of options.connections) {
      const rounds = [];
      for (let round = 0; round < options.rounds; round += 1) {
        const results = new Map();
        // Every second round runs in reverse, so that neither service always follows the other.
        for (const service of round % 2 === 0 ? services : services.toReversed())
          results.set(service.workers, await ask(service, connections));
        rounds.push({ one: results.get(1), two: results.get(2) });
      }
      const ratios = rounds.map(({ one, two }) => two.rps / one.rps);
      const failures = rounds.reduce((sum, { one, two }) => sum + one.failures + two.failures, 0);
      const rate = (name) => median(rounds.map((each) => each[name].rps)).toFixed(0);
      const each = ratios.map((ratio) => ratio.toFixed(2)).join(', ');
      const figures = [connections, rate('one'), rate('two'), each, median(ratios).toFixed(2), failures];
      print(`| ${question} | ${figures.join(' | ')} |`);
      measured.push({ question, connections, rounds, ratio: median(ratios), failures });
    }
  }
  print(`\nTo reach with 32 connections or more: ${TO_REACH}.\n`);
  for (const { entry } of services) await entry.stop();
  return { workers: measured };
}

/** One in which wrk and PostgreSQL take as much of the machine as the service, and one that is mostly work of the service. */
function questionsOn({ firstId, users }) {
  const fields = 'id authMethod authValue wallet createdAt accounts { id network publicKey }';
  return {
    'REST one user': Array.from({ length: 2_000 }, (_, n) => ({
      method: 'GET',
      path: `/server/users/${firstId + ((n * 7_919) % users)}`,
    })),
    'GraphQL page of 100': Array.from({ length: 100 }, (_, n) => ({
      method: 'POST',
      path: '/graphql',
      body: JSON.stringify({
        query: `query ($page: Int!) { userPage(page: $page, limit: 100) { totalUser users { ${fields} } } }`,
        variables: { page: n + 1 },
      }),
    })),
  };
}
