import type * as models from '../db/generated/prisma/client.js';
import { badInput } from '../errors.js';
import { type InputKind, isOneLine, isTooLong, oneLineForm } from './input-limits.js';
import type { AsRead } from './user-columns.js';

/** A passkey of an operator as it is listed. */
export interface Passkey
  extends Readonly<AsRead<Pick<models.OperatorPasskey, 'id' | 'name' | 'host' | 'createdAt' | 'lastUsedAt'>>> {
  readonly operator: string;
}

/** The most passkeys of an operator. */
export const MAX_PASSKEYS = 10;
/** A challenge can be signed for so long. */
export const CHALLENGE_MS = 5 * 60_000;
/** A session may add passkeys only for so long: one that is stolen later must not outlive itself by a passkey. */
export const ADDING_MS = 30 * 60_000;

/** A place where passkeys work: a browser binds each to the name of a host, and signs the whole origin. */
export interface Site {
  readonly origin: string;
  readonly host: string;
}

/** BAD_USER_INPUT. */
export function requirePasskeyName(name: string): void {
  if (isOneLine('passkeyName', name)) return;
  throw badInput('name', name, oneLineForm('passkeyName'));
}

/** A browser's answer after it has made a passkey: base64url. */
export interface NewCredential {
  readonly id: string;
  readonly clientDataJSON: string;
  readonly attestationObject: string;
}

/** A browser's answer after a passkey has signed: base64url. */
export interface Assertion {
  readonly id: string;
  readonly clientDataJSON: string;
  readonly authenticatorData: string;
  readonly signature: string;
  readonly userHandle: string;
}

const BASE64URL = /^[\w-]+$/;
const isEncoded = (kind: InputKind, text: unknown): text is string =>
  typeof text === 'string' && !isTooLong(kind, text) && BASE64URL.test(text);

/** Checks the form of a browser's answer. Its parts are measured before they are decoded. */
export function isWellFormed<Answer extends NewCredential | Assertion>(
  answer: Record<keyof Answer, unknown>,
): answer is Answer {
  const { id, ...parts } = answer as Record<string, unknown>;
  return isEncoded('passkeyId', id) && Object.values(parts).every((part) => isEncoded('passkeyAnswer', part));
}
