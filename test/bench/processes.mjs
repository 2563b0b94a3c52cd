import { execFile, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** Our command and every server, each a process of its own on the Node that runs this. */

export const ROOT = fileURLToPath(new URL('../../', import.meta.url));
export const COMMAND = join(ROOT, 'dist/cli.js');
const PEERS = fileURLToPath(new URL('peers/', import.meta.url));
const START_TIMEOUT_MS = 60_000;

const running = new Set();
// Whatever ends this process ends what it has started.
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** Settings of ours for a database, and none that happen to be in the environment of the caller. */
export function oursEnv(databaseUrl, extra = {}) {
  return {
    PATH: process.env['PATH'],
    NODE_ENV: 'production',
    EMBEDDED: 'on',
    LOG_LEVEL: 'warn',
    HOST: '127.0.0.1',
    PORT: '0',
    ...(databaseUrl ? { DATABASE_URL: databaseUrl } : { EMBEDDED: 'on' }),
    ...extra,
  };
}

/** What `userdir ... --json` says. */
export async function userdir(databaseUrl, args, extra = {}) {
  const env = oursEnv(databaseUrl, extra);
  const run = await promisify(execFile)(process.execPath, [COMMAND, ...args, '--json'], { env });
  return JSON.parse(run.stdout);
}

/** Starts a process and keeps it in the list of those to end. */
export function startProcess(args, env, stdio = ['ignore', 'pipe', 'inherit']) {
  const child = spawn(process.execPath, args, { env, stdio });
  running.add(child);
  const ended = new Promise((resolve) => {
    child.once('exit', (code) => {
      running.delete(child);
      resolve(code);
    });
  });
  return { child, ended };
}

/**
 * The servers there are. `ours` checks credentials, the others serve the project they are told.
 * @type {Record<string, { title: string, peer?: string, env?: Record<string, string> }>}
 */
export const SERVERS = {
  ours: { title: 'userdir' },
  a: { title: 'Fastify + pg', peer: 'fastify.mjs' },
  'a+': { title: 'Fastify + pg, pipelined', peer: 'fastify.mjs', env: { PIPELINE: 'on' } },
  b: { title: 'Mercurius + JIT', peer: 'mercurius.mjs' },
  'b+': { title: 'Mercurius + JIT, pipelined', peer: 'mercurius.mjs', env: { PIPELINE: 'on' } },
  c: { title: 'PostGraphile', peer: 'postgraphile.mjs' },
  d: { title: 'Yoga + Pothos + Prisma, textbook', peer: 'textbook.mjs' },
};

/** Starts a server and resolves when it says where it listens; `startMs` from the start of its process until then. */
export async function startServer(name, data, poolSize) {
  const { peer, env } = SERVERS[name];
  const dataDir = data.dataDir ?? (await mkdtemp(join(tmpdir(), 'userdir-bench-')));
  const startedAt = performance.now();
  const { child, ended } =
    peer === undefined
      ? startProcess(
          [COMMAND, 'serve', '--json'],
          oursEnv(data.ours, { DATABASE_POOL_SIZE: String(poolSize), DATA_DIR: dataDir }),
        )
      : startProcess([join(PEERS, peer)], {
          PATH: process.env['PATH'],
          NODE_ENV: 'production',
          GRAPHILE_ENV: 'production',
          DATABASE_URL: data.peers,
          DATABASE_POOL_SIZE: String(poolSize),
          PROJECT_ID: String(data.projectId),
          ...env,
        });
  const stop = async () => {
    child.kill('SIGTERM');
    const force = setTimeout(() => child.kill('SIGKILL'), 5_000);
    await ended;
    clearTimeout(force);
    if (data.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
  };
  try {
    const url = await Promise.race([
      firstLine(child).then((line) => JSON.parse(line).url),
      ended.then((code) => Promise.reject(new Error(`${name} ended with ${code} instead of starting.`))),
      rejectAfter(START_TIMEOUT_MS, `${name} did not start within ${START_TIMEOUT_MS} ms.`),
    ]);
    return {
      name,
      url,
      stop,
      startMs: performance.now() - startedAt,
      rssMiB: () => rssMiB(child.pid),
      cpuSeconds: () => cpuSeconds(child.pid),
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function firstLine(child) {
  // Not closed after it: whatever else comes is read and dropped, so that nobody waits for it to be.
  return new Promise((resolve) => createInterface({ input: child.stdout }).once('line', resolve));
}

function rejectAfter(ms, message) {
  return new Promise((_, reject) => setTimeout(() => reject(new Error(message)), ms).unref());
}

/** Resident memory of a process; null once it has ended. */
export function rssMiB(pid) {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024;
  } catch {
    return null;
  }
}

/** Linux counts in hundredths of a second wherever Node runs. */
const TICKS_PER_SECOND = 100;

/** Processor time that a process has used. */
function cpuSeconds(pid) {
  // After the name in parentheses, which may hold anything: state is the 3rd field, utime the 14th, stime the 15th.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}
