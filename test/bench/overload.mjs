import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { prepareData } from './data.mjs';
import { load } from './load.mjs';
import { createSeeded, startServer } from './processes.mjs';
import { headersFor } from './questions.mjs';
import { stormsOn } from './storms.mjs';

/** Overload: the remaining throughput, the latency, and the effect on other projects. */

const SUSTAINABLE = 64;
const OVERLOAD = 10 * SUSTAINABLE;

export async function measureOverload({ options, cleanup, generator, print, median, keepServer }) {
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
    PostgreSQL: await measureNeighbour({
      options,
      generator,
      print,
      median,
      keepServer,
      engine: 'PostgreSQL',
      url: data.ours,
    }),
    embedded: await measureNeighbour({ options, generator, print, median, keepServer, engine: 'embedded', url: null }),
  };
  return { overload: { peak, over, accepted, rssMiB, recoveryMs, noticed } };
}

/** Users of the project that overloads the service, if the database is new. */
const STORM_USERS = 2_000;
const STORM_CONNECTIONS = (process.env.CONNECTIONS ?? '20,200').split(',').map(Number);
/** Parts of the names of the storms to measure, if not all. */
const STORMS = process.env.STORMS?.split(',');

/** How long a storm lasts before it is measured: the service notices a second project, starts its thread, and V8 compiles. */
const WARM_MS = 1_500;

/**
 * The latency of one project while another sends a storm of each kind of operation: to the same process, and to another process of the
 * service on the same machine and database. What the second costs is the machine's, and no service could avoid it.
 */
async function measureNeighbour({ options, generator, print, median, keepServer, engine, url }) {
  const stormed = await startStormed({ options, keepServer, url });
  const other = await startStormed({ options, keepServer, url });
  const measure = async (server, { before, streams, ...storm }, connections) => {
    if (before !== undefined) await send(server.url, storm.headers, before);
    const open = streams === undefined ? null : await openStreams(server.url, storm.headers, streams);
    const under = load(generator, {
      url: server.url,
      ...storm,
      connections,
      seconds: options.seconds + WARM_MS / 1_000 + 0.5,
    });
    await sleep(WARM_MS);
    const latency = await stormed.neighbour(options.seconds);
    await under;
    open?.close();
    return latency;
  };

  await stormed.neighbour(1);
  // Before each storm, because the speed of a shared machine changes from minute to minute.
  const alone = [];
  const seen = [];
  for (const name of Object.keys(stormed.storms)) {
    if (STORMS !== undefined && !STORMS.some((part) => name.includes(part))) continue;
    for (const connections of STORM_CONNECTIONS) {
      alone.push(await stormed.neighbour(options.seconds));
      const elsewhere = await measure(other, other.storms[name], connections);
      seen.push({ name, connections, elsewhere, ...(await measure(stormed, stormed.storms[name], connections)) });
    }
  }
  const quiet = { p50Ms: median(alone.map(({ p50Ms }) => p50Ms)), p99Ms: median(alone.map(({ p99Ms }) => p99Ms)) };
  print(
    `\n| ${engine}: another project meanwhile, one request at a time | connections | p50 ms | p99 ms | p99 ÷ alone | p99 with the storm in another process | p99 ÷ that | refused |`,
  );
  print('|---|---:|---:|---:|---:|---:|---:|---:|');
  print(
    `| nothing, median of ${alone.length} times | 0 | ${quiet.p50Ms.toFixed(2)} | ${quiet.p99Ms.toFixed(2)} | 1 | | | 0 |`,
  );
  for (const { name, connections, p50Ms, p99Ms, refused, elsewhere } of seen) {
    const ratios = [(p99Ms / quiet.p99Ms).toFixed(1), elsewhere.p99Ms.toFixed(2), (p99Ms / elsewhere.p99Ms).toFixed(1)];
    print(`| ${[name, connections, p50Ms.toFixed(2), p99Ms.toFixed(2), ...ratios, refused].join(' | ')} |`);
  }
  const noticed = { quiet, ...Object.fromEntries(seen.map((each) => [`${each.name}, ${each.connections}`, each])) };
  for (const { stop } of [stormed, other]) await stop();
  return noticed;
}

/** A server with a project that storms and one that is its neighbor. */
async function startStormed({ options, keepServer, url }) {
  const dataDir = await mkdtemp(join(tmpdir(), 'userdir-bench-'));
  const server = await startServer('ours', { ours: url, dataDir }, options.pool);
  const entry = keepServer(server);
  const create = (name, users) => createSeeded(url, name, users, { DATA_DIR: dataDir });
  const [storming, calm] = [await create('Storm', STORM_USERS), await create('Neighbour', 200)];
  const { result } = await (
    await fetch(`${server.url}/server/users?limit=1&page=${STORM_USERS}`, { headers: storming })
  ).json();
  const storms = stormsOn({ firstId: result.users[0].id, users: STORM_USERS, headers: storming });
  return {
    url: server.url,
    neighbour: probe(server.url, calm, '/server/users?limit=1'),
    storms: Object.fromEntries(Object.entries(storms).map(([name, storm]) => [name, { headers: storming, ...storm }])),
    async stop() {
      await entry.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

async function send(url, headers, { method, path, body }) {
  const response = await fetch(url + path, { method, headers, body });
  if (!response.ok) throw new Error(`${path} answered ${response.status}.`);
  await response.text();
}

/** Opens streams of events, and reads every second one. */
async function openStreams(url, headers, { count, request: { method, path, body } }) {
  const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });
  const open = (_, index) =>
    new Promise((resolve, reject) => {
      const asked = request(url + path, { method, agent, headers: { ...headers, accept: 'text/event-stream' } });
      asked.on('response', (response) => {
        response.on('error', () => undefined);
        if (index % 2 === 0) response.resume();
        resolve(asked);
      });
      asked.on('error', reject).end(body);
    });
  const opened = await Promise.all(Array.from({ length: count }, open));
  return {
    close() {
      for (const each of opened) each.on('error', () => undefined).destroy();
      agent.destroy();
    },
  };
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
