import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { parseArgs } from 'node:util';
import { withClient } from './data.mjs';
import { rawRequest } from './load.mjs';
import { SERVERS, startServer } from './processes.mjs';
import { headersFor } from './questions.mjs';
import { prepareScenario, quantile, SCENARIO_OPTIONS } from './scenario.mjs';

/**
 * The CPU of a request, of several servers on a machine that others use too. The servers take turns every few milliseconds, so that what
 * the others do reaches all alike; the median of the turns drops what is left. That tells builds apart which differ by a few percent.
 *
 *   node test/bench/cost.mjs --scenario 'REST verify' --servers ours,a --builds OTHER/dist --connections 1,16
 */

const { values: given } = parseArgs({
  options: {
    ...SCENARIO_OPTIONS,
    servers: { type: 'string', default: 'ours,a,b' },
    /** Turns of each server. */
    turns: { type: 'string', default: '400' },
  },
});

const REQUESTS_IN_A_TURN = 40;
const WARM_UP = 12_000;

/** The time that the threads of a process have run, in nanoseconds. */
function runNs(pid) {
  let ns = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    ns += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]);
  }
  return ns;
}

/** Connections to a server, each with one request in flight. */
async function openConnections(url, requests, count) {
  const { hostname, port } = new URL(url);
  const sockets = await Promise.all(
    Array.from({ length: count }, () => {
      const socket = connect({ host: hostname, port, noDelay: true });
      return new Promise((resolve, reject) => socket.once('connect', () => resolve(socket)).once('error', reject));
    }),
  );
  let place = 0;
  const exchange = (socket) =>
    new Promise((resolve, reject) => {
      let received = '';
      socket.on('data', onData);
      place = (place + 1) % requests.length;
      socket.write(requests[place]);
      function onData(bytes) {
        received += bytes.toString('latin1');
        const end = received.indexOf('\r\n\r\n');
        if (end === -1) return;
        const length = Number(/content-length: (\d+)/i.exec(received)?.[1]);
        if (received.length < end + 4 + length) return;
        socket.off('data', onData);
        if (received.startsWith('HTTP/1.1 200 ')) resolve();
        else reject(new Error(received));
      }
    });
  return {
    /** Sends so many requests over all connections. */
    async run(times) {
      let left = times;
      const one = async (socket) => {
        while (left > 0) {
          left -= 1;
          await exchange(socket);
        }
      };
      await Promise.all(sockets.map(one));
    },
    close() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

async function backends(data) {
  const names = [data.ours, data.peers].map((url) => new URL(url).pathname.slice(1));
  const { rows } = await withClient(data.ours, (client) =>
    client.query(
      `SELECT pid FROM pg_stat_activity WHERE datname = ANY($1) AND backend_type = 'client backend' AND pid <> pg_backend_pid()`,
      [names],
    ),
  );
  return rows.map(({ pid }) => pid);
}

async function measure(servers, connections, data) {
  const clients = [];
  for (const { url, requests } of servers) {
    const client = await openConnections(url, requests, connections);
    await client.run(connections === 1 ? WARM_UP / 4 : WARM_UP);
    clients.push(client);
  }
  const pids = await backends(data);
  const databaseNs = () => pids.reduce((sum, pid) => sum + runNs(pid), 0);
  const found = servers.map(() => ({ server: [], database: [], wall: [] }));
  const length = REQUESTS_IN_A_TURN * Math.min(connections, 4);
  for (let turn = 0; turn < Number(given.turns); turn += 1) {
    for (let step = 0; step < servers.length; step += 1) {
      const place = (step + turn) % servers.length;
      const [server, database, wall] = [runNs(servers[place].pid), databaseNs(), performance.now()];
      await clients[place].run(length);
      found[place].wall.push(((performance.now() - wall) * 1e3) / length);
      found[place].server.push((runNs(servers[place].pid) - server) / 1e3 / length);
      found[place].database.push((databaseNs() - database) / 1e3 / length);
    }
  }
  for (const client of clients) client.close();
  return found;
}

function print(title, servers, found) {
  process.stdout.write(
    `\n${title}\n\n| median of the turns (and the lower quarter), µs | server | database | until the answer | first ÷ this: server | database | answer |\n|---|---:|---:|---:|---:|---:|---:|\n`,
  );
  for (const [place, { name }] of servers.entries()) {
    const each = ['server', 'database', 'wall'];
    const cells = each.map((what) => [0.5, 0.25].map((share) => quantile(found[place][what], share).toFixed(1)));
    const ratios = each.map((what) => quantile(found[0][what], 0.5) / quantile(found[place][what], 0.5));
    const shown = cells.map(([middle, lower]) => `${middle} (${lower})`);
    process.stdout.write(
      `| ${[SERVERS[name].title, ...shown, ...ratios.map((ratio) => ratio.toFixed(2))].join(' | ')} |\n`,
    );
  }
}

const { scenario, data, names, connections: counts, requestsTo } = await prepareScenario(given);
const servers = [];
for (const name of names) {
  const server = await startServer(name, data, 10);
  const { host } = new URL(server.url);
  const asked = await requestsTo(server, name);
  servers.push({ ...server, requests: asked.map((each) => rawRequest(host, headersFor(name, data), each)) });
}
for (const connections of counts) {
  print(`${scenario.name}, ${connections} connections`, servers, await measure(servers, connections, data));
}
for (const server of servers) await server.stop();
