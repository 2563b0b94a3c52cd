import { badInput, UserdirError } from './errors.js';
import type { Change, ChangeType } from './generated/schema.js';
import { parseJson } from './transport.js';

/** A change as a webhook tells it. Its `id` is the same at each attempt. `webhook test` sends `WEBHOOK_TEST`: ignore it. */
export type WebhookMessage = Omit<Change, 'type'> & { readonly type: ChangeType | 'WEBHOOK_TEST' };

/** The headers of a request: of `fetch`, or of `node:http`. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

const TOLERANCE_SECONDS = 300;
const MOST_LENGTH = 65_536;
const MOST_SIGNATURES = 10;

/**
 * Verifies a message by Standard Webhooks. `body` is the text exactly as it arrived. Give both secrets while one replaces the other.
 * Rejects with `WEBHOOK_NOT_VERIFIED` where no signature is right, or the time is more than five minutes off: answer that with 401.
 */
export async function verifyWebhook(
  body: string,
  headers: WebhookHeaders,
  secrets: string | readonly string[],
): Promise<WebhookMessage> {
  const keys = await Promise.all([secrets].flat().map(keyOf));
  const [id, timestamp, signatures] = ['id', 'timestamp', 'signature'].map((name) => {
    const value = headers instanceof Headers ? headers.get(`webhook-${name}`) : headers[`webhook-${name}`];
    return typeof value === 'string' && value.length <= 2_000 ? value : '';
  }) as [string, string, string];
  const seconds = /^\d{1,12}$/.test(timestamp) ? Number(timestamp) : Number.NaN;
  const isNow = Math.abs(Date.now() / 1_000 - seconds) <= TOLERANCE_SECONDS;
  if (id === '' || !isNow || typeof body !== 'string' || body.length > MOST_LENGTH) throw refused();
  const signed = new TextEncoder().encode(`${id}.${timestamp}.${body}`);
  const proofs = signatures.split(' ', MOST_SIGNATURES).flatMap((text) => bytesOf(/^v1,(.+)$/.exec(text)?.[1] ?? ''));
  // Compares in constant time.
  for (const key of keys)
    for (const proof of proofs) if (await crypto.subtle.verify('HMAC', key, proof, signed)) return messageOf(id, body);
  throw refused();
}

/** In the words of the feed: `user.created` is `USER_CREATED`, and `auth_method` is `authMethod`. */
function messageOf(id: string, body: string): WebhookMessage {
  const told = (parseJson(body) ?? {}) as { type?: string; timestamp?: string; data?: Record<string, unknown> };
  const { type = '', timestamp = '', data = {} } = told;
  const { user_id: userId = null, merged_into: mergedInto = null, fields = [] } = data;
  return {
    id,
    type: type.toUpperCase().replace('.', '_') as WebhookMessage['type'],
    at: timestamp,
    userId: userId === null ? null : String(userId),
    fields: (fields as string[]).map((field) => field.replaceAll(/_(.)/g, (_, letter) => letter.toUpperCase())),
    mergedInto: mergedInto === null ? null : String(mergedInto),
  };
}

/** Refuses what is no secret, as where its setting is absent. The value is not repeated. */
async function keyOf(secret: string): Promise<CryptoKey> {
  const [bytes] = bytesOf(String(secret).replace(/^whsec_/, ''));
  if (bytes === undefined || bytes.length < 16) throw badInput('secrets', 'a text "whsec_…", or several');
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
}

/** The bytes of a text in base64; nothing if it is none. */
function bytesOf(text: string): Uint8Array<ArrayBuffer>[] {
  try {
    return text.length > 512 ? [] : [Uint8Array.from(atob(text), (character) => character.charCodeAt(0))];
  } catch {
    return [];
  }
}

const refused = () =>
  new UserdirError('The message is not verified: its signature is wrong, or its time is too far from the present.', {
    code: 'WEBHOOK_NOT_VERIFIED',
  });
