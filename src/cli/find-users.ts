import { Argument, type Command, InvalidArgumentError } from 'commander';
import { METHODS_BY_PREFIX, MOST_BY_PREFIX, type Position, userFilter } from '../domain/filters.js';
import { parseIdentity, snakeCase } from '../domain/identities.js';
import { noUser, type User, type UserDetails } from '../domain/users.js';
import {
  jsonOption,
  jsonReportOption,
  option,
  parseLimit,
  parseSince,
  projectOption,
  required,
  userIdArgument,
} from './arguments.js';
import { type Io, type OperationContext, PAGE_ROWS } from './operation.js';
import type { CommandContext } from './run.js';
import { counted, fields, listTable, writeNotice } from './terminal.js';

export function addLookupCommands(user: Command, { define, list }: CommandContext): void {
  define(user, {
    name: 'user get',
    description: 'show everything that is known of a user, also of a removed one',
    examples: ['user get --project app_1 42', 'user get --project app_1 42 --json'],
    takes: [userIdArgument(), projectOption(), jsonOption()],
    run: getUser,
    print: userFields,
  });
  define(user, {
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
    params: (any: string | undefined, { project, ...options }, command: Command): SearchParams => {
      const { method, value, prefix, removed = false } = options;
      const ways = [any, prefix, method ?? value].filter((way) => way !== undefined).length;
      if (ways !== 1 || (method === undefined) !== (value === undefined) || (prefix !== undefined && removed))
        command.error('error: give either ANY, or --method and --value, or --prefix, which finds current users only');
      return { project, any, method, value, prefix, removed };
    },
    run: searchUsers,
    print: (users, { prefix, removed }) =>
      listTable(users, {
        head: ['ID', 'Method', 'Value', 'Email', 'Created', 'State'],
        cells: (each) => [each.id, each.auth_method, each.auth_value, each.email ?? '', each.created_at, stateOf(each)],
        none: `No user matches.${prefix === undefined && !removed ? ' For the beginning of an email or an ID, use --prefix.' : ''}`,
      }),
    isFailure: (users) => users.length === 0,
  });
  list(user, {
    name: 'user removed',
    description: 'list removed users who are not erased yet, the last removed first',
    examples: ['user removed --project app_1', 'user removed --project app_1 --limit 100 --json'],
    takes: [
      projectOption(),
      option('--limit <N>', 'one page of at most this many; without it, all', parseLimit),
      option('--after <CURSOR>', 'the page after an earlier one, which told its cursor on stderr'),
      jsonOption(),
    ],
    params: ({ project, limit = null, after = null }): RemovedParams => ({ project, limit, after }),
    read: readRemoved,
    head: ['ID', 'Method', 'Value', 'Email', 'Removed'],
    cells: ({ id, auth_method, auth_value, email, removed_at }) => [
      id,
      auth_method,
      auth_value,
      email ?? '',
      removed_at ?? '',
    ],
    none: 'No user is removed.',
    tellNext: (next) => {
      if (next !== null) writeNotice(`There are more removed users. The next page: --after ${next}`);
    },
  });
}

async function* readRemoved({ services, operator }: OperationContext, { project, limit, after }: RemovedParams) {
  const scope = await services.projects.getScope(project, operator);
  let next = after;
  let left = limit ?? Number.POSITIVE_INFINITY;
  do {
    const page = await services.users.listRemoved(scope, {
      after: next,
      limit: Math.min(left, PAGE_ROWS),
      order: 'newest first',
    });
    yield page.users.map(toJson);
    left -= page.users.length;
    next = page.next;
  } while (next !== null && left > 0);
  return next;
}

interface RemovedParams {
  readonly project: string;
  readonly limit: number | null;
  readonly after: string | null;
}

const INACTIVE_HELP = `
Each line is one JSON object, newest user first. A user who never logged in counts by the registration:
  {"id":42,"auth_method":"email","auth_value":"ada@example.com","email":"ada@example.com","external_id":null,
   "created_at":"2026-01-31T12:00:00.000Z","last_login":null,"login_count":0}   (on one line)`;

export function addInactiveCommand(user: Command, { define }: CommandContext): void {
  define(user, {
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
    isLive: true,
    run: writeInactive,
    print: ({ inactive, since }) => `${counted(inactive, 'user')} without a login since ${since}.`,
    tellsOnStderr: true,
  });
}

/** Since an instant that is to come, all users would be inactive. */
function parsePast(text: string): string {
  const since = parseSince(text);
  if (Date.parse(since) <= Date.now()) return since;
  throw new InvalidArgumentError('Expected a time that is past.');
}

/** How many users one read may return. */
const INACTIVE_PAGE = 1_000;

async function writeInactive(
  { services, operator }: OperationContext,
  { project, since }: { project: string; since: string },
  { write, progress, signal }: Io,
) {
  const scope = await services.projects.getScope(project, operator);
  const state = { lastLoginBefore: new Date(since), lastLoginAfter: null, banned: null };
  const window = { before: null, from: 'newest', limit: INACTIVE_PAGE, withAccounts: false } as const;
  const report = { inactive: 0, since };
  for (let after: Position | null = null, hasMore = true; hasMore; ) {
    const page = await services.users.scanWindow(scope, userFilter({}), state, { ...window, after });
    signal.throwIfAborted();
    if (page.users.length > 0) await write(page.users.map((user) => `${JSON.stringify(toLine(user))}\n`).join(''));
    report.inactive += page.users.length;
    progress({ done: report.inactive });
    ({ end: after, hasMore } = page);
  }
  return report;
}

function toLine(user: User) {
  return {
    id: user.id,
    auth_method: user.authMethod,
    auth_value: user.authValue,
    email: user.loginEmail,
    external_id: user.externalId,
    created_at: user.createdAt,
    last_login: user.lastLogin,
    login_count: user.loginCount,
  };
}

async function getUser({ services, operator }: OperationContext, params: { project: string; userId: string }) {
  const id = BigInt(params.userId);
  const user = await services.users.describeUser(await services.projects.getScope(params.project, operator), id);
  if (user === null) throw noUser(id);
  return toJson(user);
}

type SearchParams = Record<'any' | 'method' | 'value' | 'prefix', string | undefined> & {
  project: string;
  removed: boolean;
};

async function searchUsers(
  { services: { projects, users }, operator }: OperationContext,
  params: SearchParams,
  io: Io,
) {
  const { any, method = '', value = '', prefix, removed } = params;
  const scope = await projects.getScope(params.project, operator);
  if (any !== undefined) return (await users.searchAny(scope, any, removed)).map(toJson);
  if (prefix === undefined) {
    const identity = parseIdentity({ authMethod: method, authValue: value }, snakeCase);
    return (await users.searchIdentity(scope, identity, removed)).map(toJson);
  }
  const found = await users.searchPrefix(scope, prefix);
  if (found.users.length === MOST_BY_PREFIX && found.hasMore)
    io.notice(`There may be more than ${MOST_BY_PREFIX} users. A longer beginning finds fewer.`);
  else if (found.hasMore)
    io.notice(
      `Only IDs of the first ${METHODS_BY_PREFIX} login methods were searched. Others are found by --method and --value.`,
    );
  return found.users.map(toJson);
}

function toJson(user: UserDetails) {
  return {
    id: user.id,
    auth_method: user.authMethod,
    auth_value: user.authValue,
    email: user.loginEmail,
    wallet: user.wallet,
    external_id: user.externalId,
    created_at: user.createdAt,
    last_login: user.lastLogin,
    login_count: user.loginCount,
    banned: user.ban !== null,
    banned_at: user.ban?.createdAt ?? null,
    banned_until: user.ban?.expiresAt ?? null,
    ban_reason: user.ban?.reason ?? null,
    removed_at: user.removedAt,
    accounts: user.accounts.map(({ id, network, publicKey, walletType }) => ({
      id,
      network,
      public_key: publicKey,
      wallet_type: walletType,
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
