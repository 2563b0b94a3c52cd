import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/*
 * An App Secret is `uds_`, 32 random bytes in base64url, and a checksum. The checksum lets a scanner recognise a leaked secret
 * without a request. It is for scanners only: secrets are verified by their hash, so older secrets without a checksum stay valid.
 */

const SECRET_BYTES = 32;
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 62^6 is more than 2^32. */
const CHECKSUM_LENGTH = 6;

/** A new secret. */
export function makeSecret(randomBytes: (size: number) => Buffer): string {
  const unchecked = `uds_${randomBytes(SECRET_BYTES).toString('base64url')}`;
  return unchecked + checksum(unchecked);
}

/** SHA-256, the only form in which a secret is stored. It has 256 random bits, so no slow hash is needed. */
export function hashSecret(secret: string): Buffer<ArrayBuffer> {
  return hash('sha256', secret, 'buffer') as Buffer<ArrayBuffer>;
}

/** By secret: those that this turn of the event loop has read. Nothing is kept beyond the turn. */
let hashesOfTurn = new Map<string, string>();

/**
 * The same as text, which is faster to look up. One turn of the event loop reads requests of many connections, often with the same
 * secret, which is hashed once for all of them.
 */
export function hashSecretAsText(secret: string): string {
  const known = hashesOfTurn.get(secret);
  if (known !== undefined) return known;
  if (hashesOfTurn.size === 0) setImmediate(forgetHashes);
  const hashed = hash('sha256', secret, 'base64');
  hashesOfTurn.set(secret, hashed);
  return hashed;
}

function forgetHashes(): void {
  hashesOfTurn = new Map();
}

/** The CRC-32 of the text before it, in base62, the highest digit first. */
function checksum(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let index = 0; index < CHECKSUM_LENGTH; index += 1) {
    digits = BASE62.charAt(rest % BASE62.length) + digits;
    rest = Math.floor(rest / BASE62.length);
  }
  return digits;
}
