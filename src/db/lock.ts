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
  readLockFile,
  startHeartbeat,
} from './lock-holder.js';

export interface DataDirLock {
  release(): Promise<void>;
}

export interface LockOptions {
  /** How long to wait for a command to finish; a server, which takes commands itself, is not waited for. */
  readonly waitMs: number;
  /** Is told, once, that the lock file is gone or another's: from then on the directory must not be touched. */
  readonly onLost?: (error: DataDirLostError) => void;
  /** Is told whom the process watches, where it takes long to find out whether they are alive. */
  readonly onDoubt?: (sentence: string) => void;
  /** How often the holder beats. */
  readonly heartbeatMs?: number;
  /** A holder that has not beaten for this long is dead. */
  readonly deadAfterMs?: number;
}

/** The data directory is in use; `holder` says by whom. */
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

/** This process held the data directory and does so no longer. */
export class DataDirLostError extends Error {
  override name = 'DataDirLostError';
  constructor(path: string) {
    super(
      `The lock file ${path} is gone or was changed by another process, so the data directory may be in use by another. ` +
        'This process has stopped at once and has not touched the database since.',
    );
  }
}

/** How long to wait for a command that works in the data directory to leave it; as a rule it needs no longer. */
export const LOCK_WAIT_MS = 5_000;

const LOCK_FILE = /^lock\.(\d{1,15})$/;
const HEARTBEAT_MS = 1_000;
const DEAD_AFTER_MS = 30_000;
const DOUBT_AFTER_MS = 3_000;
const RETRY_MS = 100;

/**
 * Takes the data directory for this process; throws DataDirLockedError.
 *
 * PGlite has no lock of its own, and two processes on one directory lose data in silence, so this one must hold against any
 * interleaving. The files are `lock.1`, `lock.2`, …. A process that sees only dead ones creates the next number, exclusively
 * and complete (link of a finished file), beats in it from then on, and looks again: at a higher number, or at a lower one
 * that is alive, it withdraws. Of two processes that believe to hold, the one that created its file later saw the other's in
 * that second look, because a holder's file is there until the holder releases it: the dead are deleted only by a holder, and
 * a file that appears below its number meanwhile is of a process that meets the higher number and withdraws.
 */
export async function lockDataDir(
  dataDir: string,
  self: Pick<LockHolder, 'command' | 'controlSocket'>,
  options: LockOptions,
): Promise<DataDirLock> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 }).catch((cause) => {
    throw new Error(`The data directory ${dataDir} cannot be made (${cause.code}); set DATA_DIR to another one.`, {
      cause,
    });
  });
  const deadline = performance.now() + options.waitMs;
  const isAlive = createJudge(options);
  for (;;) {
    const attempt = await tryLock(dataDir, self, isAlive, options);
    if (!('pid' in attempt)) return attempt;
    if (attempt.controlSocket !== undefined || performance.now() >= deadline)
      throw new DataDirLockedError(dataDir, attempt);
    await sleep(RETRY_MS);
  }
}

type Judge = (file: LockFile) => Promise<boolean>;

/** The lock, or its live holder. */
async function tryLock(
  dataDir: string,
  self: Pick<LockHolder, 'command' | 'controlSocket'>,
  isAlive: Judge,
  { onLost, heartbeatMs = HEARTBEAT_MS }: LockOptions,
): Promise<DataDirLock | LockHolder> {
  for (;;) {
    const numbers = await lockNumbers(dataDir);
    const holder = await findLiveHolder(dataDir, numbers, isAlive);
    if (holder !== null) return holder;
    const mine = Math.max(0, ...numbers) + 1;
    const path = join(dataDir, `lock.${mine}`);
    let isHeld = false;
    const lost = () => (isHeld ? onLost?.(new DataDirLostError(path)) : undefined);
    const heartbeat = await createExclusively(dataDir, path, self, heartbeatMs, lost);
    if (heartbeat === null) continue;
    const others = (await lockNumbers(dataDir)).filter((number) => number !== mine);
    const isLater = others.some((number) => number > mine);
    // The last beat is for a process that was stopped for so long meanwhile that another has taken it for dead.
    if (isLater || (await findLiveHolder(dataDir, others, isAlive)) !== null || !heartbeat.beat()) {
      await heartbeat.release();
      continue;
    }
    isHeld = true;
    await Promise.all(others.map((number) => rm(join(dataDir, `lock.${number}`), { force: true })));
    return heartbeat;
  }
}

async function findLiveHolder(dataDir: string, numbers: readonly number[], isAlive: Judge): Promise<LockHolder | null> {
  for (const number of numbers) {
    const file = await readLockFile(join(dataDir, `lock.${number}`));
    if (file !== null && (await isAlive(file))) return file.holder;
  }
  return null;
}

async function lockNumbers(dataDir: string): Promise<number[]> {
  const names = await readdir(dataDir);
  return names.flatMap((name) => LOCK_FILE.exec(name)?.[1] ?? []).map(Number);
}

/** Null where there is such a file already. */
async function createExclusively(
  dataDir: string,
  path: string,
  self: Pick<LockHolder, 'command' | 'controlSocket'>,
  heartbeatMs: number,
  onLost: () => void,
): Promise<Heartbeat | null> {
  const draft = join(dataDir, `lock-draft-${randomUUID()}`);
  const text = describeSelf(self);
  const file = await open(draft, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
    await link(draft, path);
    return startHeartbeat({ path, text, file }, heartbeatMs, onLost);
  } catch (error) {
    await file.close();
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return null;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

/**
 * Whether the holder of a lock file is alive. Where its pid does not tell, its file is watched: any change is a sign of life,
 * and a file that stays the same for `deadAfterMs` of our own clock is that of the dead. No time that another machine wrote
 * is compared with ours. Versions without a heartbeat touch their file instead, which changes its time.
 */
function createJudge({ onDoubt, deadAfterMs = DEAD_AFTER_MS }: LockOptions): Judge {
  // The second look must not take as long again.
  const dead = new Set<string>();

  async function showsLife({ path, holder, signature }: LockFile): Promise<boolean> {
    let watchedMs = 0;
    let doubts = onDoubt;
    for (let last = performance.now(); watchedMs < deadAfterMs; ) {
      await sleep(RETRY_MS);
      const found = await readLockFile(path);
      if (found?.signature !== signature) return found !== null;
      const now = performance.now();
      // While this process was stopped it watched nothing.
      watchedMs += Math.min(now - last, 2 * RETRY_MS);
      last = now;
      if (watchedMs < DOUBT_AFTER_MS) continue;
      doubts?.(
        `The data directory may be in use by ${nameOf(holder)}, whose life cannot be seen from here: ` +
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
