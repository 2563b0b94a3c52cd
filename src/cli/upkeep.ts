import type { Command } from 'commander';
import { graphql, type ResultOf } from '../dashboard/documents.js';
import { counted } from '../errors.js';
import { option, parseDuration, parseWholeNumber, projectOption, projectOrAllOption, required } from './arguments.js';
import type { Result } from './door.js';
import { appIdsOf, type CommandContext, type Tools } from './rows.js';
import { partOf } from './terminal.js';

/* What takes long, and is therefore asked for part by part: a purge, the check of totals, made-up users. */

export function addPurgeCommand(user: Command, { act }: CommandContext): void {
  act(user, {
    name: 'user purge',
    description: 'erase removed users permanently',
    examples: ['user purge --older-than 30d --dry-run', 'user purge --older-than 0s --project app_1'],
    takes: [
      required('--older-than <TIME>', 'only users removed longer ago than this, such as 30d', parseDuration),
      projectOrAllOption('only users of this project'),
      option('--dry-run', 'count them and erase nothing'),
    ],
    variables: ({ project, olderThan, dryRun = false }) => ({ project, olderThan: olderThan / 1_000, dryRun }),
    unit: 'users',
    interrupted: 'Interrupted. The users erased so far stay erased.',
    act: purgeUsers,
    print({ purged, would_purge }, { project = 'all projects' }) {
      const users = `${counted(would_purge ?? purged, 'removed user')} of ${project}`;
      return would_purge === undefined ? `Erased ${users}.` : `Would erase ${users}. Nothing was erased.`;
    },
  });
}

const REMOVED = graphql(`query CountRemoved($project: ID!, $olderThan: Float!) {
  project(appId: $project) { removedUserCount(olderThanSeconds: $olderThan) }
}`);

const PURGE = graphql(`mutation Purge($project: ID!, $olderThan: Float!) {
  purgeRemovedUsers(appId: $project, olderThanSeconds: $olderThan) { users done }
}`);

async function purgeUsers(
  { ask, progress, signal }: Tools,
  { project: only, olderThan, dryRun }: { project: string | undefined; olderThan: number; dryRun: boolean },
): Promise<{ purged: number; would_purge?: number }> {
  const removed = new Map<string, number>();
  for (const project of await appIdsOf({ ask }, only)) {
    signal.throwIfAborted();
    const count = await ask(REMOVED, { project, olderThan });
    if (count > 0 || only !== undefined) removed.set(project, count);
  }
  const total = [...removed.values()].reduce((sum, count) => sum + count, 0);
  if (dryRun) return { purged: 0, would_purge: total };
  let purged = 0;
  for (const project of removed.keys()) {
    for (let isDone = false; !isDone; ) {
      const part = await ask(PURGE, { project, olderThan });
      purged += part.users;
      isDone = part.done;
      progress(purged, partOf(purged, total));
      signal.throwIfAborted();
    }
  }
  return { purged };
}

export function addTotalsCommand(program: Command, { act }: CommandContext): void {
  act(program.command('totals').description('check the tallies that exact totals are read from'), {
    name: 'totals check',
    description: 'count all users again and compare with the tallies; exits with 1 if they disagree',
    examples: ['totals check', 'totals check --project app_1 --repair'],
    takes: [projectOrAllOption('only this project'), option('--repair', 'correct the tallies that disagree')],
    unit: 'projects',
    act: compareTotals,
    print: report,
    isFailure: ({ differences }, { repair }) => differences.length > 0 && !repair,
  });
}

const DIFFERENCE = graphql(`fragment Difference on TallyDifference {
  span starts_at: startsAt login_method: loginMethod expected actual
}`);

const COMPARE = graphql(
  `query CompareTallies($project: ID!) { project(appId: $project) { tallyDifferences { ...Difference } } }`,
  [DIFFERENCE],
);

const REPAIR = graphql(`mutation RepairTallies($project: ID!) { repairTallies(appId: $project) { ...Difference } }`, [
  DIFFERENCE,
]);

async function compareTotals(
  { ask, progress, signal }: Tools,
  { project: only, repair = false }: { readonly project?: string; readonly repair?: boolean },
) {
  const appIds = await appIdsOf({ ask }, only);
  const differences = [];
  for (const [place, project] of appIds.entries()) {
    signal.throwIfAborted();
    const wrong = repair ? await ask(REPAIR, { project }) : await ask(COMPARE, { project });
    differences.push(...wrong.map((difference) => ({ app_id: project, ...difference })));
    progress(place + 1, partOf(place + 1, appIds.length));
  }
  return { projects: appIds.length, differences, repaired: repair && differences.length > 0 };
}

function report({ projects, differences, repaired }: Awaited<ReturnType<typeof compareTotals>>): string {
  const lines = differences.map(
    ({ app_id, span, starts_at, login_method, expected, actual }) =>
      `${app_id} ${span} ${starts_at} ${login_method}: tally ${actual}, counted ${expected}`,
  );
  const verdict =
    differences.length === 0 ? 'all agree' : `${differences.length} tallies ${repaired ? 'corrected' : 'disagree'}`;
  return [...lines, `Checked ${counted(projects, 'project')}: ${verdict}.`].join('\n');
}

export function addSeedCommand(program: Command, { act }: CommandContext): void {
  act(program, {
    name: 'seed',
    description: 'add synthetic users, the same ones for the same seed and day; existing users are not changed',
    examples: ['seed --project app_1 --users 10000', 'seed --project app_1 --users 500 --seed 7'],
    takes: [
      projectOption(),
      required('--users <N>', 'how many users', parseWholeNumber),
      option('--seed <S>', 'a number; another number makes other users', parseWholeNumber).default(1),
      option('--until <DAY>', 'the day before which they registered and logged in, as 2026-01-31').default(
        new Date().toISOString().slice(0, 10),
        'today',
      ),
    ],
    unit: 'users',
    interrupted: 'Interrupted. The users added so far remain.',
    act: addParts,
    print: ({ users, accounts }) => `Added ${users} users with ${accounts} accounts.`,
  });
}

const SEED = graphql(`mutation Seed($project: ID!, $users: Int!, $seed: Int!, $until: Date!, $after: String) {
  seedUsers(appId: $project, users: $users, seed: $seed, until: $until, after: $after) { users accounts done next }
}`);

async function addParts(
  { ask, progress, signal }: Tools,
  params: { readonly project: string; readonly users: number; readonly seed: number; readonly until: string },
) {
  const added = { users: 0, accounts: 0 };
  for (let after: string | null = null; ; ) {
    const { users, accounts, done, next }: Result<ResultOf<typeof SEED>> = await ask(SEED, { ...params, after });
    added.users += users;
    added.accounts += accounts;
    progress(done, partOf(done, params.users));
    signal.throwIfAborted();
    if (next === null) return added;
    after = next;
  }
}
