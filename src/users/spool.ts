import { randomUUID } from 'node:crypto';
import { mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { toSpoolFull } from '../db/failures.js';
import type { SpoolFile } from '../domain/stored.js';
import { AppError } from '../errors.js';

/*
 * Files between the network and the database: a transaction must not wait for a client's input, or for a reader of its output.
 * A file loses its name when it is made: it ends with the process, also by kill -9, and no other process can open it.
 */

/** Makes files in a directory, which need not exist. */
export interface Spool {
  /** A file for `work` alone, which is gone when `work` has ended. PAYLOAD_TOO_LARGE beyond `maxBytes`; UNAVAILABLE where the disk is full. */
  withFile<Result>(work: (file: SpoolFile) => Promise<Result>, maxBytes?: number): Promise<Result>;
  /** Hands the text that `produce` writes to `take`, which may be slow: `produce` goes on meanwhile, and has ended when this has. */
  through<Result>(
    produce: (write: SpoolFile['write']) => Promise<Result>,
    take: (text: string) => Promise<void>,
  ): Promise<Result>;
}

/** The bound of a file, where its user gives no other. */
const MAX_SPOOLED_BYTES = 64 * 2 ** 30;
const READ_BYTES = 65_536;

export function createSpool(dir: string): Spool {
  async function withFile<Result>(
    work: (file: SpoolFile) => Promise<Result>,
    maxBytes = MAX_SPOOLED_BYTES,
  ): Promise<Result> {
    await mkdir(dir, { recursive: true, mode: 0o700 }).catch(throwFull);
    const path = join(dir, `userdir-${randomUUID()}`);
    const handle = await open(path, 'wx+', 0o600).catch(throwFull);
    let bytes = 0;
    async function* read(position: number): AsyncGenerator<Buffer, void> {
      for (let at = position; ; ) {
        const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES, at);
        if (bytesRead === 0) return;
        at += bytesRead;
        yield buffer.subarray(0, bytesRead);
      }
    }
    try {
      await rm(path);
      return await work({
        get bytes() {
          return bytes;
        },
        async write(chunk) {
          bytes += Buffer.byteLength(chunk);
          if (bytes > maxBytes)
            throw new AppError('PAYLOAD_TOO_LARGE', `input: got more, expected at most ${maxBytes} bytes.`);
          await handle.appendFile(chunk).catch(throwFull);
        },
        read,
        [Symbol.asyncIterator]: () => read(0),
      });
    } finally {
      await handle.close();
    }
  }

  return {
    withFile,

    through(produce, take) {
      return withFile(async (file) => {
        const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
        let isWhole = false;
        /** True if something was written since the last reading began, which may have missed it. */
        let hasMore = false;
        let wake = () => {};
        let failure: unknown = null;
        const produced = produce(async (chunk) => {
          if (failure !== null) throw failure;
          await file.write(chunk);
          hasMore = true;
          wake();
        }).finally(() => {
          isWhole = true;
          wake();
        });
        // It may fail while the client is slow. The loop ends then, and its failure is thrown.
        produced.catch(() => undefined);
        try {
          for (let position = 0, isLast = false; !isLast; ) {
            isLast = isWhole;
            hasMore = false;
            for await (const chunk of file.read(position)) {
              position += chunk.length;
              await take(decoder.decode(chunk, { stream: true }));
            }
            if (!isWhole && !hasMore)
              await new Promise<void>((resolve) => {
                wake = resolve;
              });
          }
        } catch (error) {
          failure = error;
          await produced.catch(() => undefined);
          throw error;
        }
        return produced;
      });
    },
  };
}

function throwFull(error: unknown): never {
  throw toSpoolFull(error);
}
