import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';

/** What is wrong with a setting, as a sentence that begins with its name. */
export interface Fault {
  readonly setting: string;
  readonly sentence: string;
}

const MAX_BYTES = 16_384;
const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * The values of the settings `names` that are given as files: `NAME_FILE` is the path of a file that holds NAME, as
 * Docker and Kubernetes mount secrets. No fault repeats the content of the variable or of the file: either may be the
 * secret.
 */
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
    const value = utf8.decode(bytes).replace(/[\r\n]+$/, '');
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

const PEM = /-----BEGIN PRIVATE KEY-----[^-]*-----END PRIVATE KEY-----/g;

/** The Ed25519 private keys of a text, in PEM (PKCS#8), as a JWK or as a JWK set; null if it has anything else. */
export function parseReceiptKeys(text: string): readonly KeyObject[] | null {
  try {
    const keys = text.trimStart().startsWith('{') ? fromJwk(JSON.parse(text)) : fromPem(text);
    const publicKeys = new Set(keys.map((key) => createPublicKey(key).export({ format: 'jwk' }).x));
    const areUsable = keys.length > 0 && keys.every((key) => key.asymmetricKeyType === 'ed25519');
    // A key twice is a mistake of the person who wrote the next one.
    return areUsable && publicKeys.size === keys.length ? keys : null;
  } catch {
    return null;
  }
}

function fromPem(text: string): KeyObject[] {
  if (text.replace(PEM, '').trim() !== '') throw new Error('There is something beside the keys.');
  return (text.match(PEM) ?? []).map((pem) => createPrivateKey(pem));
}

function fromJwk(value: { keys?: unknown }): KeyObject[] {
  const keys = Array.isArray(value.keys) ? value.keys : [value];
  return keys.map((key) => createPrivateKey({ key, format: 'jwk' }));
}
