import { execFile, spawn } from 'node:child_process';
import { openSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** Our command and every server, each in a separate process on the Node that runs this. */

export const ROOT = fileURLToPath(new URL('../../', import.meta.url));
export const COMMAND = join(ROOT, 'dist/cli.js');
const PEERS = fileURLToPath(new URL('peers/', import.meta.url));
/** Parse Server is filled at its first start. */
const START_TIMEOUT_MS = 300_000;

const running = new Set();
// Every exit of this process also ends the processes it started.
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** Our settings for a database, without settings from the environment of the caller. */
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

/** The value that `userdir ... --json` prints. */
export async function userdir(databaseUrl, args, extra = {}) {
  const env = oursEnv(databaseUrl, extra);
  const run = await promisify(execFile)(process.execPath, [COMMAND, ...args, '--json'], { env });
  return JSON.parse(run.stdout);
}

/** Creates a project with users; returns its credential headers. */
export async function createSeeded(databaseUrl, name, users, extra = {}) {
  const run = (args) => userdir(databaseUrl, args, extra);
  const { app_id: appId, app_secret: appSecret } = await run(['project', 'create', '--name', name]);
  await run(['seed', '--project', appId, '--users', String(users)]);
  return { 'service-app-id': appId, 'service-app-secret': appSecret, 'content-type': 'application/json' };
}

/** Starts a process and adds it to the list of processes to end. */
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

/** The options of Node.js with which `npm start` starts ours. */
const OUR_FLAGS = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).scripts.start.match(/--max-\S+/g);

/** The credentials of a backend. */
const PARSE_ENV = {
  PARSE_APP_ID: 'bench',
  PARSE_MASTER_KEY: 'the key of all rights',
  PARSE_SERVER_LOGS_FOLDER: 'null',
};
export const PARSE_HEADERS = {
  'x-parse-application-id': PARSE_ENV.PARSE_APP_ID,
  'x-parse-master-key': PARSE_ENV.PARSE_MASTER_KEY,
};

/**
 * All servers. `ours` and `parse` check credentials; the other peers serve the project that their settings name. `like` names the server whose
 * requests are sent, and `cli` the command of another build of ours. With `isCeiling`, answers are fast and wrong.
 * @type {Record<string, { title: string, like?: string, cli?: string, peer?: string, isCeiling?: true, env?: Record<string, string> }>}
 */
export const SERVERS = {
  ours: { title: 'userdir' },
  'ours+': { title: 'userdir, default settings', like: 'ours', env: { LOG_LEVEL: undefined } },
  a: { title: 'Fastify + pg', peer: 'fastify.mjs' },
  // What is left of a peer when its answers cost the database nothing: no server on its stack can be faster.
  'a-': {
    title: 'Fastify, each statement asked once',
    like: 'a',
    peer: 'fastify.mjs',
    isCeiling: true,
    env: { ASK: 'once' },
  },
  'a+': { title: 'Fastify + pg, pipelined', like: 'a', peer: 'fastify.mjs', env: { PIPELINE: 'on' } },
  b: { title: 'Mercurius + JIT', peer: 'mercurius.mjs' },
  'b+': { title: 'Mercurius + JIT, pipelined', like: 'b', peer: 'mercurius.mjs', env: { PIPELINE: 'on' } },
  c: { title: 'PostGraphile', peer: 'postgraphile.mjs' },
  d: { title: 'Yoga + Pothos + Prisma, textbook', peer: 'textbook.mjs' },
  parse: { title: 'Parse Server', peer: 'parse.mjs', env: PARSE_ENV },
};

/** Adds other builds of ours as servers, each by its folder, and returns their names. */
export function addBuilds(folders) {
  for (const folder of folders) SERVERS[folder] = { title: folder, like: 'ours', cli: join(resolve(folder), 'cli.js') };
  return folders;
}

/** The server whose requests this one gets. */
export function likeOf(name) {
  return SERVERS[name].like ?? name;
}

/** Each collection of garbage is a line of stdout. */
const TRACE_GC = ['--trace-gc', '--trace-gc-nvp'];
/** Such a line for a scavenge: its pause in ms, and the bytes that it promoted. */
const SCAVENGE = /\bpause=([\d.]+) .*\bgc=s .*\bpromoted=(\d+)/;

/** Starts a server; resolves when it prints its URL. `startMs` is the time from process start until then. */
export async function startServer(name, data, poolSize, extra = {}, flags = TRACE_GC) {
  const { peer, cli = COMMAND, env } = SERVERS[name];
  const dataDir = data.dataDir ?? (await mkdtemp(join(tmpdir(), 'userdir-bench-')));
  const startedAt = performance.now();
  const { child, ended } =
    peer === undefined
      ? startProcess(
          [...flags, ...OUR_FLAGS, cli, 'serve', '--json'],
          oursEnv(data.ours, { DATABASE_POOL_SIZE: String(poolSize), DATA_DIR: dataDir, ...env, ...extra }),
          // By default there is a line for each request.
          ['ignore', 'pipe', env === undefined ? 'inherit' : openSync(join(dataDir, 'log'), 'w')],
        )
      : startProcess([...flags, join(PEERS, peer)], {
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
  const scavenges = { count: 0, ms: 0, promotedMiB: 0 };
  try {
    const url = await Promise.race([
      readOutput(child, scavenges),
      ended.then((code) => Promise.reject(new Error(`${name} ended with ${code} instead of starting.`))),
      rejectAfter(START_TIMEOUT_MS, `${name} did not start within ${START_TIMEOUT_MS} ms.`),
    ]);
    return {
      name,
      url,
      pid: child.pid,
      stop,
      startMs: performance.now() - startedAt,
      rssMiB: () => rssMiB(child.pid),
      cpuSeconds: () => cpuSeconds(child.pid),
      scavenges: () => ({ ...scavenges }),
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Adds up the scavenges in the output of a server; resolves to the URL in it. */
function readOutput(child, scavenges) {
  return new Promise((resolve, reject) => {
    // The reader stays open and drops other output, so that a full pipe never blocks the server.
    createInterface({ input: child.stdout }).on('line', (line) => {
      const [, pauseMs, promotedBytes] = SCAVENGE.exec(line) ?? [];
      if (pauseMs !== undefined) {
        scavenges.count += 1;
        scavenges.ms += Number(pauseMs);
        scavenges.promotedMiB += Number(promotedBytes) / 2 ** 20;
      } else if (line.startsWith('{')) {
        try {
          resolve(JSON.parse(line).url);
        } catch (error) {
          reject(error);
        }
      }
    });
  });
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

/** Linux reports CPU time in hundredths of a second on all platforms of Node. */
const TICKS_PER_SECOND = 100;

/** CPU time that a process has used; null once it has ended. */
export function cpuSeconds(pid) {
  try {
    // Starts after the name in parentheses, which may contain anything. State is field 3, utime 14, stime 15.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  } catch {
    return null;
  }
}
