import ipaddr from 'ipaddr.js';
import type * as models from '../db/generated/prisma/client.js';
import type { WebhookStatus } from '../db/generated/prisma/enums.js';
import { AppError, badInput } from '../errors.js';
import { CHANGE_MEANINGS, CHANGE_TYPES, type ChangeType } from './change-types.js';
import { type Change, changeData } from './changes.js';
import { atMost, INPUT_LIMITS, isTooLong } from './input-limits.js';
import type { AsRead } from './user-columns.js';

/* Webhooks: what an endpoint is, which URLs it may have, what is sent to it and when it is tried again. */

/** Endpoints of a project, and secrets of an endpoint that are valid at a time. */
export const MAX_WEBHOOKS = 10;
export const MAX_WEBHOOK_SECRETS = 5;

/** `paused`: by hand, after failures, or because its place is gone. `disabled`: the endpoint answered 410. Both can be resumed. */
export type { WebhookStatus } from '../db/generated/prisma/enums.js';

/** One attempt to deliver a message. */
export interface Attempt {
  /** ISO 8601. */
  readonly at: string;
  /** The `webhook-id`: the cursor of the change. */
  readonly id: string;
  readonly type: string;
  readonly ok: boolean;
  /** The status of the answer; null if there was none. */
  readonly status: number | null;
  readonly ms: number;
  /** Why it failed, in our words: never a text of the endpoint. */
  readonly error: string | null;
  /** True if it was sent again by hand. */
  readonly resent: boolean;
}

/** An attempt with the body that was sent; null where the feed no longer has the change. */
export interface SentAttempt extends Attempt {
  readonly body: string | null;
}

/** The attempts that a list of endpoints shows. */
export const ATTEMPTS_LISTED = 10;

export interface WebhookHour {
  /** ISO 8601. */
  readonly from: string;
  readonly accepted: number;
  readonly failed: number;
}

/** Changes that wait for an endpoint, as far as they were counted. */
export interface Backlog {
  readonly count: number;
  readonly isMore: boolean;
}

/** So many changes after the place of an endpoint are looked at to count those that wait. */
export const BACKLOG_COUNTED = 10_000;

/** What a request sends at once has so long to be answered. The request has a time of its own (REQUEST_TIMEOUT_MS). */
export const ANSWER_MS = 5_000;

/** A message is sent again by hand at most once in so long, and never beside another one. */
export const RESEND_REST_MS = 1_000;

export const noWebhook = (id: number) =>
  new AppError('NOT_FOUND', `The project has no webhook ${id}.`, { subject: { names: ['id'] } });

export const PAUSED = { operator: 'An operator has paused it.', backend: 'A backend of the project has paused it.' };

/** A secret of an endpoint, without its value. */
export type WebhookSecret = Readonly<AsRead<Pick<models.WebhookSecret, 'id' | 'createdAt' | 'expiresAt'>>>;

export interface Webhook {
  readonly id: number;
  readonly url: string;
  readonly description: string;
  /** Empty: all. */
  readonly types: readonly ChangeType[];
  readonly status: WebhookStatus;
  /** Why it is not enabled. */
  readonly reason: string | null;
  readonly createdAt: string;
  /** A cursor: everything up to it has been delivered. */
  readonly cursor: string;
  /** When the oldest change came that is not delivered yet; null where all are. */
  readonly pendingSince: string | null;
  /** Failed attempts since the last one that was accepted. */
  readonly failures: number;
  /** When the next attempt is due; null unless it waits for a retry. */
  readonly nextAttemptAt: string | null;
  readonly lastDeliveredAt: string | null;
  /** Attempts since it was added. */
  readonly accepted: number;
  readonly failed: number;
  /** The last ones, the newest first. */
  readonly attempts: readonly Attempt[];
  /** The valid ones, the newest first. */
  readonly secrets: readonly WebhookSecret[];
}

/** A message: the headers of Standard Webhooks are made of the id and the time, and the body of the rest. */
export interface Message {
  readonly id: string;
  readonly type: string;
  readonly body: string;
}

/** Thin: it says what has changed, and no personal data leaves the service. */
export function messageOf({ id, type, at, ...change }: Change): Message {
  return { id, type, body: JSON.stringify({ type, timestamp: at, data: changeData(change) }) };
}

/** A type of change, what it means, and an example of the body that is sent. */
export interface WebhookSample {
  readonly type: ChangeType;
  readonly meaning: string;
  readonly body: string;
}

export function listSamples(): WebhookSample[] {
  const at = '2026-01-31T12:00:00.000Z';
  return CHANGE_TYPES.map((type) => {
    const fields = type === 'user.updated' ? ['email', 'external_id'] : [];
    const mergedInto = type === 'user.merged' ? 7 : null;
    const { body } = messageOf({ id: '', type, at, userId: 42, fields, mergedInto });
    return { type, meaning: CHANGE_MEANINGS[type], body };
  });
}

export const TEST_TYPE = 'webhook.test';

export function testMessage(id: string, at: Date): Message {
  return { id, type: TEST_TYPE, body: JSON.stringify({ type: TEST_TYPE, timestamp: at.toISOString(), data: {} }) };
}

const SECRET_BYTES = 32;
const SECRET_PREFIX = 'whsec_';

export function makeWebhookSecret(randomBytes: (size: number) => Buffer): Buffer<ArrayBuffer> {
  return randomBytes(SECRET_BYTES) as Buffer<ArrayBuffer>;
}

/** The form in which Standard Webhooks passes a secret on. */
export function formatWebhookSecret(secret: Uint8Array): string {
  return SECRET_PREFIX + Buffer.from(secret).toString('base64');
}

/** A URL that is kept for an endpoint. BAD_USER_INPUT. */
export function requireWebhookUrl(text: string, allowPrivate: boolean): string {
  const form = `${allowPrivate ? 'an http:// or https://' : 'an https://'} URL of ${atMost('webhookUrl')}, without credentials and fragment`;
  if (isTooLong('webhookUrl', text) || !URL.canParse(text)) throw badInput('url', text, form);
  const url = new URL(text);
  // A person who tries one on their own machine is told what that needs.
  if (!allowPrivate && url.protocol === 'http:' && isPrivateName(url.hostname)) throw privateTarget(text);
  const hasScheme = url.protocol === 'https:' || (allowPrivate && url.protocol === 'http:');
  if (!hasScheme || url.username + url.password + url.hash !== '' || isTooLong('webhookUrl', url.href))
    throw badInput('url', text, form);
  if (!allowPrivate && isPrivateName(url.hostname)) throw privateTarget(text);
  return url.href;
}

export function privateTarget(url: string): AppError {
  return badInput(
    'url',
    url,
    'the URL of a public host; private, loopback and link-local addresses need WEBHOOKS_ALLOW_PRIVATE=on',
  );
}

const PRIVATE_NAME = /(^|\.)(localhost|local|internal|home\.arpa)\.?$/;

/** True if a host name stands for a machine that is not public, as far as the name tells. */
export function isPrivateName(hostname: string): boolean {
  const address = hostname.replace(/^\[(.*)\]$/, '$1');
  return ipaddr.isValid(address) ? !isPublicAddress(address) : PRIVATE_NAME.test(hostname.toLowerCase());
}

/** True on the public internet: not private, loopback, link-local (as metadata services are), multicast or reserved. */
export function isPublicAddress(address: string): boolean {
  // ipaddr takes an IPv4-compatible address (::8.8.8.8) for one that maps IPv4.
  if (!ipaddr.isValid(address) || /^::\d+\./.test(address)) return false;
  // `process` reads the IPv4 address out of an IPv6 one that maps it.
  const parsed = ipaddr.process(address);
  if (parsed.range() !== 'unicast') return false;
  return parsed.kind() === 'ipv4' || (parsed.match(GLOBAL_UNICAST) && !RESERVED.some((range) => parsed.match(range)));
}

/** The IPv6 addresses that are given out, and the parts of them for protocols and for documentation. */
const GLOBAL_UNICAST = ipaddr.parseCIDR('2000::/3');
const RESERVED = ['2001::/23', '3fff::/20'].map((range) => ipaddr.parseCIDR(range));

export function requireWebhookDescription(text: string): string {
  const trimmed = isTooLong('webhookDescription', text) ? null : text.trim();
  if (trimmed !== null && !/[\p{Cc}\p{Cs}]/u.test(trimmed)) return trimmed;
  throw badInput('description', text, `text of ${atMost('webhookDescription')} on one line`);
}

/** Types without doubles, in the order of all types; all of them are kept as none. */
export function normalizeTypes(types: readonly ChangeType[] | null): ChangeType[] {
  const selected = CHANGE_TYPES.filter((type) => types?.includes(type));
  return selected.length === CHANGE_TYPES.length ? [] : selected;
}

/** The first retry comes after so long, each further one after twice the time of the last, up to the most. */
const FIRST_RETRY_MS = 5_000;
const MAX_RETRY_MS = 6 * 3_600_000;
/** An endpoint that has failed for so long is paused. */
export const GIVE_UP_MS = 3 * 86_400_000;
/** Retries come up to a fifth earlier or later, so that endpoints of one host do not come back together. */
const JITTER = 0.2;

/** No retry is ever put off for longer. */
export const LONGEST_RETRY_MS = MAX_RETRY_MS * (1 + JITTER);

/** The wait after consecutive failures. The endpoint may ask for more (Retry-After), within the same bound. `random` is from 0 to 1. */
export function retryDelayMs(failures: number, retryAfterMs: number | null, random: number): number {
  const backoff = Math.min(FIRST_RETRY_MS * 2 ** Math.min(failures - 1, 30), MAX_RETRY_MS);
  const jittered = backoff * (1 - JITTER + 2 * JITTER * random);
  return Math.round(Math.max(jittered, Math.min(retryAfterMs ?? 0, MAX_RETRY_MS)));
}

/** The time that a Retry-After header asks for; null if it has none that can be read. */
export function parseRetryAfter(header: string | undefined, now: Date): number | null {
  if (header === undefined || header.length > INPUT_LIMITS.date.max) return null;
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1_000;
  const at = header.endsWith(' GMT') ? Date.parse(header) : Number.NaN;
  return Number.isNaN(at) ? null : Math.max(0, at - now.getTime());
}

export interface NewWebhook extends Pick<Webhook, 'id' | 'url'> {
  /** Shown this once. */
  readonly secret: string;
}

export type TestResult = Pick<Attempt, 'ok' | 'status' | 'ms' | 'error'>;
