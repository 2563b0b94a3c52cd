import { ATTEMPTS_KEPT } from '../domain/bounds.js';
import { changeCursor, changeId, encodeChangeCursor } from '../domain/changes.js';
import { parse, readId } from '../domain/parse.js';
import type { ProjectScope } from '../domain/projects.js';
import {
  ANSWER_MS,
  ATTEMPTS_LISTED,
  type Backlog,
  listSamples,
  type SentAttempt,
  type TestResult,
  type Webhook,
  type WebhookHour,
  type WebhookSample,
  type WebhookSecret,
} from '../domain/webhooks.js';
import { afterwards, badInput } from '../errors.js';
import { ATTEMPT_FIELDS, WEBHOOK_FIELDS } from '../graphql/fields.js';
import { addWebhookStatus, instantOrNull, orNull, required } from '../graphql/shared.js';
import { APP_ID, builder, changeTypeEnum, type DashboardContext } from './builder.js';
import { projectType } from './projects.js';

const WAITS = `waits for its answer, for a page up to ${ANSWER_MS / 1_000} s`;

/** A command waits as long as a delivery. */
const limitOf = ({ browser }: DashboardContext) => (browser === null ? {} : { timeoutMs: ANSWER_MS });

const statusEnum = addWebhookStatus(builder);

const attemptType = builder.objectRef<SentAttempt>('WebhookAttempt').implement({
  description: 'An attempt to deliver a change.',
  fields: (t) => ({
    at: t.expose('at', ATTEMPT_FIELDS.at),
    messageId: t.exposeString('id', ATTEMPT_FIELDS.messageId),
    type: t.exposeString('type', ATTEMPT_FIELDS.type),
    ok: t.exposeBoolean('ok', ATTEMPT_FIELDS.ok),
    status: t.exposeInt('status', ATTEMPT_FIELDS.status),
    ms: t.exposeInt('ms', { description: 'How long it took.' }),
    error: t.exposeString('error', ATTEMPT_FIELDS.error),
    resent: t.exposeBoolean('resent', { description: 'Whether an operator sent it again by hand.' }),
    body: t.exposeString('body', orNull('The body that was sent; null where the feed no longer has the change.')),
  }),
});

const hourType = builder.objectRef<WebhookHour>('WebhookHour').implement({
  description: 'How the attempts of an hour ended.',
  fields: (t) => ({
    from: t.expose('from', { type: 'DateTime', description: 'When it began.' }),
    accepted: t.exposeInt('accepted', { description: 'Attempts that were accepted.' }),
    failed: t.exposeInt('failed', { description: 'Attempts that failed.' }),
  }),
});

const backlogType = builder.objectRef<Backlog>('WebhookBacklog').implement({
  description: 'The changes that wait for a webhook.',
  fields: (t) => ({
    count: t.exposeInt('count', { description: 'How many, as far as they were counted.' }),
    isMore: t.exposeBoolean('isMore', { description: 'Whether there may be more.' }),
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

/** A webhook, and the right to ask for more of it. */
interface OpenWebhook extends Webhook {
  readonly scope: ProjectScope;
}

const webhookType = builder.objectRef<OpenWebhook>('Webhook').implement({
  description: 'An endpoint to which the changes of a project are sent.',
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
    accepted: t.exposeFloat('accepted', { description: 'Attempts that were accepted since it was added.' }),
    failed: t.exposeFloat('failed', { description: 'Attempts that failed since it was added.' }),
    attempts: t.field({
      type: [attemptType],
      description: `The last ${ATTEMPTS_KEPT} attempts that were accepted and the last ${ATTEMPTS_KEPT} that failed, the newest first.`,
      resolve: ({ scope, id }, _args, { services }) => services.webhooks.listAttempts(scope, id),
    }),
    lastAttempts: t.field({
      type: [attemptType],
      description: `The last ${ATTEMPTS_LISTED} attempts, the newest first, without their bodies.`,
      resolve: ({ attempts }) => attempts.map((attempt) => ({ ...attempt, body: null })),
    }),
    hours: t.field({
      type: [hourType],
      description: 'How attempts ended in each of the last 24 hours, the oldest first.',
      resolve: ({ scope, id }, _args, { services }) => services.webhooks.listHours(scope, id),
    }),
    backlog: t.field({
      type: backlogType,
      description: 'What waits for it.',
      resolve: ({ scope, id }, _args, { services }) => services.webhooks.countBacklog(scope, id),
    }),
    secrets: t.expose('secrets', { type: [secretType], description: 'Its valid secrets, the newest first.' }),
  }),
});

builder.objectFields(projectType, (t) => ({
  webhooks: t.field({
    type: [webhookType],
    description: 'Its webhooks, oldest first.',
    resolve: async ({ scope }, _args, { services }) =>
      (await services.webhooks.listWebhooks(scope)).map((webhook) => ({ ...webhook, scope })),
  }),
  webhook: t.field({
    type: webhookType,
    nullable: true,
    description: 'One of its webhooks; null if there is none.',
    args: { id: t.arg.id(required('The id of the webhook.')) },
    resolve: async ({ scope }, { id }, { services }) => {
      const webhook = await services.webhooks.findWebhook(scope, readId('id', id));
      return webhook && { ...webhook, scope };
    },
  }),
}));

async function openAgain(scope: ProjectScope, id: number, { services }: DashboardContext): Promise<OpenWebhook> {
  return { ...(await afterwards(services.webhooks.getWebhook(scope, id))), scope };
}

const sampleType = builder.objectRef<WebhookSample>('WebhookSample').implement({
  description: 'A type of change, and what a webhook is sent for it.',
  fields: (t) => ({
    type: t.expose('type', { type: changeTypeEnum, description: 'The type.' }),
    meaning: t.exposeString('meaning', { description: 'What it means.' }),
    body: t.exposeString('body', { description: 'An example of a body.' }),
  }),
});

builder.queryField('webhookSamples', (t) =>
  t.field({
    type: [sampleType],
    description: 'An example of what a webhook is sent, for each type of change.',
    resolve: () => listSamples(),
  }),
);

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
const fromArgument = changeId('from');
const messageArgument = changeId('messageId');

builder.mutationFields((t) => ({
  testWebhook: t.field({
    type: testType,
    description: `Sends one signed test message, and ${WAITS}. Needs ADMIN. NOT_FOUND.`,
    args: { appId: t.arg.id(APP_ID), id: t.arg.id(idArgument) },
    resolve: async (_root, { appId, id }, context) => {
      const test = { id: readId('id', id), ...limitOf(context) };
      return context.services.webhooks.testWebhook(await context.scopeOf(appId), test, context.requestId);
    },
  }),
  updateWebhook: t.field({
    type: webhookType,
    description:
      'Changes what is given of a webhook. Its place, its state and its secrets stay. Needs ADMIN. NOT_FOUND; BAD_USER_INPUT.',
    args: {
      appId: t.arg.id(APP_ID),
      id: t.arg.id(idArgument),
      url: t.arg.string({ description: 'Where changes are sent, over https.' }),
      types: t.arg({ type: [changeTypeEnum], description: 'Only changes of these types; empty for all.' }),
      description: t.arg.string({ description: 'A note for people.' }),
    },
    resolve: async (_root, { appId, id, url, types, description }, context) => {
      const scope = await context.scopeOf(appId);
      scope.projectIdFor('operate');
      const webhook = readId('id', id);
      const given = { url: url ?? undefined, types: types ?? undefined, description: description ?? undefined };
      await context.services.webhooks.updateWebhook(scope, { id: webhook, ...given }, context);
      return openAgain(scope, webhook, context);
    },
  }),
  replayWebhook: t.field({
    type: webhookType,
    description:
      'Sends again what comes after a cursor, or from a change on, and resumes the webhook. One of both is given. Needs ADMIN. NOT_FOUND; CURSOR_EXPIRED.',
    args: {
      appId: t.arg.id(APP_ID),
      id: t.arg.id(idArgument),
      after: t.arg.string({ description: 'A cursor of the feed, or `now`, which skips what is waiting.' }),
      from: t.arg.string({ description: 'The id of a change or of a message, which is sent too.' }),
    },
    resolve: async (_root, { appId, id, after, from }, context) => {
      const scope = await context.scopeOf(appId);
      scope.projectIdFor('operate');
      const webhook = readId('id', id);
      if ((after == null) === (from == null)) throw badInput('after', after, 'either `after` or `from`');
      const start = from == null ? { after: parse(afterArgument, after) } : { from: parse(fromArgument, from) };
      await context.services.webhooks.replayWebhook(scope, { id: webhook, ...start }, context);
      return openAgain(scope, webhook, context);
    },
  }),
  resendWebhookMessage: t.field({
    type: testType,
    description: `Sends one change again now, signed anew, and ${WAITS}. The place stays. One at a time and one a second for each webhook. Needs ADMIN. NOT_FOUND; RATE_LIMITED; CONFLICT.`,
    args: {
      appId: t.arg.id(APP_ID),
      id: t.arg.id(idArgument),
      messageId: t.arg.string(required('The `webhook-id`, which is the id of the change.')),
    },
    resolve: async (_root, { appId, id, messageId }, context) => {
      const scope = await context.scopeOf(appId);
      scope.projectIdFor('operate');
      const message = encodeChangeCursor(parse(messageArgument, messageId));
      const again = { id: readId('id', id), message, ...limitOf(context) };
      return context.services.webhooks.resendMessage(scope, again, context.requestId);
    },
  }),
}));
