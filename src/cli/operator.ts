import { Argument, type Command } from 'commander';
import { OPERATOR_ROLES, type OperatorLogEntry, type OperatorRole } from '../domain/operators.js';
import { COMMAND } from '../errors.js';
import { jsonOption, newestOption, required } from './arguments.js';
import { type OperationContext, readPages } from './operation.js';
import type { CommandContext } from './run.js';
import { listTable } from './terminal.js';

export function addOperatorCommands(program: Command, { define, list }: CommandContext): void {
  const parent = program.command('operator').description('say who may use the dashboard, and see what they did there');
  define(parent, {
    name: 'operator add',
    description: 'add a person who may use the dashboard',
    examples: ['operator add ada --role admin', 'operator add bob --role viewer'],
    takes: [
      new Argument('<NAME>', 'the name of the person in the audit trail'),
      required(
        '--role <ROLE>',
        'viewer reads; support also edits, removes and bans users; admin does everything',
      ).choices(OPERATOR_ROLES),
      jsonOption(),
    ],
    run: async ({ services, operator }, params: { name: string; role: OperatorRole }) => {
      const { name, role } = await services.operators.addOperator(operator, params.name, params.role);
      return { name, role };
    },
    print: ({ name, role }) =>
      `Added ${name} as ${role}. Make a link to log in: ${COMMAND} dashboard --operator ${name}`,
  });
  define(parent, {
    name: 'operator list',
    description: 'list the people who may use the dashboard',
    examples: ['operator list', 'operator list --json'],
    takes: [jsonOption()],
    run: async ({ services, operator }) =>
      (await services.operators.listOperators(operator)).map(({ name, role, source, createdAt, lastSeenAt }) => ({
        name,
        role,
        source,
        created_at: createdAt,
        last_seen_at: lastSeenAt,
      })),
    print: (operators) =>
      listTable(operators, {
        head: ['Name', 'Role', 'Source', 'Created', 'Last seen'],
        cells: (each) => [each.name, each.role, each.source, each.created_at, each.last_seen_at ?? 'never'],
        none: `There is no operator yet. Add one: ${COMMAND} operator add NAME --role admin`,
      }),
  });
  define(parent, {
    name: 'operator remove',
    description: 'remove a person, whose sessions end at once',
    examples: ['operator remove bob'],
    takes: [new Argument('<NAME>', 'the name of the person'), jsonOption()],
    run: async ({ services, operator }, { name }: { name: string }) => {
      await services.operators.removeOperator(operator, name);
      return { name };
    },
    print: ({ name }) => `Removed ${name}.`,
  });
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
