import { z } from 'zod';
import { ADDRESS_FORMS, type Address, parseAddress } from './addresses.js';
import { objectError, says, saysWhere } from './filters.js';
import { INPUT_LIMITS } from './input-limits.js';
import type { WalletOwner } from './users.js';

/* Verification of many wallets at once: what is asked, and the verdicts. */

/** How many wallets one request may ask about. */
export const MAX_WALLETS = 500;

/** What is asked about a wallet: to whom the address belongs or, with `userId`, whether it belongs to that user. */
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
  /** The signed verdict (users/wallets.ts); null where it was not asked for. */
  readonly receipt: string | null;
}

export interface WalletVerdicts {
  /** ISO 8601. What was committed before this instant is taken into account. */
  readonly asOf: string;
  /** In the order of the questions. */
  readonly verdicts: readonly WalletVerdict[];
}

/**
 * One of many wallets. A malformed one has a reason and is no error, because the others are answered. `userId` is malformed too
 * where it is null: that is what a caller sends who has lost the ID.
 */
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
    user_id: z.unknown().optional().meta({
      type: 'integer',
      minimum: 1,
      description: 'When present, the address must belong to this user.',
    }),
  },
  { error: objectError('wallet', 'an object with an address', 'address and user_id') },
);

const userIdError = { error: says('user_id', 'a whole number, 1 and up') };
const wholeUserId = z
  .number(userIdError)
  .refine((value) => Number.isInteger(value) && value >= 1, userIdError)
  .transform(BigInt);

export function readWalletObject({ address, user_id }: z.output<typeof walletObject>) {
  return readWallet(wholeUserId, { address, userId: user_id });
}

/** A verdict as REST and the command give it. */
export function formatVerdict({ owner, reason, receipt: signed }: WalletVerdict) {
  if (reason !== null) return { verdict: 'MALFORMED' as const, reason };
  const receipt = signed === null ? {} : { receipt: signed };
  if (owner === null) return { verdict: 'NOT_OWNED' as const, ...receipt };
  return {
    verdict: 'VERIFIED' as const,
    user_id: owner.userId,
    network: owner.network,
    wallet_type: owner.walletType,
    auth_method: owner.authMethod,
    ...receipt,
  };
}
