import type { OnFailure } from '../db/background.js';
import type { Database } from '../db/database.js';
import { ATTEMPTS_KEPT } from '../domain/bounds.js';
import type { ProjectScope } from '../domain/projects.js';
import {
  ATTEMPTS_LISTED,
  type Backlog,
  messageOf,
  noWebhook,
  type SentAttempt,
  type Webhook,
  type WebhookHour,
} from '../domain/webhooks.js';
import type { Changes } from './changes.js';
import { createMessagesByHand, type MessagesByHand } from './webhook-by-hand.js';
import { createWebhookDelivery, type WebhookDelivery } from './webhook-delivery.js';
import { createWebhookEdits, type WebhookEdits } from './webhook-edits.js';
import type { WebhookSender } from './webhook-sender.js';
import * as sql from './webhooks.sql.js';

/** The endpoints of projects, and the delivery of changes to them. */
export interface Webhooks extends WebhookReads, WebhookEdits, MessagesByHand {
  /** Begins to deliver, in a server. */
  readonly start: WebhookDelivery['start'];
  readonly countOutcomes: WebhookDelivery['countOutcomes'];
  /** Ends the delivery, and then its connections. */
  close(): Promise<void>;
}

export interface WebhooksOptions {
  /** True if an endpoint may have a private address. */
  readonly allowPrivate: boolean;
  readonly onFailure: OnFailure;
}

export function createWebhooks(
  db: Database,
  changes: Changes,
  randomBytes: (size: number) => Buffer,
  { allowPrivate, onFailure }: WebhooksOptions,
): Webhooks {
  let sender: Promise<WebhookSender> | null = null;
  /** Loaded with the first message, because the HTTP client takes time and memory. */
  function getSender(): Promise<WebhookSender> {
    sender ??= import('./webhook-sender.js').then(({ createWebhookSender }) => createWebhookSender({ allowPrivate }));
    return sender;
  }
  const delivery = createWebhookDelivery(db, changes, getSender, onFailure);

  return {
    ...createWebhookReads(db, changes),
    ...createWebhookEdits(db, changes, randomBytes, allowPrivate),
    ...createMessagesByHand(db, changes, delivery, allowPrivate),
    start: delivery.start,
    countOutcomes: delivery.countOutcomes,
    async close() {
      await delivery.close();
      await (await sender)?.close();
    },
  };
}

/** What can be seen of endpoints. */
export interface WebhookReads {
  /** The endpoints of a project. */
  listWebhooks(scope: ProjectScope): Promise<Webhook[]>;
  /** One endpoint; null if there is none. */
  findWebhook(scope: ProjectScope, id: number): Promise<Webhook | null>;
  /** One endpoint. NOT_FOUND. */
  getWebhook(scope: ProjectScope, id: number): Promise<Webhook>;
  /** Attempts at an endpoint with their messages, the newest first. NOT_FOUND. */
  listAttempts(scope: ProjectScope, id: number): Promise<SentAttempt[]>;
  /** Attempts by outcome in each of the last 24 hours, the oldest first. */
  listHours(scope: ProjectScope, id: number): Promise<WebhookHour[]>;
  /** What an endpoint has not been sent yet. NOT_FOUND. */
  countBacklog(scope: ProjectScope, id: number): Promise<Backlog>;
  /** All endpoints by their state, and for how long the one that is furthest behind has waited. */
  findFigures(): Promise<sql.WebhookFigures>;
  /** Some endpoints that are paused or disabled, or whose deliveries fail. */
  findTroubled(): Promise<TroubledWebhook[]>;
}

export interface TroubledWebhook extends Pick<Webhook, 'id' | 'status' | 'reason'> {
  readonly appId: string;
  readonly failingSince: Date | null;
}

function createWebhookReads(db: Database, changes: Pick<Changes, 'cursorsOfPlaces' | 'findChanges'>): WebhookReads {
  async function findWebhook(scope: ProjectScope, id: number): Promise<Webhook | null> {
    const [webhook] = await listWebhooks(db, changes, scope.projectIdFor('webhooks', 'inspect'), id);
    return webhook ?? null;
  }

  return {
    listWebhooks: (scope) => listWebhooks(db, changes, scope.projectIdFor('webhooks', 'inspect'), null),
    findWebhook,

    async getWebhook(scope, id) {
      const webhook = await findWebhook(scope, id);
      if (webhook === null) throw noWebhook(id);
      return webhook;
    },

    async listAttempts(scope, id) {
      const projectId = scope.projectIdFor('inspect');
      const attempts = await sql.listAttempts(db, projectId, { id, limit: 2 * ATTEMPTS_KEPT });
      if (attempts.length === 0 && (await sql.findTarget(db, projectId, id)) === undefined) throw noWebhook(id);
      const sent = await changes.findChanges(
        projectId,
        attempts.map((attempt) => attempt.id),
      );
      return attempts.map(({ webhookId, ...attempt }) => {
        const change = sent.get(attempt.id);
        return { ...attempt, body: change === undefined ? null : messageOf(change).body };
      });
    },

    listHours: (scope, id) => sql.listHours(db, scope.projectIdFor('inspect'), id),

    async countBacklog(scope, id) {
      const backlog = await sql.countBacklog(db, scope.projectIdFor('inspect'), id);
      if (backlog === undefined) throw noWebhook(id);
      return backlog;
    },

    findFigures: () => sql.findWebhookFigures(db),
    findTroubled: () => findTroubled(db),
  };
}

/** The endpoints of a project, or one of them, with their last attempts. */
async function listWebhooks(
  db: Database,
  changes: Pick<Changes, 'cursorsOfPlaces'>,
  projectId: number,
  id: number | null,
): Promise<Webhook[]> {
  const rows = await sql.listWebhooks(db, projectId, id);
  if (rows.length === 0) return [];
  const [cursorOf, attempts] = await Promise.all([
    changes.cursorsOfPlaces(),
    sql.listAttempts(db, projectId, { id, limit: ATTEMPTS_LISTED }),
  ]);
  return rows.map(({ place, nextAttemptAt, ...row }) => ({
    ...row,
    cursor: cursorOf(place),
    nextAttemptAt: row.status === 'enabled' && row.failures > 0 ? nextAttemptAt : null,
    attempts: attempts.filter(({ webhookId }) => webhookId === row.id).map(({ webhookId, ...attempt }) => attempt),
  }));
}

const MAX_TROUBLED_NAMED = 5;

async function findTroubled(db: Database): Promise<TroubledWebhook[]> {
  const troubled = await db.models(({ webhook }) =>
    webhook.findMany({
      where: { OR: [{ status: { not: 'enabled' } }, { failures: { gt: 0 } }] },
      select: {
        id: true,
        status: true,
        reason: true,
        failingSince: true,
        project: { select: { appId: true } },
      },
      orderBy: [{ projectId: 'asc' }, { id: 'asc' }],
      take: MAX_TROUBLED_NAMED,
    }),
  );
  return troubled.map(({ project, ...webhook }) => ({ appId: project.appId, ...webhook }));
}
