import type { Command } from 'commander';
import type { SecretScope } from '../domain/projects.js';
import { MAIN_LABEL, SECRET_SCOPES } from '../domain/projects.js';
import { COMMAND } from '../errors.js';
import {
  jsonOption,
  numberArgument,
  option,
  overlapOption,
  parseDuration,
  parseScopes,
  projectOption,
  required,
} from './arguments.js';
import { type OperationContext, readProjects } from './operation.js';
import { addLifecycleCommands, projectJson } from './project-lifecycle.js';
import type { CommandContext } from './run.js';
import { confirmNoOverlap, counted, fields, listTable } from './terminal.js';

const KEEP_SECRET = 'The App Secret is shown only once. Store it where only your backend can read it.';

export function addProjectCommands(program: Command, context: CommandContext): void {
  const { define, list } = context;
  const project = program
    .command('project')
    .description('create, list, rename, limit, disable and delete projects, and manage their secrets');
  define(project, {
    name: 'project create',
    description: 'create a project and show its App Secret, only once',
    examples: ['project create --name "My wallet app"'],
    takes: [required('--name <NAME>', 'a name for people to read'), jsonOption()],
    run: async ({ services, operator }, { name }: { name: string }) => {
      const created = await services.projects.createProject(name, { by: operator });
      return { id: created.id, name: created.name, app_id: created.appId, app_secret: created.appSecret };
    },
    print: (created) => `${credentials(created)}\n\n${KEEP_SECRET}`,
  });
  list(project, {
    name: 'project list',
    description: 'list all projects with their exact number of users',
    examples: ['project list', 'project list --json'],
    takes: [jsonOption()],
    read: listProjects,
    head: ['ID', 'Name', 'App ID', 'Created', 'Users', 'State'],
    cells: (each) => [each.id, each.name, each.app_id, each.created_at, each.total_user, stateOf(each)],
    none: `There is no project yet. Create one: ${COMMAND} project create --name NAME`,
  });
  addLifecycleCommands(project, context);
  addSecretCommands(project, context);
}

function addSecretCommands(project: Command, { define }: CommandContext): void {
  const takes = [projectOption(), jsonOption()];
  define(project, {
    name: 'project secrets',
    description: 'list the secrets of a project, without their values',
    examples: ['project secrets --project app_1'],
    takes,
    run: listSecrets,
    print: (secrets) =>
      listTable(secrets, {
        head: ['ID', 'Label', 'Scopes', 'Created', 'Last used', 'Expires'],
        cells: ({ id, label, scopes, created_at, last_used_at, live, expires_at }) => [
          id,
          label,
          scopes.join(', '),
          created_at,
          last_used_at ?? 'never',
          live ? (expires_at ?? 'never') : `expired ${expires_at}`,
        ],
        none: '',
      }),
  });
  define(project, {
    name: 'project add-secret',
    description: 'add an App Secret to a project and show it, only once',
    examples: ['project add-secret --project app_1 --label reports --scope read,verify --expires-in 30d'],
    takes: [
      ...takes,
      required('--label <LABEL>', 'the name of the secret in the audit trail'),
      option('--scope <SCOPES>', 'what the secret permits, such as read,verify', parseScopes).default(
        SECRET_SCOPES,
        'everything',
      ),
      option('--expires-in <TIME>', 'when the secret expires, such as 30d; without it never', parseDuration),
    ],
    params: ({ project, label, scope, expiresIn = null }) => ({
      appId: project,
      label,
      scopes: scope,
      expiresInMs: expiresIn,
    }),
    run: addSecret,
    print: (added) =>
      `${credentials(added, ['Scopes', added.scopes.join(', ')], ['Expires', added.expires_at ?? 'never'])}\n\n${KEEP_SECRET}`,
  });
  define(project, {
    name: 'project revoke',
    description: 'revoke a secret immediately',
    examples: ['project revoke --project app_1 7'],
    takes: [...takes, numberArgument('<SECRET_ID>', 'the ID of the secret, as `project secrets` shows it')],
    run: async ({ services, operator }, { project, secretId }: { project: string; secretId: number }) => {
      const scope = await services.projects.getScope(project, operator);
      return { id: secretId, label: await services.secrets.revokeSecret(scope, secretId) };
    },
    print: ({ id, label }) => `The secret ${id} (${label}) is no longer valid.`,
  });
  define(project, {
    name: 'project rotate',
    description: 'replace an App Secret of a project by a new one',
    examples: ['project rotate --project app_1', 'project rotate --project app_1 --label reports --overlap 24h'],
    takes: [
      ...takes,
      option('--label <LABEL>', 'which secret to replace').default(MAIN_LABEL),
      overlapOption('how long the old secret stays valid, such as 24h', 'it expires immediately'),
      option('--yes', 'do not ask before the old secret expires immediately'),
    ],
    params: ({ project, label, overlap }) => ({
      appId: project,
      label,
      overlapMs: overlap,
    }),
    before: ({ project, label }, command: Command) =>
      confirmNoOverlap(
        command,
        `The secret ${label} of ${project} ends at once, and with it every backend that uses it. --overlap 24h lets it live meanwhile. Rotate?`,
      ),
    run: rotateSecret,
    print: (rotated, { overlapMs }) => {
      const old = overlapMs === 0 ? 'is no longer valid' : `is valid until ${rotated.previous_expires_at}`;
      const others = rotated.other_labels.map((label) => `\nStill valid: the secret labelled ${label}.`);
      return `${credentials(rotated)}\n\nThe old secret ${old}.${others.join('')}`;
    },
  });
}

async function* listProjects({ services }: OperationContext) {
  for await (const page of readProjects(services)) yield page.map(projectJson);
}

async function listSecrets({ services, operator }: OperationContext, { project }: { project: string }) {
  const secrets = await services.secrets.listSecrets(await services.projects.getScope(project, operator));
  return secrets.map(({ id, label, scopes, createdAt, lastUsedAt, expiresAt, isLive }) => ({
    id,
    label,
    scopes,
    created_at: createdAt,
    last_used_at: lastUsedAt,
    expires_at: expiresAt,
    live: isLive,
  }));
}

async function addSecret(
  { services, operator }: OperationContext,
  params: { appId: string; label: string; scopes: SecretScope[]; expiresInMs: number | null },
) {
  const added = await services.secrets.addSecret(await services.projects.getScope(params.appId, operator), params);
  return {
    app_id: params.appId,
    app_secret: added.appSecret,
    id: added.id,
    label: params.label,
    scopes: added.scopes,
    expires_at: added.expiresAt,
  };
}

async function rotateSecret(
  { services, operator }: OperationContext,
  params: { appId: string; label: string; overlapMs: number },
) {
  const rotated = await services.secrets.rotateSecret(await services.projects.getScope(params.appId, operator), params);
  return {
    app_id: params.appId,
    app_secret: rotated.appSecret,
    previous_expires_at: rotated.previousExpiresAt,
    id: rotated.id,
    label: params.label,
    scopes: rotated.scopes,
    expires_at: rotated.expiresAt,
    other_labels: rotated.otherLabels,
  };
}

function credentials({ app_id, app_secret }: { app_id: string; app_secret: string }, ...more: [string, string][]) {
  return fields([['App ID', app_id], ['App Secret', app_secret], ...more]);
}

/** Most services disable and limit no project. */
function stateOf({ disabled_at, requests_per_minute }: ReturnType<typeof projectJson>): string {
  const limit = requests_per_minute === null ? [] : [`${counted(requests_per_minute, 'request')} a minute`];
  return [...(disabled_at === null ? [] : ['disabled']), ...limit].join(', ');
}
