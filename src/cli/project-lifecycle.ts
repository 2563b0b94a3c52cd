import { type Command, InvalidArgumentError } from 'commander';
import type { Services } from '../context.js';
import type { ProjectScope, ProjectSummary } from '../domain/projects.js';
import { examples, jsonOption, parseWholeNumber } from './arguments.js';
import { type Io, type OperationContext, progressOf } from './operation.js';
import type { CommandContext } from './run.js';
import { ask, canAsk, counted, fields } from './terminal.js';

/** The commands that change a project as a whole. */
export function addLifecycleCommands(project: Command, { operation }: CommandContext): void {
  const command = (name: string, description: string, ...lines: string[]) =>
    project
      .command(name)
      .description(description)
      .addHelpText('after', examples(...lines))
      .argument('<APP_ID>', 'the App ID of the project')
      .addOption(jsonOption());

  const show = operation(
    'project show',
    changeProject(async () => undefined),
  );
  command('show', 'show a project with its exact number of users', 'project show app_1').action(
    async (appId: string, options) => {
      await show({ appId }, { ...options, print: projectFields });
    },
  );
  const rename = operation(
    'project rename',
    changeProject(({ lifecycle }, scope, { name }: { appId: string; name: string }) =>
      lifecycle.renameProject(scope, name),
    ),
  );
  command('rename', 'give a project another name', 'project rename app_1 --name "My wallet app"')
    .requiredOption('--name <NAME>', 'a name for people to read')
    .action(async (appId: string, { name, ...options }) => {
      await rename({ appId, name }, { ...options, print: (renamed) => `The project is called ${renamed.name}.` });
    });
  const disable = operation(
    'project disable',
    changeProject(({ lifecycle }, scope) => lifecycle.disableProject(scope)),
  );
  command('disable', "refuse a project's credentials, and keep its data", 'project disable app_1').action(
    async (appId: string, options) => {
      await disable(
        { appId },
        { ...options, print: ({ name }) => `The credentials of ${name} are refused. Its data is kept.` },
      );
    },
  );
  const enable = operation(
    'project enable',
    changeProject(({ lifecycle }, scope) => lifecycle.enableProject(scope)),
  );
  command('enable', "accept a project's credentials again", 'project enable app_1').action(
    async (appId: string, options) => {
      await enable({ appId }, { ...options, print: ({ name }) => `The credentials of ${name} are accepted.` });
    },
  );
  const limit = operation(
    'project limit',
    changeProject(({ lifecycle }, scope, { rate }: { appId: string; rate: number | null }) =>
      lifecycle.limitProject(scope, rate),
    ),
  );
  command(
    'limit',
    'give a project a rate limit of its own',
    'project limit app_1 --rate 600',
    'project limit app_1 --rate default',
  )
    .requiredOption('--rate <N>', 'requests in a minute, or "default" for what RATE_LIMIT says', parseRate)
    .action(async (appId: string, { rate, ...options }) => {
      await limit({ appId, rate: rate === 'default' ? null : rate }, { ...options, print: limitReport });
    });
  const remove = operation('project delete', deleteProject);
  command('delete', 'delete a project with its users, secrets, bans and audit trail', 'project delete app_1 --yes')
    .option('--yes', 'do not ask; needed without a terminal')
    .action(async (appId: string, { yes, ...options }) => {
      if (yes !== true) await confirmDeletion(await show({ appId }, { print: () => '' }));
      await remove(
        { appId },
        {
          ...options,
          unit: 'users',
          interrupted:
            'Interrupted. The project is disabled and part of its users are gone. Run the command again to delete the rest.',
          print: ({ name, users }) =>
            `Deleted the project ${name} and ${counted(users, 'user')}, removed ones included.`,
        },
      );
    });
}

async function confirmDeletion({ name, total_user }: Awaited<ReturnType<ReturnType<typeof changeProject>>>) {
  if (!canAsk()) throw new Error('Deleting a project cannot be undone. Give --yes to do it without being asked.');
  const answer = await ask(
    `This erases the project ${name} with ${counted(total_user, 'user')}, and cannot be undone. Type its name to go on: `,
  );
  if (answer !== name) throw new Error('That is not its name. Nothing was changed.');
}

/** An operation that changes a project and returns it. */
function changeProject<Params extends { appId: string }>(
  change: (services: Services, scope: ProjectScope, params: Params) => Promise<void>,
) {
  return async ({ services, operator }: OperationContext, params: Params) => {
    const scope = await services.projects.getScope(params.appId, operator);
    await change(services, scope, params);
    return projectJson(await services.projects.getProject(scope));
  };
}

async function deleteProject(
  { services, operator }: OperationContext,
  { appId }: { appId: string },
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

function limitReport(project: ShownProject): string {
  return `The rate limit of ${project.name} is ${rateOf(project)}.`;
}

function parseRate(text: string): number | 'default' {
  if (text === 'default') return text;
  try {
    return parseWholeNumber(text);
  } catch {
    throw new InvalidArgumentError('Expected a whole number from 1 to 100000000, or "default".');
  }
}
