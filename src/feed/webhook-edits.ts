import type { Database } from '../db/database.js';
import type { Prisma } from '../db/generated/prisma/client.js';
import type { ModelTransaction, Queryable } from '../db/statements.js';
import type { ChangeType } from '../domain/change-types.js';
import { type ChangeCursor, encodeChangeCursor, type Place } from '../domain/changes.js';
import type { Actor, AuditAction, ProjectScope } from '../domain/projects.js';
import {
  formatWebhookSecret,
  MAX_WEBHOOK_SECRETS,
  MAX_WEBHOOKS,
  makeWebhookSecret,
  type NewWebhook,
  normalizeTypes,
  noWebhook,
  PAUSED,
  privateTarget,
  requireWebhookDescription,
  requireWebhookUrl,
} from '../domain/webhooks.js';
import { AppError, afterwards } from '../errors.js';
import { recordAction } from '../projects/audit.sql.js';
import { type ChangeOptions, changeOnce, retryOf } from '../projects/idempotency.js';
import { lockProject } from '../projects/projects.sql.js';
import type { Changes } from './changes.js';
import * as sql from './webhooks.sql.js';

/** Adds, changes and removes the endpoints of a project. Each edit has an entry in the audit trail. */
export interface WebhookEdits {
  /** The URL in its usual form, if it may be that of an endpoint as far as its text tells. BAD_USER_INPUT. */
  requireUrl(text: string): string;
  /** Adds an endpoint that gets the changes from now on. BAD_USER_INPUT; CONFLICT if the project has the most. */
  addWebhook(scope: ProjectScope, input: WebhookInput, options?: ChangeOptions): Promise<NewWebhook>;
  /** Removes an endpoint. NOT_FOUND. */
  removeWebhook(scope: ProjectScope, id: number, options?: ChangeOptions): Promise<void>;
  /** Gives an endpoint a new secret. NOT_FOUND; CONFLICT for too many. */
  rotateSecret(scope: ProjectScope, rotation: SecretRotation, options?: ChangeOptions): Promise<RotatedSecret>;
  /** Moves the place of an endpoint after the cursor, or before its change, and enables it: sent messages are sent again. NOT_FOUND, CURSOR_EXPIRED. */
  replayWebhook(
    scope: ProjectScope,
    replay: { readonly id: number } & ReplayStart,
    options?: ChangeOptions,
  ): Promise<void>;
  /** Sends nothing to an endpoint until it is resumed. Its place is kept. False if it is paused already. NOT_FOUND. */
  pauseWebhook(scope: ProjectScope, id: number, options?: ChangeOptions): Promise<boolean>;
  /** Goes on with an endpoint that is paused or disabled, or does not wait for its retry. True, also for one that goes on: a turn may be failing. NOT_FOUND. */
  resumeWebhook(scope: ProjectScope, id: number, options?: ChangeOptions): Promise<boolean>;
  /** Changes the URL, the types (none: all) or the description. Place, state and secrets stay; another URL ends the wait for a retry. BAD_USER_INPUT; NOT_FOUND. */
  updateWebhook(
    scope: ProjectScope,
    changes: { readonly id: number } & WebhookChanges,
    options?: ChangeOptions,
  ): Promise<void>;
}

export interface WebhookInput {
  readonly url: string;
  readonly description: string;
  /** Null: all types. */
  readonly types: readonly ChangeType[] | null;
}

export interface SecretRotation {
  readonly id: number;
  /** The old secret signs for so long, and older ones until their end. 0: all of them end at once. */
  readonly overlapMs: number;
}

export interface RotatedSecret extends NewWebhook {
  readonly previousExpiresAt: string;
}

/** After a cursor, or from a change on. */
export type ReplayStart = { readonly after: Exclude<Place, null> } | { readonly from: ChangeCursor };

/** What is changed of an endpoint; an absent field stays. */
export interface WebhookChanges {
  readonly url?: string | undefined;
  readonly types?: readonly ChangeType[] | undefined;
  readonly description?: string | undefined;
}

/** The next attempt of an endpoint that is not to wait, whatever the clock of this process says. */
const AT_ONCE = new Date(0);

/** The state of an endpoint that is resumed. */
const RESUMED = {
  status: 'enabled',
  reason: null,
  failures: 0,
  failingSince: null,
  nextAttemptAt: AT_ONCE,
} as const;

export function createWebhookEdits(
  db: Database,
  changes: Pick<Changes, 'findPlace'>,
  randomBytes: (size: number) => Buffer,
  allowPrivate: boolean,
): WebhookEdits {
  return {
    requireUrl: (text) => requireWebhookUrl(text, allowPrivate),

    async addWebhook(scope, input, { requestId = null, key = null } = {}) {
      const actor = scope.actorFor('webhooks', requestId, 'operate');
      const description = requireWebhookDescription(input.description);
      const url = await requirePublicUrl(input.url, allowPrivate);
      const secret = makeWebhookSecret(randomBytes);
      const types = normalizeTypes(input.types).map(nameInModel);
      const { id: place, timeline } = await changes.findPlace(scope, 'now');
      const retry = retryOf(key, ['add_webhook', url.href, description, types]);
      const id = await changeOnce(db.change, actor.projectId, retry, (tx: ModelTransaction) =>
        insertWebhook(tx, actor, { url, description, types, place, timeline, secret }),
      );
      return afterwards(newestSecret(db, actor.projectId, id));
    },

    async removeWebhook(scope, id, { requestId = null, key = null } = {}) {
      const actor = scope.actorFor('webhooks', requestId, 'operate');
      const { projectId } = actor;
      await changeOnce(db.change, projectId, retryOf(key, ['remove_webhook', id]), async (tx: ModelTransaction) => {
        const { count } = await tx.webhook.deleteMany({ where: { projectId, id } });
        if (count === 0) throw noWebhook(id);
        await recordAction(tx, actor, 'remove_webhook', { webhook: id });
        return null;
      });
    },

    async rotateSecret(scope, { id, overlapMs }, { requestId = null, key = null } = {}) {
      const actor = scope.actorFor('webhooks', requestId, 'operate');
      const { projectId } = actor;
      const secret = makeWebhookSecret(randomBytes);
      const retry = retryOf(key, ['rotate_webhook', id, overlapMs]);
      const rotation = await changeOnce(db.requestTransaction, projectId, retry, (tx: Queryable) =>
        replaceSecret(tx, actor, { id, secret, overlapMs }),
      );
      return { ...(await afterwards(newestSecret(db, projectId, id))), ...rotation };
    },

    async replayWebhook(scope, { id, ...start }, options = {}) {
      scope.projectIdFor('operate');
      const { id: place, timeline } = await changes.findPlace(scope, placeBefore(start));
      const details =
        'from' in start
          ? { from: encodeChangeCursor(start.from) }
          : { after: encodeChangeCursor({ timeline, id: place }) };
      const data = { ...RESUMED, place, timeline, moves: { increment: 1 } };
      await edit(db, scope, id, { data, action: 'replay_webhook', details }, options);
    },

    async pauseWebhook(scope, id, options = {}) {
      const reason = PAUSED[scope.permits('operate') ? 'operator' : 'backend'];
      const data = { status: 'paused', reason } as const;
      return edit(db, scope, id, { data, action: 'pause_webhook', isDone: { status: 'paused' } }, options);
    },

    async resumeWebhook(scope, id, options = {}) {
      // Also one that goes on already: a turn of it may be failing at this moment.
      return edit(db, scope, id, { data: RESUMED, action: 'resume_webhook' }, options);
    },

    async updateWebhook(scope, { id, ...edits }, options = {}) {
      scope.projectIdFor('operate');
      await edit(db, scope, id, await updateOf(edits, allowPrivate), options);
    },
  };
}

/** An endpoint as it is added, with its first secret. */
interface WebhookRow {
  readonly url: URL;
  readonly description: string;
  readonly types: NameInModel<ChangeType>[];
  readonly place: number;
  readonly timeline: string;
  readonly secret: Uint8Array<ArrayBuffer>;
}

/** Adds an endpoint, and returns its id. CONFLICT if the project has the most. */
async function insertWebhook(tx: ModelTransaction, actor: Actor, { url, secret, ...row }: WebhookRow): Promise<number> {
  const { projectId } = actor;
  await lockProject(tx, projectId);
  if ((await tx.webhook.count({ where: { projectId } })) >= MAX_WEBHOOKS)
    throw new AppError('CONFLICT', `A project can have ${MAX_WEBHOOKS} webhooks, and this one has so many.`);
  const { id } = await tx.webhook.create({ data: { projectId, url: url.href, ...row } });
  await tx.webhookSecret.create({ data: { projectId, webhookId: id, secret } });
  // Its origin alone: the path may be a secret of the endpoint.
  await recordAction(tx, actor, 'add_webhook', { webhook: id, origin: url.origin });
  return id;
}

/** Adds a secret, and tells when the one before ends. NOT_FOUND; CONFLICT for too many. */
async function replaceSecret(
  tx: Queryable,
  actor: Actor,
  { id, secret, overlapMs }: SecretRotation & { readonly secret: Uint8Array },
) {
  await lockProject(tx, actor.projectId);
  const rotated = await sql.replaceWebhookSecret(tx, actor, { id, secret, overlapMs, max: MAX_WEBHOOK_SECRETS });
  if (rotated !== undefined) return rotated;
  if ((await sql.findTarget(tx, actor.projectId, id)) === undefined) throw noWebhook(id);
  throw new AppError(
    'CONFLICT',
    `The webhook ${id} has ${MAX_WEBHOOK_SECRETS} valid secrets. Wait until one ends, or rotate without an overlap.`,
  );
}

/** The newest secret of an endpoint. NOT_FOUND. */
async function newestSecret(db: Database, projectId: number, id: number): Promise<NewWebhook> {
  const target = await sql.findTarget(db, projectId, id);
  if (target === undefined) throw noWebhook(id);
  return { id, url: target.url, secret: formatWebhookSecret(Buffer.from(target.secrets[0] as string, 'base64')) };
}

interface Edit {
  readonly data: Prisma.WebhookUpdateManyMutationInput;
  readonly action: AuditAction;
  readonly details?: Readonly<Record<string, unknown>>;
  /** An endpoint that is so needs no edit. */
  readonly isDone?: Prisma.WebhookWhereInput;
}

/** Changes an endpoint, with an audit entry; false, without one, where it is as `isDone` says. A turn under way does not change it back. NOT_FOUND. */
function edit(
  db: Database,
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

/** The edit that makes these changes. BAD_USER_INPUT. */
async function updateOf(edits: WebhookChanges, allowPrivate: boolean): Promise<Edit> {
  const fields = Object.entries(edits).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  if (fields.length === 0) throw new AppError('BAD_USER_INPUT', 'Expected a new url, types or description.');
  const description = edits.description === undefined ? undefined : requireWebhookDescription(edits.description);
  const types = edits.types && normalizeTypes(edits.types).map(nameInModel);
  const url = edits.url === undefined ? undefined : await requirePublicUrl(edits.url, allowPrivate);
  return {
    action: 'update_webhook',
    data: {
      ...(description !== undefined && { description }),
      ...(types && { types }),
      ...(url && { url: url.href, failures: 0, failingSince: null, nextAttemptAt: AT_ONCE }),
    },
    details: { fields, ...(url && { origin: url.origin }) },
  };
}

/** The place after which a replay begins: from a change on is after the one before it. */
function placeBefore(start: ReplayStart): Exclude<Place, null> {
  return 'from' in start ? { ...start.from, id: start.from.id - 1 } : start.after;
}

/** The URL of an endpoint, also by where its name leads now. BAD_USER_INPUT. */
async function requirePublicUrl(text: string, allowPrivate: boolean): Promise<URL> {
  const url = new URL(requireWebhookUrl(text, allowPrivate));
  if (allowPrivate) return url;
  // Loaded here only, because the HTTP client takes time and memory.
  const { leadsToPrivateAddress } = await import('./webhook-sender.js');
  if (await leadsToPrivateAddress(url.hostname)) throw privateTarget(url.href);
  return url;
}

type NameInModel<Type> = Type extends `${infer Noun}.${infer Verb}` ? `${Noun}${Capitalize<Verb>}` : never;

/** Names of values in the model have no points. */
function nameInModel(type: ChangeType): NameInModel<ChangeType> {
  return type.replace(/\.(.)/, (_, letter: string) => letter.toUpperCase()) as NameInModel<ChangeType>;
}
