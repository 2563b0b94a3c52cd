/**
 * How long the turns of the event loop and the collections of garbage are in each storm, because both make every caller wait:
 *
 *   TEST_DATABASE_URL=postgres://… NODE test/bench/turns.mjs [DIST…]
 *
 * NODE is the Node.js to measure; DIST is a build, by default this one. The storms are those of overload.mjs, one after another in
 * one service, so that what one leaves behind shows in the next. STORMS names some, CONNECTIONS their number of connections.
 */
import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createDatabase } from './data.mjs';
import { findGenerator, load } from './load.mjs';
import { createSeeded, oursEnv, ROOT, startProcess } from './processes.mjs';
import { stormsOn } from './storms.mjs';

const SERVER = process.env.TEST_DATABASE_URL;
if (SERVER === undefined) throw new Error('Set TEST_DATABASE_URL to a PostgreSQL where databases may be created.');
const CONNECTIONS = (process.env.CONNECTIONS ?? '20,200').split(',').map(Number);
const NAMES = process.env.STORMS?.split(',');
const USERS = 2_000;
const SECONDS = 3;
const PROBE = fileURLToPath(new URL('turns-probe.mjs', import.meta.url));
/** A line of `--trace-gc-nvp` for a scavenge: its pause in ms, and the bytes that it promoted. */
const SCAVENGE = /\bpause=([\d.]+) .*\bgc=s .*\bpromoted=(\d+)/;

const generator = await findGenerator();
for (const dist of process.argv.length > 2 ? process.argv.slice(2) : [`${ROOT}dist`]) await measureBuild(dist);

async function measureBuild(dist) {
  const cleanup = [];
  const url = await createDatabase(SERVER, `userdir_bench_${randomUUID().slice(0, 8)}`, cleanup);
  const storming = await createSeeded(url, 'Storm', USERS);
  const calm = await createSeeded(url, 'Calm', USERS);
  const env = oursEnv(url);
  const args = ['--trace-gc', '--trace-gc-nvp', '--import', PROBE, `${dist}/cli.js`, 'serve', '--json'];
  const { child, ended } = startProcess(args, env, ['ignore', 'pipe', 'pipe']);
  const scavenges = [];
  let onTurns = () => {};
  createInterface({ input: child.stderr }).on('line', (line) => line.startsWith('{"p99') && onTurns(JSON.parse(line)));
  const base = await new Promise((resolve) =>
    createInterface({ input: child.stdout }).on('line', (line) => {
      const found = SCAVENGE.exec(line);
      if (found) scavenges.push({ ms: Number(found[1]), bytes: Number(found[2]) });
      else if (line.startsWith('{')) resolve(JSON.parse(line).url);
    }),
  );
  const { result } = await (await fetch(`${base}/server/users?limit=1&page=${USERS}`, { headers: storming })).json();
  const storms = stormsOn({ firstId: result.users[0].id, users: USERS, headers: storming });
  process.stdout.write(
    `\n${dist}, Node ${process.version}\n\n| storm | connections | requests/s | turn p99, ms | longest turn | scavenges | median, ms | promoted each, MiB |\n|---|---:|---:|---:|---:|---:|---:|---:|\n`,
  );
  // Another project, so that the storm has the share of one among others.
  const calmly = setInterval(() => fetch(`${base}/server/users?limit=1`, { headers: calm }).catch(() => undefined), 10);
  for (const [name, { requests, headers = storming }] of Object.entries(storms)) {
    if (NAMES !== undefined && !NAMES.some((part) => name.includes(part))) continue;
    for (const connections of CONNECTIONS) {
      const storm = load(generator, { url: base, headers, requests, connections, seconds: SECONDS });
      await sleep(700);
      scavenges.length = 0;
      child.kill('SIGUSR2');
      await sleep((SECONDS - 1) * 1_000);
      const measured = new Promise((resolve) => {
        onTurns = resolve;
      });
      child.kill('SIGUSR2');
      const { p99Ms, longestMs } = await measured;
      const times = scavenges.map(({ ms }) => ms).sort((a, b) => a - b);
      const promoted = scavenges.reduce((sum, { bytes }) => sum + bytes, 0) / Math.max(1, scavenges.length) / 2 ** 20;
      const { rps } = await storm;
      const figures = [rps.toFixed(0), p99Ms.toFixed(1), longestMs.toFixed(1), times.length];
      const garbage = [(times[times.length >> 1] ?? 0).toFixed(1), promoted.toFixed(2)];
      process.stdout.write(`| ${[name, connections, ...figures, ...garbage].join(' | ')} |\n`);
    }
  }
  clearInterval(calmly);
  child.kill('SIGTERM');
  await ended;
  for (const undo of cleanup.reverse()) await undo();
}
