import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { base32 } from '@scure/base';
import crc16 from 'crc/calculators/crc16xmodem';
import type { Network } from '../db/client.js';
import { AppError, show } from '../errors.js';
import { atMost, isTooLong } from '../input-limits.js';

/** A well-formed public address. */
export interface Address {
  readonly network: Network;
  /** The address as it was written, for display. */
  readonly publicKey: string;
  /** The one form in which addresses are stored for comparison and compared. */
  readonly key: string;
  /** Whether its checksum holds. False only for Ethereum in mixed case that contradicts EIP-55. */
  readonly checksumValid: boolean;
}

/** The first byte of the StrKey of an account, and where its checksum is: after that byte and the 32 of the key. */
const ACCOUNT_VERSION = 6 << 3;
const CHECKSUM_PLACE = 33;

const SECRET_SEED = /^S[A-Z2-7]{55}$/;

export const ADDRESS_FORMS =
  'a Stellar address (G and 55 more characters) or an Ethereum address (0x and 40 hex digits)';

/**
 * The one address parser: search, verification, import, login and GraphQL all decide by it.
 * Returns the address, or the reason for which it is malformed.
 *
 * Stellar: StrKey of version `G` with its CRC-16 (SEP-23); nothing else stands for an account here. Ethereum: hex digits
 * in any case; a wrong EIP-55 checksum is reported, not refused.
 */
export function parseAddress(text: string): Address | { readonly reason: string } {
  if (isTooLong('address', text)) return { reason: `an address has ${atMost('address')}` };
  if (/^0x[0-9a-fA-F]{40}$/.test(text)) return ethereumAddress(text);
  if (/^G[A-Z2-7]{55}$/.test(text)) {
    if (isAccountKey(Buffer.from(base32.decode(text))))
      return { network: 'stellar', publicKey: text, key: text, checksumValid: true };
    return { reason: 'the checksum of this Stellar address is wrong: a character is mistyped or missing' };
  }
  return { reason: malformedReason(text) };
}

/** The address, or BAD_USER_INPUT that names the parameter, what arrived and what is wrong with it. */
export function requireAddress(name: string, text: string): Address {
  const address = parseAddress(text);
  if ('reason' in address) {
    // Of what looks like a secret seed nothing is repeated.
    const shown = SECRET_SEED.test(text) ? 'a secret' : show(text);
    throw new AppError('BAD_USER_INPUT', `${name}: got ${shown}, expected ${ADDRESS_FORMS}; ${address.reason}.`);
  }
  return address;
}

/** The StrKey of an ed25519 public key (SEP-23): the version, the key, and the CRC-16 of both with its low byte first. */
export function stellarAddress(key: Uint8Array): string {
  const strKey = Buffer.alloc(CHECKSUM_PLACE + 2);
  strKey.writeUInt8(ACCOUNT_VERSION);
  strKey.set(key, 1);
  strKey.writeUInt16LE(crc16(strKey.subarray(0, CHECKSUM_PLACE)), CHECKSUM_PLACE);
  return base32.encode(strKey);
}

function isAccountKey(strKey: Buffer): boolean {
  if (strKey[0] !== ACCOUNT_VERSION) return false;
  return strKey.readUInt16LE(CHECKSUM_PLACE) === crc16(strKey.subarray(0, CHECKSUM_PLACE));
}

function ethereumAddress(text: string): Address {
  const digits = text.slice(2);
  const key = text.toLowerCase();
  // Digits in one case carry no checksum that could be wrong.
  const carriesChecksum = text !== key && digits !== digits.toUpperCase();
  return {
    network: 'ethereum',
    publicKey: text,
    key,
    // Computed for whoever asks: the hash costs more than everything else about an address, and decides nothing.
    get checksumValid() {
      return !carriesChecksum || text === checksumAddress(key);
    },
  };
}

/** The EIP-55 form of a lower-case Ethereum address: a letter is upper case where the hash of the digits has 8 or more. */
export function checksumAddress(key: string): string {
  const digits = key.slice(2);
  const hash = bytesToHex(keccak_256(utf8ToBytes(digits)));
  const cased = [...digits].map((digit, place) =>
    Number.parseInt(hash[place] as string, 16) >= 8 ? digit.toUpperCase() : digit,
  );
  return `0x${cased.join('')}`;
}

function malformedReason(text: string): string {
  if (text === '') return 'it is empty';
  if (/^M[A-Z2-7]{68}$/.test(text)) return 'a muxed address (M…) names a sub-account; send the G… address inside it';
  if (SECRET_SEED.test(text)) return 'this looks like a secret seed (S…), which must never be sent anywhere';
  if (/^[gG][a-zA-Z2-7]{55}$/.test(text)) return 'a Stellar address is written in upper case';
  if (/^0X/.test(text)) return 'an Ethereum address starts with 0x in lower case';
  if (/^0x/.test(text))
    return `an Ethereum address has 40 hex digits after 0x, and ${misfit(text.slice(2), 40, /[^0-9a-fA-F]/u)}`;
  if (/^G/.test(text))
    return `a Stellar address has 56 characters of A-Z and 2-7, and ${misfit(text, 56, /[^A-Z2-7]/u)}`;
  return 'it is neither';
}

/** What is wrong with text that should have a length and an alphabet. */
function misfit(text: string, length: number, stranger: RegExp): string {
  if (text.length !== length) return `here are ${text.length} characters`;
  return `${show(stranger.exec(text)?.[0])} is none of them`;
}
