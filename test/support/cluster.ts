import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { queryPostgres } from './engines.js';

const DEBIAN = '/usr/lib/postgresql';
/** The programs that the tests run. A machine may have only some of them on its PATH. */
const PROGRAMS = ['initdb', 'postgres', 'pg_basebackup', 'pg_dump', 'pg_restore', 'psql'];

/** The folder of PostgreSQL's programs: on the PATH, or the newest version in Debian's folder. */
export const BIN: string = findServerPrograms() ?? '';

/** Whether this machine has the programs of a PostgreSQL server. */
export const hasPostgres: boolean = BIN !== '';

function findServerPrograms(): string | undefined {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...(process.env['PATH'] ?? '').split(':'),
    ...versions.map((version) => join(DEBIAN, version, 'bin')),
  ];
  return folders.find((folder) => PROGRAMS.every((program) => existsSync(join(folder, program))));
}

/** A separate PostgreSQL server that a test can kill. */
export interface Cluster {
  readonly url: string;
  start(): Promise<void>;
  /** Ends its processes at once. */
  kill(): Promise<void>;
  /** Stops all its processes where they are, as a machine that hangs. */
  freeze(): void;
  thaw(): void;
  /** Creates a standby. It is synchronous unless said otherwise: then it has every commit that this server acknowledges. */
  createStandby(options?: { readonly isSynchronous: boolean }): Promise<Cluster>;
  /** Promotes a standby to primary. */
  promote(): Promise<void>;
  drop(): Promise<void>;
}

/** PostgreSQL refuses to run as root. */
export function unprivilegedUser(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const idOf = (flag: string) => Number(execFileSync('id', [flag, 'postgres']));
  return { uid: idOf('-u'), gid: idOf('-g') };
}

/** `settings` are those of the server, such as `wal_level=logical`. `programs` is the folder of another version. */
export function createCluster(settings: readonly string[] = [], programs: string = BIN): Promise<Cluster> {
  const options = ['-N', '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-locale'];
  return startCluster('initdb', options, settings, programs);
}

/** A standby of the primary at `url`, which need not be a Cluster. It is not synchronous. */
export const createStandbyOf = (url: string, settings: readonly string[] = []): Promise<Cluster> =>
  startCluster('pg_basebackup', ['-N', '-d', url, '-R', '-X', 'stream', '-c', 'fast'], settings);

/** A server in a new directory, which `program` fills. */
async function startCluster(
  program: 'initdb' | 'pg_basebackup',
  options: string[],
  settings: readonly string[] = [],
  programs: string = BIN,
): Promise<Cluster> {
  const user = unprivilegedUser();
  const directory = mkdtempSync(join(tmpdir(), 'userdir-cluster-'));
  if (user.uid !== undefined && user.gid !== undefined) chownSync(directory, user.uid, user.gid);
  execFileSync(`${programs}/${program}`, ['-D', directory, ...options], { ...user, cwd: directory, stdio: 'ignore' });
  const port = await freePort();
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  let server: ChildProcess | null = null;

  async function start(): Promise<void> {
    for (;;) {
      // What a killed process has written, the system still has; only a failure of the machine could show that nothing is flushed.
      const all = ['listen_addresses=127.0.0.1', 'fsync=off', ...settings].flatMap((setting) => ['-c', setting]);
      const args = ['-D', directory, '-p', String(port), '-k', directory, ...all];
      const started = spawn(`${programs}/postgres`, args, { ...user, cwd: directory, stdio: 'ignore' });
      if (await comesUp(started)) {
        server = started;
        return;
      }
      // Some processes of the killed server have not ended yet.
      await sleep(100);
    }
  }

  async function comesUp(started: ChildProcess): Promise<boolean> {
    while (started.exitCode === null) {
      const answers = await queryPostgres(url, 'SELECT 1').then(
        () => true,
        () => false,
      );
      if (answers) return true;
      await sleep(50);
    }
    return false;
  }

  async function kill(): Promise<void> {
    if (server === null) return;
    const ended = once(server, 'exit');
    server.kill('SIGKILL');
    await ended;
    server = null;
  }

  await start();
  return {
    url,
    start,
    kill,
    freeze: () => freezeServer(server?.pid as number),
    thaw: () => thawServer(server?.pid as number),
    async createStandby({ isSynchronous } = { isSynchronous: true }) {
      const standby = await createStandbyOf(url);
      if (!isSynchronous) return standby;
      // From now on, the primary acknowledges a commit only after the standby has applied it.
      await queryPostgres(url, "ALTER SYSTEM SET synchronous_standby_names = '*'");
      await queryPostgres(url, 'ALTER SYSTEM SET synchronous_commit = remote_apply');
      await queryPostgres(url, 'SELECT pg_reload_conf()');
      return standby;
    },
    async promote() {
      await queryPostgres(url, 'SELECT pg_promote()');
    },
    async drop() {
      await kill();
      await rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
}

/** Stops a postmaster where it is, then its children: once it has stopped, none begins and none that ended disappears. */
export function freezeServer(postmaster: number): void {
  process.kill(postmaster, 'SIGSTOP');
  for (const child of childrenOf(postmaster)) process.kill(child, 'SIGSTOP');
}

/** The postmaster is last: it collects children that ended. */
export function thawServer(postmaster: number): void {
  for (const child of childrenOf(postmaster)) process.kill(child, 'SIGCONT');
  process.kill(postmaster, 'SIGCONT');
}

/** They are not in its process group. */
function childrenOf(postmaster: number): number[] {
  const found = execFileSync('ps', ['-o', 'pid=', '--ppid', String(postmaster)], { encoding: 'utf8' });
  return found.trim().split(/\s+/).map(Number);
}

/** Ports that this process has been given. */
const given = new Set<number>();

/**
 * A port on which nobody listens. It is below those that outgoing connections get (from 32,768 on), of which one could take it before its
 * server does.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, 32_000);
    if (given.has(port)) continue;
    given.add(port);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    server.close();
    if (isFree) return port;
  }
}
