import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createBackground, type OnFailure } from '../db/background.js';
import type { Database } from '../db/database.js';
import { ATTEMPTS_KEPT, GIVE_UP_MS, type Message, messageOf, retryDelayMs } from '../domain/webhooks.js';
import { AppError } from '../errors.js';
import type { Changes } from './changes.js';
import type { Exchange, Outcome, WebhookSender } from './webhook-sender.js';
import * as sql from './webhooks.sql.js';

const LIMITS = {
  /** Exchanges in flight in this process: in all, of one project, and of endpoints that have failed. */
  maxInFlight: 256,
  maxPerProject: 4,
  maxFailing: 64,
  changesPerRead: 100,
  /** A turn ends when there is no more, or with the first message after this time. Then its place is recorded. */
  turnMs: 1_000,
  /** A process waits so long for one that has died; leases are renewed within it. */
  leaseMs: 10_000,
  renewMs: 3_000,
  /** The pause between looks for due retries, and for endpoints of dead processes. */
  pollMs: 1_000,
  /** An exchange may go on so long when the process ends. Another process repeats it later. */
  closeMs: 1_000,
  giveUpMs: GIVE_UP_MS,
  retryDelayMs: (failures: number, retryAfterMs: number | null) => retryDelayMs(failures, retryAfterMs, Math.random()),
};
export type DeliveryLimits = Readonly<typeof LIMITS>;

const PLACE_IS_GONE =
  'What it has not been sent is no longer kept, or the feed began anew with a restore. Replay it from a cursor, or from now.';
/** A search for work, which looks at all endpoints, rests for so long, and for so many times as long as it took. So does one for changes of few types. */
const MIN_REST_MS = 5;
const REST_FACTOR = 4;

const ENABLED = { status: 'enabled', reason: null } as const;

type Outlook = Pick<sql.TurnResult, 'failures' | 'delayMs' | 'status' | 'reason'>;

/** The result of a turn so far. */
interface Progress extends Omit<sql.TurnResult, keyof Outlook> {
  failure: Exchange | null;
}

/** An endpoint that this process delivers to. */
interface Turn {
  readonly webhook: sql.ClaimedWebhook;
  /** Aborts when the lease is lost, or when the process ends. */
  readonly stop: AbortController;
  /** Until when the lease certainly holds, by the clock of this process. */
  leasedUntil: number;
}

/**
 * Delivers changes to endpoints, beside other processes. An endpoint is a place in the feed: a process leases it, sends the changes after its
 * place one by one, and records the new place. When a process dies and its leases end, others go on from the recorded place:
 * a message may come twice, but none is lost.
 */
export function createWebhookDelivery(
  db: Database,
  changes: Pick<Changes, 'readAfter' | 'listen'>,
  getSender: () => Promise<WebhookSender>,
  onFailure: OnFailure,
  options: Partial<DeliveryLimits> = {},
) {
  const limits: DeliveryLimits = { ...LIMITS, ...options };
  const inBackground = createBackground(onFailure);
  const lease = randomUUID();
  const turns = new Map<string, Turn>();
  const running = new Set<Promise<void>>();
  const closing = new AbortController();
  const outcomes = new Map<Outcome, number>();
  let stopListening: (() => void) | null = null;
  let checkedAt = 0;
  let wake: () => void = () => undefined;
  let isWoken = false;
  let loops: Promise<unknown> | null = null;

  const pause = (ms: number) => sleep(ms, undefined, { ref: false, signal: closing.signal }).catch(() => undefined);

  function lookAgain(): void {
    isWoken = true;
    wake();
  }

  /** Waits for news, for the end of a turn or for the next poll. */
  async function untilWoken(): Promise<void> {
    if (!isWoken && !closing.signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const timer = setTimeout(wake, limits.pollMs).unref();
      await woken;
      clearTimeout(timer);
    }
    isWoken = false;
  }

  async function findWork(): Promise<void> {
    while (!closing.signal.aborted) {
      const startedAt = performance.now();
      await inBackground('Looking for webhooks to deliver', claim);
      const tookMs = performance.now() - startedAt;
      await pause(MIN_REST_MS + REST_FACTOR * tookMs);
      await untilWoken();
    }
  }

  async function claim(): Promise<void> {
    if (!(await followFeed())) return;
    const max = limits.maxInFlight - turns.size;
    if (max <= 0) return;
    const held = new Map<number, number>();
    let failing = 0;
    for (const { webhook } of turns.values()) {
      held.set(webhook.projectId, (held.get(webhook.projectId) ?? 0) + 1);
      if (webhook.failures > 0) failing += 1;
    }
    const { leaseMs, maxPerProject, maxFailing } = limits;
    const askedAt = performance.now();
    const claimed = await sql.claimWebhooks(db, {
      lease,
      leaseMs,
      held,
      maxPerProject,
      max,
      maxFailing: Math.max(0, maxFailing - failing),
    });
    const leasedUntil = askedAt + leaseMs;
    for (const webhook of claimed) {
      // A turn whose lease has ended, and which has not stopped yet, ends by itself.
      if (!turns.has(keyOf(webhook))) startTurn({ webhook, stop: new AbortController(), leasedUntil });
    }
  }

  /** Listens to the feed while there are endpoints. Without any, changes are published at leisure. */
  async function followFeed(): Promise<boolean> {
    if (stopListening !== null && performance.now() - checkedAt < limits.pollMs) return true;
    checkedAt = performance.now();
    const isNeeded = await sql.hasEnabledWebhooks(db);
    if (isNeeded && !closing.signal.aborted) stopListening ??= changes.listen(lookAgain);
    else stopFollowing();
    return isNeeded;
  }

  function stopFollowing(): void {
    stopListening?.();
    stopListening = null;
  }

  function startTurn(turn: Turn): void {
    const key = keyOf(turn.webhook);
    turns.set(key, turn);
    const ended = inBackground('Delivering webhooks', () => takeTurn(turn)).finally(() => {
      turns.delete(key);
      running.delete(ended);
      lookAgain();
    });
    running.add(ended);
  }

  async function takeTurn(turn: Turn): Promise<void> {
    const { webhook } = turn;
    const { place, timeline } = webhook;
    const progress: Progress = { place, timeline, attempts: [], accepted: 0, failed: 0, failure: null };
    try {
      await deliver(turn, progress);
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'CURSOR_EXPIRED') throw error;
      return end(turn, progress, { failures: 0, delayMs: 0, status: 'paused', reason: PLACE_IS_GONE });
    }
    const { failure } = progress;
    const delivered = progress.accepted > 0;
    const before = delivered ? 0 : webhook.failures;
    if (failure === null) return end(turn, progress, { failures: before, delayMs: 0, ...ENABLED });
    const failures = before + 1;
    const delayMs = limits.retryDelayMs(failures, failure.retryAfterMs);
    return end(turn, progress, { failures, delayMs, ...stateAfter(failure, delivered ? 0 : webhook.failingMs) });
  }

  /** Sends what comes after the place, until there is no more, an attempt fails or the time of the turn is over. */
  async function deliver({ webhook, stop }: Turn, progress: Progress): Promise<void> {
    const sender = await getSender();
    const { projectId } = webhook;
    const extent = { types: webhook.types.length === 0 ? null : webhook.types, limit: limits.changesPerRead };
    const startedAt = performance.now();
    const isOver = () => closing.signal.aborted || stop.signal.aborted || performance.now() - startedAt > limits.turnMs;
    do {
      const { timeline, place } = progress;
      const askedAt = performance.now();
      const part = await changes.readAfter(projectId, { timeline, id: place }, extent);
      const tookMs = performance.now() - askedAt;
      progress.timeline = part.timeline;
      for (const { change, id } of part.changes) {
        if (!(await attempt(messageOf(change)))) return;
        progress.place = id;
        if (isOver() && id !== part.changes.at(-1)?.id) return;
      }
      progress.place = part.end;
      if (!part.isFull) return;
      // With little to send, nothing else slows down the reads.
      if (part.changes.length < extent.limit) await pause(REST_FACTOR * tookMs);
    } while (!isOver());

    /** Returns whether the message was accepted. One that this process has ended counts neither as delivered nor as failed. */
    async function attempt(message: Message): Promise<boolean> {
      const at = new Date().toISOString();
      const exchange = await sender.send(webhook, message, stop.signal);
      const { outcome, ok, status, ms, error } = exchange;
      count(outcome);
      if (outcome === 'aborted') return false;
      const { id, type } = message;
      const attempt = { at, id, type, ok, status, ms, error, resent: false };
      // A failure, which ends the turn, comes beside as many that were accepted before it.
      progress.attempts = [attempt, ...progress.attempts.slice(0, ok ? ATTEMPTS_KEPT - 1 : ATTEMPTS_KEPT)];
      if (ok) progress.accepted += 1;
      else {
        progress.failed = 1;
        progress.failure = exchange;
      }
      return ok;
    }
  }

  function count(outcome: Outcome): void {
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  }

  function stateAfter(failed: Exchange, failingMs: number): Pick<sql.TurnResult, 'status' | 'reason'> {
    if (failed.isGone) return { status: 'disabled', reason: 'The endpoint answered 410 (gone).' };
    if (failingMs < limits.giveUpMs) return ENABLED;
    const days = Math.round((limits.giveUpMs / 86_400_000) * 10) / 10;
    return { status: 'paused', reason: `Every attempt of ${days} days failed; the last one: ${failed.error}.` };
  }

  function end({ webhook }: Turn, progress: Progress, outlook: Outlook): Promise<void> {
    return sql.endTurn(db, webhook, lease, { ...progress, ...outlook });
  }

  /** Renews all leases at once. A turn whose lease is lost, or may have ended, stops. */
  async function keepLeases(): Promise<void> {
    while (!closing.signal.aborted) {
      await pause(limits.renewMs);
      await inBackground('Renewing the leases of webhooks', renew);
      for (const turn of turns.values()) {
        if (turn.leasedUntil < performance.now() + limits.renewMs) turn.stop.abort();
      }
    }
  }

  async function renew(): Promise<void> {
    const mine = [...turns.values()];
    if (mine.length === 0) return;
    const askedAt = performance.now();
    const webhooks = mine.map(({ webhook }) => webhook);
    const renewed = new Set((await sql.renewLeases(db, webhooks, lease, limits.leaseMs)).map(keyOf));
    for (const turn of mine) {
      if (renewed.has(keyOf(turn.webhook))) turn.leasedUntil = askedAt + limits.leaseMs;
      else turn.stop.abort();
    }
  }

  return {
    /** Begins to deliver. To be called once, when a server has opened its database. */
    start(): void {
      loops ??= Promise.all([findWork(), keepLeases()]);
    },

    /** Counts an attempt that was made beside the delivery. */
    count,

    /** Attempts by their outcome, since the start. */
    countOutcomes: (): ReadonlyMap<Outcome, number> => outcomes,

    /** Stops. An exchange may end within a moment; otherwise it is repeated, by another process or after the next start. */
    async close(): Promise<void> {
      closing.abort();
      stopFollowing();
      wake();
      const timer = setTimeout(() => {
        for (const { stop } of turns.values()) stop.abort();
      }, limits.closeMs);
      await loops;
      await Promise.all(running);
      clearTimeout(timer);
    },
  };
}

const keyOf = ({ projectId, id }: { projectId: number; id: number }) => `${projectId}/${id}`;
