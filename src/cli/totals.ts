import type { Command } from 'commander';
import type { Services } from '../context.js';
import { jsonOption, option } from './arguments.js';
import { type Io, type OperationContext, progressOf, readProjects } from './operation.js';
import type { CommandContext } from './run.js';
import { counted } from './terminal.js';

export function addTotalsCommand(program: Command, { define }: CommandContext): void {
  define(program.command('totals').description('check the tallies that exact totals are read from'), {
    name: 'totals check',
    description: 'count all users again and compare with the tallies; exits with 1 if they disagree',
    examples: ['totals check', 'totals check --project app_1 --repair'],
    takes: [
      option('--project <APP_ID>', 'only this project'),
      option('--repair', 'correct the tallies that disagree'),
      jsonOption(),
    ],
    params: ({ project = null, repair = false }) => ({ project, repair }),
    unit: 'projects',
    run: compareTotals,
    print: report,
    isFailure: ({ differences }, { repair }) => differences.length > 0 && !repair,
  });
}

async function compareTotals(
  { services, operator }: OperationContext,
  params: { project: string | null; repair: boolean },
  { progress }: Io,
) {
  const all = params.project === null ? await services.projects.countProjects() : 1;
  const differences = [];
  let projects = 0;
  for await (const appId of appIdsOf(services, params.project)) {
    const scope = await services.projects.getScope(appId, operator);
    const found = await (params.repair ? services.totals.repair(scope) : services.totals.check(scope));
    differences.push(...found.map((difference) => ({ app_id: appId, ...difference })));
    projects += 1;
    progress(progressOf(projects, Math.max(projects, all)));
  }
  return { projects, differences, repaired: params.repair && differences.length > 0 };
}

/** The App ID that was given, or those of all projects. */
async function* appIdsOf(services: Services, appId: string | null): AsyncGenerator<string> {
  if (appId !== null) yield appId;
  else for await (const page of readProjects(services)) yield* page.map((project) => project.appId);
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
