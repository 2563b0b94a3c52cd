import { type Command, Option } from 'commander';
import type { SecretScope } from '../domain/projects.js';
import { MAIN_LABEL, SECRET_SCOPES } from '../domain/projects.js';
import { examples, jsonOption, parseDuration, parseScopes, parseWholeNumber } from './arguments.js';
import { type OperationContext, readProjects } from './operation.js';
import { addLifecycleCommands, projectJson } from './project-lifecycle.js';
import { addCellCommands } from './project-move.js';
import type { CommandContext } from './run.js';
import { canAsk, confirm, counted, fields, table } from './terminal.js';

const KEEP_SECRET = 'The App Secret is shown only once. Store it where only your backend can read it.';

export function addProjectCommands(program: Command, context: CommandContext): void {
  const project = program
    .command('project')
    .description('create, list, rename, limit, disable and delete projects, and manage their secrets');
  const create = context.operation('project create', createProject);
  project
    .command('create')
    .description('create a project and show its App Secret, only once')
    .addHelpText('after', examples('project create --name "My wallet app"'))
    .requiredOption('--name <NAME>', 'a name for people to read')
    .addOption(jsonOption())
    .action(async ({ name, ...options }) => {
      await create({ name }, { ...options, print: (created) => `${credentials(created)}\n\n${KEEP_SECRET}` });
    });
  const list = context.list('project list', listProjects);
  project
    .command('list')
    .description('list all projects with their exact number of users')
    .addHelpText('after', examples('project list', 'project list --json'))
    .addOption(jsonOption())
    .action(async (options) => {
      await list(
        {},
        {
          ...options,
          head: ['ID', 'Name', 'App ID', 'Created', 'Users', 'State'],
          cells: (project) => [
            project.id,
            project.name,
            project.app_id,
            project.created_at,
            project.total_user,
            stateOf(project),
          ],
          none: 'There is no project yet. Create one: userdir project create --name NAME',
        },
      );
    });
  addLifecycleCommands(project, context);
  addCellCommands(project, context);
  addSecretCommands(project, context);
}

function addSecretCommands(project: Command, { operation }: CommandContext): void {
  const command = (name: string, description: string, ...lines: string[]) =>
    project
      .command(name)
      .description(description)
      .addHelpText('after', examples(...lines))
      .argument('<APP_ID>', 'the App ID of the project')
      .addOption(jsonOption());

  const list = operation('project secrets', listSecrets);
  command('secrets', 'list the secrets of a project, without their values', 'project secrets app_1').action(
    async (appId: string, options) => {
      await list({ appId }, { ...options, print: secretTable });
    },
  );
  const add = operation('project add-secret', addSecret);
  command(
    'add-secret',
    'add an App Secret to a project and show it, only once',
    'project add-secret app_1 --label reports --scope read,verify --expires-in 30d',
  )
    .requiredOption('--label <LABEL>', 'the name of the secret in the audit trail')
    .addOption(
      new Option('--scope <SCOPES>', 'what the secret permits, such as read,verify')
        .argParser(parseScopes)
        .default(SECRET_SCOPES, 'everything'),
    )
    .option('--expires-in <TIME>', 'when the secret expires, such as 30d; without it never', parseDuration)
    .option('--documents-only', 'over GraphQL only documents are executed that `document add` has registered')
    .action(async (appId: string, { label, scope, expiresIn, documentsOnly = false, ...options }) => {
      await add(
        { appId, label, scopes: scope, expiresInMs: expiresIn ?? null, documentsOnly },
        {
          ...options,
          print: (added) =>
            `${credentials(added, ['Scopes', added.scopes.join(', ')], ['Expires', added.expires_at ?? 'never'])}\n\n${KEEP_SECRET}`,
        },
      );
    });
  const revoke = operation('project revoke', revokeSecret);
  command('revoke', 'revoke a secret immediately', 'project revoke app_1 7')
    .argument('<SECRET_ID>', 'the ID of the secret, as `project secrets` shows it', parseWholeNumber)
    .action(async (appId: string, secretId: number, options) => {
      const print = ({ id, label }: { id: number; label: string }) => `The secret ${id} (${label}) is no longer valid.`;
      await revoke({ appId, secretId }, { ...options, print });
    });
  const rotate = operation('project rotate', rotateSecret);
  command(
    'rotate',
    'replace an App Secret of a project by a new one',
    'project rotate app_1',
    'project rotate app_1 --label reports --overlap 24h',
  )
    .option('--label <LABEL>', 'which secret to replace', MAIN_LABEL)
    .addOption(
      new Option('--overlap <TIME>', 'how long the old secret stays valid, such as 24h')
        .argParser(parseDuration)
        .default(0, 'it expires immediately'),
    )
    .option('--documents-only', 'over GraphQL the new secret executes only registered documents; without it as before')
    .option('--no-documents-only', 'the new secret executes any document')
    .option('--yes', 'do not ask before the old secret expires immediately')
    .action(async (appId: string, { label, overlap, documentsOnly = null, yes, ...options }, rotation: Command) => {
      const isAsked = yes !== true && rotation.getOptionValueSource('overlap') === 'default' && canAsk();
      if (isAsked)
        await confirm(
          `The secret ${label} of ${appId} ends at once, and with it every backend that uses it. --overlap 24h lets it live meanwhile. Rotate?`,
        );
      await rotate({ appId, label, overlapMs: overlap, documentsOnly }, { ...options, print: rotationReport(overlap) });
    });
}

async function createProject({ services, operator }: OperationContext, { name }: { name: string }) {
  const project = await services.projects.createProject(name, { by: operator });
  return { id: project.id, name: project.name, app_id: project.appId, app_secret: project.appSecret };
}

async function* listProjects({ services }: OperationContext) {
  for await (const page of readProjects(services)) yield page.map(projectJson);
}

async function listSecrets({ services, operator }: OperationContext, { appId }: { appId: string }) {
  const secrets = await services.secrets.listSecrets(await services.projects.getScope(appId, operator));
  return secrets.map(({ id, label, scopes, documentsOnly, createdAt, lastUsedAt, expiresAt, isLive }) => ({
    id,
    label,
    scopes,
    documents_only: documentsOnly,
    created_at: createdAt,
    last_used_at: lastUsedAt,
    expires_at: expiresAt,
    live: isLive,
  }));
}

async function addSecret(
  { services, operator }: OperationContext,
  params: { appId: string; label: string; scopes: SecretScope[]; expiresInMs: number | null; documentsOnly: boolean },
) {
  const added = await services.secrets.addSecret(await services.projects.getScope(params.appId, operator), params);
  return {
    app_id: params.appId,
    app_secret: added.appSecret,
    id: added.id,
    label: params.label,
    scopes: added.scopes,
    documents_only: added.documentsOnly,
    expires_at: added.expiresAt,
  };
}

async function revokeSecret(
  { services, operator }: OperationContext,
  { appId, secretId }: { appId: string; secretId: number },
) {
  const label = await services.secrets.revokeSecret(await services.projects.getScope(appId, operator), secretId);
  return { id: secretId, label };
}

async function rotateSecret(
  { services, operator }: OperationContext,
  params: { appId: string; label: string; overlapMs: number; documentsOnly: boolean | null },
) {
  const rotated = await services.secrets.rotateSecret(await services.projects.getScope(params.appId, operator), params);
  return {
    app_id: params.appId,
    app_secret: rotated.appSecret,
    previous_expires_at: rotated.previousExpiresAt,
    id: rotated.id,
    label: params.label,
    scopes: rotated.scopes,
    documents_only: rotated.documentsOnly,
    expires_at: rotated.expiresAt,
    other_labels: rotated.otherLabels,
  };
}

type Result<Work extends (...args: never[]) => unknown> = Awaited<ReturnType<Work>>;

function credentials({ app_id, app_secret }: { app_id: string; app_secret: string }, ...more: [string, string][]) {
  return fields([['App ID', app_id], ['App Secret', app_secret], ...more]);
}

/** Most services disable and limit no project. */
function stateOf({ disabled_at, requests_per_minute }: ReturnType<typeof projectJson>): string {
  const limit = requests_per_minute === null ? [] : [`${counted(requests_per_minute, 'request')} a minute`];
  return [...(disabled_at === null ? [] : ['disabled']), ...limit].join(', ');
}

function secretTable(secrets: Result<typeof listSecrets>): string {
  return table(
    ['ID', 'Label', 'Scopes', 'Created', 'Last used', 'Expires'],
    secrets.map((secret) => [
      secret.id,
      secret.label,
      secret.scopes.join(', ') + (secret.documents_only ? ', documents only' : ''),
      secret.created_at,
      secret.last_used_at ?? 'never',
      secret.live ? (secret.expires_at ?? 'never') : `expired ${secret.expires_at}`,
    ]),
  );
}

function rotationReport(overlapMs: number) {
  return (rotated: Result<typeof rotateSecret>): string => {
    const old = overlapMs === 0 ? 'is no longer valid' : `is valid until ${rotated.previous_expires_at}`;
    const others = rotated.other_labels.map((label) => `\nStill valid: the secret labelled ${label}.`);
    return `${credentials(rotated)}\n\nThe old secret ${old}.${others.join('')}`;
  };
}
