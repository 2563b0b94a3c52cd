import { randomUUID } from 'node:crypto';
import type { OnFailure } from '../db/background.js';
import type { Database } from '../db/database.js';
import type { Prisma } from '../db/generated/prisma/client.js';
import type { ModelTransaction, Queryable } from '../db/statements.js';
import { type ChangeCursor, type ChangeType, encodeChangeCursor, type Place } from '../domain/changes.js';
import type { AuditAction, ProjectScope } from '../domain/projects.js';
import {
  ATTEMPTS_KEPT,
  ATTEMPTS_LISTED,
  type Backlog,
  formatWebhookSecret,
  MAX_WEBHOOK_SECRETS,
  MAX_WEBHOOKS,
  type Message,
  makeWebhookSecret,
  messageOf,
  type NewWebhook,
  normalizeTypes,
  noWebhook,
  PAUSED,
  privateTarget,
  requireWebhookDescription,
  requireWebhookUrl,
  type SentAttempt,
  type TestResult,
  testMessage,
  type Webhook,
  type WebhookHour,
} from '../domain/webhooks.js';
import { AppError, RETRY_SOON } from '../errors.js';
import { recordAction } from '../projects/audit.sql.js';
import { type ChangeOptions, changeOnce, retryOf } from '../projects/idempotency.js';
import { lockProject } from '../projects/projects.sql.js';
import type { Changes } from './changes.js';
import { createWebhookDelivery } from './webhook-delivery.js';
import type { Exchange, Target, WebhookSender } from './webhook-sender.js';
import * as sql from './webhooks.sql.js';

export type Webhooks = ReturnType<typeof createWebhooks>;

const MAX_TROUBLED_NAMED = 5;
/** The next attempt of an endpoint that is not to wait, whatever the clock of this process says. */
const AT_ONCE = new Date(0);

/** The state of an endpoint that is resumed. */
const RESUMED = { status: 'enabled', reason: null, failures: 0, failingSince: null, nextAttemptAt: AT_ONCE } as const;

/** After a cursor, or from a change on. */
export type ReplayStart = { readonly after: Exclude<Place, null> } | { readonly from: ChangeCursor };

export interface WebhookChanges {
  readonly url?: string | undefined;
  readonly types?: readonly ChangeType[] | undefined;
  readonly description?: string | undefined;
}

interface Edit {
  readonly data: Prisma.WebhookUpdateManyMutationInput;
  readonly action: AuditAction;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly isDone?: Prisma.WebhookWhereInput;
}

type NameInModel<Type> = Type extends `${infer Noun}.${infer Verb}` ? `${Noun}${Capitalize<Verb>}` : never;

/** Names of values in the model have no points. */
function nameInModel(type: ChangeType): NameInModel<ChangeType> {
  return type.replace(/\.(.)/, (_, letter: string) => letter.toUpperCase()) as NameInModel<ChangeType>;
}

/** The endpoints of projects, for operators, and the delivery to them. */
export function createWebhooks(
  db: Database,
  changes: Changes,
  randomBytes: (size: number) => Buffer,
  { allowPrivate, onFailure }: { readonly allowPrivate: boolean; readonly onFailure: OnFailure },
) {
  let sender: Promise<WebhookSender> | null = null;
  /** Loaded where something is sent, because the HTTP client takes time and memory. */
  const loadSender = () => import('./webhook-sender.js');
  function getSender(): Promise<WebhookSender> {
    sender ??= loadSender().then(({ createWebhookSender }) => createWebhookSender({ allowPrivate }));
    return sender;
  }
  const delivery = createWebhookDelivery(db, changes, getSender, onFailure);

  async function list(projectId: number, id: number | null = null): Promise<Webhook[]> {
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

  /** Changes an endpoint, with an audit entry; false, without one, where it is as `isDone` says. A turn under way does not change it back. NOT_FOUND. */
  function edit(
    scope: ProjectScope,
    id: number,
    { data, action, details = {}, isDone }: Edit,
    { requestId = null, key = null }: ChangeOptions,
  ): Promise<boolean> {
    const actor = scope.actorFor('webhooks', requestId, 'operate');
    const where = { projectId: actor.projectId, id };
    return changeOnce(db.change, actor.projectId, retryOf(key, [action, id]), async (tx: ModelTransaction) => {
      const { count } = await tx.webhook.updateMany({
        where: { ...where, ...(isDone && { NOT: isDone }) },
        data: { ...data, edits: { increment: 1 } },
      });
      if (count > 0) await recordAction(tx, actor, action, { webhook: id, ...details });
      else if ((await tx.webhook.count({ where })) === 0) throw noWebhook(id);
      return count > 0;
    });
  }

  /** The newest secret of an endpoint. NOT_FOUND. */
  async function newestSecret(projectId: number, id: number): Promise<NewWebhook> {
    const target = await sql.findTarget(db, projectId, id);
    if (target === undefined) throw noWebhook(id);
    return { id, url: target.url, secret: formatWebhookSecret(Buffer.from(target.secrets[0] as string, 'base64')) };
  }

  /** As far as the text tells. BAD_USER_INPUT. */
  const requireUrl = (text: string) => requireWebhookUrl(text, allowPrivate);
  /** BAD_USER_INPUT. */
  async function requirePublicUrl(text: string): Promise<URL> {
    const url = new URL(requireUrl(text));
    if (!allowPrivate && (await (await loadSender()).leadsToPrivateAddress(url.hostname)))
      throw privateTarget(url.href);
    return url;
  }

  /** Sends one message now, over a connection of its own. */
  async function sendOnce(target: Target, message: Message, timeoutMs: number | undefined): Promise<Exchange> {
    const { createWebhookSender, EXCHANGE_MS } = await loadSender();
    const once = createWebhookSender({ allowPrivate, exchangeMs: timeoutMs ?? EXCHANGE_MS });
    return once.send(target, message).finally(() => once.close());
  }

  async function findWebhook(scope: ProjectScope, id: number): Promise<Webhook | null> {
    const [webhook] = await list(scope.projectIdFor('webhooks', 'inspect'), id);
    return webhook ?? null;
  }

  /** The place at which a replay begins: from a change on is after the one before it. */
  async function findStart(scope: ProjectScope, start: ReplayStart): Promise<{ place: number; timeline: string }> {
    const after = 'from' in start ? { ...start.from, id: start.from.id - 1 } : start.after;
    const { id: place, timeline } = await changes.findPlace(scope, after);
    return { place, timeline };
  }

  return {
    listWebhooks(scope: ProjectScope): Promise<Webhook[]> {
      return list(scope.projectIdFor('webhooks', 'inspect'));
    },

    findWebhook,
    requireUrl,

    /** One endpoint. NOT_FOUND. */
    async getWebhook(scope: ProjectScope, id: number): Promise<Webhook> {
      const webhook = await findWebhook(scope, id);
      if (webhook === null) throw noWebhook(id);
      return webhook;
    },

    /** Adds an endpoint that gets the changes from now on. `types` null: all. BAD_USER_INPUT; CONFLICT if the project has the most. */
    async addWebhook(
      scope: ProjectScope,
      input: { readonly url: string; readonly description: string; readonly types: readonly ChangeType[] | null },
      { requestId = null, key = null }: ChangeOptions = {},
    ): Promise<NewWebhook> {
      const actor = scope.actorFor('webhooks', requestId, 'operate');
      const description = requireWebhookDescription(input.description);
      const { href: url, origin } = await requirePublicUrl(input.url);
      const secret = makeWebhookSecret(randomBytes);
      const types = normalizeTypes(input.types).map(nameInModel);
      const at = await changes.findPlace(scope, 'now');
      const { projectId } = actor;
      const retry = retryOf(key, ['add_webhook', url, description, types]);
      const id = await changeOnce(db.change, projectId, retry, async (tx: ModelTransaction) => {
        await lockProject(tx, projectId);
        if ((await tx.webhook.count({ where: { projectId } })) >= MAX_WEBHOOKS)
          throw new AppError('CONFLICT', `A project can have ${MAX_WEBHOOKS} webhooks, and this one has so many.`);
        const place = { place: at.id, timeline: at.timeline };
        const { id } = await tx.webhook.create({ data: { projectId, url, description, types, ...place } });
        await tx.webhookSecret.create({ data: { projectId, webhookId: id, secret } });
        // Its origin alone: the path may be a secret of the endpoint.
        await recordAction(tx, actor, 'add_webhook', { webhook: id, origin });
        return id;
      });
      return newestSecret(projectId, id);
    },

    /** NOT_FOUND. */
    async removeWebhook(scope: ProjectScope, id: number, { requestId = null, key = null }: ChangeOptions = {}) {
      const actor = scope.actorFor('webhooks', requestId, 'operate');
      const { projectId } = actor;
      await changeOnce(db.change, projectId, retryOf(key, ['remove_webhook', id]), async (tx: ModelTransaction) => {
        const { count } = await tx.webhook.deleteMany({ where: { projectId, id } });
        if (count === 0) throw noWebhook(id);
        await recordAction(tx, actor, 'remove_webhook', { webhook: id });
        return null;
      });
    },

    /** A new secret. The old one signs for `overlapMs`, and older ones until their end (0: all end at once). NOT_FOUND; CONFLICT for too many. */
    async rotateSecret(
      scope: ProjectScope,
      { id, overlapMs }: { readonly id: number; readonly overlapMs: number },
      { requestId = null, key = null }: ChangeOptions = {},
    ): Promise<NewWebhook & { previousExpiresAt: string }> {
      const actor = scope.actorFor('webhooks', requestId, 'operate');
      const { projectId } = actor;
      const secret = makeWebhookSecret(randomBytes);
      const retry = retryOf(key, ['rotate_webhook', id, overlapMs]);
      const rotation = await changeOnce(db.requestTransaction, projectId, retry, async (tx: Queryable) => {
        await lockProject(tx, projectId);
        const rotated = await sql.replaceWebhookSecret(tx, actor, { id, secret, overlapMs, max: MAX_WEBHOOK_SECRETS });
        if (rotated !== undefined) return rotated;
        if ((await sql.findTarget(tx, projectId, id)) === undefined) throw noWebhook(id);
        throw new AppError(
          'CONFLICT',
          `The webhook ${id} has ${MAX_WEBHOOK_SECRETS} valid secrets. Wait until one ends, or rotate without an overlap.`,
        );
      });
      return { ...(await newestSecret(projectId, id)), ...rotation };
    },

    /** Moves the place of an endpoint after the cursor, or before its change, and enables it: sent messages are sent again. NOT_FOUND, CURSOR_EXPIRED. */
    async replayWebhook(
      scope: ProjectScope,
      { id, ...start }: { readonly id: number } & ReplayStart,
      options: ChangeOptions = {},
    ): Promise<void> {
      scope.projectIdFor('operate');
      const { place, timeline } = await findStart(scope, start);
      const details =
        'from' in start
          ? { from: encodeChangeCursor(start.from) }
          : { after: encodeChangeCursor({ timeline, id: place }) };
      const data = { ...RESUMED, place, timeline, moves: { increment: 1 } };
      await edit(scope, id, { data, action: 'replay_webhook', details }, options);
    },

    /** Sends nothing to an endpoint until it is resumed. Its place is kept. NOT_FOUND. */
    async pauseWebhook(scope: ProjectScope, id: number, options: ChangeOptions = {}): Promise<boolean> {
      const reason = PAUSED[scope.permits('operate') ? 'operator' : 'backend'];
      const data = { status: 'paused', reason } as const;
      return edit(scope, id, { data, action: 'pause_webhook', isDone: { status: 'paused' } }, options);
    },

    /** Goes on with an endpoint that is paused or disabled, or does not wait for its retry. NOT_FOUND. */
    async resumeWebhook(scope: ProjectScope, id: number, options: ChangeOptions = {}): Promise<void> {
      // Also one that goes on already: a turn of it may be failing at this moment.
      await edit(scope, id, { data: RESUMED, action: 'resume_webhook' }, options);
    },

    /** Changes the URL, the types (none: all) or the description. Place, state and secrets stay; another URL ends the wait for a retry. BAD_USER_INPUT; NOT_FOUND. */
    async updateWebhook(
      scope: ProjectScope,
      { id, ...edits }: { readonly id: number } & WebhookChanges,
      options: ChangeOptions = {},
    ): Promise<void> {
      scope.projectIdFor('operate');
      const fields = Object.entries(edits).flatMap(([name, value]) => (value === undefined ? [] : [name]));
      if (fields.length === 0) throw new AppError('BAD_USER_INPUT', 'Expected a new url, types or description.');
      const description = edits.description === undefined ? undefined : requireWebhookDescription(edits.description);
      const types = edits.types && normalizeTypes(edits.types).map(nameInModel);
      const url = edits.url === undefined ? undefined : await requirePublicUrl(edits.url);
      const data = {
        ...(description !== undefined && { description }),
        ...(types && { types }),
        ...(url && { url: url.href, failures: 0, failingSince: null, nextAttemptAt: AT_ONCE }),
      };
      const details = { fields, ...(url && { origin: url.origin }) };
      await edit(scope, id, { data, action: 'update_webhook', details }, options);
    },

    /** Attempts at an endpoint with their messages, the newest first. NOT_FOUND. */
    async listAttempts(scope: ProjectScope, id: number): Promise<SentAttempt[]> {
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

    /** Attempts by outcome in each of the last 24 hours, the oldest first. */
    listHours(scope: ProjectScope, id: number): Promise<WebhookHour[]> {
      return sql.listHours(db, scope.projectIdFor('inspect'), id);
    },

    /** NOT_FOUND. */
    async countBacklog(scope: ProjectScope, id: number): Promise<Backlog> {
      const backlog = await sql.countBacklog(db, scope.projectIdFor('inspect'), id);
      if (backlog === undefined) throw noWebhook(id);
      return backlog;
    },

    /** Sends a signed test message now, once, beside the changes. NOT_FOUND. */
    async testWebhook(
      scope: ProjectScope,
      { id, timeoutMs }: { readonly id: number; readonly timeoutMs?: number },
      requestId: string | null = null,
    ): Promise<TestResult> {
      const actor = scope.actorFor('operate', requestId);
      const target = await sql.findTarget(db, actor.projectId, id);
      if (target === undefined) throw noWebhook(id);
      await recordAction(db, actor, 'test_webhook', { webhook: id });
      const message = testMessage(`test_${randomUUID()}`, new Date());
      const { ok, status, ms, error } = await sendOnce(target, message, timeoutMs);
      return { ok, status, ms, error };
    },

    /** Sends one change again, beside the delivery, one at a time and one a second. NOT_FOUND; RATE_LIMITED; CONFLICT for a disabled project. */
    async resendMessage(
      scope: ProjectScope,
      { id, message, timeoutMs }: { readonly id: number; readonly message: string; readonly timeoutMs?: number },
      requestId: string | null = null,
    ): Promise<TestResult> {
      const actor = scope.actorFor('webhooks', requestId, 'operate');
      const { projectId } = actor;
      const target = await sql.findTarget(db, projectId, id);
      if (target === undefined) throw noWebhook(id);
      if (target.isProjectDisabled) throw new AppError('CONFLICT', 'The project is disabled: nothing is sent.');
      const change = (await changes.findChanges(projectId, [message])).get(message);
      if (change === undefined)
        throw new AppError('NOT_FOUND', 'The project has no change with this ID, or keeps it no longer.', {
          subject: { names: ['messageId'] },
        });
      const { EXCHANGE_MS } = await loadSender();
      if (!(await sql.claimResend(db, projectId, id, 2 * EXCHANGE_MS)))
        throw new AppError(
          'RATE_LIMITED',
          `The webhook ${id} is sent one message by hand at a time, and one a second.`,
          { headers: RETRY_SOON },
        );
      await recordAction(db, actor, 'resend_webhook', { webhook: id, message });
      const at = new Date().toISOString();
      const { outcome, ok, status, ms, error } = await sendOnce(target, messageOf(change), timeoutMs);
      delivery.count(outcome);
      await sql.endResend(db, projectId, id, {
        at,
        id: message,
        type: change.type,
        ok,
        status,
        ms,
        error,
        resent: true,
      });
      return { ok, status, ms, error };
    },

    /** Begins to deliver, in a server. */
    start: delivery.start,
    countOutcomes: delivery.countOutcomes,
    findFigures: () => sql.findWebhookFigures(db),
    /** Some endpoints that are paused or disabled, or whose deliveries fail. */
    async findTroubled() {
      const troubled = await db.models(({ webhook }) =>
        webhook.findMany({
          where: { OR: [{ status: { not: 'enabled' } }, { failures: { gt: 0 } }] },
          select: { id: true, status: true, reason: true, failingSince: true, project: { select: { appId: true } } },
          orderBy: [{ projectId: 'asc' }, { id: 'asc' }],
          take: MAX_TROUBLED_NAMED,
        }),
      );
      return troubled.map(({ project, ...webhook }) => ({ appId: project.appId, ...webhook }));
    },

    async close(): Promise<void> {
      await delivery.close();
      await (await sender)?.close();
    },
  };
}
