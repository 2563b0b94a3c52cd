import { changeCursor } from '../domain/changes.js';
import { parse } from '../domain/filters.js';
import type { Attempt, NewWebhook, TestResult, Webhook, WebhookSecret } from '../domain/webhooks.js';
import { instantOrNull, orNull, required, valuesOf, withDefault } from '../graphql/shared.js';
import { APP_ID, builder, changeTypeEnum } from './builder.js';
import { readId } from './operators.js';
import { projectType } from './projects.js';
import { readSeconds } from './secrets.js';

/** A test is a part of a request, which has a time of its own (REQUEST_TIMEOUT_MS). */
const TEST_MS = 5_000;

const statusEnum = builder.enumType('WebhookStatus', {
  description: 'Whether changes are sent to a webhook.',
  values: valuesOf({
    enabled: 'They are, or it waits for a retry.',
    paused: 'They are not: it has failed for days, or its place in the feed is gone.',
    disabled: 'They are not: the endpoint has answered 410 (gone).',
  }),
});

const attemptType = builder.objectRef<Attempt>('WebhookAttempt').implement({
  description: 'An attempt to deliver a change.',
  fields: (t) => ({
    at: t.expose('at', { type: 'DateTime', description: 'When it began.' }),
    messageId: t.exposeString('id', { description: 'The `webhook-id`, which is the cursor of the change.' }),
    type: t.exposeString('type', { description: 'The type of the change.' }),
    ok: t.exposeBoolean('ok', { description: 'Whether it was accepted.' }),
    status: t.exposeInt('status', orNull('The status of the answer; null if there was none.')),
    ms: t.exposeInt('ms', { description: 'How long it took.' }),
    error: t.exposeString('error', orNull('Why it failed.')),
  }),
});

const secretType = builder.objectRef<WebhookSecret>('WebhookSecret').implement({
  description: 'A valid secret of a webhook, without its value.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'Its id.' }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When it was made.' }),
    expiresAt: t.expose('expiresAt', instantOrNull('When it ends; null if it does not.')),
  }),
});

const webhookType = builder.objectRef<Webhook>('Webhook').implement({
  description: 'An endpoint to which the changes of a project are sent.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'Its id.' }),
    url: t.exposeString('url', { description: 'Where changes are sent.' }),
    description: t.exposeString('description', { description: 'A note for people.' }),
    types: t.expose('types', { type: [changeTypeEnum], description: 'Only changes of these types; empty for all.' }),
    status: t.expose('status', { type: statusEnum, description: 'Whether changes are sent to it.' }),
    reason: t.exposeString('reason', orNull('Why they are not.')),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When it was added.' }),
    cursor: t.exposeString('cursor', { description: 'Its place in the feed: everything up to it has been delivered.' }),
    pendingSince: t.expose(
      'pendingSince',
      instantOrNull('Since when the oldest change waits that is not delivered; null where all are.'),
    ),
    failures: t.exposeInt('failures', { description: 'Failed attempts since the last one that was accepted.' }),
    nextAttemptAt: t.expose(
      'nextAttemptAt',
      instantOrNull('When the next attempt is due; null unless it waits for a retry.'),
    ),
    lastDeliveredAt: t.expose('lastDeliveredAt', instantOrNull('When a change was last accepted; null if none was.')),
    attempts: t.expose('attempts', { type: [attemptType], description: 'The last attempts, the newest first.' }),
    secrets: t.expose('secrets', { type: [secretType], description: 'Its valid secrets, the newest first.' }),
  }),
});

builder.objectField(projectType, 'webhooks', (t) =>
  t.field({
    type: [webhookType],
    description: 'Its webhooks, oldest first.',
    resolve: ({ scope }, _args, { services }) => services.webhooks.listWebhooks(scope),
  }),
);

const newWebhookType = builder.objectRef<NewWebhook>('NewWebhookSecret').implement({
  description: 'A webhook with a new secret, which is shown this once.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'The id of the webhook.' }),
    url: t.exposeString('url', { description: 'Where changes are sent.' }),
    secret: t.exposeString('secret', { description: 'The secret, which a receiver needs to verify what is sent.' }),
  }),
});

const testType = builder.objectRef<TestResult>('WebhookTest').implement({
  description: 'How a test message was answered.',
  fields: (t) => ({
    ok: t.exposeBoolean('ok', { description: 'Whether it was accepted.' }),
    status: t.exposeInt('status', orNull('The status of the answer; null if there was none.')),
    ms: t.exposeInt('ms', { description: 'How long it took.' }),
    error: t.exposeString('error', orNull('Why it failed.')),
  }),
});

const idArgument = required('The id of the webhook.');
const afterArgument = changeCursor('after');

builder.mutationFields((t) => ({
  addWebhook: t.field({
    type: newWebhookType,
    description:
      'Adds a webhook that gets the changes from now on. Needs ADMIN. BAD_USER_INPUT; CONFLICT if the project has ten.',
    args: {
      appId: t.arg.id(APP_ID),
      url: t.arg.string(required('Where changes are sent, over https.')),
      types: t.arg({ type: [changeTypeEnum], description: 'Only changes of these types; without it all.' }),
      description: t.arg.string(withDefault('', 'A note for people.')),
    },
    resolve: async (_root, { appId, url, types, description }, { services, scopeOf, requestId }) =>
      services.webhooks.addWebhook(await scopeOf(appId), { url, types: types ?? null, description }, requestId),
  }),
  rotateWebhookSecret: t.field({
    type: newWebhookType,
    description: 'Replaces the secret of a webhook by a new one. Needs ADMIN. NOT_FOUND; CONFLICT.',
    args: {
      appId: t.arg.id(APP_ID),
      id: t.arg.id(idArgument),
      overlapSeconds: t.arg.int(withDefault(0, 'How long the old secret signs too; 0 ends it at once.')),
    },
    resolve: async (_root, { appId, id, overlapSeconds }, { services, scopeOf, requestId }) => {
      const scope = await scopeOf(appId);
      scope.projectIdFor('operate');
      const overlapMs = readSeconds('overlapSeconds', overlapSeconds, 0);
      return services.webhooks.rotateSecret(scope, { id: readId('id', id), overlapMs }, requestId);
    },
  }),
  testWebhook: t.field({
    type: testType,
    description: `Sends one signed test message, and waits for its answer for up to ${TEST_MS / 1_000} s. Needs ADMIN. NOT_FOUND.`,
    args: { appId: t.arg.id(APP_ID), id: t.arg.id(idArgument) },
    resolve: async (_root, { appId, id }, { services, scopeOf, requestId }) =>
      services.webhooks.testWebhook(await scopeOf(appId), { id: readId('id', id), timeoutMs: TEST_MS }, requestId),
  }),
  replayWebhook: t.field({
    type: webhookType,
    description:
      'Sends again what comes after a cursor, and enables the webhook. Needs ADMIN. NOT_FOUND; CURSOR_EXPIRED.',
    args: {
      appId: t.arg.id(APP_ID),
      id: t.arg.id(idArgument),
      after: t.arg.string({
        required: true,
        description: 'A cursor of the feed, or `now`, which skips what is waiting.',
      }),
    },
    resolve: async (_root, { appId, id, after }, { services, scopeOf, requestId }) => {
      const scope = await scopeOf(appId);
      scope.projectIdFor('operate');
      const webhook = readId('id', id);
      await services.webhooks.replayWebhook(scope, { id: webhook, after: parse(afterArgument, after) }, requestId);
      return services.webhooks.getWebhook(scope, webhook);
    },
  }),
  enableWebhook: t.field({
    type: webhookType,
    description: 'Goes on with a webhook that is paused, disabled or waits for its retry. Needs ADMIN. NOT_FOUND.',
    args: { appId: t.arg.id(APP_ID), id: t.arg.id(idArgument) },
    resolve: async (_root, { appId, id }, { services, scopeOf, requestId }) => {
      const scope = await scopeOf(appId);
      await services.webhooks.enableWebhook(scope, readId('id', id), requestId);
      return services.webhooks.getWebhook(scope, readId('id', id));
    },
  }),
  removeWebhook: t.boolean({
    description: 'Removes a webhook. Needs ADMIN. NOT_FOUND.',
    args: { appId: t.arg.id(APP_ID), id: t.arg.id(idArgument) },
    resolve: async (_root, { appId, id }, { services, scopeOf, requestId }) => {
      await services.webhooks.removeWebhook(await scopeOf(appId), readId('id', id), requestId);
      return true;
    },
  }),
}));
