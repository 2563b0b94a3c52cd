import { Argument, type Command } from 'commander';
import { api, graphql, inProject, type ResultOf, type VariablesOf } from '../dashboard/documents.js';
import { MAX_IDS, MAX_REMOVED, METHODS_BY_PREFIX, MOST_BY_PREFIX } from '../domain/bounds.js';
import {
  CHANGEABLE,
  calledInSentence,
  hintOf,
  KEPT_FIELDS,
  KEPT_TEXTS,
  ofKeptLines,
  ofKeptTexts,
} from '../domain/kept-texts.js';
import { separated } from '../domain/spelling.js';
import { noUser } from '../domain/users.js';
import { AppError, type ErrorCode } from '../errors.js';
import {
  type CommandHelp,
  identityOptions,
  option,
  pageOptions,
  parseJson,
  projectOption,
  requireOneOf,
  userIdArgument,
  userIdsArgument,
} from './arguments.js';
import { addBanCommands } from './bans.js';
import type { Ask, Result } from './door.js';
import { addExportCommand } from './export.js';
import { addIdentityCommands, CURRENT_IDENTITY, IDENTITY, identityText } from './identities.js';
import { addImportCommand } from './import.js';
import type { CommandContext, Tools } from './rows.js';
import { fields, listTable } from './terminal.js';
import { addPurgeCommand } from './upkeep.js';
import { addListCommands, USER_COLUMNS } from './user-list.js';

export function addUserCommands(program: Command, context: CommandContext): void {
  const user = program
    .command('user')
    .description('find, import, export, change, link, merge, remove, restore, purge and ban users');
  addFindCommands(user, context);
  addListCommands(user, context);
  addImportCommand(user, context);
  addExportCommand(user, context);
  addChangeCommands(user, context);
  addPurgeCommand(user, context);
  addIdentityCommands(user, context);
  addBanCommands(user, context);
}

const USER = graphql(
  `fragment UserDetails on User {
    id auth_method: authMethod auth_value: authValue email wallet external_id: externalId
    created_at: createdAt last_login: lastLogin login_count: loginCount
    ban { createdAt expiresAt reason } removed_at: removedAt merged_into: mergedInto
    metadata identities { ...IdentityDetails } accounts { id network public_key: publicKey wallet_type: walletType }
  }`,
  [IDENTITY],
);

/** The same of a current user. */
const CURRENT = api(
  `fragment CurrentUser on User {
    id auth_method: authMethod auth_value: authValue email wallet external_id: externalId
    created_at: createdAt last_login: lastLogin login_count: loginCount
    ban { createdAt expiresAt reason }
    metadata identities { ...CurrentIdentity } accounts { id network public_key: publicKey wallet_type: walletType }
  }`,
  [CURRENT_IDENTITY],
);

function addFindCommands(user: Command, { row, rows, act }: CommandContext): void {
  row(user, {
    name: 'user get',
    description: 'show everything that is known of a user, also of a removed one',
    examples: ['user get --project app_1 42', 'user get --project app_1 42 --json'],
    takes: [userIdArgument(), projectOption()],
    document: graphql(
      `query GetUser($project: ID!, $userId: ID!) { project(appId: $project) { user(id: $userId) { ...UserDetails } } }`,
      [USER],
    ),
    pick(shown, { userId }) {
      if (shown === null) throw noUser(BigInt(userId));
      return flat(shown);
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
      ...identityOptions(),
      option(
        '--prefix <TEXT>',
        `users whose email, ID at a provider or external ID begins with this, the first ${MOST_BY_PREFIX} in alphabetical order; of IDs, under the first ${METHODS_BY_PREFIX} methods`,
      ),
      option('--removed', `removed users who are not erased yet, the last ${MAX_REMOVED}`),
    ],
    variables(any, { project, method, value, prefix, removed = false }, command) {
      const ways = [any, prefix, method ?? value].filter((way) => way !== undefined).length;
      if (ways !== 1 || (method === undefined) !== (value === undefined) || (prefix !== undefined && removed))
        command.error('error: give either ANY, or --method and --value, or --prefix, which finds current users only');
      return { project, any, method, value, prefix, removed };
    },
    act: searchUsers,
    print: (users, { prefix, removed }) =>
      listTable(users, {
        columns: { ...USER_COLUMNS, Created: 'created_at', State: stateOf },
        none: `No user matches.${prefix === undefined && !removed ? ' For the beginning of an email or an ID, use --prefix.' : ''}`,
      }),
    isFailure: (users) => users.length === 0,
  });
  rows(user, {
    name: 'user removed',
    description: 'list removed users who are not erased yet, the last removed first',
    examples: ['user removed --project app_1', 'user removed --project app_1 --limit 100 --json'],
    takes: [projectOption(), ...pageOptions()],
    document: graphql(
      `query RemovedUsers($project: ID!, $first: Int!, $after: String) {
        project(appId: $project) {
          removedUsers(first: $first, after: $after) { nodes { ...UserDetails } pageInfo { endCursor hasNextPage } }
        }
      }`,
      [USER],
    ),
    row: flat,
    things: 'removed users',
    columns: { ...USER_COLUMNS, Removed: 'removed_at' },
    none: 'No user is removed.',
  });
}

const MEANT = graphql(
  `query FindUsers($project: ID!, $any: String!, $removed: Boolean!) {
    project(appId: $project) { findUsers(any: $any, removed: $removed) { ...UserDetails } }
  }`,
  [USER],
);

const BEGINNING = inProject(
  api(
    `query UsersByPrefix($prefix: String!, $first: Int!) {
      usersByPrefix(prefix: $prefix, first: $first) { hasMore users { ...CurrentUser } }
    }`,
    [CURRENT],
  ),
);

const BY_IDENTITY = inProject(
  api(
    `query UserByIdentity($method: String!, $value: String!) {
      userByIdentity(authMethod: $method, authValue: $value) { ...CurrentUser }
    }`,
    [CURRENT],
  ),
);

const REMOVED_BY_IDENTITY = graphql(
  `query RemovedUsersByIdentity($project: ID!, $method: String!, $value: String!) {
    project(appId: $project) { removedUsersByIdentity(authMethod: $method, authValue: $value) { ...UserDetails } }
  }`,
  [USER],
);

/** One of three ways to search: by any value, by the beginning of one, or by an identity. */
interface SearchParams {
  readonly project: string;
  readonly removed: boolean;
  readonly any?: string;
  readonly prefix?: string;
  readonly method?: string;
  readonly value?: string;
}

async function searchUsers(
  { ask, notice }: Tools,
  { project, removed, any, prefix, method = '', value = '' }: SearchParams,
) {
  if (any !== undefined) return (await ask(MEANT, { project, any, removed })).map(flat);
  if (prefix === undefined && removed) return (await ask(REMOVED_BY_IDENTITY, { project, method, value })).map(flat);
  if (prefix === undefined) {
    const user = await ask(BY_IDENTITY, { project, method, value });
    return user === null ? [] : [flatCurrent(user)];
  }
  const { hasMore, users } = await ask(BEGINNING, { project, prefix, first: MOST_BY_PREFIX });
  if (hasMore)
    notice(
      users.length === MOST_BY_PREFIX
        ? `There may be more than ${MOST_BY_PREFIX} users. A longer beginning finds fewer.`
        : `Only IDs of the first ${METHODS_BY_PREFIX} login methods were searched. Others are found by --method and --value.`,
    );
  return users.map(flatCurrent);
}

const flatCurrent = (user: ResultOf<typeof CURRENT>) => flat({ ...user, removed_at: null, merged_into: null });

/** A user as commands tell it: a ban is some fields, and nothing is in capital letters. */
function flat({ ban, removed_at, merged_into, metadata, identities, accounts, ...user }: ResultOf<typeof USER>) {
  return {
    ...user,
    banned: ban !== null,
    metadata,
    identities,
    banned_at: ban?.createdAt ?? null,
    banned_until: ban?.expiresAt ?? null,
    ban_reason: ban?.reason ?? null,
    removed_at,
    merged_into,
    accounts: accounts.map((account) => ({
      ...account,
      network: account.network.toLowerCase(),
      wallet_type: account.wallet_type.toLowerCase(),
    })),
  };
}

type ShownUser = ReturnType<typeof flat>;

function stateOf({ banned_at, banned_until, ban_reason, removed_at, merged_into }: ShownUser): string {
  const ban = `banned ${banned_at}${banned_until ? ` until ${banned_until}` : ''}${ban_reason ? ` (${ban_reason})` : ''}`;
  const states = [
    removed_at && `${merged_into ? `merged into user ${merged_into}` : 'removed'} ${removed_at}`,
    banned_at && ban,
  ].filter(Boolean);
  return states.length === 0 ? 'current' : states.join(', ');
}

const accountText = ({ network, public_key, wallet_type }: ShownUser['accounts'][number]) =>
  `${network} ${public_key} (${wallet_type})`;

function userFields(user: ShownUser): string {
  return fields([
    ['ID', user.id],
    ['Method', user.auth_method],
    ['Value', user.auth_value],
    ['Email', user.email ?? 'none'],
    ['Wallet', user.wallet ?? 'none'],
    ...Object.values(ofKeptLines((field, line) => [KEPT_TEXTS[field].label, user[line] ?? 'none'] as const)),
    ['Created', user.created_at],
    ['Last login', user.last_login ?? 'never'],
    ['Logins', user.login_count],
    ['State', stateOf(user)],
    ['Metadata', user.metadata ? JSON.stringify(user.metadata) : 'none'],
    ...user.identities.map((identity) => ['Identity', identityText(identity)] as const),
    ...user.accounts.map((account) => ['Account', accountText(account)] as const),
  ]);
}

const REMOVE = inProject(
  api(`mutation RemoveUsers($ids: [ID!]!) { removeUsers(ids: $ids) { outcomes { id code message } } }`),
);

const RESTORE = graphql(`mutation RestoreUsers($project: ID!, $ids: [ID!]!) {
  results: restoreUsers(appId: $project, ids: $ids) { id code message }
}`);

/** What changes several users, and says what became of each. */
type ChangeSeveral = (ask: Ask, several: VariablesOf<typeof RESTORE>) => Promise<Result<ResultOf<typeof RESTORE>>>;

const removeSeveral: ChangeSeveral = async (ask, several) => (await ask(REMOVE, several)).outcomes;
const restoreSeveral: ChangeSeveral = (ask, several) => ask(RESTORE, several);

/** Adds the commands that change users, remove them, restore them, and erase them. */
function addChangeCommands(user: Command, { row, act }: CommandContext): void {
  const emptied = <Given>(value: Given) => (value === '' ? null : value);
  function actOnEach(change: ChangeSeveral, done: string, help: CommandHelp): void {
    act(user, {
      ...help,
      act: (tools, users: Parameters<typeof changeEach>[2]) => changeEach(tools, change, users),
      print: (results) =>
        [results]
          .flat()
          .map(({ id, message }) => message ?? `${done} user ${id}.`)
          .join('\n'),
      isFailure: (results) => [results].flat().some((result) => 'message' in result),
    });
  }
  row(user, {
    name: 'user update',
    description: `change ${CHANGEABLE} of a user`,
    examples: [
      'user update --project app_1 42 --external-id customer-7',
      'user update --project app_1 42 --email ada@example.com --external-id ""',
      `user update --project app_1 42 --metadata '{"plan":"pro"}'`,
    ],
    takes: [
      userIdArgument(),
      projectOption(),
      option(
        '--email <EMAIL>',
        'the login email, by which the user logs in from then on if by email; "" takes it away',
      ),
      ...KEPT_FIELDS.map((field) => option(`--${separated(field, '-')} <TEXT>`, `${hintOf(field)}; "" takes it away`)),
      option('--metadata <JSON>', 'an object that your backend keeps; "" takes it away', parseJson),
    ],
    variables: (userId, { project, email, metadata, ...texts }, command) => ({
      project,
      userId,
      input: requireOneOf(command, {
        email: emptied(email),
        ...ofKeptTexts((field) => emptied(texts[field])),
        metadata: emptied(metadata),
      }),
    }),
    document: inProject(
      api(`mutation UpdateUser($userId: ID!, $input: UpdateUserInput!) {
        updateUser(id: $userId, input: $input) { user { id email external_id: externalId metadata } }
      }`),
    ),
    pick: ({ user }) => user,
    print: ({ id, email, metadata, ...kept }) => {
      const texts = Object.values(ofKeptLines((field, line) => `${calledInSentence(field)} ${kept[line] ?? 'none'}`));
      const has = new Intl.ListFormat('en').format([`the email ${email ?? 'none'}`, ...texts]);
      return `User ${id} has ${has}.${metadata ? ` Metadata: ${JSON.stringify(metadata)}` : ''}`;
    },
  });
  actOnEach(removeSeveral, 'Removed', {
    name: 'user remove',
    description: 'remove users from the project; the same identity may register again',
    examples: ['user remove --project app_1 42', 'user remove --project app_1 42 43 44'],
    takes: [userIdsArgument('the user IDs, one or several'), projectOption()],
  });
  actOnEach(restoreSeveral, 'Restored', {
    name: 'user restore',
    description: 'make removed users current again, before a purge erases them',
    examples: ['user restore --project app_1 42', 'user restore --project app_1 42 43 44'],
    takes: [
      userIdsArgument('the user IDs, one or several, which `user removed` and the audit trail show'),
      projectOption(),
    ],
  });
}

/** What became of each user, or of the only one. A failure of one does not undo the others; a single one fails as the command does. */
async function changeEach(
  { ask, signal }: Tools,
  change: ChangeSeveral,
  { project, userId }: { readonly project: string; readonly userId: readonly string[] },
) {
  const results: { readonly id: string; readonly code?: string; readonly message?: string }[] = [];
  while (results.length < userId.length) {
    signal.throwIfAborted();
    const ids = userId.slice(results.length, results.length + MAX_IDS);
    for (const { code, message, id } of await change(ask, { project, ids })) {
      if (code !== null && (userId.length === 1 || !['NOT_FOUND', 'CONFLICT'].includes(code)))
        throw new AppError(code as ErrorCode, message ?? '');
      results.push({ id, ...(code !== null && { code, message: message ?? '' }) });
    }
  }
  return userId.length === 1 ? (results[0] as (typeof results)[number]) : results;
}
