/**
 * Runs commands one after the other in one process, each by the command's own entry point with arguments, settings and streams of
 * its own. Most of what a process of its own would take is its start. What matters only in one (signals, terminals, pipes that
 * break) is tested with `spawnUserdir`.
 */
import { writeSync } from 'node:fs';
import http from 'node:http';
import { Readable } from 'node:stream';

let runs = 0;
const nothing = () => ({ stdout: [], stderr: [] });
/** What the command that runs has written. */
let written = nothing();

process.on('message', async ({ entry, args, settings, input }) => {
  written = nothing();
  for (const name of ['stdout', 'stderr']) {
    process[name].write = (chunk, encoding, done) => {
      written[name].push(Buffer.from(chunk));
      const callback = typeof encoding === 'function' ? encoding : done;
      if (callback) queueMicrotask(callback);
      return true;
    };
  }
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, settings);
  process.argv = [process.argv[0], entry, ...args];
  Object.defineProperty(process, 'stdin', { value: Readable.from([Buffer.from(input)]), configurable: true });
  // A new process has no connection from before.
  http.globalAgent.destroy();
  http.globalAgent = new http.Agent({ keepAlive: true });
  runs += 1;
  // Only the entry point itself is evaluated anew.
  await import(`${entry}?${runs}`);
  process.stdout.removeAllListeners('error');
  const code = process.exitCode ?? 0;
  process.exitCode = undefined;
  const [stdout, stderr] = [written.stdout, written.stderr].map((chunks) => Buffer.concat(chunks).toString());
  written = nothing();
  process.send({ code, signal: null, stdout, stderr });
});
// A command that ends its process says why.
process.on('exit', () => writeSync(2, Buffer.concat(written.stderr)));
// The test run has ended.
process.on('disconnect', () => process.exit());
