import { Argument, type Command } from 'commander';
import { type KnownOperator, OPERATOR_ROLES, type OperatorLogEntry, type OperatorRole } from '../domain/operators.js';
import { COMMAND } from '../errors.js';
import type { OperatorChanges } from '../projects/operators.js';
import { jsonOption, newestOption, option, required, requireOneOf } from './arguments.js';
import { type Io, type OperationContext, readPages } from './operation.js';
import { addPasskeyCommands } from './operator-passkeys.js';
import type { CommandContext } from './run.js';
import { listTable } from './terminal.js';

const ROLE: Parameters<typeof option> = [
  '--role <ROLE>',
  'viewer reads; support also edits, removes and bans users; admin does everything',
];

/** May be given several times. */
const projectsOption = () =>
  option('--project <APP_ID>', 'a project to which the person is limited; can be repeated').argParser(
    (appId, before: readonly string[] = []) => [...before, appId],
  );

const operatorJson = ({ name, role, projects }: KnownOperator) => ({
  name,
  role,
  projects: projects === null ? null : projects.map(({ appId }) => appId),
});

const inWords = (projects: readonly string[] | null) =>
  projects === null ? 'in all projects' : `in ${projects.join(', ') || 'no project'}`;

/** Warns after the last admin of all projects is gone: nobody can then add or change operators in the dashboard. */
async function warnWithoutAdmin({ services, operator }: OperationContext, io: Io): Promise<void> {
  const all = await services.operators.listOperators(operator);
  if (all.some(({ role, projects }) => role === 'admin' && projects === null)) return;
  io.notice(
    `No admin of all projects is left: nobody can change operators in the dashboard. To make one, run ${COMMAND} operator update NAME --role admin --all-projects, or ${COMMAND} operator add NAME --role admin`,
  );
}

export function addOperatorCommands(program: Command, context: CommandContext): void {
  const { define, list } = context;
  const parent = program.command('operator').description('say who may use the dashboard, and see what they did there');
  define(parent, {
    name: 'operator add',
    description: 'add a person who may use the dashboard',
    examples: [
      'operator add ada --role admin',
      'operator add bob --role viewer',
      'operator add grace --role support --project app_1 --project app_2',
    ],
    takes: [
      new Argument('<NAME>', 'the name of the person in the audit trail'),
      required(...ROLE).choices(OPERATOR_ROLES),
      projectsOption(),
      jsonOption(),
    ],
    run: async ({ services, operator }, params: { name: string; role: OperatorRole; project?: string[] }) => {
      const { name, role, project: appIds = null } = params;
      return operatorJson(await services.operators.addOperator(operator, name, role, { appIds }));
    },
    print: ({ name, role, projects }) =>
      `Added ${name} as ${role} ${inWords(projects)}. Make a link to sign in: ${COMMAND} dashboard --operator ${name}`,
  });
  define(parent, {
    name: 'operator update',
    description: 'change the role, the name or the projects of a person, from their next request on',
    examples: [
      'operator update grace --role viewer',
      'operator update grace --project app_1 --project app_3',
      'operator update grace --name grace.h --all-projects',
    ],
    takes: [
      new Argument('<NAME>', 'the name of the person'),
      option(...ROLE).choices(OPERATOR_ROLES),
      option('--name <NEW>', 'another name; the entries that exist keep the old one'),
      projectsOption(),
      option('--all-projects', 'limit the person to no project').conflicts('project'),
      jsonOption(),
    ],
    params: (operator: string, { name, role, project, allProjects }, command: Command) => ({
      operator,
      changes: requireOneOf(command, { name, role, appIds: allProjects ? null : project }) as OperatorChanges,
    }),
    run: async (context, { operator, changes }, io) => {
      const changed = await context.services.operators.updateOperator(context.operator, operator, changes);
      await warnWithoutAdmin(context, io);
      return operatorJson(changed);
    },
    print: ({ name, role, projects }) => `${name} is ${role} ${inWords(projects)}.`,
  });
  define(parent, {
    name: 'operator list',
    description: 'list the people who may use the dashboard',
    examples: ['operator list', 'operator list --json'],
    takes: [jsonOption()],
    run: async ({ services, operator }) =>
      (await services.operators.listOperators(operator)).map((each) => ({
        ...operatorJson(each),
        source: each.source,
        created_at: each.createdAt,
        last_seen_at: each.lastSeenAt,
      })),
    print: (operators) =>
      listTable(operators, {
        head: ['Name', 'Role', 'Projects', 'Source', 'Created', 'Last seen'],
        cells: ({ name, role, projects, source, ...at }) => [
          name,
          role,
          projects === null ? 'all' : projects.join(', ') || 'none',
          source,
          at.created_at,
          at.last_seen_at ?? 'never',
        ],
        none: `There is no operator yet. Add one: ${COMMAND} operator add NAME --role admin`,
      }),
  });
  define(parent, {
    name: 'operator remove',
    description: 'remove a person, whose sessions and passkeys end at once',
    examples: ['operator remove bob'],
    takes: [new Argument('<NAME>', 'the name of the person'), jsonOption()],
    run: async (context, { name }: { name: string }, io) => {
      await context.services.operators.removeOperator(context.operator, name);
      await warnWithoutAdmin(context, io);
      return { name };
    },
    print: ({ name }) => `Removed ${name}.`,
  });
  addPasskeyCommands(parent, context);
  list(parent, {
    name: 'operator log',
    description: 'list what was done beside the projects: logins, operators, refusals; oldest first',
    examples: ['operator log', 'operator log --limit 20 --json'],
    takes: [newestOption(), jsonOption()],
    read: readLog,
    head: ['At', 'Actor', 'Action', 'Details'],
    cells: ({ at, actor, action, details }) => [at, actor, action, JSON.stringify(details)],
    none: 'The log of the operators has no entries.',
  });
}

async function* readLog({ services, operator }: OperationContext, params: { limit: number }) {
  const { operators } = services;
  const start = await operators.findLogStart(operator, params.limit);
  const pages = readPages<OperatorLogEntry>(params.limit, (last, limit) =>
    operators.listLogAfter(operator, last?.id ?? start, limit),
  );
  for await (const page of pages)
    yield page.map(({ id, at, actor, requestId, action, details }) => ({
      id,
      at,
      actor,
      request_id: requestId,
      action,
      details,
    }));
}
