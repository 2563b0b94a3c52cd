import { closeSync, openSync, readSync } from 'node:fs';

/** A fault of a setting, as a sentence that begins with its name. */
export interface Fault {
  readonly setting: string;
  readonly sentence: string;
}

const MAX_BYTES = 16_384;
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The values of settings that are given as files: `NAME_FILE` is the path of one that holds NAME. No fault repeats a content. */
export function readSecretFiles(
  env: Readonly<Record<string, string | undefined>>,
  names: readonly string[],
): { values: Record<string, string>; faults: Fault[] } {
  const values: Record<string, string> = {};
  const faults: Fault[] = [];
  for (const name of names) {
    const setting = `${name}_FILE`;
    const path = env[setting];
    if (!path) continue;
    const read = env[name] ? `and ${name} exclude each other; unset one of them.` : readSecret(path);
    if (typeof read === 'string') faults.push({ setting, sentence: `${setting} ${read}` });
    else values[name] = read.value;
  }
  return { values, faults };
}

/** The value, or what is wrong with the file. */
function readSecret(path: string): { value: string } | string {
  try {
    const bytes = readBeginning(path);
    if (bytes.length > MAX_BYTES) return `must name a file of at most ${MAX_BYTES} bytes.`;
    const value = utf8.decode(bytes).replace(/(?<![\r\n])[\r\n]+$/, '');
    return value === '' ? 'must name a file that is not empty.' : { value };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') return 'must name a file of UTF-8 text.';
    return `must name a file that can be read (${code}).`;
  }
}

/** Reads only as much as tells whether a file is too long, because a device has no end. */
function readBeginning(path: string): Buffer {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(MAX_BYTES + 1);
    let length = 0;
    for (let more = 1; more > 0 && length < bytes.length; length += more) {
      more = readSync(file, bytes, length, bytes.length - length, null);
    }
    return bytes.subarray(0, length);
  } finally {
    closeSync(file);
  }
}
