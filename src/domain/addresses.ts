import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { base32 } from '@scure/base';
import crc16 from 'crc/calculators/crc16xmodem';
import { AppError, show } from '../errors.js';
import { atMost, isTooLong } from './input-limits.js';
import type { Network } from './users.js';

/** A well-formed public address. */
export interface Address {
  readonly network: Network;
  /** The address as it was written, for display. */
  readonly publicKey: string;
  /** The one form in which addresses are stored for comparison and compared. */
  readonly key: string;
}

/** The first byte of the StrKey of an account. */
const ACCOUNT_VERSION = 6 << 3;
/** Where the checksum starts: after the version byte and the 32 bytes of the key. */
const CHECKSUM_OFFSET = 33;

const SECRET_SEED = /^S[A-Z2-7]{55}$/;

export const ADDRESS_FORMS =
  'a Stellar address (G and 55 more characters) or an Ethereum address (0x and 40 hex digits)';

/**
 * The one address parser, used by search, verification, import, login and GraphQL. Returns the address, or why it is malformed.
 *
 * Stellar: a StrKey of version `G` with its CRC-16 (SEP-23), and no other form of an account. Ethereum: hex digits in any
 * case; a wrong EIP-55 checksum is reported and not refused.
 */
export function parseAddress(text: string): Address | { readonly reason: string } {
  if (isTooLong('address', text)) return { reason: `an address has ${atMost('address')}` };
  if (/^0x[0-9a-fA-F]{40}$/.test(text)) return { network: 'ethereum', publicKey: text, key: text.toLowerCase() };
  if (/^G[A-Z2-7]{55}$/.test(text)) {
    if (isAccountKey(Buffer.from(base32.decode(text)))) return { network: 'stellar', publicKey: text, key: text };
    return { reason: 'the checksum of this Stellar address is wrong: a character is mistyped or missing' };
  }
  return { reason: malformedReason(text) };
}

/** The address, or BAD_USER_INPUT that names the parameter, the value and the reason. */
export function requireAddress(name: string, text: string): Address {
  const address = parseAddress(text);
  if ('reason' in address) {
    throw new AppError('BAD_USER_INPUT', `${name}: got ${shown(text)}, expected ${ADDRESS_FORMS}; ${address.reason}.`);
  }
  return address;
}

/** A malformed address as an error repeats it. A text that looks like a secret seed is not repeated. */
function shown(text: string): string {
  if (SECRET_SEED.test(text.trim())) return 'a secret';
  return text === text.trim() ? show(text) : 'a text with blanks around it';
}

/** The StrKey of an ed25519 public key (SEP-23): the version, the key, and the CRC-16 of both, low byte first. */
export function stellarAddress(key: Uint8Array): string {
  const strKey = Buffer.alloc(CHECKSUM_OFFSET + 2);
  strKey.writeUInt8(ACCOUNT_VERSION);
  strKey.set(key, 1);
  strKey.writeUInt16LE(crc16(strKey.subarray(0, CHECKSUM_OFFSET)), CHECKSUM_OFFSET);
  return base32.encode(strKey);
}

function isAccountKey(strKey: Buffer): boolean {
  if (strKey[0] !== ACCOUNT_VERSION) return false;
  return strKey.readUInt16LE(CHECKSUM_OFFSET) === crc16(strKey.subarray(0, CHECKSUM_OFFSET));
}

/** Whether the checksum of an address holds. False only for Ethereum in mixed case that contradicts EIP-55. */
export function isChecksumValid({ network, publicKey, key }: Address): boolean {
  const digits = publicKey.slice(2);
  // Digits in one case carry no checksum that could be wrong.
  const carriesChecksum = network === 'ethereum' && publicKey !== key && digits !== digits.toUpperCase();
  return !carriesChecksum || publicKey === checksumAddress(key);
}

/** The EIP-55 form of a lower-case Ethereum address: a letter is upper case where the hash of the digits has 8 or more. */
export function checksumAddress(key: string): string {
  const digits = key.slice(2);
  const hash = bytesToHex(keccak_256(utf8ToBytes(digits)));
  const cased = [...digits].map((digit, index) =>
    Number.parseInt(hash[index] as string, 16) >= 8 ? digit.toUpperCase() : digit,
  );
  return `0x${cased.join('')}`;
}

function malformedReason(text: string): string {
  if (text === '') return 'it is empty';
  if (/^M[A-Z2-7]{68}$/.test(text)) return 'a muxed address (M…) names a sub-account; send the G… address inside it';
  if (SECRET_SEED.test(text.trim())) return 'this looks like a secret seed (S…), which must never be sent anywhere';
  if (text !== text.trim()) return 'an address has no blanks around it';
  if (/^[gG][a-zA-Z2-7]{55}$/.test(text)) return 'a Stellar address is written in upper case';
  if (/^0X/.test(text)) return 'an Ethereum address starts with 0x in lower case';
  if (/^0x/.test(text))
    return `an Ethereum address has 40 hex digits after 0x, and ${misfit(text.slice(2), 40, /[^0-9a-fA-F]/u)}`;
  if (/^G/.test(text))
    return `a Stellar address has 56 characters of A-Z and 2-7, and ${misfit(text, 56, /[^A-Z2-7]/u)}`;
  return 'it begins neither with G (Stellar) nor with 0x (Ethereum)';
}

/** What is wrong with a text that must have one length and one alphabet. */
function misfit(text: string, length: number, foreign: RegExp): string {
  if (text.length !== length) return `here are ${text.length} characters`;
  return `${show(foreign.exec(text)?.[0])} is none of them`;
}
