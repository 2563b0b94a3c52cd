import type { Command } from 'commander';
import { jsonOption, option } from './arguments.js';
import { graphql } from './graphql.js';
import { appIdsOf, requireProject } from './project.js';
import type { CommandContext, Tools } from './rows.js';
import { counted, progressOf } from './terminal.js';

export function addTotalsCommand(program: Command, { act }: CommandContext): void {
  act(program.command('totals').description('check the tallies that exact totals are read from'), {
    name: 'totals check',
    description: 'count all users again and compare with the tallies; exits with 1 if they disagree',
    examples: ['totals check', 'totals check --project app_1 --repair'],
    takes: [
      option('--project <APP_ID>', 'only this project'),
      option('--repair', 'correct the tallies that disagree'),
      jsonOption(),
    ],
    variables: ({ project, repair = false }) => ({ project, repair }),
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
  `query CompareTallies($appId: ID!) { project(appId: $appId) { tallyDifferences { ...Difference } } }`,
  [DIFFERENCE],
);

const REPAIR = graphql(`mutation RepairTallies($appId: ID!) { repairTallies(appId: $appId) { ...Difference } }`, [
  DIFFERENCE,
]);

async function compareTotals(
  { ask, progress, signal }: Tools,
  params: { project: string | undefined; repair: boolean },
) {
  const appIds = await appIdsOf({ ask }, params.project);
  const differences = [];
  for (const [place, appId] of appIds.entries()) {
    signal.throwIfAborted();
    const found = params.repair
      ? (await ask(REPAIR, { appId })).repairTallies
      : requireProject((await ask(COMPARE, { appId })).project, appId).tallyDifferences;
    differences.push(...found.map((difference) => ({ app_id: appId, ...difference })));
    progress(progressOf(place + 1, appIds.length));
  }
  return { projects: appIds.length, differences, repaired: params.repair && differences.length > 0 };
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
