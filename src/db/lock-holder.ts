import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync, writeSync } from 'node:fs';
import { type FileHandle, readFile, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';

/* The lock file of a data directory: its content, its heartbeat, and whether its holder is alive. */

/** The content of a lock file. Files of older versions lack the optional keys. */
export interface LockHolder {
  /** Counts up while the holder is alive. The first key and of fixed width, so that it can be overwritten in place. */
  readonly beat?: string;
  /** Unique among lock files. */
  readonly id?: string;
  readonly pid: number;
  readonly hostname: string;
  /** The boot and the PID namespace in which the pid is valid. Null if unknown. */
  readonly pidSpace?: string | null;
  /** The start of the process as its system counts it. Distinguishes it from a later process with the same pid. */
  readonly processStart: string | null;
  readonly since: string;
  /** The command of the process, for error messages: "userdir serve". */
  readonly command: string;
  /** True for a server, which does what commands ask. */
  readonly takesCommands?: true;
}

const BEAT_DIGITS = 12;
const BEAT_AT = '{"beat":"'.length;
const beatText = (beats: number) => String(beats).padStart(BEAT_DIGITS, '0');

/** The content of a lock file of this process, before its first beat. */
export function describeSelf(self: Pick<LockHolder, 'command' | 'takesCommands'>): string {
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

export type LockFile = NonNullable<Awaited<ReturnType<typeof readLockFile>>>;

/** The lock file, with everything about it that can change as its signature; null if it does not exist. */
export async function readLockFile(path: string) {
  try {
    const text = await readFile(path, 'utf8');
    const { mtimeMs } = await stat(path);
    const holder: LockHolder = JSON.parse(text);
    if (typeof holder?.pid !== 'number') throw new Error('It names no process.');
    return { path, holder, signature: `${text} ${mtimeMs}` };
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    if (code === 'EACCES') throw ofAnotherUser(path, cause);
    throw new Error(`${path} cannot be read; delete it if no userdir runs on this directory.`, { cause });
  }
}

/** Why a file of the data directory cannot be used, where it is readable for its owner only. */
export function ofAnotherUser(path: string, cause: unknown): Error {
  const advice = 'run the command as the system user who runs the server, or set DATA_DIR to another directory';
  return new Error(`${path} belongs to another system user: ${advice}.`, { cause });
}

export type Heartbeat = ReturnType<typeof startHeartbeat>;

/**
 * Starts the heartbeat in the open lock file of this process. Calls `onLost` once if the file was removed or changed, not for a failing disk.
 * The counter is written through the open file and never by its path, so the file of another process is never changed.
 */
export function startHeartbeat(
  { path, text, file }: { path: string; text: string; file: FileHandle },
  everyMs: number,
  onLost: () => void,
) {
  const identity = withoutBeat(text);
  let beats = 0;

  function isMine(): boolean {
    try {
      return withoutBeat(readFileSync(path, 'utf8')) === identity;
    } catch (error) {
      return !['ENOENT', 'ENOTDIR'].includes(String((error as NodeJS.ErrnoException).code));
    }
  }
  /** Beats now; false if the file no longer belongs to this process. */
  function beat(): boolean {
    if (!isMine()) return false;
    beats += 1;
    try {
      writeSync(file.fd, beatText(beats), BEAT_AT);
    } catch {
      // The next one may succeed.
    }
    // So that another machine on the same disk sees it. Nothing here waits for it.
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
    /** Stops the heartbeat, and removes the file if it still belongs to this process. */
    async release(): Promise<void> {
      clearInterval(timer);
      await file.close().catch(() => undefined);
      if (isMine()) await rm(path, { force: true });
    },
  };
}

function withoutBeat(text: string): string {
  return text.slice(BEAT_AT + BEAT_DIGITS);
}

/** Tells by its pid whether the holder is alive: only within a host, boot and PID namespace. Elsewhere the pid may be another process, or none. */
export function judgeByPid(holder: LockHolder): 'alive' | 'dead' | 'unknown' {
  const ours = ownPidSpace();
  if (ours === null || holder.pidSpace !== ours || holder.hostname !== hostname()) return 'unknown';
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    // EPERM: the process exists and belongs to another system user.
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return 'dead';
  }
  const state = processState(String(holder.pid));
  if (state === null || holder.processStart === null) return 'unknown';
  return state === holder.processStart ? 'alive' : 'dead';
}

/** Null if `/proc` belongs to another PID namespace: its pids cannot be compared with ours. */
function ownPidSpace(): string | null {
  try {
    if (readlinkSync('/proc/self') !== String(process.pid)) return null;
    return `${bootId()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return null;
  }
}

/** The start of a process: field 22 of /proc/PID/stat, with its boot. `ended` for a zombie, which may remain for any time. */
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
