import { changeId, encodeChangeCursor } from '../domain/changes.js';
import { parse, readAll, readId, readSeconds } from '../domain/parse.js';
import {
  ANSWER_MS,
  ATTEMPTS_LISTED,
  type Attempt,
  MAX_WEBHOOK_SECRETS,
  MAX_WEBHOOKS,
  requireWebhookDescription,
  type Webhook,
} from '../domain/webhooks.js';
import { costs } from '../engine/cost.js';
import { afterwards } from '../errors.js';
import { builder, changeTypeEnum, type GraphQLContext, SURCHARGES } from './builder.js';
import { requireTypes } from './changes.js';
import { ATTEMPT_FIELDS, WEBHOOK_FIELDS } from './fields.js';
import { KEY, readChange, WRITE } from './identities.js';
import { addWebhookStatus, instantOrNull, orNull, required, withDefault } from './shared.js';

const statusEnum = addWebhookStatus(builder);

const attemptType = builder.objectRef<Attempt>('WebhookAttempt').implement({
  description: 'An attempt to deliver a change.',
  fields: (t) => ({
    at: t.expose('at', ATTEMPT_FIELDS.at),
    messageId: t.exposeString('id', ATTEMPT_FIELDS.messageId),
    type: t.exposeString('type', ATTEMPT_FIELDS.type),
    ok: t.exposeBoolean('ok', ATTEMPT_FIELDS.ok),
    status: t.exposeInt('status', ATTEMPT_FIELDS.status),
    error: t.exposeString('error', ATTEMPT_FIELDS.error),
  }),
});

const webhookType = builder.objectRef<Webhook>('Webhook').implement({
  description: 'An endpoint of yours to which the changes of the project are sent.',
  fields: (t) => ({
    id: t.exposeID('id', WEBHOOK_FIELDS.id),
    url: t.exposeString('url', WEBHOOK_FIELDS.url),
    description: t.exposeString('description', WEBHOOK_FIELDS.description),
    types: t.expose('types', { type: [changeTypeEnum], ...WEBHOOK_FIELDS.types }),
    status: t.expose('status', { type: statusEnum, ...WEBHOOK_FIELDS.status }),
    reason: t.exposeString('reason', WEBHOOK_FIELDS.reason),
    createdAt: t.expose('createdAt', WEBHOOK_FIELDS.createdAt),
    cursor: t.exposeString('cursor', WEBHOOK_FIELDS.cursor),
    pendingSince: t.expose('pendingSince', WEBHOOK_FIELDS.pendingSince),
    failures: t.exposeInt('failures', WEBHOOK_FIELDS.failures),
    nextAttemptAt: t.expose('nextAttemptAt', WEBHOOK_FIELDS.nextAttemptAt),
    lastDeliveredAt: t.expose('lastDeliveredAt', WEBHOOK_FIELDS.lastDeliveredAt),
    attempts: t.expose('attempts', {
      type: [attemptType],
      description: `The last ${ATTEMPTS_LISTED} attempts, the newest first.`,
      extensions: costs({ rows: { otherwise: ATTEMPTS_LISTED, atMost: ATTEMPTS_LISTED } }),
    }),
  }),
});

builder.queryField('webhooks', (t) =>
  t.field({
    type: [webhookType],
    description: `The webhooks of the project, at most ${MAX_WEBHOOKS}, oldest first. Needs the scope \`webhooks\`, as all that manages them.`,
    extensions: costs({ surcharge: SURCHARGES.search, rows: { otherwise: MAX_WEBHOOKS, atMost: MAX_WEBHOOKS } }),
    resolve: (_root, _args, { scope, services }) => services.webhooks.listWebhooks(scope),
  }),
);

const payload = builder.objectRef<{ webhook: Webhook; changed: boolean }>('WebhookPayload').implement({
  description: 'The result of a change of a webhook.',
  fields: (t) => ({
    webhook: t.expose('webhook', { type: webhookType, description: 'The webhook after the change.' }),
    changed: t.exposeBoolean('changed', {
      description: 'False for a pause where it was paused before. The answer to a retry says what the first one said.',
    }),
  }),
});

interface Secret {
  readonly webhook: Webhook;
  readonly secret: string;
  readonly previousExpiresAt?: string;
}

const secretPayload = builder.objectRef<Secret>('WebhookSecretPayload').implement({
  description: 'A webhook with a new secret.',
  fields: (t) => ({
    webhook: t.expose('webhook', { type: webhookType, description: 'The webhook.' }),
    secret: t.exposeString('secret', {
      description: 'The secret, by which you verify what is sent: `whsec_…`. No other field shows it.',
    }),
    previousExpiresAt: t.expose(
      'previousExpiresAt',
      instantOrNull('When the secret that it replaces ends; null if it replaces none.'),
    ),
  }),
});

const removePayload = builder.objectRef<{ removedWebhookId: number }>('RemoveWebhookPayload').implement({
  description: 'The result of `removeWebhook`.',
  fields: (t) => ({ removedWebhookId: t.exposeID('removedWebhookId', { description: 'The ID of the webhook.' }) }),
});

const resendPayload = builder.objectRef<Pick<Attempt, 'ok' | 'status' | 'error'>>('ResendWebhookPayload').implement({
  description: 'How your endpoint answered.',
  fields: (t) => ({
    ok: t.exposeBoolean('ok', { description: 'Whether it accepted the message.' }),
    status: t.exposeInt('status', orNull('The status of the answer; null if there was none.')),
    error: t.exposeString('error', orNull('Why it failed.')),
  }),
});

const ID = required('The ID of the webhook.');
const messageArgument = changeId('messageId');

const openAgain = async (id: number, { scope, services }: GraphQLContext) => ({
  webhook: await afterwards(services.webhooks.getWebhook(scope, id)),
});

builder.mutationFields((t) => ({
  addWebhook: t.field({
    type: secretPayload,
    description: `Adds a webhook that gets the changes from now on. Fails with \`CONFLICT\` where the project has ${MAX_WEBHOOKS}.`,
    args: {
      url: t.arg.string(required('Where changes are sent, over https.')),
      types: t.arg({
        type: [changeTypeEnum],
        description: 'Only changes of these types; without it, all. An empty list is refused.',
      }),
      description: t.arg.string(withDefault('', 'A note for people.')),
      idempotencyKey: t.arg.string(KEY),
    },
    extensions: WRITE,
    resolve: async (_root, { types, idempotencyKey, ...input }, context) => {
      const { scope, services, requestId } = context;
      const [selected, , , options] = readChange(
        requestId,
        idempotencyKey,
        () => requireTypes(types),
        () => requireWebhookDescription(input.description),
        () => services.webhooks.requireUrl(input.url),
      );
      const { id, secret } = await services.webhooks.addWebhook(scope, { ...input, types: selected }, options);
      return { ...(await openAgain(id, context)), secret };
    },
  }),
  rotateWebhookSecret: t.field({
    type: secretPayload,
    description: `Replaces the secret of a webhook by a new one. Fails with \`NOT_FOUND\`, and with \`CONFLICT\` where it has ${MAX_WEBHOOK_SECRETS} valid ones.`,
    args: {
      id: t.arg.id(ID),
      overlapSeconds: t.arg.int(withDefault(0, 'How long the old secret signs too; 0 ends it at once.')),
      idempotencyKey: t.arg.string(KEY),
    },
    extensions: WRITE,
    resolve: async (_root, { id, overlapSeconds, idempotencyKey }, context) => {
      const { scope, services, requestId } = context;
      const [webhook, overlapMs, options] = readChange(
        requestId,
        idempotencyKey,
        () => readId('id', id),
        () => readSeconds('overlapSeconds', overlapSeconds, 0),
      );
      const rotated = await services.webhooks.rotateSecret(scope, { id: webhook, overlapMs }, options);
      return { ...rotated, ...(await openAgain(rotated.id, context)) };
    },
  }),
  removeWebhook: t.field({
    type: removePayload,
    description: 'Removes a webhook. Fails with `NOT_FOUND`.',
    args: { id: t.arg.id(ID), idempotencyKey: t.arg.string(KEY) },
    extensions: WRITE,
    resolve: async (_root, { id, idempotencyKey }, { scope, services, requestId }) => {
      const [removedWebhookId, options] = readChange(requestId, idempotencyKey, () => readId('id', id));
      await services.webhooks.removeWebhook(scope, removedWebhookId, options);
      return { removedWebhookId };
    },
  }),
  resendWebhookMessage: t.field({
    type: resendPayload,
    description: `Sends one change again now, signed anew, and waits up to ${ANSWER_MS / 1_000} s for the answer. The place of the webhook stays. It needs no key: receivers know a message by its \`webhook-id\`. Fails with \`NOT_FOUND\`, and with \`RATE_LIMITED\` beyond one a second.`,
    args: { id: t.arg.id(ID), messageId: t.arg.string(required('The `webhook-id`, which is the `id` of the change.')) },
    extensions: WRITE,
    resolve: (_root, { id, messageId }, { scope, services, requestId }) => {
      const [webhook, change] = readAll(
        () => readId('id', id),
        () => parse(messageArgument, messageId),
      );
      const resend = { id: webhook, message: encodeChangeCursor(change), timeoutMs: ANSWER_MS };
      return services.webhooks.resendMessage(scope, resend, requestId);
    },
  }),
}));

const STATES = {
  pauseWebhook: 'Sends nothing to a webhook until it is resumed. Its place is kept.',
  resumeWebhook: 'Goes on with a webhook that is paused, disabled or waits for its retry.',
} as const;

for (const [name, description] of Object.entries(STATES) as [keyof typeof STATES, string][]) {
  builder.mutationField(name, (t) =>
    t.field({
      type: payload,
      description: `${description} Fails with \`NOT_FOUND\`.`,
      args: { id: t.arg.id(ID), idempotencyKey: t.arg.string(KEY) },
      extensions: WRITE,
      resolve: async (_root, { id, idempotencyKey }, context) => {
        const { scope, services, requestId } = context;
        const [webhook, options] = readChange(requestId, idempotencyKey, () => readId('id', id));
        const changed = await services.webhooks[name](scope, webhook, options);
        return { ...(await openAgain(webhook, context)), changed };
      },
    }),
  );
}
