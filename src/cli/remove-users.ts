import type { Command } from 'commander';
import type { ProjectScope } from '../domain/projects.js';
import { type ErrorCode, fromUnknown } from '../errors.js';
import { jsonOption, option, parseDuration, projectOption, required, userIdsArgument } from './arguments.js';
import { type Io, type OperationContext, progressOf } from './operation.js';
import type { CommandContext } from './run.js';
import { counted } from './terminal.js';

/** Adds the commands that remove users, restore them, and erase them. */
export function addRemovalCommands(user: Command, { define }: CommandContext): void {
  define(user, {
    name: 'user remove',
    description: 'remove users from the project; the same identity may register again',
    examples: ['user remove --project app_1 42', 'user remove --project app_1 42 43 44'],
    takes: [userIdsArgument('the user IDs, one or several'), projectOption(), jsonOption()],
    run: (context, params: UsersParams) =>
      actOnEach(context, params, (scope, id) => context.services.users.removeUser(scope, id, null)),
    print: (results) => inWords('Removed', results),
    isFailure: haveFailed,
  });
  define(user, {
    name: 'user restore',
    description: 'make removed users current again, before a purge erases them',
    examples: ['user restore --project app_1 42', 'user restore --project app_1 42 43 44'],
    takes: [
      userIdsArgument('the user IDs, one or several, which `user removed` and the audit trail show'),
      projectOption(),
      jsonOption(),
    ],
    run: (context, params: UsersParams) =>
      actOnEach(context, params, (scope, id) => context.services.users.restoreUser(scope, id)),
    print: (results) => inWords('Restored', results),
    isFailure: haveFailed,
  });
  define(user, {
    name: 'user purge',
    description: 'erase removed users permanently',
    examples: ['user purge --older-than 30d --dry-run', 'user purge --older-than 0s --project app_1'],
    takes: [
      required('--older-than <TIME>', 'only users removed longer ago than this, such as 30d', parseDuration),
      option('--project <APP_ID>', 'only users of this project'),
      option('--dry-run', 'count them and erase nothing'),
      jsonOption(),
    ],
    params: ({ project = null, olderThan, dryRun = false }) => ({ project, olderThanMs: olderThan, dryRun }),
    unit: 'users',
    interrupted: 'Interrupted. The users erased so far stay erased.',
    run: purgeUsers,
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
type UserResult = { readonly id: number } | { readonly id: number; readonly code: ErrorCode; readonly message: string };

/** Does something to each user in turn; a failure of one does not undo the others. A single one fails as the command does. */
async function actOnEach(
  { services, operator }: OperationContext,
  { project, userId }: UsersParams,
  act: (scope: ProjectScope, id: bigint) => Promise<unknown>,
): Promise<UserResult | UserResult[]> {
  const scope = await services.projects.getScope(project, operator);
  const results: UserResult[] = [];
  for (const id of userId) {
    const failure = await act(scope, BigInt(id)).then(
      () => null,
      (error: unknown) => fromUnknown(error),
    );
    const isOfUser = failure !== null && ['NOT_FOUND', 'CONFLICT'].includes(failure.code);
    if (failure !== null && (userId.length === 1 || !isOfUser)) throw failure;
    results.push({ id: Number(id), ...(failure && { code: failure.code, message: failure.publicMessage }) });
  }
  return userId.length === 1 ? (results[0] as UserResult) : results;
}

const inWords = (done: string, results: UserResult | UserResult[]): string =>
  [results]
    .flat()
    .map((each) => ('message' in each ? each.message : `${done} user ${each.id}.`))
    .join('\n');
const haveFailed = (results: UserResult | UserResult[]): boolean => [results].flat().some((each) => 'message' in each);

async function purgeUsers(
  { services, operator }: OperationContext,
  params: { project: string | null; olderThanMs: number; dryRun: boolean },
  { progress, signal }: Io,
): Promise<{ purged: number; would_purge?: number }> {
  const found = await findRemoved();
  const total = found.reduce((sum, { removed }) => sum + removed, 0);
  if (params.dryRun) return { purged: 0, would_purge: total };
  let purged = 0;
  for (const { scope } of found) {
    const before = purged;
    purged += await services.users.purgeRemoved(scope, params.olderThanMs, (purgedOfProject) => {
      const done = before + purgedOfProject;
      progress(progressOf(done, Math.max(done, total)));
      signal.throwIfAborted();
    });
  }
  return { purged };

  async function findRemoved() {
    if (params.project === null) return services.projects.openProjectsWithRemoved(operator, params.olderThanMs);
    const scope = await services.projects.getScope(params.project, operator);
    return [{ scope, removed: await services.users.countRemoved(scope, params.olderThanMs) }];
  }
}
