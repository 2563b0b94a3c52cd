import { randomUUID } from 'node:crypto';
import type { Database } from '../db/database.js';
import type { ProjectScope } from '../domain/projects.js';
import { type Message, messageOf, noWebhook, type TestResult, testMessage } from '../domain/webhooks.js';
import { AppError, RETRY_SOON } from '../errors.js';
import { recordAction } from '../projects/audit.sql.js';
import type { Changes } from './changes.js';
import type { WebhookDelivery } from './webhook-delivery.js';
import type { Exchange, Target } from './webhook-sender.js';
import * as sql from './webhooks.sql.js';

/** Sends one message to an endpoint because somebody asks for it, beside the delivery of changes. */
export interface MessagesByHand {
  /** Sends a signed test message now, once. NOT_FOUND. */
  testWebhook(scope: ProjectScope, test: WebhookTest, requestId?: string | null): Promise<TestResult>;
  /** Sends one change again, one at a time and one a second. NOT_FOUND; RATE_LIMITED; CONFLICT for a disabled project. */
  resendMessage(
    scope: ProjectScope,
    again: WebhookTest & { readonly message: string },
    requestId?: string | null,
  ): Promise<TestResult>;
}

export interface WebhookTest {
  /** Of the endpoint. */
  readonly id: number;
  /** The limit of the exchange, if it is not that of the delivery. */
  readonly timeoutMs?: number;
}

export function createMessagesByHand(
  db: Database,
  changes: Pick<Changes, 'findChanges'>,
  delivery: Pick<WebhookDelivery, 'count'>,
  allowPrivate: boolean,
): MessagesByHand {
  return {
    async testWebhook(scope, { id, timeoutMs }, requestId = null) {
      const actor = scope.actorFor('operate', requestId);
      const target = await sql.findTarget(db, actor.projectId, id);
      if (target === undefined) throw noWebhook(id);
      await recordAction(db, actor, 'test_webhook', { webhook: id });
      const message = testMessage(`test_${randomUUID()}`, new Date());
      return resultOf(await sendOnce(target, message, { allowPrivate, timeoutMs }));
    },

    async resendMessage(scope, { id, message, timeoutMs }, requestId = null) {
      const actor = scope.actorFor('webhooks', requestId, 'operate');
      const { projectId } = actor;
      const target = await sql.findTarget(db, projectId, id);
      if (target === undefined) throw noWebhook(id);
      if (target.isProjectDisabled) throw new AppError('CONFLICT', 'The project is disabled: nothing is sent.');
      const change = (await changes.findChanges(projectId, [message])).get(message);
      if (change === undefined) throw noMessage();
      await claimResend(db, projectId, id);
      await recordAction(db, actor, 'resend_webhook', { webhook: id, message });
      const at = new Date().toISOString();
      const exchange = await sendOnce(target, messageOf(change), { allowPrivate, timeoutMs });
      delivery.count(exchange.outcome);
      const result = resultOf(exchange);
      const attempt = { ...result, at, id: message, type: change.type, resent: true };
      await sql.endResend(db, projectId, id, attempt);
      return result;
    },
  };
}

const noMessage = () =>
  new AppError('NOT_FOUND', 'The project has no change with this ID, or keeps it no longer.', {
    subject: { names: ['messageId'] },
  });

/** RATE_LIMITED. */
async function claimResend(db: Database, projectId: number, id: number): Promise<void> {
  const { EXCHANGE_MS } = await loadSender();
  if (await sql.claimResend(db, projectId, id, 2 * EXCHANGE_MS)) return;
  throw new AppError('RATE_LIMITED', `The webhook ${id} is sent one message by hand at a time, and one a second.`, {
    headers: RETRY_SOON,
  });
}

interface SendOptions {
  readonly allowPrivate: boolean;
  readonly timeoutMs: number | undefined;
}

/** Sends one message now, over a connection of its own. */
async function sendOnce(target: Target, message: Message, { allowPrivate, timeoutMs }: SendOptions): Promise<Exchange> {
  const { createWebhookSender, EXCHANGE_MS } = await loadSender();
  const once = createWebhookSender({ allowPrivate, exchangeMs: timeoutMs ?? EXCHANGE_MS });
  return once.send(target, message).finally(() => once.close());
}

/** Loaded where something is sent, because the HTTP client takes time and memory. */
const loadSender = () => import('./webhook-sender.js');

function resultOf({ ok, status, ms, error }: Exchange): TestResult {
  return { ok, status, ms, error };
}
