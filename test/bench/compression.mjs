/**
 * What compressed answers cost, on PostgreSQL, one connection:
 *
 *   TEST_DATABASE_URL=postgres://… node test/bench/compression.mjs
 *
 * For each answer and encoding: bytes, median latency, and CPU of the service for a request. USERS, ROUNDS and ROUND_MS change the size.
 */
import http from 'node:http';
import { prepareData } from './data.mjs';
import { startServer } from './processes.mjs';

const SERVER = process.env.TEST_DATABASE_URL;
if (SERVER === undefined) throw new Error('Set TEST_DATABASE_URL to a PostgreSQL where databases may be created.');
const USERS = Number(process.env.USERS ?? 10_000);
const ROUNDS = Number(process.env.ROUNDS ?? 9);
const ROUND_MS = Number(process.env.ROUND_MS ?? 700);
const ENCODINGS = ['identity', 'gzip', 'br'];
const ANSWERS = {
  'a page of 10': '/server/users?limit=10',
  'a page of 100': '/server/users?limit=100',
};

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

function get(agent, url, { appId, appSecret }, encoding) {
  return new Promise((resolve, reject) => {
    const headers = { 'service-app-id': appId, 'service-app-secret': appSecret, 'accept-encoding': encoding };
    const request = http.get(url, { agent, headers }, (response) => {
      let bytes = 0;
      response.on('data', (chunk) => {
        bytes += chunk.length;
      });
      response.on('end', () => resolve({ bytes, encoding: response.headers['content-encoding'] ?? 'identity' }));
    });
    request.on('error', reject);
  });
}

/** Requests for a while, one after another. */
async function round(server, data, path, encoding, agent) {
  const latencies = [];
  let bytes = 0;
  const cpu = server.cpuSeconds();
  const until = performance.now() + ROUND_MS;
  while (performance.now() < until) {
    const sent = performance.now();
    const answer = await get(agent, server.url + path, data, encoding);
    if (answer.encoding !== encoding) throw new Error(`${path} is sent as ${answer.encoding}, not as ${encoding}.`);
    latencies.push(performance.now() - sent);
    bytes = answer.bytes;
  }
  return {
    bytes,
    median_us: median(latencies) * 1_000,
    cpu_us: ((server.cpuSeconds() - cpu) / latencies.length) * 1e6,
  };
}

/** The encodings take turns, so that the load of the machine is the same for all. The first round warms up. */
async function measure(server, data, path) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const rounds = Object.fromEntries(ENCODINGS.map((encoding) => [encoding, []]));
  for (let turn = 0; turn <= ROUNDS; turn += 1) {
    for (const encoding of ENCODINGS) {
      const figures = await round(server, data, path, encoding, agent);
      if (turn > 0) rounds[encoding].push(figures);
    }
  }
  agent.destroy();
  const of = (encoding, figure) => Math.round(median(rounds[encoding].map((each) => each[figure])));
  return ENCODINGS.map((encoding) => ({
    encoding,
    bytes: of(encoding, 'bytes'),
    median_us: of(encoding, 'median_us'),
    cpu_us: of(encoding, 'cpu_us'),
  }));
}

const cleanup = [];
try {
  const log = (line) => process.stderr.write(`${line}\n`);
  const options = { serverUrl: SERVER, users: USERS, smallProjects: 1, needsPeers: false, log };
  const data = await prepareData(options, cleanup);
  const server = await startServer('ours', data, 10, { COMPRESSION: 'on' });
  cleanup.push(server.stop);
  for (const [answer, path] of Object.entries(ANSWERS)) {
    for (const figures of await measure(server, data, path))
      process.stdout.write(`${JSON.stringify({ answer, ...figures })}\n`);
  }
} finally {
  for (const undo of cleanup.toReversed()) await undo();
}
