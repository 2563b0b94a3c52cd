import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../db/database.js';
import { ATTEMPTS_KEPT } from '../domain/bounds.js';
import { type Message, messageOf } from '../domain/webhooks.js';
import { AppError } from '../errors.js';
import type { Changes } from './changes.js';
import type { Exchange, Outcome, WebhookSender } from './webhook-sender.js';
import * as sql from './webhooks.sql.js';

/** An endpoint that this process delivers to now. */
export interface Turn {
  readonly webhook: sql.ClaimedWebhook;
  /** Aborts when the lease is lost, or when the process ends. */
  readonly stop: AbortController;
  /** Until when the lease certainly holds, by the clock of this process. */
  leasedUntil: number;
}

export interface TurnLimits {
  readonly changesPerRead: number;
  /** A turn ends when there is no more, or with the first message after this time. Then its place is recorded. */
  readonly turnMs: number;
  /** An endpoint whose attempts have failed for so long is paused. */
  readonly giveUpMs: number;
  /** The wait after so many failures in a row, the last of which may have asked for a time of its own. */
  readonly retryDelayMs: (failures: number, retryAfterMs: number | null) => number;
}

/** What every turn of a process uses. */
export interface TurnContext {
  readonly db: Database;
  readonly changes: Pick<Changes, 'readAfter'>;
  readonly getSender: () => Promise<WebhookSender>;
  readonly limits: TurnLimits;
  /** The lease of this process. */
  readonly lease: string;
  /** Aborts when the process ends: then a turn begins no further message. */
  readonly closing: AbortSignal;
  readonly count: (outcome: Outcome) => void;
}

const PLACE_IS_GONE =
  'What it has not been sent is no longer kept, or the feed began anew with a restore. Replay it from a cursor, or from now.';

const ENABLED = { status: 'enabled', reason: null } as const;

type State = Pick<sql.TurnResult, 'status' | 'reason'>;
type Outlook = State & Pick<sql.TurnResult, 'failures' | 'delayMs'>;

/** The result of a turn so far. */
interface Progress extends Omit<sql.TurnResult, keyof Outlook> {
  failure: Exchange | null;
}

/** Sends the changes after the place of an endpoint, one by one, and records the new place. */
export async function takeTurn(context: TurnContext, turn: Turn): Promise<void> {
  const { place, timeline } = turn.webhook;
  const progress: Progress = { place, timeline, attempts: [], accepted: 0, failed: 0, failure: null };
  let outlook: Outlook;
  try {
    await deliver(context, turn, progress);
    outlook = outlookAfter(turn.webhook, progress, context.limits);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'CURSOR_EXPIRED') throw error;
    outlook = { failures: 0, delayMs: 0, status: 'paused', reason: PLACE_IS_GONE };
  }
  await sql.endTurn(context.db, turn.webhook, context.lease, { ...progress, ...outlook });
}

/** Sends what comes after the place, until there is no more, an attempt fails or the time of the turn is over. */
async function deliver(context: TurnContext, turn: Turn, progress: Progress): Promise<void> {
  const { changes, limits, closing } = context;
  const { webhook, stop } = turn;
  const sender = await context.getSender();
  const extent = { types: webhook.types.length === 0 ? null : webhook.types, limit: limits.changesPerRead };
  const startedAt = performance.now();
  const isOver = () => closing.aborted || stop.signal.aborted || performance.now() - startedAt > limits.turnMs;
  do {
    const { timeline, place } = progress;
    const askedAt = performance.now();
    const part = await changes.readAfter(webhook.projectId, { timeline, id: place }, extent);
    const tookMs = performance.now() - askedAt;
    progress.timeline = part.timeline;
    for (const { change, id } of part.changes) {
      if (!(await attempt(context, sender, turn, messageOf(change), progress))) return;
      progress.place = id;
      if (isOver() && id !== part.changes.at(-1)?.id) return;
    }
    progress.place = part.end;
    if (!part.isFull) return;
    // With little to send, nothing else slows down the reads.
    if (part.changes.length < extent.limit) await pause(REST_FACTOR * tookMs, closing);
  } while (!isOver());
}

/** Returns whether the message was accepted. One that this process has ended counts neither as delivered nor as failed. */
async function attempt(
  { count }: TurnContext,
  sender: WebhookSender,
  { webhook, stop }: Turn,
  message: Message,
  progress: Progress,
): Promise<boolean> {
  const at = new Date().toISOString();
  const exchange = await sender.send(webhook, message, stop.signal);
  const { outcome, ok, status, ms, error } = exchange;
  count(outcome);
  if (outcome === 'aborted') return false;
  const { id, type } = message;
  const made = { at, id, type, ok, status, ms, error, resent: false };
  // A failure, which ends the turn, comes beside as many that were accepted before it.
  progress.attempts = [made, ...progress.attempts.slice(0, ok ? ATTEMPTS_KEPT - 1 : ATTEMPTS_KEPT)];
  if (ok) progress.accepted += 1;
  else {
    progress.failed = 1;
    progress.failure = exchange;
  }
  return ok;
}

/** How it goes on with an endpoint after a turn: at once, later, or no more. */
function outlookAfter(
  webhook: Pick<sql.ClaimedWebhook, 'failures' | 'failingMs'>,
  { accepted, failure }: Progress,
  limits: TurnLimits,
): Outlook {
  const hasDelivered = accepted > 0;
  const before = hasDelivered ? 0 : webhook.failures;
  if (failure === null) return { failures: before, delayMs: 0, ...ENABLED };
  const failures = before + 1;
  const delayMs = limits.retryDelayMs(failures, failure.retryAfterMs);
  return { failures, delayMs, ...stateAfter(failure, hasDelivered ? 0 : webhook.failingMs, limits.giveUpMs) };
}

function stateAfter(failed: Exchange, failingMs: number, giveUpMs: number): State {
  if (failed.isGone) return { status: 'disabled', reason: 'The endpoint answered 410 (gone).' };
  if (failingMs < giveUpMs) return ENABLED;
  const days = Math.round((giveUpMs / 86_400_000) * 10) / 10;
  return { status: 'paused', reason: `Every attempt of ${days} days failed; the last one: ${failed.error}.` };
}

/** A search for work, which looks at all endpoints, rests for so many times as long as it took. So does one for changes of few types. */
export const REST_FACTOR = 4;

/** Waits for so long, or until the process ends. */
export function pause(ms: number, closing: AbortSignal): Promise<void> {
  return sleep(ms, undefined, { ref: false, signal: closing }).catch(() => undefined);
}
