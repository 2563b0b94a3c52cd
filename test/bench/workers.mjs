import { prepareData, withClient } from './data.mjs';
import { load } from './load.mjs';
import { PARTS, startMachineMeter } from './machine.mjs';
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
          results.set(service.workers, await profiled(service, () => ask(service, connections)));
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
  printProfiles(measured, print);

  async function profiled(service, work) {
    const meter = startMachineMeter({ service: service.pid, sessions: await sessionsOf(data) });
    const result = await work();
    return { ...result, seconds: meter.stop() };
  }
  for (const { entry } of services) await entry.stop();
  return { workers: measured };
}

/** The processes of PostgreSQL that work for our services. They stay, because the pool is full after the first load. */
async function sessionsOf(data) {
  return withClient(data.ours, async (client) => {
    const { rows } = await client.query(
      'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    );
    return rows.map(({ pid }) => pid);
  });
}

/**
 * Where the time of the machine goes, in µs of CPU for a request. What two workers can reach is limited by what one process leaves idle: the most
 * would be reached if they used all of that, and each request took as much CPU as with one.
 */
function printProfiles(measured, print) {
  print('µs of CPU for a request, of all threads of the machine:\n');
  print('| question | connections | workers | service | PostgreSQL | load | other programs | idle | at most ÷ one |');
  print('|---|---:|---:|---:|---:|---:|---:|---:|---:|');
  for (const { question, connections, rounds } of measured) {
    for (const [name, workers] of [
      ['one', 1],
      ['two', 2],
    ]) {
      const responses = rounds.reduce((sum, round) => sum + round[name].responses, 0);
      const micros = PARTS.map(
        (part) => rounds.reduce((sum, round) => sum + round[name].seconds[part] * 1e6, 0) / responses,
      );
      const [idle, whole] = [micros.at(-1), micros.reduce((sum, part) => sum + part, 0)];
      const most = name === 'one' ? (whole / (whole - idle)).toFixed(2) : '';
      print(`| ${[question, connections, workers, ...micros.map((part) => part.toFixed(1)), most].join(' | ')} |`);
    }
  }
  print();
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
