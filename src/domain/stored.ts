/* The input of an import, and the output of an export, as they are kept. */

/** Bytes that can be read from their start any number of times. */
export interface Stored extends AsyncIterable<Buffer> {
  readonly bytes: number;
}

export function isStored(input: AsyncIterable<Buffer>): input is Stored {
  return 'bytes' in input;
}

/** The bytes of an input, and which part of them has been read since they were begun last, 0 to 1; undefined where their number is unknown. */
export function countBytes(input: AsyncIterable<Buffer> | Stored) {
  let bytes = 0;
  async function* chunks() {
    bytes = 0;
    for await (const chunk of input) {
      bytes += chunk.length;
      yield chunk;
    }
  }
  return { chunks, fraction: () => (isStored(input) ? bytes / input.bytes : undefined) };
}

export interface SpoolFile extends Stored {
  /** Appends a chunk. To be awaited before the next one. PAYLOAD_TOO_LARGE if the file would have more than its bound. */
  write(chunk: string | Uint8Array): Promise<void>;
  /** The bytes from a position on. */
  read(position: number): AsyncGenerator<Buffer, void>;
}
