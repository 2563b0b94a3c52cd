import { Argument, type Command, InvalidArgumentError } from 'commander';
import { METHODS_BY_PREFIX, MOST_BY_PREFIX } from '../domain/filters.js';
import { noUser } from '../domain/users.js';
import {
  jsonOption,
  jsonReportOption,
  option,
  pageOptions,
  parseSince,
  projectOption,
  required,
  userIdArgument,
} from './arguments.js';
import { graphql, type ResultOf, type VariablesOf } from './graphql.js';
import { requireProject } from './project.js';
import type { CommandContext, Tools } from './rows.js';
import { counted, fields, listTable, tellNextPage, writeToStdout } from './terminal.js';

const USER = graphql(`fragment UserDetails on User {
  id auth_method: authMethod auth_value: authValue email wallet external_id: externalId
  created_at: createdAt last_login: lastLogin login_count: loginCount banned ban { createdAt expiresAt reason }
  removed_at: removedAt accounts { id network public_key: publicKey wallet_type: walletType }
}`);

export function addFindCommands(user: Command, { row, rows, act }: CommandContext): void {
  row(user, {
    name: 'user get',
    description: 'show everything that is known of a user, also of a removed one',
    examples: ['user get --project app_1 42', 'user get --project app_1 42 --json'],
    takes: [userIdArgument(), projectOption(), jsonOption()],
    document: graphql(
      `query GetUser($project: ID!, $userId: ID!) { project(appId: $project) { user(id: $userId) { ...UserDetails } } }`,
      [USER],
    ),
    pick({ project }, { project: appId, userId }) {
      const { user: shown } = requireProject(project, appId);
      if (shown === null) throw noUser(BigInt(userId));
      return toJson(shown);
    },
    print: userFields,
  });
  act(user, {
    name: 'user search',
    description:
      'find users by ID, external ID, email, address or identity, newest first, or by the beginning of such a text',
    examples: [
      'user search --project app_1 ada@example.com',
      'user search --project app_1 --prefix ada',
      'user search --project app_1 --method passkey --value cGFzc2tleQ',
      'user search --project app_1 --removed ada@example.com',
    ],
    takes: [
      new Argument('[ANY]', 'a user ID, an external ID, an email, an address, or the value of an identity'),
      projectOption(),
      option('--method <METHOD>', 'with --value: email, passkey, wallet, or the name of a social provider'),
      option('--value <VALUE>', 'the login email, the address, or the ID at the provider or of the passkey'),
      option(
        '--prefix <TEXT>',
        `users whose email, ID at a provider or external ID begins with this, the first ${MOST_BY_PREFIX} in alphabetical order; of IDs, under the first ${METHODS_BY_PREFIX} methods`,
      ),
      option('--removed', 'removed users who are not erased yet, the last 100'),
      jsonOption(),
    ],
    variables(any, { project, ...options }, command) {
      const { method, value, prefix, removed = false } = options;
      const ways = [any, prefix, method ?? value].filter((way) => way !== undefined).length;
      if (ways !== 1 || (method === undefined) !== (value === undefined) || (prefix !== undefined && removed))
        command.error('error: give either ANY, or --method and --value, or --prefix, which finds current users only');
      const how = { byAny: any !== undefined, byIdentity: method !== undefined, byPrefix: prefix !== undefined };
      return { project, any, method, value, prefix, removed, ...how };
    },
    act: searchUsers,
    print: (users, { prefix, removed }) =>
      listTable(users, {
        head: ['ID', 'Method', 'Value', 'Email', 'Created', 'State'],
        cells: (each) => [each.id, each.auth_method, each.auth_value, each.email ?? '', each.created_at, stateOf(each)],
        none: `No user matches.${prefix === undefined && !removed ? ' For the beginning of an email or an ID, use --prefix.' : ''}`,
      }),
    isFailure: (users) => users.length === 0,
  });
  rows(user, {
    name: 'user removed',
    description: 'list removed users who are not erased yet, the last removed first',
    examples: ['user removed --project app_1', 'user removed --project app_1 --limit 100 --json'],
    takes: [projectOption(), ...pageOptions(), jsonOption()],
    document: graphql(
      `query RemovedUsers($project: ID!, $first: Int!, $after: String) {
        project(appId: $project) {
          removedUsers(first: $first, after: $after) { nodes { ...UserDetails } pageInfo { endCursor hasNextPage } }
        }
      }`,
      [USER],
    ),
    limit: ({ limit }) => limit,
    page: (data, { project }) => requireProject(data.project, project).removedUsers,
    row: toJson,
    head: ['ID', 'Method', 'Value', 'Email', 'Removed'],
    cells: (each) => [each.id, each.auth_method, each.auth_value, each.email ?? '', each.removed_at ?? ''],
    none: 'No user is removed.',
    tellEnd: tellNextPage('removed users'),
  });
  act(user, {
    name: 'user inactive',
    description: 'write the users who have not logged in for some time to stdout as NDJSON',
    help: INACTIVE_HELP,
    examples: ['user inactive --project app_1 --since 90d > inactive.ndjson'],
    takes: [
      projectOption(),
      required('--since <TIME>', 'without a login since: a time such as 90d, or a date', parsePast),
      jsonReportOption(),
    ],
    unit: 'users',
    interrupted: 'Interrupted. The list is incomplete.',
    act: writeInactive,
    print: ({ inactive, since }) => `${counted(inactive, 'user')} without a login since ${since}.`,
    tellsOnStderr: true,
  });
}

const SEARCH = graphql(
  `query SearchUsers(
    $project: ID!, $removed: Boolean!, $any: String = "", $byAny: Boolean!, $prefix: String = "", $byPrefix: Boolean!
    $method: String = "", $value: String = "", $byIdentity: Boolean!
  ) {
    project(appId: $project) {
      findUsers(any: $any, removed: $removed) @include(if: $byAny) { ...UserDetails }
      usersByIdentity(authMethod: $method, authValue: $value, removed: $removed) @include(if: $byIdentity) { ...UserDetails }
      usersByPrefix(prefix: $prefix) @include(if: $byPrefix) { hasMore nodes { ...UserDetails } }
    }
  }`,
  [USER],
);

async function searchUsers({ ask, notice }: Tools, variables: VariablesOf<typeof SEARCH>) {
  const data = await ask(SEARCH, variables);
  const { findUsers, usersByIdentity, usersByPrefix } = requireProject(data.project, variables.project);
  const users = findUsers ?? usersByIdentity ?? usersByPrefix?.nodes ?? [];
  if (usersByPrefix?.hasMore)
    notice(
      users.length === MOST_BY_PREFIX
        ? `There may be more than ${MOST_BY_PREFIX} users. A longer beginning finds fewer.`
        : `Only IDs of the first ${METHODS_BY_PREFIX} login methods were searched. Others are found by --method and --value.`,
    );
  return users.map(toJson);
}

const INACTIVE_HELP = `
Each line is one JSON object, newest user first. A user who never logged in counts by the registration:
  {"id":42,"auth_method":"email","auth_value":"ada@example.com","email":"ada@example.com","external_id":null,
   "created_at":"2026-01-31T12:00:00.000Z","last_login":null,"login_count":0}   (on one line)`;

/** Since an instant that is to come, all users would be inactive. */
function parsePast(text: string): string {
  const since = parseSince(text);
  if (Date.parse(since) <= Date.now()) return since;
  throw new InvalidArgumentError('Expected a time that is past.');
}

const INACTIVE = graphql(`query InactiveUsers($project: ID!, $since: String!, $after: String) {
  project(appId: $project) {
    scanUsers(state: { lastLoginBefore: $since }, first: 100, after: $after) {
      nodes {
        id auth_method: authMethod auth_value: authValue email external_id: externalId
        created_at: createdAt last_login: lastLogin login_count: loginCount
      }
      endCursor
    }
  }
}`);

async function writeInactive(
  { ask, progress, signal }: Tools,
  { project, since }: { readonly project: string; readonly since: string },
) {
  const report = { inactive: 0, since };
  let after: string | null = null;
  do {
    const data: ResultOf<typeof INACTIVE> = await ask(INACTIVE, { project, since, after });
    const { nodes, endCursor } = requireProject(data.project, project).scanUsers;
    signal.throwIfAborted();
    const lines = nodes.map((each) => `${JSON.stringify({ ...each, id: Number(each.id) })}\n`);
    if (lines.length > 0) await writeToStdout(lines.join(''));
    report.inactive += lines.length;
    progress({ done: report.inactive });
    after = endCursor;
  } while (after !== null);
  return report;
}

/** A user as commands tell it: IDs are numbers, and nothing is in capital letters. */
function toJson({ id, ban, removed_at, accounts, ...user }: ResultOf<typeof USER>) {
  return {
    id: Number(id),
    ...user,
    banned_at: ban?.createdAt ?? null,
    banned_until: ban?.expiresAt ?? null,
    ban_reason: ban?.reason ?? null,
    removed_at,
    accounts: accounts.map(({ id: account, network, public_key, wallet_type }) => ({
      id: Number(account),
      network: network.toLowerCase(),
      public_key,
      wallet_type: wallet_type.toLowerCase(),
    })),
  };
}

type ShownUser = ReturnType<typeof toJson>;

function stateOf({ banned_at, banned_until, ban_reason, removed_at }: ShownUser): string {
  const ban = `banned ${banned_at}${banned_until ? ` until ${banned_until}` : ''}${ban_reason ? ` (${ban_reason})` : ''}`;
  const states = [removed_at && `removed ${removed_at}`, banned_at && ban].filter(Boolean);
  return states.length === 0 ? 'current' : states.join(', ');
}

function userFields(user: ShownUser): string {
  return fields([
    ['ID', String(user.id)],
    ['Method', user.auth_method],
    ['Value', user.auth_value],
    ['Email', user.email ?? 'none'],
    ['Wallet', user.wallet ?? 'none'],
    ['External ID', user.external_id ?? 'none'],
    ['Created', user.created_at],
    ['Last login', user.last_login ?? 'never'],
    ['Logins', String(user.login_count)],
    ['State', stateOf(user)],
    ...user.accounts.map(({ network, public_key, wallet_type }): [string, string] => [
      'Account',
      `${network} ${public_key} (${wallet_type})`,
    ]),
  ]);
}
