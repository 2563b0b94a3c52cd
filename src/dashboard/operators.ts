import { VERSION } from '../config/build.js';
import { IDLE_MS, LINK_MS, MAX_LISTED } from '../domain/bounds.js';
import { cursor } from '../domain/cursors.js';
import { inWords } from '../domain/figures.js';
import {
  type KnownOperator,
  loginLink,
  OPERATOR_WORDS,
  type OperatorLogEntry,
  type OperatorSession,
  permissionsOf,
  requirePermission,
} from '../domain/operators.js';
import { parse, readId } from '../domain/parse.js';
import { AppError } from '../errors.js';
import { instantOrNull, orNull, required, withDefault } from '../graphql/shared.js';
import { browserOf, builder, type DashboardContext, roleEnum } from './builder.js';
import { connectionType, firstArgument, readLimit, readNewest } from './paging.js';

const meType = builder.objectRef<DashboardContext>('Me').implement({
  description: 'The operator who asks, and what they may do.',
  fields: (t) => ({
    name: t.string({ description: 'Their name in the audit trail.', resolve: ({ operator }) => operator.name }),
    role: t.field({ type: roleEnum, description: 'Their role.', resolve: ({ operator }) => operator.role }),
    can: t.stringList({
      description: 'What they may do, such as `ban`: what a page need not show is what is not here.',
      resolve: ({ operator }) => permissionsOf(operator),
    }),
    sessionId: t.id({ description: 'The session.', resolve: (context) => browserOf(context).session.id }),
    expiresAt: t.field({
      type: 'DateTime',
      description: 'When the session ends, however much it is used.',
      resolve: (context) => browserOf(context).session.expiresAt,
    }),
    idleMinutes: t.int({
      description: 'After how many minutes without a request the session ends.',
      resolve: () => IDLE_MS / 60_000,
    }),
    version: t.string({ description: 'The version of the service.', resolve: () => VERSION }),
  }),
});

const operatorProjectType = builder
  .objectRef<NonNullable<KnownOperator['projects']>[number]>('OperatorProject')
  .implement({
    description: 'A project to which an operator is limited.',
    fields: (t) => ({
      appId: t.exposeID('appId', { description: 'Its App ID.' }),
      name: t.exposeString('name', { description: 'Its name for people.' }),
    }),
  });

const operatorType = builder.objectRef<KnownOperator>('Operator').implement({
  description: 'A person who may use the dashboard.',
  fields: (t) => ({
    name: t.exposeString('name', { description: 'Their name in the audit trail.' }),
    role: t.expose('role', { type: roleEnum, description: 'What they may do.' }),
    projects: t.expose('projects', {
      type: [operatorProjectType],
      nullable: true,
      description: 'The projects to which they are limited, oldest first; null: all projects are theirs.',
    }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When they were added.' }),
    lastSeenAt: t.expose(
      'lastSeenAt',
      instantOrNull('Their last request, to about a minute; null if they never signed in.'),
    ),
    source: t.exposeString('source', {
      description:
        '`added` by an operator or a command, or `sso`: by the single sign-on, which decides their role at each login.',
    }),
  }),
});

const sessionType = builder.objectRef<OperatorSession>('Session').implement({
  description: 'A session of the dashboard that has not ended.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'Its id.' }),
    operator: t.exposeString('operator', { description: 'The name of its operator.' }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When the operator signed in.' }),
    lastSeenAt: t.expose('lastSeenAt', { type: 'DateTime', description: 'Its last request, to about a minute.' }),
    expiresAt: t.expose('expiresAt', { type: 'DateTime', description: 'When it ends at the latest.' }),
    by: t.exposeString('by', {
      description:
        'How the operator signed in: by `link`, by `passkey`, or by `link or sso` if they are of the single sign-on.',
    }),
    userAgent: t.exposeString('userAgent', { description: 'What the browser calls itself.' }),
    current: t.boolean({
      description: 'Whether it is the session of this request.',
      resolve: ({ id }, _args, { browser }) => id === browser?.session.id,
    }),
  }),
});

const logEntryType = builder.objectRef<OperatorLogEntry>('OperatorLogEntry').implement({
  description: 'Something that was done beside the projects: a login, a change of the operators, a refusal.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'Its id, for `before`.' }),
    at: t.expose('at', { type: 'DateTime', description: 'When it was done.' }),
    actor: t.exposeString('actor', { description: 'Who did it: `operator:NAME`, or `unknown` for a refused login.' }),
    action: t.exposeString('action', { description: 'What was done, such as `add_operator`.' }),
    words: t.string({
      description: 'The action in words, after the name of who did it.',
      resolve: ({ action }) => OPERATOR_WORDS[action],
    }),
    requestId: t.exposeString('requestId', orNull('The id of the request; null for a command.')),
    details: t.string({ description: 'More about it, as JSON.', resolve: ({ details }) => JSON.stringify(details) }),
  }),
});

const afterArgument = cursor('after', 'the log of operators');

const logConnectionType = connectionType('OperatorLogConnection', logEntryType, {
  description: 'A page of what was done beside the projects.',
});

builder.queryFields((t) => ({
  newestOfOperatorLog: t.field({
    type: logConnectionType,
    description:
      'The newest entries of what was done beside the projects, the oldest of them first. Needs an ADMIN of all projects.',
    args: {
      newest: t.arg.int(withDefault(1_000, 'How many entries on all pages together, if no more are added meanwhile.')),
      first: t.arg.int(firstArgument(50)),
      after: t.arg.string({ description: 'A cursor: only entries after it, which are newer.' }),
    },
    resolve: async (_root, { newest, first, after }, { services: { operators }, operator }) => {
      const limit = readLimit('first', first);
      const start =
        after == null ? await operators.findLogStart(operator, readNewest(newest)) : parse(afterArgument, after).id;
      const entries = await operators.listLogAfter(operator, start, limit + 1);
      return { nodes: entries.slice(0, limit), hasNextPage: entries.length > limit, hasPreviousPage: after != null };
    },
  }),
  me: t.field({
    type: meType,
    description: 'The operator who asks.',
    resolve: (_root, _args, context) => context,
  }),
  operators: t.field({
    type: [operatorType],
    description: 'All operators, by name. Needs an ADMIN of all projects.',
    resolve: (_root, _args, { services, operator }) => services.operators.listOperators(operator),
  }),
  sessions: t.field({
    type: [sessionType],
    description: `The sessions of this operator, or for an ADMIN of all projects all, the last used first; at most ${MAX_LISTED}.`,
    resolve: (_root, _args, { services, operator }) => services.operators.listSessions(operator),
  }),
  operatorLog: t.field({
    type: [logEntryType],
    description: 'What was done beside the projects, newest first. Needs an ADMIN of all projects.',
    args: {
      first: t.arg.int(firstArgument(50)),
      before: t.arg.id({ description: 'Only entries before the one with this id.' }),
    },
    resolve: (_root, { first, before }, { services, operator }) =>
      services.operators.listLog(operator, before == null ? null : readId('before', before), readLimit('first', first)),
  }),
}));

const nameArgument = required('The name of the operator.');
const roleArgument = { type: roleEnum, required: true, description: 'What they may do.' } as const;

const linkType = builder.objectRef<{ url: string; expiresAt: string }>('LoginLink').implement({
  description: 'A link that signs an operator in, once.',
  fields: (t) => ({
    url: t.exposeString('url', { description: 'The link. It is shown this once.' }),
    expiresAt: t.expose('expiresAt', { type: 'DateTime', description: 'Until when it can be used.' }),
  }),
});

const updateInput = builder.inputType('UpdateOperatorInput', {
  description: 'What to change of an operator. An absent field stays as it is.',
  fields: (t) => ({
    name: t.string({ description: 'Another name. The entries that exist keep the old one.' }),
    role: t.field({ type: roleEnum, description: 'Another role.' }),
    appIds: t.idList({ description: 'The App IDs of the projects to which they are limited; null for all.' }),
  }),
});

builder.mutationFields((t) => ({
  logOut: t.boolean({
    description: 'Ends this session.',
    resolve: async (_root, _args, context) => {
      const { session, forgetSession } = browserOf(context);
      await context.services.operators.logOut(session, context.requestId);
      forgetSession();
      return true;
    },
  }),
  revokeSession: t.boolean({
    description: 'Ends a session: one’s own, or for an ADMIN of all projects any. NOT_FOUND.',
    args: { id: t.arg.id(required('The id of the session.')) },
    resolve: async (_root, { id }, { services, operator, requestId }) => {
      await services.operators.revokeSession(operator, readId('id', id), requestId);
      return true;
    },
  }),
  addOperator: t.field({
    type: operatorType,
    description:
      'Adds an operator. Needs an ADMIN of all projects. NOT_FOUND; BAD_USER_INPUT; CONFLICT if there is one of this name.',
    args: {
      name: t.arg.string(nameArgument),
      role: t.arg(roleArgument),
      appIds: t.arg.idList({ description: 'The App IDs of the projects to which they are limited; null for all.' }),
    },
    resolve: (_root, { name, role, appIds }, { services, operator, requestId }) =>
      services.operators.addOperator(operator, name, role, { appIds: appIds ?? null, requestId }),
  }),
  updateOperator: t.field({
    type: operatorType,
    description:
      'Changes another operator, in effect from their next request on. Needs an ADMIN of all projects. NOT_FOUND; BAD_USER_INPUT; CONFLICT for oneself, or if another operator has the name.',
    args: {
      name: t.arg.string(nameArgument),
      input: t.arg({ type: updateInput, required: true, description: 'What to change.' }),
    },
    resolve: (_root, { name, input }, context) => {
      const { services, operator, requestId } = context;
      refuseOneself(context, name);
      const { appIds } = input;
      const changes = { name: input.name ?? undefined, role: input.role ?? undefined, appIds };
      return services.operators.updateOperator(operator, name, changes, requestId);
    },
  }),
  removeOperator: t.boolean({
    description:
      'Removes another operator, whose sessions end at once. Needs an ADMIN of all projects. NOT_FOUND; CONFLICT for oneself.',
    args: { name: t.arg.string(nameArgument) },
    resolve: async (_root, { name }, context) => {
      const { services, operator, requestId } = context;
      refuseOneself(context, name);
      await services.operators.removeOperator(operator, name, requestId);
      return true;
    },
  }),
  createLoginLink: t.field({
    type: linkType,
    description: `Makes a link that signs an operator in, once, within ${inWords(LINK_MS)}. Where there is no operator yet, who asks is added as ADMIN. Needs an ADMIN of all projects. NOT_FOUND.`,
    args: { operator: t.arg.string({ description: 'The name of the operator; without it, who asks.' }) },
    resolve: async (_root, { operator: name }, { services: { operators }, operator, requestId, dashboardUrl }) => {
      if (dashboardUrl === null) throw dashboardIsOff();
      const link =
        name == null
          ? await operators.createFirstLink(operator, requestId)
          : await operators.createLink(operator, name, requestId);
      return { url: loginLink(dashboardUrl, link), expiresAt: link.expiresAt };
    },
  }),
}));

export function dashboardIsOff(): AppError {
  return new AppError('CONFLICT', 'The dashboard is off: set DASHBOARD=on, for the service and for this command.');
}

/** So that an admin of all projects always remains. The command can remove anyone. Who is none lacks the permission, and that is recorded. */
function refuseOneself({ operator, browser }: DashboardContext, name: string): void {
  requirePermission(operator, 'govern');
  if (browser === null || name.toLowerCase() !== operator.name) return;
  throw new AppError('CONFLICT', 'You cannot change or remove yourself: ask another admin, or use the command.');
}
