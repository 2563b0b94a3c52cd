import { Argument, type Command } from 'commander';
import { api, graphql, inProject, type ResultOf } from '../dashboard/documents.js';
import { noWebhook, type TestResult } from '../domain/webhooks.js';
import { COMMAND } from '../errors.js';
import { numberArgument, option, overlapOption, projectOption, required, requireOneOf } from './arguments.js';
import { namesOfTypes, typeOfName } from './changes.js';
import type { Result } from './door.js';
import type { CommandContext } from './rows.js';
import { confirmNoOverlap, fields, listTable, tellState } from './terminal.js';

const KEEP_SECRET = 'The secret is shown only once. The receiver needs it to verify what is sent.';
const ALL = 'all';

const NEW = api(`fragment NewWebhook on WebhookSecretPayload {
  webhook { id url } secret previous_expires_at: previousExpiresAt
}`);
const SENT = graphql(`fragment Sent on WebhookTest { ok status ms error }`);

const takes = [projectOption()];
const takesOne = [...takes, numberArgument('<WEBHOOK_ID>', 'the ID of the webhook, as `webhook list` shows it')];

export function addWebhookCommands(program: Command, context: CommandContext): void {
  const webhooks = program
    .command('webhook')
    .description('send the changes of a project to URLs, signed, in order and none skipped');
  addChangingCommands(webhooks, context);
  addSendingCommands(webhooks, context);
}

/** Adds the commands of webhooks as they are kept. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a row for each command
function addChangingCommands(webhooks: Command, { row, rows }: CommandContext): void {
  row(webhooks, {
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
    variables: ({ project, url, types, description }) => {
      return { project, url, description, types: namesOfTypes(types) };
    },
    document: inProject(
      api(
        `mutation AddWebhook($url: String!, $types: [ChangeType!], $description: String!) {
          addWebhook(url: $url, types: $types, description: $description) { ...NewWebhook }
        }`,
        [NEW],
      ),
    ),
    pick: ({ webhook, secret }) => ({ ...webhook, secret }),
    print: (added) => `${credentials(added)}\n\n${KEEP_SECRET}`,
  });
  rows(webhooks, {
    name: 'webhook list',
    description: 'list the webhooks of a project and how they are doing',
    examples: ['webhook list --project app_1'],
    takes,
    document: LIST,
    row: webhookJson,
    columns: {
      ID: 'id',
      URL: 'url',
      Description: 'description',
      Types: ({ types }) => types.join(', ') || 'all',
      State: stateOf,
      'Waiting since': 'pending_since',
      'Last delivery': (webhook) => webhook.last_delivered_at ?? 'never',
      'Last attempt': ({ attempts: [last] }) => last?.error ?? (last ? `answered ${last.status}` : ''),
    },
    none: `The project has no webhook. Add one: ${COMMAND} webhook add --project APP_ID --url URL`,
  });
  row(webhooks, {
    name: 'webhook remove',
    description: 'remove a webhook',
    examples: ['webhook remove --project app_1 7'],
    takes: takesOne,
    document: inProject(
      api(`mutation RemoveWebhook($webhookId: ID!) { removeWebhook(id: $webhookId) { removedWebhookId } }`),
    ),
    pick: (_removed, { webhookId }) => ({ id: webhookId }),
    print: ({ id }) => `The webhook ${id} is removed.`,
  });
  row(webhooks, {
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
    variables(webhookId, { project, url, types, description }, command: Command) {
      const changes = requireOneOf(command, { url, types, description });
      return { project, webhookId, ...changes, types: types === ALL ? [] : types && namesOfTypes(types) };
    },
    document: graphql(
      `mutation UpdateWebhook($project: ID!, $webhookId: ID!, $url: String, $types: [ChangeType!], $description: String) {
        updateWebhook(appId: $project, id: $webhookId, url: $url, types: $types, description: $description) { id }
      }`,
    ),
    print: ({ id }) => `The webhook ${id} is changed, and goes on where it was.`,
  });
  row(webhooks, {
    name: 'webhook pause',
    description: 'send nothing to a webhook until it is resumed; its place is kept',
    examples: ['webhook pause --project app_1 7'],
    takes: takesOne,
    document: inProject(api(`mutation PauseWebhook($webhookId: ID!) { pauseWebhook(id: $webhookId) { changed } }`)),
    pick: ({ changed }, { webhookId }) => ({ id: webhookId, changed }),
    print: (webhook) => tellState(webhook, `The webhook ${webhook.id} is paused.`),
  });
  row(webhooks, {
    name: 'webhook resume',
    description: 'go on with a webhook that is paused, disabled or waits for its retry',
    examples: ['webhook resume --project app_1 7'],
    takes: takesOne,
    document: inProject(
      api(`mutation ResumeWebhook($webhookId: ID!) { resumeWebhook(id: $webhookId) { webhook { id } } }`),
    ),
    pick: ({ webhook }) => webhook,
    print: ({ id }) => `The webhook ${id} goes on where it was.`,
  });
  row(webhooks, {
    name: 'webhook rotate',
    description: 'replace the secret of a webhook by a new one',
    examples: ['webhook rotate --project app_1 7 --overlap 24h'],
    takes: [
      ...takesOne,
      overlapOption('how long the old secret signs too, such as 24h', 'it ends immediately'),
      option('--yes', 'do not ask before the old secret ends immediately'),
    ],
    variables: (webhookId, { project, overlap }) => ({ project, webhookId, overlapSeconds: overlap / 1_000 }),
    before: ({ webhookId }, command) =>
      confirmNoOverlap(
        command,
        `A receiver that knows only the old secret of the webhook ${webhookId} refuses what is sent from now on. --overlap 24h lets both sign meanwhile. Rotate?`,
      ),
    document: inProject(
      api(
        `mutation RotateWebhook($webhookId: ID!, $overlapSeconds: Int!) {
          rotateWebhookSecret(id: $webhookId, overlapSeconds: $overlapSeconds) { ...NewWebhook }
        }`,
        [NEW],
      ),
    ),
    pick: ({ webhook, ...made }) => ({ ...webhook, ...made }),
    print: (rotated, { overlapSeconds }) => {
      const old = overlapSeconds === 0 ? 'no longer signs' : `signs until ${rotated.previous_expires_at}`;
      return `${credentials(rotated)}\n\nThe old secret ${old}. ${KEEP_SECRET}`;
    },
  });
}

/** Adds the commands of what is sent to webhooks. */
function addSendingCommands(webhooks: Command, { row }: CommandContext): void {
  row(webhooks, {
    name: 'webhook attempts',
    description: 'list what was sent to a webhook and how it ended, the newest first',
    examples: ['webhook attempts --project app_1 7'],
    takes: takesOne,
    document: graphql(`query ListAttempts($project: ID!, $webhookId: ID!) {
      project(appId: $project) {
        webhook(id: $webhookId) { attempts { at id: messageId type ok status ms error resent body } }
      }
    }`),
    pick(webhook, { webhookId }) {
      if (webhook === null) throw noWebhook(Number(webhookId));
      return webhook.attempts;
    },
    print: (attempts) =>
      listTable(attempts, {
        columns: {
          At: 'at',
          Outcome: (sent) =>
            `${sent.ok ? `accepted ${sent.status}` : sent.error}${sent.resent ? ', sent again by hand' : ''}`,
          Took: ({ ms }) => `${ms} ms`,
          Message: 'id',
          Sent: ({ body }) => body ?? 'no longer kept',
        },
        none: 'Nothing has been sent yet.',
      }),
  });
  row(webhooks, {
    name: 'webhook test',
    description: 'send one signed test message now',
    examples: ['webhook test --project app_1 7'],
    takes: takesOne,
    document: graphql(
      `mutation TestWebhook($project: ID!, $webhookId: ID!) { testWebhook(appId: $project, id: $webhookId) { ...Sent } }`,
      [SENT],
    ),
    print: outcomeOf,
    isFailure: ({ ok }) => !ok,
  });
  row(webhooks, {
    name: 'webhook resend',
    description: 'send one change again now, signed anew; the place of the webhook stays where it is',
    examples: ['webhook resend --project app_1 7 MESSAGE_ID'],
    takes: [...takesOne, new Argument('<MESSAGE_ID>', 'the ID of the change, as `webhook attempts` shows it')],
    document: graphql(
      `mutation ResendMessage($project: ID!, $webhookId: ID!, $messageId: String!) {
        resendWebhookMessage(appId: $project, id: $webhookId, messageId: $messageId) { ...Sent }
      }`,
      [SENT],
    ),
    print: outcomeOf,
    isFailure: ({ ok }) => !ok,
  });
  row(webhooks, {
    name: 'webhook replay',
    description: 'send again what comes after a cursor, or from a change on, and resume the webhook',
    examples: ['webhook replay --project app_1 7 --after now', 'webhook replay --project app_1 7 --from MESSAGE_ID'],
    takes: [
      ...takesOne,
      option('--after <CURSOR>', 'the ID of a change, the cursor of an export, or now, which skips what is waiting'),
      option('--from <MESSAGE_ID>', 'the ID of a change, which is sent too').conflicts('after'),
    ],
    document: graphql(`mutation ReplayWebhook($project: ID!, $webhookId: ID!, $after: String, $from: String) {
      replayWebhook(appId: $project, id: $webhookId, after: $after, from: $from) { id }
    }`),
    pick: (replayed, { after, from }) => ({ ...replayed, after, from }),
    print: ({ id, after, from }) =>
      `The webhook ${id} goes on ${from === undefined ? `after ${after}` : `from ${from}`}.`,
  });
}

const LIST = graphql(`query ListWebhooks($project: ID!) {
  project(appId: $project) {
    webhooks {
      id url description types status reason created_at: createdAt cursor pending_since: pendingSince failures
      next_attempt_at: nextAttemptAt last_delivered_at: lastDeliveredAt
      attempts: lastAttempts { at id: messageId type ok status ms error resent }
      secrets { id created_at: createdAt expires_at: expiresAt }
    }
  }
}`);

type ListedWebhook = Result<ResultOf<typeof LIST>>[number];

const webhookJson = (webhook: ListedWebhook) => ({
  ...webhook,
  types: webhook.types.map(typeOfName),
  status: webhook.status.toLowerCase(),
});

const outcomeOf = ({ ok, status, ms, error }: TestResult) =>
  ok ? `Accepted with ${status} after ${ms} ms.` : `Failed after ${ms} ms: ${error}.`;

function credentials({ id, url, secret }: { readonly id: string; readonly url: string; readonly secret: string }) {
  return fields(Object.entries({ ID: id, URL: url, Secret: secret }));
}

function stateOf({ status, reason, failures, next_attempt_at: next }: ReturnType<typeof webhookJson>): string {
  // The first sentence says why; the others, which --json has too, make the table too wide.
  if (reason !== null) return `${status}: ${reason.split(/(?<=\.) /)[0]}`;
  return failures === 0 ? status : `${failures} failed, next attempt ${next}`;
}
