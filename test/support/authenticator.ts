import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { isoCBOR } from '@simplewebauthn/server/helpers';
import type { Json } from './app.js';

/** What an authenticator is made to do wrong. */
export interface Signing {
  readonly origin: string;
  readonly challenge: string;
  readonly host?: string;
  readonly counter?: number;
  readonly isUserVerified?: boolean;
  readonly type?: string;
  readonly userHandle?: string;
  /** Whether another key signs. */
  readonly isForged?: boolean;
}

const base64url = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64url');
const sha256 = (data: string | Uint8Array) => createHash('sha256').update(data).digest();
const USER_PRESENT = 1;
const USER_VERIFIED = 4;
const HAS_CREDENTIAL = 64;

/** A passkey in software, as an attacker could have one, too: it says and signs whatever it is told. */
export function createAuthenticator({ idBytes = 16 } = {}) {
  const id = randomBytes(idBytes);
  const makeKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = makeKey();
  let userHandle = '';

  function clientData(type: string, { challenge, origin }: Signing): Buffer {
    return Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }));
  }
  function authenticatorData(
    { origin, host, counter = 0, isUserVerified = true }: Signing,
    credential?: Buffer,
  ): Buffer {
    const flags = USER_PRESENT + (isUserVerified ? USER_VERIFIED : 0) + (credential ? HAS_CREDENTIAL : 0);
    const count = Buffer.alloc(4);
    count.writeUInt32BE(counter);
    return Buffer.concat([
      sha256(host ?? new URL(origin).hostname),
      Buffer.from([flags]),
      count,
      ...(credential ? [credential] : []),
    ]);
  }
  function publicKey(): Uint8Array {
    const { x = '', y = '' } = key.publicKey.export({ format: 'jwk' });
    return isoCBOR.encode(
      new Map<number, number | Uint8Array>([
        [1, 2],
        [3, -7],
        [-1, 1],
        [-2, new Uint8Array(Buffer.from(x, 'base64url'))],
        [-3, new Uint8Array(Buffer.from(y, 'base64url'))],
      ]),
    );
  }

  return {
    id: base64url(id),
    /** What a browser answers to the options of `beginPasskey`. */
    register(options: Json, signing: Omit<Signing, 'challenge'> & { challenge?: string }) {
      userHandle = options.user.id;
      const told = { challenge: options.challenge, ...signing };
      const length = Buffer.alloc(2);
      length.writeUInt16BE(id.length);
      const credential = Buffer.concat([Buffer.alloc(16), length, id, publicKey()]);
      const authData = new Uint8Array(authenticatorData(told, credential));
      const attestation = new Map(Object.entries({ fmt: 'none', attStmt: new Map(), authData }));
      return {
        id: base64url(id),
        clientDataJSON: base64url(clientData(told.type ?? 'webauthn.create', told)),
        attestationObject: base64url(isoCBOR.encode(attestation)),
      };
    },
    /** What a browser answers to a challenge of the sign-in. */
    sign(told: Signing) {
      const data = clientData(told.type ?? 'webauthn.get', told);
      const authData = authenticatorData(told);
      const { privateKey } = told.isForged ? makeKey() : key;
      return {
        id: base64url(id),
        clientDataJSON: base64url(data),
        authenticatorData: base64url(authData),
        signature: base64url(sign('sha256', Buffer.concat([authData, sha256(data)]), privateKey)),
        userHandle: told.userHandle ?? userHandle,
      };
    },
  };
}

export type Authenticator = ReturnType<typeof createAuthenticator>;
