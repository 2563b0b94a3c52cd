import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDatabase } from './data.mjs';
import { load } from './load.mjs';
import { createSeeded, startServer } from './processes.mjs';
import { median } from './report.mjs';
import { WRITES } from './writes.mjs';

/**
 * Logins on the embedded database, beside the same on PostgreSQL: requests a second and p99. Needs wrk.
 *
 *   TEST_DATABASE_URL=postgres://… node test/bench/embedded.mjs [USERS]
 */

const USERS = Number(process.argv[2] ?? 20_000);
const CONNECTIONS = [1, 16, 64];
const ROUNDS = 3;
const SECONDS = 2;
const POOL = 10;
const PAGE = 100;
const serverUrl = process.env['TEST_DATABASE_URL'];

/** A service with a project of USERS users, on the database at the URL; without one on an embedded database. */
async function start(title, url) {
  const dataDir = await mkdtemp(join(tmpdir(), 'userdir-bench-'));
  const server = await startServer('ours', { ours: url, dataDir }, POOL);
  const headers = await createSeeded(url, 'Logins', USERS, { DATA_DIR: dataDir });
  const pages = Array.from({ length: 40 }, (_, n) => 1 + n * Math.floor(USERS / PAGE / 40));
  const users = [];
  for (const page of pages) {
    const answer = await fetch(`${server.url}/server/users?limit=${PAGE}&page=${page}`, { headers });
    for (const { auth_method, auth_value } of (await answer.json()).result.users)
      users.push({ authMethod: auth_method, authValue: auth_value });
  }
  const stop = async () => {
    await server.stop();
    await rm(dataDir, { recursive: true, force: true });
  };
  return { title, url: server.url, headers, users, stop };
}

const questions = WRITES.filter(({ name }) =>
  ['GraphQL login of a user who exists', 'GraphQL first login'].includes(name),
);

/** Newcomers are drawn; the others are users of the project. */
function send({ url, headers, users }, { ask, draw, numbersOf, expected }, connections) {
  const items = numbersOf === undefined ? users : draw();
  const target = { url, headers, requests: items.map(ask.ours), numbers: numbersOf?.(), expected };
  return load('wrk', { ...target, connections, seconds: SECONDS });
}

const title = ({ title }) => `${title}: requests/s, p99 ms`;
const cell = (results) =>
  `${median(results.map(({ rps }) => rps)).toFixed(0)}, ${median(results.map(({ p99Ms }) => p99Ms)).toFixed(1)}`;

const cleanup = [];
const services = [];
try {
  const url = await createDatabase(serverUrl, `userdir_embedded_${randomBytes(4).toString('hex')}`, cleanup);
  services.push(await start('embedded', null), await start('PostgreSQL', url));
  process.stdout.write(`${process.version}, ${USERS} users\n\n`);
  process.stdout.write(
    `| question | connections | ${services.map(title).join(' | ')} | ratio |\n|---|---:|---:|---:|---:|\n`,
  );
  for (const question of questions) {
    for (const service of services) await send(service, question, 16);
    for (const connections of CONNECTIONS) {
      const found = services.map(() => []);
      for (let round = 0; round < ROUNDS; round += 1) {
        for (const [place, service] of services.entries()) {
          const result = await send(service, question, connections);
          if (result.failures > 0) throw new Error(`${service.title}: ${result.failures} answers are failures.`);
          found[place].push(result);
        }
      }
      const cells = found.map(cell);
      const ratio = median(found[0].map(({ rps }, round) => rps / found[1][round].rps));
      process.stdout.write(`| ${[question.name, connections, ...cells, ratio.toFixed(2)].join(' | ')} |\n`);
    }
  }
} finally {
  for (const { stop } of services) await stop();
  for (const drop of cleanup) await drop();
}
