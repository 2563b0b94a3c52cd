import { cursor, encodeCursor, parse } from '../domain/filters.js';
import type { LoginMethod } from '../domain/users.js';
import type { OpenProject } from '../services/projects.js';
import { MAX_BUCKETS, type SignUps } from '../services/statistics.js';
import { builder, loginMethodEnum, type PageInfo, pageInfoType } from './builder.js';
import { readLimit } from './paging.js';

export const projectType = builder.objectRef<OpenProject>('Project').implement({
  description: 'A project, with all that belongs to it.',
  fields: (t) => ({
    appId: t.exposeID('appId', { description: 'Its App ID.' }),
    name: t.exposeString('name', { description: 'Its name for people.' }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When it was created.' }),
    totalsByMethod: t.field({
      type: [methodTotalType],
      description: 'The exact number of current users by login method: always all four, in the same order.',
      resolve: ({ scope }, _args, { services }) => services.statistics.totalsByMethod(scope),
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

const intervalEnum = builder.enumType('Interval', {
  description: 'How time is divided, in UTC.',
  values: {
    DAY: { value: 'day', description: 'By days.' },
    MONTH: { value: 'month', description: 'By months.' },
  } as const,
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

interface ProjectConnection {
  readonly projects: readonly OpenProject[];
  readonly total: number;
  readonly pageInfo: PageInfo;
}

const projectConnectionType = builder.objectRef<ProjectConnection>('ProjectConnection').implement({
  description: 'A page of projects, newest first.',
  fields: (t) => ({
    nodes: t.field({
      type: [projectType],
      description: 'The projects of this page.',
      resolve: ({ projects }) => [...projects],
    }),
    totalCount: t.exposeInt('total', { description: 'How many projects match, on all pages together.' }),
    pageInfo: t.field({
      type: pageInfoType,
      description: 'What is before and after this page.',
      resolve: ({ pageInfo }) => pageInfo,
    }),
  }),
});

const afterArgument = cursor('after');
const cursorOf = ({ createdAt, id }: OpenProject) => encodeCursor({ createdAt: new Date(createdAt), id });

builder.queryFields((t) => ({
  projects: t.field({
    type: projectConnectionType,
    description: 'The projects, newest first.',
    args: {
      search: t.arg.string({ description: 'Only those whose name or App ID contains this.' }),
      first: t.arg.int({ required: true, defaultValue: 50, description: 'How many, 1 to 100.' }),
      after: t.arg.string({ description: 'A cursor: only projects after it.' }),
    },
    resolve: async (_root, { search, first, after }, { services, operator }) => {
      const page = {
        search: search ?? null,
        after: after == null ? null : parse(afterArgument, after),
        limit: readLimit('first', first),
      };
      const { projects, total, hasNext } = await services.projects.openProjects(operator, page);
      const [start, end] = [projects[0], projects.at(-1)];
      return {
        projects,
        total,
        pageInfo: {
          startCursor: start ? cursorOf(start) : null,
          endCursor: end ? cursorOf(end) : null,
          hasNextPage: hasNext,
          hasPreviousPage: after != null,
        },
      };
    },
  }),
  project: t.field({
    type: projectType,
    nullable: true,
    description: 'A project by its App ID; null if there is none.',
    args: { appId: t.arg.id({ required: true, description: 'The App ID.' }) },
    resolve: (_root, { appId }, { services, operator }) => services.projects.openProject(appId, operator),
  }),
}));
