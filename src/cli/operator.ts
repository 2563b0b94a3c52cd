import { Argument, type Command } from 'commander';
import { LOOPBACK } from '../config/config.js';
import { graphql, type ResultOf, type VariablesOf } from '../dashboard/documents.js';
import { LINK_MS } from '../domain/bounds.js';
import { inWords } from '../domain/figures.js';
import { OPERATOR_ROLES, ROLE_MEANINGS } from '../domain/operator-roles.js';
import type { OperatorRole } from '../domain/operators.js';
import { COMMAND } from '../errors.js';
import { newestOption, numberArgument, option, required, requireOneOf } from './arguments.js';
import type { CommandContext, Tools } from './rows.js';

const OPERATOR = graphql(`fragment OperatorRow on Operator { name role projects { appId } }`);

const ADD = graphql(
  `mutation AddOperator($name: String!, $role: OperatorRole!, $appIds: [ID!]) {
    addOperator(name: $name, role: $role, appIds: $appIds) { ...OperatorRow }
  }`,
  [OPERATOR],
);

const UPDATE = graphql(
  `mutation UpdateOperator($name: String!, $input: UpdateOperatorInput!) {
    updateOperator(name: $name, input: $input) { ...OperatorRow }
  }`,
  [OPERATOR],
);

const REMOVE = graphql(`mutation RemoveOperator($name: String!) { removeOperator(name: $name) }`);

const ROLE: Parameters<typeof option> = [
  '--role <ROLE>',
  OPERATOR_ROLES.map((role) => `${role} ${ROLE_MEANINGS[role]}`).join('; '),
];

/** A role as the schema names it. */
const roleOf = (role: OperatorRole) => role.toUpperCase() as Uppercase<OperatorRole>;

/** May be given several times. */
const projectsOption = () =>
  option('--project <APP_ID>', 'a project to which the person is limited; can be repeated').argParser(
    (appId, before: readonly string[] = []) => [...before, appId],
  );

const operatorJson = ({ name, role, projects }: ResultOf<typeof OPERATOR>) => ({
  name,
  role: role.toLowerCase() as OperatorRole,
  projects: projects === null ? null : projects.map(({ appId }) => appId),
});

const scopeInWords = (projects: readonly string[] | null) =>
  projects === null ? 'in all projects' : `in ${projects.join(', ') || 'no project'}`;

const ADMINS = graphql(`query Admins { operators { role projects { appId } } }`);

/** Warns after the last admin of all projects is gone: nobody can then add or change operators in the dashboard. */
async function warnWithoutAdmin({ ask, notice }: Tools): Promise<void> {
  const operators = await ask(ADMINS, {});
  if (operators.some(({ role, projects }) => role === 'ADMIN' && projects === null)) return;
  notice(
    `No admin of all projects is left: nobody can change operators in the dashboard. To make one, run ${COMMAND} operator update NAME --role admin --all-projects, or ${COMMAND} operator add NAME --role admin`,
  );
}

export function addOperatorCommands(program: Command, context: CommandContext): void {
  const { row, rows, act } = context;
  const parent = program.command('operator').description('say who may use the dashboard, and see what they did there');
  row(parent, {
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
    ],
    variables: (name: string, { role, project = null }) => ({ name, role: roleOf(role), appIds: project }),
    document: ADD,
    pick: operatorJson,
    print: ({ name, role, projects }) =>
      `Added ${name} as ${role} ${scopeInWords(projects)}. Make a link to sign in: ${COMMAND} dashboard --operator ${name}`,
  });
  act(parent, {
    name: 'operator update',
    description: 'change the role, the name or the projects of a person, from their next request on',
    examples: [
      'operator update grace --role viewer',
      'operator update grace --project app_1 --project app_3',
      'operator update grace --name grace.h --all-projects',
    ],
    takes: [
      new Argument('<OPERATOR>', 'the name of the person'),
      option(...ROLE).choices(OPERATOR_ROLES),
      option('--name <NEW>', 'another name; the entries that exist keep the old one'),
      projectsOption(),
      option('--all-projects', 'limit the person to no project').conflicts('project'),
    ],
    variables: (operator: string, { name, role, project, allProjects }, command: Command) => ({
      name: operator,
      input: requireOneOf(command, { name, role: role && roleOf(role), appIds: allProjects ? null : project }),
    }),
    act: async (tools, variables) => {
      const updated = await tools.ask(UPDATE, variables);
      await warnWithoutAdmin(tools);
      return operatorJson(updated);
    },
    print: ({ name, role, projects }) => `${name} is ${role} ${scopeInWords(projects)}.`,
  });
  rows(parent, {
    name: 'operator list',
    description: 'list the people who may use the dashboard',
    examples: ['operator list', 'operator list --json'],
    takes: [],
    document: graphql(
      `query ListOperators { operators { ...OperatorRow source created_at: createdAt last_seen_at: lastSeenAt } }`,
      [OPERATOR],
    ),
    row: (operator) => ({ ...operator, ...operatorJson(operator) }),
    columns: {
      Name: 'name',
      Role: 'role',
      Projects: ({ projects }) => (projects === null ? 'all' : projects.join(', ') || 'none'),
      Source: 'source',
      Created: 'created_at',
      'Last seen': (operator) => operator.last_seen_at ?? 'never',
    },
    none: `There is no operator yet. Add one: ${COMMAND} operator add NAME --role admin`,
  });
  act(parent, {
    name: 'operator remove',
    description: 'remove a person, whose sessions and passkeys end at once',
    examples: ['operator remove bob'],
    takes: [new Argument('<NAME>', 'the name of the person')],
    act: async (tools, variables: VariablesOf<typeof REMOVE>) => {
      await tools.ask(REMOVE, variables);
      await warnWithoutAdmin(tools);
      return variables;
    },
    print: ({ name }) => `Removed ${name}.`,
  });
  addPasskeyCommands(parent, context);
  rows(parent, {
    name: 'operator log',
    description: 'list what was done beside the projects: logins, operators, refusals; oldest first',
    examples: ['operator log', 'operator log --limit 20 --json'],
    takes: [newestOption()],
    variables: ({ limit }) => ({ newest: limit }),
    document: graphql(`query ListLog($newest: Int!, $first: Int!, $after: String) {
      newestOfOperatorLog(newest: $newest, first: $first, after: $after) {
        nodes { id at actor request_id: requestId action details } pageInfo { endCursor hasNextPage }
      }
    }`),
    row: (entry) => ({ ...entry, details: JSON.parse(entry.details) }),
    columns: { At: 'at', Actor: 'actor', Action: 'action', Details: ({ details }) => JSON.stringify(details) },
    none: 'The log of the operators has no entries.',
  });
}

function addPasskeyCommands(parent: Command, { row, rows }: CommandContext): void {
  rows(parent, {
    name: 'operator passkeys',
    description: 'list the passkeys with which operators sign in, of one or of all, the newest first',
    examples: ['operator passkeys', 'operator passkeys ada --json'],
    takes: [new Argument('[NAME]', 'the name of the person')],
    document: graphql(`query ListPasskeys($name: String) {
      passkeys(operator: $name) { id operator name host created_at: createdAt last_used_at: lastUsedAt }
    }`),
    columns: {
      ID: 'id',
      Operator: 'operator',
      Name: 'name',
      'Works at': 'host',
      Created: 'created_at',
      'Last used': (passkey) => passkey.last_used_at ?? 'never',
    },
    none: 'There is no passkey. Operators add theirs in the dashboard.',
  });
  row(parent, {
    name: 'operator remove-passkey',
    description: 'remove a passkey, whose sessions end at once',
    examples: ['operator remove-passkey 7'],
    takes: [numberArgument('<PASSKEY_ID>', 'the ID of the passkey, as `operator passkeys` shows it')],
    document: graphql(`mutation RemovePasskey($passkeyId: ID!) { removePasskey(id: $passkeyId) { id name operator } }`),
    print: ({ id, name, operator }) => `Removed the passkey ${id} (${name}) of ${operator}.`,
  });
}

export function addDashboardCommand(program: Command, { row }: CommandContext): void {
  row(program, {
    name: 'dashboard',
    description: `make a link that logs an operator in to the dashboard, once, within ${inWords(LINK_MS)}`,
    examples: ['dashboard', 'dashboard --operator ada', 'dashboard --json'],
    takes: [
      option('--operator <NAME>', 'who logs in; without it you, and where there is no operator yet, you as admin'),
    ],
    document: graphql(`mutation CreateLink($operator: String) {
      createLoginLink(operator: $operator) { url expires_at: expiresAt }
    }`),
    print: ({ url, expires_at }) => `${url}\n\nIt works once, until ${expires_at}.${hintOf(url)}`,
  });
}

/** Browsers bind a passkey to a name, never to an address. */
function hintOf(url: string): string {
  const { hostname } = new URL(url);
  const isAddress = hostname !== 'localhost' && LOOPBACK.test(hostname.replace(/^\[|\]$/g, ''));
  return isAddress ? `\nFor a passkey, open it at localhost instead of ${hostname}.` : '';
}
