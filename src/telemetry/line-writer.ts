import { closeSync, constants, fstatSync, openSync, writeSync } from 'node:fs';

/* Writes whole lines to stderr, and never waits for what reads it: a pipe that nobody empties must not stop the service. */

/** So many bytes are kept while they cannot be written. Later lines are dropped. */
const MOST_UNWRITTEN = 1_048_576;
/** So many bytes go to a pipe as a whole, or not at all (PIPE_BUF of Linux). */
const WHOLE_WRITE = 4_096;
/** The pauses between attempts to write what is kept: while it is read, and while nobody reads it. */
const [READ_MS, UNREAD_MS] = [10, 1_000];
const NEW_LINE = 0x0a;

export interface LineWriter {
  /** Takes whole lines. Never throws. */
  write(lines: string): void;
  /** How many lines were dropped since the start. */
  dropped(): number;
}

/** `tellDropped` makes the line that says, when lines can be written again, how many were dropped. */
export function createLineWriter(fd: number, tellDropped: (lines: number) => string): LineWriter {
  const isPipe = fstatSync(fd).isFIFO();
  const target = isPipe ? reopen(fd) : fd;
  let unwritten = Buffer.alloc(0);
  let dropped = 0;
  let untold = 0;
  let isWaiting = false;

  function drop(lines: Buffer): void {
    const count = lines.reduce((sum, byte) => sum + Number(byte === NEW_LINE), 0);
    dropped += count;
    untold += count;
  }

  /** Writes as much as can be written now. */
  function flush(): void {
    const before = unwritten.length;
    try {
      while (unwritten.length > 0) {
        const part = isPipe ? wholeLines(unwritten) : unwritten;
        unwritten = unwritten.subarray(writeSync(target, part));
        if (unwritten.length === 0 && untold > 0) {
          unwritten = Buffer.from(tellDropped(untold));
          untold = 0;
        }
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EPIPE') {
        // What reads it has gone, and does not come back.
        drop(unwritten);
        unwritten = Buffer.alloc(0);
      } else tryLater(unwritten.length < before ? READ_MS : UNREAD_MS);
    }
  }

  function tryLater(ms: number): void {
    if (isWaiting) return;
    isWaiting = true;
    setTimeout(() => {
      isWaiting = false;
      flush();
    }, ms).unref();
  }

  return {
    write(lines) {
      const bytes = Buffer.from(lines);
      if (unwritten.length > 0 && unwritten.length + bytes.length > MOST_UNWRITTEN) drop(bytes);
      else unwritten = unwritten.length === 0 ? bytes : Buffer.concat([unwritten, bytes]);
      flush();
    },
    dropped: () => dropped,
  };
}

/** The first lines, as many as go to a pipe as a whole; of a longer line, all of it. */
function wholeLines(bytes: Buffer): Buffer {
  if (bytes.length <= WHOLE_WRITE) return bytes;
  const last = bytes.lastIndexOf(NEW_LINE, WHOLE_WRITE - 1);
  const end = last === -1 ? bytes.indexOf(NEW_LINE, WHOLE_WRITE) : last;
  return end === -1 ? bytes : bytes.subarray(0, end + 1);
}

/** The same pipe with flags of its own: other processes that share the old ones may make them wait again. */
function reopen(fd: number): number {
  try {
    const own = openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK);
    // Another system may have something else there.
    if (fstatSync(own).isFIFO()) return own;
    closeSync(own);
  } catch {
    // Nothing is there; or only another user may open the pipe.
  }
  return fd;
}
