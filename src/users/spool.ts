import { randomUUID } from 'node:crypto';
import { mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { toSpoolFull } from '../db/failures.js';
import type { SpoolFile } from '../domain/import-format.js';
import { AppError } from '../errors.js';

/*
 * Files between the network and the database: a transaction must not wait for the one that sends its input, or reads its output. A file loses
 * its name when it is made. So it ends with the process, also by kill -9, and no other process can open it.
 */

export type Spool = ReturnType<typeof createSpool>;

/** The bound of a file, where its user gives no other. */
const MAX_SPOOLED_BYTES = 64 * 2 ** 30;
const READ_BYTES = 65_536;

/** Makes files in a directory, which need not exist. */
export function createSpool(dir: string) {
  return {
    /** A file for `work` alone, which is gone when `work` has ended. */
    async withFile<Result>(work: (file: SpoolFile) => Promise<Result>, maxBytes = MAX_SPOOLED_BYTES) {
      await mkdir(dir, { recursive: true, mode: 0o700 }).catch(throwFull);
      const path = join(dir, `userdir-${randomUUID()}`);
      const handle = await open(path, 'wx+', 0o600).catch(throwFull);
      let bytes = 0;
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
          async *[Symbol.asyncIterator]() {
            for (let position = 0; ; ) {
              const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES, position);
              if (bytesRead === 0) return;
              position += bytesRead;
              yield buffer.subarray(0, bytesRead);
            }
          },
        });
      } finally {
        await handle.close();
      }
    },
  };
}

function throwFull(error: unknown): never {
  throw toSpoolFull(error);
}
