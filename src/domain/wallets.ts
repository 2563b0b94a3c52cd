import type { z } from 'zod';
import { type Address, parseAddress } from './addresses.js';
import type { WalletOwner } from './users.js';

/** How many wallets one request may ask about. */
export const MAX_WALLETS = 500;

export const VERDICTS = ['VERIFIED', 'NOT_OWNED', 'MALFORMED'] as const;

/** What is asked about a wallet: to whom the address belongs or, with `userId`, whether it belongs to that user. */
export interface WalletQuestion {
  readonly address: Address;
  readonly userId: bigint | null;
}

/** Why a wallet cannot be asked about. */
export interface MalformedWallet {
  readonly reason: string;
}

export interface WalletVerdict {
  readonly verdict: (typeof VERDICTS)[number];
  /** Only of a verified wallet. */
  readonly owner: WalletOwner | null;
  /** Only of a malformed wallet. */
  readonly reason: string | null;
}

export interface WalletVerdicts {
  /** ISO 8601. What was committed before this instant is taken into account. */
  readonly asOf: string;
  /** In the order of the questions. */
  readonly verdicts: readonly WalletVerdict[];
}

/**
 * One of many wallets. A malformed one has a reason and no error, because the others are answered. `userId` is malformed too
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
