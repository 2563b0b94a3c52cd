import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { createDatabase } from './data.mjs';
import { findGenerator, load } from './load.mjs';
import { COMMAND, createSeeded, oursEnv } from './processes.mjs';

/*
 * `node test/bench/gc.mjs [dist ...]`, after `npm run build` and `npm ci --prefix test/bench`: garbage collection of
 * the server while it answers REST requests for one user. Each `dist` is the folder of a build; several builds are
 * measured in turns. Prints for 16 and 64 connections the rate, the 99th percentile, and the number, mean time and
 * promoted bytes of scavenges.
 */

const SERVER_URL = process.env['BENCH_DATABASE_URL'] ?? 'postgres://postgres@127.0.0.1:5432/postgres';
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 8);
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3);
const USERS = 5_000;
const builds = process.argv.length > 2 ? process.argv.slice(2).map((dist) => `${dist}/cli.js`) : [COMMAND];

/** A line of --trace-gc-nvp for a scavenge: its pause in ms, and the bytes that it promoted. */
const SCAVENGE = /\bpause=([\d.]+) .*\bgc=s .*\bpromoted=(\d+)/;

const cleanup = [];
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const round = (value, digits = 1) => Math.round(value * 10 ** digits) / 10 ** digits;

/** Starts a build with a log of its garbage collections. */
async function start(cli, env) {
  const child = spawn(process.execPath, ['--trace-gc', '--trace-gc-nvp', cli, 'serve', '--json'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const stop = () => child.kill('SIGKILL');
  process.once('exit', stop);
  const collections = { scavenges: 0, scavengeMs: 0, promotedBytes: 0 };
  const url = await new Promise((resolve, reject) => {
    child.once('exit', () => reject(new Error(`${cli} ended.`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (line.startsWith('{')) resolve(JSON.parse(line).url);
      const [, pause, promoted] = SCAVENGE.exec(line) ?? [];
      if (pause === undefined) return;
      collections.scavenges += 1;
      collections.scavengeMs += Number(pause);
      collections.promotedBytes += Number(promoted);
    });
  });
  return {
    url,
    collections,
    async stop() {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      await ended;
      process.off('exit', stop);
    },
  };
}

const generator = await findGenerator();
const database = await createDatabase(SERVER_URL, `userdir_gc_${process.pid}`, cleanup);
try {
  const headers = await createSeeded(database, 'gc', USERS);
  const requests = Array.from({ length: 500 }, (_, index) => ({
    method: 'GET',
    path: `/server/users/${1 + ((index * 7) % USERS)}`,
  }));
  const results = new Map();
  for (let turn = 0; turn < ROUNDS; turn += 1) {
    for (const cli of builds) {
      const server = await start(cli, oursEnv(database, { DEMO: 'off' }));
      await load(generator, { url: server.url, headers, requests, connections: 64, seconds: 2 });
      for (const connections of [16, 64]) {
        const before = { ...server.collections };
        const { rps, p99Ms, failures } = await load(generator, {
          url: server.url,
          headers,
          requests,
          connections,
          seconds: SECONDS,
        });
        if (failures > 0) throw new Error(`${failures} requests failed.`);
        const scavenges = server.collections.scavenges - before.scavenges;
        const key = `${cli} ${connections}`;
        results.set(key, [
          ...(results.get(key) ?? []),
          {
            rps,
            p99Ms,
            scavenges,
            scavengeMs: (server.collections.scavengeMs - before.scavengeMs) / scavenges,
            promotedMiB: (server.collections.promotedBytes - before.promotedBytes) / scavenges / 2 ** 20,
          },
        ]);
      }
      await server.stop();
    }
  }
  for (const [key, rounds] of results) {
    const of = (name, digits) => round(median(rounds.map((each) => each[name])), digits);
    process.stdout.write(
      `${key} connections: ${of('rps', 0)} requests/s, p99 ${of('p99Ms')} ms, ${of('scavenges', 0)} scavenges of ${of('scavengeMs', 2)} ms, ${of('promotedMiB', 2)} MiB promoted by each\n`,
    );
  }
} finally {
  for (const drop of cleanup.toReversed()) await drop();
}
