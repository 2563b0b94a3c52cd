import { createHash } from 'node:crypto';
import { StrKey } from '@stellar/stellar-base';

/** A well-formed Stellar address, the same for the same number. */
export function stellarAddress(number: number): string {
  return StrKey.encodeEd25519PublicKey(createHash('sha256').update(`stellar ${number}`).digest());
}

/** An Ethereum address in lower case, the same for the same number. */
export function ethereumAddress(number: number): string {
  return `0x${createHash('sha256').update(`ethereum ${number}`).digest('hex').slice(0, 40)}`;
}
