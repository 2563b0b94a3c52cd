import { spawn } from 'node:child_process';
import { readdirSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { findGenerator, load } from './load.mjs';
import { SERVERS, startServer } from './processes.mjs';
import { headersFor } from './questions.mjs';
import { prepareScenario, quantile, SCENARIO_OPTIONS } from './scenario.mjs';

/**
 * What a server does with a lone request, and for how long: between its system calls, by the kernel's events (bpftrace, as root). A CPU profile
 * slows down what it measures, and cannot tell work that delays the answer from work that is done while the database answers.
 *
 *   node test/bench/phases.mjs --scenario 'REST verify' --servers ours,a [--builds OTHER/dist] [--turns 8]
 *
 * It takes the databases that `npm run bench -- --reuse` keeps, or makes and keeps them.
 */

const { values: given } = parseArgs({
  options: {
    ...SCENARIO_OPTIONS,
    /** Turns of a second of each server. */
    turns: { type: 'string', default: '8' },
  },
});

const turns = Number(given.turns);
if (!Number.isInteger(turns) || turns < 1)
  throw new Error(`--turns: got ${given.turns}, expected a whole number, 1 and up.`);

const ATTACH_TIMEOUT_MS = 30_000;
const WARM_UP_SECONDS = 5;

const writes = (name) => `
  tracepoint:syscalls:sys_enter_${name} /tid == $1 && @read/ {
    @work[@from, args->fd] = sum(nsecs - @read); @read = 0; @written = args->fd; @writing = nsecs;
  }
  tracepoint:syscalls:sys_exit_${name} /tid == $1 && @writing/ { @write = sum(nsecs - @writing); @writing = 0; @since = nsecs; }`;

/** $1 is the main thread. `@work` is the time from a read of one socket to a write to another; `@after` that from a write until it waits. */
const PROGRAM = `
  tracepoint:syscalls:sys_enter_read /tid == $1/ { @reading = args->fd; }
  tracepoint:syscalls:sys_exit_read /tid == $1 && args->ret > 0/ { @read = nsecs; @from = @reading; }
  ${writes('write')} ${writes('writev')}
  tracepoint:syscalls:sys_enter_epoll_pwait /tid == $1 && @since/ { @after[@written] = sum(nsecs - @since); @since = 0; }`;

/** Runs `work` while the events of a process are counted; returns the sums in nanoseconds, by name and then by sockets. */
async function countEvents(pid, work) {
  const child = spawn('bpftrace', ['-f', 'json', '-e', PROGRAM, String(pid)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const failed = new Promise((_, reject) => {
    child.once('error', ({ message }) => reject(new Error(`This needs bpftrace, and root: ${message}`)));
    child.once('exit', (code) => code !== 0 && reject(new Error(`bpftrace ended with ${code}.`)));
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  let output = '';
  child.stdout.on('data', (bytes) => {
    output += bytes;
  });
  const measured = async () => {
    const endsAt = performance.now() + ATTACH_TIMEOUT_MS;
    while (!output.includes('attached_probes')) {
      if (performance.now() > endsAt) throw new Error(`bpftrace did not start within ${ATTACH_TIMEOUT_MS} ms.`);
      await sleep(20);
    }
    await work();
    child.kill('SIGINT');
    await ended;
  };
  try {
    await Promise.race([measured(), failed]);
  } finally {
    child.kill('SIGKILL');
  }
  const maps = output.split('\n').filter((line) => line.startsWith('{"type": "map"'));
  return Object.assign({}, ...maps.map((line) => JSON.parse(line).data));
}

/** The open sockets of a process: while it has no client, all others are those to the database. */
function socketsOf(pid) {
  const isSocket = (fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith('socket:');
    } catch {
      return false;
    }
  };
  return new Set(readdirSync(`/proc/${pid}/fd`).filter(isSocket));
}

const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);

/** Microseconds of a request, by phase. */
async function measure(server, target, generator) {
  const others = socketsOf(server.pid);
  let result;
  const events = await countEvents(server.pid, async () => {
    result = await load(generator, { ...target, connections: 1, seconds: 1 });
  });
  if (result.failures > 0 || result.responses === 0) throw new Error(`${server.name} did not answer as it should.`);
  const perRequest = (entries) => sum(entries.map(([, ns]) => ns)) / result.responses / 1_000;
  const between = (isWanted) =>
    perRequest(
      Object.entries(events['@work']).filter(([sockets]) =>
        isWanted(...sockets.split(',').map((fd) => others.has(fd))),
      ),
    );
  const after = (isWanted) => perRequest(Object.entries(events['@after']).filter(([fd]) => isWanted(others.has(fd))));
  const phases = {
    'request → statement': between((fromDatabase, toDatabase) => !fromDatabase && toDatabase),
    'after the statement': after((toDatabase) => toDatabase),
    'rows → answer': between((fromDatabase, toDatabase) => fromDatabase && !toDatabase),
    'after the answer': after((toDatabase) => !toDatabase),
    'writes to sockets': events['@write'] / result.responses / 1_000,
  };
  return { ...phases, 'from one answer to the next': 1e6 / result.rps };
}

const { scenario, data, names, requestsTo } = await prepareScenario(given);
const generator = await findGenerator();
const servers = [];
for (const name of names) {
  const server = await startServer(name, data, 10);
  const target = { url: server.url, headers: headersFor(name, data), requests: await requestsTo(server, name) };
  for (const connections of [16, 1]) await load(generator, { ...target, connections, seconds: WARM_UP_SECONDS });
  servers.push({ server, target, found: [] });
}
for (let turn = 0; turn < turns; turn += 1) {
  for (const { server, target, found } of turn % 2 === 0 ? servers : servers.toReversed()) {
    found.push(await measure(server, target, generator));
  }
}
process.stdout.write(`\n${scenario.name}, one connection\n\n| median of the turns (and the lower quarter), µs |`);
process.stdout.write(
  ` ${names.map((name) => SERVERS[name].title).join(' | ')} |\n|---|${names.map(() => '---:|').join('')}\n`,
);
for (const phase of Object.keys(servers[0].found[0])) {
  const cells = servers.map(({ found }) => {
    const [middle, lower] = [0.5, 0.25].map((share) =>
      quantile(
        found.map((each) => each[phase]),
        share,
      ),
    );
    return `${middle.toFixed(0)} (${lower.toFixed(0)})`;
  });
  process.stdout.write(`| ${[phase, ...cells].join(' | ')} |\n`);
}
for (const { server } of servers) await server.stop();
