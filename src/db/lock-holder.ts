import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync, writeSync } from 'node:fs';
import { type FileHandle, readFile, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';

/** The lock file of a data directory: what it says of its holder, the heartbeat in it, and whether the holder is alive. */

/** Who holds a data directory: what its lock file says. Files of older versions lack the keys that may be absent. */
export interface LockHolder {
  /** Counts up while the holder lives. The first key, of a fixed width, so that it is overwritten in its place. */
  readonly beat?: string;
  /** No other lock file has it. */
  readonly id?: string;
  readonly pid: number;
  readonly hostname: string;
  /** In which the pid counts: the boot and the PID namespace. Null where it is not known. */
  readonly pidSpace?: string | null;
  /** When the process started, as its system counts it: tells a process from a later one with the same pid. */
  readonly processStart: string | null;
  readonly since: string;
  /** What it does, for the sentence that refuses the next one: "userdir serve". */
  readonly command: string;
  /** The socket on which the holder takes commands; a holder that takes none has no such key. */
  readonly controlSocket?: string;
}

/** A lock file as it is read. */
export interface LockFile {
  readonly path: string;
  readonly holder: LockHolder;
  /** All that can change of it. */
  readonly signature: string;
}

const BEAT_DIGITS = 12;
const BEAT_AT = '{"beat":"'.length;
const beatText = (beats: number) => String(beats).padStart(BEAT_DIGITS, '0');

/** What a lock file of this process says, before its first beat. */
export function describeSelf(self: Pick<LockHolder, 'command' | 'controlSocket'>): string {
  const state = processState('self');
  const holder: LockHolder = {
    beat: beatText(0),
    id: randomUUID(),
    pid: process.pid,
    hostname: hostname(),
    pidSpace: ownPidSpace(),
    processStart: state === 'ended' ? null : state,
    since: new Date().toISOString(),
    ...self,
  };
  return JSON.stringify(holder);
}

/** The lock file, or null where it is gone. */
export async function readLockFile(path: string): Promise<LockFile | null> {
  try {
    const text = await readFile(path, 'utf8');
    const { mtimeMs } = await stat(path);
    const holder = JSON.parse(text);
    if (typeof holder?.pid !== 'number') throw new Error('It names no process.');
    return { path, holder, signature: `${text} ${mtimeMs}` };
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new Error(`${path} cannot be read; delete it if no userdir runs on this directory.`, { cause });
  }
}

export interface Heartbeat {
  /** Beats now; false where the file is no longer that of this process. */
  beat(): boolean;
  /** Stops beating and removes the file if it is still that of this process. */
  release(): Promise<void>;
}

/**
 * Beats in the lock file of this process, which it takes over open, and calls `onLost` once when the file is gone or another's.
 *
 * The counter is overwritten in its place through the open file, never by its path: were the file another's by now, nothing
 * of theirs would change. A disk that fails is no reason to stop; only a file that is seen to be gone or changed is.
 */
export function startHeartbeat(
  { path, text, file }: { path: string; text: string; file: FileHandle },
  everyMs: number,
  onLost: () => void,
): Heartbeat {
  const identity = withoutBeat(text);
  let beats = 0;

  function isMine(): boolean {
    try {
      return withoutBeat(readFileSync(path, 'utf8')) === identity;
    } catch (error) {
      return !['ENOENT', 'ENOTDIR'].includes(String((error as NodeJS.ErrnoException).code));
    }
  }
  function beat(): boolean {
    if (!isMine()) return false;
    beats += 1;
    try {
      writeSync(file.fd, beatText(beats), BEAT_AT);
    } catch {
      // The next one may succeed.
    }
    // So that another machine that shares the disk sees it. Nothing here needs to wait for it.
    file.datasync().catch(() => undefined);
    return true;
  }
  const timer = setInterval(() => {
    if (beat()) return;
    clearInterval(timer);
    file.close().catch(() => undefined);
    onLost();
  }, everyMs);
  timer.unref();

  return {
    beat,
    async release() {
      clearInterval(timer);
      await file.close().catch(() => undefined);
      if (isMine()) await rm(path, { force: true });
    },
  };
}

function withoutBeat(text: string): string {
  return text.slice(BEAT_AT + BEAT_DIGITS);
}

/**
 * Whether the holder lives, as far as its pid tells. That is only where the pid counts in the same host, boot and PID
 * namespace as ours: elsewhere a pid that is not there means nothing, and one that is may be another process.
 */
export function judgeByPid(holder: LockHolder): 'alive' | 'dead' | 'unknown' {
  const ours = ownPidSpace();
  if (ours === null || holder.pidSpace !== ours || holder.hostname !== hostname()) return 'unknown';
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    // EPERM: there is such a process, of another system user.
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return 'dead';
  }
  const state = processState(String(holder.pid));
  if (state === null || holder.processStart === null) return 'unknown';
  return state === holder.processStart ? 'alive' : 'dead';
}

/** Where `/proc` is of another PID namespace than the process, it is not known which process a pid in it is. */
function ownPidSpace(): string | null {
  try {
    if (readlinkSync('/proc/self') !== String(process.pid)) return null;
    return `${bootId()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return null;
  }
}

/** When a process started: field 22 of /proc/PID/stat with the boot it counts from. `ended` for a zombie, whose parent may never ask for it. */
function processState(pid: string): string | 'ended' | null {
  try {
    const [state = '', ...fields] = (readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1) ?? '').split(' ');
    return 'ZX'.includes(state) ? 'ended' : `${bootId()}/${fields[18]}`;
  } catch {
    return null;
  }
}

function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
}
