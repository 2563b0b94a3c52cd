import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/**
 * The form of an App Secret: `uds_`, 32 random bytes in base64url, and a checksum, so that a scanner finds a leaked one and
 * knows it from a text that only looks like it, without asking anybody. It is for scanners alone: whether a secret is right is for its
 * hash to say, and those from before there was a checksum stay right.
 */
const SECRET_BYTES = 32;
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 62^6 is more than 2^32. */
const CHECKSUM_LENGTH = 6;

/** A secret that nobody has yet. */
export function makeSecret(randomBytes: (size: number) => Buffer): string {
  const unchecked = `uds_${randomBytes(SECRET_BYTES).toString('base64url')}`;
  return unchecked + checksum(unchecked);
}

/** SHA-256, all that is kept of a secret: it has 256 random bits, so that no slow hash is needed. */
export function hashSecret(secret: string): Buffer<ArrayBuffer> {
  return hash('sha256', secret, 'buffer') as Buffer<ArrayBuffer>;
}

/** The CRC-32 of what comes before it, in base62, the highest digit first. */
function checksum(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let place = 0; place < CHECKSUM_LENGTH; place += 1) {
    digits = BASE62.charAt(rest % BASE62.length) + digits;
    rest = Math.floor(rest / BASE62.length);
  }
  return digits;
}
