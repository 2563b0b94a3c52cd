import type { Command } from 'commander';
import { graphql, type ResultOf } from '../dashboard/documents.js';
import { IMPORT_WAIT_MS } from '../domain/bounds.js';
import { IMPORT_RUNS } from '../domain/import-results.js';
import { MAIN_LABEL, noProject, type SecretScope, USUAL_SCOPES } from '../domain/projects.js';
import { AppError, COMMAND, counted } from '../errors.js';
import {
  numberArgument,
  option,
  overlapOption,
  parseDuration,
  parseScopes,
  parseWholeNumber,
  projectOption,
  required,
} from './arguments.js';
import type { CommandContext, Tools } from './rows.js';
import { ask, canAsk, confirmNoOverlap, fields, partOf, tellState } from './terminal.js';

const PROJECT = graphql(`fragment ProjectRow on Project {
  id name app_id: appId created_at: createdAt disabled_at: disabledAt requests_per_minute: requestsPerMinute total_user: userCount
}`);

type ShownProject = ResultOf<typeof PROJECT>;

const SHOW = graphql(`query Show($project: ID!) { shown: project(appId: $project) { ...ProjectRow } }`, [PROJECT]);

const CHANGED = graphql(`fragment ChangedProject on ProjectChange { project { ...ProjectRow } changed }`, [PROJECT]);

const takes = [projectOption()];
/** Of commands that change a project. */
const changing = { takes, pick: ({ project, changed }: ResultOf<typeof CHANGED>) => ({ ...project, changed }) };

export function addProjectCommands(program: Command, context: CommandContext): void {
  const { row, rows, act } = context;
  const project = program
    .command('project')
    .description('create, list, rename, limit, disable and delete projects, and manage their secrets');
  row(project, {
    name: 'project create',
    description: 'create a project and show its App Secret, only once',
    examples: ['project create --name "My wallet app"'],
    takes: [required('--name <NAME>', 'a name for people to read')],
    document: graphql(`mutation CreateProject($name: String!) {
      createProject(name: $name) { project { id name app_id: appId } app_secret: appSecret }
    }`),
    pick: ({ project: created, app_secret }) => ({ ...created, app_secret }),
    print: (created) => `${credentials(created)}\n\n${KEEP_SECRET}`,
  });
  rows(project, {
    name: 'project list',
    description: 'list all projects with their exact number of users',
    examples: ['project list', 'project list --json'],
    takes: [],
    document: graphql(
      `query ListProjects($first: Int!, $after: String) {
        projects(oldestFirst: true, first: $first, after: $after) { nodes { ...ProjectRow } pageInfo { endCursor hasNextPage } }
      }`,
      [PROJECT],
    ),
    columns: { ID: 'id', Name: 'name', 'App ID': 'app_id', Created: 'created_at', Users: 'total_user', State: stateOf },
    none: `There is no project yet. Create one: ${COMMAND} project create --name NAME`,
  });
  row(project, {
    name: 'project show',
    description: 'show a project with its exact number of users',
    examples: ['project show --project app_1'],
    takes,
    document: SHOW,
    pick: (shown, { project: appId }) => requireShown(shown, appId),
    print: projectFields,
  });
  row(project, {
    name: 'project rename',
    description: 'give a project another name',
    examples: ['project rename --project app_1 --name "My wallet app"'],
    ...changing,
    takes: [...takes, required('--name <NAME>', 'a name for people to read')],
    document: graphql(
      `mutation RenameProject($project: ID!, $name: String!) { renameProject(appId: $project, name: $name) { ...ChangedProject } }`,
      [CHANGED],
    ),
    print: (renamed) => tellState(renamed, `The project is called ${renamed.name}.`),
  });
  row(project, {
    name: 'project disable',
    description: "refuse a project's credentials, and keep its data",
    examples: ['project disable --project app_1'],
    ...changing,
    document: graphql(
      `mutation DisableProject($project: ID!) { disableProject(appId: $project) { ...ChangedProject } }`,
      [CHANGED],
    ),
    print: (disabled) => tellState(disabled, `The credentials of ${disabled.name} are refused. Its data is kept.`),
  });
  row(project, {
    name: 'project enable',
    description: "accept a project's credentials again",
    examples: ['project enable --project app_1'],
    ...changing,
    document: graphql(
      `mutation EnableProject($project: ID!) { enableProject(appId: $project) { ...ChangedProject } }`,
      [CHANGED],
    ),
    print: (enabled) => tellState(enabled, `The credentials of ${enabled.name} are accepted.`),
  });
  row(project, {
    name: 'project limit',
    description: 'give a project a rate limit of its own',
    examples: ['project limit --project app_1 --rate 600', 'project limit --project app_1 --rate default'],
    ...changing,
    takes: [...takes, required('--rate <N>', 'requests in a minute, or "default" for what RATE_LIMIT says', parseRate)],
    variables: ({ project: appId, rate }) => ({ project: appId, rate: rate === 'default' ? null : rate }),
    document: graphql(
      `mutation LimitProject($project: ID!, $rate: Int) { limitProject(appId: $project, rate: $rate) { ...ChangedProject } }`,
      [CHANGED],
    ),
    print: (limited) => tellState(limited, `The rate limit of ${limited.name} is ${rateOf(limited)}.`),
  });
  act(project, {
    name: 'project delete',
    description: 'delete a project with its users, secrets, bans and audit trail',
    examples: ['project delete --project app_1 --yes'],
    takes: [
      required('--project <APP_ID>', 'the App ID of the project, which has to be said'),
      option('--yes', 'do not ask; needed without a terminal'),
    ],
    unit: 'users',
    interrupted:
      'Interrupted. The project is disabled and part of its users are gone. Run the command again to delete the rest.',
    act: deleteProject,
    print: ({ name, users }) => `Deleted the project ${name} and ${counted(users, 'user')}, removed ones included.`,
  });
  addSecretCommands(project, context);
}

const DELETE = graphql(`mutation DeletePart($project: ID!, $name: String!, $goesOn: Boolean!) {
  deletePartOfProject(appId: $project, name: $name, goesOn: $goesOn) { users done busy }
}`);

/** Deletes a project part by part. */
async function deleteProject(
  { ask: askSchema, progress, notice, signal }: Tools,
  { project, yes = false }: { readonly project: string; readonly yes?: boolean },
) {
  const { id, name, total_user } = requireShown(await askSchema(SHOW, { project }), project);
  if (!yes) await confirmDeletion(name, total_user);
  let users = 0;
  let busySince: number | null = null;
  for (let goesOn = false; ; goesOn = true) {
    const part = await askSchema(DELETE, { project, name, goesOn });
    users += part.users;
    if (part.done) return { id, name, app_id: project, users };
    progress(users, partOf(users, total_user));
    if (part.busy && busySince === null) notice(IMPORT_RUNS.waiting);
    busySince = part.busy ? (busySince ?? performance.now()) : null;
    if (busySince !== null && performance.now() - busySince > IMPORT_WAIT_MS)
      throw new AppError('UNAVAILABLE', IMPORT_RUNS.tooLong);
    signal.throwIfAborted();
  }
}

async function confirmDeletion(name: string, users: number): Promise<void> {
  if (!canAsk()) throw new Error('Deleting a project cannot be undone. Give --yes to do it without being asked.');
  const answer = await ask(
    `This erases the project ${name} with ${counted(users, 'user')}, and cannot be undone. Type its name to go on: `,
  );
  if (answer !== name) throw new Error('That is not its name. Nothing was changed.');
}

function requireShown(shown: ShownProject | null, appId: string): ShownProject {
  if (shown !== null) return shown;
  throw noProject(appId);
}

function projectFields(project: ShownProject): string {
  return fields([
    ['Name', project.name],
    ['App ID', project.app_id],
    ['Created', project.created_at],
    ['State', project.disabled_at === null ? 'enabled' : `disabled since ${project.disabled_at}`],
    ['Rate limit', rateOf(project)],
    ['Users', project.total_user],
  ]);
}

function rateOf({ requests_per_minute }: ShownProject): string {
  return requests_per_minute === null ? 'what RATE_LIMIT says' : `${counted(requests_per_minute, 'request')} a minute`;
}

/** Most services disable and limit no project. */
function stateOf(project: ShownProject): string {
  const limit = project.requests_per_minute === null ? [] : [rateOf(project)];
  return [...(project.disabled_at === null ? [] : ['disabled']), ...limit].join(', ');
}

const parseRate = (text: string) => (text === 'default' ? text : parseWholeNumber(text));

const KEEP_SECRET = 'The App Secret is shown only once. Store it where only your backend can read it.';

function addSecretCommands(project: Command, { row, rows }: CommandContext): void {
  rows(project, {
    name: 'project secrets',
    description: 'list the secrets of a project, without their values',
    examples: ['project secrets --project app_1'],
    takes,
    document: graphql(`query ListSecrets($project: ID!) {
      project(appId: $project) {
        secrets { id label scopes created_at: createdAt last_used_at: lastUsedAt expires_at: expiresAt live }
      }
    }`),
    row: secretJson,
    columns: {
      ID: 'id',
      Label: 'label',
      Scopes: ({ scopes }) => scopes.join(', '),
      Created: 'created_at',
      'Last used': (secret) => secret.last_used_at ?? 'never',
      Expires: ({ live, expires_at }) => (live ? (expires_at ?? 'never') : `expired ${expires_at}`),
    },
  });
  row(project, {
    name: 'project add-secret',
    description: 'add an App Secret to a project and show it, only once',
    examples: ['project add-secret --project app_1 --label reports --scope read,verify --expires-in 30d'],
    takes: [
      ...takes,
      required('--label <LABEL>', 'the name of the secret in the audit trail'),
      option('--scope <SCOPES>', 'what the secret permits, such as read,verify', parseScopes).default(
        USUAL_SCOPES,
        'everything but webhooks',
      ),
      option('--expires-in <TIME>', 'when the secret expires, such as 30d; without it never', parseDuration),
    ],
    variables: ({ project: appId, label, scope, expiresIn = null }) => ({
      project: appId,
      label,
      scopes: scope.map((each: SecretScope) => each.toUpperCase()),
      expiresInSeconds: expiresIn === null ? null : expiresIn / 1_000,
    }),
    document:
      graphql(`mutation AddSecret($project: ID!, $label: String!, $scopes: [SecretScope!]!, $expiresInSeconds: Float) {
      addSecret(appId: $project, label: $label, scopes: $scopes, expiresInSeconds: $expiresInSeconds) {
        app_secret: appSecret secret { id label scopes expires_at: expiresAt }
      }
    }`),
    pick: ({ app_secret, secret }, { project: appId }) => ({
      app_id: appId,
      app_secret,
      ...secretJson(secret),
    }),
    print: (added) =>
      `${credentials(added, ['Scopes', added.scopes.join(', ')], ['Expires', added.expires_at ?? 'never'])}\n\n${KEEP_SECRET}`,
  });
  row(project, {
    name: 'project revoke',
    description: 'revoke a secret immediately',
    examples: ['project revoke --project app_1 7'],
    takes: [...takes, numberArgument('<SECRET_ID>', 'the ID of the secret, as `project secrets` shows it')],
    document: graphql(
      `mutation RevokeSecret($project: ID!, $secretId: ID!) { revokeSecret(appId: $project, id: $secretId) { id label } }`,
    ),
    print: ({ id, label }, { project: appId }) => `The secret ${id} (${label}) of ${appId} is no longer valid.`,
  });
  row(project, {
    name: 'project rotate',
    description: 'replace an App Secret of a project by a new one',
    examples: ['project rotate --project app_1', 'project rotate --project app_1 --label reports --overlap 24h'],
    takes: [
      ...takes,
      option('--label <LABEL>', 'which secret to replace').default(MAIN_LABEL),
      overlapOption('how long the old secret stays valid, such as 24h', 'it expires immediately'),
      option('--yes', 'do not ask before the old secret expires immediately'),
    ],
    variables: ({ project: appId, label, overlap }) => ({ project: appId, label, overlapSeconds: overlap / 1_000 }),
    before: ({ project: appId, label }, command) =>
      confirmNoOverlap(
        command,
        `The secret ${label} of ${appId} ends at once, and with it every backend that uses it. --overlap 24h lets it live meanwhile. Rotate?`,
      ),
    document: graphql(`mutation RotateSecret($project: ID!, $label: String!, $overlapSeconds: Float!) {
      rotateSecret(appId: $project, label: $label, overlapSeconds: $overlapSeconds) {
        app_secret: appSecret previous_expires_at: previousExpiresAt
        secret { id label scopes expires_at: expiresAt } other_labels: otherLabels
      }
    }`),
    pick: ({ secret, other_labels, ...rotated }, { project: appId }) => ({
      app_id: appId,
      ...rotated,
      ...secretJson(secret),
      other_labels,
    }),
    print: (rotated, { overlapSeconds }) => {
      const old = overlapSeconds === 0 ? 'is no longer valid' : `is valid until ${rotated.previous_expires_at}`;
      const others = rotated.other_labels.map((label) => `\nStill valid: the secret labelled ${label}.`);
      return `${credentials(rotated)}\n\nThe old secret ${old}.${others.join('')}`;
    },
  });
}

/** A secret as commands tell it: scopes as in --scope. */
function secretJson<Secret extends { readonly scopes: readonly Uppercase<SecretScope>[] }>(secret: Secret) {
  return { ...secret, scopes: secret.scopes.map((scope) => scope.toLowerCase() as SecretScope) };
}

function credentials({ app_id, app_secret }: { app_id: string; app_secret: string }, ...more: [string, string][]) {
  return fields([['App ID', app_id], ['App Secret', app_secret], ...more]);
}
