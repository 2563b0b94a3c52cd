import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  describeSelf,
  type Heartbeat,
  judgeByPid,
  type LockFile,
  type LockHolder,
  ofAnotherUser,
  readLockFile,
  startHeartbeat,
} from './lock-holder.js';

export interface DataDirLock {
  release(): Promise<void>;
}

export interface LockOptions {
  /** The wait for a command to finish. A server is not waited for, because it runs commands itself. */
  readonly waitMs: number;
  /** Called once if the lock file was removed or changed. The directory must not be touched from then on. */
  readonly onLost?: (error: DataDirLostError) => void;
  /** Called with a sentence for the operator when it takes long to find out whether the holder is alive. */
  readonly onDoubt?: (sentence: string) => void;
  /** The interval of the holder's heartbeat. */
  readonly heartbeatMs?: number;
  /** A holder without a heartbeat for this long is dead. */
  readonly deadAfterMs?: number;
}

export class DataDirLockedError extends Error {
  override name = 'DataDirLockedError';
  constructor(
    readonly dataDir: string,
    readonly holder: LockHolder,
  ) {
    super(
      `The data directory ${dataDir} is in use by ${nameOf(holder)}. Stop that process first, or set DATA_DIR to another directory.`,
    );
  }
}

export class DataDirLostError extends Error {
  override name = 'DataDirLostError';
  constructor(path: string) {
    super(
      `The lock file ${path} is gone or was changed by another process, so the data directory may be in use by another. ` +
        'This process has stopped at once and has not touched the database since.',
    );
  }
}

/** The wait for a command that uses the data directory. Most commands take less. */
export const LOCK_WAIT_MS = 5_000;

const LOCK_FILE = /^lock\.(\d{1,15})$/;
const HEARTBEAT_MS = 1_000;
const DEAD_AFTER_MS = 30_000;
const DOUBT_AFTER_MS = 3_000;
const RETRY_MS = 100;

/**
 * Locks the data directory for this process; throws DataDirLockedError. PGlite has no lock, and two processes on one directory lose data
 * without an error, so this lock must hold under any interleaving. The files are `lock.1`, `lock.2`, ….
 * A process that finds only files of dead holders creates the next one: exclusively and complete, as a link to a finished file, with a heartbeat
 * from then on. Then it looks again, and withdraws if there is a higher number, or a lower one of a live holder.
 * Two processes cannot both hold the lock: the later one sees the file of the earlier one in its second look, because it exists until its
 * holder releases it. Only a holder deletes files of dead holders. A process whose file appears with a lower number sees the higher one, and withdraws.
 */
export async function lockDataDir(
  dataDir: string,
  self: Pick<LockHolder, 'command' | 'takesCommands'>,
  { waitMs, onLost, onDoubt, heartbeatMs = HEARTBEAT_MS, deadAfterMs = DEAD_AFTER_MS }: LockOptions,
): Promise<DataDirLock> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 }).catch((cause) => {
    throw new Error(`The data directory ${dataDir} cannot be made (${cause.code}); set DATA_DIR to another one.`, {
      cause,
    });
  });
  const deadline = performance.now() + waitMs;
  const isAlive = createJudge(deadAfterMs, onDoubt);
  const pathOf = (number: number) => join(dataDir, `lock.${number}`);
  for (;;) {
    const attempt = await tryLock();
    if (!('pid' in attempt)) return attempt;
    if (attempt.takesCommands || performance.now() >= deadline) throw new DataDirLockedError(dataDir, attempt);
    await sleep(RETRY_MS);
  }

  /** The lock, or its live holder. */
  async function tryLock(): Promise<DataDirLock | LockHolder> {
    for (;;) {
      const numbers = await lockNumbers();
      const holder = await findLiveHolder(numbers);
      if (holder !== null) return holder;
      const mine = Math.max(0, ...numbers) + 1;
      let isHeld = false;
      const lost = () => (isHeld ? onLost?.(new DataDirLostError(pathOf(mine))) : undefined);
      const heartbeat = await createExclusively(pathOf(mine), lost);
      if (heartbeat === null) continue;
      const others = (await lockNumbers()).filter((number) => number !== mine);
      const isLater = others.some((number) => number > mine);
      // The last beat fails if this process was suspended for so long that another one counted it as dead.
      if (isLater || (await findLiveHolder(others)) !== null || !heartbeat.beat()) {
        await heartbeat.release();
        continue;
      }
      isHeld = true;
      await Promise.all(others.map((number) => rm(pathOf(number), { force: true })));
      return heartbeat;
    }
  }

  async function findLiveHolder(numbers: readonly number[]): Promise<LockHolder | null> {
    for (const number of numbers) {
      const file = await readLockFile(pathOf(number));
      if (file !== null && (await isAlive(file))) return file.holder;
    }
    return null;
  }

  async function lockNumbers(): Promise<number[]> {
    const names = await readdir(dataDir).catch((cause: NodeJS.ErrnoException) => {
      throw cause.code === 'EACCES' ? ofAnotherUser(dataDir, cause) : cause;
    });
    return names.flatMap((name) => LOCK_FILE.exec(name)?.[1] ?? []).map(Number);
  }

  /** Null if the file exists. */
  async function createExclusively(path: string, lost: () => void): Promise<Heartbeat | null> {
    const draft = join(dataDir, `lock-draft-${randomUUID()}`);
    const text = describeSelf(self);
    const file = await open(draft, 'wx', 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
      await link(draft, path);
      return startHeartbeat({ path, text, file }, heartbeatMs, lost);
    } catch (error) {
      await file.close();
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return null;
      throw error;
    } finally {
      await rm(draft, { force: true });
    }
  }
}

/**
 * Decides whether the holder of a lock file is alive. If its pid does not tell, its file is watched: a change proves that it is alive, and no
 * change for `deadAfterMs` of our own clock that it is dead. Clocks of other machines are never compared with ours.
 * Versions without a heartbeat touch their file, which changes its time.
 */
function createJudge(deadAfterMs: number, onDoubt: LockOptions['onDoubt']): (file: LockFile) => Promise<boolean> {
  // Remembered, so that the second look does not take as long again.
  const dead = new Set<string>();

  async function showsLife({ path, holder, signature }: LockFile): Promise<boolean> {
    let watchedMs = 0;
    let doubts = onDoubt;
    for (let last = performance.now(); watchedMs < deadAfterMs; ) {
      await sleep(RETRY_MS);
      const seen = await readLockFile(path);
      if (seen?.signature !== signature) return seen !== null;
      const now = performance.now();
      // Time during which this process was suspended does not count.
      watchedMs += Math.min(now - last, 2 * RETRY_MS);
      last = now;
      if (watchedMs < DOUBT_AFTER_MS) continue;
      doubts?.(
        `The data directory may be in use by ${nameOf(holder)}. Its pid does not tell from here whether it is running: ` +
          `watching ${path} for ${deadAfterMs / 1_000} s.`,
      );
      doubts = undefined;
    }
    dead.add(signature);
    return false;
  }

  return async (file) => {
    const verdict = judgeByPid(file.holder);
    if (verdict !== 'unknown') return verdict === 'alive';
    return !dead.has(file.signature) && showsLife(file);
  };
}

function nameOf({ command, pid, hostname, since }: LockHolder): string {
  return `"${command}" (pid ${pid} on ${hostname}, since ${since})`;
}
