import { Agent, request } from 'node:http';
import { prepareData } from './data.mjs';
import { load } from './load.mjs';
import { startServer, userdir } from './processes.mjs';
import { headersFor } from './questions.mjs';

/** Much more than can be done: what is still done, how long it takes, and what the other projects notice. */

const SUSTAINABLE = 64;
const OVERLOAD = 10 * SUSTAINABLE;

export async function measureOverload({ options, cleanup, generator, print, keepServer }) {
  const data = await prepareData({ ...options, needsPeers: false }, cleanup);
  const neighbour = await userdir(data.ours, ['project', 'create', '--name', 'Neighbour']);
  await userdir(data.ours, ['seed', '--project', neighbour.app_id, '--users', '200']);
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
  const other = probe(
    server.url,
    { 'service-app-id': neighbour.app_id, 'service-app-secret': neighbour.app_secret },
    '/server/users?limit=1',
  );

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

  const quiet = await other(options.seconds);
  const pages = Array.from({ length: 500 }, (_, n) => `/server/users?limit=100&page=${n + 1}`);
  const searches = Array.from({ length: 500 }, (_, n) => `/server/users/search?email=nobody.${n}@example.com`);
  const storms = {
    'pages of 100': () => storm(pages, OVERLOAD),
    searches: () => storm(searches, OVERLOAD),
    'wrong secrets': () => storm(users, OVERLOAD, { ...ownHeaders, 'service-app-secret': 'wrong' }),
  };
  print('| another project meanwhile, one request at a time | p50 ms | p99 ms | p50 ÷ alone | refused |');
  print('|---|---:|---:|---:|---:|');
  print(`| nothing | ${quiet.p50Ms.toFixed(2)} | ${quiet.p99Ms.toFixed(2)} | 1 | 0 |`);
  const noticed = {};
  for (const [name, begin] of Object.entries(storms)) {
    const [, seen] = await Promise.all([begin(), other(options.seconds)]);
    noticed[name] = seen;
    const times = [seen.p50Ms.toFixed(2), seen.p99Ms.toFixed(2), (seen.p50Ms / quiet.p50Ms).toFixed(2)];
    print(`| ${name} | ${[...times, seen.refused].join(' | ')} |`);
  }
  await entry.stop();
  return { overload: { peak, over, accepted, rssMiB, recoveryMs, quiet, noticed } };
}

/** Asks one question over and over, one at a time, for so many seconds; the latencies of what was answered with 200. */
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
