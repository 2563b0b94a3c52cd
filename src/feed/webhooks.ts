import { randomUUID } from 'node:crypto';
import type { OnFailure } from '../db/background.js';
import type { Database } from '../db/database.js';
import { type ChangeCursor, type ChangeType, encodeChangeCursor, type Place } from '../domain/changes.js';
import type { Actor, ProjectScope } from '../domain/projects.js';
import {
  formatWebhookSecret,
  MAX_WEBHOOK_SECRETS,
  MAX_WEBHOOKS,
  makeWebhookSecret,
  type NewWebhook,
  normalizeTypes,
  privateTarget,
  requireWebhookDescription,
  requireWebhookUrl,
  type TestResult,
  testMessage,
  type Webhook,
} from '../domain/webhooks.js';
import { AppError } from '../errors.js';
import { recordAction } from '../projects/audit.sql.js';
import { lockProject } from '../projects/projects.sql.js';
import type { Changes } from './changes.js';
import { createWebhookDelivery } from './webhook-delivery.js';
import type { WebhookSender } from './webhook-sender.js';
import * as sql from './webhooks.sql.js';

export type Webhooks = ReturnType<typeof createWebhooks>;

const MAX_STOPPED_NAMED = 5;
/** The next attempt of an endpoint that is not to wait, whatever the clock of this process says. */
const AT_ONCE = new Date(0);

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
  const noWebhook = (id: number) => new AppError('NOT_FOUND', `The project has no webhook ${id}.`);

  async function list(projectId: number, id: number | null = null): Promise<Webhook[]> {
    const rows = await sql.listWebhooks(db, projectId, id);
    if (rows.length === 0) return [];
    const cursorOf = await changes.cursorsOfPlaces();
    return rows.map(({ place, nextAttemptAt, ...row }) => ({
      ...row,
      cursor: cursorOf(place),
      nextAttemptAt: row.status === 'enabled' && row.failures > 0 ? nextAttemptAt : null,
    }));
  }

  /** Enables an endpoint, and tries at once; with a place, it goes on from there. NOT_FOUND. */
  async function enable(actor: Actor, id: number, to: ChangeCursor | null = null): Promise<void> {
    const moved = to && { place: to.id, timeline: to.timeline, moves: { increment: 1 } };
    await db.change(async (tx) => {
      const { count } = await tx.webhook.updateMany({
        where: { projectId: actor.projectId, id },
        data: { status: 'enabled', reason: null, failures: 0, failingSince: null, nextAttemptAt: AT_ONCE, ...moved },
      });
      if (count === 0) throw noWebhook(id);
      await recordAction(tx, actor, to === null ? 'enable_webhook' : 'replay_webhook', {
        webhook: id,
        ...(to && { after: encodeChangeCursor(to) }),
      });
    });
  }

  return {
    listWebhooks(scope: ProjectScope): Promise<Webhook[]> {
      return list(scope.projectIdFor('inspect'));
    },

    /** One endpoint. NOT_FOUND. */
    async getWebhook(scope: ProjectScope, id: number): Promise<Webhook> {
      const [webhook] = await list(scope.projectIdFor('inspect'), id);
      if (webhook === undefined) throw noWebhook(id);
      return webhook;
    },

    /** Adds an endpoint that gets the changes from now on. `types` null: all. BAD_USER_INPUT; CONFLICT if the project has the most. */
    async addWebhook(
      scope: ProjectScope,
      given: { readonly url: string; readonly description: string; readonly types: readonly ChangeType[] | null },
      requestId: string | null = null,
    ): Promise<NewWebhook> {
      const actor = scope.actorFor('operate', requestId);
      const url = requireWebhookUrl(given.url, allowPrivate);
      const description = requireWebhookDescription(given.description);
      const { hostname, origin } = new URL(url);
      if (!allowPrivate && (await (await loadSender()).leadsToPrivateAddress(hostname))) throw privateTarget(url);
      const secret = makeWebhookSecret(randomBytes);
      const types = normalizeTypes(given.types).map(nameInModel);
      const at = await changes.findPlace(scope, 'now');
      const { projectId } = actor;
      const id = await db.change(async (tx) => {
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
      return { id, url, secret: formatWebhookSecret(secret) };
    },

    /** NOT_FOUND. */
    async removeWebhook(scope: ProjectScope, id: number, requestId: string | null = null): Promise<void> {
      const actor = scope.actorFor('operate', requestId);
      await db.change(async (tx) => {
        const { count } = await tx.webhook.deleteMany({ where: { projectId: actor.projectId, id } });
        if (count === 0) throw noWebhook(id);
        await recordAction(tx, actor, 'remove_webhook', { webhook: id });
      });
    },

    /**
     * A new secret. The old ones sign beside it until `overlapMs` from now (0: they end at once), or until they were to end. NOT_FOUND;
     * CONFLICT if too many would be valid.
     */
    async rotateSecret(
      scope: ProjectScope,
      { id, overlapMs }: { readonly id: number; readonly overlapMs: number },
      requestId: string | null = null,
    ): Promise<NewWebhook & { previousExpiresAt: string }> {
      const actor = scope.actorFor('operate', requestId);
      const secret = makeWebhookSecret(randomBytes);
      const url = (await sql.findTarget(db, actor.projectId, id))?.url;
      if (url === undefined) throw noWebhook(id);
      const made = await db.transaction('READ COMMITTED', async (tx) => {
        await lockProject(tx, actor.projectId);
        return sql.replaceWebhookSecret(tx, actor, { id, secret, overlapMs, max: MAX_WEBHOOK_SECRETS });
      });
      if (made === undefined)
        throw new AppError(
          'CONFLICT',
          `The webhook ${id} has ${MAX_WEBHOOK_SECRETS} valid secrets. Wait until one ends, or rotate without an overlap.`,
        );
      return { id, url, secret: formatWebhookSecret(secret), ...made };
    },

    /** Moves the place of an endpoint: it is sent what comes after the cursor, again if it was sent before. Enables it. NOT_FOUND, CURSOR_EXPIRED. */
    async replayWebhook(
      scope: ProjectScope,
      { id, after }: { readonly id: number; readonly after: Exclude<Place, null> },
      requestId: string | null = null,
    ): Promise<void> {
      const actor = scope.actorFor('operate', requestId);
      const place = await changes.findPlace(scope, after);
      await enable(actor, id, place);
    },

    /** Goes on with an endpoint that is paused or disabled, or does not wait for its retry. NOT_FOUND. */
    async enableWebhook(scope: ProjectScope, id: number, requestId: string | null = null): Promise<void> {
      await enable(scope.actorFor('operate', requestId), id);
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
      const { createWebhookSender, EXCHANGE_MS } = await loadSender();
      // A sender of its own: what is tested is a new connection.
      const once = createWebhookSender({ allowPrivate, exchangeMs: timeoutMs ?? EXCHANGE_MS });
      const message = testMessage(`test_${randomUUID()}`, new Date());
      const { ok, status, ms, error } = await once.send(target, message).finally(() => once.close());
      return { ok, status, ms, error };
    },

    /** Begins to deliver, in a server. */
    start: delivery.start,
    countOutcomes: delivery.countOutcomes,
    findFigures: () => sql.findWebhookFigures(db),
    /** Some endpoints that are paused or disabled. */
    async findStopped() {
      const found = await db.models(({ webhook }) =>
        webhook.findMany({
          where: { status: { not: 'enabled' } },
          select: { id: true, status: true, reason: true, project: { select: { appId: true } } },
          orderBy: [{ projectId: 'asc' }, { id: 'asc' }],
          take: MAX_STOPPED_NAMED,
        }),
      );
      return found.map(({ project, ...webhook }) => ({ appId: project.appId, ...webhook }));
    },

    async close(): Promise<void> {
      await delivery.close();
      await (await sender)?.close();
    },
  };
}
