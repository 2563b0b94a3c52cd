import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';

const PEM = /-----BEGIN PRIVATE KEY-----[^-]*-----END PRIVATE KEY-----/g;

/** The Ed25519 private keys of a text, in PEM (PKCS#8), as a JWK or as a JWK set; null if it has anything else. */
export function parseReceiptKeys(text: string): readonly KeyObject[] | null {
  try {
    const keys = text.trimStart().startsWith('{') ? fromJwk(JSON.parse(text)) : fromPem(text);
    const publicKeys = new Set(keys.map((key) => createPublicKey(key).export({ format: 'jwk' }).x));
    const areUsable = keys.length > 0 && keys.every((key) => key.asymmetricKeyType === 'ed25519');
    // A key twice is a mistake of the person who wrote the next one.
    return areUsable && publicKeys.size === keys.length ? keys : null;
  } catch {
    return null;
  }
}

function fromPem(text: string): KeyObject[] {
  if (text.replace(PEM, '').trim() !== '') throw new Error('There is something beside the keys.');
  return (text.match(PEM) ?? []).map((pem) => createPrivateKey(pem));
}

function fromJwk(value: { keys?: unknown }): KeyObject[] {
  const keys = Array.isArray(value.keys) ? value.keys : [value];
  return keys.map((key) => createPrivateKey({ key, format: 'jwk' }));
}
