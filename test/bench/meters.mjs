import { withClient } from './data.mjs';
import { endedChildrenSeconds } from './machine.mjs';
import { cpuSeconds } from './processes.mjs';

/** What a load costs the server and PostgreSQL. */

const SETTLE_TIMEOUT_MS = 180_000;

/** Waits until PostgreSQL is idle, so that a slow query does not disturb the next measurement. */
export async function settled(data) {
  const endsAt = performance.now() + SETTLE_TIMEOUT_MS;
  await withClient(data.ours, async (client) => {
    for (let quiet = 0; quiet < 2; await new Promise((resolve) => setTimeout(resolve, 50))) {
      if (performance.now() > endsAt) throw new Error(`A server was busy for ${SETTLE_TIMEOUT_MS} ms after its load.`);
      const { rows } = await client.query(
        `SELECT count(*)::int AS busy FROM pg_stat_activity
         WHERE datname = ANY($1) AND state <> 'idle' AND backend_type = 'client backend' AND pid <> pg_backend_pid()`,
        [databaseNames(data)],
      );
      quiet = rows[0].busy === 0 ? quiet + 1 : 0;
    }
  });
}

/** Measures a server and its database while it is loaded. Times, commits and WAL are per response, scavenges on average. */
export async function startMeters(server, data) {
  const memory = watchMemory(server);
  const [cpuBefore, databaseBefore, before] = [server.cpuSeconds(), await databaseCpu(data), server.scavenges()];
  const [loadBefore, writtenBefore] = [endedChildrenSeconds(), await written(data)];
  return {
    async stop(responses) {
      const [cpu, database, after] = [server.cpuSeconds(), await databaseCpu(data), server.scavenges()];
      const { commits, walBytes } = await written(data);
      const scavenges = after.count - before.count;
      let databaseSeconds = 0;
      for (const [pid, seconds] of database) databaseSeconds += seconds - (databaseBefore.get(pid) ?? 0);
      return {
        cpuUs: ((cpu - cpuBefore) * 1e6) / responses,
        databaseUs: (databaseSeconds * 1e6) / responses,
        loadUs: ((endedChildrenSeconds() - loadBefore) * 1e6) / responses,
        commits: (commits - writtenBefore.commits) / responses,
        walBytes: (walBytes - writtenBefore.walBytes) / responses,
        scavenges,
        scavengeMs: scavenges === 0 ? 0 : (after.ms - before.ms) / scavenges,
        promotedMiB: scavenges === 0 ? 0 : (after.promotedMiB - before.promotedMiB) / scavenges,
        rssMiB: memory.stop(),
      };
    },
  };
}

/**
 * The transactions that have written, and the bytes of WAL, of the whole server of PostgreSQL: others who write meanwhile count too. From the
 * counters that are exact at once. Sessions tell pg_stat_database and pg_stat_wal only once a second, and of the last second when they have been idle for ten.
 */
async function written(data) {
  const { rows } = await withClient(data.ours, (client) =>
    client.query(
      `SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS commits, pg_current_wal_insert_lsn() - '0/0' AS wal`,
    ),
  );
  return { commits: Number(rows[0].commits), walBytes: Number(rows[0].wal) };
}

/**
 * CPU time of each session of PostgreSQL in our databases, if it runs on this machine. Neither parallel workers are known nor the processes that all
 * databases share, such as the writer of WAL.
 */
async function databaseCpu(data) {
  const { rows } = await withClient(data.ours, (client) =>
    client.query(
      `SELECT pid FROM pg_stat_activity WHERE datname = ANY($1) AND backend_type = 'client backend' AND pid <> pg_backend_pid()`,
      [databaseNames(data)],
    ),
  );
  return new Map(rows.map(({ pid }) => [pid, cpuSeconds(pid) ?? 0]));
}

function databaseNames(data) {
  return [data.ours, data.peers].map((url) => new URL(url).pathname.slice(1));
}

function watchMemory(server) {
  let peak = 0;
  const look = () => {
    peak = Math.max(peak, server.rssMiB() ?? 0);
  };
  const timer = setInterval(look, 100);
  return {
    stop() {
      look();
      clearInterval(timer);
      return peak;
    },
  };
}
