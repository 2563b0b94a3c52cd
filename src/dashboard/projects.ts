import { setTimeout as sleep } from 'node:timers/promises';
import type { Services } from '../context.js';
import { cursor } from '../domain/cursors.js';
import { INPUT_LIMITS } from '../domain/input-limits.js';
import { parse } from '../domain/parse.js';
import { type DeletedPart, type OpenProject, type ProjectScope, projectDeleted } from '../domain/projects.js';
import { type LoginMethod, MAX_BUCKETS, type SignUps } from '../domain/users.js';
import { costs } from '../engine/cost.js';
import { afterwards, badInput, fromUnknown } from '../errors.js';
import { instantOrNull, orNull, required, valuesOf, withDefault } from '../graphql/shared.js';
import { APP_ID, browserOf, builder, type DashboardContext, loginMethodEnum, WHOLE_COST } from './builder.js';
import { connectionType, firstArgument, readLimit } from './paging.js';

export const projectType = builder.objectRef<OpenProject>('Project').implement({
  description: 'A project, with all that belongs to it.',
  fields: (t) => ({
    id: t.exposeInt('id', { description: 'Its number: later projects have higher ones.' }),
    appId: t.exposeID('appId', { description: 'Its App ID.' }),
    name: t.exposeString('name', { description: 'Its name for people.' }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When it was created.' }),
    disabledAt: t.expose(
      'disabledAt',
      instantOrNull('Since when its credentials are refused; null where they are accepted.'),
    ),
    requestsPerMinute: t.exposeInt(
      'requestsPerMinute',
      orNull('Its own limit of requests in a minute; null where RATE_LIMIT holds.'),
    ),
    defaultRequestsPerMinute: t.int({
      ...orNull(
        'What RATE_LIMIT says, for projects without a limit of their own; null for no limit, and where no server runs.',
      ),
      resolve: (_project, _args, { status }) => status?.requestsPerMinute ?? null,
    }),
    totalsByMethod: t.field({
      type: [methodTotalType],
      description: 'The exact number of current users by login method: always all four, in the same order.',
      resolve: ({ scope }, _args, { services }) => services.statistics.totalsByMethod(scope),
    }),
    tallyDifferences: t.field({
      type: [tallyDifferenceType],
      description:
        'Where the tallies, which exact totals are read from, differ from a count of all users. Needs ADMIN.',
      extensions: costs({ surcharge: WHOLE_COST }),
      resolve: ({ scope }, _args, { services }) => services.totals.check(scope),
    }),
    signUps: t.field({
      type: [signUpsType],
      description: `The current users by the day or month in which they registered, zeros included, oldest first; at most ${MAX_BUCKETS}. Exact, and as fast for ten million users as for ten.`,
      args: {
        from: t.arg({ type: 'Date', required: true, description: 'The first day; for months any day of the first.' }),
        to: t.arg({ type: 'Date', required: true, description: 'The last day; for months any day of the last.' }),
        by: t.arg({ type: intervalEnum, required: true, description: 'Days or months.' }),
      },
      resolve: ({ scope }, { from, to, by }, { services }) =>
        services.statistics.signUps(scope, String(from), String(to), by),
    }),
  }),
});

const methodTotalType = builder.objectRef<{ loginMethod: LoginMethod; total: number }>('MethodTotal').implement({
  description: 'How many current users have a kind of login.',
  fields: (t) => ({
    loginMethod: t.expose('loginMethod', { type: loginMethodEnum, description: 'The kind of login.' }),
    total: t.exposeInt('total', { description: 'The exact number of users.' }),
  }),
});

type TallyDifference = Awaited<ReturnType<Services['totals']['check']>>[number];

const tallyDifferenceType = builder.objectRef<TallyDifference>('TallyDifference').implement({
  description: 'A tally that differs from a count.',
  fields: (t) => ({
    span: t.exposeString('span', { description: 'What it is of: `all`, `month`, `day`, or `slice` of a day.' }),
    startsAt: t.expose('starts_at', { type: 'DateTime', description: 'Where the span begins.' }),
    loginMethod: t.exposeString('login_method', { description: 'The kind of login that it is of.' }),
    expected: t.exposeInt('expected', { description: 'The number of users by the count.' }),
    actual: t.exposeInt('actual', { description: 'The number of users by the tally.' }),
  }),
});

const intervalEnum = builder.enumType('Interval', {
  description: 'How time is divided, in UTC.',
  values: valuesOf({ day: 'By days.', month: 'By months.' }),
});

const signUpsType = builder.objectRef<SignUps>('SignUps').implement({
  description: 'The users who registered in a day or a month, and are current.',
  fields: (t) => ({
    from: t.expose('from', { type: 'Date', description: 'Its first day.' }),
    total: t.exposeInt('total', { description: 'All of them.' }),
    email: t.exposeInt('email', { description: 'Those with an email login.' }),
    passkey: t.exposeInt('passkey', { description: 'Those with a passkey.' }),
    wallet: t.exposeInt('wallet', { description: 'Those with a wallet.' }),
    socials: t.exposeInt('socials', { description: 'Those of the social providers.' }),
  }),
});

const projectConnectionType = connectionType('ProjectConnection', projectType, {
  description: 'A page of projects.',
  total: 'How many projects match, on all pages together.',
});

const afterArgument = cursor('after', 'projects');

builder.queryFields((t) => ({
  projects: t.field({
    type: projectConnectionType,
    description: 'The projects of the operator, the newest first unless asked otherwise.',
    args: {
      search: t.arg.string({ description: 'Only those whose name or App ID contains this.' }),
      first: t.arg.int(firstArgument(50)),
      after: t.arg.string({ description: 'A cursor: only projects after it in this order.' }),
      oldestFirst: t.arg.boolean(withDefault(false, 'The oldest projects first instead of the newest.')),
    },
    resolve: async (_root, { search, first, after, oldestFirst }, { services, operator }) => {
      const page = {
        search: search ?? null,
        oldestFirst,
        after: after == null ? null : parse(afterArgument, after),
        limit: readLimit('first', first),
      };
      const { projects, total, hasNext } = await services.projects.openProjects(operator, page);
      return { nodes: projects, total, hasNextPage: hasNext, hasPreviousPage: after != null };
    },
  }),
  project: t.field({
    type: projectType,
    nullable: true,
    description: 'A project of the operator by its App ID; null if there is none.',
    args: { appId: t.arg.id(required('The App ID.')) },
    resolve: (_root, { appId }, { services, operator }) => services.projects.openProject(appId, operator),
  }),
}));

const newProjectType = builder.objectRef<{ project: OpenProject; appSecret: string }>('NewProject').implement({
  description: 'A new project with its first secret, which is shown this once.',
  fields: (t) => ({
    project: t.field({ type: projectType, description: 'The project.', resolve: ({ project }) => project }),
    appSecret: t.exposeString('appSecret', { description: 'Its App Secret.' }),
  }),
});

const nameArgument = required(`A name for people, 1 to ${INPUT_LIMITS.projectName.max} characters on one line.`);

const deletedPartType = builder.objectRef<DeletedPart>('DeletedPart').implement({
  description: 'A part of the deletion of a project.',
  fields: (t) => ({
    users: t.exposeInt('users', { description: 'How many users went with it, removed ones included.' }),
    done: t.exposeBoolean('isDone', { description: 'Whether the project is gone.' }),
    busy: t.exposeBoolean('isBusy', { description: 'Whether an import of the project kept it waiting.' }),
  }),
});

/** How long a part of a deletion takes. */
const PART_MS = 1_000;

/** How long a deletion is waited for. It goes on after that. */
const DELETION_WAIT_MS = 4_000;

/** The project of a change that was done. */
export async function openAgain({ services, operator }: DashboardContext, appId: string): Promise<OpenProject> {
  const project = await afterwards(services.projects.openProject(appId, operator));
  if (project !== null) return project;
  throw projectDeleted();
}

async function requireName(context: DashboardContext, appId: string, name: string): Promise<void> {
  const project = await openAgain(context, appId);
  if (project.name !== name) throw badInput('name', name, 'the name of the project');
}

/** A change of a project as a whole. */
interface ProjectChange {
  readonly project: OpenProject;
  readonly changed: boolean;
}

const projectChangeType = builder.objectRef<ProjectChange>('ProjectChange').implement({
  description: 'A project after a change.',
  fields: (t) => ({
    project: t.field({ type: projectType, description: 'The project.', resolve: ({ project }) => project }),
    changed: t.exposeBoolean('changed', { description: 'Whether it was another way before.' }),
  }),
});

/** Changes a project, and reads it again. */
async function changeProject(
  context: DashboardContext,
  appId: string,
  change: (lifecycle: Services['lifecycle'], scope: ProjectScope) => Promise<boolean>,
): Promise<ProjectChange> {
  const changed = await change(context.services.lifecycle, await context.scopeOf(appId));
  return { project: await openAgain(context, appId), changed };
}

builder.mutationFields((t) => ({
  createProject: t.field({
    type: newProjectType,
    description: 'Creates a project. Needs an ADMIN of all projects. BAD_USER_INPUT.',
    args: { name: t.arg.string(nameArgument) },
    resolve: async (_root, { name }, context) => {
      const { services, operator, requestId } = context;
      const { appId, appSecret } = await services.projects.createProject(name, { by: operator, requestId });
      return { project: await openAgain(context, appId), appSecret };
    },
  }),
  renameProject: t.field({
    type: projectChangeType,
    description: 'Gives a project another name. Needs ADMIN. NOT_FOUND; BAD_USER_INPUT.',
    args: { appId: t.arg.id(APP_ID), name: t.arg.string(nameArgument) },
    resolve: (_root, { appId, name }, context) =>
      changeProject(context, appId, (lifecycle, scope) => lifecycle.renameProject(scope, name, context.requestId)),
  }),
  disableProject: t.field({
    type: projectChangeType,
    description: 'Refuses the credentials of a project, within a second. Its data is kept. Needs ADMIN. NOT_FOUND.',
    args: { appId: t.arg.id(APP_ID) },
    resolve: (_root, { appId }, context) =>
      changeProject(context, appId, (lifecycle, scope) => lifecycle.disableProject(scope, context.requestId)),
  }),
  enableProject: t.field({
    type: projectChangeType,
    description: 'Accepts the credentials of a project again. Needs ADMIN. NOT_FOUND.',
    args: { appId: t.arg.id(APP_ID) },
    resolve: (_root, { appId }, context) =>
      changeProject(context, appId, (lifecycle, scope) => lifecycle.enableProject(scope, context.requestId)),
  }),
  limitProject: t.field({
    type: projectChangeType,
    description:
      'Gives a project a limit of requests of its own, within a second. Needs ADMIN. NOT_FOUND; BAD_USER_INPUT.',
    args: {
      appId: t.arg.id(APP_ID),
      rate: t.arg.int({ description: 'Requests in a minute; null for what RATE_LIMIT says.' }),
    },
    resolve: (_root, { appId, rate }, context) =>
      changeProject(context, appId, (lifecycle, scope) =>
        lifecycle.limitProject(scope, rate ?? null, context.requestId),
      ),
  }),
  repairTallies: t.field({
    type: [tallyDifferenceType],
    description:
      'Corrects the tallies that differ from a count of all users, and returns them. Needs ADMIN. NOT_FOUND.',
    args: { appId: t.arg.id(APP_ID) },
    resolve: async (_root, { appId }, { services, scopeOf }) => services.totals.repair(await scopeOf(appId)),
  }),
  deletePartOfProject: t.field({
    type: deletedPartType,
    description:
      'Deletes a part of a project, about as much as a second allows: to be asked again until it is done. The project is disabled first. Needs ADMIN. NOT_FOUND; BAD_USER_INPUT if the name is not that of the project.',
    args: {
      appId: t.arg.id(APP_ID),
      name: t.arg.string(required('The name of the project, as a confirmation.')),
      goesOn: t.arg.boolean(withDefault(false, 'Whether this is not the first part. It is not recorded again then.')),
    },
    resolve: async (_root, { appId, name, goesOn }, context) => {
      const scope = await context.scopeOf(appId);
      scope.projectIdFor('operate');
      await requireName(context, appId, name);
      return context.services.lifecycle.deletePart(scope, { ms: PART_MS, goesOn }, context.requestId);
    },
  }),
  deleteProject: t.boolean({
    description:
      'Deletes a project with all its users, for ever. Needs ADMIN. True once it is done; false where it takes longer: the project is disabled, and the deletion goes on as long as you are an ADMIN. NOT_FOUND; BAD_USER_INPUT if the name is not that of the project.',
    args: {
      appId: t.arg.id(APP_ID),
      name: t.arg.string(required('The name of the project, as a confirmation.')),
    },
    resolve: async (_root, { appId, name }, context) => {
      const { services, scopeOf, requestId, report } = context;
      const { session } = browserOf(context);
      const scope = await scopeOf(appId);
      scope.projectIdFor('operate');
      await requireName(context, appId, name);
      const options: Parameters<Services['lifecycle']['deleteProject']>[1] = {
        progress: () => undefined,
        signal: new AbortController().signal,
        // It does not end with the session, so that one can log out meanwhile.
        permit: async (tx) =>
          services.projects.requireStill(scope, await services.operators.findAgain(session, tx), 'operate'),
      };
      let isLate = false;
      const late = sleep(DELETION_WAIT_MS, false, { ref: false }).finally(() => {
        isLate = true;
      });
      const done = services.lifecycle.deleteProject(scope, options, requestId).then(() => true);
      done
        .catch(async (error) => {
          const failure = fromUnknown(error);
          // In time, FORBIDDEN is recorded as for every field, and the operator is told of other failures.
          if (failure.code === 'NOT_FOUND' || (isLate && failure.code === 'FORBIDDEN'))
            await services.audit.recordRefusal(scope, requestId, 'deleteProject');
          else if (isLate) throw failure;
        })
        .catch((error) => report(fromUnknown(error)));
      return Promise.race([done, late]);
    },
  }),
}));
