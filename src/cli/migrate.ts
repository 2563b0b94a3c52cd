import type { Command } from 'commander';
import { VERSION } from '../config/build.js';
import { graphql } from '../dashboard/documents.js';
import type { Plan } from '../db/migrate.js';
import { COMMAND, counted } from '../errors.js';
import { option, parseDuration } from './arguments.js';
import type { CommandContext } from './rows.js';

const HELP = `
It goes on where it was interrupted. Exits with 4 if other transactions left no moment for a step: try again.`;

interface Params {
  readonly dryRun?: true;
  readonly wait?: number;
}

type Result = { readonly applied: readonly string[] } | Plan;

const NOTHING_PLANNED: Plan = {
  target: null,
  planned: [],
  oldest_release: null,
};

export function addMigrateCommand(program: Command, { act }: CommandContext): void {
  act<Params, Result>(program, {
    name: 'migrate',
    description: 'apply the migrations that the database lacks',
    help: HELP,
    examples: ['migrate --dry-run', 'migrate --wait 30m'],
    takes: [
      option('--dry-run', 'say what would be done, with which locks and for how long, and change nothing'),
      option('--wait <TIME>', 'how long each step may wait for other transactions (default: 5m)', parseDuration),
    ],
    // Every command opens the database first, which applies the missing migrations.
    opens: ({ dryRun, wait }) => ({ migrates: !dryRun, ...(wait !== undefined && { waitMs: wait }) }),
    interrupted: ({ dryRun }) =>
      dryRun ? 'Interrupted.' : `Interrupted. What is done stays done: run ${COMMAND} migrate again to go on.`,
    act: async ({ reach }, { dryRun }) => {
      const where = await reach();
      // A server has applied them before it could be reached.
      if (where.services === null) return dryRun ? NOTHING_PLANNED : { applied: [] };
      if (!dryRun) return { applied: where.applied };
      const { planMigrations } = await import('../db/migrate.js');
      return planMigrations(where.db);
    },
    print: (result) => ('planned' in result ? printPlan(result) : printApplied(result.applied)),
  });
}

const RESTORED_HELP = `
A restore of a dump is noticed without it. It is for what cannot be told from a restart, such as a snapshot of the disk that was put back.`;

export function addRestoredCommand(program: Command, { row }: CommandContext): void {
  row(program, {
    name: 'restored',
    description:
      'say that this database was restored: new IDs begin far beyond the known ones, and webhooks are paused',
    help: RESTORED_HELP,
    examples: ['restored'],
    takes: [],
    document: graphql(`mutation NoteRestore { noteRestore }`),
    pick: (at) => ({ restored_at: at }),
    print: ({ restored_at }) =>
      `Noted at ${restored_at}: new IDs begin far beyond the known ones, and webhooks are paused.`,
  });
}

function printApplied(applied: readonly string[]): string {
  return applied.length === 0 ? `The database is up to date for userdir ${VERSION}.` : `Applied ${applied.join(', ')}.`;
}

/** First what an operator decides by: where it is, and which processes must stop. */
function printPlan({ target, planned, oldest_release: oldest }: Plan): string {
  if (planned.length === 0) return printApplied([]);
  const lines = planned.flatMap(({ name, steps, steps_done: done }) => [
    done === 0 ? name : `${name}, of which ${done} of ${done + steps.length} steps are done`,
    ...steps.flatMap(({ what, mode, locks, bound }) => [
      `  ${what} (${mode})`,
      ...(locks.length === 0 ? [] : [`    locks ${locks.map(({ table, lock }) => `${table} (${lock})`).join(', ')}`]),
      `    ${bound}`,
    ]),
  ]);
  const where =
    target === null ? 'the embedded database' : `the database ${target.database} at ${target.host}, as ${target.role}`;
  return [
    `${counted(planned.length, 'migration')} would be applied to ${where}.`,
    ...(oldest === null ? [] : [`Stop older processes first: afterwards only userdir ${oldest} or newer may serve.`]),
    ...lines,
  ].join('\n');
}
