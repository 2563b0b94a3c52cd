import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { prepareData } from './data.mjs';
import { load } from './load.mjs';
import { startServer, userdir } from './processes.mjs';
import { headersFor } from './questions.mjs';
import { stormsOn } from './storms.mjs';

/** Overload: the remaining throughput, the latency, and the effect on other projects. */

const SUSTAINABLE = 64;
const OVERLOAD = 10 * SUSTAINABLE;

export async function measureOverload({ options, cleanup, generator, print, keepServer }) {
  const data = await prepareData({ ...options, needsPeers: false }, cleanup);
  const server = await startServer('ours', data, options.pool);
  const entry = keepServer(server);
  const ownHeaders = headersFor('ours', data);
  const storm = (paths, connections, headers = ownHeaders) =>
    load(generator, {
      url: server.url,
      headers,
      requests: paths.map((path) => ({ method: 'GET', path })),
      connections,
      seconds: options.seconds,
    });
  const users = Array.from({ length: 2_000 }, (_, n) => `/server/users/${data.firstId + ((n * 7_919) % data.users)}`);
  const own = probe(server.url, ownHeaders, users[0]);
  await storm(users, SUSTAINABLE);
  const peak = await storm(users, SUSTAINABLE);
  const [over, accepted] = await Promise.all([storm(users, OVERLOAD), own(options.seconds)]);
  const rssMiB = server.rssMiB();
  const endedAt = performance.now();
  const alone = await own(1);
  const recoveryMs = alone.firstAnswerAt - endedAt;
  const done = (result) => (result.responses - result.failures) / (result.responses / result.rps);
  print('| one user, requests a second | answered | refused with 503 | p50 ms | p99 ms |');
  print('|---|---:|---:|---:|---:|');
  print(
    `| ${SUSTAINABLE} connections | ${done(peak).toFixed(0)} | 0 | ${peak.p50Ms.toFixed(1)} | ${peak.p99Ms.toFixed(1)} |`,
  );
  const refused = (over.failures / over.responses) * over.rps;
  print(
    `| ${OVERLOAD} connections | ${done(over).toFixed(0)} | ${refused.toFixed(0)} | ${accepted.p50Ms.toFixed(1)} | ${accepted.p99Ms.toFixed(1)} |`,
  );
  print(
    `\nAnswered under ten times the load ÷ before: ${(done(over) / done(peak)).toFixed(2)}, at ${rssMiB.toFixed(0)} MiB;`,
  );
  print(`the next answer after it came ${recoveryMs.toFixed(0)} ms later.\n`);

  await entry.stop();
  const noticed = {
    PostgreSQL: await measureNeighbour({ options, generator, print, keepServer, engine: 'PostgreSQL', url: data.ours }),
    embedded: await measureNeighbour({ options, generator, print, keepServer, engine: 'embedded', url: null }),
  };
  return { overload: { peak, over, accepted, rssMiB, recoveryMs, noticed } };
}

/** Users of the project that overloads the service, if the database is new. */
const STORM_USERS = 2_000;
const STORM_CONNECTIONS = [20, 200];

/** The latency of one project while another sends a storm of each kind of operation. */
async function measureNeighbour({ options, generator, print, keepServer, engine, url }) {
  const dataDir = await mkdtemp(join(tmpdir(), 'userdir-bench-'));
  const server = await startServer('ours', { ours: url, dataDir }, options.pool);
  const entry = keepServer(server);
  const run = (args) => userdir(url, args, { DATA_DIR: dataDir });
  const [storming, calm] = [await createSeeded(run, 'Storm', STORM_USERS), await createSeeded(run, 'Neighbour', 200)];
  const { result } = await (
    await fetch(`${server.url}/server/users?limit=1&page=${STORM_USERS}`, { headers: storming })
  ).json();
  const storms = stormsOn({ firstId: result.users[0].id, users: STORM_USERS, headers: storming });
  const neighbour = probe(server.url, calm, '/server/users?limit=1');

  await neighbour(1);
  const quiet = await neighbour(options.seconds);
  print(
    `\n| ${engine}: another project meanwhile, one request at a time | connections | p50 ms | p99 ms | p99 ÷ alone | refused |`,
  );
  print('|---|---:|---:|---:|---:|---:|');
  print(`| nothing | 0 | ${quiet.p50Ms.toFixed(2)} | ${quiet.p99Ms.toFixed(2)} | 1 | 0 |`);
  const noticed = { quiet };
  for (const [name, { requests, headers = storming }] of Object.entries(storms)) {
    for (const connections of STORM_CONNECTIONS) {
      const storm = load(generator, { url: server.url, headers, requests, connections, seconds: options.seconds + 1 });
      // Skips the first moment, when the service has not yet seen a second project.
      const seen = await sleep(500).then(() => neighbour(options.seconds));
      await storm;
      noticed[`${name}, ${connections}`] = seen;
      const times = [seen.p50Ms.toFixed(2), seen.p99Ms.toFixed(2), (seen.p99Ms / quiet.p99Ms).toFixed(1)];
      print(`| ${[name, connections, ...times, seen.refused].join(' | ')} |`);
    }
  }
  await entry.stop();
  await rm(dataDir, { recursive: true, force: true });
  return noticed;
}

/** Creates a project with users; returns its credential headers. */
async function createSeeded(run, name, users) {
  const { app_id: appId, app_secret: appSecret } = await run(['project', 'create', '--name', name]);
  await run(['seed', '--project', appId, '--users', String(users)]);
  return { 'service-app-id': appId, 'service-app-secret': appSecret, 'content-type': 'application/json' };
}

/** Repeats one request, one at a time, for this many seconds; returns the latencies of answers with status 200. */
function probe(url, headers, path) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const once = () =>
    new Promise((resolve, reject) => {
      const asked = request(url + path, { agent, headers }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode));
      });
      asked.on('error', reject).end();
    });
  return async (seconds) => {
    const latencies = [];
    let refused = 0;
    let firstAnswerAt = Number.NaN;
    const endsAt = performance.now() + seconds * 1_000;
    while (performance.now() < endsAt) {
      const startedAt = performance.now();
      const status = await once();
      if (status !== 200) {
        refused += 1;
        continue;
      }
      if (latencies.length === 0) firstAnswerAt = performance.now();
      latencies.push(performance.now() - startedAt);
    }
    latencies.sort((a, b) => a - b);
    const percentile = (share) => latencies[Math.floor(latencies.length * share)] ?? Number.NaN;
    return { p50Ms: percentile(0.5), p99Ms: percentile(0.99), refused, firstAnswerAt };
  };
}
