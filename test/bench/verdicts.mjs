/**
 * Verdicts a second, in batches of 500 wallets, on PostgreSQL:
 *
 *   TEST_DATABASE_URL=postgres://… node test/bench/verdicts.mjs
 *
 * over REST, over GraphQL, and by `userdir wallet verify`, with its memory. Four fifths of the addresses are owned, and
 * every tenth wallet names a user. USERS, SECONDS, CONNECTIONS and LINES change the size.
 */
import { randomBytes } from 'node:crypto';
import http from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { prepareData, withClient } from './data.mjs';
import { COMMAND, oursEnv, rssMiB, startProcess, startServer } from './processes.mjs';

const SERVER = process.env.TEST_DATABASE_URL;
if (SERVER === undefined) throw new Error('Set TEST_DATABASE_URL to a PostgreSQL where databases may be created.');
const USERS = Number(process.env.USERS ?? 100_000);
const SECONDS = Number(process.env.SECONDS ?? 8);
const CONNECTIONS = Number(process.env.CONNECTIONS ?? 4);
const LINES = Number(process.env.LINES ?? 1_000_000);
const BATCH = 500;
const BATCHES = 64;

const QUERY = `query ($inputs: [WalletInput!]!) {
  verifyWallets(inputs: $inputs) { asOf verdict reason userId network walletType authMethod }
}`;

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

/** Batches of wallets as REST takes them. */
async function makeBatches({ ours, projectId }) {
  const { rows } = await withClient(ours, (client) =>
    client.query(
      `SELECT public_key AS address, user_id::int FROM accounts WHERE project_id = $1 ORDER BY md5(id::text) LIMIT $2`,
      [projectId, BATCH * BATCHES],
    ),
  );
  const walletOf = ({ address, user_id }, index) => {
    if (index % 5 === 0) return { address: `0x${randomBytes(20).toString('hex')}` };
    return index % 10 === 1 ? { address, user_id } : { address };
  };
  return Array.from({ length: BATCHES }, (_, batch) => rows.slice(batch * BATCH, (batch + 1) * BATCH).map(walletOf));
}

const interfaces = {
  REST: { path: '/wallets/verify', bodyOf: (wallets) => ({ wallets }) },
  GraphQL: {
    path: '/graphql',
    bodyOf: (wallets) => ({
      query: QUERY,
      variables: { inputs: wallets.map(({ address, user_id }) => ({ address, userId: user_id })) },
    }),
  },
};

function send(url, { appId, appSecret }, agent, path, body) {
  return new Promise((resolve, reject) => {
    const headers = {
      'service-app-id': appId,
      'service-app-secret': appSecret,
      'content-type': 'application/json',
      'content-length': body.length,
    };
    const request = http.request(url + path, { method: 'POST', agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode, text }));
    });
    request.on('error', reject).end(body);
  });
}

async function measure(server, data, { path, bodyOf }, batches) {
  const bodies = batches.map((wallets) => Buffer.from(JSON.stringify(bodyOf(wallets))));
  const agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const { status, text } = await send(server.url, data, agent, path, bodies[0]);
  const owned = text.split('"VERIFIED"').length - 1;
  if (status !== 200 || owned !== (BATCH * 4) / 5) throw new Error(`${path}: ${status}, ${owned} verified`);
  const latencies = [];
  let cpu = 0;
  let started = 0;
  let until = performance.now() + 1_000;
  let next = 0;
  const ask = async () => {
    while (performance.now() < until) {
      const sent = performance.now();
      next += 1;
      await send(server.url, data, agent, path, bodies[next % bodies.length]);
      latencies.push(performance.now() - sent);
    }
  };
  const round = () => Promise.all(Array.from({ length: CONNECTIONS }, ask));
  await round();
  latencies.length = 0;
  cpu = server.cpuSeconds();
  started = performance.now();
  until = started + SECONDS * 1_000;
  await round();
  const seconds = (performance.now() - started) / 1_000;
  const verdicts = latencies.length * BATCH;
  agent.destroy();
  return {
    verdicts_per_second: Math.round(verdicts / seconds),
    median_ms_of_a_batch: Number(median(latencies).toFixed(1)),
    cpu_us_of_a_verdict: Number((((server.cpuSeconds() - cpu) / verdicts) * 1e6).toFixed(1)),
  };
}

/** The command over LINES wallets from a pipe. */
async function measureCommand(data, batches) {
  const args = [COMMAND, 'wallet', 'verify', '--project', data.appId, '--json'];
  const started = performance.now();
  const { child, ended } = startProcess(args, oursEnv(data.ours), ['pipe', 'pipe', 'pipe']);
  const texts = batches.map((wallets) => wallets.map((wallet) => `${JSON.stringify(wallet)}\n`).join(''));
  const input = Readable.from(
    (function* () {
      for (let batch = 0; batch < LINES / BATCH; batch += 1) yield texts[batch % texts.length];
    })(),
  );
  let report = '';
  let bytes = 0;
  child.stderr.on('data', (text) => {
    report += text;
  });
  child.stdout.on('data', (chunk) => {
    bytes += chunk.length;
  });
  let peakMiB = 0;
  const watch = setInterval(() => {
    peakMiB = Math.max(peakMiB, rssMiB(child.pid) ?? 0);
  }, 100);
  await Promise.all([pipeline(input, child.stdin), ended]);
  clearInterval(watch);
  const seconds = (performance.now() - started) / 1_000;
  const { verified, not_owned, malformed } = JSON.parse(report);
  if (verified !== (LINES * 4) / 5 || malformed !== 0) throw new Error(report);
  return {
    lines: verified + not_owned,
    lines_per_second: Math.round(LINES / seconds),
    peak_mib: Math.round(peakMiB),
    written_mib: Math.round(bytes / 2 ** 20),
  };
}

const cleanup = [];
try {
  const log = (line) => process.stderr.write(`${line}\n`);
  const options = { serverUrl: SERVER, users: USERS, smallProjects: 1, needsPeers: false, log };
  const data = await prepareData(options, cleanup);
  const batches = await makeBatches(data);
  const server = await startServer('ours', data, 10);
  cleanup.push(server.stop);
  for (const [name, each] of Object.entries(interfaces))
    process.stdout.write(`${JSON.stringify({ interface: name, ...(await measure(server, data, each, batches)) })}\n`);
  process.stdout.write(`${JSON.stringify({ command: 'wallet verify', ...(await measureCommand(data, batches)) })}\n`);
} finally {
  for (const undo of cleanup.toReversed()) await undo();
}
