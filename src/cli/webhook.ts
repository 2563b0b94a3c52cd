import { type Command, Option } from 'commander';
import { changeCursor, changeTypes } from '../domain/changes.js';
import { parse } from '../domain/filters.js';
import type { Webhook } from '../domain/webhooks.js';
import { examples, jsonOption, parseDuration, parseWholeNumber, projectOption } from './arguments.js';
import type { OperationContext } from './operation.js';
import { type CommandContext, ReportedFailure } from './run.js';
import { canAsk, confirm, fields, table } from './terminal.js';

const KEEP_SECRET = 'The secret is shown only once. The receiver needs it to verify what is sent.';
const afterOption = changeCursor('--after');
const typesOption = changeTypes('--types');

interface OneWebhook {
  readonly project: string;
  readonly id: number;
}

export function addWebhookCommands(program: Command, { operation }: CommandContext): void {
  const webhooks = program
    .command('webhook')
    .description('send the changes of a project to URLs, signed, in order and none skipped');
  const command = (name: string, description: string, ...lines: string[]) =>
    webhooks
      .command(name)
      .description(description)
      .addHelpText('after', examples(...lines))
      .addOption(projectOption())
      .addOption(jsonOption());
  const commandForOne = (...given: Parameters<typeof command>) =>
    command(...given).argument('<WEBHOOK_ID>', 'the ID of the webhook, as `webhook list` shows it', parseWholeNumber);

  const add = operation('webhook add', addWebhook);
  command(
    'add',
    'add a webhook that gets the changes from now on, and show its secret, only once',
    'webhook add --project app_1 --url https://example.com/hooks',
    'webhook add --project app_1 --url https://example.com/hooks --types user.created,user.removed --description CRM',
  )
    .requiredOption('--url <URL>', 'where the changes are sent, by POST')
    .option('--types <TYPES>', 'only changes of these types, separated by commas')
    .option('--description <TEXT>', 'a note for people', '')
    .action(async ({ project, url, types, description, ...options }) => {
      await add(
        { project, url, types: types ?? null, description },
        { ...options, print: (made) => `${credentials(made)}\n\n${KEEP_SECRET}` },
      );
    });

  const list = operation('webhook list', listWebhooks);
  command('list', 'list the webhooks of a project and how they are doing', 'webhook list --project app_1').action(
    async ({ project, ...options }) => {
      await list({ project }, { ...options, print: webhookTable });
    },
  );

  const remove = operation('webhook remove', removeWebhook);
  commandForOne('remove', 'remove a webhook', 'webhook remove --project app_1 7').action(
    async (id: number, { project, ...options }) => {
      await remove({ project, id }, { ...options, print: () => `The webhook ${id} is removed.` });
    },
  );

  const test = operation('webhook test', testWebhook);
  commandForOne('test', 'send one signed test message now', 'webhook test --project app_1 7').action(
    async (id: number, { project, ...options }) => {
      const { ok } = await test({ project, id }, { ...options, print: testReport });
      if (!ok) throw new ReportedFailure();
    },
  );

  const replay = operation('webhook replay', replayWebhook);
  commandForOne(
    'replay',
    'send again what comes after a cursor, and enable the webhook',
    'webhook replay --project app_1 7 --after now',
  )
    .requiredOption(
      '--after <CURSOR>',
      'the ID of a change, the cursor of an export, or now, which skips what is waiting',
    )
    .action(async (id: number, { project, after, ...options }) => {
      const print = () => `The webhook ${id} is enabled and goes on after ${after}.`;
      await replay({ project, id, after }, { ...options, print });
    });

  const enable = operation('webhook enable', enableWebhook);
  commandForOne(
    'enable',
    'go on with a webhook that is paused, disabled or waits for its retry',
    'webhook enable --project app_1 7',
  ).action(async (id: number, { project, ...options }) => {
    await enable({ project, id }, { ...options, print: () => `The webhook ${id} is enabled.` });
  });

  const rotate = operation('webhook rotate', rotateSecret);
  commandForOne(
    'rotate',
    'replace the secret of a webhook by a new one',
    'webhook rotate --project app_1 7 --overlap 24h',
  )
    .addOption(
      new Option('--overlap <TIME>', 'how long the old secret signs too, such as 24h')
        .argParser(parseDuration)
        .default(0, 'it ends immediately'),
    )
    .option('--yes', 'do not ask before the old secret ends immediately')
    .action(async (id: number, { project, overlap, yes, ...options }, rotation: Command) => {
      if (yes !== true && rotation.getOptionValueSource('overlap') === 'default' && canAsk())
        await confirm(
          `A receiver that knows only the old secret of the webhook ${id} refuses what is sent from now on. --overlap 24h lets both sign meanwhile. Rotate?`,
        );
      const old = (until: string) => (overlap === 0 ? 'no longer signs' : `signs until ${until}`);
      const print = (made: Made & { previous_expires_at: string }) =>
        `${credentials(made)}\n\nThe old secret ${old(made.previous_expires_at)}. ${KEEP_SECRET}`;
      await rotate({ project, id, overlapMs: overlap }, { ...options, print });
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

async function listWebhooks({ services, operator }: OperationContext, { project }: { project: string }) {
  const webhooks = await services.webhooks.listWebhooks(await services.projects.getScope(project, operator));
  return webhooks.map(webhookJson);
}

async function removeWebhook({ services, operator }: OperationContext, { project, id }: OneWebhook) {
  await services.webhooks.removeWebhook(await services.projects.getScope(project, operator), id);
  return { id };
}

async function testWebhook({ services, operator }: OperationContext, { project, id }: OneWebhook) {
  return services.webhooks.testWebhook(await services.projects.getScope(project, operator), { id });
}

async function replayWebhook({ services, operator }: OperationContext, params: OneWebhook & { after: string }) {
  const after = parse(afterOption, params.after);
  await services.webhooks.replayWebhook(await services.projects.getScope(params.project, operator), {
    id: params.id,
    after,
  });
  return { id: params.id, after: params.after };
}

async function enableWebhook({ services, operator }: OperationContext, { project, id }: OneWebhook) {
  await services.webhooks.enableWebhook(await services.projects.getScope(project, operator), id);
  return { id };
}

async function rotateSecret({ services, operator }: OperationContext, params: OneWebhook & { overlapMs: number }) {
  const scope = await services.projects.getScope(params.project, operator);
  const { id, url, secret, previousExpiresAt } = await services.webhooks.rotateSecret(scope, params);
  return { id, url, secret, previous_expires_at: previousExpiresAt };
}

type Made = Awaited<ReturnType<typeof addWebhook>>;
type TestResult = Awaited<ReturnType<typeof testWebhook>>;

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

function credentials({ id, url, secret }: Made): string {
  return fields([
    ['ID', String(id)],
    ['URL', url],
    ['Secret', secret],
  ]);
}

function webhookTable(webhooks: ReturnType<typeof webhookJson>[]): string {
  if (webhooks.length === 0)
    return 'The project has no webhook. Add one: userdir webhook add --project APP_ID --url URL';
  return table(
    ['ID', 'URL', 'Description', 'Types', 'State', 'Waiting since', 'Last delivery', 'Last attempt'],
    webhooks.map(({ attempts: [last], ...webhook }) => [
      webhook.id,
      webhook.url,
      webhook.description,
      webhook.types.length === 0 ? 'all' : webhook.types.join(', '),
      webhook.reason === null ? stateOf(webhook) : `${webhook.status}: ${webhook.reason}`,
      webhook.pending_since ?? '',
      webhook.last_delivered_at ?? 'never',
      last === undefined ? '' : (last.error ?? `answered ${last.status}`),
    ]),
  );
}

function stateOf({
  status,
  failures,
  next_attempt_at: next,
}: Pick<ReturnType<typeof webhookJson>, 'status' | 'failures' | 'next_attempt_at'>): string {
  return failures === 0 ? status : `${failures} failed, next attempt ${next}`;
}

function testReport({ ok, status, ms, error }: TestResult): string {
  return ok ? `Accepted with ${status} after ${ms} ms.` : `Failed after ${ms} ms: ${error}.`;
}
