import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { cpuSeconds } from './processes.mjs';

/** Where the CPU of this machine goes while a service is loaded: to the service, PostgreSQL, the generator of load, other programs, or nowhere. */

/** The unit of times in /proc. */
const TICK_SECONDS = 0.01;
export const PARTS = ['service', 'postgres', 'load', 'other', 'idle'];

/** `service` is the id of a process, whose children count with it. `sessions` are the processes of PostgreSQL that work for it. */
export function startMachineMeter({ service, sessions }) {
  const read = () => ({
    service: treeSeconds(service),
    postgres: sessions.reduce((sum, pid) => sum + (cpuSeconds(pid) ?? 0), 0),
    // Of children that have ended: the generator of load, once it is waited for.
    load: endedChildrenSeconds(),
    ...machineSeconds(),
  });
  const before = read();
  return {
    /** Seconds of CPU by part, since the start. */
    stop() {
      const after = read();
      const of = (key) => after[key] - before[key];
      const known = of('service') + of('postgres') + of('load');
      return {
        service: of('service'),
        postgres: of('postgres'),
        load: of('load'),
        other: Math.max(0, of('busy') - known),
        idle: of('idle'),
      };
    },
  };
}

function treeSeconds(root) {
  const parents = new Map();
  for (const name of readdirSync('/proc')) {
    const parent = /^\d+$/.test(name) ? parentOf(name) : null;
    if (parent !== null) parents.set(parent, [...(parents.get(parent) ?? []), Number(name)]);
  }
  const sum = (pid) =>
    (cpuSeconds(pid) ?? 0) + (parents.get(pid) ?? []).reduce((total, child) => total + sum(child), 0);
  return sum(root);
}

function fieldsOf(pid) {
  try {
    // Starts after the name in parentheses, which may contain anything, with the state, which is field 3.
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
  } catch {
    return null;
  }
}

/**
 * Keeps the processors awake, until this process ends, by loops that every other process displaces. A virtual processor
 * without work is taken away, and comes back tens of microseconds later: on one connection, one server may meet that with each request and
 * another with none.
 */
export function keepAwake() {
  const loops = Array.from({ length: availableParallelism() }, () =>
    spawn('chrt', ['--idle', '0', process.execPath, '-e', 'for (;;);'], { stdio: ['ignore', 'ignore', 'inherit'] }),
  );
  for (const loop of loops) {
    loop.unref();
    process.once('exit', () => loop.kill('SIGKILL'));
    loop.once('error', ({ message }) => {
      process.stderr.write(`--awake needs chrt, which is in util-linux: ${message}\n`);
      process.exit(1);
    });
  }
}

const parentOf = (pid) => Number(fieldsOf(pid)?.[1] ?? Number.NaN);

/** CPU time of the children of this process that have ended, such as the generator of load. */
export function endedChildrenSeconds() {
  const fields = fieldsOf(process.pid);
  return (Number(fields[13]) + Number(fields[14])) * TICK_SECONDS;
}

function machineSeconds() {
  const [user, nice, system, idle, iowait, irq, softirq, steal] = readFileSync('/proc/stat', 'utf8')
    .split('\n', 1)[0]
    .trim()
    .split(/\s+/)
    .slice(1)
    .map((ticks) => Number(ticks) * TICK_SECONDS);
  // What the host gives to other machines is not ours to use.
  return { busy: user + nice + system + irq + softirq + steal, idle: idle + iowait };
}
