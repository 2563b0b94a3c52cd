import { type Command, Option } from 'commander';
import { OPERATOR_ROLES, type OperatorLogEntry, type OperatorRole } from '../domain/operators.js';
import { examples, jsonOption, parseLimit } from './arguments.js';
import { type OperationContext, readPages } from './operation.js';
import type { CommandContext } from './run.js';
import { table } from './terminal.js';

export function addOperatorCommands(program: Command, { operation, list: addList }: CommandContext): void {
  const operator = program
    .command('operator')
    .description('say who may use the dashboard, and see what they did there');

  const add = operation('operator add', addOperator);
  operator
    .command('add')
    .description('add a person who may use the dashboard')
    .addHelpText('after', examples('operator add ada --role admin', 'operator add bob --role viewer'))
    .argument('<NAME>', 'the name of the person in the audit trail')
    .addOption(
      new Option('--role <ROLE>', 'viewer reads; support also removes and bans users; admin does everything')
        .choices(OPERATOR_ROLES)
        .makeOptionMandatory(),
    )
    .addOption(jsonOption())
    .action(async (name: string, { role, ...options }) => {
      const print = (added: { name: string; role: string }) =>
        `Added ${added.name} as ${added.role}. Make a link to log in: userdir dashboard --operator ${added.name}`;
      await add({ name, role }, { ...options, print });
    });

  const list = operation('operator list', listOperators);
  operator
    .command('list')
    .description('list the people who may use the dashboard')
    .addHelpText('after', examples('operator list', 'operator list --json'))
    .addOption(jsonOption())
    .action(async (options) => {
      await list({}, { ...options, print: operatorTable });
    });

  const remove = operation('operator remove', removeOperator);
  operator
    .command('remove')
    .description('remove a person, whose sessions end at once')
    .addHelpText('after', examples('operator remove bob'))
    .argument('<NAME>', 'the name of the person')
    .addOption(jsonOption())
    .action(async (name: string, options) => {
      await remove({ name }, { ...options, print: (removed) => `Removed ${removed.name}.` });
    });

  const log = addList('operator log', readLog);
  operator
    .command('log')
    .description('list what was done beside the projects: logins, operators, refusals; oldest first')
    .addHelpText('after', examples('operator log', 'operator log --limit 20 --json'))
    .option('--limit <N>', 'at most this many of the newest entries', parseLimit, DEFAULT_LIMIT)
    .addOption(jsonOption())
    .action(async ({ limit, ...options }) => {
      await log(
        { limit },
        {
          ...options,
          head: ['At', 'Actor', 'Action', 'Details'],
          cells: ({ at, actor, action, details }) => [at, actor, action, JSON.stringify(details)],
          none: 'The log of the operators has no entries.',
        },
      );
    });
}

const DEFAULT_LIMIT = 1_000;

async function addOperator(
  { services, operator }: OperationContext,
  { name, role }: { name: string; role: OperatorRole },
) {
  const added = await services.operators.addOperator(operator, name, role);
  return { name: added.name, role: added.role };
}

async function listOperators({ services, operator }: OperationContext) {
  const operators = await services.operators.listOperators(operator);
  return operators.map(({ name, role, source, createdAt, lastSeenAt }) => ({
    name,
    role,
    source,
    created_at: createdAt,
    last_seen_at: lastSeenAt,
  }));
}

async function removeOperator({ services, operator }: OperationContext, { name }: { name: string }) {
  await services.operators.removeOperator(operator, name);
  return { name };
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

function operatorTable(operators: Awaited<ReturnType<typeof listOperators>>): string {
  if (operators.length === 0) return 'There is no operator yet. Add one: userdir operator add NAME --role admin';
  return table(
    ['Name', 'Role', 'Source', 'Created', 'Last seen'],
    operators.map(({ name, role, source, created_at, last_seen_at }) => [
      name,
      role,
      source,
      created_at,
      last_seen_at ?? 'never',
    ]),
  );
}
