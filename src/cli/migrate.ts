import type { Command } from 'commander';
import type { PlannedMigration } from '../db/migrate.js';
import { jsonOption, option, parseDuration } from './arguments.js';
import type { CommandContext } from './run.js';
import { counted } from './terminal.js';

const HELP = `
It goes on where it was interrupted. Exits with 4 if other transactions left no moment for a step: try again.`;

interface Params {
  readonly dryRun?: true;
  readonly wait?: number;
}

type Result = { readonly applied: readonly string[] } | { readonly planned: readonly PlannedMigration[] };

export function addMigrateCommand(program: Command, { define }: CommandContext): void {
  define<Params, Result>(program, {
    name: 'migrate',
    description: 'apply the migrations that the database lacks',
    help: HELP,
    examples: ['migrate --dry-run', 'migrate --wait 30m'],
    takes: [
      option('--dry-run', 'say what would be done, with which locks and for how long, and change nothing'),
      option('--wait <TIME>', 'how long each step may wait for other transactions (default: 5m)', parseDuration),
      jsonOption(),
    ],
    // Every operation opens the database first, which applies the missing migrations.
    opens: ({ dryRun, wait }) => ({ migrates: !dryRun, ...(wait !== undefined && { waitMs: wait }) }),
    run: async ({ db, applied }, { dryRun }) => {
      if (!dryRun) return { applied };
      const { planMigrations } = await import('../db/migrate.js');
      return { planned: await planMigrations(db.direct) };
    },
    print: (result) => ('planned' in result ? printPlan(result.planned) : printApplied(result.applied)),
  });
}

function printApplied(applied: readonly string[]): string {
  return applied.length === 0 ? 'The database is up to date.' : `Applied ${applied.join(', ')}.`;
}

const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

function printPlan(planned: readonly PlannedMigration[]): string {
  if (planned.length === 0) return printApplied([]);
  // Those that are applied together are told of together.
  const isToldLater = (index: number) => isSame(planned[index]?.steps, planned[index + 1]?.steps);
  const lines = planned.flatMap(({ name, steps }, index) => [
    name,
    ...(isToldLater(index) ? [] : steps).flatMap(({ what, mode, locks, bound }) => [
      `  ${what} (${mode})`,
      ...(locks.length === 0 ? [] : [`    locks ${locks.map(({ table, lock }) => `${table} (${lock})`).join(', ')}`]),
      `    ${bound}`,
    ]),
  ]);
  return [`${counted(planned.length, 'migration')} would be applied:`, ...lines].join('\n');
}
