import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { link, mkdir, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** Who holds a data directory: what its lock file says. */
export interface LockHolder {
  pid: number;
  hostname: string;
  /** When the process started, as its system counts it: tells a process from a later one with the same pid. */
  processStart: string | null;
  since: string;
  /** What it does, for the sentence that refuses the next one: "userdir serve". */
  command: string;
  /** The socket on which the holder takes commands; a holder that takes none has no such key. */
  controlSocket?: string;
}

export interface DataDirLock {
  release(): Promise<void>;
}

/** The data directory is in use; `holder` says by whom. */
export class DataDirLockedError extends Error {
  override name = 'DataDirLockedError';
  constructor(
    readonly dataDir: string,
    readonly holder: LockHolder,
  ) {
    super(
      `The data directory ${dataDir} is in use by "${holder.command}" (pid ${holder.pid} on ${holder.hostname}, since ${holder.since}). ` +
        'Stop that process first, or set DATA_DIR to another directory.',
    );
  }
}

/** How long to wait for a command that works in the data directory to leave it; as a rule it needs no longer. */
export const LOCK_WAIT_MS = 5_000;

const LOCK_FILE = /^lock\.(\d+)$/;
const HEARTBEAT_MS = 5_000;
/** A holder on another host (a shared volume, a replaced container) is dead when it has not touched its file for this long. */
const FOREIGN_HOLDER_DEAD_AFTER_MS = 30_000;
const RETRY_MS = 100;

/**
 * Takes the data directory for this process; throws DataDirLockedError. Waits up to `waitMs` for a command to finish, and
 * not for a server, which takes commands itself.
 *
 * PGlite has no lock of its own, and two processes on one directory lose data in silence, so this one must hold
 * against any interleaving. The files are `lock.1`, `lock.2`, …. Who sees only dead ones creates the next number,
 * exclusively and complete (link of a finished file), and looks again: at a higher number, or at a lower one that is
 * alive, he withdraws. Of two who believe to hold, the one who created his file later saw the other's in that second
 * look, because a holder's file is there until he releases it: the dead are deleted only by a holder, and a file that
 * appears below his number meanwhile is of somebody who meets the higher number and withdraws.
 */
export async function lockDataDir(
  dataDir: string,
  self: Pick<LockHolder, 'command' | 'controlSocket'>,
  waitMs: number,
): Promise<DataDirLock> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 }).catch((cause) => {
    throw new Error(`The data directory ${dataDir} cannot be made (${cause.code}); set DATA_DIR to another one.`, {
      cause,
    });
  });
  const deadline = Date.now() + waitMs;
  for (;;) {
    const attempt = await tryLock(dataDir, self);
    if (!('pid' in attempt)) return attempt;
    if (attempt.controlSocket !== undefined || Date.now() >= deadline) throw new DataDirLockedError(dataDir, attempt);
    await sleep(RETRY_MS);
  }
}

/** The lock, or its live holder. */
async function tryLock(
  dataDir: string,
  self: Pick<LockHolder, 'command' | 'controlSocket'>,
): Promise<DataDirLock | LockHolder> {
  for (;;) {
    const numbers = await lockNumbers(dataDir);
    const holder = await findLiveHolder(dataDir, numbers);
    if (holder !== null) return holder;
    const mine = Math.max(0, ...numbers) + 1;
    if (!(await createExclusively(dataDir, mine, self))) continue;
    const others = (await lockNumbers(dataDir)).filter((number) => number !== mine);
    if (others.some((number) => number > mine) || (await findLiveHolder(dataDir, others)) !== null) {
      await rm(join(dataDir, `lock.${mine}`), { force: true });
      continue;
    }
    await Promise.all(others.map((number) => rm(join(dataDir, `lock.${number}`), { force: true })));
    return heldLock(join(dataDir, `lock.${mine}`));
  }
}

async function findLiveHolder(dataDir: string, numbers: readonly number[]): Promise<LockHolder | null> {
  for (const number of numbers) {
    const holder = await readHolder(dataDir, number);
    if (holder !== 'gone' && (await isAlive(holder, join(dataDir, `lock.${number}`)))) return holder;
  }
  return null;
}

function heldLock(path: string): DataDirLock {
  const heartbeat = setInterval(() => utimes(path, new Date(), new Date()).catch(() => undefined), HEARTBEAT_MS);
  heartbeat.unref();
  return {
    async release() {
      clearInterval(heartbeat);
      await rm(path, { force: true });
    },
  };
}

async function lockNumbers(dataDir: string): Promise<number[]> {
  const names = await readdir(dataDir);
  return names.flatMap((name) => LOCK_FILE.exec(name)?.[1] ?? []).map(Number);
}

async function createExclusively(dataDir: string, number: number, self: Pick<LockHolder, 'command' | 'controlSocket'>) {
  const draft = join(dataDir, `lock-draft-${randomUUID()}`);
  const holder: LockHolder = {
    pid: process.pid,
    hostname: hostname(),
    processStart: processStart(process.pid),
    since: new Date().toISOString(),
    ...self,
  };
  await writeFile(draft, JSON.stringify(holder), { mode: 0o600 });
  try {
    await link(draft, join(dataDir, `lock.${number}`));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

async function readHolder(dataDir: string, number: number): Promise<LockHolder | 'gone'> {
  try {
    return JSON.parse(await readFile(join(dataDir, `lock.${number}`), 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'gone';
    throw new Error(
      `${join(dataDir, `lock.${number}`)} cannot be read; delete it if no userdir runs on this directory.`,
      {
        cause: error,
      },
    );
  }
}

async function isAlive(holder: LockHolder, path: string): Promise<boolean> {
  if (holder.hostname !== hostname()) {
    const touched = await stat(path).catch(() => null);
    return touched !== null && Date.now() - touched.mtimeMs < FOREIGN_HOLDER_DEAD_AFTER_MS;
  }
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    // EPERM: there is such a process, of another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  return processStart(holder.pid) === holder.processStart;
}

/**
 * Field 22 of /proc/PID/stat with the boot it counts from; null where there is no /proc, which then compares equal, and for
 * a zombie, whose parent may never ask for it.
 */
function processStart(pid: number): string | null {
  try {
    const [state = '', ...fields] = (readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1) ?? '').split(' ');
    if ('ZX'.includes(state)) return null;
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}/${fields[18]}`;
  } catch {
    return null;
  }
}
