import { type Command, InvalidArgumentError } from 'commander';
import type { Services } from '../context.js';
import type { ProjectScope, ProjectSummary } from '../domain/projects.js';
import { jsonOption, option, parseWholeNumber, projectOption, required } from './arguments.js';
import { type Io, type OperationContext, progressOf } from './operation.js';
import type { CommandContext } from './run.js';
import { ask, canAsk, counted, fields, tellState } from './terminal.js';

interface OneProject {
  /** The App ID. */
  readonly project: string;
}

/** The commands that change a project as a whole. */
export function addLifecycleCommands(project: Command, { define }: CommandContext): void {
  const takes = [projectOption(), jsonOption()];
  const show = define(project, {
    name: 'project show',
    description: 'show a project with its exact number of users',
    examples: ['project show --project app_1'],
    takes,
    run: async ({ services, operator }, { project: appId }: OneProject) =>
      projectJson(await services.projects.getProject(await services.projects.getScope(appId, operator))),
    print: projectFields,
  });
  define(project, {
    name: 'project rename',
    description: 'give a project another name',
    examples: ['project rename --project app_1 --name "My wallet app"'],
    takes: [...takes, required('--name <NAME>', 'a name for people to read')],
    run: (context, { project: appId, name }: OneProject & { name: string }) =>
      changeProject(context, appId, ({ lifecycle }, scope) => lifecycle.renameProject(scope, name)),
    print: (project) => tellState(project, `The project is called ${project.name}.`),
  });
  define(project, {
    name: 'project disable',
    description: "refuse a project's credentials, and keep its data",
    examples: ['project disable --project app_1'],
    takes,
    run: (context, { project: appId }: OneProject) =>
      changeProject(context, appId, ({ lifecycle }, scope) => lifecycle.disableProject(scope)),
    print: (project) => tellState(project, `The credentials of ${project.name} are refused. Its data is kept.`),
  });
  define(project, {
    name: 'project enable',
    description: "accept a project's credentials again",
    examples: ['project enable --project app_1'],
    takes,
    run: (context, { project: appId }: OneProject) =>
      changeProject(context, appId, ({ lifecycle }, scope) => lifecycle.enableProject(scope)),
    print: (project) => tellState(project, `The credentials of ${project.name} are accepted.`),
  });
  define(project, {
    name: 'project limit',
    description: 'give a project a rate limit of its own',
    examples: ['project limit --project app_1 --rate 600', 'project limit --project app_1 --rate default'],
    takes: [...takes, required('--rate <N>', 'requests in a minute, or "default" for what RATE_LIMIT says', parseRate)],
    params: ({ project, rate }) => ({ project, rate: rate === 'default' ? null : rate }),
    run: (context, { project: appId, rate }: OneProject & { rate: number | null }) =>
      changeProject(context, appId, ({ lifecycle }, scope) => lifecycle.limitProject(scope, rate)),
    print: (limited) => tellState(limited, `The rate limit of ${limited.name} is ${rateOf(limited)}.`),
  });
  define(project, {
    name: 'project delete',
    description: 'delete a project with its users, secrets, bans and audit trail',
    examples: ['project delete --project app_1 --yes'],
    takes: [...takes, option('--yes', 'do not ask; needed without a terminal')],
    params: ({ project }) => ({ project }),
    before: async ({ project, yes }) => {
      if (yes !== true) await confirmDeletion(await show({ project }, { print: () => '' }));
    },
    unit: 'users',
    interrupted:
      'Interrupted. The project is disabled and part of its users are gone. Run the command again to delete the rest.',
    run: deleteProject,
    print: ({ name, users }) => `Deleted the project ${name} and ${counted(users, 'user')}, removed ones included.`,
  });
}

async function confirmDeletion({ name, total_user }: ShownProject): Promise<void> {
  if (!canAsk()) throw new Error('Deleting a project cannot be undone. Give --yes to do it without being asked.');
  const answer = await ask(
    `This erases the project ${name} with ${counted(total_user, 'user')}, and cannot be undone. Type its name to go on: `,
  );
  if (answer !== name) throw new Error('That is not its name. Nothing was changed.');
}

/** Changes a project and returns it, with whether it has changed. */
async function changeProject(
  { services, operator }: OperationContext,
  appId: string,
  change: (services: Services, scope: ProjectScope) => Promise<boolean>,
) {
  const scope = await services.projects.getScope(appId, operator);
  const changed = await change(services, scope);
  return { ...projectJson(await services.projects.getProject(scope)), changed };
}

async function deleteProject(
  { services, operator }: OperationContext,
  { project: appId }: OneProject,
  { progress, notice, signal }: Io,
) {
  const scope = await services.projects.getScope(appId, operator);
  const { id, name, totalUser } = await services.projects.getProject(scope);
  const users = await services.lifecycle.deleteProject(scope, {
    progress: (done) => progress(progressOf(done, Math.max(done, totalUser))),
    onWait: notice,
    signal,
  });
  return { id, name, app_id: appId, users };
}

/** A project as the commands print it. */
export function projectJson(project: ProjectSummary) {
  return {
    id: project.id,
    name: project.name,
    app_id: project.appId,
    created_at: project.createdAt,
    disabled_at: project.disabledAt,
    requests_per_minute: project.requestsPerMinute,
    total_user: project.totalUser,
  };
}

type ShownProject = ReturnType<typeof projectJson>;

function projectFields(project: ShownProject): string {
  return fields([
    ['Name', project.name],
    ['App ID', project.app_id],
    ['Created', project.created_at],
    ['State', project.disabled_at === null ? 'enabled' : `disabled since ${project.disabled_at}`],
    ['Rate limit', rateOf(project)],
    ['Users', String(project.total_user)],
  ]);
}

function rateOf({ requests_per_minute }: ShownProject): string {
  return requests_per_minute === null ? 'what RATE_LIMIT says' : `${counted(requests_per_minute, 'request')} a minute`;
}

function parseRate(text: string): number | 'default' {
  if (text === 'default') return text;
  try {
    return parseWholeNumber(text);
  } catch {
    throw new InvalidArgumentError('Expected a whole number from 1 to 100000000, or "default".');
  }
}
