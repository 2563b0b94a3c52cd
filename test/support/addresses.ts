import { createHash } from 'node:crypto';
import { StrKey } from '@stellar/stellar-base';

/** The same well-formed Stellar address for the same number, another one for another. */
export function stellarAddress(number: number): string {
  return StrKey.encodeEd25519PublicKey(createHash('sha256').update(`stellar ${number}`).digest());
}

/** The same Ethereum address, in lower case, for the same number. */
export function ethereumAddress(number: number): string {
  return `0x${createHash('sha256').update(`ethereum ${number}`).digest('hex').slice(0, 40)}`;
}
