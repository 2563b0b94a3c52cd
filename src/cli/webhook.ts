import { Argument, type Command } from 'commander';
import { type ChangeType, changeCursor, changeId, changeTypes, encodeChangeCursor } from '../domain/changes.js';
import { parse } from '../domain/parse.js';
import { listSamples, type TestResult, type Webhook } from '../domain/webhooks.js';
import { COMMAND } from '../errors.js';
import type { ReplayStart } from '../feed/webhooks.js';
import {
  jsonOption,
  numberArgument,
  option,
  overlapOption,
  projectOption,
  required,
  requireOneOf,
} from './arguments.js';
import type { OperationContext } from './operation.js';
import type { CommandContext } from './run.js';
import { confirmNoOverlap, fields, listTable, tellState } from './terminal.js';

const KEEP_SECRET = 'The secret is shown only once. The receiver needs it to verify what is sent.';
const afterOption = changeCursor('--after');
const fromOption = changeId('--from');
const messageArgument = changeId('MESSAGE_ID');
const typesOption = changeTypes('--types');
const ALL = 'all';

interface OneWebhook {
  readonly project: string;
  readonly id: number;
}

const ofOne = (id: number, { project }: OneWebhook): OneWebhook => ({ project, id });

export function addWebhookCommands(program: Command, { define }: CommandContext): void {
  const webhooks = program
    .command('webhook')
    .description('send the changes of a project to URLs, signed, in order and none skipped');
  const takes = [projectOption(), jsonOption()];
  const takesOne = [...takes, numberArgument('<WEBHOOK_ID>', 'the ID of the webhook, as `webhook list` shows it')];
  define(webhooks, {
    name: 'webhook add',
    description: 'add a webhook that gets the changes from now on, and show its secret, only once',
    examples: [
      'webhook add --project app_1 --url https://example.com/hooks',
      'webhook add --project app_1 --url https://example.com/hooks --types user.created,user.removed --description CRM',
    ],
    takes: [
      ...takes,
      required('--url <URL>', 'where the changes are sent, by POST'),
      option('--types <TYPES>', 'only changes of these types, separated by commas'),
      option('--description <TEXT>', 'a note for people').default(''),
    ],
    params: ({ project, url, types = null, description }) => ({ project, url, types, description }),
    run: addWebhook,
    print: (made) => `${credentials(made)}\n\n${KEEP_SECRET}`,
  });
  define(webhooks, {
    name: 'webhook list',
    description: 'list the webhooks of a project and how they are doing',
    examples: ['webhook list --project app_1'],
    takes,
    run: async ({ services, operator }, { project }: { project: string }) => {
      const scope = await services.projects.getScope(project, operator);
      return (await services.webhooks.listWebhooks(scope)).map(webhookJson);
    },
    print: (hooks) =>
      listTable(hooks, {
        head: ['ID', 'URL', 'Description', 'Types', 'State', 'Waiting since', 'Last delivery', 'Last attempt'],
        cells: ({ attempts: [last], ...webhook }) => [
          webhook.id,
          webhook.url,
          webhook.description,
          webhook.types.length === 0 ? 'all' : webhook.types.join(', '),
          webhook.reason === null ? stateOf(webhook) : `${webhook.status}: ${webhook.reason}`,
          webhook.pending_since ?? '',
          webhook.last_delivered_at ?? 'never',
          last === undefined ? '' : (last.error ?? `answered ${last.status}`),
        ],
        none: `The project has no webhook. Add one: ${COMMAND} webhook add --project APP_ID --url URL`,
      }),
  });
  define(webhooks, {
    name: 'webhook remove',
    description: 'remove a webhook',
    examples: ['webhook remove --project app_1 7'],
    takes: takesOne,
    params: ofOne,
    run: async ({ services, operator }, { project, id }) => {
      await services.webhooks.removeWebhook(await services.projects.getScope(project, operator), id);
      return { id };
    },
    print: ({ id }) => `The webhook ${id} is removed.`,
  });
  define(webhooks, {
    name: 'webhook attempts',
    description: 'list what was sent to a webhook and how it ended, the newest first',
    examples: ['webhook attempts --project app_1 7'],
    takes: takesOne,
    params: ofOne,
    run: async ({ services, operator }, { project, id }) =>
      services.webhooks.listAttempts(await services.projects.getScope(project, operator), id),
    print: (attempts) =>
      listTable(attempts, {
        head: ['At', 'Outcome', 'Took', 'Message', 'Sent'],
        cells: ({ at, ok, status, error, ms, id, body, resent }) => [
          at,
          `${ok ? `accepted ${status}` : error}${resent ? ', sent again by hand' : ''}`,
          `${ms} ms`,
          id,
          body ?? 'no longer kept',
        ],
        none: 'Nothing has been sent yet.',
      }),
  });
  define(webhooks, {
    name: 'webhook update',
    description: 'change the URL, the types or the description of a webhook; its place and its secret stay',
    examples: [
      'webhook update --project app_1 7 --url https://example.com/new',
      'webhook update --project app_1 7 --types all',
    ],
    takes: [
      ...takesOne,
      option('--url <URL>', 'where the changes are sent, by POST'),
      option('--types <TYPES>', 'only changes of these types, separated by commas, or all'),
      option('--description <TEXT>', 'a note for people'),
    ],
    params: (id: number, { project, url, types, description }, command: Command) => ({
      ...{ project, id },
      ...requireOneOf(command, { url, types, description }),
    }),
    run: updateWebhook,
    print: ({ id }) => `The webhook ${id} is changed, and goes on where it was.`,
  });
  define(webhooks, {
    name: 'webhook samples',
    description: 'show an example of what is sent, for each type of change',
    examples: ['webhook samples'],
    // Unused: the same as of the other commands of webhooks.
    takes: [option('--project <APP_ID>', 'any App ID: the examples are the same for every project'), jsonOption()],
    run: async () => listSamples(),
    print: (samples) =>
      listTable(samples, {
        head: ['Type', 'Meaning', 'Body'],
        cells: ({ type, meaning, body }) => [type, meaning, body],
        none: '',
      }),
  });
  define(webhooks, {
    name: 'webhook test',
    description: 'send one signed test message now',
    examples: ['webhook test --project app_1 7'],
    takes: takesOne,
    params: ofOne,
    run: async ({ services, operator }, { project, id }) =>
      services.webhooks.testWebhook(await services.projects.getScope(project, operator), { id }),
    print: outcomeOf,
    isFailure: ({ ok }) => !ok,
  });
  define(webhooks, {
    name: 'webhook resend',
    description: 'send one change again now, signed anew; the place of the webhook stays where it is',
    examples: ['webhook resend --project app_1 7 MESSAGE_ID'],
    takes: [...takesOne, new Argument('<MESSAGE_ID>', 'the ID of the change, as `webhook attempts` shows it')],
    params: (id: number, message: string, { project }: { project: string }) => ({ project, id, message }),
    run: async ({ services, operator }, { project, id, message: given }: OneWebhook & { message: string }) => {
      const message = encodeChangeCursor(parse(messageArgument, given));
      return services.webhooks.resendMessage(await services.projects.getScope(project, operator), { id, message });
    },
    print: outcomeOf,
    isFailure: ({ ok }) => !ok,
  });
  define(webhooks, {
    name: 'webhook replay',
    description: 'send again what comes after a cursor, or from a change on, and resume the webhook',
    examples: ['webhook replay --project app_1 7 --after now', 'webhook replay --project app_1 7 --from MESSAGE_ID'],
    takes: [
      ...takesOne,
      option('--after <CURSOR>', 'the ID of a change, the cursor of an export, or now, which skips what is waiting'),
      option('--from <MESSAGE_ID>', 'the ID of a change, which is sent too').conflicts('after'),
    ],
    params: (id: number, { project, after, from }) => ({ project, id, after, from }),
    run: replayWebhook,
    print: ({ id, ...start }) =>
      `The webhook ${id} goes on ${'from' in start ? `from ${start.from}` : `after ${start.after}`}.`,
  });
  define(webhooks, {
    name: 'webhook pause',
    description: 'send nothing to a webhook until it is resumed; its place is kept',
    examples: ['webhook pause --project app_1 7'],
    takes: takesOne,
    params: ofOne,
    run: async ({ services, operator }, { project, id }) => {
      const scope = await services.projects.getScope(project, operator);
      return { id, changed: await services.webhooks.pauseWebhook(scope, id) };
    },
    print: (webhook) => tellState(webhook, `The webhook ${webhook.id} is paused.`),
  });
  define(webhooks, {
    name: 'webhook resume',
    description: 'go on with a webhook that is paused, disabled or waits for its retry',
    examples: ['webhook resume --project app_1 7'],
    takes: takesOne,
    params: ofOne,
    run: async ({ services, operator }, { project, id }) => {
      await services.webhooks.resumeWebhook(await services.projects.getScope(project, operator), id);
      return { id };
    },
    print: ({ id }) => `The webhook ${id} goes on where it was.`,
  });
  define(webhooks, {
    name: 'webhook rotate',
    description: 'replace the secret of a webhook by a new one',
    examples: ['webhook rotate --project app_1 7 --overlap 24h'],
    takes: [
      ...takesOne,
      overlapOption('how long the old secret signs too, such as 24h', 'it ends immediately'),
      option('--yes', 'do not ask before the old secret ends immediately'),
    ],
    params: (id: number, { project, overlap }) => ({ project, id, overlapMs: overlap }),
    before: (id: number, _options, command: Command) =>
      confirmNoOverlap(
        command,
        `A receiver that knows only the old secret of the webhook ${id} refuses what is sent from now on. --overlap 24h lets both sign meanwhile. Rotate?`,
      ),
    run: async ({ services, operator }, params: OneWebhook & { overlapMs: number }) => {
      const scope = await services.projects.getScope(params.project, operator);
      const { id, url, secret, previousExpiresAt } = await services.webhooks.rotateSecret(scope, params);
      return { id, url, secret, previous_expires_at: previousExpiresAt };
    },
    print: (made, { overlapMs }) => {
      const old = overlapMs === 0 ? 'no longer signs' : `signs until ${made.previous_expires_at}`;
      return `${credentials(made)}\n\nThe old secret ${old}. ${KEEP_SECRET}`;
    },
  });
}

async function addWebhook(
  { services, operator }: OperationContext,
  params: { project: string; url: string; types: string | null; description: string },
) {
  const types = params.types === null ? null : parse(typesOption, params.types);
  const scope = await services.projects.getScope(params.project, operator);
  return services.webhooks.addWebhook(scope, { ...params, types });
}

/** The types of an option; all of them are none. */
const typesOf = (text: string): readonly ChangeType[] => (text === ALL ? [] : parse(typesOption, text));

async function updateWebhook(
  { services, operator }: OperationContext,
  { project, types, ...given }: OneWebhook & { url?: string; types?: string; description?: string },
) {
  const changes = { ...given, types: types === undefined ? undefined : typesOf(types) };
  await services.webhooks.updateWebhook(await services.projects.getScope(project, operator), changes);
  return { id: given.id };
}

async function replayWebhook(
  { services, operator }: OperationContext,
  { project, id, after, from }: OneWebhook & { after?: string; from?: string },
) {
  const start: ReplayStart =
    from === undefined ? { after: parse(afterOption, after) } : { from: parse(fromOption, from) };
  await services.webhooks.replayWebhook(await services.projects.getScope(project, operator), { id, ...start });
  return from === undefined ? { id, after } : { id, from };
}

const outcomeOf = ({ ok, status, ms, error }: TestResult) =>
  ok ? `Accepted with ${status} after ${ms} ms.` : `Failed after ${ms} ms: ${error}.`;

function webhookJson(webhook: Webhook) {
  return {
    id: webhook.id,
    url: webhook.url,
    description: webhook.description,
    types: webhook.types,
    status: webhook.status,
    reason: webhook.reason,
    created_at: webhook.createdAt,
    cursor: webhook.cursor,
    pending_since: webhook.pendingSince,
    failures: webhook.failures,
    next_attempt_at: webhook.nextAttemptAt,
    last_delivered_at: webhook.lastDeliveredAt,
    attempts: webhook.attempts,
    secrets: webhook.secrets.map(({ id, createdAt, expiresAt }) => ({
      id,
      created_at: createdAt,
      expires_at: expiresAt,
    })),
  };
}

function credentials({ id, url, secret }: Awaited<ReturnType<typeof addWebhook>>): string {
  return fields([
    ['ID', String(id)],
    ['URL', url],
    ['Secret', secret],
  ]);
}

function stateOf({
  status,
  failures,
  next_attempt_at: next,
}: Pick<ReturnType<typeof webhookJson>, 'status' | 'failures' | 'next_attempt_at'>): string {
  return failures === 0 ? status : `${failures} failed, next attempt ${next}`;
}
