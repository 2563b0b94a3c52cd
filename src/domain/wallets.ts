import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { base32 } from '@scure/base';
import crc16 from 'crc/calculators/crc16xmodem';
import { z } from 'zod';
import { AppError, show } from '../errors.js';
import { atMost, INPUT_LIMITS, isTooLong } from './input-limits.js';
import { ID_META, objectError, says, saysWhere } from './parse.js';
import type { Network, WalletOwner } from './users.js';

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
/** The place of the checksum: after the version byte and the 32 bytes of the key. */
const CHECKSUM_OFFSET = 33;

const SECRET_SEED = /^S[A-Z2-7]{55}$/;

export const ADDRESS_FORM: Readonly<Record<Network, string>> = {
  stellar: 'a Stellar address (G and 55 more characters)',
  ethereum: 'an Ethereum address (0x and 40 hex digits)',
};
export const ADDRESS_FORMS = Object.values(ADDRESS_FORM).join(' or ');

/**
 * The one address parser. Returns the address, or why it is malformed.
 * Stellar: a StrKey of version `G` with its CRC-16 (SEP-23), and no other form of an account.
 * Ethereum: hex digits in any case; a wrong EIP-55 checksum is reported and not refused.
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
    throw new AppError(
      'BAD_USER_INPUT',
      `${name}: got ${text === text.trim() ? show(text) : 'a text with blanks around it'}, expected ${ADDRESS_FORMS}; ${address.reason}.`,
    );
  }
  return address;
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

/** False only for Ethereum in mixed case that contradicts EIP-55. */
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

/** The fault of a text that must have one length and one alphabet. */
function misfit(text: string, length: number, foreign: RegExp): string {
  if (text.length !== length) return `this has ${text.length}`;
  return `${show(foreign.exec(text)?.[0])} is none of them`;
}

/* Verification of many wallets at once: what is asked, and the verdicts. */

export const MAX_WALLETS = 500;

/** A question about a wallet: to whom the address belongs or, with `userId`, whether it belongs to that user. */
export interface WalletQuestion {
  readonly address: Address;
  readonly userId: bigint | null;
}

/** Why a wallet cannot be asked about. */
export interface MalformedWallet {
  readonly reason: string;
}

export const VERDICTS = ['VERIFIED', 'NOT_OWNED', 'MALFORMED'] as const;

export interface WalletVerdict {
  readonly verdict: (typeof VERDICTS)[number];
  /** Only of a verified wallet. */
  readonly owner: WalletOwner | null;
  /** Only of a malformed wallet. */
  readonly reason: string | null;
}

export interface WalletVerdicts {
  /** ISO 8601. The verdicts take into account all that was committed before this instant. */
  readonly asOf: string;
  /** In the order of the questions. */
  readonly verdicts: readonly WalletVerdict[];
}

/** One of many wallets, of which a malformed one is no error: the others are answered. A null `userId` is malformed: a caller lost the ID. */
export function readWallet(
  userIdSchema: z.ZodType<bigint>,
  { address: text, userId }: { address: string; userId: unknown },
): WalletQuestion | MalformedWallet {
  const address = parseAddress(text);
  if ('reason' in address) return address;
  if (userId === undefined) return { address, userId: null };
  const { data, error } = userIdSchema.safeParse(userId);
  if (error !== undefined) return { reason: error.issues.map(({ message }) => message.replace(/\.$/, '')).join(', ') };
  return { address, userId: data };
}

/** A wallet as REST and the command take it. */
export const walletObject = z.strictObject(
  {
    address: z.string({ error: saysWhere(ADDRESS_FORMS) }).meta({
      description: 'Stellar account (G…) or Ethereum address (0x…).',
      maxLength: INPUT_LIMITS.address.max,
    }),
    // Checked by readWallet: a malformed one is a verdict, and must not fail the others.
    user_id: z
      .unknown()
      .optional()
      .meta({
        ...ID_META,
        description: 'When present, the address must belong to this user.',
      }),
  },
  { error: objectError('wallet', 'an object with an address', 'address and user_id') },
);

export const userIdError = { error: says('user_id', 'a whole number without quotes, 1 and up') };
const wholeUserId = z
  .number(userIdError)
  .refine((value) => Number.isInteger(value) && value >= 1, userIdError)
  .transform(BigInt);

export function readWalletObject({ address, user_id }: z.output<typeof walletObject>) {
  return readWallet(wholeUserId, { address, userId: user_id });
}

/** A verdict as REST and the command give it. */
export function formatVerdict({ owner, reason }: WalletVerdict) {
  if (reason !== null) return { verdict: 'MALFORMED' as const, reason };
  if (owner === null) return { verdict: 'NOT_OWNED' as const };
  return {
    verdict: 'VERIFIED' as const,
    user_id: owner.userId,
    network: owner.network,
    wallet_type: owner.walletType,
    auth_method: owner.authMethod,
  };
}
