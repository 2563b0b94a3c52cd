import { createPublicKey, type KeyObject } from 'node:crypto';
import type { JWK } from 'jose';
import { LARGEST_ID } from '../domain/filters.js';
import type { ProjectScope } from '../domain/projects.js';
import type { WalletOwner } from '../domain/users.js';
import type { WalletQuestion } from '../domain/wallets.js';
import { AppError } from '../errors.js';

export interface ReceiptOptions {
  /** The first one signs, and all are published. Empty where no receipts are signed. */
  readonly keys: readonly KeyObject[];
  /** Where the service is reached, which is the issuer; null for none. */
  readonly issuer: string | null;
}

/** Signs the answer to a question: the user to whom the address belongs, or null. The result is null where it cannot be signed. */
export type SignReceipt = (question: WalletQuestion, owner: WalletOwner | null) => Promise<string | null>;

export type Receipts = ReturnType<typeof createReceipts>;

const ALGORITHM = 'EdDSA';
const TYPE = 'wallet-verification+jwt';
const LIFETIME_SECONDS = 300;

/** Signed verdicts on wallets (JWS), which others can check with the published keys. */
export function createReceipts({ keys, issuer }: ReceiptOptions) {
  const [signingKey] = keys;
  let opened: ReturnType<typeof openKeys> | undefined;
  const open = () => {
    opened ??= openKeys(keys);
    return opened;
  };

  return {
    isOn: keys.length > 0,

    /** The public keys as a JWK set (RFC 7517). */
    publicKeys: async () => ({ keys: (await open()).publicKeys }),

    /** To be called before the wallets are read: a receipt is valid from then on, and its verdict may be newer. BAD_USER_INPUT. */
    begin(scope: ProjectScope): SignReceipt {
      if (signingKey === undefined)
        throw new AppError(
          'BAD_USER_INPUT',
          'receipts: this service signs none, because RECEIPT_KEY_FILE is not set; expected a request without them.',
        );
      const iat = Math.floor(Date.now() / 1_000);
      return async ({ address, userId }, owner) => {
        // Such an ID is not known in full.
        if (userId !== null && userId > LARGEST_ID) return null;
        const { SignJWT, publicKeys } = await open();
        const claims = {
          ...(issuer !== null && { iss: issuer }),
          aud: scope.appId,
          iat,
          exp: iat + LIFETIME_SECONDS,
          address: address.key,
          network: address.network,
          verdict: owner === null ? 'NOT_OWNED' : 'VERIFIED',
          ...(owner !== null && { user_id: String(owner.userId) }),
          // Without it, a "no" about one user would read as a "no" about all.
          ...(userId !== null && { for_user_id: String(userId) }),
        };
        const header = { alg: ALGORITHM, typ: TYPE, kid: publicKeys[0]?.kid as string };
        return new SignJWT(claims).setProtectedHeader(header).sign(signingKey);
      };
    },
  };
}

async function openKeys(keys: readonly KeyObject[]) {
  // Loaded only where it is used, because it takes time and memory.
  const { calculateJwkThumbprint, SignJWT } = await import('jose');
  const publicKeys = keys.map(async (key): Promise<JWK> => {
    const jwk = createPublicKey(key).export({ format: 'jwk' }) as JWK;
    return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: ALGORITHM, use: 'sig' };
  });
  return { SignJWT, publicKeys: await Promise.all(publicKeys) };
}
