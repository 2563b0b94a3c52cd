import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Database } from '../db/database.js';
import { CHALLENGE_MS } from '../domain/passkeys.js';
import { hashToken, isToken } from './operator-sessions.js';
import * as sql from './passkeys.sql.js';

/** What a passkey signs. A challenge has one purpose: for a session that adds a passkey, or (null) for a sign-in. */
export interface Challenges {
  /** A random value with its end and a seal: nothing is kept of it until it is used, as anyone may ask for one. */
  make(sessionId: number | null): Promise<Uint8Array<ArrayBuffer>>;
  /** A challenge of ours that is not late; null for any other. */
  read(challenge: unknown, sessionId: number | null): Promise<string | null>;
  /** To be called once it has been signed. False if it was used before. */
  use(challenge: string): Promise<boolean>;
}

/** A challenge is as long as a token: random bytes, its end in milliseconds, and its seal. */
const RANDOM_BYTES = 10;
const END_BYTES = 6;
const SEAL_BYTES = 16;

const KEY_BYTES = 32;

export function createChallenges(db: Database, randomBytes: (size: number) => Buffer): Challenges {
  let key: Promise<Uint8Array> | null = null;
  /** The key of this database, which the first use makes. */
  function challengeKey(): Promise<Uint8Array> {
    key ??= db
      .models(async ({ challengeKey: keys }) => {
        await keys.createMany({ data: { key: new Uint8Array(randomBytes(KEY_BYTES)) }, skipDuplicates: true });
        return (await keys.findFirstOrThrow()).key;
      })
      .catch((error) => {
        key = null;
        throw error;
      });
    return key;
  }

  async function seal(head: Uint8Array, sessionId: number | null): Promise<Buffer> {
    const mac = createHmac('sha256', await challengeKey())
      .update(`${sessionId ?? 'log in'}:`)
      .update(head);
    return mac.digest().subarray(0, SEAL_BYTES);
  }

  return {
    async make(sessionId) {
      const end = Buffer.alloc(END_BYTES);
      end.writeUIntBE(Date.now() + CHALLENGE_MS, 0, END_BYTES);
      const head = Buffer.concat([randomBytes(RANDOM_BYTES), end]);
      return new Uint8Array([...head, ...(await seal(head, sessionId))]);
    },

    async read(challenge, sessionId) {
      if (!isToken(challenge)) return null;
      const bytes = new Uint8Array(Buffer.from(challenge, 'base64url'));
      const head = bytes.subarray(0, -SEAL_BYTES);
      const sealed = bytes.subarray(-SEAL_BYTES);
      const isLate = Buffer.from(head).readUIntBE(RANDOM_BYTES, END_BYTES) <= Date.now();
      return !isLate && timingSafeEqual(sealed, await seal(head, sessionId)) ? challenge : null;
    },

    use: (challenge) => sql.useChallenge(db, hashToken(challenge) as Buffer),
  };
}
