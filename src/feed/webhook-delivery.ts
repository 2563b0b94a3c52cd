import { randomUUID } from 'node:crypto';
import { createBackground, type OnFailure } from '../db/background.js';
import type { Database } from '../db/database.js';
import { GIVE_UP_MS, retryDelayMs } from '../domain/webhooks.js';
import type { Changes } from './changes.js';
import type { Outcome, WebhookSender } from './webhook-sender.js';
import { pause, REST_FACTOR, type Turn, type TurnLimits, takeTurn } from './webhook-turn.js';
import * as sql from './webhooks.sql.js';

export interface DeliveryLimits extends TurnLimits {
  /** Exchanges in flight in this process: in all, of one project, and of endpoints that have failed. */
  readonly maxInFlight: number;
  readonly maxPerProject: number;
  readonly maxFailing: number;
  /** A process waits so long for one that has died; leases are renewed within it. */
  readonly leaseMs: number;
  readonly renewMs: number;
  /** The pause between looks for due retries, and for endpoints of dead processes. */
  readonly pollMs: number;
  /** An exchange may go on so long when the process ends. Another process repeats it later. */
  readonly closeMs: number;
}

const LIMITS: DeliveryLimits = {
  maxInFlight: 256,
  maxPerProject: 4,
  maxFailing: 64,
  changesPerRead: 100,
  turnMs: 1_000,
  leaseMs: 10_000,
  renewMs: 3_000,
  pollMs: 1_000,
  closeMs: 1_000,
  giveUpMs: GIVE_UP_MS,
  retryDelayMs: (failures, retryAfterMs) => retryDelayMs(failures, retryAfterMs, Math.random()),
};

/** A search for work, which looks at all endpoints, rests for at least so long. */
const MIN_REST_MS = 5;

/** The delivery of changes to the endpoints of all projects, in one process. */
export interface WebhookDelivery {
  /** Begins to deliver. To be called once, when a server has opened its database. */
  start(): void;
  /** Counts an attempt that was made beside the delivery. */
  count(outcome: Outcome): void;
  /** Attempts by their outcome, since the start. */
  countOutcomes(): ReadonlyMap<Outcome, number>;
  /** Stops. An exchange may end within a moment; otherwise it is repeated, by another process or after the next start. */
  close(): Promise<void>;
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
): WebhookDelivery {
  const limits: DeliveryLimits = { ...LIMITS, ...options };
  const inBackground = createBackground(onFailure);
  const lease = randomUUID();
  const turns = new Map<string, Turn>();
  const running = new Set<Promise<void>>();
  const closing = new AbortController();
  const outcomes = new Map<Outcome, number>();
  const work = createWorkSignal(limits.pollMs, closing.signal);
  const feed = createFeedListener(db, changes, limits.pollMs, work.announce);
  const context = { db, changes, getSender, limits, lease, closing: closing.signal, count };
  let loops: Promise<unknown> | null = null;

  async function findWork(): Promise<void> {
    while (!closing.signal.aborted) {
      const startedAt = performance.now();
      await inBackground('Looking for webhooks to deliver', claim);
      const tookMs = performance.now() - startedAt;
      await pause(MIN_REST_MS + REST_FACTOR * tookMs, closing.signal);
      await work.wait();
    }
  }

  async function claim(): Promise<void> {
    if (!(await feed.followIfNeeded(closing.signal))) return;
    const room = roomBeside([...turns.values()], limits);
    if (room.max <= 0) return;
    const askedAt = performance.now();
    const claimed = await sql.claimWebhooks(db, { lease, leaseMs: limits.leaseMs, ...room });
    const leasedUntil = askedAt + limits.leaseMs;
    for (const webhook of claimed) {
      // A turn whose lease has ended, and which has not stopped yet, ends by itself.
      if (turns.has(keyOf(webhook))) continue;
      const stop = new AbortController();
      // It was claimed while this process ended: its lease is given back.
      if (closing.signal.aborted) stop.abort();
      startTurn({ webhook, stop, leasedUntil });
    }
  }

  function startTurn(turn: Turn): void {
    const key = keyOf(turn.webhook);
    turns.set(key, turn);
    const ended = inBackground('Delivering webhooks', () => takeTurn(context, turn)).finally(() => {
      turns.delete(key);
      running.delete(ended);
      work.announce();
    });
    running.add(ended);
  }

  function count(outcome: Outcome): void {
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  }

  /** Renews all leases at once. A turn whose lease is lost, or may have ended, stops. */
  async function keepLeases(): Promise<void> {
    while (!closing.signal.aborted) {
      await pause(limits.renewMs, closing.signal);
      await inBackground('Renewing the leases of webhooks', () =>
        renewLeases(db, [...turns.values()], lease, limits.leaseMs),
      );
      for (const turn of turns.values()) {
        if (turn.leasedUntil < performance.now() + limits.renewMs) turn.stop.abort();
      }
    }
  }

  return {
    start() {
      loops ??= Promise.all([findWork(), keepLeases()]);
    },

    count,
    countOutcomes: () => outcomes,

    async close() {
      closing.abort();
      feed.stop();
      work.announce();
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

/** How many endpoints more may be delivered to beside these turns: in all, of each project, and of those that have failed. */
function roomBeside(
  turns: readonly Turn[],
  { maxInFlight, maxPerProject, maxFailing }: DeliveryLimits,
): Omit<sql.ClaimLimits, 'lease' | 'leaseMs'> {
  const held = new Map<number, number>();
  let failing = 0;
  for (const { webhook } of turns) {
    held.set(webhook.projectId, (held.get(webhook.projectId) ?? 0) + 1);
    if (webhook.failures > 0) failing += 1;
  }
  return {
    held,
    maxPerProject,
    max: maxInFlight - turns.length,
    maxFailing: Math.max(0, maxFailing - failing),
  };
}

/** Renews the leases of turns, and stops those whose lease is lost. */
async function renewLeases(db: Database, turns: readonly Turn[], lease: string, leaseMs: number): Promise<void> {
  if (turns.length === 0) return;
  const askedAt = performance.now();
  const webhooks = turns.map(({ webhook }) => webhook);
  const renewed = new Set((await sql.renewLeases(db, webhooks, lease, leaseMs)).map(keyOf));
  for (const turn of turns) {
    if (renewed.has(keyOf(turn.webhook))) turn.leasedUntil = askedAt + leaseMs;
    else turn.stop.abort();
  }
}

/** Says that there may be work. What is announced while nobody waits is not forgotten. */
function createWorkSignal(pollMs: number, closing: AbortSignal) {
  let wake: () => void = () => undefined;
  let isAnnounced = false;
  return {
    /** There is news, or a turn has ended. */
    announce(): void {
      isAnnounced = true;
      wake();
    },

    /** Waits for an announcement, or for the next poll. */
    async wait(): Promise<void> {
      if (!isAnnounced && !closing.aborted) {
        const woken = new Promise<void>((resolve) => {
          wake = resolve;
        });
        const timer = setTimeout(wake, pollMs).unref();
        await woken;
        clearTimeout(timer);
      }
      isAnnounced = false;
    },
  };
}

/** Listens to the feed while there are endpoints. Without any, changes are published at leisure. */
function createFeedListener(db: Database, changes: Pick<Changes, 'listen'>, pollMs: number, onNews: () => void) {
  let stopListening: (() => void) | null = null;
  let checkedAt = 0;

  function stop(): void {
    stopListening?.();
    stopListening = null;
  }

  return {
    stop,

    /** True if there are enabled endpoints, as of the last poll. */
    async followIfNeeded(closing: AbortSignal): Promise<boolean> {
      if (stopListening !== null && performance.now() - checkedAt < pollMs) return true;
      checkedAt = performance.now();
      const isNeeded = await sql.hasEnabledWebhooks(db);
      if (isNeeded && !closing.aborted) stopListening ??= changes.listen(onNews);
      else stop();
      return isNeeded;
    },
  };
}
