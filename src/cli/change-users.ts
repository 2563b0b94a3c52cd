import type { Command } from 'commander';
import { AppError, type ErrorCode } from '../errors.js';
import {
  jsonOption,
  option,
  parseDuration,
  projectOption,
  required,
  requireOneOf,
  userIdArgument,
  userIdsArgument,
} from './arguments.js';
import { type Document, graphql, type ResultOf, type VariablesOf } from './graphql.js';
import { appIdsOf, requireProject } from './project.js';
import type { CommandContext, Tools } from './rows.js';
import { counted, progressOf } from './terminal.js';

const REMOVE = graphql(`mutation RemoveUsers($project: ID!, $ids: [ID!]!) {
  results: removeUsers(appId: $project, ids: $ids) { code message }
}`);

const RESTORE = graphql(`mutation RestoreUsers($project: ID!, $ids: [ID!]!) {
  results: restoreUsers(appId: $project, ids: $ids) { code message }
}`);

/** Adds the commands that change users, remove them, restore them, and erase them. */
export function addChangeCommands(user: Command, { row, act }: CommandContext): void {
  const emptied = (text: string) => (text === '' ? null : text);
  row(user, {
    name: 'user update',
    description: 'change the login email or the external ID of a user, never the identity',
    examples: [
      'user update --project app_1 42 --external-id customer-7',
      'user update --project app_1 42 --email ada@example.com --external-id ""',
    ],
    takes: [
      userIdArgument(),
      projectOption(),
      option('--email <EMAIL>', 'the login email; "" takes it away'),
      option('--external-id <ID>', 'the ID in your own system; "" takes it away'),
      jsonOption(),
    ],
    variables: (userId, { project, email, externalId }, command) => ({
      ...{ project, userId },
      input: requireOneOf(command, { email: emptied(email), externalId: emptied(externalId) }),
    }),
    document: graphql(`mutation UpdateUser($project: ID!, $userId: ID!, $input: UpdateUserInput!) {
      updateUser(appId: $project, id: $userId, input: $input) { id email external_id: externalId }
    }`),
    pick: ({ updateUser }) => ({ ...updateUser, id: Number(updateUser.id) }),
    print: ({ id, email, external_id }) =>
      `User ${id} has the email ${email ?? 'none'} and the external ID ${external_id ?? 'none'}.`,
  });
  act(user, {
    name: 'user remove',
    description: 'remove users from the project; the same identity may register again',
    examples: ['user remove --project app_1 42', 'user remove --project app_1 42 43 44'],
    takes: [userIdsArgument('the user IDs, one or several'), projectOption(), jsonOption()],
    act: (tools, users: UsersParams) => actOnEach(tools, REMOVE, users),
    print: (results) => inWords('Removed', results),
    isFailure: haveFailed,
  });
  act(user, {
    name: 'user restore',
    description: 'make removed users current again, before a purge erases them',
    examples: ['user restore --project app_1 42', 'user restore --project app_1 42 43 44'],
    takes: [
      userIdsArgument('the user IDs, one or several, which `user removed` and the audit trail show'),
      projectOption(),
      jsonOption(),
    ],
    act: (tools, users: UsersParams) => actOnEach(tools, RESTORE, users),
    print: (results) => inWords('Restored', results),
    isFailure: haveFailed,
  });
  act(user, {
    name: 'user purge',
    description: 'erase removed users permanently',
    examples: ['user purge --older-than 30d --dry-run', 'user purge --older-than 0s --project app_1'],
    takes: [
      required('--older-than <TIME>', 'only users removed longer ago than this, such as 30d', parseDuration),
      option('--project <APP_ID>', 'only users of this project'),
      option('--dry-run', 'count them and erase nothing'),
      jsonOption(),
    ],
    variables: ({ project, olderThan, dryRun = false }) => ({ project, olderThan: olderThan / 1_000, dryRun }),
    unit: 'users',
    interrupted: 'Interrupted. The users erased so far stay erased.',
    act: purgeUsers,
    print: ({ purged, would_purge }) =>
      would_purge === undefined
        ? `Erased ${counted(purged, 'removed user')}.`
        : `Would erase ${counted(would_purge, 'removed user')}. Nothing was erased.`,
  });
}

interface UsersParams {
  readonly project: string;
  readonly userId: readonly string[];
}

/** What became of one of several users. */
interface UserResult {
  readonly id: number;
  readonly code?: string;
  readonly message?: string;
}

/** Does something to each user in turn; a failure of one does not undo the others. A single one fails as the command does. */
async function actOnEach(
  { ask, signal }: Tools,
  document: Document<ResultOf<typeof REMOVE>, VariablesOf<typeof REMOVE>>,
  { project, userId }: UsersParams,
): Promise<UserResult | UserResult[]> {
  const results: UserResult[] = [];
  for (const id of userId) {
    signal.throwIfAborted();
    const [{ code = null, message = null } = {}] = (await ask(document, { project, ids: [id] })).results;
    const failure = code !== null && message !== null && { code, message };
    if (failure && (userId.length === 1 || !['NOT_FOUND', 'CONFLICT'].includes(failure.code)))
      throw new AppError(failure.code as ErrorCode, failure.message);
    results.push({ id: Number(id), ...failure });
  }
  return userId.length === 1 ? (results[0] as UserResult) : results;
}

const inWords = (done: string, results: UserResult | UserResult[]): string =>
  [results]
    .flat()
    .map((each) => each.message ?? `${done} user ${each.id}.`)
    .join('\n');
const haveFailed = (results: UserResult | UserResult[]): boolean => [results].flat().some((each) => 'message' in each);

const REMOVED = graphql(`query CountRemoved($appId: ID!, $olderThan: Float!) {
  project(appId: $appId) { removedUserCount(olderThanSeconds: $olderThan) }
}`);

const PURGE = graphql(`mutation Purge($appId: ID!, $olderThan: Float!) {
  purgeRemovedUsers(appId: $appId, olderThanSeconds: $olderThan) { users done }
}`);

async function purgeUsers(
  { ask, progress, signal }: Tools,
  { project, olderThan, dryRun }: { project: string | undefined; olderThan: number; dryRun: boolean },
): Promise<{ purged: number; would_purge?: number }> {
  const removed = new Map<string, number>();
  for (const appId of await appIdsOf({ ask }, project)) {
    signal.throwIfAborted();
    const count = requireProject((await ask(REMOVED, { appId, olderThan })).project, appId).removedUserCount;
    if (count > 0 || project !== undefined) removed.set(appId, count);
  }
  const total = [...removed.values()].reduce((sum, count) => sum + count, 0);
  if (dryRun) return { purged: 0, would_purge: total };
  let purged = 0;
  for (const appId of removed.keys()) {
    for (let isDone = false; !isDone; ) {
      const { purgeRemovedUsers: part } = await ask(PURGE, { appId, olderThan });
      purged += part.users;
      isDone = part.done;
      progress(progressOf(purged, Math.max(purged, total)));
      signal.throwIfAborted();
    }
  }
  return { purged };
}
