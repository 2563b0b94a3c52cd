import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

/* The processors of this machine: what ended children took of them, and loops that keep them awake. */

/** The unit of times in /proc. */
const TICK_SECONDS = 0.01;

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

/** CPU time of the children of this process that have ended, such as the generator of load. */
export function endedChildrenSeconds() {
  // After the name in parentheses, which may contain anything, begins the state, which is field 3.
  const fields = readFileSync(`/proc/${process.pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[13]) + Number(fields[14])) * TICK_SECONDS;
}
